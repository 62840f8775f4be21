"""What is said of a rebalance that goes on when the traces end, or are looked at: at any moment it
is one row, with what triggered it and who holds it, and a partition that is silent is in a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from aktor.simulation import Simulation
from aktor.trace.pictures import draw
from aktor.trace.rebalances import Tables, tell
from aktor.trace.rebalances.lines import EVENTS, HEARTBEAT, Event
from aktor.trace.rebalances.rows import Rebalance, Silence
from aktor.trace.rebalances.transit import HEARD
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.incidents import Incident, closes
from tests.unit.trace.rebalances.told import BEGAN, Member, rows_of, storm_lines

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])

#: When carol joins, in seconds; and how long bob holds what comes of it.
JOINS = 10.0
HELD = 8.0

#: A member of a KIP-848 group hears of it by its next heartbeat, which comes each 5 seconds.
HEARS = {"classic": 1.2, "consumer": 5.2}

#: These take a partition from its owner, or give it one.
TAKES = {"partitions.held_back", "partitions.revoking", "partitions.released"}
TAKES |= {"partitions.assigned"}

#: The longest time in which no member tells anything: the interval of their heartbeats.
TELLS = {"classic": 1.1, "consumer": 5.1}

Bob = Any
Does = Callable[[Simulation, Bob], object]


def calls_back_slowly(_: Simulation, bob: Bob) -> None:
    bob.slow_listener = HELD


def does_not_poll(_: Simulation, bob: Bob) -> None:
    bob.busy_for = HELD + 4.0


class Course(NamedTuple):
    """Alice and bob read; carol joins, and bob holds that."""

    events: list[Event]
    #: Since when bob holds it.
    held: float

    def seen(self, seconds: float) -> Tables:
        """What the traces say if they end so many seconds after the beginning."""
        return Tables(tell(one for one in self.events if one["t"] <= BEGAN + seconds)[0])

    def taken(self, seconds: float) -> set[str]:
        """The partitions that nobody was to have then, since they were taken from their owners."""
        last: dict[str, str] = {}
        for one in self.events:
            if one["t"] <= BEGAN + seconds and one["event"] in TAKES:
                last.update(dict.fromkeys(one["partitions"], one["event"]))
        return {partition for partition, event in last.items() if event != "partitions.assigned"}


def course(
    protocol: str, bob_does: Does, after: Does | None = None, wait: float = 20.0, **configs: Any
) -> Course:
    with Simulation(1) as sim:
        group = Incident(sim, protocol, seconds=60.0)
        _, bob = (group.joins(**configs) for _ in range(2))
        sim.run(for_=JOINS)
        bob_does(sim, bob)
        sim.run(for_=0.3)
        group.joins(**configs)
        sim.run(for_=HEARS[protocol] + 0.5)
        if after is not None:
            after(sim, bob)
        sim.run(for_=wait)
        events = wanted(group.events())
    (held,) = {
        one["t"]
        for one in events
        if one["event"] == "rebalance.triggered"
        and one["consumer"] == "bob"
        and BEGAN + JOINS < one["t"] < BEGAN + JOINS + HEARS[protocol] + 1.0
    }
    return Course(events, held - BEGAN)


def wanted(events: list[Event]) -> list[Event]:
    """Those that are read, in their order."""
    kept = [
        {**one, "source": one["trace"]}
        for one in events
        if isinstance(one.get("group"), str) and (one["event"] in EVENTS or is_heartbeat(one))
    ]
    return sorted(kept, key=lambda one: (one["t"], one["source"], one["line"]))


def is_heartbeat(event: Event) -> bool:
    return event["event"] == HEARTBEAT and str(event.get("api")).endswith("Heartbeat")


def going_on(tables: Tables) -> list[Rebalance]:
    return [row for row in tables.rebalances if row.goes_on]


def silent(tables: Tables) -> dict[str, Silence]:
    return {row.partition: row for row in tables.silences if row.ended is None}


def check_each_moment(told: Course, protocol: str, held_in: str, *, until: float) -> None:
    """Four times a second from carol's join on, until bob is done."""
    since = told.held
    at = JOINS + 0.5
    while at < until:
        tables = told.seen(at)
        rows = going_on(tables)
        assert len(rows) <= 1, (at, [row.sentence for row in rows])
        if rows:
            (row,) = rows
            assert (row.trigger, row.initiator) == ("join", "carol"), row.sentence
            # (To the last event of all members.)
            assert row.duration_ms <= (at + BEGAN - row.began) * 1000 + 1
            assert row.duration_ms >= (at + BEGAN - row.began - TELLS[protocol]) * 1000
            assert " s so far, triggered by " in row.sentence or row.duration_ms < 1000
        if at > since + 2.0:
            (row,) = rows
            assert (row.held_by, row.held_in) == ("bob", held_in), row.sentence
            assert "bob on host-bob holds it: its " in row.sentence
            assert row.held_ms is not None
            assert (at - since - TELLS[protocol] - 0.3) * 1000 <= row.held_ms
            assert told.taken(at - 1.5) & told.taken(at) <= set(silent(tables)), at
        at += 0.25


@BOTH
def test_a_callback_that_has_not_returned_holds_a_rebalance_at_each_moment(protocol: str) -> None:
    told = course(protocol, calls_back_slowly)

    check_each_moment(told, protocol, "revoked_callback", until=told.held + HELD - 0.3)

    late = told.seen(told.held + HELD - 0.3)
    taken = silent(late).values()
    assert len(taken) == {"classic": 6, "consumer": 3}[protocol]
    for row in taken:  # bob tells it of his own partitions
        by_whom = (
            "the listener's on_partitions_revoked" if row.consumer == "bob" else "bob on host-bob"
        )
        assert by_whom in row.sentence
        assert " has not returned for " in row.sentence
    assert not any(row.goes_on for row in told.seen(1000).rebalances)


@BOTH
def test_who_does_not_poll_holds_a_rebalance_at_each_moment(protocol: str) -> None:
    told = course(protocol, does_not_poll)

    check_each_moment(told, protocol, "poll", until=told.held + HELD - 2.0)


@pytest.mark.parametrize("assignor", all_but_the_first(0, ["cooperative-sticky"]))
def test_both_rounds_of_a_cooperative_rebalance_are_one_that_goes_on(assignor: str) -> None:
    told = course("classic", calls_back_slowly, partition_assignment_strategy=[assignor], wait=30.0)

    check_each_moment(told, "classic", "revoked_callback", until=told.held + HELD - 0.3)


def all_close(sim: Simulation, _: Bob) -> None:
    for member in sim.members:
        closes(sim, member)


@BOTH
def test_members_that_close_before_it_is_over_leave_one_row_and_the_silences(protocol: str) -> None:
    told = course(protocol, calls_back_slowly, all_close).seen(1000)

    (row,) = (row for row in told.rebalances if row.initiator == "carol")
    assert (row.trigger, row.held_by, row.held_in) == ("join", "bob", "revoked_callback")
    assert not row.goes_on
    assert "unknown" not in {row.trigger for row in told.rebalances}
    taken = [row for row in told.silences if row.reason == "rebalance" and row.consumer == "bob"]
    assert taken
    for silence in taken:
        # (The callback is called again when the consumer is closed.)
        assert silence.duration_ms is not None
        assert HELD * 1000 - 100 <= silence.duration_ms <= 2 * HELD * 1000 + 500
        assert "its owner left before another member had it; bob on host-bob" in silence.sentence


@BOTH
def test_a_callback_of_a_member_that_closes_in_a_rebalance_is_one_silence(protocol: str) -> None:
    """It was told by what bob said meanwhile, and by the rebalance that came to no end."""

    told = course(protocol, calls_back_slowly, all_close).seen(1000)

    its = sorted(
        (row.partition, row.began, row.ended) for row in told.silences if row.consumer == "bob"
    )
    assert len(its) >= 3
    for (before, _, ended), (partition, began, _) in pairwise(its):
        # (A KIP-848 member has two callbacks: of what it gives up, and when it closes.)
        assert before != partition or (ended is not None and ended <= began + 0.5), its


@pytest.mark.parametrize("lives", [0.01, 0.05])
def test_nobody_is_waited_for_when_all_that_are_left_of_a_group_have_closed(lives: float) -> None:
    """Carol was killed amid its join, a minute before: it takes nothing over."""
    with Simulation(1) as sim:
        group = Incident(sim, "consumer", seconds=100.0)
        _, bob = group.joins(), group.joins()
        sim.run(for_=JOINS)
        carol = group.joins()
        sim.run(for_=lives)
        carol.kill()
        sim.run(for_=60.0)
        bob.slow_listener = 2.0
        for member in sim.members[:2]:
            closes(sim, member)
        sim.run(for_=5.0)
        tables = Tables(tell(wanted(group.events()))[0])

    assert silent(tables) == {}


@BOTH
@pytest.mark.parametrize("slow", all_but_the_first(1, [True, False]), ids=["callback", "poll"])
def test_a_member_that_was_killed_in_the_midst_held_it(protocol: str, slow: bool) -> None:
    """The others wait for its session."""
    bob_does = calls_back_slowly if slow else does_not_poll
    told = course(protocol, bob_does, lambda _, bob: bob.kill(), wait=60.0)

    early, late = told.seen(told.held + 5.0), told.seen(1000)

    (row,) = going_on(early)
    assert (row.initiator, row.held_by) == ("carol", "bob")
    (row,) = (row for row in late.rebalances if row.initiator == "carol")
    assert (row.trigger, row.held_by, row.held_in) == ("join", "bob", "session")
    into = "into its revoked callback" if slow else "after its application should have polled"
    assert "until the coordinator took it out of the group (its trace ends before: " in row.sentence
    assert f"s {into})" in row.sentence
    assert row.sentence.count("bob on host-bob") == 1
    assert "unknown" not in {row.trigger for row in late.rebalances}
    assert not going_on(late)


def test_a_killed_member_that_the_others_wait_for_is_named_while_they_do() -> None:
    """It was not told that the group rebalances."""
    told = course_of_a_killed_member()

    (row,) = going_on(told)
    assert (row.initiator, row.held_by, row.held_in) == ("carol", "bob", "session")
    assert "bob on host-bob holds it: it has not joined, and its trace has told" in row.sentence


def course_of_a_killed_member() -> Tables:
    with Simulation(1) as sim:
        group = Incident(sim, "classic", seconds=60.0)
        _, bob = group.joins(), group.joins()
        sim.run(for_=JOINS)
        bob.kill()
        sim.run(for_=0.5)
        group.joins()
        sim.run(for_=4.5)
        return Tables(tell(wanted(group.events()))[0])


def test_a_partition_of_a_consumer_that_is_being_closed_is_silent_while_its_callback_runs() -> None:
    with Simulation(1) as sim:
        group = Incident(sim, "classic", seconds=60.0)
        _, bob = group.joins(), group.joins()
        sim.run(for_=JOINS)
        bob.slow_listener = HELD
        closes(sim, bob)
        sim.run(for_=5.0)
        tables = Tables(tell(wanted(group.events()))[0])

    rows = silent(tables)
    assert len(rows) == 3
    for row in rows.values():
        assert (row.consumer, row.reason) == ("bob", "callback")
        assert ", and it goes on" in row.sentence


def test_partitions_that_somebody_without_a_trace_may_have_are_not_said_to_be_silent() -> None:
    """Alice gave them up long ago, and no rebalance goes on."""
    events: list[Event] = []
    alice, bob = Member(events, "alice"), Member(events, "bob")
    alice.rebalances(0.0, 1.0, 1, because="first join", owns=["t-0", "t-1"], members=1)
    alice.is_given(2.0, "t-0", 0, 9)
    alice.rebalances(10.0, 11.0, 2, owns=["t-0"], gives_up=["t-0", "t-1"], members=2)
    bob.tells(60.0, "rebalance.triggered", because="first join", generation=-1)
    bob.tells(60.0, "membership.moved", before="unjoined", after="joining")
    alice.is_given(70.0, "t-0", 10, 99)

    assert rows_of(events, Silence) == []


#: In these there are partitions on their way to members that are there.
ON_THEIR_WAY = ((1, "classic"), (2, "consumer"), (4, "migration"), (5, "classic"), (7, "consumer"))


@pytest.mark.parametrize(("seed", "protocol"), all_but_the_first(1, ON_THEIR_WAY))
def test_what_a_storm_says_of_the_moment_is_true_of_it_afterwards(seed: int, protocol: str) -> None:
    """A partition that is on its way for more than a second, to a member that is there, is in a
    row; and what began a rebalance by the traces so far is one of the causes of that rebalance."""
    events = wanted([json.loads(line) for line in storm_lines(seed, protocol)])
    afterwards = Tables(tell(events)[0])
    causes = {(row.consumer, row.trigger) for row in afterwards.parts if row.trigger != "peer"} | {
        (row.initiator, row.trigger) for row in afterwards.rebalances
    }
    there_from: dict[str, float] = {}
    for one in events:
        there_from.setdefault(one["consumer"], one["t"])
    on_their_way = [
        (gap, gap.released + 1.3, min(gap.assigned, gap.first_delivered, gap.released + HEARD))
        for gap in afterwards.downtimes
        if not gap.overlap and gap.first_delivered is not None and gap.released is not None
    ]
    # Who joins again milliseconds after it has left has begun a rebalance by both.
    causes |= {(name, "leave") for name, trigger in causes if trigger == "join"}
    began, ended = events[0]["t"], events[-1]["t"]
    looks = [began + (ended - began) * step / 16 for step in range(1, 16)]
    looks += [(first + last) / 2 for _, first, last in on_their_way if first < last][:8]
    checked = 0
    for until in looks:
        seen = [one for one in events if one["t"] <= until]
        at = max(one["t"] for one in seen)  # nothing is known of later
        tables = Tables(tell(seen)[0])
        for row in going_on(tables):
            assert row.trigger == "unknown" or (row.initiator, row.trigger) in causes
        told = {(row.group, row.partition) for row in tables.silences if row.ended is None}
        for gap, first, last in on_their_way:
            if first < at < last and there_from[gap.to_consumer] < at:
                assert (gap.group, gap.partition) in told, (at - BEGAN, gap)
                checked += 1
    assert checked


def test_a_picture_has_the_silences_and_the_callback_that_goes_on() -> None:
    pytest.importorskip("altair")
    told = course("classic", calls_back_slowly)
    tables = told.seen(told.held + 6.0)

    spans = [row for row in tables.spans if row.kind == "callback" and row.unfinished]
    page = draw(tables).html()

    assert [(row.consumer, row.what) for row in spans] == [("bob", "revoked_callback")]
    assert spans[0].duration_ms == pytest.approx(6000, abs=1200)
    assert "its revoked callback has not returned for" in page
