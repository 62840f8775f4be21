"""A session of Spark for the tests here. Without Java they are left out, and a line says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark import session

HERE = Path(__file__).parent

_left_out: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs Spark's JVM."""
    if session.what_is_missing() is None:
        return
    without = [one for one in items if HERE in one.path.parents and _needs_spark(one)]
    _left_out.extend(one.nodeid for one in without)
    config.hook.pytest_deselected(items=without)
    items[:] = [one for one in items if one.nodeid not in _left_out]


def _needs_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    if _left_out:
        count, missing = len(_left_out), session.what_is_missing()
        terminalreporter.write_line(f"left out: {count} tests of rebalances. {missing}")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two cores: the one that is there, or a new one that ends with the module."""
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    folder = tmp_path_factory.mktemp("bin")
    found = there or session.a_session(python=session.command(folder))
    yield found
    if there is None:
        found.stop()
