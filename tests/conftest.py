"""Which tests may run beside each other, and a line on those that were left out."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from tests.real_kafka import what_is_missing

#: Tests on brokers or Spark, which they share and which want a quiet machine. The others compute.
ON_BROKERS = ("tests/kafka/", "tests/clients/", "tests/reality/", "tests/spark/rebalances/")

#: Those that run on a real Kafka only, and so do not say it in their names.
REAL = (
    "tests/kafka/test_fixture.py",
    "tests/kafka/test_reality.py",
    "tests/kafka/test_security.py",
)

#: With fewer processes nothing runs beside tests on brokers.
ENOUGH = 3


def kafka_of(test: str) -> str:
    """Which Kafka a test runs on, by its id: "real", "embedded", or "" if on none."""
    if not test.startswith(ON_BROKERS):
        return ""
    return "real" if test.startswith(REAL) or "[real" in test else "embedded"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of enough processes one begins with the tests on a real Kafka and one with those on embedded
    ones, since they take longest. With fewer they come last: they want a quiet machine."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items.sort(key=lambda item: kafka_of(item.nodeid), reverse=processes >= ENOUGH)
    for item in items:
        if (kafka_of(item.nodeid) == "real") != (item.get_closest_marker("real") is not None):
            raise pytest.UsageError(f"{item.nodeid}: a real Kafka or not? See REAL in {__file__}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests on a real Kafka are in one process, and all on embedded ones; the rest is shared.

    By ids, for the groups of pytest-xdist 3.8 are lost with pytest 9.2 (`_nodeid` is not read any
    more), and then each process starts every cluster for itself.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Sharing(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            kafka = kafka_of(nodeid)
            return (kafka if self.numnodes >= ENOUGH else kafka and "brokers") or nodeid

    return Sharing(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line that says what was left out, and why; or what would run twice if it were asked to."""
    here = "tests/kafka/"
    reports = terminalreporter.stats
    missing = what_is_missing()
    ran = [report for outcome in ("passed", "failed") for report in reports.get(outcome, [])]
    if missing is None:
        slow = {report.nodeid for report in ran if "once" in report.keywords}
        if slow and not os.environ.get("AKTOR_BOTH"):
            terminalreporter.write_line(
                f"{len(slow)} slow tests ran on the real Kafka only; AKTOR_BOTH=1: on both"
            )
        return
    left_out = [r.nodeid for r in reports.get("skipped", []) if r.nodeid.startswith(here)]
    if not left_out:
        return
    names = {report.nodeid for report in ran}
    without = [one for one in left_out if one.replace("[real", "[embedded") not in names]
    files = Counter(one.split("::")[0].removeprefix(here) for one in without)
    terminalreporter.write_line(
        f"left out: {len(left_out)} tests of {here} on a real Kafka, since {missing}. "
        f"{len(left_out) - len(without)} of them ran on the embedded Kafka; not at all ran "
        + (", ".join(f"{count} of {name}" for name, count in sorted(files.items())) or "none")
    )
