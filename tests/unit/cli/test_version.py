"""`aktor --version`: which aktor, which reader of record batches, at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import aktor


def said(program: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


@pytest.mark.parametrize("pure", ["0", "1"])
def test_it_says_the_reader_that_a_consumer_uses(pure: str) -> None:
    version = said(
        "import sys; from aktor.cli.main import main; main(['--version'])", AKTOR_PURE_PYTHON=pure
    )
    used = said("from aktor import records; print(records.status())", AKTOR_PURE_PYTHON=pure)

    told, _, reader = version.strip().partition(", reader: ")
    assert told == f"aktor {aktor.__version__}"
    # Why there is no compiled one is found out by its import only.
    assert reader.partition(", because nothing")[0] == used.strip().partition(", because the")[0]


def test_it_imports_nothing_that_takes_long() -> None:
    program = """
import sys
from aktor.cli.main import main
try:
    main(["--version"])
except SystemExit:
    print({"kafka", "pykka", "structlog", "asyncio", "aktor.records"} & set(sys.modules))
"""

    assert said(program).splitlines()[-1] == "set()"
