"""A member whose trace ends while those of others go on: nobody in the group knows it yet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances import read
from aktor.trace.rebalances.lines import HEARTBEAT, Event
from aktor.trace.rebalances.rows import Silence
from aktor.trace.rebalances.silences import in_sentences
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.incidents import Incident, sentences_of
from tests.unit.trace.rebalances.told import BEGAN, Member, as_lines, rows_of, thinned

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])

#: Where one of them shows nearly all that the other does.
ONE = pytest.mark.parametrize("protocol", all_but_the_first(1, ["consumer", "classic"]))

#: The usual session of a classic member; that of a KIP-848 member is as long.
SESSION = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 3000}

#: As it is said of a partition.
ENDS = "its trace ends there, while those of others go on"


def silences(events: Iterable[Event]) -> list[str]:
    rows, _ = read(json.dumps(event) for event in events)
    return [
        sentence for _, sentence in in_sentences(row for row in rows if isinstance(row, Silence))
    ]


def a_group(sim: Simulation, protocol: str, seconds: float = 200.0) -> tuple[Incident, list[Any]]:
    group = Incident(sim, protocol, seconds=seconds)
    session = SESSION if protocol == "classic" else {}
    members = [group.joins(**session) for _ in range(3)]
    sim.run(for_=20)
    return group, members


@BOTH
@pytest.mark.parametrize("idle", all_but_the_first(1, [True, False]))
def test_a_member_that_was_killed_is_told_before_its_session_is_over(
    protocol: str, idle: bool
) -> None:
    with Simulation(1) as sim:
        group, (_, bob, _) = a_group(sim, protocol, 5.0 if idle else 200.0)
        bob.kill()
        sim.run(for_=5)
        early = silences(group.events())
        sim.run(for_=15)
        (late,) = silences(group.events())
        sim.run(for_=60)
        events = group.events()

    assert early == []
    assert late.startswith("g: bob on host-bob was given nothing from orders-")
    assert late.count("orders-") == 2
    assert f" s, and it goes on: {ENDS}, and no other member has its partitions. If" in late
    # Its session is over: the rebalance tells it.
    assert silences(events) == []
    (sentence,) = sentences_of(events, since=21)
    assert "triggered by bob on host-bob: the coordinator took it out of the group" in sentence


@ONE
def test_a_member_that_stands_still_is_told_and_not_when_it_is_back(protocol: str) -> None:
    with Simulation(1) as sim:
        group, (_, bob, _) = a_group(sim, protocol)
        bob.freeze()
        sim.run(for_=20)
        (told,) = silences(group.events())
        bob.thaw()
        sim.run(for_=10)
        back = silences(group.events())

    assert ENDS in told
    assert not any(ENDS in one for one in back)


@pytest.mark.parametrize(
    ("protocol", "lived"), [("classic", 1.0), ("classic", 4.5), ("consumer", 6.0)]
)
def test_a_member_that_was_killed_soon_after_it_joined_is_told(protocol: str, lived: float) -> None:
    """Its trace does not say how often it sends heartbeats: the setting does, or the limit of
    brokers."""
    slowly = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 3000}
    with Simulation(1) as sim:
        group = Incident(sim, protocol, seconds=100.0)
        configs = slowly if protocol == "classic" else {}
        group.joins(**configs)
        sim.run(for_=10)
        bob = group.joins(**configs)
        sim.run(for_=3 + lived)
        bob.kill()
        sim.run(for_=8)
        early = silences(group.events())
        sim.run(for_=8 if protocol == "classic" else 24)
        events = group.events()

    assert not [one for one in early if ENDS in one]
    assert [one for one in silences(events) if ENDS in one and "bob on host-bob" in one]
    # A trace without heartbeats does not end because it tells nothing.
    assert not silences(event for event in events if event["level"] != "debug")


@ONE
def test_a_member_that_closes_its_consumer_or_lives_is_not_told(protocol: str) -> None:
    with Simulation(1) as sim:
        group, (_, bob, _) = a_group(sim, protocol, seconds=5.0)
        sim.run(for_=40)
        assert silences(group.events()) == []
        bob.does_next = lambda loop, consumer: (consumer.close(), sim.sleep(1000))
        sim.run(for_=30)

        assert silences(group.events()) == []


@ONE
def test_the_trace_of_a_single_member_and_those_of_all_that_end_say_nothing(protocol: str) -> None:
    with Simulation(1) as sim:
        group, members = a_group(sim, protocol)
        for member in members:
            member.kill()
        sim.run(for_=30)
        events = group.events()

    assert silences(events) == []
    assert silences(event for event in events if event["consumer"] == "bob") == []


@ONE
def test_without_the_coordinator_no_member_that_lives_is_told(protocol: str) -> None:
    with Simulation(1) as sim:
        group, _ = a_group(sim, protocol, seconds=5.0)
        sim.brokers.crash(sim.brokers.coordinator("g"))
        for _ in range(12):
            sim.run(for_=3)
            assert not any(ENDS in one for one in silences(group.events()))


# -- by hand


@pytest.fixture
def events() -> list[Event]:
    return []


def lives(member: Member, since: float, until: float, every: float = 3.0) -> None:
    """Its heartbeats are answered."""
    count = int((until - since) / every)
    for number in range(count + 1):
        member.tells(since + number * every, "request.answered", api="Heartbeat", node=1)


def two(events: list[Event], until: float, every: float = 3.0) -> tuple[Member, Member]:
    """Bob owns t-0 and t-1; his trace ends after 30 s, that of alice so many seconds later."""
    alice, bob = Member(events, "alice"), Member(events, "bob")
    alice.rebalances(BEGAN, BEGAN + 1, 1, because="first join", members=2, owns=["t-2"])
    bob.rebalances(BEGAN, BEGAN + 1, 1, because="first join", owns=["t-0", "t-1"])
    lives(alice, BEGAN, BEGAN + 30 + until)
    lives(bob, BEGAN, BEGAN + 30, every)
    return alice, bob


def told(events: list[Event]) -> list[Silence]:
    rows: list[Silence] = rows_of(events, Silence)
    return [row for row in rows if row.reason == "trace ended"]


@pytest.mark.parametrize(
    ("until", "every", "partitions"),
    [(9.0, 3.0, []), (12.0, 3.0, ["t-0", "t-1"]), (21.0, 15.0, []), (33.0, 15.0, ["t-0", "t-1"])],
)
def test_it_is_told_after_ten_seconds_and_two_intervals_of_its_heartbeats(
    events: list[Event], until: float, every: float, partitions: list[str]
) -> None:
    two(events, until, every)

    rows = told(events)

    assert [row.partition for row in rows] == partitions
    for row in rows:
        assert (row.consumer, row.began, row.ended) == ("bob", BEGAN + 30, None)
        assert row.sentence == (
            f"g: bob on host-bob was given nothing from {row.partition} for {until:.1f} s, and it"
            " goes on: its trace ends there, while those of others go on, and no other member has"
            " its partitions. If its process is gone, the group gives them away when its session is"
            " over; if its file was copied before the others, nothing is wrong."
        )


def test_what_a_member_told_last_is_when_it_begins(events: list[Event]) -> None:
    _, bob = two(events, 60.0)
    bob.is_given(BEGAN + 32.5, "t-0", 0, 9)

    assert {row.began for row in told(events)} == {BEGAN + 32.5}


def test_a_member_that_left_or_was_lost_is_not_told(events: list[Event]) -> None:
    _, bob = two(events, 60.0)
    bob.tells(BEGAN + 31, "membership.moved", before="stable", after="leaving")

    assert told(events) == []


@pytest.mark.parametrize("event", ["heartbeat.late", "coordinator.lost"])
def test_a_member_whose_coordinator_does_not_answer_is_not_told(
    events: list[Event], event: str
) -> None:
    """It sends no other heartbeat before that one has failed."""
    _, bob = two(events, 60.0)
    bob.tells(BEGAN + 34, event, node=1, address="b1:9092", because="it is away")

    assert told(events) == []


def test_traces_without_heartbeats_say_nothing_of_who_is_there(events: list[Event]) -> None:
    """They have only lines of a higher level."""
    alice, _ = two(events, 60.0)
    alice.is_given(BEGAN + 90, "t-2", 0, 9)

    assert told([event for event in events if event["event"] != "request.answered"]) == []


def test_another_clock_is_no_trace_that_goes_on(events: list[Event]) -> None:
    """That of alice is a minute ahead, as three generations have shown."""
    alice, bob = two(events, 60.0)
    for generation in (2, 3, 4):
        at = BEGAN + 5 * generation
        ids = {"alice-1": None, "bob-1": None}
        joined = {"generation": generation, "member_ids": ids, "members": 2}
        alice.tells(at + 60, "rebalance.joined", member="alice-1", **joined)
        bob.tells(at, "rebalance.joined", member="bob-1", generation=generation)
    events.sort(key=lambda event: event["t"])

    assert told(events) == []


@pytest.mark.parametrize("whose", ["alice", "bob"])
def test_a_clock_that_was_set_shows_nothing(events: list[Event], whose: str) -> None:
    members = dict(zip(("alice", "bob"), two(events, 60.0), strict=True))
    assert told(events)
    members[whose].tells(BEGAN + 15, "clock.set", seconds=60.0)

    assert told(events) == []


def test_partitions_that_another_member_has_are_not_told(events: list[Event]) -> None:
    alice, _ = two(events, 60.0)
    alice.tells(BEGAN + 75, "partitions.assigned", partitions={"t-0": 1}, by_group=True)

    assert told(events) == []


def test_a_member_that_the_leader_counts_no_more_is_not_told(events: list[Event]) -> None:
    """Its partitions are with one that has no trace."""
    alice, bob = two(events, 60.0)
    bob.tells(BEGAN + 30, "member.epoch", member="bob-1", before=1, after=1)
    alice.tells(
        *(BEGAN + 75, "rebalance.joined"),
        generation=2,
        member="alice-1",
        member_ids={"alice-1": None, "dave-1": None},
        members=2,
    )

    assert told(events) == []


@pytest.mark.parametrize("parts", [1, 3, 20])
def test_the_last_heartbeats_of_each_trace_are_enough(events: list[Event], parts: int) -> None:
    """Spark sends no others through its sort."""
    _, bob = two(events, 33.0)
    bob.is_given(BEGAN + 31.0, "t-0", 0, 9)
    lines = as_lines(events)

    taken = thinned(lines, parts)

    assert in_table(taken) == in_table(lines)
    assert len(in_table(lines)) == 2
    beats = [sum(f'"event": "{HEARTBEAT}"' in line for line in some) for some in (lines, taken)]
    assert parts > 1 or beats == [11 + 22, 7 + 7]  # the first, too: see test_outages


def in_table(lines: list[str]) -> list[Silence]:
    return [row for row in read(lines)[0] if isinstance(row, Silence)]
