"""How many seconds of the processor each suite takes: make test ARGS="-p tests.cpu".

With the processes that tests start, as far as they have ended: a broker counts for the test before
whose end it was stopped. Docs/testing.md has the table.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

#: Seconds and tests of each suite, in the process that prints them.
_seconds: Counter[str] = Counter()
_tests: Counter[str] = Counter()
#: Of whole processes: with what they import and collect.
_processes: list[float] = []
_began: list[float] = []


def seconds() -> float:
    """Of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _began[:] = [seconds()]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("cpu", seconds() - _began[0]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In a process of pytest-xdist, too, where nobody looks at them."""
    if report.when == "teardown":
        suite = "/".join(report.nodeid.split("::")[0].split("/")[:2])
        _seconds[suite] += dict(report.user_properties)["cpu"]
        _tests[suite] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cpu"] = seconds()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _processes.append(node.workeroutput["cpu"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each suite."""
    for suite, used in _seconds.most_common():
        terminalreporter.write_line(
            f"{used:8.1f} s of the processor: {suite}, {_tests[suite]} tests"
        )
    if _processes:
        terminalreporter.write_line(f"processes: {', '.join(f'{one:.0f} s' for one in _processes)}")
    terminalreporter.write_line(f"{seconds():8.1f} s with all processes that have ended")
