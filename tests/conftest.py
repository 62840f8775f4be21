"""Which tests may run beside each other, and a line on those that were left out."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.real_kafka import what_is_missing

HERE = Path(__file__).parent

#: Tests on brokers, which they share and which want a quiet machine. The others compute.
ON_BROKERS = ("kafka", "clients", "reality")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on brokers are all in one process; the rest may be shared by several.

    Of three processes or more one begins with them, since they take longest. With fewer they come
    last: they want a quiet machine.
    """
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) >= 3
    items.sort(key=_is_on_brokers, reverse=beside)
    for item in items:
        if _is_on_brokers(item):
            item.add_marker(pytest.mark.xdist_group("brokers"))


def _is_on_brokers(item: pytest.Item) -> bool:
    inside = item.path.is_relative_to(HERE)
    return inside and item.path.relative_to(HERE).parts[0] in ON_BROKERS


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
