"""The rows that are made of the traces of a group."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from aktor.managers.membership.classic import states as classic_states
from aktor.managers.membership.consumer import states as consumer_states
from aktor.simulation import Simulation
from aktor.trace.rebalances import GroupTraces, read, tell
from aktor.trace.rebalances.assembly import Assembly
from aktor.trace.rebalances.causes import Cause
from aktor.trace.rebalances.deliveries import Deliveries
from aktor.trace.rebalances.group import order
from aktor.trace.rebalances.lines import Event, NotUnderstoodError, glance, parse
from aktor.trace.rebalances.parts import IN_GROUP, OUT_OF_GROUP, Part
from aktor.trace.rebalances.rows import (
    Downtime,
    MemberTotal,
    Rebalance,
    RefusedCommit,
    Reset,
    Row,
    Storm,
)
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.told import (
    BEGAN,
    STORMS,
    Member,
    rows_of,
    storm_lines,
    storm_rows,
)

ASSIGNED_ANEW = "the coordinator assigned other partitions"

#: One of them shows nearly all that the other does.
ONE = pytest.mark.parametrize("protocol", all_but_the_first(1, ["classic", "consumer"]))


@pytest.fixture
def alice(events: list[Event]) -> Member:
    return Member(events, "alice")


@pytest.fixture
def bob(events: list[Event]) -> Member:
    return Member(events, "bob")


def both_join(alice: Member, bob: Member) -> None:
    """Generation 1: each has two of the four partitions."""
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=["t-0", "t-1"])
    bob.rebalances(0.2, 1.0, 1, because="first join", owns=["t-2", "t-3"])


# -- a rebalance


def test_the_parts_of_one_generation_are_one_rebalance(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)

    (row,) = rows_of(events, Rebalance)

    assert (row.first_generation, row.last_generation, row.protocol) == (1, 1, "classic")
    assert (row.members, row.members_unseen, row.incomplete) == (2, 0, 0)
    assert (row.duration_ms, row.join_ms, row.sync_ms) == (1000, 500, 500)
    assert (row.trigger, row.initiator, row.initiator_host) == ("join", "alice", "host-alice")
    assert (row.partitions, row.first_assigned, row.moved) == (4, 4, 0)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (3600.0, "was set by +3600.0 s meanwhile, or its machine slept"),
        (-3600.0, "was set by -3600.0 s meanwhile"),
    ],
)
def test_times_that_a_clock_which_was_set_has_spoiled_are_in_doubt(
    step: float, told: str, events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    bob.tells(0.9, "clock.set", seconds=step)

    (row,) = rows_of(events, Rebalance)

    assert row.sentence.endswith(f" The clock of bob on host-bob {told}: these times are in doubt.")


def test_who_left_before_has_triggered_it_and_what_moves_then_has_to_move(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.leaves(50.0, ["t-0", "t-1"])
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0", "t-1"])

    row = rows_of(events, Rebalance)[1]

    assert (row.trigger, row.initiator) == ("leave", "alice")
    assert (row.partitions, row.moved, row.least_moves, row.moved_needlessly) == (4, 2, 2, 0)
    assert row.sentence == (
        "g: 1.0 s, triggered by alice on host-alice: the consumer was closed; bob on host-bob was"
        " done last after 1.0 s, 500 ms of it in join; partitions moved: 2 (0 needlessly), owned at"
        " the end: 4."
    )


def test_partitions_that_change_places_move_needlessly(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    changed = "the partitions of t changed"
    alice.rebalances(
        *(50.0, 51.0, 2), because=changed, members=2, gives_up=["t-0"], owns=["t-1", "t-2"]
    )
    bob.rebalances(50.0, 51.0, 2, gives_up=["t-2"], owns=["t-0", "t-3"])

    row = rows_of(events, Rebalance)[1]

    assert (row.trigger, row.moved, row.moved_needlessly) == ("metadata_change", 2, 2)


def test_what_a_member_gives_up_that_wants_another_topic_now_does_not_move_needlessly(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    changed = "the subscription changed"
    given_up = ["t-0", "t-1"]
    alice.rebalances(50.0, 51.0, 2, because=changed, members=2, gives_up=given_up, owns=["u-0"])
    bob.rebalances(50.0, 51.0, 2, owns=given_up)
    alice.rebalances(90.0, 91.0, 3, because="the partitions of t changed", members=2, owns=["t-0"])
    bob.rebalances(90.0, 91.0, 3, gives_up=["t-0"])

    before, row, later = rows_of(events, Rebalance)

    assert before.moved_needlessly == 0
    assert (row.moved, row.least_moves, row.moved_needlessly) == (2, None, None)
    assert (later.moved, later.least_moves, later.moved_needlessly) == (1, None, None)


def test_what_was_first_given_in_the_same_rebalance_does_not_move_needlessly() -> None:
    """Members of a KIP-848 group that join at about the same time pass on what one of them had."""
    four = [f"t-{number}" for number in range(4)]
    alice, bob = (
        Part(name, (name, "vm"), name, "first join", Cause.JOIN, began, began, outcome="completed")
        for began, name in enumerate(("alice", "bob"))
    )
    alice.added = [(partition, None) for partition in four]
    bob.added = [(partition, "alice") for partition in four[2:]]
    owners = dict.fromkeys(four[:2], "alice") | dict.fromkeys(four[2:], "bob")

    moves = Assembly(parts=[alice, bob], owners=owners, members={"alice", "bob"}).moves()

    assert (moves.moved, moves.first, moves.needlessly) == (2, 4, 0)


def test_nobody_is_named_if_no_trace_tells_who_began_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.rebalances(50.0, 51.0, 2, members=2)
    bob.rebalances(50.1, 51.0, 2)

    row = rows_of(events, Rebalance)[1]

    assert (row.trigger, row.because, row.initiator) == ("unknown", None, None)


def test_a_cause_that_comes_later_than_the_rebalance_did_not_trigger_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.rebalances(50.0, 57.0, 2, members=2)
    bob.rebalances(55.0, 57.0, 2, because="the subscription changed")

    row = rows_of(events, Rebalance)[1]

    assert (row.trigger, row.initiator) == ("unknown", None)


def test_members_that_only_the_leader_has_seen_make_the_least_moves_unknown(
    events: list[Event], alice: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, members=3, owns=["t-0"])

    (row,) = rows_of(events, Rebalance)

    assert (row.members, row.members_unseen, row.least_moves) == (1, 2, None)
    assert "2 members are in no trace" in row.sentence


def test_the_partitions_of_a_killed_member_have_to_move(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.rebalances(52.0, 53.0, 2, members=1, owns=["t-2", "t-3"])

    row = rows_of(events, Rebalance)[1]

    assert (row.members, row.members_unseen, row.partitions) == (1, 0, 4)
    assert (row.moved, row.least_moves, row.moved_needlessly) == (2, 2, 0)


def test_a_killed_member_without_partitions_is_gone_when_the_leader_does_not_count_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    owned = [f"t-{number}" for number in range(6)]
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=owned)
    bob.rebalances(0.2, 1.0, 1, because="first join")
    carol = Member(events, "carol")
    alice.rebalances(50.0, 51.0, 2, members=2, gives_up=owned[3:])
    carol.rebalances(50.0, 51.0, 2, because="first join", owns=owned[3:])

    row = rows_of(events, Rebalance)[1]

    # Half of six partitions for each of two members; a third member would leave alice two.
    assert (row.moved, row.least_moves, row.moved_needlessly) == (3, 3, 0)


def test_a_member_that_was_killed_while_it_joined_is_gone_when_the_leader_does_not_count_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    owned = [f"t-{number}" for number in range(6)]
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=owned)
    bob.tells(2.0, "rebalance.triggered", because="first join")
    bob.tells(2.0, "membership.moved", before="unjoined", after="joining")
    carol = Member(events, "carol")
    carol.rebalances(50.0, 51.0, 2, because="first join", owns=owned[3:])
    alice.rebalances(50.0, 51.0, 2, members=2, gives_up=owned[3:])

    row = rows_of(events, Rebalance)[-1]

    assert (row.members, row.members_unseen) == (2, 0)
    assert (row.moved, row.least_moves, row.moved_needlessly) == (3, 3, 0)


def test_whether_partitions_moved_needlessly_is_unknown_if_a_member_is_killed_meanwhile(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0", "t-1"])
    alice.rebalances(50.0, 51.0, 2, gives_up=["t-1"])
    bob.tells(50.0, "rebalance.triggered", because="first join")
    bob.tells(50.0, "membership.moved", before="unjoined", after="joining")
    bob.tells(50.5, "rebalance.joined", generation=2)
    alice.is_given(5000.0, "t-0", 0, 1)

    row = rows_of(events, Rebalance)[1]

    assert (row.members, row.incomplete) == (2, 1)
    assert (row.least_moves, row.moved_needlessly) == (None, None)


def test_a_dead_static_member_counts_as_long_as_the_leader_counts_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    # The coordinator keeps a static member that does not join again until its session ends.
    both_join(alice, bob)
    alice.rebalances(50.0, 51.0, 2, because="the partitions of t changed", members=2)

    row = rows_of(events, Rebalance)[1]

    assert (row.partitions, row.members_unseen) == (4, 0)
    assert (row.moved, row.least_moves) == (0, 0)


def test_the_members_of_a_generation_stay_though_one_of_them_is_replaced_within_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    # A static member that comes back gets its old assignment. The generation remains.
    both_join(alice, bob)
    back = Member(events, "bob-again")
    back.rebalances(50.0, 51.0, 1, because="first join", members=2, owns=["t-2", "t-3"])

    row = rows_of(events, Rebalance)[1]

    assert (row.members_unseen, row.partitions) == (0, 4)
    assert (row.moved, row.least_moves, row.moved_needlessly) == (2, 2, 0)


def test_a_static_member_that_comes_back_at_once_has_a_rebalance_of_its_own(
    events: list[Event], alice: Member, bob: Member
) -> None:
    """The generation remains, but the first rebalance was over."""
    both_join(alice, bob)
    back = Member(events, "bob-again")
    back.rebalances(14.0, 14.5, 1, because="first join", members=2, owns=["t-2", "t-3"])

    first, second = rows_of(events, Rebalance)

    assert (first.duration_ms, second.duration_ms) == (1000, 500)
    assert (first.initiator, second.initiator) == ("alice", "bob-again")


def test_an_owner_whose_release_comes_late_by_its_clock_is_still_a_member(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0", "t-1"])
    bob.rebalances(50.0, 51.0, 2, because="first join", owns=["t-1"])
    alice.rebalances(52.0, 53.0, 2, members=2, gives_up=["t-1"])

    row = rows_of(events, Rebalance)[1]

    assert (row.members, row.members_unseen, row.partitions) == (2, 0, 2)
    assert (row.moved, row.least_moves, row.moved_needlessly) == (1, 1, 0)


@ONE
def test_the_partitions_of_a_member_that_was_killed_in_a_real_group_have_to_move(
    protocol: str,
) -> None:
    row = rebalances_of_a_kill(protocol)[-1]

    assert (row.trigger, row.members, row.members_unseen) == ("expelled", 1, 0)
    assert (row.partitions, row.moved, row.least_moves, row.moved_needlessly) == (4, 2, 2, 0)


@ONE
def test_the_longest_pause_of_a_real_group_is_as_long_as_the_session_of_the_killed_member(
    protocol: str,
) -> None:
    row = rebalances_of_a_kill(protocol)[-1]

    assert row.longest_downtime_ms is not None
    assert row.longest_downtime_ms > 40_000  # session_timeout_ms is 45 s, less a heartbeat


@cache
def rebalances_of_a_kill(protocol: str) -> list[Rebalance]:
    """The rebalances of a group of two, of which one was killed."""
    with Simulation(1) as sim:
        orders = sim.topic("orders", partitions=4)
        sim.trickle(orders, per_second=10, seconds=75)
        of_group = {"group": "g", "topics": [orders], "group_protocol": protocol}
        sim.consumers(**of_group)
        sim.run(for_=5)
        (bob,) = sim.consumers(**of_group)
        sim.run(for_=10)
        bob.kill()
        sim.run(for_=65)
        rows, _ = read(json.dumps(event) for event in sim.history.traces(BEGAN))
    return [row for row in rows if isinstance(row, Rebalance)]


def test_a_member_that_leaves_within_the_rebalance_is_in_a_trace(
    events: list[Event], alice: Member, bob: Member
) -> None:
    bob.rebalances(0.0, 1.0, 1, because="first join")
    bob.leaves(1.5, [])
    alice.rebalances(0.0, 2.0, 1, because="first join", members=2, owns=["t-0"])

    (row,) = rows_of(events, Rebalance)

    assert (row.members, row.members_unseen) == (2, 0)
    assert (row.least_moves, row.moved_needlessly) == (None, None)


@pytest.mark.parametrize(("seed", "protocol"), all_but_the_first(2, [*STORMS, (5, "classic")]))
def test_no_member_is_unseen_if_all_traces_are_there(seed: int, protocol: str) -> None:
    rows = storm_rows(seed, protocol)

    rebalances = [row for row in rows if isinstance(row, Rebalance)]
    assert {row.members_unseen for row in rebalances} == {0}


def test_a_cooperative_rebalance_is_one_with_both_its_generations(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0", "t-1"])
    alice.rebalances(50.0, 51.0, 2, members=2, gives_up=["t-1"])
    bob.rebalances(50.0, 51.0, 2, because="first join")
    again = "partitions were handed over: second round"
    alice.rebalances(51.0, 52.0, 3, because=again, members=2)
    bob.rebalances(51.0, 52.0, 3, owns=["t-1"])

    row = rows_of(events, Rebalance)[1]

    assert (row.first_generation, row.last_generation, row.generations) == (2, 3, 2)
    assert (row.trigger, row.moved, row.moved_needlessly) == ("join", 1, 0)


def test_members_that_hand_a_partition_over_by_epochs_are_in_one_rebalance(
    events: list[Event], alice: Member, bob: Member
) -> None:
    join, given = "first join", "the coordinator assigned other partitions"
    alice.tells(0.0, "rebalance.triggered", because=join)
    alice.tells(0.0, "membership.moved", before="unsubscribed", after="joining")
    alice.tells(0.1, "member.epoch", before=0, after=1)
    alice.tells(0.1, "membership.moved", before="joining", after="reconciling")
    alice.tells(0.2, "partitions.assigned", partitions={"t-0": 1, "t-1": 2}, by_group=True)
    alice.tells(0.3, "rebalance.completed", generation=1, ms=300)
    alice.tells(60.0, "membership.moved", before="stable", after="reconciling")
    alice.tells(60.0, "rebalance.triggered", because=given)
    alice.tells(61.0, "partitions.released", partitions={"t-1": 5})
    alice.tells(61.0, "rebalance.completed", generation=1, ms=1000)
    alice.tells(61.1, "member.epoch", before=1, after=2)
    bob.tells(59.0, "rebalance.triggered", because=join)
    bob.tells(59.0, "membership.moved", before="unsubscribed", after="joining")
    bob.tells(59.1, "member.epoch", before=0, after=2)
    bob.tells(59.2, "rebalance.completed", generation=2, ms=200)
    bob.tells(64.0, "rebalance.triggered", because=given)
    bob.tells(64.0, "partitions.assigned", partitions={"t-1": 1}, by_group=True)
    bob.tells(64.1, "rebalance.completed", generation=2, ms=100)

    first, second = rows_of(events, Rebalance)

    assert (first.protocol, first.last_generation, first.members) == ("consumer", 1, 1)
    assert (second.last_generation, second.members, second.moved) == (2, 2, 1)
    assert (second.trigger, second.initiator) == ("join", "bob")
    assert (second.began, second.ended, second.reconcile_ms) == (59.0, 64.1, 1000)


def test_a_trace_that_ends_in_a_rebalance_leaves_it_incomplete(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.tells(50.0, "rebalance.triggered", because="first join")
    alice.tells(50.0, "membership.moved", before="stable", after="joining")
    bob.is_given(5000.0, "t-2", 0, 1)

    row = rows_of(events, Rebalance)[1]

    assert (row.incomplete, row.last_generation, row.ended) == (1, None, 50.0)


def test_the_sentence_says_that_a_member_could_not_join(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0"])
    bob.tells(50.0, "rebalance.triggered", because="first join")
    bob.tells(50.0, "membership.moved", before="unsubscribed", after="joining")
    bob.tells(50.5, "membership.moved", before="joining", after="fatal")

    row = rows_of(events, Rebalance)[1]

    assert row.sentence == (
        "g: 500 ms, triggered by bob on host-bob: first join; bob on host-bob was done last after"
        " 500 ms, 500 ms of it in join; not completed by all members: 1 lost; partitions moved: 0,"
        " owned at the end: 1."
    )


def test_the_sentence_says_whom_the_group_waited_for(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    for member, ready, done in ((alice, 50.0, 52.1), (bob, 51.9, 52.0)):
        member.tells(50.0, "rebalance.triggered", because="the partitions of t changed")
        member.tells(50.0, "membership.moved", before="stable", after="preparing")
        member.tells(
            ready, "callback.finished", callback="on_partitions_revoked", ms=1000 * (ready - 50)
        )
        member.tells(ready, "membership.moved", before="preparing", after="joining")
        member.tells(51.95, "membership.moved", before="joining", after="syncing")
        member.tells(51.95, "rebalance.joined", generation=2, members=2)
        member.tells(done, "membership.moved", before="syncing", after="stable")
        member.tells(done, "rebalance.completed", generation=2, ms=2000)

    row = rows_of(events, Rebalance)[1]

    assert (row.slowest, row.slowest_host) == ("alice", "host-alice")
    assert row.slowest_phase == "join"
    assert (
        "bob on host-bob held it: its revoked callback took 1.9 s; partitions moved: 0"
    ) in row.sentence
    assert (row.held_by, row.held_in, row.held_ms) == ("bob", "revoked_callback", 1900)


def test_the_sentence_says_whom_the_group_waited_for_though_all_leave_before_they_have_joined(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    carol = Member(events, "carol")
    carol.tells(50.0, "member.left", because="the consumer was closed")
    told = "the coordinator said that the group rebalances"
    for member, at in ((alice, 50.8), (bob, 50.9)):
        member.tells(at, "rebalance.triggered", because=told, generation=1, owned=2)
        member.tells(at, "membership.moved", before="stable", after="preparing")
    alice.tells(50.8, "membership.moved", before="preparing", after="joining")
    alice.leaves(56.0, [])
    bob.tells(58.9, "callback.finished", callback="on_partitions_revoked", ms=8000.0)
    bob.leaves(59.0, ["t-2", "t-3"])

    _, row = rows_of(events, Rebalance)

    assert row.sentence == (
        "g: 8.2 s, triggered by carol on host-carol: the consumer was closed, then by alice on"
        " host-alice; bob on host-bob held it: its revoked callback took 8.0 s; not completed by"
        " all members: 2 left; partitions moved: 0, owned at the end: 0."
    )


def test_the_sentence_says_if_the_last_part_was_only_the_end_of_the_rebalance(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=2, owns=["t-0"])
    bob.rebalances(0.9, 1.1, 1, because="first join", owns=["t-1"])

    (row,) = rows_of(events, Rebalance)

    assert (
        "bob on host-bob was done last; its own part took 200 ms, 100 ms of it in join;"
    ) in row.sentence


def test_the_sentence_counts_the_pauses_that_are_over(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    for partition in ("t-0", "t-1"):
        alice.is_given(40.0, partition, 0, 9)
    alice.leaves(50.0, ["t-0", "t-1"])
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0", "t-1"])
    bob.is_given(54.0, "t-0", 10, 20)

    row = rows_of(events, Rebalance)[1]

    assert (row.moved, row.resumed) == (2, 1)
    assert row.sentence.endswith("; pauses that are over: 1, the longest 14.0 s.")


# -- partitions on their way


def test_a_downtime_lasts_from_the_last_delivery_to_the_first_one_by_the_new_owner(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.is_given(40.0, "t-0", 0, 9)
    alice.leaves(50.0, ["t-0", "t-1"])
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0", "t-1"])
    bob.is_given(54.5, "t-0", 8, 20)
    bob.is_given(60.0, "t-0", 21, 22)

    row = rows_of(events, Downtime)[0]

    assert (row.partition, row.from_consumer, row.to_consumer) == ("t-0", "alice", "bob")
    assert (row.last_delivered, row.first_delivered, row.downtime_ms) == (40.0, 54.5, 14_500)
    assert (row.released, row.assigned, row.unowned_ms) == (50.0, 53.0, 3000)
    assert (row.expected_offset, row.first_offset, row.repeated) == (10, 8, 2)
    assert (row.moved, row.overlap, row.same_host) == (True, False, False)
    assert rows_of(events, Rebalance)[1].longest_downtime_ms == 14_500


def test_the_pause_of_a_killed_members_partition_is_told_of_the_rebalance(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.is_given(40.0, "t-0", 0, 9)
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0", "t-1"])
    bob.is_given(54.5, "t-0", 8, 20)
    bob.is_given(999.0, "t-0", 21, 22)

    row = rows_of(events, Rebalance)[1]

    assert (row.resumed, row.longest_downtime_ms) == (1, 14_500)
    assert row.sentence.endswith("; pauses that are over: 1, the longest 14.5 s.")


def test_the_pause_of_a_killed_members_partition_is_told_though_the_traces_end_then(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.is_given(40.0, "t-0", 0, 9)
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0", "t-1"])
    bob.is_given(54.5, "t-0", 8, 20)

    assert rows_of(events, Rebalance)[1].longest_downtime_ms == 14_500


def test_a_member_of_an_old_generation_that_comes_back_is_another_rebalance(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    Member(events, "bob-again").rebalances(32.0, 33.0, 1, because="first join")

    assert [row.members for row in rows_of(events, Rebalance)] == [2, 1]


def test_an_owner_that_delivers_beside_the_new_one_overlaps_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.is_given(40.0, "t-0", 0, 9)
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0"])
    bob.is_given(54.0, "t-0", 10, 20)
    alice.is_given(55.0, "t-0", 10, 12)

    (row,) = rows_of(events, Downtime)

    assert (row.overlap, row.downtime_ms, row.last_delivered) == (True, None, None)


def test_a_topic_that_was_deleted_is_named_by_who_hears_of_it_though_all_were_only_assigned_less(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.tells(59.5, "topic.deleted", topic="another")
    for member, owned in ((alice, "t-0"), (bob, "t-1")):
        member.rebalances(60.0, 60.1, 2, because=ASSIGNED_ANEW, gives_up=[owned])
    bob.tells(60.15, "topic.deleted", topic="t")

    *_, row = rows_of(events, Rebalance)

    assert (row.trigger, row.because) == ("metadata_change", "the topic t was deleted")
    assert "triggered by the brokers: the topic t was deleted" in row.sentence


def test_a_topic_that_was_deleted_and_created_anew_later_is_named_twice(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    for member, owned in ((alice, ["t-0", "t-1"]), (bob, ["t-2", "t-3"])):
        member.tells(2.0, "cluster.changed", topics_added=["t"])  # it asks for it now
        member.rebalances(60.0, 60.1, 2, because=ASSIGNED_ANEW, gives_up=owned)
        member.tells(60.2, "topic.deleted", topic="t")
    for member, owned in ((alice, "t-0"), (bob, "t-1")):
        member.rebalances(66.0, 66.1, 3, because=ASSIGNED_ANEW, owns=[owned])
        member.tells(66.2, "cluster.changed", topics_added=["t"])

    *_, deleted, created = rows_of(events, Rebalance)

    assert deleted.because == "the topic t was deleted"
    assert (created.trigger, created.because) == (
        "metadata_change",
        "the topic t was created anew",
    )


def test_a_member_that_joined_is_named_though_the_others_hear_of_it_when_it_is_done(
    events: list[Event], alice: Member, bob: Member
) -> None:
    """KIP-848: it is in the group at once, with nothing; the owner gives up at a heartbeat."""
    alice.rebalances(30.0, 30.1, 1, because="first join", owns=["t-0", "t-1"])
    bob.rebalances(60.0, 60.1, 2, because="first join")
    alice.tells(64.0, "rebalance.triggered", because=ASSIGNED_ANEW, rebalance=2, generation=1)
    alice.rebalances(64.0, 68.0, 3, because=ASSIGNED_ANEW, gives_up=["t-1"])

    *_, row = rows_of(events, Rebalance)

    assert (row.trigger, row.initiator, row.began) == ("join", "bob", 64.0)
    assert "triggered by bob" in row.sentence


def test_a_member_that_joined_before_the_others_last_epoch_is_not_blamed(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(30.0, 30.1, 1, because="first join", owns=["t-0", "t-1"])
    bob.rebalances(60.0, 60.1, 2, because="first join")
    alice.tells(64.0, "rebalance.triggered", because=ASSIGNED_ANEW, rebalance=2, generation=2)
    alice.rebalances(64.0, 68.0, 3, because=ASSIGNED_ANEW, gives_up=["t-1"])

    *_, row = rows_of(events, Rebalance)

    assert (row.trigger, row.initiator) == ("unknown", None)


def test_members_that_are_given_their_first_partitions_an_epoch_later_have_triggered_that(
    events: list[Event], alice: Member, bob: Member
) -> None:
    """Kafka 4.3 takes members in at once, with the epoch that all have, and computes later."""
    alice.rebalances(30.0, 30.1, 2, because="first join", owns=["t-0", "t-1"])
    bob.rebalances(60.0, 60.1, 2, because="first join")
    given = {"because": ASSIGNED_ANEW, "rebalance": 2, "generation": 2}
    alice.tells(61.0, "rebalance.triggered", **given, owned=2)
    alice.rebalances(61.0, 61.5, 4, because=ASSIGNED_ANEW, gives_up=["t-1"])
    bob.tells(62.0, "rebalance.triggered", **given, owned=0)
    bob.rebalances(62.0, 62.1, 4, because=ASSIGNED_ANEW, owns=["t-1"])

    *_, row = rows_of(events, Rebalance)

    assert (row.trigger, row.initiator, row.moved) == ("join", "bob", 1)


def test_of_records_that_are_told_of_later_the_times_count_at_which_they_were_given_out(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.is_given(51.0, "t-0", 0, 9, ago=(11.0, 1.0))
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0"])
    bob.is_given(63.0, "t-0", 10, 20, ago=(9.5, 0.0))

    (row,) = rows_of(events, Downtime)

    assert (row.last_delivered, row.first_delivered, row.downtime_ms) == (50.0, 53.5, 3500)


def test_an_old_owner_that_tells_late_of_what_it_was_given_before_does_not_overlap_the_new_one(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.is_given(40.0, "t-0", 0, 9)
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0"])
    bob.is_given(54.0, "t-0", 11, 20)
    alice.is_given(61.0, "t-0", 10, 10, ago=(11.0, 11.0))

    (row,) = rows_of(events, Downtime)

    assert (row.overlap, row.last_delivered, row.downtime_ms) == (False, 50.0, 4000)


def test_the_delivery_before_the_new_owners_is_kept_though_the_old_owner_goes_on_for_long(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    for number, t in enumerate([40.0, 41.0, 53.5, 99.0, 100.0]):
        alice.is_given(t, "t-0", number, number)
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0"])
    bob.is_given(54.0, "t-0", 3, 20)

    (row,) = [one for one in read(thinned(events))[0] if isinstance(one, Downtime)]

    assert (row.last_delivered, row.downtime_ms, row.overlap) == (53.5, 500, False)
    assert (row,) == tuple(rows_of(events, Downtime))


def thinned(events: list[Event]) -> list[str]:
    """The lines that are left of the deliveries, and all others."""
    deliveries = Deliveries()
    left = []
    for event in events:
        told = dict(event)
        del told["source"]
        # In the order in which aktor writes them.
        end = {key: told.pop(key) for key in ("event", "t", "host", "trace", "line")}
        end["trace"] = f"{sum(end['trace'].encode()):08x}"
        line = json.dumps(told | end)
        seen = glance(line)
        assert seen is not None, line
        left += [one for one, _ in deliveries.take(line, seen)]
    return left + [one for one, _ in deliveries.rest()]


def test_a_partition_that_was_never_delivered_again_has_no_downtime(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    alice.is_given(40.0, "t-0", 0, 9)
    alice.leaves(50.0, ["t-0"])
    bob.rebalances(52.0, 53.0, 2, members=1, owns=["t-0"])

    (row,) = rows_of(events, Downtime)

    assert (row.first_delivered, row.downtime_ms, row.unowned_ms) == (None, None, 3000)


def test_a_pause_across_an_owner_that_delivered_nothing_counts_from_the_last_delivery_of_all(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    bob.is_given(40.0, "t-2", 0, 9)
    bob.leaves(45.0, ["t-2", "t-3"])
    carol = Member(events, "carol")
    carol.rebalances(46.0, 47.0, 2, because="first join", owns=["t-2"])
    alice.rebalances(60.0, 61.0, 3, members=1, owns=["t-2"])
    alice.is_given(62.0, "t-2", 8, 20)

    first, second = rows_of(events, Downtime)

    assert (first.to_consumer, first.last_delivered, first.downtime_ms) == ("carol", 40.0, None)
    assert (second.from_consumer, second.to_consumer) == ("carol", "alice")
    assert (second.last_delivered, second.downtime_ms) == (40.0, 22_000)
    assert (second.expected_offset, second.first_offset, second.repeated) == (10, 8, 2)


def test_a_pause_across_rebalances_that_released_the_partition_unread_counts_once(
    events: list[Event], alice: Member, bob: Member
) -> None:
    alice.rebalances(0.0, 1.0, 1, because="first join", members=1, owns=["t-0"])
    alice.is_given(9.0, "t-0", 0, 9)
    for generation in (2, 3):
        began = 10.0 * (generation - 1)
        alice.rebalances(*(began, began + 1, generation), members=1, gives_up=["t-0"], owns=["t-0"])
    alice.is_given(23.0, "t-0", 10, 10)

    assert [row.downtime_ms for row in rows_of(events, Downtime)] == [None, 14_000]
    assert [row.longest_downtime_ms for row in rows_of(events, Rebalance)] == [None, None, 14_000]


def test_partitions_that_the_application_assigned_are_none_of_the_groups(
    events: list[Event], alice: Member
) -> None:
    alice.tells(0.0, "partitions.assigned", partitions={"t-0": 1}, by_group=False)
    alice.is_given(1.0, "t-0", 0, 9)
    alice.tells(2.0, "partitions.released", partitions={"t-0": 10})

    assert rows_of(events, Downtime) == []


# -- what went wrong, and who was it


def test_refused_commits_and_resets_are_told_and_counted(
    events: list[Event], alice: Member
) -> None:
    alice.tells(
        *(1.0, "commit.failed"), kind="auto", because="X", retriable=False, partitions=["t-0"]
    )
    alice.tells(
        *(2.0, "position.reset"), partitions={"t-0": 3}, from_offsets={"t-0": 10}, because="Y"
    )

    (commit,), (reset,) = rows_of(events, RefusedCommit), rows_of(events, Reset)
    (member,) = rows_of(events, MemberTotal)

    assert (commit.kind, commit.partitions, commit.rebalancing) == ("auto", 1, False)
    assert (reset.from_offset, reset.to_offset, reset.skipped) == (10, 3, -7)
    assert (member.consumer, member.refused_commits, member.resets) == ("alice", 1, 1)


@pytest.mark.parametrize(
    ("because", "late"),
    [
        ("no poll for 300.0 s (max_poll_interval_ms): poll more often", 1),
        ("the process stood still for at least 45.0 s, or its clock jumped: without that", 0),
    ],
)
def test_a_poll_that_only_a_standstill_has_made_late_is_counted_once(
    events: list[Event], alice: Member, because: str, late: int
) -> None:
    """It is counted among the times that the member was lost."""
    alice.tells(70.0, "poll.late", because=because)
    alice.tells(70.0, "member.lost", because=because, partitions=["t-0", "t-1"])

    (total,) = rows_of(events, MemberTotal)

    assert (total.late_polls, total.lost) == (late, 1)


def test_rebalances_that_follow_each_other_are_a_storm(events: list[Event], alice: Member) -> None:
    for number in range(6):
        began = 50.0 * number
        alice.rebalances(began, began + 1, number, because="the subscription changed", members=1)
    alice.rebalances(9000.0, 9001.0, 7, members=1)

    (storm,) = rows_of(events, Storm)

    assert (storm.began, storm.ended, storm.rebalances) == (0.0, 251.0, 6)
    assert (storm.trigger, storm.initiator, storm.initiated) == ("subscription_change", "alice", 6)


# -- what happens to logs


@pytest.mark.parametrize("ms", [9e14, -9e14, 1e300, float("nan")])
def test_a_duration_of_thousands_of_years_counts_as_missing(
    events: list[Event], alice: Member, ms: float
) -> None:
    alice.tells(BEGAN, "rebalance.completed", generation=1, ms=ms)

    (row,) = rows_of(events, Rebalance)

    assert (row.began, row.ended) == (BEGAN, BEGAN)


@pytest.mark.parametrize(("seed", "protocol"), all_but_the_first(2, STORMS))
def test_every_trigger_of_a_storm_is_known(seed: int, protocol: str) -> None:
    rows = storm_rows(seed, protocol)

    rebalances = [row for row in rows if isinstance(row, Rebalance)]
    parts: list[Any] = [row for row in rows if type(row).__name__ == "MemberPart"]
    assert len(rebalances) > 5
    assert {part.because for part in parts if part.trigger == "unknown"} <= {None}


@pytest.mark.parametrize(("seed", "protocol"), all_but_the_first(2, STORMS))
def test_lines_that_come_twice_and_in_any_order_change_nothing(seed: int, protocol: str) -> None:
    lines = storm_lines(seed, protocol)
    draw = random.Random(seed)
    again = draw.sample(lines, len(lines) // 3)
    shipped = [json.dumps({"@timestamp": "later", **json.loads(line)}) for line in again[::2]]
    twice = [*lines, *again[1::2], *shipped]
    draw.shuffle(twice)

    rows, counts = read(twice)

    assert tuple(rows) == storm_rows(seed, protocol)
    assert counts["repeated"] > 0


def by_table(rows: Iterable[Row]) -> list[Row]:
    """The rows of each table in their order, one table after the other."""
    return sorted(rows, key=lambda row: type(row).__name__)


@pytest.mark.parametrize(("seed", "protocol"), all_but_the_first(2, STORMS))
def test_deliveries_that_are_left_out_change_nothing_however_the_lines_are_split(
    seed: int, protocol: str
) -> None:
    lines = storm_lines(seed, protocol)
    draw = random.Random(seed)
    left: list[str] = []
    rest = list(lines)
    while rest:
        size = draw.randint(1, 2000)
        chunk, rest = rest[:size], rest[size:]
        deliveries = Deliveries()
        for line in chunk:
            seen = glance(line)
            if seen is not None:
                left += [one for one, _ in deliveries.take(line, seen)]
        left += [one for one, _ in deliveries.rest()]

    # (By table: a silence may be known to be over only by a later event than its last delivery.)
    assert by_table(read(left)[0]) == by_table(storm_rows(seed, protocol))
    assert len(left) < sum(glance(line) is not None for line in lines)


@pytest.mark.parametrize(("seed", "protocol"), all_but_the_first(2, STORMS))
def test_a_group_can_be_pickled_between_any_two_events(seed: int, protocol: str) -> None:
    events = _events(storm_lines(seed, protocol))
    traces = GroupTraces("g")
    rows = []
    for number, event in enumerate(sorted(events, key=order)):
        if number % 97 == 0:
            rows += traces.rows()
            traces = pickle.loads(pickle.dumps(traces))
        traces.take(event)

    assert [*rows, *traces.end()] == tell(events)[0]


@pytest.mark.parametrize("seed", all_but_the_first(2, range(8)))
def test_fields_that_are_missing_or_of_another_kind_are_no_reason_to_fail(seed: int) -> None:
    draw = random.Random(seed)
    spoiled = []
    for event in _events(storm_lines(*STORMS[seed % len(STORMS)])):
        keys = [key for key in event if key not in ("event", "t", "group", "source")]
        if draw.random() < 0.3:
            key = draw.choice(keys)
            event = {**event, key: draw.choice([None, 7, -1.5, "x", [], {}, [None], {"t": None}])}
        elif draw.random() < 0.3:
            event = {key: event[key] for key in event if key not in draw.sample(keys, 2)}
        spoiled.append(event)

    rows, _ = tell(spoiled)

    assert any(isinstance(row, Rebalance) for row in rows)


def test_a_clock_that_is_ahead_moves_the_times_of_its_host_alone(
    events: list[Event], alice: Member, bob: Member
) -> None:
    both_join(alice, bob)
    ahead = [{**one, "t": one["t"] + 1.5} if one["consumer"] == "bob" else one for one in events]

    (row,) = rows_of(ahead, Rebalance)

    (right,) = rows_of(events, Rebalance)
    assert replace(row, ended=1.0, duration_ms=1000.0, sentence="") == replace(
        right, slowest="bob", slowest_host="host-bob", sentence=""
    )


def test_the_states_are_those_of_the_two_protocols() -> None:
    inside = classic_states.IN_GROUP | consumer_states.IN_GROUP
    everything = itertools.chain(classic_states.State, consumer_states.State)

    assert {state.value for state in inside} == IN_GROUP
    assert {state.value for state in everything} == IN_GROUP | OUT_OF_GROUP.keys()


def _events(lines: tuple[str, ...]) -> list[Event]:
    """Those of the group that all storms have."""
    events = []
    for line in lines:
        try:
            event = parse(line)
        except NotUnderstoodError:
            continue
        if event["group"] == "g":
            events.append(event)
    return events


def test_the_history_of_a_simulation_gives_what_trace_files_hold() -> None:
    event = json.loads(storm_lines(1, "classic")[0])

    assert event["t"] == BEGAN
    assert {"host", "trace", "line", "consumer", "level", "event"} <= event.keys()
    assert not {"at", "member_id"} & event.keys()


def test_a_join_that_no_broker_answers_waits_for_the_coordinator_since_servers_are_asked(
    events: list[Event], alice: Member
) -> None:
    because = "BootstrapError: no Kafka broker could be reached (b1:9092: Connection refused)."
    alice.tells(BEGAN, "bootstrap.started", addresses=["b1:9092"])
    alice.tells(BEGAN + 0.1, "rebalance.triggered", because="first join", rebalance=1)
    alice.tells(BEGAN + 0.1, "membership.moved", before="unjoined", after="joining")
    for second in (2.0, 4.0, 6.0):
        alice.tells(BEGAN + second, "bootstrap.failed", because=because)
    alice.tells(BEGAN + 7.1, "coordinator.found", node=1, address="b1:9092")
    alice.rebalances(BEGAN + 7.1, BEGAN + 7.3, 1, because="first join", members=1)

    (row,) = rows_of(events, Rebalance)

    assert (
        "first join; it waited 7.0 s for the coordinator, BootstrapError: no Kafka" in row.sentence
    )
    assert "(b1:9092: Connection refused); partitions moved" in row.sentence


def test_who_waited_for_two_coordinators_names_the_one_that_kept_it_for_longest(
    events: list[Event], alice: Member
) -> None:
    """The broker that takes over from a dead one has yet to load the group."""
    alice.tells(0.0, "coordinator.found", node=1, address="b1:9092")
    alice.tells(0.5, "rebalance.triggered", because="first join")
    alice.tells(0.5, "coordinator.lost", because="connection refused")
    alice.tells(6.0, "coordinator.found", node=2, address="b2:9092")
    alice.tells(6.1, "coordinator.lost", because="NOT_COORDINATOR")
    alice.tells(6.5, "coordinator.found", node=2, address="b2:9092")
    alice.tells(7.0, "rebalance.joined", generation=1)
    alice.tells(7.5, "rebalance.completed", generation=1, ms=7000)

    (row,) = rows_of(events, Rebalance)

    assert "it waited 5.9 s for the coordinator, broker 1 at b1:9092: connection refused" in (
        row.sentence
    )


@pytest.mark.parametrize("heard", [(12.1, 14.0), (14.0,), (40.0,)])
def test_new_partitions_name_the_topic_that_grew_whenever_members_hear_of_it_by_metadata(
    events: list[Event], alice: Member, bob: Member, heard: tuple[float, ...]
) -> None:
    """In a KIP-848 group the coordinator knows it before they do."""
    alice.tells(0.0, "membership.moved", before="stable", after="reconciling")
    alice.tells(11.0, "rebalance.triggered", because="the coordinator assigned other partitions")
    alice.tells(11.0, "partitions.assigned", partitions={"orders-6": 1}, by_group=True)
    alice.tells(11.1, "rebalance.completed", generation=5, ms=100)
    for at, member in zip(heard, (bob, alice), strict=False):
        member.tells(at, "cluster.changed", resized={"orders": [6, 8]})

    (row,) = rows_of(events, Rebalance)

    assert "triggered by the brokers: the partitions of orders changed (6, now 8)" in row.sentence
