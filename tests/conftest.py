"""Which tests are left to .ci/run, which may run beside each other, and what was left out."""

from __future__ import annotations

import gc
import math
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Set
from functools import cache
from typing import Any

import pytest

from aktor.trace import listening_to_all, schema
from tests.gate import (
    FEW,
    MAKE_TEST,
    draw_at_most,
    leave_out_cases,
    make_what_has_one_of,
    words_of,
)
from tests.kafka.real import what_is_missing

#: Tests on brokers or Spark, which they share and which want a quiet machine. The others compute.
ON_BROKERS = ("tests/kafka/", "tests/clients/", "tests/spark/rebalances/")

#: Those that run on a real Kafka only, and so do not say it in their names.
REAL = (
    "tests/kafka/test_fixture.py",
    "tests/kafka/recorded/test_real.py",
    "tests/kafka/test_security.py",
)

#: Those of them that `make test` runs: the embedded Kafka has neither TLS nor ACLs, and its batches
#: are not written by Java.
PROVE = ("tests/kafka/test_security.py", "tests/kafka/test_records.py")

#: Of the tests that start Spark or Kafka's own tools, a Java for each, `make test` runs these: the
#: rows of a batch, a stream, the sink.
OF_JAVA = (
    "tests/kafka/test_spark.py",
    "tests/kafka/test_spark_batches.py::test_keys_values_and_headers",
    "tests/kafka/test_spark_options.py::test_a_mistake_is_refused",
    "tests/kafka/test_spark_sink.py::test_a_stream_goes_on_after_a_restart",
)

#: Those that start Spark. Most of their time they wait, or compute in a Java of their own.
SPARK = ("tests/kafka/test_spark", "tests/spark/rebalances/")

#: Those that start a program of Java, or the job over traces.
JAVA_PROGRAMS = ("tests/clients/test_java_tools.py", "tests/spark/rebalances/test_job.py")

#: On a busy machine a query of Spark takes more than a minute. This is a limit for what hangs.
JAVA_TIMEOUT_S = 600

#: So many processes at least: one computes, the others begin with the tests on brokers, which
#: mostly wait. With fewer, nothing runs beside tests on brokers.
ENOUGH = 4

#: The chains of tests on brokers, in this order, if there are enough processes; "" are the tests
#: that compute. The embedded Kafka starts in no time: each module on it is a chain.
CHAINS = ("spark", "three", "real", "embedded", "")

#: Tests that share what they compute, each group in one process.
TOGETHER = (
    *("tests/simulation/test_enumerated_crashes.py", "tests/test_tidy.py"),
    *("tests/unit/trace/rebalances/", "tests/unit/trace/pictures/"),
)

#: So much a process that computes gives way to the others, and to the brokers.
NICE = 10


def kafka_of(test: str) -> str:
    """Which Kafka a test runs on, by its id: "real", "embedded", or "" if on none."""
    if not test.startswith(ON_BROKERS):
        return ""
    return "real" if test.startswith(REAL) or "[real" in test else "embedded"


def chain_of(test: str) -> str:
    """Which tests on brokers a test follows in the same process, by its id: "spark", "three" or
    "real" (so many brokers, which take long to start), "embedded" with its module, or "" if it
    computes."""
    if test.startswith(SPARK):
        return "spark"
    kafka = kafka_of(test)
    if kafka == "embedded":
        return f"{kafka} {test.partition('::')[0]}"
    return "three" if "[real3" in test else kafka


def is_on_brokers(unit: str) -> bool:
    """Whether what is done together in one process (`unit_of`) is a chain."""
    return unit.partition(" ")[0] in CHAINS[:-1]


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known. And let Ctrl-C, which tests send, be an interrupt, as Python does
    unless a shell has begun the run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "gate: left to .ci/run, since it takes long")
    config.addinivalue_line("markers", f"{FEW}: of its cases most are left to .ci/run")


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Of tests with many cases `make test` runs a few. What `-k` does not ask for is not made."""
    yield
    leave_out_cases(metafunc)
    if words := words_of(metafunc.config.option.keyword):
        make_what_has_one_of(words, metafunc)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of enough processes all but one begin with chains of tests on brokers. With fewer these come
    last: they want a quiet machine. `make test` draws a third of the examples of Hypothesis.

    What `-k` or `make test` leaves out is left out at once: all that plugins do with the tests
    of a run, as to sort them by their fixtures, they would do with it, too."""
    ids = {item: item.nodeid for item in items}
    kinds = {item: (chain_of(test), kafka_of(test)) for item, test in ids.items()}
    items.sort(key=lambda item: place_of(kinds[item], takes_three_brokers(item), processes()))
    for item in items:
        marks = _marks_of(item)
        if (kinds[item][1] == "real") != ("real" in marks):
            raise pytest.UsageError(f"{ids[item]}: a real Kafka or not? See REAL in {__file__}")
        java = starts_java(item, ids[item])
        if is_left_to_the_gate(ids[item], java, marks):
            item.add_marker(pytest.mark.gate)
        if java and "timeout" not in marks:
            item.add_marker(pytest.mark.timeout(JAVA_TIMEOUT_S))
    if config.option.keyword:
        config.pluginmanager.get_plugin("mark").pytest_collection_modifyitems(items, config)
    if config.option.markexpr == MAKE_TEST:
        left = [item for item in items if "gate" in _marks_of(item)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if "gate" not in _marks_of(item)]
        for item in items:
            draw_at_most(lambda count: count // 3, item)


def takes_three_brokers(item: pytest.Item) -> bool:
    """Whether it takes the cluster of three brokers."""
    return "kafka3" in getattr(item, "fixturenames", ())


def place_of(kind: tuple[str, str], three: bool, processes: int) -> tuple[int, int, bool]:
    """Where a test stands among the others. `kind`: its chain and its Kafka; `three`: whether it
    takes three brokers: such tests are the last ones of their chain."""
    chain, kafka = (CHAINS.index(name.partition(" ")[0]) for name in kind)
    return (chain, kafka, three) if processes >= ENOUGH else (-chain, -kafka, three)


def _marks_of(node: pytest.Item | pytest.Collector) -> set[str]:
    """The names of its marks, those of its class, its module and its folders included."""
    return {mark.name for mark in node.own_markers} | _marks_of_all_in(node.parent)


@cache
def _marks_of_all_in(node: Any) -> frozenset[str]:
    return frozenset(_marks_of(node) if node else ())


def is_left_to_the_gate(test: str, java: bool, marks: Set[str]) -> bool:
    """Whether it runs on a real Kafka and the embedded one would do, or it starts a Java and
    another test of its kind runs often, or it takes long and has the marker `once`."""
    real = kafka_of(test) == "real" and not test.startswith(PROVE)
    return real or (java and not test.startswith(OF_JAVA)) or "once" in marks


def starts_java(item: pytest.Item, test: str) -> bool:
    """Whether it takes a session of Spark, or runs Kafka's own tools or the job over traces."""
    return "spark" in getattr(item, "fixturenames", ()) or test.startswith(JAVA_PROGRAMS)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Garbage is not collected meanwhile. All tests stay: to look at them again and again takes a
    tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What is there before the first test stays: collecting garbage, which many tests do, need not
    look at it again and again. (To look for garbage first takes a twentieth of the collection.)"""
    gc.freeze()


def processes() -> int:
    """How many processes run tests."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


_gives_way: list[int] = []

#: The shapes of events that were compared with the schema: names, levels, keys and types.
_as_they_should_be: set[tuple[Any, ...]] = set()


#: The test that runs.
_running: list[str] = []


@pytest.fixture(autouse=True)
def _sound() -> Iterator[None]:
    """Whatever a test makes a consumer tell is compared with the schema. (The tests of the trace
    tell events of their own.) And no consumer outlives its test: it would go on asking for a broker
    that has ended, and write that into the log that the next test reads; and the port of that
    broker another one may get. (The tests on a real Kafka are the same as those on the embedded
    one.)

    One fixture, which asks for no other one: each of them takes a fifth of the time that pytest
    needs for a test, and there are thousands.
    """
    test = _running[0]
    before = _threads_of_consumers()
    faults: list[str] = []
    if test.startswith("tests/unit/trace/"):
        yield
    else:
        with listening_to_all(lambda event: _compare(event, faults)):
            yield
    left = _threads_of_consumers() - before
    if left and kafka_of(test) != "real":
        gc.collect()
        for thread in left:
            thread.join(30.0)
        assert [thread.name for thread in left if thread.is_alive()] == []
    assert not faults


def _compare(event: dict[str, Any], faults: list[str]) -> None:
    """Add what is not as the schema says."""
    shape = (event["event"], event["level"], *event, *map(type, event.values()))
    values = event.values()
    if shape not in _as_they_should_be or math.inf in values or -math.inf in values:
        found = list(schema.faults_of(event))
        faults.extend(found)
        if not found:
            _as_they_should_be.add(shape)


def _threads_of_consumers() -> set[threading.Thread]:
    return {
        thread
        for thread in threading.enumerate()
        if type(thread).__module__ == "aktor.actors.runtime.dispatcher"
    }


@pytest.hookimpl(tryfirst=True)  # before the fixtures
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A process that computes gives way: who is on brokers waits for them, and measures times.

    It has no tests on brokers after that.
    """
    _running[:] = [item.nodeid]
    if not _gives_way and processes() >= ENOUGH and not kafka_of(item.nodeid):
        _gives_way.append(os.nice(NICE))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests of a chain are in one process, and those of `TOGETHER`; the rest is shared. One
    process computes from the start.

    By ids, for the groups of pytest-xdist 3.8 are lost with pytest 9.2 (`_nodeid` is not read any
    more), and then each process starts every cluster for itself.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.sharing import Sharing

    return Sharing(config, log, unit_of, is_on_brokers)


def unit_of(test: str, processes: int) -> str:
    """The name of what a test is done together with in one process, by its id; "": nothing."""
    if chain := chain_of(test):
        return chain if processes >= ENOUGH else "brokers"
    return next(filter(test.startswith, TOGETHER), "")


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
    without = [one for one in left_out if re.sub(r"\[real3?", "[embedded", one) not in names]
    files = Counter(one.split("::")[0].removeprefix(here) for one in without)
    terminalreporter.write_line(
        f"left out: {len(left_out)} tests of {here} on a real Kafka, since {missing}. "
        f"{len(left_out) - len(without)} of them ran on the embedded Kafka; not at all ran "
        + (", ".join(f"{count} of {name}" for name, count in sorted(files.items())) or "none")
    )
