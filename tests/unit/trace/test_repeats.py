"""Warnings that come again and again: which of them the application's log has."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aktor.trace import listening_to_all, open_trace
from aktor.trace.repeats import AGAIN_AFTER, AGAIN_AT_MOST, KINDS_MAX, QUIET, Repeats


def failed(at: float, address: str = "a:1", because: str = "refused", **keys: Any) -> Any:
    return {
        "event": "connection.failed",
        "mono": at,
        "address": address,
        "node": 1,
        "because": because,
        **keys,
    }


def heeded(repeats: Repeats, *events: dict[str, Any]) -> list[int | None]:
    return [repeats.heed(event) for event in events]


def test_the_first_is_told_and_the_next_ones_are_counted() -> None:
    repeats = Repeats()

    assert heeded(repeats, *[failed(at) for at in range(11)]) == [0, *[None] * 9, 9]


def test_in_a_long_outage_it_is_told_less_and_less_often() -> None:
    repeats = Repeats()
    told = [at for at in range(3600) if repeats.heed(failed(float(at))) is not None]

    assert told[:5] == [0, 10, 30, 70, 150]
    assert told[-1] - told[-2] == AGAIN_AT_MOST
    assert len(told) < 20


@pytest.mark.parametrize(
    "other",
    [
        {"address": "b:1"},
        {"node": 2},
        {"because": "no answer"},
        {"event": "fetch.failed"},
    ],
    ids=str,
)
def test_another_broker_reason_or_event_is_told_at_once(other: dict[str, Any]) -> None:
    repeats = Repeats()

    assert heeded(repeats, failed(0.0), failed(1.0, **other), failed(2.0)) == [0, 0, None]


def test_numbers_make_no_other_reason() -> None:
    repeats = Repeats()
    first, second = (failed(at, because=f"no answer within {at} s") for at in (1.5, 2.0))

    assert heeded(repeats, first, second) == [0, None]


def test_after_a_quiet_minute_it_is_news_again() -> None:
    repeats = Repeats()
    heeded(repeats, failed(0.0), failed(1.0))

    assert heeded(repeats, failed(1.0 + QUIET), failed(2.0 + QUIET)) == [0, None]


@pytest.mark.parametrize("event", ["broker.returned", "brokers.reached"])
def test_once_the_broker_is_back_its_next_failure_is_news(event: str) -> None:
    repeats = Repeats()
    back = {"event": event, "mono": 2.0, **({"node": 1} if event == "broker.returned" else {})}

    assert heeded(repeats, failed(0.0), failed(1.0), back, failed(3.0)) == [0, None, 0, 0]


def test_another_broker_that_is_back_does_not_make_it_news() -> None:
    repeats = Repeats()
    back = {"event": "broker.returned", "mono": 2.0, "node": 2}

    assert heeded(repeats, failed(0.0), back, failed(3.0)) == [0, 0, None]


@pytest.mark.parametrize("event", ["record.retried", "commit.failed", "member.lost"])
def test_what_is_not_tried_again_and_again_is_always_told(event: str) -> None:
    repeats = Repeats()

    assert heeded(repeats, *[failed(at, event=event) for at in (0.0, 0.1, 0.2)]) == [0, 0, 0]


def test_it_takes_bounded_memory() -> None:
    repeats = Repeats()
    for number in range(10 * KINDS_MAX):
        repeats.heed(failed(0.0, address=f"{number}:1", node=number))

    assert len(repeats._told) <= KINDS_MAX


def tell_three(trace: Any) -> None:
    for _ in range(3):
        trace.warning("fetch.failed", node=1, because="refused")


def test_a_log_has_one_of_them_and_a_listener_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="aktor")
    heard: list[dict[str, Any]] = []
    with listening_to_all(heard.append):
        tell_three(open_trace())

    assert len(caplog.records) == 1
    assert [event["event"] for event in heard] == ["fetch.failed"] * 3


def test_a_log_at_debug_has_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="aktor")

    tell_three(open_trace())

    assert len(caplog.records) == 3


def test_the_log_says_how_many_were_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, logger="aktor")
    trace, now = open_trace(), [100.0]
    monkeypatch.setattr("aktor.trace.monotonic", lambda: now[0])
    tell_three(trace)
    now[0] += AGAIN_AFTER
    tell_three(trace)

    first, second = [record.aktor for record in caplog.records]  # type: ignore[attr-defined]
    assert "repeated" not in first
    assert second["repeated"] == 2
    assert "repeated=2" in caplog.records[1].getMessage()


def test_two_consumers_have_each_their_first(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="aktor")

    tell_three(open_trace())
    tell_three(open_trace())

    assert len(caplog.records) == 2
