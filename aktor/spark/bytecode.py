"""`python -m aktor.spark.bytecode`: the Python processes of Spark start faster from then on.

They import PySpark from the archives `python/lib/*.zip` of Spark's home, which hold source code
only, so each process that is not forked from another compiles it again, for half a second. One is
started whenever a streaming query starts, and one for each kind of Python worker. This adds the
bytecode of the Python that runs it to the archives; with another Python they work as before.

Running processes read from the archives, so no Spark session may be open meanwhile.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import py_compile
import shutil
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

__all__ = ["add_bytecode", "archives", "has_bytecode"]


def archives(home: Path) -> list[Path]:
    """The archives of Python code in this home of Spark."""
    return sorted((home / "python" / "lib").glob("*.zip"))


def has_bytecode(archive: Path) -> bool:
    """Whether there is bytecode of this Python in it."""
    with zipfile.ZipFile(archive) as there:
        compiled = [one for one in there.namelist() if one.endswith(".pyc")]
        return bool(compiled) and there.read(compiled[0]).startswith(importlib.util.MAGIC_NUMBER)


def add_bytecode(archive: Path) -> int:
    """Compile all modules in it; returns how many. Those that this Python cannot compile stay as
    they are.

    The archive is replaced as a whole when all is done. Raises OSError, or zipfile.BadZipFile.
    """
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        written = Path(folder, archive.name)
        with zipfile.ZipFile(archive) as before, zipfile.ZipFile(written, "w") as after:
            count = _compile(before, after, archive, Path(folder))
        shutil.copymode(archive, written)
        os.replace(written, archive)
    return count


def _compile(before: zipfile.ZipFile, after: zipfile.ZipFile, archive: Path, folder: Path) -> int:
    count = 0
    for entry in before.infolist():
        if entry.filename.endswith(".pyc"):
            continue  # of another Python
        content = before.read(entry)
        after.writestr(entry, content)
        if entry.filename.endswith(".py"):
            bytecode = _bytecode(content, str(archive / entry.filename), folder)
            if bytecode is not None:
                after.writestr(entry.filename + "c", bytecode, zipfile.ZIP_DEFLATED)
                count += 1
    return count


def _bytecode(source: bytes, name: str, folder: Path) -> bytes | None:
    """The bytecode of a module; None if this Python cannot compile it. Python uses it without a
    look at the time of the source, which is in the same archive."""
    module, compiled = folder / "module.py", folder / "module.pyc"
    module.write_bytes(source)
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about PySpark's source, not ours
        try:
            py_compile.compile(str(module), str(compiled), name, True, invalidation_mode=unchecked)
        except py_compile.PyCompileError:
            return None
    return compiled.read_bytes()


def main(arguments: list[str] | None = None) -> int:
    """0 if all archives have bytecode now, 1 if one could not be written."""
    parser = argparse.ArgumentParser(
        prog="python -m aktor.spark.bytecode",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("home", nargs="?", help="the home of Spark; by default the one of PySpark")
    home = Path(parser.parse_args(arguments).home or _home())
    found = archives(home)
    if not found:
        print(f"{home} has no archives python/lib/*.zip: it is no home of Spark", file=sys.stderr)
        return 1
    for archive in found:
        try:
            if has_bytecode(archive):
                print(f"{archive}: has bytecode of this Python")
            else:
                print(f"{archive}: {add_bytecode(archive)} modules compiled")
        except (OSError, zipfile.BadZipFile) as error:
            print(f"{archive}: {error}", file=sys.stderr)
            return 1
    return 0


def _home() -> str:
    from pyspark.find_spark_home import _find_spark_home

    return str(_find_spark_home())


if __name__ == "__main__":
    sys.exit(main())
