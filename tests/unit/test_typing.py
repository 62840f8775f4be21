"""Type checkers find aktor where a program does. What they find in it: `tests.typing`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_mypy_finds_aktor_in_the_installation_that_make_makes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from aktor import KafkaConsumer\n\nprint(KafkaConsumer)\n")
    outside = {key: value for key, value in os.environ.items() if not key.endswith("PYTHONPATH")}
    # It looks for the modules, and does not read them, which would take a minute.
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--follow-imports=skip",
        "--config-file=",
        "program.py",
    ]

    ran = subprocess.run(command, cwd=tmp_path, env=outside, capture_output=True, text=True)

    assert ran.stdout == "Success: no issues found in 1 source file\n", ran.stdout + ran.stderr
