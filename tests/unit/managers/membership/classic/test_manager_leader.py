"""The classic membership manager: the group's leader assigns."""

from __future__ import annotations

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError, UnsupportedVersionError
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from aktor.events.coordinator import CoordinatorLost
from aktor.events.membership import GroupFailed, RevokePartitions
from aktor.events.metadata import ClusterChanged, RefreshMetadata, TrackTopics
from aktor.events.network import Destination
from aktor.managers.membership.classic.states import State
from aktor.values import replace
from tests.unit.managers.membership.builders import (
    GROUP_AUTHORIZATION_FAILED,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    Scene,
    a_cluster,
    a_leader_that_came_back,
    a_member,
    a_subscription,
    described,
    joined,
    partitions,
    sync_refused,
    synced,
)


def test_the_leader_assigns_to_all_members() -> None:
    scene = a_member()
    scene.see(a=2)
    members = {"m": a_subscription("a"), "n": a_subscription("a")}

    scene.is_syncing("a", leader="m", members=members)

    body = scene.sent(SyncGroupRequest).body
    given = {
        one.member_id: ConsumerProtocolAssignment.decode(one.assignment).partitions()
        for one in body.assignments
    }
    assert {member: set(one) for member, one in given.items()} == {
        "m": partitions("a-0"),
        "n": partitions("a-1"),
    }


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor]
)
def test_each_assignor_of_kafka_python_works_for_a_leader(assignor: type) -> None:
    """Scenario 58."""
    scene = Scene(partition_assignment_strategy=(assignor,))
    scene.see(a=3, unrelated=5)
    members = {"m": a_subscription("a"), "n": a_subscription("a")}

    scene.is_syncing("a", leader="m", members=members, assignor=assignor.name)

    body = scene.sent(SyncGroupRequest).body
    given = [ConsumerProtocolAssignment.decode(one.assignment) for one in body.assignments]
    assert sorted(tp for one in given for tp in one.partitions()) == sorted(
        partitions("a-0 a-1 a-2")
    )


def test_the_leader_waits_for_topics_only_others_subscribe_to() -> None:
    scene = a_member()
    scene.see(a=1)
    members = {"m": a_subscription("a"), "n": a_subscription("b")}
    scene.is_syncing("a", leader="m", members=members)
    assert scene.said(TrackTopics) == TrackTopics(owner="membership", topics=frozenset({"a", "b"}))
    assert not scene.has_sent(SyncGroupRequest)

    scene.see(a=1, b=1)

    body = scene.sent(SyncGroupRequest).body
    assert sorted(one.member_id for one in body.assignments) == ["m", "n"]


def test_the_leader_does_not_wait_for_ever_for_a_topic_that_does_not_exist() -> None:
    """Scenario 115."""
    scene = a_member()
    scene.see(a=1)
    members = {"m": a_subscription("a", "nowhere")}
    scene.is_syncing("a", "nowhere", leader="m", members=members)

    scene.after(1.4)
    assert not scene.has_sent(SyncGroupRequest)
    scene.after(0.2)

    (mine,) = scene.sent(SyncGroupRequest).body.assignments
    assert set(ConsumerProtocolAssignment.decode(mine.assignment).partitions()) == partitions("a-0")


def test_a_leader_does_not_wait_for_a_topic_that_does_not_exist_and_assigns_anew_when_it_does() -> (
    None
):
    scene = a_member()
    scene.see(a=1)
    members = {"m": a_subscription("a"), "n": a_subscription("nowhere")}
    scene.is_syncing("a", leader="m", members=members)
    waits = not scene.has_sent(SyncGroupRequest)

    unknown = replace(a_cluster(a=1), unknown=frozenset({"nowhere"}))
    scene.tell(ClusterChanged(cluster=unknown))

    assert waits
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))
    scene.apply()
    scene.see(a=1, nowhere=1)
    assert scene.manager.state is not State.STABLE


def test_a_leader_that_lacks_a_topic_it_tracks_already_asks_for_fresh_metadata() -> None:
    scene = a_member()
    scene.see(a=1)
    members = {"m": a_subscription("a"), "n": a_subscription("b")}
    scene.is_stable("a-0", leader="somebody")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    scene.answer(scene.sent(JoinGroupRequest), joined(2, leader="m", members=members))
    assert not scene.has_said(RefreshMetadata)

    scene.after(2)
    scene.answer(scene.sent(SyncGroupRequest), sync_refused(REBALANCE_IN_PROGRESS))
    scene.answer(scene.sent(JoinGroupRequest), joined(3, leader="m", members=members))

    assert "b" in scene.said(RefreshMetadata).because


def test_a_leader_that_must_skip_the_assignment_learns_it_and_watches_the_topics() -> None:
    """Scenario 60 (KIP-814)."""
    scene = a_leader_that_came_back(a=3)
    request = scene.sent(DescribeGroupsRequest)
    assert request.to is Destination.COORDINATOR
    assert request.body.groups == ["g"]
    scene.answer(request, described("a-0 a-1", "a-2"))
    scene.after(5)
    assert not scene.has_said(RevokePartitions)
    assert not scene.has_sent(DescribeGroupsRequest)

    scene.see(a=4)

    assert scene.said(RevokePartitions).because == "the partitions of a changed"


def test_partitions_that_were_added_while_a_static_leader_was_away_are_assigned() -> None:
    scene = a_leader_that_came_back(a=4)

    scene.answer(scene.sent(DescribeGroupsRequest), described("a-0 a-1", "a-2"))

    assert scene.said(RevokePartitions).because == "the partitions of a changed"


def test_a_leader_learns_the_assignment_when_it_knows_the_topics_metadata() -> None:
    scene = a_leader_that_came_back()
    assert not scene.has_sent(DescribeGroupsRequest)

    scene.see(a=3)
    scene.answer(scene.sent(DescribeGroupsRequest), described("a-0 a-1", "a-2"))

    assert not scene.has_said(RevokePartitions)


@pytest.mark.parametrize(
    "how", ["it rebalances", "the coordinator moved", "no answer", "the connection ended"]
)
def test_a_description_that_is_of_no_use_is_asked_for_again(how: str) -> None:
    scene = a_leader_that_came_back(a=4)
    request = scene.sent(DescribeGroupsRequest)
    match how:
        case "it rebalances":
            scene.answer(request, described("", "", state="PreparingRebalance"))
        case "the coordinator moved":
            scene.answer(request, described(code=NOT_COORDINATOR))
        case "no answer":
            scene.time_out(request)
        case _:
            scene.fail(request)
    assert not scene.has_sent(DescribeGroupsRequest)

    scene.after(1.1)
    scene.answer(scene.sent(DescribeGroupsRequest), described("a-0 a-1", "a-2"))

    assert scene.has_said(RevokePartitions)


@pytest.mark.parametrize("how", ["forbidden", "too old", "gibberish"])
def test_a_leader_that_nobody_tells_the_assignment_watches_the_topics_from_then_on(
    how: str,
) -> None:
    scene = a_leader_that_came_back(a=4)
    request = scene.sent(DescribeGroupsRequest)
    match how:
        case "forbidden":
            scene.answer(request, described(code=GROUP_AUTHORIZATION_FAILED))
        case "too old":
            scene.fail(request, UnsupportedVersionError("no"))
        case _:
            answer = described("a-0")
            answer.groups[0].members[0].member_assignment = b"x"
            scene.answer(request, answer)
    scene.after(5)
    assert not scene.has_said(RevokePartitions)
    assert not scene.has_sent(DescribeGroupsRequest)
    assert scene.traced("assignment.unknown")

    scene.see(a=5)

    assert scene.has_said(RevokePartitions)


@pytest.mark.parametrize("late", ["an answer", "an error", "a failure"])
def test_a_late_end_of_a_description_that_was_given_up_does_not_end_the_next(late: str) -> None:
    scene = a_leader_that_came_back(a=4)
    old = scene.sent(DescribeGroupsRequest)
    scene.tell(CoordinatorLost(because="disconnected"))
    scene.find_coordinator()
    request = scene.sent(DescribeGroupsRequest)

    match late:
        case "an answer":
            scene.answer(old, described("a-0 a-1", "a-2"))
        case "an error":
            scene.answer(old, described(code=NOT_COORDINATOR))
        case _:
            scene.fail(old)
    scene.after(1.1)

    assert not scene.has_sent(DescribeGroupsRequest)
    assert not scene.has_said(RevokePartitions)
    assert scene.traced("answer.dropped")
    scene.answer(request, described("a-0 a-1", "a-2"))
    assert scene.has_said(RevokePartitions)


def test_a_description_of_an_earlier_generation_is_dropped() -> None:
    scene = a_leader_that_came_back(a=4)
    request = scene.sent(DescribeGroupsRequest)
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    scene.rejoins(2, "a-0 a-1", leader="n")
    scene.apply()
    scene.forget()

    scene.answer(request, described("a-0"))

    assert not scene.has_said(RevokePartitions)


def test_more_partitions_make_the_leader_rejoin() -> None:
    scene = a_member()
    scene.see(a=2)
    scene.is_stable("a-0 a-1", leader="m", members={"m": a_subscription("a")})

    scene.see(a=2)
    assert not scene.has_said(RevokePartitions)
    scene.see(a=3)

    assert scene.revoke().partitions == partitions("a-0 a-1")
    assert "partitions of a changed" in scene.sent(JoinGroupRequest).body.reason


def test_more_partitions_leave_a_follower_alone() -> None:
    scene = a_member()
    scene.see(a=2)
    scene.is_stable("a-0 a-1", leader="somebody")

    scene.see(a=3)

    assert not scene.has_said(RevokePartitions)


def test_partitions_that_appear_while_the_leader_assigns_are_noticed_when_it_is_stable() -> None:
    scene = a_member()
    scene.see(a=2)
    scene.is_assigning("a-0 a-1", leader="m", members={"m": a_subscription("a")})
    scene.see(a=3)
    assert not scene.has_said(RevokePartitions)

    scene.apply()

    assert scene.has_said(RevokePartitions)


def test_a_leader_that_follows_again_tracks_the_others_topics_no_more() -> None:
    scene = a_member()
    scene.see(a=2, b=1)
    members = {"m": a_subscription("a"), "n": a_subscription("b")}
    scene.is_stable("a-0 a-1", leader="m", members=members)

    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    scene.answer(scene.sent(JoinGroupRequest), joined(2, leader="n"))

    assert scene.said(TrackTopics).topics == frozenset()
    assert list(scene.sent(SyncGroupRequest).body.assignments) == []


def test_an_assignor_that_raises_is_told_to_the_user_and_does_not_hold_the_group_up() -> None:
    class Broken(RangePartitionAssignor):  # type: ignore[misc]
        name = "broken"

        @classmethod
        def assign(cls, cluster: object, members: object) -> object:
            raise ZeroDivisionError("by zero")

    scene = Scene(partition_assignment_strategy=(Broken,))
    scene.see(a=1)

    scene.is_syncing("a", leader="m", members={"m": a_subscription("a")}, assignor="broken")

    error = scene.said(GroupFailed).error
    assert isinstance(error, KafkaError)
    assert "broken" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert scene.sent(LeaveGroupRequest).body.members[0].member_id == "m"


@pytest.mark.parametrize("made", [ZeroDivisionError("by zero"), 7])
def test_an_assignor_whose_metadata_cannot_be_had_is_told_to_the_user(made: object) -> None:
    class Broken(RangePartitionAssignor):  # type: ignore[misc]
        name = "broken"

        def metadata(self, topics: object) -> object:
            if isinstance(made, Exception):
                raise made
            return made

    scene = Scene(partition_assignment_strategy=(RangePartitionAssignor, Broken))

    scene.wants_to_join("a")

    error = scene.said(GroupFailed).error
    assert isinstance(error, KafkaError)
    assert "the assignor 'broken' failed in group 'g'" in str(error)
    assert not scene.has_sent(JoinGroupRequest)


def test_a_members_garbled_subscription_is_told_to_the_leaders_user() -> None:
    scene = a_member()
    scene.see(a=1)

    scene.is_syncing("a", leader="m", members={"m": a_subscription("a"), "n": b"\x00\x00\xff"})

    assert "'range' failed in group 'g'" in str(scene.said(GroupFailed).error)
