"""Hooks of the application on the events of a trace."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

import pytest

from aktor.trace import Trace, open_trace
from aktor.trace.file import trace_file


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    """A consumer's trace, to which nobody listens."""
    monkeypatch.delenv("AKTOR_TRACE", raising=False)
    return open_trace(consumer="c", group="g")


def test_a_hook_gets_the_events_of_its_level_and_above_until_it_is_taken_back(
    trace: Trace,
) -> None:
    got: list[dict[str, Any]] = []
    unsubscribe = trace.subscribe(got.append)

    trace.debug("a.debugged")
    trace.info("an.informed", partitions={"t-0"})
    trace.warning("a.warned")
    unsubscribe()
    trace.warning("a.missed")

    assert [event["event"] for event in got] == ["an.informed", "a.warned"]
    assert got[0]["partitions"] == ["t-0"]
    assert (got[0]["consumer"], got[0]["level"]) == ("c", "info")


def test_a_hook_of_states_does_not_cost_the_events_of_requests(trace: Trace) -> None:
    assert not trace.hears_debug()
    unsubscribe = trace.subscribe(lambda _: None)
    assert not trace.hears_debug()
    unsubscribe()
    trace.subscribe(lambda _: None, level="debug")
    assert trace.hears_debug()


def test_what_no_hook_has_named_is_not_even_numbered(trace: Trace) -> None:
    got: list[dict[str, Any]] = []
    unsubscribe = trace.subscribe(got.append, only={"a.state", "a.warned"})

    trace.info("another.state")
    assert trace.strand.last == 0
    trace.info("a.state")
    trace.warning("a.warned")
    trace.subscribe(lambda _: None)
    trace.info("another.state")

    assert [event["event"] for event in got] == ["a.state", "a.warned"]
    unsubscribe()
    trace.info("a.state")
    assert len(got) == 2


class _Interrupted(Set[str]):
    """Names of events; a signal handler runs while they are read for the first time."""

    def __init__(self, name: str, handler: Callable[[], object]) -> None:
        self.name = name
        self.handler: Callable[[], object] = handler

    def __contains__(self, name: object) -> bool:
        return name == self.name

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        handler, self.handler = self.handler, lambda: None
        handler()
        yield self.name


def test_a_signal_handler_may_hook_while_its_thread_does(trace: Trace) -> None:
    got: list[str] = []
    names = _Interrupted(
        "a.state", lambda: trace.subscribe(lambda event: got.append(event["event"]))
    )

    def hook() -> None:
        trace.subscribe(lambda _: None, only=names)
        trace.info("another.state")

    thread = threading.Thread(target=hook, daemon=True)
    thread.start()
    thread.join(10.0)

    assert not thread.is_alive()
    assert got == ["another.state"]


def test_no_thread_forgets_the_hook_of_another(trace: Trace) -> None:
    got: list[int] = []

    def hook(number: int) -> None:
        for _ in range(200):
            trace.subscribe(lambda _: None)()
        trace.subscribe(lambda _: got.append(number))

    threads = [threading.Thread(target=hook, args=(number,)) for number in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    trace.info("a.state")

    assert sorted(got) == [0, 1, 2, 3]


def test_what_a_hook_raises_is_printed_and_stops_nothing(
    trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    got: list[dict[str, Any]] = []

    def fails(_: dict[str, Any]) -> None:
        raise RuntimeError("the hook stumbled")

    trace.subscribe(fails)
    trace.subscribe(got.append)
    trace.info("an.event")

    assert [event["event"] for event in got] == ["an.event"]
    assert "RuntimeError: the hook stumbled" in capsys.readouterr().err


def test_an_exit_that_a_hook_raises_on_another_thread_does_not_end_that_thread(
    trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    went_on = []

    def exits(_: dict[str, Any]) -> None:
        raise SystemExit

    def tells() -> None:
        trace.info("an.event")
        went_on.append(True)

    trace.subscribe(exits)
    thread = threading.Thread(target=tells)
    thread.start()
    thread.join()

    assert went_on == [True]
    assert "SystemExit" in capsys.readouterr().err


def test_a_hook_may_change_the_event_that_it_got(trace: Trace) -> None:
    got: list[dict[str, Any]] = []
    trace.subscribe(lambda event: event.clear())
    trace.subscribe(got.append)

    trace.info("an.event")

    assert got[0]["event"] == "an.event"


def test_what_a_hook_or_a_handler_changes_within_an_event_nobody_else_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lists and mappings are its own, too: also those that every event of a trace has."""
    monkeypatch.setenv("AKTOR_TRACE", str(tmp_path / "trace"))
    trace = open_trace(topics=["orders"])
    got: list[dict[str, Any]] = []

    def empties(event: dict[str, Any]) -> None:
        event["topics"].clear()
        event["offsets"]["orders-0"].clear()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            empties(vars(record)["aktor"])

    logger, handler = logging.getLogger("aktor"), Handler()
    caplog.set_level(logging.DEBUG, logger="aktor")
    logger.addHandler(handler)
    trace.subscribe(empties)
    trace.subscribe(got.append)
    for _ in range(2):
        trace.info("an.event", offsets={"orders-0": {"offset": 5}})
    logger.removeHandler(handler)

    file = trace_file(str(tmp_path / "trace"))
    file.flush(30.0)
    lines = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    assert len(got) == len(lines) == 2
    for event in (*got, *lines):
        assert event["topics"] == ["orders"]
        assert event["offsets"] == {"orders-0": {"offset": 5}}


def test_the_same_function_can_hook_twice_and_is_taken_back_once(trace: Trace) -> None:
    got: list[dict[str, Any]] = []
    unsubscribe = trace.subscribe(got.append)
    trace.subscribe(got.append, level="warning")

    unsubscribe()
    unsubscribe()
    trace.info("an.info")
    trace.warning("a.warning")

    assert [event["event"] for event in got] == ["a.warning"]


def test_a_level_that_there_is_not_is_refused(trace: Trace) -> None:
    with pytest.raises(ValueError, match="level is one of debug, info, warning, error"):
        trace.subscribe(print, level="loud")
