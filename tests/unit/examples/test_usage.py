"""An example that is run without arguments says how it is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate import all_but_the_first

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "name",
    all_but_the_first(1, ["bad_record", "moving_a_group", "poll_and_commit", "rebalance_listener"]),
)
def test_an_example_without_arguments_says_how_it_is_run(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert f"python -m examples.{name} localhost:9092 orders billing" in done.stderr
    assert "Traceback" not in done.stderr
