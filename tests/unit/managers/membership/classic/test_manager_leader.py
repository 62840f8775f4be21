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
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    MembershipHarness,
    a_cluster,
    a_leader_that_came_back,
    a_member,
    a_subscription,
    described,
    join_refused,
    joined,
    partitions,
    sync_refused,
    synced,
)


def test_the_leader_assigns_to_all_members() -> None:
    harness = a_member()
    harness.see(a=2)
    members = {"m": a_subscription("a"), "n": a_subscription("a")}

    harness.is_syncing("a", leader="m", members=members)

    body = harness.sent(SyncGroupRequest).body
    given = {
        one.member_id: ConsumerProtocolAssignment.decode(one.assignment).partitions()
        for one in body.assignments
    }
    assert {member: set(one) for member, one in given.items()} == {
        "m": partitions("a-0"),
        "n": partitions("a-1"),
    }


@pytest.mark.parametrize(("leader", "step"), [("m", "sync"), ("n", "leader")])
def test_what_is_shown_says_whether_a_request_to_the_coordinator_waits_for_others(
    leader: str, step: str
) -> None:
    """For whom its answer waits: the member's own SyncGroup waits for nobody if it leads."""
    harness = a_member()
    harness.see(a=2)
    harness.wants_to_join("a")
    harness.tick()
    shown = [step_of(harness)]
    harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "m"))
    harness.poll()
    harness.tick()
    shown.append(step_of(harness))
    members = {"m": a_subscription("a"), "n": a_subscription("a")}
    harness.answer(harness.sent(JoinGroupRequest), joined(leader=leader, members=members))
    harness.tick()

    assert [*shown, step_of(harness)] == ["join", "members", step]


def step_of(harness: MembershipHarness) -> str:
    harness.manager.note_present(harness.now)
    step: str = harness.manager.present.step
    return step


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor]
)
def test_each_assignor_of_kafka_python_works_for_a_leader(assignor: type) -> None:
    """Scenario 58."""
    harness = MembershipHarness(partition_assignment_strategy=(assignor,))
    harness.see(a=3, unrelated=5)
    members = {"m": a_subscription("a"), "n": a_subscription("a")}

    harness.is_syncing("a", leader="m", members=members, assignor=assignor.name)

    body = harness.sent(SyncGroupRequest).body
    given = [ConsumerProtocolAssignment.decode(one.assignment) for one in body.assignments]
    assert sorted(tp for one in given for tp in one.partitions()) == sorted(
        partitions("a-0 a-1 a-2")
    )


def test_the_leader_waits_for_topics_only_others_subscribe_to() -> None:
    harness = a_member()
    harness.see(a=1)
    members = {"m": a_subscription("a"), "n": a_subscription("b")}
    harness.is_syncing("a", leader="m", members=members)
    assert harness.said(TrackTopics) == TrackTopics(
        owner="membership", topics=frozenset({"a", "b"})
    )
    assert not harness.has_sent(SyncGroupRequest)

    harness.see(a=1, b=1)

    body = harness.sent(SyncGroupRequest).body
    assert sorted(one.member_id for one in body.assignments) == ["m", "n"]


def test_the_leader_does_not_wait_for_ever_for_a_topic_that_does_not_exist() -> None:
    """Scenario 115."""
    harness = a_member()
    harness.see(a=1)
    members = {"m": a_subscription("a", "nowhere")}
    harness.is_syncing("a", "nowhere", leader="m", members=members)

    harness.after(1.4)
    assert not harness.has_sent(SyncGroupRequest)
    harness.after(0.2)

    (mine,) = harness.sent(SyncGroupRequest).body.assignments
    assert set(ConsumerProtocolAssignment.decode(mine.assignment).partitions()) == partitions("a-0")


def test_a_leader_does_not_wait_for_a_topic_that_does_not_exist_and_assigns_anew_when_it_does() -> (
    None
):
    harness = a_member()
    harness.see(a=1)
    members = {"m": a_subscription("a"), "n": a_subscription("nowhere")}
    harness.is_syncing("a", leader="m", members=members)
    waits = not harness.has_sent(SyncGroupRequest)

    unknown = replace(a_cluster(a=1), unknown=frozenset({"nowhere"}))
    harness.tell(ClusterChanged(cluster=unknown))

    assert waits
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))
    harness.apply()
    harness.see(a=1, nowhere=1)
    assert harness.manager.state is not State.STABLE


def test_a_leader_that_lacks_a_topic_it_tracks_already_asks_for_fresh_metadata() -> None:
    harness = a_member()
    harness.see(a=1)
    members = {"m": a_subscription("a"), "n": a_subscription("b")}
    harness.is_stable("a-0", leader="somebody")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    harness.answer(harness.sent(JoinGroupRequest), joined(2, leader="m", members=members))
    assert not harness.has_said(RefreshMetadata)

    harness.after(2)
    harness.answer(harness.sent(SyncGroupRequest), sync_refused(REBALANCE_IN_PROGRESS))
    harness.answer(harness.sent(JoinGroupRequest), joined(3, leader="m", members=members))

    assert "b" in harness.said(RefreshMetadata).because


def test_a_leader_that_must_skip_the_assignment_learns_it_and_watches_the_topics() -> None:
    """Scenario 60 (KIP-814)."""
    harness = a_leader_that_came_back(a=3)
    request = harness.sent(DescribeGroupsRequest)
    assert request.to is Destination.COORDINATOR
    assert request.body.groups == ["g"]
    harness.answer(request, described("a-0 a-1", "a-2"))
    harness.after(5)
    assert not harness.has_said(RevokePartitions)
    assert not harness.has_sent(DescribeGroupsRequest)

    harness.see(a=4)

    assert harness.said(RevokePartitions).because == "the partitions of a changed (a: 3, now 4)"


def test_partitions_that_were_added_while_a_static_leader_was_away_are_assigned() -> None:
    harness = a_leader_that_came_back(a=4)

    harness.answer(harness.sent(DescribeGroupsRequest), described("a-0 a-1", "a-2"))

    assert harness.said(RevokePartitions).because == "the partitions of a changed (a: 3, now 4)"


def test_a_leader_learns_the_assignment_when_it_knows_the_topics_metadata() -> None:
    harness = a_leader_that_came_back()
    assert not harness.has_sent(DescribeGroupsRequest)

    harness.see(a=3)
    harness.answer(harness.sent(DescribeGroupsRequest), described("a-0 a-1", "a-2"))

    assert not harness.has_said(RevokePartitions)


@pytest.mark.parametrize(
    "how", ["it rebalances", "the coordinator moved", "no answer", "the connection ended"]
)
def test_a_description_that_is_of_no_use_is_asked_for_again(how: str) -> None:
    harness = a_leader_that_came_back(a=4)
    request = harness.sent(DescribeGroupsRequest)
    match how:
        case "it rebalances":
            harness.answer(request, described("", "", state="PreparingRebalance"))
        case "the coordinator moved":
            harness.answer(request, described(code=NOT_COORDINATOR))
        case "no answer":
            harness.time_out(request)
        case _:
            harness.fail(request)
    assert not harness.has_sent(DescribeGroupsRequest)

    harness.after(1.1)
    harness.answer(harness.sent(DescribeGroupsRequest), described("a-0 a-1", "a-2"))

    assert harness.has_said(RevokePartitions)


@pytest.mark.parametrize("how", ["forbidden", "too old", "gibberish"])
def test_a_leader_that_nobody_tells_the_assignment_watches_the_topics_from_then_on(
    how: str,
) -> None:
    harness = a_leader_that_came_back(a=4)
    request = harness.sent(DescribeGroupsRequest)
    match how:
        case "forbidden":
            harness.answer(request, described(code=GROUP_AUTHORIZATION_FAILED))
        case "too old":
            harness.fail(request, UnsupportedVersionError("no"))
        case _:
            answer = described("a-0")
            answer.groups[0].members[0].member_assignment = b"x"
            harness.answer(request, answer)
    harness.after(5)
    assert not harness.has_said(RevokePartitions)
    assert not harness.has_sent(DescribeGroupsRequest)
    assert harness.traced("assignment.unknown")

    harness.see(a=5)

    assert harness.has_said(RevokePartitions)


@pytest.mark.parametrize("late", ["an answer", "an error", "a failure"])
def test_a_late_end_of_a_description_that_was_given_up_does_not_end_the_next(late: str) -> None:
    harness = a_leader_that_came_back(a=4)
    old = harness.sent(DescribeGroupsRequest)
    harness.tell(CoordinatorLost(because="disconnected"))
    harness.find_coordinator()
    request = harness.sent(DescribeGroupsRequest)

    match late:
        case "an answer":
            harness.answer(old, described("a-0 a-1", "a-2"))
        case "an error":
            harness.answer(old, described(code=NOT_COORDINATOR))
        case _:
            harness.fail(old)
    harness.after(1.1)

    assert not harness.has_sent(DescribeGroupsRequest)
    assert not harness.has_said(RevokePartitions)
    assert harness.traced("answer.dropped")
    harness.answer(request, described("a-0 a-1", "a-2"))
    assert harness.has_said(RevokePartitions)


def test_a_description_of_an_earlier_generation_is_dropped() -> None:
    harness = a_leader_that_came_back(a=4)
    request = harness.sent(DescribeGroupsRequest)
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    harness.rejoins(2, "a-0 a-1", leader="n")
    harness.apply()
    harness.forget()

    harness.answer(request, described("a-0"))

    assert not harness.has_said(RevokePartitions)


def test_more_partitions_make_the_leader_rejoin() -> None:
    harness = a_member()
    harness.see(a=2)
    harness.is_stable("a-0 a-1", leader="m", members={"m": a_subscription("a")})

    harness.see(a=2)
    assert not harness.has_said(RevokePartitions)
    harness.see(a=3)

    assert harness.revoke().partitions == partitions("a-0 a-1")
    assert "partitions of a changed" in harness.sent(JoinGroupRequest).body.reason


def test_more_partitions_leave_a_follower_alone() -> None:
    harness = a_member()
    harness.see(a=2)
    harness.is_stable("a-0 a-1", leader="somebody")

    harness.see(a=3)

    assert not harness.has_said(RevokePartitions)


def test_partitions_that_appear_while_the_leader_assigns_are_noticed_when_it_is_stable() -> None:
    harness = a_member()
    harness.see(a=2)
    harness.is_assigning("a-0 a-1", leader="m", members={"m": a_subscription("a")})
    harness.see(a=3)
    assert not harness.has_said(RevokePartitions)

    harness.apply()

    assert harness.has_said(RevokePartitions)


def test_a_leader_that_follows_again_tracks_the_others_topics_no_more() -> None:
    harness = a_member()
    harness.see(a=2, b=1)
    members = {"m": a_subscription("a"), "n": a_subscription("b")}
    harness.is_stable("a-0 a-1", leader="m", members=members)

    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    harness.answer(harness.sent(JoinGroupRequest), joined(2, leader="n"))

    assert harness.said(TrackTopics).topics == frozenset()
    assert list(harness.sent(SyncGroupRequest).body.assignments) == []


def test_an_assignor_that_raises_is_told_to_the_user_and_does_not_hold_the_group_up() -> None:
    class Broken(RangePartitionAssignor):  # type: ignore[misc]
        name = "broken"

        @classmethod
        def assign(cls, cluster: object, members: object) -> object:
            raise ZeroDivisionError("by zero")

    harness = MembershipHarness(partition_assignment_strategy=(Broken,))
    harness.see(a=1)

    harness.is_syncing("a", leader="m", members={"m": a_subscription("a")}, assignor="broken")

    error = harness.said(GroupFailed).error
    assert isinstance(error, KafkaError)
    assert "broken" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert harness.sent(LeaveGroupRequest).body.members[0].member_id == "m"


@pytest.mark.parametrize("made", [ZeroDivisionError("by zero"), 7])
def test_an_assignor_whose_metadata_cannot_be_had_is_told_to_the_user(made: object) -> None:
    class Broken(RangePartitionAssignor):  # type: ignore[misc]
        name = "broken"

        def metadata(self, topics: object) -> object:
            if isinstance(made, Exception):
                raise made
            return made

    harness = MembershipHarness(partition_assignment_strategy=(RangePartitionAssignor, Broken))

    harness.wants_to_join("a")

    error = harness.said(GroupFailed).error
    assert isinstance(error, KafkaError)
    assert "the assignor 'broken' failed in group 'g'" in str(error)
    assert not harness.has_sent(JoinGroupRequest)


def test_a_members_garbled_subscription_is_told_to_the_leaders_user() -> None:
    harness = a_member()
    harness.see(a=1)

    harness.is_syncing("a", leader="m", members={"m": a_subscription("a"), "n": b"\x00\x00\xff"})

    assert "'range' failed in group 'g'" in str(harness.said(GroupFailed).error)
