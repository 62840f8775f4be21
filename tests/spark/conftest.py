"""Each test is a worker of Spark of its own, which ends with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aktor.spark.sink import producers
from aktor.spark.tasks import worker
from tests.spark import harness


@pytest.fixture(autouse=True)
def _worker_ends() -> Iterator[None]:
    """A client that a test left would go on asking for a broker that has ended, and write that into
    the log of the next test; its port another test may get."""
    yield
    worker._drop()
    producers._drop()
    harness.stop_runs()
