"""Consumers of one client id on one host: rows and sentences tell them apart."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Downtime, MemberTotal, Rebalance, Span
from tests.unit.trace.rebalances.told import Member, rows_of

SECOND = "app (pid 4712)"


class Process(Member):
    """Writes the trace of one of several consumers whose client id is `app`."""

    def __init__(self, events: list[Event], trace: str, pid: int | None) -> None:
        super().__init__(events, "app", "vm")
        self._origin = {"trace": trace, "source": trace, **({} if pid is None else {"pid": pid})}

    def tells(self, t: float, event: str, **values: Any) -> None:
        super().tells(t, event, **values)
        self._events[-1] |= self._origin


@pytest.fixture
def events() -> list[Event]:
    return []


def two(events: list[Event], *pids: int | None) -> tuple[Process, Process]:
    """The second one joins, and waits for a callback of the first one."""
    first, second = (Process(events, f"0{n}", pid) for n, pid in enumerate(pids))
    first.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0", "t-1"])
    first.is_given(10.0, "t-1", 0, 4)
    second.rebalances(50.0, 54.0, 2, because="first join", owns=["t-1"])
    first.tells(53.0, "callback.finished", callback="on_partitions_revoked", ms=2900.0)
    first.rebalances(50.1, 54.0, 2, members=2, owns=["t-0"], gives_up=["t-0", "t-1"])
    second.is_given(55.0, "t-1", 5, 6)
    return first, second


def test_who_comes_while_another_one_has_its_name_is_told_by_its_process(
    events: list[Event],
) -> None:
    two(events, 4711, 4712)

    row = rows_of(events, Rebalance)[1]
    (hand_over,) = (one for one in rows_of(events, Downtime) if one.partition == "t-1")

    assert (row.initiator, row.initiator_host, row.held_by) == (SECOND, "vm", "app")
    assert "triggered by app (pid 4712) on vm: first join; app on vm held it: " in row.sentence
    assert (hand_over.from_consumer, hand_over.to_consumer) == ("app", SECOND)
    totals = {row.consumer: (row.initiated, row.lives) for row in rows_of(events, MemberTotal)}
    assert totals == {"app": (1, 1), SECOND: (1, 1)}
    assert {row.trace: row.consumer for row in rows_of(events, Span)} == {"00": "app", "01": SECOND}


@pytest.mark.parametrize(
    ("pids", "told"),
    [
        ((4711, 4712, 4712), {"app", SECOND, "app (trace 02)"}),
        ((None, None, None), {"app", "app (trace 01)", "app (trace 02)"}),
    ],
    ids=["two in one process", "lines without a process"],
)
def test_consumers_whose_process_does_not_tell_them_apart_are_told_by_their_traces(
    pids: tuple[int | None, ...], told: set[str], events: list[Event]
) -> None:
    two(events, *pids[:2])
    Process(events, "02", pids[2]).tells(60.0, "rebalance.triggered", because="first join")

    assert {row.consumer for row in rows_of(events, MemberTotal)} == told


def test_who_comes_when_the_other_one_was_closed_has_the_plain_name(events: list[Event]) -> None:
    first, _ = two(events, 4711, 4712)
    first.leaves(60.0, ["t-0"])
    Process(events, "02", 4713).rebalances(70.0, 71.0, 3, because="first join", members=2)

    lives = {row.consumer: row.lives for row in rows_of(events, MemberTotal)}
    assert lives == {"app": 2, SECOND: 1}
