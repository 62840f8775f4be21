"""A member that left, or was lost, is the cause of one rebalance: the next of the group that it was
in. What it does at another time, or what another process does under its name, is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from aktor.simulation import Simulation
from aktor.trace.pictures.members import holding
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.parts import KILLED, STAYED_AWAY
from aktor.trace.rebalances.rows import Rebalance, Span
from aktor.trace.rebalances.spans import AWAY
from tests.unit.trace.rebalances.incidents import Incident, closes, sentences_of, tables_of
from tests.unit.trace.rebalances.told import (
    Member,
    rows_of,
    storm_lines,
    storm_rows,
    takes,
)

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])

EXPELLED = "the coordinator took it out of the group, and it had not said that it leaves"
AGAIN = "the coordinator said that the group rebalances"
GIVEN = "the coordinator assigned other partitions"


class Again(Member):
    """Writes the trace of the second process of a client id."""

    def tells(self, t: float, event: str, **values: Any) -> None:
        super().tells(t, event, **values)
        again = f"{self._consumer}-2"
        self._events[-1] |= {"trace": again, "source": again}


def rebalances_of(events: list[Event], since: float) -> list[Rebalance]:
    return [row for row in rows_of(events, Rebalance) if row.began >= since]


def all_join(alice: Member, bob: Member, carol: Member) -> None:
    """The group of a KIP-848 protocol: each has two of six partitions."""
    for epoch, member in enumerate((alice, bob, carol), 1):
        owns = [f"t-{2 * epoch - 2}", f"t-{2 * epoch - 1}"]
        takes(member, float(epoch), epoch, "first join", *owns, joins=True)


# -- who was not in the group


@BOTH
def test_who_joins_an_empty_group_has_triggered_it_and_not_who_left_before(protocol: str) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        alice = group.joins()
        sim.run(for_=10)
        closes(sim, alice)
        sim.run(for_=3)
        group.joins()
        sim.run(for_=10)

        (sentence,) = group.sentences(since=12)

    assert "triggered by bob on host-bob: first join" in sentence


def test_a_member_that_comes_back_to_a_group_that_it_left_alone_has_joined(
    events: list[Event], alice: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0"])
    alice.leaves(50.0, ["t-0"])
    alice.rebalances(53.0, 54.0, 2, because="first join", members=1, owns=["t-0"])

    _, row = rows_of(events, Rebalance)

    assert (row.trigger, row.initiator) == ("join", "alice")


def test_a_member_whose_trace_begins_later_rebalances_for_one_that_left(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=["t-0", "t-1"])
    alice.leaves(50.0, ["t-0", "t-1"])
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0", "t-1"])

    _, row = rows_of(events, Rebalance)

    assert (row.trigger, row.initiator) == ("leave", "alice")


# -- two processes of one client id


@BOTH
def test_a_killed_member_is_not_said_to_be_closed_because_its_next_process_is(
    protocol: str,
) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        _, _, carol = group.joins(), group.joins(), group.joins()
        sim.run(for_=10)
        carol.kill()
        sim.run(for_=6.5 if protocol == "classic" else 44)
        again = group.joins()
        sim.run(for_=8)
        closes(sim, again)
        sim.run(for_=15)
        events = group.events()
    # (The simulation has no two members of one name.)
    same = {"consumer": "carol", "host": "host-carol"}
    named = [{**event, **same} if event["consumer"] == "dave" else event for event in events]

    sentences = sentences_of(named, since=11)

    (expelled,) = (one for one in sentences if EXPELLED in one)
    assert f"triggered by carol on host-carol: {EXPELLED} (it was killed" in expelled
    assert sum("the consumer was closed" in one for one in sentences) == 1
    assert "the consumer was closed" in sentences[-1]


@pytest.mark.parametrize("told_last", [None, 14.5])
def test_a_killed_member_that_all_waited_for_is_named_though_another_process_joined(
    told_last: float | None, events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """It may have told something after they had joined."""
    ids = dict.fromkeys(("a", "b", "c"))
    alice.rebalances(0.0, 1.0, 1, because="first join", members=3, owns=["t-0"])
    bob.rebalances(0.1, 1.0, 1, because="first join", owns=["t-1"])
    carol.rebalances(0.2, 1.0, 1, because="first join", owns=["t-2"])
    for event in events:
        event["member"] = event["consumer"][0]
        if event["event"] == "rebalance.joined" and event["consumer"] == "alice":
            event["member_ids"] = ids
    if told_last is not None:
        bob.tells(told_last, "delivery.resumed", partition="t-1", member="b")
    known = len(events)
    again = Again(events, "bob", "vm")
    again.rebalances(12.0, 16.0, 2, because="first join", owns=["t-1"])
    alice.rebalances(12.3, 16.0, 2, members=3, owns=["t-0"], gives_up=["t-0"])
    carol.rebalances(12.3, 16.0, 2, owns=["t-2"], gives_up=["t-2"])
    for event in events[known:]:
        event["member"] = "b2" if event["source"] == "bob-2" else event["consumer"][0]
        if event["event"] == "rebalance.joined" and event["consumer"] == "alice":
            event["member_ids"] = {"a": None, "b2": None, "c": None}

    (row,) = rebalances_of(events, 10)

    assert (row.trigger, row.initiator) == ("join", "bob (trace bob-2)")
    assert (row.held_by, row.held_in) == ("bob", "session")
    assert (
        "bob on vm held it: all waited for a process of it for 1.9 s, until the coordinator took it"
        " out of the group (its trace ends before: it was killed, stopped or cut off)"
    ) in row.sentence
    # The picture gives a red border to that process, and to nothing of the new one.
    drawn = holding(row, rows_of(events, Span))
    assert {(span.kind, span.trace) for span in drawn} == {(AWAY, "bob")}


# -- who was killed in the midst of it


@BOTH
def test_what_the_others_own_after_a_rebalance_in_which_a_member_was_killed_is_told(
    protocol: str,
) -> None:
    """It is told as of the end of the rebalance, though all of them are closed soon after it."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        alice, bob = group.joins(), group.joins()
        sim.run(for_=10)
        bob.slow_listener = 30.0
        carol = group.joins()
        sim.run(for_=8)
        bob.kill()
        sim.run(for_=12 if protocol == "classic" else 55)
        closes(sim, alice)
        closes(sim, carol)
        sim.run(for_=5)
        tables = tables_of(group.events())

    (row,) = (row for row in tables.rebalances if "1 lost" in row.sentence)
    assert "bob on host-bob held it" in row.sentence
    assert (row.partitions, row.moved_needlessly) == (6, 0)
    totals = {total.consumer: total.longest_callback_ms for total in tables.members}
    assert totals["bob"] > 1000.0 > totals["alice"]


# -- who closed at another time


@pytest.mark.parametrize("closes", [33.0, 60.0])
def test_a_close_on_the_same_host_is_not_the_cause_of_what_was_before(
    closes: float, events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """Alice stood still, was fenced, and closed when all was over."""
    all_join(alice, bob, carol)
    for member, owns in ((bob, "t-0"), (carol, "t-1")):
        takes(member, 30.0, 4, GIVEN, owns, joins=False)
    alice.leaves(closes, ["t-0", "t-1"])

    (row,) = rebalances_of(events, 29)

    assert (row.trigger, row.initiator) == ("expelled", "alice")


@pytest.mark.parametrize(("closes", "trigger"), [(31.0, "leave"), (45.0, "expelled")])
def test_a_close_on_another_host_is_the_cause_if_clocks_may_differ_by_as_much(
    closes: float, trigger: str, events: list[Event], bob: Member, carol: Member
) -> None:
    alice = Member(events, "alice", "other")
    all_join(alice, bob, carol)
    for member, owns in ((bob, "t-0"), (carol, "t-1")):
        takes(member, 30.0, 4, GIVEN, owns, joins=False)
    alice.tells(closes, "membership.moved", before="stable", after="leaving")
    alice.tells(closes, "member.left", because="the consumer was closed")

    (row,) = rebalances_of(events, 29)

    assert (row.trigger, row.initiator) == (trigger, "alice")


def test_a_cause_that_is_wrongly_late_takes_no_other_departures_with_it(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """Alice was expelled. Bob was fenced later; that explains his own rebalance."""
    all_join(alice, bob, carol)
    for member, owns in ((bob, "t-0"), (carol, "t-1")):
        takes(member, 30.0, 4, GIVEN, owns, joins=False)
    takes(carol, 50.0, 5, GIVEN, "t-2", "t-3", "t-0", joins=False)
    bob.tells(50.5, "member.lost", because="fenced: UNKNOWN_MEMBER_ID")
    alice.leaves(55.0, ["t-0", "t-1"])

    first, second = rebalances_of(events, 29)

    assert (first.trigger, first.initiator) == ("expelled", "alice")
    assert (second.trigger, second.initiator) == ("fenced", "bob")


# -- one departure, one rebalance


def test_who_left_while_another_one_joined_and_took_its_partitions_explains_nothing_later(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    takes(alice, 1.0, 1, "first join", "t-0", joins=True)
    takes(bob, 2.0, 2, "first join", "t-1", joins=True)
    carol.tells(10.0, "rebalance.triggered", because="first join", generation=0, owned=0)
    carol.tells(10.0, "membership.moved", before="unsubscribed", after="joining")
    bob.leaves(10.02, ["t-1"])
    carol.tells(10.1, "member.epoch", before=0, after=4)
    carol.tells(10.1, "membership.moved", before="joining", after="reconciling")
    carol.tells(10.2, "partitions.assigned", partitions={"t-1": 1}, by_group=True)
    carol.tells(10.2, "rebalance.completed", generation=4, ms=200)
    takes(alice, 17.0, 5, GIVEN, "t-2", joins=False)
    alice.tells(17.1, "cluster.changed", resized={"t": [2, 4]})
    takes(carol, 17.4, 5, GIVEN, "t-3", joins=False)

    join, grown = rebalances_of(events, 9)

    assert (join.trigger, join.initiator) == ("join", "carol")
    assert grown.trigger == "metadata_change"


def test_who_left_a_later_generation_than_a_rebalance_led_to_did_not_trigger_it(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=3)
    bob.rebalances(0.1, 1.0, 1, because="first join")
    carol.rebalances(0.2, 1.0, 1, because="first join")
    for member in (alice, bob, carol):
        member.rebalances(50.0, 51.0, 2, members=3 if member is alice else None)
    bob.leaves(50.9, [])
    alice.rebalances(52.0, 53.0, 3, members=2)
    carol.rebalances(52.0, 53.0, 3)

    _, second, third = rows_of(events, Rebalance)

    assert second.trigger == "unknown"
    assert (third.trigger, third.initiator) == ("leave", "bob")


def test_who_left_an_earlier_generation_did_not_trigger_what_came_after_the_next_one(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """Two left for generation 2. Who left for generation 3 has no trace here."""
    dave = Member(events, "dave", "vm")
    alice.rebalances(0.0, 1.0, 1, because="first join", members=4)
    for member in (bob, carol, dave):
        member.rebalances(0.1, 1.0, 1, because="first join")
    bob.leaves(50.0, [])
    carol.leaves(50.6, [])
    alice.rebalances(50.5, 51.0, 2, members=3)
    dave.rebalances(50.5, 51.0, 2)
    for member, left in ((alice, 2), (dave, None)):
        member.tells(65.0, "rebalance.triggered", because=AGAIN, generation=2, owned=0)
        member.rebalances(65.0, 66.0, 3, members=left)

    _, second, third = rows_of(events, Rebalance)

    assert "bob on vm: the consumer was closed, then by carol on vm; " in second.sentence
    assert (third.trigger, third.initiator) == ("unknown", None)


def test_a_member_that_left_without_partitions_is_not_the_cause_if_one_was_expelled(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    all_join(alice, bob, carol)
    dave = Member(events, "dave", "vm")
    takes(dave, 5.0, 4, "first join", joins=True)
    dave.leaves(20.0, [])
    for member, owns in ((bob, "t-0"), (carol, "t-1")):
        takes(member, 40.0, 6, GIVEN, owns, joins=False)

    (row,) = rebalances_of(events, 30)

    assert (row.trigger, row.initiator) == ("expelled", "alice")


@pytest.mark.parametrize(
    ("silent_for", "said"),
    [
        (0.3, "it had been giving partitions up for 4.2 s (its group waits"),
        (3.0, "killed, stopped"),
    ],
    ids=["alive", "silent"],
)
def test_a_member_that_gave_partitions_up_for_too_long_is_not_said_to_be_killed(
    silent_for: float, said: str, events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    all_join(alice, bob, carol)
    alice.tells(29.8, "membership.moved", before="stable", after="reconciling")
    alice.tells(34.0 - silent_for, "partitions.held_back", partitions={"t-0": 5})
    for member, owns in ((bob, "t-0"), (carol, "t-1")):
        takes(member, 34.0, 5, GIVEN, owns, joins=False)

    (row,) = rebalances_of(events, 31)

    assert (row.trigger, row.initiator) == ("expelled", "alice")
    assert said in str(row.sentence)


@pytest.mark.parametrize("because", ["first join", "the subscription changed"])
def test_what_a_member_of_the_same_host_did_a_second_later_did_not_trigger_it(
    because: str, events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2)
    bob.rebalances(0.1, 1.0, 1, because="first join")
    alice.rebalances(50.0, 53.0, 2, members=2)
    bob.rebalances(51.0, 53.0, 2, because=because)

    row = rows_of(events, Rebalance)[1]

    assert (row.trigger, row.initiator) == ("unknown", None)


def test_who_leaves_has_left_before_it_is_answered(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=["t-0"])
    bob.rebalances(0.1, 1.0, 1, because="first join", owns=["t-1"])
    alice.tells(50.0, "partitions.released", partitions={"t-0": 5})
    alice.tells(50.0, "membership.moved", before="stable", after="leaving")
    bob.rebalances(50.1, 50.2, 2, members=1, owns=["t-0"])
    alice.tells(51.0, "member.left", because="the consumer was closed")

    row = rows_of(events, Rebalance)[1]

    assert (row.trigger, row.initiator, row.began) == ("leave", "alice", 50.1)


@pytest.mark.parametrize("bob_left", [10.02, 10.08], ids=["told first", "told last"])
def test_each_of_two_that_close_one_after_the_other_is_the_cause_of_its_own_epoch(
    bob_left: float, events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """The partitions of a KIP-848 member are given away in the epoch that its leaving makes."""
    all_join(alice, bob, carol)
    alice.leaves(10.05, ["t-0", "t-1"])
    bob.leaves(bob_left, ["t-2", "t-3"])
    takes(carol, 10.1, 4, GIVEN, "t-0", "t-1", joins=False)
    takes(carol, 10.2, 5, GIVEN, "t-2", "t-3", joins=False)

    first, second = rebalances_of(events, 10)

    assert (first.trigger, first.initiator) == ("leave", "alice")
    assert (second.trigger, second.initiator) == ("leave", "bob")


# -- who is static


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_static_member_that_was_closed_is_named_when_the_group_goes_on_without_it(
    comes_back: bool, events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """It tells nobody that it leaves. Its next process has another id, and its place."""
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=["t-0"])
    bob.rebalances(0.1, 1.0, 1, because="first join", owns=["t-1"])
    bob.tells(30.0, "partitions.released", partitions={"t-1": 5})
    bob.tells(30.0, "membership.moved", before="stable", after="leaving")
    bob.tells(30.0, "membership.moved", before="leaving", after="unjoined")
    new = {"c": "static-b"} if comes_back else {}
    if comes_back:
        carol.rebalances(50.0, 50.5, 2, because="first join", owns=["t-1"])
    alice.rebalances(50.0, 50.5, 2, members=1 + len(new), owns=["t-0"])
    for event in events:
        event["member"] = event["consumer"][0]
        if event["event"] == "rebalance.joined" and event["consumer"] == "alice":
            second = {"a": "static-a", **new}
            first = {"a": "static-a", "b": "static-b"}
            event["member_ids"] = first if event["generation"] == 1 else second

    (row,) = rebalances_of(events, 49)

    if comes_back:
        assert "triggered by carol on vm: first join; " in row.sentence
    else:
        assert f"triggered by bob on vm: {EXPELLED} ({STAYED_AWAY}); " in row.sentence


def test_whose_place_another_process_has_was_not_taken_out_of_the_group(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """Bob was killed, and carol came with its group_instance_id: that is no new generation."""
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=["t-0"])
    bob.rebalances(0.1, 1.0, 1, because="first join", owns=["t-1"])
    carol.rebalances(50.0, 50.5, 1, because="first join", owns=["t-1"])

    (row,) = rebalances_of(events, 49)

    assert "triggered by carol on vm: first join; carol on vm was done last" in row.sentence
    assert "bob" not in row.sentence


# -- who is told of later


@pytest.mark.parametrize("has_trace", [True, False])
def test_of_a_new_member_that_the_leader_has_listed_it_is_not_said_that_it_has_no_trace_if_it_has(
    has_trace: bool, events: list[Event], alice: Member, carol: Member
) -> None:
    """Its clock is 5 s ahead: its trace comes after the list."""
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0", "t-1"])
    alice.rebalances(50.0, 51.0, 2, members=2, gives_up=["t-1"])
    if has_trace:
        carol.rebalances(55.0, 56.0, 2, because="first join", owns=["t-1"])
    for event in events:
        event["member"] = event["consumer"][0]
        if event["event"] == "rebalance.joined" and event["consumer"] == "alice":
            ids = ("a",) if event["generation"] == 1 else ("a", "c")
            event["member_ids"] = dict.fromkeys(ids)

    row = next(row for row in rebalances_of(events, 50) if row.began == 50.0)

    assert ("it has no trace" in row.sentence) is not has_trace


# -- who was back


def _stands_still(sim: Simulation, member: Any) -> None:
    member.freeze()
    sim.run(for_=50.0)
    member.thaw()


def _does_not_poll(sim: Simulation, member: Any) -> None:
    member.busy_for = 8.0
    sim.run(for_=8.0)


def _is_expired(sim: Simulation, member: Any) -> None:
    sim.brokers.expire("g", member.name)


LOSSES = pytest.mark.parametrize("is_lost", [_stands_still, _does_not_poll, _is_expired])


@BOTH
@LOSSES
@pytest.mark.parametrize("together", [True, False], ids=["after another one", "alone"])
def test_a_member_that_was_lost_and_back_closes_because_it_is_closed(
    protocol: str, is_lost: Callable[[Simulation, Any], None], together: bool
) -> None:
    """What it did before it was back has explained a whole rebalance."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol, seconds=120.0)
        alice, bob, _ = (group.joins(max_poll_interval_ms=5000) for _ in range(3))
        sim.run(for_=10)
        is_lost(sim, bob)
        sim.run(for_=5)
        closed = sim.now
        if together:
            closes(sim, alice)
            sim.run(for_=0.15)
        closes(sim, bob)
        sim.run(for_=20)
        sentences = group.sentences(since=closed)

    assert sentences
    assert all("the consumer was closed" in one for one in sentences)
    assert ("triggered by alice" if together else "triggered by bob") in sentences[0]


@pytest.mark.parametrize("because", ["fenced: UNKNOWN_MEMBER_ID", "no poll for 5.001 s"])
def test_what_a_member_says_of_its_loss_while_it_joins_again_explains_no_later_rebalance(
    because: str, events: list[Event], alice: Member, bob: Member
) -> None:
    """It tells its old coordinator that it leaves, and has asked to join already."""
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=["t-0"])
    bob.rebalances(0.1, 1.0, 1, because="first join", owns=["t-1"])
    bob.tells(10.0, "member.lost", because=because, generation=1)
    bob.tells(10.1, "rebalance.triggered", because=because, generation=-1)
    bob.tells(10.1, "membership.moved", before="unjoined", after="joining")
    bob.tells(10.2, "member.left", because=because)
    bob.tells(10.3, "rebalance.joined", generation=2)
    bob.tells(10.4, "rebalance.completed", generation=2, ms=300)
    alice.rebalances(10.2, 10.4, 2, members=2)
    bob.leaves(15.0, ["t-1"])
    alice.tells(15.1, "rebalance.triggered", because="the group", generation=2)
    alice.rebalances(15.2, 15.4, 3, members=1, owns=["t-1"])

    _, row = rebalances_of(events, 9.0)

    assert (row.trigger, row.initiator, row.because) == ("leave", "bob", "the consumer was closed")


@pytest.mark.parametrize(("seed", "protocol"), [(12, "classic"), (10, "consumer")])
def test_no_reason_is_told_that_is_older_than_the_return_of_who_is_named(
    seed: int, protocol: str
) -> None:
    events = [json.loads(line) for line in storm_lines(seed, protocol)]
    rows = [row for row in storm_rows(seed, protocol) if isinstance(row, Rebalance)]
    told = [row for row in rows if row.initiator is not None and row.because is not None]

    for row in told:
        own = [one for one in events if one["consumer"] == row.initiator]
        reasons = [
            one["t"]
            for one in own
            if one["t"] <= row.ended + 1
            and one["event"] in ("rebalance.triggered", "member.left", "member.lost")
            and str(one.get("because")) == row.because
        ]
        began_in = [
            one["generation"]
            for one in events
            if one["event"] == "rebalance.triggered"
            and row.began - 0.001 <= one["t"] <= row.ended
            and one["generation"] > 0
        ]
        since = max(reasons, default=row.began)
        back = [
            one["t"]
            for one in own
            # (Who is taken in with nothing has yet to get what it came for.)
            if one["event"] == "rebalance.completed"
            and one["owned"] != 0
            and one["generation"] <= min(began_in, default=0)
        ]
        assert not [at for at in back if since < at < row.began - 0.05], row.sentence

    assert len(told) > 5


@pytest.mark.parametrize("after", [0.005, 0.01, 0.015, 0.3])
def test_who_is_killed_amid_its_first_join_is_in_no_rebalance_a_minute_later(after: float) -> None:
    """Its part never ends by what its trace tells, and it may not even know its own id."""
    with Simulation(1) as sim:
        group = Incident(sim, "classic", seconds=100.0)
        _, bob = group.joins(max_poll_interval_ms=4000), group.joins(max_poll_interval_ms=4000)
        sim.run(for_=5)
        carol = group.joins()
        sim.run(for_=after)
        carol.kill()
        sim.run(for_=50)
        bob.busy_for = 7.0
        group.joins()
        sim.run(for_=20)
        rows = tables_of(group.events()).rebalances

    joined = next(row for row in rows if row.initiator == "carol" and row.trigger == "join")
    assert joined.duration_ms < 1000
    (slow,) = (row for row in rows if row.initiator == "dave")
    assert "bob on host-bob held it: its application did not poll for" in slow.sentence
    assert not any("carol-" in row.sentence for row in rows)
    gone = [row for row in rows if row.initiator == "carol" and row is not joined]
    led_to = joined.last_generation
    assert [row.because for row in gone] == [f"{EXPELLED} ({KILLED})"] * (led_to is not None)
    assert all(row.first_generation == (led_to or 0) + 1 for row in gone)


@pytest.mark.parametrize("how", ["freeze", "kill"])
def test_who_is_gone_amid_the_join_of_another_one_is_who_all_waited_for(how: str) -> None:
    """It had told something after the others had joined, so its trace did not end before."""
    with Simulation(2) as sim:
        group = Incident(sim, "classic")
        _, bob = group.joins(), group.joins()
        sim.run(for_=10)
        group.joins()
        sim.run(for_=0.2)
        getattr(bob, how)()
        sim.run(for_=10)
        if how == "freeze":
            bob.thaw()
        sim.run(for_=10)
        rows = tables_of(group.events()).rebalances

    (held,) = (row for row in rows if row.initiator == "carol" and row.trigger == "join")
    assert (held.held_by, held.held_in) == ("bob", "session")
    assert "bob on host-bob held it: all waited for a process of it for " in held.sentence
    why = "the process stood still for" if how == "freeze" else "its trace ends before: it was"
    assert f"until the coordinator took it out of the group ({why} " in held.sentence


def test_who_is_gone_while_a_callback_holds_the_others_for_longer_is_told_beside_it() -> None:
    with Simulation(2) as sim:
        group = Incident(sim, "classic")
        _, bob, carol = group.joins(), group.joins(), group.joins()
        sim.run(for_=10)
        carol.slow_listener = 3.5
        group.joins()
        sim.run(for_=0.2)
        bob.kill()
        sim.run(for_=20)
        rows = tables_of(group.events()).rebalances

    (held,) = (row for row in rows if row.initiator == "dave" and row.trigger == "join")
    assert (held.held_by, held.held_in) == ("carol", "revoked_callback")
    assert "; then all waited for bob on host-bob for " in held.sentence


@BOTH
@pytest.mark.parametrize("between", [0.0, 2.5])
def test_each_of_two_that_were_killed_is_named(protocol: str, between: float) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        _, bob, carol, _ = (group.joins() for _ in range(4))
        sim.run(for_=10)
        bob.kill()
        if between:
            sim.run(for_=between)
        carol.kill()
        sim.run(for_=60)
        events, sentences = group.events(), group.sentences(since=10)

    # Sessions end in the order of the last heartbeats.
    last = {
        event["consumer"]: event["t"]
        for event in events
        if event["event"] == "request.answered" and "Heartbeat" in event["api"]
    }
    first, second = sorted(("bob", "carol"), key=lambda name: last[name])
    assert f"triggered by {first} on host-{first}: {EXPELLED} ({KILLED})" in sentences[0]
    whom = f"{second} on host-{second}"
    if protocol == "classic" and between:
        assert f"; {whom} held it: all waited for a process of it for " in sentences[0]
    else:
        beside = f"; the coordinator has taken {whom} out of the group (its trace ends before: "
        assert beside in sentences[0]
    told = " ".join(sentences)
    assert [told.count(f"{name} on host-{name}") for name in ("bob", "carol")] == [1, 1]


@BOTH
def test_a_member_that_was_cut_off_and_lives_is_not_said_to_be_killed(protocol: str) -> None:
    """It is back after the other one, which is fenced and takes its partitions."""
    with Simulation(2) as sim:
        group = Incident(sim, protocol)
        members = [group.joins(), group.joins()]
        sim.run(for_=10)
        links = [(member.name, node) for member in members for node in (1, 2, 3)]
        for link in links:
            sim.network.cut_link(*link)
        sim.run(for_=9 if protocol == "classic" else 55)
        for name, node in links:
            if (name, node) == ("bob", 1):
                sim.run(for_=1.5)
            sim.network.mend_link(name, node)
        sim.run(for_=20)
        sentences = group.sentences(since=10)

    assert "triggered by alice on host-alice: fenced: UNKNOWN_MEMBER_ID" in sentences[0]
    beside = "; the coordinator has taken bob on host-bob out of the group (it was cut off from the"
    assert f"{beside} coordinator, and its trace goes on); " in sentences[0]
    assert KILLED not in " ".join(sentences)


def test_a_leader_that_reads_its_list_late_says_of_nobody_that_came_since_that_it_is_gone(
    events: list[Event], alice: Member, bob: Member
) -> None:
    bob.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0"])
    bob.rebalances(3.0, 4.0, 4, because="first join", members=1, owns=["t-0"])
    alice.rebalances(2.0, 14.0, 3, because="first join", members=2, owns=[])
    for event in events:
        event["member"] = event["consumer"] + ("-2" if event["t"] >= 3.0 else "")
        if event["event"] == "rebalance.joined" and event["consumer"] == "alice":
            event["member_ids"] = {"alice-2": None, "bob": None}

    (late,) = (row for row in rebalances_of(events, 0) if row.initiator == "alice")

    assert late.trigger == "join"
    assert "bob" not in late.sentence
