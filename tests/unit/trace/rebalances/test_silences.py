"""Silences: an owner is given nothing although there are records, and no group rebalances."""

from __future__ import annotations

import pytest

from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Silence
from tests.unit.trace.rebalances.told import BEGAN, Member, rows_of


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def alice(events: list[Event]) -> Member:
    return Member(events, "alice")


def stalls(alice: Member, t: float, reason: str, because: str, **more: object) -> None:
    alice.tells(
        *(t, "delivery.stalled"), topic="t", partition="t-0", reason=reason, because=because, **more
    )


def test_a_silence_lasts_from_when_it_began_until_records_come_again(
    events: list[Event], alice: Member
) -> None:
    stalls(alice, BEGAN + 11, "no leader", "no broker leads it", since=BEGAN + 10)
    alice.tells(BEGAN + 15, "delivery.resumed", topic="t", partition="t-0", seconds=5.0)

    (row,) = rows_of(events, Silence)

    assert (row.partition, row.consumer, row.reason) == ("t-0", "alice", "no leader")
    assert (row.began, row.ended, row.duration_ms) == (BEGAN + 10, BEGAN + 15, 5000)
    assert row.sentence == (
        "g: alice on host-alice was given nothing of t-0 for 5.0 s: no broker leads it."
    )


def test_the_consumers_own_clock_says_how_long_a_silence_was(
    events: list[Event], alice: Member
) -> None:
    stalls(alice, BEGAN + 11, "broker", "its leader is away", since=5.0)  # the clock was set
    alice.tells(BEGAN + 15, "delivery.resumed", topic="t", partition="t-0", seconds=9.0)

    (row,) = rows_of(events, Silence)

    assert (row.began, row.duration_ms) == (BEGAN + 6, 9000)


def test_of_several_reasons_the_one_that_lasted_longest_is_told(
    events: list[Event], alice: Member
) -> None:
    stalls(alice, BEGAN + 11, "broker", "its leader is away", since=BEGAN + 10)
    stalls(alice, BEGAN + 12, "coordinator", "the coordinator is away")
    alice.tells(BEGAN + 20, "delivery.resumed", topic="t", partition="t-0", seconds=10.0)

    (row,) = rows_of(events, Silence)

    assert (row.reason, row.because) == ("coordinator", "the coordinator is away")
    assert row.duration_ms == 10_000


def test_a_silence_that_the_traces_do_not_end_goes_on(events: list[Event], alice: Member) -> None:
    stalls(alice, BEGAN + 11, "broker", "its leader is away", since=BEGAN + 10)
    alice.tells(BEGAN + 30, "coordinator.found", node=1, address="b1:9092")

    (row,) = rows_of(events, Silence)

    assert (row.ended, row.duration_ms) == (None, None)
    assert row.sentence.endswith("for 20.0 s, and it goes on: its leader is away.")


def test_a_silence_ends_when_the_partition_is_given_up_or_another_member_gets_it(
    events: list[Event], alice: Member
) -> None:
    stalls(alice, BEGAN + 11, "broker", "its leader is away", since=BEGAN + 10)
    alice.tells(BEGAN + 13, "partitions.released", partitions={"t-0": 5})
    alice.tells(BEGAN + 14, "delivery.resumed", topic="t", partition="t-0", seconds=4.0)

    (row,) = rows_of(events, Silence)

    assert row.ended == BEGAN + 13


def test_a_pause_of_less_than_a_second_is_no_silence(events: list[Event], alice: Member) -> None:
    alice.tells(BEGAN, "partitions.paused", partitions={"t-0": 5})
    alice.tells(BEGAN + 0.9, "partitions.resumed", partitions={"t-0": 5})

    assert rows_of(events, Silence) == []


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"topic": 7, "partition": None},
        {"partition": ["t-0"], "since": "x"},
        {"topic": "t", "partition": 0, "since": True, "reason": 5, "because": []},
    ],
)
def test_odd_values_make_no_error(
    events: list[Event], alice: Member, values: dict[str, object]
) -> None:
    alice.tells(BEGAN, "delivery.stalled", **values)
    alice.tells(BEGAN + 1, "delivery.resumed", **values)
    alice.tells(BEGAN + 2, "partitions.paused", **values)

    assert len(rows_of(events, Silence)) <= 1
