"""One member on its way to its target, step by step."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest

from aktor.broker.groups.consumer.member import Member, MemberState, Target, reconcile

T, U = UUID(int=1), UUID(int=2)


def a_member(**fields: Any) -> Member:
    """It came to epoch 1 with the partitions 0 and 1 of T."""
    return Member(
        **{
            "member_id": "m",
            "epoch": 1,
            "previous_epoch": 0,
            "assigned": {T: {0: 1, 1: 1}},
            **fields,
        }
    )


def step(
    member: Member,
    target: dict[UUID, tuple[int, ...]],
    *,
    owned: Collection[tuple[UUID, int]] | None = ((T, 0), (T, 1)),
    epoch: int = 2,
    taken: Collection[tuple[UUID, int]] = (),
    subscribed: Collection[UUID] = (T, U),
    subscription_changed: bool = False,
) -> Member:
    return reconcile(
        member,
        Target(epoch=epoch, assignment=target),
        subscribed=subscribed,
        reported=None if owned is None else frozenset(owned),
        is_free=lambda topic_id, partition: (topic_id, partition) not in taken,
        subscription_changed=subscription_changed,
    )


def test_a_member_that_keeps_all_takes_the_epoch_and_what_is_free() -> None:
    member = step(a_member(), {T: (0, 1, 2)})

    assert (member.state, member.epoch, member.previous_epoch) == (MemberState.STABLE, 2, 1)
    assert member.assigned == {T: {0: 1, 1: 1, 2: 2}}


def test_what_others_still_have_is_waited_for_in_the_new_epoch() -> None:
    member = step(a_member(), {T: (0, 1, 2, 3)}, taken=[(T, 3)])

    assert (member.state, member.epoch) == (MemberState.UNRELEASED_PARTITIONS, 2)
    assert member.assigned == {T: {0: 1, 1: 1, 2: 2}}
    member = step(member, {T: (0, 1, 2, 3)}, owned=None)
    assert (member.state, member.epoch) == (MemberState.STABLE, 2)
    assert member.assigned == {T: {0: 1, 1: 1, 2: 2, 3: 2}}


def test_what_is_not_to_be_kept_is_given_up_first_in_the_old_epoch() -> None:
    member = step(a_member(), {T: (0,), U: (0,)})

    assert (member.state, member.epoch) == (MemberState.UNREVOKED_PARTITIONS, 1)
    assert (member.assigned, member.pending) == ({T: {0: 1}}, {T: {1: 1}})


@pytest.mark.parametrize("owned", [None, [(T, 1)], [(T, 0), (T, 1)]])
def test_who_still_has_it_or_does_not_say_stays_as_it_is(
    owned: Collection[tuple[UUID, int]] | None,
) -> None:
    member = step(a_member(), {T: (0,)})

    assert step(member, {T: (0,)}, owned=owned) == member


def test_who_gave_it_up_goes_on() -> None:
    member = step(step(a_member(), {T: (0,), U: (0,)}), {T: (0,), U: (0,)}, owned=[(T, 0)])

    assert (member.state, member.epoch) == (MemberState.STABLE, 2)
    assert (member.assigned, member.pending) == ({T: {0: 1}, U: {0: 2}}, {})


def test_what_was_given_up_and_is_to_be_had_again_is_free_for_the_one_who_had_it() -> None:
    member = step(a_member(), {T: (0,)})

    member = step(member, {T: (0, 1)}, epoch=3, owned=[(T, 0)], taken=[(T, 0), (T, 1)])

    assert (member.state, member.epoch) == (MemberState.STABLE, 3)
    assert member.assigned == {T: {0: 1, 1: 3}}


def test_who_has_given_up_already_need_not_be_asked() -> None:
    member = step(a_member(), {T: (0,)}, owned=[(T, 0)])

    assert (member.state, member.epoch) == (MemberState.STABLE, 2)


def test_what_is_unsubscribed_is_no_part_of_the_target() -> None:
    member = step(a_member(), {T: (0, 1)}, subscribed=[U])

    assert (member.state, member.pending) == (
        MemberState.UNREVOKED_PARTITIONS,
        {T: {0: 1, 1: 1}},
    )


def test_without_a_new_target_only_what_is_unsubscribed_is_given_up() -> None:
    member = step(a_member(), {T: (0, 1, 2)}, epoch=1, subscribed=[U], subscription_changed=True)

    assert (member.state, member.epoch) == (MemberState.UNREVOKED_PARTITIONS, 1)
    assert (member.assigned, member.pending) == ({}, {T: {0: 1, 1: 1}})


def test_who_unsubscribes_while_it_gives_up_gives_up_more() -> None:
    member = a_member(
        assigned={T: {0: 1}, U: {0: 1}},
        pending={T: {1: 1}},
        state=MemberState.UNREVOKED_PARTITIONS,
    )

    member = step(member, {}, subscribed=[U], subscription_changed=True)

    assert (member.assigned, member.pending) == ({U: {0: 1}}, {T: {0: 1, 1: 1}})


def test_a_member_is_the_same_after_it_was_written_down() -> None:
    member = a_member(
        state=MemberState.UNREVOKED_PARTITIONS,
        pending={U: {3: 1}},
        topics=frozenset({"b", "a"}),
        regex="x.*",
        instance_id="i",
        rack_id="r",
        assignor="range",
    )

    assert Member.from_json(member.to_json()) == member
