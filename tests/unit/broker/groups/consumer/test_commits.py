"""Which epochs are good enough to commit and to fetch offsets with."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.epochs import PartitionCheck
from tests.unit.broker.groups.consumer.world import ConsumerWorld
from tests.unit.broker.harness import Topics


def refused(
    check: PartitionCheck | None, topic: str, partition: int
) -> tuple[Code, str | None] | None:
    assert check is not None
    try:
        check(topic, partition)
    except Refused as refusal:
        return refusal.code, refusal.message
    return None


def a_world_after_a_hand_over() -> ConsumerWorld:
    """Alice was given 0 to 3 in epoch 2 and has 0 and 1 in epoch 3; bob has 2 and 3."""
    world = ConsumerWorld()
    alice, bob = world.member("alice"), world.member("bob")
    alice.join()
    bob.join()
    world.settle(alice, bob)
    return world


def test_a_member_commits_in_its_epoch() -> None:
    world = a_world_after_a_hand_over()

    assert world.group.validate_commit("alice", 3) is None


def test_an_older_epoch_is_good_enough_for_what_the_member_has_since_then() -> None:
    world = a_world_after_a_hand_over()

    check = world.group.validate_commit("alice", 2)

    assert refused(check, "t", 0) is None
    assert refused(check, "t", 2) == (
        Code.STALE_MEMBER_EPOCH,
        "Partition t-2 is not assigned or pending revocation for member.",
    )
    assert refused(check, "gone", 0) is not None
    assert refused(world.group.validate_commit("bob", 2), "t", 2) == (
        Code.STALE_MEMBER_EPOCH,
        "Received member epoch 2 is older than assignment epoch 3 for partition t-2.",
    )


def test_what_is_to_be_given_up_may_be_committed_until_then() -> None:
    world = ConsumerWorld(Topics(t=4, u=1))
    alice, bob = world.member("alice"), world.member("bob")
    alice.join()
    world.topics.grow("t", 5)
    alice.beat()
    bob.join()
    alice.beat()

    check = world.group.validate_commit("alice", 2)

    assert (alice.epoch, alice.partitions) == (3, {"t": [0, 1, 2]})
    assert refused(check, "t", 3) is None
    assert refused(check, "t", 4) is not None  # given in epoch 3


def test_whoever_is_back_under_a_static_name_may_commit() -> None:
    world = ConsumerWorld()
    alice = world.member("alice-1", topics=["t"], instance_id="alice")
    alice.join()
    alice.leave(epoch=-2)
    world.member("alice-2", topics=["t"], instance_id="alice").join()

    assert refused(world.group.validate_commit("alice-2", 0), "t", 3) is None


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("alice", 4, Code.STALE_MEMBER_EPOCH),
        ("carol", 3, Code.UNKNOWN_MEMBER_ID),
        ("", -1, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_of_a_stranger_or_from_the_future_is_refused(
    member_id: str, epoch: int, code: Code
) -> None:
    world = a_world_after_a_hand_over()

    with pytest.raises(Refused) as refusal:
        world.group.validate_commit(member_id, epoch)

    assert refusal.value.code == code


def test_an_empty_group_lets_anybody_commit_without_an_epoch() -> None:
    world = ConsumerWorld()

    assert world.group.validate_commit("", -1) is None


def test_a_producer_need_not_say_who_consumes() -> None:
    world = a_world_after_a_hand_over()

    assert world.group.validate_commit("", -1, None, transactional=True, version=3) is None
    with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
        world.group.validate_commit("", -1, "alice", transactional=True, version=3)


def test_a_commit_of_a_version_that_knows_no_epochs_is_refused() -> None:
    world = a_world_after_a_hand_over()

    with pytest.raises(Refused, match="OffsetCommit version 9 or above"):
        world.group.validate_commit("alice", 3, version=8)


def test_offsets_are_fetched_with_the_epoch_or_without_saying_who_asks() -> None:
    world = a_world_after_a_hand_over()

    world.group.validate_fetch("alice", 3)
    world.group.validate_fetch(None, -1)
    with pytest.raises(Refused, match="STALE_MEMBER_EPOCH"):
        world.group.validate_fetch("alice", 2)
    with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
        world.group.validate_fetch("carol", 3)
