"""What the logger `aktor.spark` says is seen in the log of Spark's Python processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.gate import all_but_the_first

WARN = (
    "import aktor.spark, aktor.consumer.facade; from aktor.spark.offsets import data_loss;"
    " data_loss.report('lost', fail=False)"
)


@pytest.mark.parametrize(
    ("configured", "said"),
    all_but_the_first(
        2,
        [
            ("pass", 1),
            ("logging.basicConfig(stream=sys.stdout)", 0),
            ("logging.basicConfig()", 1),
            ("logging.getLogger('aktor').addHandler(logging.StreamHandler(sys.stdout))", 0),
            ("logging.getLogger('aktor').setLevel('ERROR')", 0),
        ],
    ),
)
def test_warnings_go_to_stderr_unless_the_user_says_where(configured: str, said: int) -> None:
    code = f"import logging, sys; {configured}; {WARN}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr.count("lost; failOnDataLoss=false") == said
