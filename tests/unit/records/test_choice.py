"""Which reader of record batches is used, and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import aktor.records

FOLDER = Path(aktor.records.__file__).parent


def status(**environment: str) -> str:
    """What a new process says."""
    code = "from aktor import records; print(records.status(), records.RecordReader.__module__)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=FOLDER.parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


def test_the_reader_in_python_is_used_if_the_environment_says_so() -> None:
    asked = status(AKTOR_PURE_PYTHON="1")

    assert asked == "Python, because AKTOR_PURE_PYTHON is set aktor.records.reader"


def test_where_there_is_a_compiler_the_compiled_reader_is_used_and_is_up_to_date() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which(compiler) is None or not headers.exists():
        pytest.skip(f"nothing can be compiled here: no {compiler}, or no {headers.name}")
    assert status(AKTOR_PURE_PYTHON="0") == "compiled aktor.records.kernel"

    from aktor.records import kernel

    built = Path(kernel.__file__).stat().st_mtime
    sources = [*FOLDER.glob("kernel.pyx"), *FOLDER.glob("*.h")]  # an installed package has none
    newest = max((source.stat().st_mtime for source in sources), default=0)
    assert built >= newest, "run `make build`: the compiled reader is older than its source"
