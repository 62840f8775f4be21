"""`python -m aktor.spark.bytecode`: the Python processes of Spark start faster from then on.

They import PySpark from the archives `python/lib/*.zip` of Spark's home, which hold source code
only, so each process that is not forked from another compiles it again, for half a second. One is
started whenever a streaming query starts, and one for each kind of Python worker. This adds the
bytecode of the Python that runs it to the archives; with another Python they work as before.

Running processes read from the archives, so no Spark session may be open meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import py_compile
import shutil
import sys
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Final

__all__ = ["BROKEN", "add_bytecode", "archives", "has_bytecode"]

#: The archive cannot be read or written.
BROKEN: Final = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def archives(home: Path) -> list[Path]:
    """The archives of Python code in this home of Spark."""
    return sorted((home / "python" / "lib").glob("*.zip"))


def has_bytecode(archive: Path) -> bool:
    """Whether its modules have bytecode of this Python beside their source."""
    with zipfile.ZipFile(archive) as there:
        names = set(there.namelist())
        compiled = [name + "c" for name in there.namelist() if name + "c" in names]
        return bool(compiled) and there.read(compiled[0]).startswith(importlib.util.MAGIC_NUMBER)


def add_bytecode(archive: Path) -> int:
    """Compile all modules in it; returns how many. Those that this Python cannot compile stay as
    they are.

    The archive is replaced as a whole when all is done. Raises an error of `BROKEN`.
    """
    file = archive.resolve()
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        written = Path(folder, file.name)
        with zipfile.ZipFile(file) as before, zipfile.ZipFile(written, "w") as after:
            count = _compile(before, after, archive, Path(folder))
        _take_owner(file, written)
        os.replace(written, file)
    return count


def _take_owner(before: Path, after: Path) -> None:
    """Who may read the one may read the other."""
    shutil.copymode(before, after)
    with contextlib.suppress(PermissionError):  # only root may give a file away
        os.chown(after, before.stat().st_uid, before.stat().st_gid)


def _compile(before: zipfile.ZipFile, after: zipfile.ZipFile, archive: Path, folder: Path) -> int:
    count = 0
    sources = {name for name in before.namelist() if name.endswith(".py")}
    for entry in before.infolist():
        if entry.filename[:-1] in sources:
            continue  # the bytecode of another Python
        content = before.read(entry)
        after.writestr(entry, content)
        if entry.filename in sources:
            bytecode = _bytecode(content, str(archive / entry.filename), folder)
            if bytecode is not None:
                compiled = zipfile.ZipInfo(entry.filename + "c", entry.date_time)
                compiled.external_attr = entry.external_attr
                after.writestr(compiled, bytecode, zipfile.ZIP_DEFLATED)
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
            py_compile.compile(
                str(module), str(compiled), name, True, optimize=0, invalidation_mode=unchecked
            )
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
    status = 0
    for archive in found:
        try:
            if has_bytecode(archive):
                print(f"{archive}: has bytecode of this Python")
            else:
                print(f"{archive}: {add_bytecode(archive)} modules compiled")
        except BROKEN as error:
            print(f"{archive}: {error}", file=sys.stderr)
            status = 1
    return status


def _home() -> str:
    from pyspark.find_spark_home import _find_spark_home

    return str(_find_spark_home())


if __name__ == "__main__":
    sys.exit(main())
