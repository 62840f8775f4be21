"""Silences: an owner is given nothing although there are records, and no group rebalances."""

from __future__ import annotations

import json
import re

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances import read
from aktor.trace.rebalances.group import GroupTraces
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Silence
from aktor.trace.rebalances.silences import in_sentences
from tests.unit.trace.rebalances.incidents import Incident, closes
from tests.unit.trace.rebalances.told import BEGAN, Member, rows_of


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
    stalls(alice, BEGAN + 11, "no leader", "no broker has led it", since=BEGAN + 10)
    alice.tells(BEGAN + 15, "delivery.resumed", topic="t", partition="t-0", seconds=5.0)

    (row,) = rows_of(events, Silence)

    assert (row.partition, row.consumer, row.reason) == ("t-0", "alice", "no leader")
    assert (row.began, row.ended, row.duration_ms) == (BEGAN + 10, BEGAN + 15, 5000)
    assert row.sentence == (
        "g: alice on host-alice was given nothing from t-0 for 5.0 s; it said after 1.0 s: no"
        " broker has led it."
    )


def test_a_silence_ended_when_the_consumer_says_though_it_tells_so_later(
    events: list[Event], alice: Member
) -> None:
    stalls(alice, BEGAN + 11, "throttled", "broker 1 has throttled us", since=BEGAN + 10)
    values = {"topic": "t", "partition": "t-0", "seconds": 1.5, "ended_ago": 0.75}
    alice.tells(BEGAN + 12.25, "delivery.resumed", **values)
    stalls(alice, BEGAN + 13.5, "throttled", "broker 1 has throttled us", since=BEGAN + 12.25)
    alice.tells(BEGAN + 15, "delivery.resumed", **values | {"seconds": 2.0})

    rows = [(row.began, row.ended, row.duration_ms) for row in rows_of(events, Silence)]
    assert rows == [(BEGAN + 10, BEGAN + 11.5, 1500), (BEGAN + 12.25, BEGAN + 14.25, 2000)]


def test_a_process_that_stood_still_is_a_silence_that_is_told_when_it_is_over(
    events: list[Event], alice: Member
) -> None:
    because = "the process stood still for at least 2.5 s, or its clock jumped"
    stalls(alice, BEGAN + 14, "consumer", because, since=BEGAN + 10)
    values = {"topic": "t", "partition": "t-0", "seconds": 3.0, "ended_ago": 1.0}
    alice.tells(BEGAN + 14, "delivery.resumed", **values)

    (row,) = rows_of(events, Silence)

    assert (row.reason, row.began, row.duration_ms) == ("consumer", BEGAN + 10, 3000)
    assert row.sentence == (
        "g: alice on host-alice was given nothing from t-0 for 3.0 s: the process stood still for"
        " at least 2.5 s, or its clock jumped."
    )


def test_that_a_stall_is_over_since_the_partition_is_paused_does_not_end_the_pause(
    events: list[Event], alice: Member
) -> None:
    stalls(alice, BEGAN + 11, "no leader", "no broker has led it", since=BEGAN + 10)
    alice.tells(BEGAN + 12, "partitions.paused", partitions=["t-0"])
    alice.tells(BEGAN + 13, "delivery.resumed", topic="t", partition="t-0", seconds=3.0)
    alice.tells(BEGAN + 20, "partitions.resumed", partitions=["t-0"])

    rows = [(row.reason, row.began, row.ended) for row in rows_of(events, Silence)]
    assert rows == [
        ("no leader", BEGAN + 10, BEGAN + 12),
        ("paused", BEGAN + 12, BEGAN + 20),
    ]


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
    assert row.sentence.endswith(
        "for 20.0 s, and it goes on; it said after 1.0 s: its leader is away."
    )


def test_a_silence_ends_when_the_partition_is_given_up_or_another_member_gets_it(
    events: list[Event], alice: Member
) -> None:
    stalls(alice, BEGAN + 11, "broker", "its leader is away", since=BEGAN + 10)
    alice.tells(BEGAN + 13, "partitions.released", partitions={"t-0": 5})
    alice.tells(BEGAN + 14, "delivery.resumed", topic="t", partition="t-0", seconds=4.0)

    (row,) = rows_of(events, Silence)

    assert row.ended == BEGAN + 13


def test_a_pause_by_process_is_a_silence_as_its_consumer_has_told_it(
    events: list[Event], alice: Member
) -> None:
    """It ends with the first record, not when the partition is resumed. A pause is no end of what
    was told before, either."""
    words = "the handlers of process() have yet to finish 21 delivered records"
    for number, partition in enumerate(("t-0", "t-1")):
        because = "process() waits for its handlers"
        alice.tells(BEGAN + number, "partitions.paused", partitions=[partition], because=because)
        alice.tells(BEGAN + number + 0.5, "partitions.resumed", partitions=[partition])
    stalls(alice, BEGAN + 4, "application", words, since=BEGAN + 2)
    alice.tells(BEGAN + 5, "partitions.paused", partitions=["t-0"], because="process() waits")
    alice.tells(BEGAN + 8, "partitions.resumed", partitions=["t-0"])
    alice.tells(BEGAN + 9, "delivery.resumed", topic="t", partition="t-0", seconds=7.0)

    (row,) = rows_of(events, Silence)

    assert (row.reason, row.because) == ("application", words)
    assert (row.began, row.ended) == (BEGAN + 2, BEGAN + 9)


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


def test_partitions_that_were_silent_together_for_one_reason_are_one_sentence(
    events: list[Event], alice: Member
) -> None:
    for number in range(8):
        began, ended = BEGAN + 10 + number / 10, BEGAN + 20 + number
        because = f"its leader (broker 1, b1:9092) has not answered for {1 + number / 10:.1f} s"
        alice.tells(
            *(began + 1, "delivery.stalled"),
            topic="t",
            partition=f"t-{number}",
            reason="broker",
            since=began,
            because=because,
        )
        alice.tells(ended, "delivery.resumed", topic="t", partition=f"t-{number}")
    stalls(alice, BEGAN + 41, "broker", "its leader (broker 1, b1:9092) is away", since=BEGAN + 40)

    told = list(in_sentences(rows_of(events, Silence)))

    assert sorted(at - BEGAN for at, _ in told) == [10, 40]
    assert told[0][1] == (
        "g: alice on host-alice was given nothing from t-0, t-1, t-2, t-3, t-4, t-5, ... (8) for up"
        " to 16.3 s; it said after 1.0 s: its leader (broker 1, b1:9092) has not answered for"
        " 1.7 s."
    )


def test_a_silence_that_goes_on_lasts_until_the_last_event_however_long_a_stream_waits(
    events: list[Event], alice: Member
) -> None:
    alice.tells(BEGAN, "rebalance.triggered", because="first join", rebalance=1)
    stalls(alice, BEGAN + 11, "broker", "its leader is away", since=BEGAN + 10)
    alice.tells(BEGAN + 30, "rebalance.completed", generation=1, ms=30_000)
    traces = GroupTraces("g")
    for event in events:
        traces.take(event)

    traces.wait(BEGAN + 1000)

    (row,) = (row for row in traces.end() if isinstance(row, Silence))
    assert " for 20.0 s, and it goes on" in row.sentence


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("levels", [("debug", "info", "warning"), ("info", "warning")])
def test_a_member_that_leaves_is_silent_while_its_revoked_callback_runs(
    protocol: str, levels: tuple[str, ...]
) -> None:
    """The group hears of it after that: its rebalance is short, and the pause is not."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        _, bob = group.joins(), group.joins()
        sim.run(for_=10)
        bob.slow_listener = 5.0
        closes(sim, bob)
        sim.run(for_=20)
        events = [event for event in group.events() if event["level"] in levels]

    rows = [row for row in read(map(json.dumps, events))[0] if isinstance(row, Silence)]

    assert {row.reason for row in rows} == {"callback"}
    assert len({row.partition for row in rows}) == len(rows) == 3
    assert all(abs((row.duration_ms or 0) - 5000) < 50 for row in rows)
    (told,) = in_sentences(rows)
    assert "bob on host-bob was given nothing from orders-" in told[1]
    # (At the level "debug" the consumer has told of it while the callback ran, with its line.)
    by_itself = "the listener's on_partitions_revoked has not returned for "
    words = by_itself if "debug" in levels else "its revoked callback ran before it left the group"
    assert words in told[1]


def test_a_callback_that_goes_on_while_its_member_leaves_is_told(
    events: list[Event], alice: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0"])
    alice.tells(5.0, "partitions.revoking", partitions={"t-0": 5}, loss="revoked")
    alice.tells(9.0, "request.answered", api="Heartbeat")

    (row,) = rows_of(events, Silence)

    assert (row.reason, row.began, row.ended) == ("callback", 5.0, None)


@pytest.mark.parametrize("seconds", [0.4, 2.0])
def test_a_revoked_callback_in_a_rebalance_or_a_short_one_is_no_silence_of_its_own(
    seconds: float, events: list[Event], alice: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0"])
    if seconds > 1:
        alice.tells(5.0, "rebalance.triggered", because="the group rebalances", generation=1)
    alice.tells(5.0, "partitions.revoking", partitions={"t-0": 5}, loss="revoked")
    alice.tells(
        *(5 + seconds, "callback.finished"),
        callback="on_partitions_revoked",
        partitions=["t-0"],
        ms=1000 * seconds,
    )
    alice.tells(5 + seconds, "partitions.released", partitions={"t-0": 5})

    # (Where the traces end, the rebalance goes on, and nobody has the partition.)
    assert [row.reason for row in rows_of(events, Silence)] == ["rebalance"] * (seconds > 1)


def test_a_silence_of_a_simulated_group_began_before_it_was_told() -> None:
    """A stall says since when by the time of day, which its trace has moved like all times."""
    with Simulation(1) as sim:
        group = Incident(sim, "classic")
        group.joins(max_poll_interval_ms=4000)
        sim.run(for_=10)
        sim.members[0].busy_for = 7.0
        sim.run(for_=20)
        events = group.events()

    told = {row["partition"]: row for row in events if row["event"] == "delivery.stalled"}
    rows = [row for row in read(map(json.dumps, events))[0] if isinstance(row, Silence)]

    assert {row.partition for row in rows} == set(told) != set()
    for row in rows:
        assert row.began == pytest.approx(told[row.partition]["since"], abs=0.01)
        assert told[row.partition]["t"] - row.began > 1.0
        assert re.search(r"; it said after \d\.\d s: the application has not polled", row.sentence)
