"""`python -m aktor.spark.bytecode`: Spark's archives of Python code get bytecode."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aktor.spark.bytecode import add_bytecode, archives, has_bytecode, main

SOURCES = {
    "tool/__init__.py": "NAME = 'tool'\n",
    "tool/broken.py": "def of another Python:\n",
    "tool/raises.py": "def fail():\n    raise KeyError('there')\n",
    "tool/data.json": "{}",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of Spark with one archive."""
    folder = tmp_path / "python" / "lib"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "tool.zip", "w") as archive:
        for name, source in SOURCES.items():
            archive.writestr(name, source)
    return tmp_path


def run(home: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can import what is in the archives."""
    paths = os.pathsep.join(map(str, archives(home)))
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )


def test_modules_are_imported_from_their_bytecode(home: Path) -> None:
    where = "import tool; print(tool.NAME, tool.__file__)"
    assert run(home, where).stdout.endswith("__init__.py\n")

    assert main([str(home)]) == 0

    assert run(home, where).stdout.startswith("tool ")
    assert run(home, where).stdout.endswith("__init__.pyc\n")


def test_the_sources_stay_and_a_traceback_shows_them(home: Path) -> None:
    (archive,) = archives(home)
    main([str(home)])

    with zipfile.ZipFile(archive) as there:
        assert {name: there.read(name).decode() for name in SOURCES} == SOURCES
    program = "import tool.raises, traceback\ntry: tool.raises.fail()\nexcept KeyError: "
    traceback = run(home, program + "traceback.print_exc()").stderr
    assert f'File "{archive}/tool/raises.py", line 2, in fail' in traceback
    assert "raise KeyError('there')" in traceback


def test_a_module_of_another_python_stays_as_it_is(home: Path) -> None:
    (archive,) = archives(home)

    assert add_bytecode(archive) == 2

    assert "tool/broken.pyc" not in zipfile.ZipFile(archive).namelist()
    assert "SyntaxError" in run(home, "import tool.broken").stderr


def test_an_archive_that_has_bytecode_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (archive,) = archives(home)
    main([str(home)])
    before = archive.read_bytes()

    assert main([str(home)]) == 0

    assert archive.read_bytes() == before
    assert "has bytecode of this Python" in capsys.readouterr().out


def test_bytecode_of_another_python_is_replaced(home: Path) -> None:
    (archive,) = archives(home)
    with zipfile.ZipFile(archive, "a") as there:
        there.writestr("tool/__init__.pyc", b"of another Python")
    assert not has_bytecode(archive)

    assert main([str(home)]) == 0

    assert has_bytecode(archive)
    names = zipfile.ZipFile(archive).namelist()
    assert names.count("tool/__init__.pyc") == 1


def test_a_module_without_its_source_stays(home: Path) -> None:
    (archive,) = archives(home)
    with zipfile.ZipFile(archive, "a") as there:
        there.writestr("tool/secret.pyc", b"bytecode only")
        there.writestr("tool/__pycache__/raises.cpython-311.pyc", importlib.util.MAGIC_NUMBER)

    assert main([str(home)]) == 0

    assert zipfile.ZipFile(archive).read("tool/secret.pyc") == b"bytecode only"
    assert has_bytecode(archive)


def test_an_archive_behind_a_link_is_replaced_and_keeps_its_rights(home: Path) -> None:
    (archive,) = archives(home)
    real = archive.rename(home / "real.zip")
    real.chmod(0o640)
    archive.symlink_to(real)

    assert main([str(home)]) == 0

    assert archive.is_symlink()
    assert has_bytecode(real)
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_no_home_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 1
    assert f"{tmp_path} has no archives" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", [lambda _: b"no archive", lambda whole: whole.replace(b"NAME", b"NOME", 1)]
)
def test_a_broken_archive_is_named_and_stays(
    home: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[bytes], bytes]
) -> None:
    (archive,) = archives(home)
    broken = damage(archive.read_bytes())
    archive.write_bytes(broken)

    assert main([str(home)]) == 1

    assert f"{archive}: " in capsys.readouterr().err
    assert archive.read_bytes() == broken
    assert list(archive.parent.iterdir()) == [archive]


@pytest.mark.gate
def test_the_archives_of_pyspark_can_be_used_with_their_bytecode(tmp_path: Path) -> None:
    import pyspark

    lib = tmp_path / "python" / "lib"
    lib.mkdir(parents=True)
    for archive in archives(Path(pyspark.__file__).parent):
        (lib / archive.name).write_bytes(archive.read_bytes())

    assert main([str(tmp_path)]) == 0

    program = "import pyspark.worker, pyspark.daemon; print(pyspark.worker.__file__)"
    assert run(tmp_path, program).stdout == f"{lib}/pyspark.zip/pyspark/worker.pyc\n"
