"""A rebalance into which something came after what triggered it: all of them are named."""

from __future__ import annotations

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import MemberTotal, Rebalance
from tests.unit.trace.rebalances.incidents import Incident, closes
from tests.unit.trace.rebalances.told import Member, rows_of, takes

GIVEN = "the coordinator assigned other partitions"


def gives_up(member: Member, at: float, epoch: int, owned: int, *partitions: str) -> None:
    """A KIP-848 member is told to give these up, does it, and has the next epoch."""
    member.tells(at, "membership.moved", before="stable", after="reconciling")
    member.tells(at, "rebalance.triggered", because=GIVEN, generation=epoch, owned=owned)
    member.tells(at + 0.01, "partitions.released", partitions=dict.fromkeys(partitions, 5))
    member.tells(at + 0.02, "membership.moved", before="reconciling", after="stable")
    member.tells(at + 0.02, "rebalance.completed", generation=epoch, ms=20)
    member.tells(at + 0.03, "member.epoch", before=epoch, after=epoch + 1)


@pytest.mark.parametrize("gap", [5, 8])
def test_who_is_closed_while_the_group_makes_room_for_another_one_is_named(gap: int) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, "consumer")
        _, bob = group.joins(), group.joins()
        sim.run(for_=10)
        group.joins()
        sim.run(for_=gap)
        closes(sim, bob)
        sim.run(for_=25)

        (sentence,) = group.sentences(since=9)

    first = "triggered by carol on host-carol: first join"
    assert f"{first}, then by bob on host-bob: the consumer was closed;" in sentence


def test_who_came_for_what_it_is_given_is_named_and_not_only_who_joined_meanwhile(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    """Targets are computed late (Kafka 4.3): when alice's is, bob has just asked to join."""
    takes(carol, 1.0, 2, "first join", "t-0", "t-1", joins=True)
    takes(alice, 1.6, 2, "first join", joins=True)
    gives_up(carol, 2.000, 2, 2, "t-1")
    bob.tells(2.002, "rebalance.triggered", because="first join", generation=0, owned=0)
    bob.tells(2.002, "membership.moved", before="unsubscribed", after="joining")
    bob.tells(2.03, "member.epoch", before=0, after=3)
    bob.tells(2.04, "membership.moved", before="joining", after="stable")
    bob.tells(2.04, "rebalance.completed", generation=3, ms=38)
    alice.tells(2.06, "member.epoch", before=2, after=3)
    alice.tells(2.06, "membership.moved", before="stable", after="reconciling")
    alice.tells(2.06, "rebalance.triggered", because=GIVEN, generation=3, owned=0)
    alice.tells(2.06, "partitions.assigned", partitions={"t-1": 1}, by_group=True)
    alice.tells(2.07, "membership.moved", before="reconciling", after="stable")
    alice.tells(2.07, "rebalance.completed", generation=3, ms=10)

    taken_in, moved = rows_of(events, Rebalance)

    assert "triggered by carol on vm: first join, then by alice on vm;" in taken_in.sentence
    assert "triggered by alice on vm: first join, then by bob on vm;" in moved.sentence
    assert (moved.trigger, moved.initiator) == ("join", "alice")
    began = {row.consumer: row.initiated for row in rows_of(events, MemberTotal)}
    assert began == {"alice": 2, "bob": 1, "carol": 1}


def test_who_joined_a_group_without_a_partition_for_it_did_not_come_for_that_of_one_that_left(
    events: list[Event], alice: Member, bob: Member, carol: Member
) -> None:
    takes(alice, 1.0, 1, "first join", "t-0", joins=True)
    takes(bob, 2.0, 2, "first join", "t-1", joins=True)
    takes(carol, 3.0, 3, "first join", joins=True)
    bob.leaves(20.0, ["t-1"])
    carol.tells(20.5, "member.epoch", before=3, after=4)
    carol.tells(20.5, "membership.moved", before="stable", after="reconciling")
    carol.tells(20.5, "rebalance.triggered", because=GIVEN, generation=4, owned=0)
    carol.tells(20.6, "partitions.assigned", partitions={"t-1": 1}, by_group=True)
    carol.tells(20.7, "membership.moved", before="reconciling", after="stable")
    carol.tells(20.7, "rebalance.completed", generation=4, ms=200)

    row = rows_of(events, Rebalance)[-1]

    assert "triggered by bob on vm: the consumer was closed; " in row.sentence


def test_of_many_that_trigger_a_rebalance_three_are_named(events: list[Event]) -> None:
    for number in range(6):
        member = Member(events, f"m{number}", "vm")
        began = number / 100
        member.rebalances(began, 1.0, 1, because="first join", members=None if number else 6)

    (row,) = rows_of(events, Rebalance)

    assert (
        "triggered by m0 on vm: first join, then by m1 on vm, then by m2 on vm, and by 3 more;"
    ) in row.sentence
