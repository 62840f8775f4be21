"""The classic membership manager: joining, rebalancing, heartbeats, leaving, being thrown out."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownError,
    UnsupportedVersionError,
)
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.errors import AuthenticationError, ConfigurationError
from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.coordinator import CoordinatorLost, CoordinatorRefused, SuspectCoordinator
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    ConfirmSession,
    GroupFailed,
    LeaveGroup,
    Loss,
    MemberChanged,
    MemberState,
    Operation,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
    SessionExtended,
    SubscriptionChanged,
)
from aktor.events.metadata import Broker, ClusterChanged, RefreshMetadata, TrackTopics
from aktor.events.network import Destination, Lane, Request
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.membership.classic.states import State
from aktor.settings import Settings
from aktor.trace.rebalances.causes import Cause, cause_of
from aktor.values import replace
from tests.unit.managers.membership.builders import (
    COOPERATIVE,
    COORDINATOR_LOADING,
    COORDINATOR_NOT_AVAILABLE,
    EAGER,
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Scene,
    a_cluster,
    a_cooperative_member,
    a_leader_that_came_back,
    a_member,
    a_stable_cooperative_member,
    a_static_member,
    a_subscription,
    beaten,
    described,
    join_refused,
    joined,
    left,
    partitions,
    sync_refused,
    synced,
)


def a_leave(deadline: float, ticket: int = 7) -> LeaveGroup:
    return LeaveGroup(ticket=ticket, deadline=deadline, because="close")


# -- joining


def test_join_group_has_the_group_its_kind_and_how_long_it_may_wait_for_the_member() -> None:
    scene = a_member().wants_to_join("a")

    join = scene.sent(JoinGroupRequest)
    assert join.in_order_for == 1.0  # it may begin a generation
    body = join.body
    assert (body.group_id, body.member_id, body.protocol_type) == ("g", "", "consumer")
    assert body.session_timeout_ms == 45_000
    assert body.rebalance_timeout_ms == 300_000


def test_a_join_group_that_is_not_answered_is_repeated_and_its_coordinator_believed() -> None:
    """It may never have arrived; heartbeats that do arrive keep us in the group meanwhile."""
    scene = a_member(max_poll_interval=300.0, request_timeout=30.0).is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    first = scene.sent(JoinGroupRequest)
    assert first.deadline == scene.now + 30.0
    scene.after(3.0)
    scene.beats(REBALANCE_IN_PROGRESS)

    scene.forget()
    scene.time_out(first)
    scene.after(1.0)

    assert scene.sent(JoinGroupRequest).body.member_id == first.body.member_id
    assert not scene.has_said(SuspectCoordinator)


def test_a_coordinator_that_answers_neither_join_group_nor_heartbeats_is_suspected() -> None:
    scene = a_member(max_poll_interval=300.0, request_timeout=30.0).is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()

    scene.time_out(scene.sent(JoinGroupRequest))

    assert scene.has_said(SuspectCoordinator)


def test_who_has_no_id_yet_is_told_one_at_once_or_asks_again() -> None:
    """Found by a simulation (seed 1001023): a half-open connection was waited for five minutes."""
    scene = a_member(max_poll_interval=300.0, request_timeout=30.0)

    scene.wants_to_join()

    assert scene.sent(JoinGroupRequest).deadline == scene.now + 30.0


def test_a_first_join_that_is_not_answered_is_repeated_by_the_same_member() -> None:
    scene = a_member(max_poll_interval=300.0, request_timeout=30.0).wants_to_join()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "m"))
    first = scene.sent(JoinGroupRequest)
    scene.forget()

    assert first.deadline == scene.now + 30.0
    scene.time_out(first)
    scene.find_coordinator()
    scene.after(1.0)

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_a_member_whose_session_may_be_over_hears_from_the_group_before_it_hands_back() -> None:
    scene = a_member(session_timeout=10.0).is_stable()

    scene.after(10.5)
    scene.subscribe("a", "b")
    scene.poll()
    assert not scene.has_said(RevokePartitions)
    scene.beats()

    assert scene.said(RevokePartitions).loss is Loss.REVOKED


def test_the_member_id_that_the_coordinator_requires_is_sent_back_at_once() -> None:
    scene = a_member().wants_to_join()

    scene.answer(scene.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "m"))

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_every_assignor_is_offered_in_the_order_of_preference() -> None:
    strategy = (StickyPartitionAssignor, RangePartitionAssignor())
    scene = Scene(partition_assignment_strategy=strategy)

    scene.wants_to_join("b", "a")

    offers = scene.sent(JoinGroupRequest).body.protocols
    assert [one.name for one in offers] == ["sticky", "range"]
    decoded = ConsumerProtocolSubscription.decode(offers[1].metadata)
    assert sorted(decoded.topics) == ["a", "b"]


def test_without_a_strategy_the_assignors_are_those_of_kafka_python() -> None:
    scene = Scene()

    scene.wants_to_join()

    offers = scene.sent(JoinGroupRequest).body.protocols
    assert [one.name for one in offers] == ["range", "roundrobin", "sticky"]


def test_eager_and_cooperative_assignors_cannot_be_mixed() -> None:
    strategy = (RangePartitionAssignor, CooperativeStickyAssignor)

    with pytest.raises(ConfigurationError, match="mixes eager and cooperative"):
        ClassicMembershipManager(Settings(group_id="g", partition_assignment_strategy=strategy))


def test_a_follower_syncs_with_the_generation_it_joined() -> None:
    scene = a_member().is_syncing(generation=5, member="m")

    sync = scene.sent(SyncGroupRequest)
    assert not sync.in_order_for  # it begins no generation
    body = sync.body

    assert (body.generation_id, body.member_id, body.protocol_name) == (5, "m", "range")
    assert list(body.assignments) == []


def test_the_assignment_is_told_to_the_application_and_then_the_member_is_stable() -> None:
    scene = a_member().is_assigning("a-0 a-1", generation=5)
    step = scene.said(AssignPartitions)
    assert step.assigned == step.added == partitions("a-0 a-1")
    assert step.generation == 5
    assert scene.last_said(MemberChanged).state is MemberState.REBALANCING

    scene.tell(CallbackFinished(rebalance=step.rebalance, assigned=True))

    changed = scene.said(MemberChanged)
    assert changed.state is MemberState.STABLE
    assert (changed.member_id, changed.generation, changed.assignor) == ("m", 5, "range")
    assert scene.manager.state is State.STABLE


def test_an_empty_assignment_makes_a_stable_member_too_and_runs_the_listener() -> None:
    """Scenario 45. The coordinator answers with no bytes for a member that was left out."""
    scene = a_member().is_syncing()
    nothing = SyncGroupResponse(
        error_code=0, protocol_type=None, protocol_name=None, assignment=b""
    )
    scene.answer(scene.sent(SyncGroupRequest), nothing)

    step = scene.apply()

    assert step.assigned == step.added == frozenset()
    assert scene.manager.state is State.STABLE


def test_no_revoked_callback_runs_before_the_first_join() -> None:
    scene = a_member().is_assigning()

    assert not scene.has_said(RevokePartitions)
    assert not scene.has_said(RunRevokedCallback)


def test_a_restarted_manager_joins_with_the_member_id_the_application_remembers() -> None:
    scene = a_member()
    scene.find_coordinator()
    scene.subscribe("a", member_id="m")
    scene.poll()

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_the_application_hears_under_which_id_the_member_joins_before_it_is_sent() -> None:
    """Restarted while JoinGroup waits it goes on under that id, and leaves nobody behind."""
    scene = a_member().wants_to_join()
    request = scene.sent(JoinGroupRequest)
    scene.forget()

    scene.answer(request, join_refused(MEMBER_ID_REQUIRED, member="m-2"))

    changed = scene.last_said(MemberChanged)
    assert (changed.member_id, changed.joins_as) == ("", "m-2")
    scene.answer(scene.sent(JoinGroupRequest), joined(member="m-2"))
    changed = scene.last_said(MemberChanged)
    assert (changed.member_id, changed.joins_as) == ("m-2", "")


def test_the_application_hears_as_whom_the_member_has_yet_to_leave() -> None:
    scene = a_member(max_poll_interval=10.0).is_stable("a-0")
    me = scene.manager.looks_after

    scene.after(10.0)
    leave = scene.sent(LeaveGroupRequest)
    assert scene.last_said(MemberChanged).leaving == me

    scene.answer(leave, left())
    assert scene.last_said(MemberChanged).leaving == frozenset()


def test_a_restarted_manager_leaves_for_those_who_had_yet_to_leave_before() -> None:
    scene = a_member(incarnation=2, request_timeout=30.0)
    former = frozenset({"m", "m-0"})

    scene.tell(SubscriptionChanged(topics=frozenset({"a"}), member_id="m", leaving=former))
    scene.find_coordinator()

    assert scene.sent(LeaveGroupRequest).body.members[0].member_id == "m-0"
    assert scene.wake_at == scene.now + 30.0


def test_a_repeated_answer_to_the_giving_up_is_not_taken_for_one_to_the_taking_on() -> None:
    """The application says it again if it was interrupted as it said it."""
    scene = a_member().is_assigning("a-0", generation=5)
    step = scene.said(AssignPartitions)

    scene.tell(CallbackFinished(rebalance=step.rebalance))
    assert scene.last_said(MemberChanged).state is MemberState.REBALANCING

    scene.tell(CallbackFinished(rebalance=step.rebalance, assigned=True))
    assert scene.last_said(MemberChanged).state is MemberState.STABLE


def test_an_answer_to_a_step_of_an_earlier_incarnation_is_not_taken_for_ours() -> None:
    before = a_member().is_assigning().said(AssignPartitions)
    scene = a_member(incarnation=2).is_assigning()

    scene.tell(CallbackFinished(rebalance=before.rebalance, assigned=True))

    assert scene.manager.state is State.ASSIGNING


def test_a_member_id_that_the_group_forgot_is_not_taken_back_from_the_application() -> None:
    scene = a_member().is_stable()
    scene.beats(UNKNOWN_MEMBER_ID)
    scene.subscribe("a", member_id="m")
    scene.revoke()
    scene.poll()

    assert scene.sent(JoinGroupRequest).body.member_id == ""


def test_the_reason_of_a_join_says_why() -> None:
    scene = a_member().is_stable()
    scene.subscribe("a", "b")
    scene.poll()
    scene.revoke()

    assert "subscription changed" in scene.sent(JoinGroupRequest).body.reason


# -- the leader


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


# -- eager rebalances


def test_an_eager_rebalance_hands_everything_back_and_commits_it_before_it_joins() -> None:
    """Scenario 21."""
    scene = a_member().is_stable("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)

    step = scene.release(a=7)
    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.REVOKED)
    commit = scene.said(CommitBeforeRevocation)
    assert {one: at.offset for one, at in commit.offsets.items()} == dict.fromkeys(
        partitions("a-0 a-1"), 7
    )
    assert not scene.has_said(RunRevokedCallback)
    scene.tell(RevocationCommitted(rebalance=commit.rebalance))
    callback = scene.said(RunRevokedCallback)
    assert (callback.partitions, callback.loss) == (partitions("a-0 a-1"), Loss.REVOKED)
    assert not scene.has_sent(JoinGroupRequest)
    scene.tell(CallbackFinished(rebalance=callback.rebalance))

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_nothing_consumed_is_nothing_to_commit() -> None:
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)

    scene.release()

    assert not scene.has_said(CommitBeforeRevocation)
    assert scene.has_said(RunRevokedCallback)


def test_only_positions_of_what_goes_away_are_committed() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")
    step = scene.said(RevokePartitions)
    positions = dict.fromkeys(partitions("a-0 a-1"), OffsetAndMetadata(5, "", -1))

    scene.tell(PartitionsReleased(rebalance=step.rebalance, positions=positions))

    assert set(scene.said(CommitBeforeRevocation).offsets) == partitions("a-1")


def test_a_pending_member_that_is_refused_for_good_takes_itself_back() -> None:
    """The coordinator would wait for it, and let the others wait, until its session ends."""
    scene = a_member().wants_to_join()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "pending"))

    scene.answer(scene.sent(JoinGroupRequest), join_refused(INCONSISTENT_GROUP_PROTOCOL))

    assert scene.sent(LeaveGroupRequest).body.members[0].member_id == "pending"


def test_what_a_refused_commit_shows_to_be_somebody_elses_is_lost_and_not_revoked() -> None:
    """The listener must not store, as the owner, what another member is reading by now."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.release(a=7)
    commit = scene.said(CommitBeforeRevocation)

    scene.tell(RevocationCommitted(rebalance=commit.rebalance, expelled=True))

    assert scene.said(RunRevokedCallback).loss is Loss.LOST
    assert len(scene.traced("membership.doubted")) == 1


def test_a_listener_that_raises_is_traced_and_the_rebalance_goes_on() -> None:
    """Scenario 123."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.release()
    scene.run_revoked_callback(error=ValueError("mine"))
    scene.rejoins(assigned="a-0")
    scene.apply(error=ValueError("mine too"))

    assert scene.manager.state is State.STABLE
    assert len(scene.traced("listener.failed")) == 2


def test_the_next_generation_starts_from_nothing_under_the_eager_protocol() -> None:
    scene = a_member().is_stable("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    scene.rejoins(generation=2, assigned="a-0")

    step = scene.apply()

    assert step.added == step.assigned == partitions("a-0")
    assert step.generation == 2


@pytest.mark.parametrize("topics", [("a", "b"), ("b",)])
def test_another_subscription_is_joined_with_at_the_next_poll(topics: tuple[str, ...]) -> None:
    """Scenario 56."""
    scene = a_member().is_stable("a-0")
    scene.subscribe(*topics)
    assert not scene.has_said(RevokePartitions)

    scene.poll()
    scene.revoke()

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    assert sorted(ConsumerProtocolSubscription.decode(offer.metadata).topics) == sorted(topics)


def test_the_same_subscription_again_is_no_reason_to_rejoin() -> None:
    scene = a_member().is_stable("a-0")

    scene.subscribe("a")
    scene.poll()

    assert scene.manager.state is State.STABLE


def test_a_subscription_that_changes_while_joining_makes_one_more_round() -> None:
    scene = a_member().wants_to_join("a")
    request = scene.sent(JoinGroupRequest)
    scene.subscribe("b")
    scene.poll()
    assert not scene.has_sent(JoinGroupRequest)
    scene.answer(request, joined())
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))

    assert scene.apply().assigned == frozenset()

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    assert ConsumerProtocolSubscription.decode(offer.metadata).topics == ["b"]


def test_answers_to_steps_of_an_earlier_rebalance_are_dropped_and_traced() -> None:
    """Scenario 39."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    old = scene.said(RevokePartitions)
    scene.beats(UNKNOWN_MEMBER_ID)
    new = scene.said(RevokePartitions)
    assert (new.loss, new.partitions) == (Loss.LOST, old.partitions)

    scene.tell(PartitionsReleased(rebalance=old.rebalance, positions={}))
    assert not scene.has_said(RunRevokedCallback)
    assert scene.traced("step.dropped")
    scene.tell(PartitionsReleased(rebalance=new.rebalance, positions={}))

    assert scene.said(RunRevokedCallback).loss is Loss.LOST


def test_a_late_commit_answer_does_not_advance_the_next_rebalance() -> None:
    """Scenario 39."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.release(a=1)
    commit = scene.said(CommitBeforeRevocation)
    scene.beats(UNKNOWN_MEMBER_ID)

    scene.tell(RevocationCommitted(rebalance=commit.rebalance))

    assert not scene.has_said(RunRevokedCallback)
    assert scene.manager.state is State.LOSING


# -- cooperative rebalances


def test_a_cooperative_member_keeps_everything_while_it_joins_and_says_what_it_owns() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")

    scene.beats(REBALANCE_IN_PROGRESS)

    assert not scene.has_said(RevokePartitions)
    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    subscription = ConsumerProtocolSubscription.decode(offer.metadata)
    (owned,) = subscription.owned_partitions
    assert (owned.topic, owned.partitions, subscription.generation_id) == ("a", [0, 1], 1)


def test_a_cooperative_member_gives_up_what_moves_applies_the_rest_and_rejoins_at_once() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")

    step = scene.revoke(a=3)
    assert (step.partitions, step.loss) == (partitions("a-1"), Loss.REVOKED)
    applied = scene.apply()
    assert (applied.assigned, applied.added) == (partitions("a-0"), frozenset())

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    (owned,) = ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions
    assert (owned.topic, owned.partitions) == ("a", [0])


def test_a_cooperative_member_that_gives_nothing_up_does_not_rejoin() -> None:
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0 a-1", assignor="cooperative-sticky")

    step = scene.apply()

    assert (step.assigned, step.added) == (partitions("a-0 a-1"), partitions("a-1"))
    assert scene.manager.state is State.STABLE
    assert not scene.has_sent(JoinGroupRequest)


def test_topics_no_longer_subscribed_are_handed_back_before_a_cooperative_join() -> None:
    """Scenario 56."""
    scene = a_stable_cooperative_member("a-0 b-0")
    scene.subscribe("a")
    scene.poll()

    step = scene.revoke()

    assert step.partitions == partitions("b-0")
    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    (owned,) = ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions
    assert owned.topic == "a"


def test_a_member_that_lost_its_partitions_does_not_claim_them_when_it_rejoins() -> None:
    scene = a_stable_cooperative_member("a-0")
    scene.beats(UNKNOWN_MEMBER_ID)

    assert scene.revoke().loss is Loss.LOST

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    assert ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions == []


def test_another_rebalance_while_the_application_applies_this_one_follows_at_once() -> None:
    """Scenarios 40 and 48: nothing is cut short, nothing is forgotten."""
    scene = a_cooperative_member().is_assigning("a-0", assignor="cooperative-sticky")
    scene.beats(REBALANCE_IN_PROGRESS)
    assert not scene.has_sent(JoinGroupRequest)

    scene.apply()

    assert "coordinator said" in scene.sent(JoinGroupRequest).body.reason


def test_what_is_kept_is_lost_if_the_group_fences_the_member_while_it_revokes() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")
    scene.release()
    scene.beats(UNKNOWN_MEMBER_ID)

    step = scene.said(RevokePartitions)

    assert (step.partitions, step.loss) == (partitions("a-0"), Loss.LOST)


def test_after_a_cooperative_assignment_heartbeats_come_quickly_and_then_at_growing_distances() -> (
    None
):
    scene = a_stable_cooperative_member("a-0")
    scene.now += 0.0001

    beats = [scene.beats().deadline for _ in range(10)]

    gaps = [round(b - a, 3) for a, b in itertools.pairwise(beats)]
    assert gaps == [0.03, 0.06, 0.12, 0.24, 0.48, 0.96, 1.92, 3.0, 3.0]


def test_the_eager_protocol_needs_no_quick_heartbeats() -> None:
    scene = a_member().is_stable()
    began = scene.now

    scene.beats()

    assert scene.now == began + 3.0


# -- join and sync errors


@pytest.mark.parametrize("code", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE])
def test_a_join_sent_to_the_wrong_broker_is_suspicious_and_no_error_for_the_user(code: int) -> None:
    scene = a_member().wants_to_join()

    scene.answer(scene.sent(JoinGroupRequest), join_refused(code))

    assert scene.said(SuspectCoordinator).node_id == 1
    assert not scene.has_said(GroupFailed)
    assert not scene.has_sent(JoinGroupRequest)


@pytest.mark.parametrize("code", [COORDINATOR_LOADING, REBALANCE_IN_PROGRESS, NOT_COORDINATOR])
def test_a_join_refused_for_now_is_repeated_after_the_backoff_and_not_before(code: int) -> None:
    scene = a_member().wants_to_join()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(code))

    scene.after(0.09)
    assert not scene.has_sent(JoinGroupRequest)
    scene.after(0.01)

    assert scene.has_sent(JoinGroupRequest)


def test_a_member_id_unknown_to_the_coordinator_is_forgotten_and_the_join_repeated() -> None:
    scene = a_member()
    scene.find_coordinator()
    scene.subscribe("a", member_id="old")
    scene.poll()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(UNKNOWN_MEMBER_ID))

    scene.after(0.2)

    assert scene.sent(JoinGroupRequest).body.member_id == ""


def test_a_sync_that_meets_another_rebalance_joins_again_at_once() -> None:
    scene = a_member().is_syncing()

    scene.answer(scene.sent(SyncGroupRequest), sync_refused(REBALANCE_IN_PROGRESS))

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_a_sync_of_an_illegal_generation_joins_again_with_the_same_member_id() -> None:
    scene = a_member().is_syncing()
    scene.answer(scene.sent(SyncGroupRequest), sync_refused(ILLEGAL_GENERATION))

    scene.after(0.2)

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_a_rebalance_that_sync_begins_anew_names_its_cause() -> None:
    moved = a_member().is_syncing()
    moved.tell(CoordinatorLost(because="NOT_COORDINATOR"))
    moved.find_coordinator()
    refused = a_member().is_syncing()
    refused.answer(refused.sent(SyncGroupRequest), sync_refused(COORDINATOR_LOADING))
    elsewhere = a_member().is_syncing()
    elsewhere.answer(elsewhere.sent(SyncGroupRequest), sync_refused(NOT_COORDINATOR))

    causes = [
        cause_of(scene.traced("rebalance.triggered")[-1]["because"])
        for scene in (moved, refused, elsewhere)
    ]

    assert causes == [Cause.COORDINATOR_MOVED, Cause.SYNC_FAILED, Cause.COORDINATOR_MOVED]


def test_a_sync_that_breaks_joins_again_after_the_backoff() -> None:
    scene = a_member().is_syncing()
    scene.fail(scene.sent(SyncGroupRequest))
    assert scene.said(SuspectCoordinator).node_id == 1
    assert not scene.has_sent(JoinGroupRequest)

    scene.after(0.1)

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_a_coordinator_lost_while_the_member_joins_is_asked_again_when_it_is_found() -> None:
    """Scenario 136."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    request = scene.sent(JoinGroupRequest)
    scene.tell(CoordinatorLost(because="disconnected"))
    scene.fail(request)
    assert not scene.has_sent(JoinGroupRequest)

    scene.find_coordinator(Broker(node_id=2, host="kafka-2", port=9092))

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_a_late_answer_of_a_join_that_was_given_up_is_dropped() -> None:
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    old = scene.sent(JoinGroupRequest)
    scene.tell(CoordinatorLost(because="disconnected"))
    scene.find_coordinator()
    assert scene.has_sent(JoinGroupRequest)

    scene.answer(old, joined(generation=9))

    assert scene.manager.state is State.JOINING
    assert scene.traced("answer.dropped")
    assert not scene.has_sent(LeaveGroupRequest)


def test_a_late_first_join_that_made_a_member_nobody_wants_is_taken_back() -> None:
    scene = a_member().wants_to_join()
    old = scene.sent(JoinGroupRequest)
    scene.tell(CoordinatorLost(because="disconnected"))
    scene.find_coordinator()

    scene.answer(old, join_refused(MEMBER_ID_REQUIRED, "ghost"))

    assert scene.sent(LeaveGroupRequest).body.members[0].member_id == "ghost"


def test_a_coordinator_lost_while_the_member_syncs_is_joined_again_when_found() -> None:
    scene = a_member().is_syncing()
    scene.sent(SyncGroupRequest)
    scene.tell(CoordinatorLost(because="disconnected"))
    assert scene.manager.state is State.JOINING

    scene.find_coordinator()

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


FATAL = [
    (GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailedError, "grant"),
    (INCONSISTENT_GROUP_PROTOCOL, InconsistentGroupProtocolError, "group_protocol to 'consumer'"),
    (INCONSISTENT_GROUP_PROTOCOL, InconsistentGroupProtocolError, "partition_assignment_strategy"),
    (INVALID_SESSION_TIMEOUT, InvalidSessionTimeoutError, "session_timeout_ms"),
    (INVALID_GROUP_ID, InvalidGroupIdError, "group_id"),
    (GROUP_MAX_SIZE_REACHED, GroupMaxSizeReachedError, "group.max.size"),
    (FENCED_INSTANCE_ID, FencedInstanceIdError, "group_instance_id"),
    (-1, UnknownError, "broker's log"),
]


@pytest.mark.parametrize(("code", "kind", "remedy"), FATAL, ids=lambda one: str(one))
def test_a_join_refused_for_good_is_told_with_the_group_the_broker_the_member_and_the_remedy(
    code: int, kind: type, remedy: str
) -> None:
    """Scenarios 129 and 130."""
    scene = a_member().wants_to_join()

    scene.answer(scene.sent(JoinGroupRequest), join_refused(code))

    error = scene.said(GroupFailed).error
    assert type(error) is kind
    assert "'g'" in str(error)
    assert "broker 1 at kafka-1:9092" in str(error)
    assert "not joined yet" in str(error)
    assert remedy in str(error)


def test_after_a_fatal_error_the_group_is_tried_again_when_the_user_polls_again() -> None:
    scene = a_member().wants_to_join()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(GROUP_AUTHORIZATION_FAILED))
    scene.after(60)
    assert not scene.has_sent(JoinGroupRequest)

    scene.poll()

    assert scene.has_sent(JoinGroupRequest)


def test_after_a_fatal_error_the_group_is_tried_no_faster_than_once_a_second() -> None:
    scene = a_member().wants_to_join()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(GROUP_AUTHORIZATION_FAILED))
    scene.poll()

    scene.after(0.9)
    assert not scene.has_sent(JoinGroupRequest)
    scene.after(0.1)

    assert scene.has_sent(JoinGroupRequest)


def test_what_was_owned_is_lost_before_a_fatal_error_is_told() -> None:
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.answer(scene.sent(JoinGroupRequest), join_refused(INCONSISTENT_GROUP_PROTOCOL))
    assert not scene.has_said(GroupFailed)

    assert scene.revoke().loss is Loss.LOST

    assert scene.has_said(GroupFailed)


def test_who_leaves_before_a_fatal_error_is_told_is_not_told_it_as_a_later_member() -> None:
    scene = a_member().is_stable("a-0")
    scene.beats(GROUP_AUTHORIZATION_FAILED)
    scene.tell(a_leave(scene.now + 5))
    scene.now += 60.0
    scene.is_stable("a-0")

    scene.beats(UNKNOWN_MEMBER_ID)
    scene.revoke()

    assert not scene.has_said(GroupFailed)


def test_a_broker_that_is_too_old_fails_the_group() -> None:
    scene = a_static_member().wants_to_join()
    request = scene.sent(JoinGroupRequest)
    assert request.body.group_instance_id == "instance-1"

    scene.fail(request, UnsupportedVersionError("JoinGroup v5"))

    assert "too old" in str(scene.said(GroupFailed).error)


def test_refused_credentials_are_retried_with_backoff_and_say_nothing_of_the_coordinator() -> None:
    """KAFKA-20253: no spin, and the member joins again when the credentials are good."""
    scene = a_member().wants_to_join()
    error = AuthenticationError(broker="kafka-1:9092", mechanism="PLAIN", reason="expired")

    scene.fail(scene.sent(JoinGroupRequest), error)
    assert not scene.has_said(SuspectCoordinator)
    scene.after(0.1)

    assert scene.has_sent(JoinGroupRequest)


# -- heartbeats and the session


def test_heartbeats_go_on_every_interval_whatever_the_application_does() -> None:
    scene = a_member().is_stable()
    began = scene.now

    times = []
    for _ in range(3):
        scene.beats()
        times.append(scene.now - began)

    assert times == [3.0, 6.0, 9.0]


@pytest.mark.parametrize("stage", ["preparing", "assigning"])
def test_heartbeats_go_on_while_a_listener_takes_its_time(stage: str) -> None:
    """Scenarios 5 and 6."""
    if stage == "preparing":
        scene = a_member().is_stable()
        scene.beats(REBALANCE_IN_PROGRESS)
        scene.release()
        before = scene.manager.state
    else:
        scene = a_member().is_assigning()
        before = scene.manager.state

    for _ in range(50):
        scene.beats()

    assert scene.manager.state is before


def test_a_commit_in_a_slow_revoked_callback_still_has_a_generation() -> None:
    """Scenario 5."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.release()
    scene.after(100)

    told = scene.last_said(MemberChanged)

    assert (told.member_id, told.generation, told.state) == ("m", 1, MemberState.REBALANCING)


def test_a_new_members_session_begins_with_the_join_group_that_gave_it_its_id() -> None:
    scene = a_member(session_timeout=10.0).wants_to_join()
    asked_at = scene.now
    first = scene.sent(JoinGroupRequest)
    scene.after(0.5)
    scene.answer(first, join_refused(MEMBER_ID_REQUIRED, member="m"))
    scene.after(0.5)

    scene.answer(scene.sent(JoinGroupRequest), joined(member="m"))

    assert scene.said(SessionExtended).until == asked_at + 10.0


def test_a_static_members_session_begins_with_the_join_group_that_gave_it_its_id() -> None:
    scene = a_member(session_timeout=10.0, group_instance_id="i").wants_to_join()
    asked_at = scene.now
    request = scene.sent(JoinGroupRequest)
    scene.after(0.5)

    scene.answer(request, joined(member="m"))

    assert scene.said(SessionExtended).until == asked_at + 10.0


def test_a_join_group_that_is_sent_again_extends_no_session() -> None:
    """The answer to the first was lost: the coordinator tells the generation once more."""
    scene = a_member(session_timeout=10.0, request_timeout=5.0).wants_to_join()
    asked_at = scene.now
    scene.answer(scene.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, member="m"))
    scene.time_out(scene.sent(JoinGroupRequest))
    scene.after(1.0)

    scene.answer(scene.sent(JoinGroupRequest), joined(member="m"))

    assert scene.said(SessionExtended).until == asked_at + 10.0


def test_a_member_that_joins_again_extends_its_session_by_heartbeats_only() -> None:
    """It may be told the generation that it knows, without a rebalance."""
    scene = a_member(session_timeout=10.0).is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    scene.messages.clear()
    request = scene.sent(JoinGroupRequest)
    scene.after(1.0)

    scene.answer(request, joined(generation=2))
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))

    assert not scene.has_said(SessionExtended)


def test_who_keeps_its_id_without_a_generation_extends_its_session_by_heartbeats() -> None:
    scene = a_member(session_timeout=10.0).wants_to_join()
    asked_at = scene.now
    scene.answer(scene.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, member="m"))
    scene.answer(scene.sent(JoinGroupRequest), joined(member="m"))
    scene.answer(scene.sent(SyncGroupRequest), sync_refused(ILLEGAL_GENERATION))
    scene.after(1.0)

    scene.answer(scene.sent(JoinGroupRequest), joined(generation=7, member="m"))
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))

    assert scene.last_said(SessionExtended).until == asked_at + 10.0


def test_a_sync_group_extends_no_session() -> None:
    """In a stable group it only reads out the assignment, at Kafka 4."""
    scene = a_member(session_timeout=10.0).wants_to_join()
    asked_at = scene.now
    request = scene.sent(JoinGroupRequest)
    scene.after(1.0)
    scene.answer(request, joined())

    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))

    assert scene.last_said(SessionExtended).until == asked_at + 10.0


def test_a_member_whose_session_is_over_when_a_rebalance_ends_asks_at_once() -> None:
    scene = a_member(session_timeout=10.0, request_timeout=60.0).wants_to_join()
    request = scene.sent(JoinGroupRequest)
    scene.now += 11.0

    scene.answer(request, joined())

    scene.sent(HeartbeatRequest)
    scene.sent(SyncGroupRequest)


def test_who_comes_back_under_its_id_is_confirmed_by_a_heartbeat_and_not_before() -> None:
    scene = a_member(session_timeout=10.0)
    scene.find_coordinator()
    scene.subscribe("a", member_id="m")
    scene.poll()

    scene.answer(scene.sent(JoinGroupRequest), joined(generation=7, member="m"))
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))
    unconfirmed = not scene.has_said(SessionExtended)
    scene.answer(scene.sent(HeartbeatRequest), beaten())

    assert unconfirmed
    assert scene.said(SessionExtended).until == scene.now + 10.0


def test_a_heartbeat_that_meets_a_rebalance_confirms_the_session_as_well() -> None:
    scene = a_member(session_timeout=10.0).is_stable()

    scene.beats(REBALANCE_IN_PROGRESS)

    assert scene.said(SessionExtended).until == scene.now + 10.0


def test_a_half_open_coordinator_is_suspected_well_within_the_session() -> None:
    """Lead 7."""
    scene = a_member(session_timeout=6.0).is_stable()
    scene.after(3.0)
    request = scene.sent(HeartbeatRequest)
    assert request.deadline == scene.now + 3.0

    scene.time_out(request)

    assert scene.said(SuspectCoordinator).node_id == 1
    assert scene.manager.state is State.STABLE
    scene.after(0.2)
    assert scene.has_sent(HeartbeatRequest)


def test_the_coordinator_found_after_a_silent_one_has_less_time_and_the_next_ones_more() -> None:
    """Lead 7: Kafka still names the frozen broker, for as long as it takes to notice."""
    scene = a_member(session_timeout=6.0).is_stable()
    scene.after(3.0)
    patience = []

    for _ in range(4):
        request = scene.sent(HeartbeatRequest)
        patience.append(request.deadline - scene.now)
        scene.time_out(request)
        while not scene.has_sent(HeartbeatRequest):
            scene.after(0.01)

    assert patience == pytest.approx([3.0, 1.0, 2.0, 3.0], abs=0.02)


def test_while_join_group_waits_heartbeats_go_on_over_another_connection() -> None:
    """A broker answers the requests of one connection in order."""
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    join = scene.sent(JoinGroupRequest)

    scene.after(3.0)
    request = scene.sent(HeartbeatRequest)

    assert (join.to, join.lane) == (Destination.COORDINATOR, Lane.HOLDS)
    assert (request.to, request.lane) == (Destination.COORDINATOR, Lane.ORDINARY)
    scene.answer(request, beaten(REBALANCE_IN_PROGRESS))
    assert scene.last_said(SessionExtended).until == request.context.at + 45.0
    assert scene.manager.state is State.JOINING


def test_a_heartbeat_of_the_old_generation_does_not_fence_a_member_that_joins() -> None:
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    join = scene.sent(JoinGroupRequest)
    scene.after(3.0)

    scene.answer(scene.sent(HeartbeatRequest), beaten(ILLEGAL_GENERATION))
    scene.answer(join, joined(2, assignor="cooperative-sticky"))

    assert scene.manager.state is State.SYNCING
    assert not scene.has_said(RevokePartitions)


def test_who_is_disowned_while_join_group_is_not_answered_begins_anew_beside_it() -> None:
    """Found by a simulation (seed 3000431): its connection was half-open, for five minutes."""
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.sent(JoinGroupRequest)

    while scene.manager.state is State.JOINING:
        scene.beats(UNKNOWN_MEMBER_ID)
    scene.revoke()
    scene.after(1.0)

    again = scene.sent(JoinGroupRequest)
    assert (again.lane, again.body.member_id) == (Lane.HOLDS, "")


def test_who_is_disowned_while_join_group_is_not_answered_gives_nothing_out() -> None:
    """Found by a simulation (seed 20219): what it owned was another member's by then."""
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.sent(JoinGroupRequest)

    scene.beats(UNKNOWN_MEMBER_ID)

    assert scene.manager.state is State.JOINING
    assert scene.last_said(SessionExtended).until < scene.now


def test_an_assignment_asked_for_before_a_long_sleep_is_followed_by_a_heartbeat_at_once() -> None:
    scene = a_stable_cooperative_member("a-0 a-1", session_timeout=10.0, enable_auto_commit=False)
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.answer(scene.sent(JoinGroupRequest), joined(generation=2, assignor="cooperative-sticky"))
    sync = scene.sent(SyncGroupRequest)

    scene.now += 60.0
    scene.answer(sync, synced("a-0"))

    assert scene.manager.state is State.REVOKING
    assert scene.has_sent(HeartbeatRequest)


def test_an_answer_of_an_earlier_generation_is_ignored() -> None:
    scene = a_stable_cooperative_member("a-0")
    scene.tell(ConfirmSession())
    beat = scene.sent(HeartbeatRequest)
    scene.subscribe("a", "b")
    scene.poll()
    scene.answer(scene.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))

    scene.answer(beat, beaten(UNKNOWN_MEMBER_ID))

    assert scene.manager.state is State.SYNCING


def test_a_rebalance_that_sync_has_ended_is_not_begun_again_by_a_late_heartbeat() -> None:
    scene = a_member().is_syncing()
    sync = scene.sent(SyncGroupRequest)
    scene.tell(ConfirmSession())
    beat = scene.sent(HeartbeatRequest)
    scene.now += 0.01
    scene.answer(sync, synced("a-0"))
    scene.apply()

    scene.answer(beat, beaten(REBALANCE_IN_PROGRESS))

    assert scene.manager.state is State.STABLE


def a_syncing_cooperative_member() -> Scene:
    """It keeps a-0 while its group rebalances."""
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.answer(scene.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))
    assert scene.manager.state is State.SYNCING
    return scene


def a_member_whose_heartbeat_syncgroup_has_overtaken() -> tuple[Scene, Request]:
    """SyncGroup is answered while a heartbeat, which was sent before, is not."""
    scene = a_syncing_cooperative_member()
    scene.after(3.0)
    heartbeat = scene.sent(HeartbeatRequest)
    scene.now += 0.01
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))
    return scene, heartbeat


def a_member_with_an_assignment_in_doubt() -> Scene:
    """Its group rebalanced again, as far as it knows, before SyncGroup was answered."""
    scene = a_syncing_cooperative_member()
    scene.beats(REBALANCE_IN_PROGRESS)
    assert scene.last_said(SessionExtended).until > scene.now
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))
    assert scene.last_said(SessionExtended).until < scene.now
    return scene


def test_what_was_assigned_before_a_rebalance_is_used_when_a_heartbeat_confirms_it() -> None:
    """A broker before Kafka 2.7 answers so to each heartbeat before SyncGroup is answered."""
    scene = a_member_with_an_assignment_in_doubt()

    scene.answer(scene.sent(HeartbeatRequest), beaten())  # it is sent at once

    assert scene.last_said(SessionExtended).until == scene.now + 45.0


def test_what_was_assigned_before_a_rebalance_is_lost_if_the_group_went_on() -> None:
    scene = a_member_with_an_assignment_in_doubt()
    scene.apply()

    scene.answer(scene.sent(HeartbeatRequest), beaten(UNKNOWN_MEMBER_ID))

    assert not scene.has_said(SessionExtended)
    assert scene.last_said(RevokePartitions).loss is Loss.LOST


def test_a_member_with_an_assignment_in_doubt_joins_again_when_a_heartbeat_confirms_it() -> None:
    scene = a_member_with_an_assignment_in_doubt()
    scene.apply()
    scene.subscribe("a", "b")
    scene.poll()
    assert not scene.has_sent(JoinGroupRequest)

    scene.answer(scene.sent(HeartbeatRequest), beaten())

    assert scene.has_sent(JoinGroupRequest)


def test_what_is_in_doubt_stays_so_when_joingroup_is_answered() -> None:
    scene, heartbeat = a_member_whose_heartbeat_syncgroup_has_overtaken()
    scene.apply()
    scene.subscribe("a", "b")
    scene.poll()
    scene.answer(heartbeat, beaten(REBALANCE_IN_PROGRESS))
    assert scene.last_said(SessionExtended).until < scene.now

    scene.answer(scene.sent(JoinGroupRequest), joined(3, assignor="cooperative-sticky"))

    assert not scene.has_said(SessionExtended)


def test_the_assignment_of_the_next_rebalance_is_not_in_doubt() -> None:
    scene = a_member_with_an_assignment_in_doubt()
    scene.apply()
    scene.answer(scene.sent(HeartbeatRequest), beaten(REBALANCE_IN_PROGRESS))
    scene.answer(scene.sent(JoinGroupRequest), joined(3, assignor="cooperative-sticky"))
    assert scene.last_said(SessionExtended).until > scene.now

    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))

    assert not scene.has_said(SessionExtended)


def test_while_syncgroup_is_not_answered_the_application_that_asks_causes_no_more_heartbeats() -> (
    None
):
    """An old broker answers so to each of them: the session goes on, and nobody has to ask."""
    scene = a_syncing_cooperative_member()
    scene.beats(REBALANCE_IN_PROGRESS)

    assert scene.last_said(SessionExtended).until > scene.now
    assert not scene.has_sent(HeartbeatRequest)
    scene.after(2.9)
    assert not scene.has_sent(HeartbeatRequest)


def test_a_member_that_slept_while_it_syncs_asks_again_at_once() -> None:
    scene = a_syncing_cooperative_member()
    scene.after(3.0)
    heartbeat = scene.sent(HeartbeatRequest)
    scene.now += 60.0

    scene.answer(heartbeat, beaten())

    assert scene.has_sent(HeartbeatRequest)


def test_a_heartbeat_that_syncgroup_has_overtaken_puts_the_assignment_in_doubt() -> None:
    scene, heartbeat = a_member_whose_heartbeat_syncgroup_has_overtaken()

    scene.answer(heartbeat, beaten(REBALANCE_IN_PROGRESS))

    assert scene.last_said(SessionExtended).until < scene.now
    scene.answer(scene.sent(HeartbeatRequest), beaten())
    assert scene.last_said(SessionExtended).until == scene.now + 45.0


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION])
def test_a_member_that_is_expelled_before_syncgroup_is_answered_loses_everything_at_once(
    code: int,
) -> None:
    scene = a_syncing_cooperative_member()

    scene.beats(code)

    assert scene.manager.state is State.LOSING
    assert scene.last_said(RevokePartitions).loss is Loss.LOST


def test_a_broken_connection_is_suspicious_while_join_group_waits_on_another() -> None:
    """As in `AbstractCoordinator` of the Java client."""
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.sent(JoinGroupRequest)
    scene.after(3.0)

    scene.fail(scene.sent(HeartbeatRequest), KafkaConnectionError("reset by peer"))

    assert scene.said(SuspectCoordinator).node_id == 1
    assert scene.manager.state is State.JOINING


@pytest.mark.parametrize(("code", "member"), [(UNKNOWN_MEMBER_ID, ""), (ILLEGAL_GENERATION, "m")])
def test_a_fenced_member_gives_everything_up_as_lost_and_joins_again(
    code: int, member: str
) -> None:
    """Scenarios 66, 69 and 70."""
    scene = a_member().is_stable("a-0 a-1")
    scene.beats(code)
    assert scene.last_said(MemberChanged).generation == -1

    step = scene.release(a=5)
    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not scene.has_said(CommitBeforeRevocation)
    scene.after(10)
    assert not scene.has_sent(HeartbeatRequest)
    assert not scene.has_sent(JoinGroupRequest)
    assert scene.run_revoked_callback().loss is Loss.LOST

    assert scene.sent(JoinGroupRequest).body.member_id == member


def test_a_fenced_member_may_be_given_the_same_partitions_again() -> None:
    """Scenario 67."""
    scene = a_member().is_stable("a-0")
    scene.beats(UNKNOWN_MEMBER_ID)
    scene.revoke()
    scene.rejoins(generation=3, assigned="a-0", member="m2")

    step = scene.apply()

    assert step.added == partitions("a-0")
    assert scene.last_said(MemberChanged).member_id == "m2"


def test_a_heartbeat_that_is_not_authorized_fails_the_group() -> None:
    """Scenario 131."""
    scene = a_member().is_stable("a-0")
    scene.beats(GROUP_AUTHORIZATION_FAILED)

    scene.revoke()

    assert isinstance(scene.said(GroupFailed).error, GroupAuthorizationFailedError)


# -- max_poll_interval


def test_the_leave_group_of_a_member_that_does_not_poll_says_so() -> None:
    scene = a_member(max_poll_interval=10.0).is_stable("a-0")

    scene.after(10.0)

    body = scene.sent(LeaveGroupRequest).body
    assert "max_poll_interval_ms" in body.members[0].reason


def test_a_listener_slower_than_max_poll_interval_counts_as_not_polling() -> None:
    scene = a_member(max_poll_interval=10.0).is_assigning("a-0")

    scene.after(10)

    assert scene.sent(LeaveGroupRequest)
    assert scene.said(RevokePartitions).loss is Loss.LOST


def test_a_member_that_stops_polling_while_it_joins_leaves_beside_the_waiting_join() -> None:
    scene = a_member(max_poll_interval=10.0).is_stable("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    join = scene.sent(JoinGroupRequest)
    scene.after(10)
    assert scene.sent(LeaveGroupRequest).lane is Lane.ORDINARY

    scene.answer(join, join_refused(UNKNOWN_MEMBER_ID))

    assert scene.manager.state is State.UNJOINED


def test_a_static_member_that_is_late_does_not_say_goodbye() -> None:
    scene = a_static_member(max_poll_interval=10.0).is_stable("a-0")

    scene.after(10)

    assert not scene.has_sent(LeaveGroupRequest)
    assert scene.said(RevokePartitions).loss is Loss.LOST
    scene.requests.clear()
    scene.after(20)
    assert not scene.requests


# -- leaving


def test_leaving_is_told_to_the_group_and_then_answered() -> None:
    scene = a_member().is_stable()
    scene.tell(a_leave(scene.now + 5))
    assert not scene.has_said(Answered)
    request = scene.sent(LeaveGroupRequest)
    assert request.body.members[0].reason == "close"

    scene.answer(request, left())

    assert scene.said(Answered).ticket == 7
    changed = scene.last_said(MemberChanged)
    assert (changed.member_id, changed.generation) == ("", -1)
    assert changed.state is MemberState.UNJOINED
    assert scene.manager.state is State.UNJOINED


@pytest.mark.parametrize(
    ("static", "operation", "leaves"),
    [
        (False, Operation.DEFAULT, True),
        (False, Operation.LEAVE_GROUP, True),
        (False, Operation.REMAIN_IN_GROUP, False),
        (True, Operation.DEFAULT, False),
        (True, Operation.LEAVE_GROUP, True),
        (True, Operation.REMAIN_IN_GROUP, False),
    ],
)
@pytest.mark.parametrize("when", ["stable", "syncing", "joining"])
def test_whether_a_member_says_goodbye_depends_on_the_operation_and_the_kind_of_member(
    static: bool, operation: Operation, leaves: bool, when: str
) -> None:
    """Scenario 65, KIP-1092."""
    scene = a_static_member() if static else a_member()
    if when == "stable":
        scene.is_stable("a-0")
    elif when == "syncing":
        scene.is_syncing()
    else:
        scene.wants_to_join()
        join = scene.sent(JoinGroupRequest)

    scene.tell(replace(a_leave(scene.now + 10.0, ticket=7), operation=operation))
    if when == "joining" and leaves:
        scene.answer(join, joined(member="m"))

    if leaves:
        (who,) = scene.left_the_group().body.members
        assert who.member_id == "m"
        assert who.group_instance_id == ("instance-1" if static else None)
    assert not scene.has_sent(LeaveGroupRequest)
    assert scene.said(Answered).ticket == 7
    assert scene.manager.state is State.UNJOINED


def test_a_static_member_is_let_go_by_name_which_takes_a_newer_broker() -> None:
    scene = a_static_member().is_stable()

    scene.tell(replace(a_leave(200.0), operation=Operation.LEAVE_GROUP))

    assert scene.sent(LeaveGroupRequest).body._min_version == 3


def test_a_static_member_says_no_goodbye_unless_it_is_asked_to() -> None:
    """Scenario 63."""
    scene = a_static_member().is_stable()

    scene.tell(a_leave(scene.now + 5))

    assert scene.said(Answered).ticket == 7
    assert not scene.has_sent(LeaveGroupRequest)


@pytest.mark.parametrize("how", ["unsubscribed", "late", "refused"])
def test_a_static_member_that_has_kept_its_place_may_still_be_let_go(how: str) -> None:
    """Its partitions would wait for the session's end."""
    scene = a_static_member(max_poll_interval=10.0).is_stable("a-0")
    if how == "unsubscribed":
        scene.tell(a_leave(scene.now + 5))
        scene.said(Answered)
        scene.subscribe()
    elif how == "late":
        scene.after(10)
    else:
        scene.beats(INVALID_GROUP_ID)
    assert not scene.has_sent(LeaveGroupRequest)

    scene.tell(replace(a_leave(scene.now + 5), operation=Operation.LEAVE_GROUP))

    assert scene.left_the_group().body.members[0].member_id == "m"
    assert scene.said(Answered).ticket == 7


def test_a_static_member_that_the_group_has_forgotten_has_nothing_to_say() -> None:
    scene = a_static_member().is_stable("a-0")
    scene.beats(UNKNOWN_MEMBER_ID)

    scene.tell(replace(a_leave(scene.now + 5), operation=Operation.LEAVE_GROUP))

    assert not scene.has_sent(LeaveGroupRequest)
    assert scene.said(Answered).ticket == 7


def test_leaving_cancels_the_rebalance_and_late_answers_are_dropped() -> None:
    """Scenarios 48, 57 and 111; KAFKA-20428."""
    scene = a_member().is_syncing()
    sync = scene.sent(SyncGroupRequest)
    scene.tell(a_leave(scene.now + 5))
    assert (sync.lane, scene.sent(LeaveGroupRequest).lane) == (Lane.HOLDS, Lane.ORDINARY)

    scene.answer(sync, synced("a-0"))

    assert not scene.has_said(AssignPartitions)
    assert scene.manager.state is State.LEAVING


def test_leaving_before_the_first_join_is_answered_waits_to_learn_who_it_is() -> None:
    """A pending member that nobody looks after would hold the others' rebalance up."""
    scene = a_member().wants_to_join()
    join = scene.sent(JoinGroupRequest)
    scene.tell(a_leave(scene.now + 5))
    assert not scene.has_said(Answered)

    scene.answer(join, join_refused(MEMBER_ID_REQUIRED, "pending"))

    assert scene.left_the_group().body.members[0].member_id == "pending"
    assert scene.said(Answered).ticket == 7


@pytest.mark.parametrize("outcome", ["refused", "broken"])
def test_leaving_before_a_first_join_that_comes_to_nothing_is_answered(outcome: str) -> None:
    scene = a_member().wants_to_join()
    join = scene.sent(JoinGroupRequest)
    scene.tell(a_leave(scene.now + 5))

    if outcome == "refused":
        scene.answer(join, join_refused(COORDINATOR_LOADING))
    else:
        scene.fail(join)

    assert scene.said(Answered).ticket == 7


def test_a_member_that_left_can_subscribe_and_join_again() -> None:
    """Scenario 48."""
    scene = a_member().is_stable()
    scene.tell(a_leave(scene.now + 5))
    scene.subscribe("b")
    scene.poll()
    assert not scene.has_sent(JoinGroupRequest)

    scene.left_the_group()

    assert scene.sent(JoinGroupRequest).body.member_id == ""


def test_leaving_while_losing_completes() -> None:
    """Scenario 68."""
    scene = a_member().is_stable()
    scene.beats(UNKNOWN_MEMBER_ID)

    scene.tell(a_leave(scene.now + 5))

    assert scene.said(Answered).ticket == 7
    assert scene.manager.state is State.UNJOINED


def test_who_was_late_joined_anew_and_leaves_waits_until_both_are_gone() -> None:
    """Found by a simulation (seed 7700008): the first goodbye was to be repeated."""
    scene = a_member(max_poll_interval=10.0).is_stable("a-0")
    scene.after(10)
    scene.answer(scene.sent(LeaveGroupRequest), left(COORDINATOR_LOADING))
    scene.revoke()
    scene.poll()
    scene.answer(scene.sent(JoinGroupRequest), joined(member="m2"))

    scene.tell(a_leave(scene.now + 5))
    first = scene.left_the_group().body.members[0].member_id
    assert not scene.has_said(Answered)
    scene.after(1.0)
    second = scene.left_the_group().body.members[0].member_id

    assert (first, second) == ("m2", "m")
    assert scene.said(Answered).ticket == 7
    assert scene.manager.state is State.UNJOINED


def test_after_leaving_nothing_is_sent_any_more() -> None:
    scene = a_member().is_stable()
    scene.tell(a_leave(scene.now + 5))
    scene.left_the_group()

    scene.poll()
    scene.after(100)

    assert not scene.requests
    assert scene.wake_at == float("inf")


# -- static members


def test_a_static_member_names_its_instance_and_refuses_brokers_that_cannot_hear_it() -> None:
    scene = a_static_member().wants_to_join()
    join = scene.sent(JoinGroupRequest)
    # kafka-python has no public name for the versions that a request is restricted to.
    assert (join.body.group_instance_id, join.body._min_version) == ("instance-1", 5)
    scene.answer(join, joined())

    sync = scene.sent(SyncGroupRequest)

    assert (sync.body.group_instance_id, sync.body._min_version) == ("instance-1", 3)


def test_a_fenced_instance_keeps_its_member_id_so_that_it_cannot_fence_back() -> None:
    """Scenario 64: the newcomer wins."""
    scene = a_static_member().is_stable("a-0")
    scene.beats(FENCED_INSTANCE_ID)
    assert scene.revoke().loss is Loss.LOST
    assert isinstance(scene.said(GroupFailed).error, FencedInstanceIdError)

    scene.after(5)
    scene.poll()

    assert scene.sent(JoinGroupRequest).body.member_id == "m"
    assert not scene.has_sent(LeaveGroupRequest)


# -- other actors


def test_a_restarted_metadata_manager_is_told_again_which_topics_the_group_needs() -> None:
    scene = a_member()
    scene.see(a=1)
    scene.is_stable("a-0", leader="m", members={"m": a_subscription("a")})

    scene.tell(ActorsRestarted(actors=("metadata",), because=RuntimeError("boom")))

    assert scene.said(TrackTopics) == TrackTopics(owner="membership", topics=frozenset({"a"}))


def test_a_rebalance_is_traced_from_its_trigger_to_its_end() -> None:
    scene = a_member().is_stable("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.now += 0.25
    scene.revoke()
    scene.rejoins(generation=2, assigned="a-0")
    scene.apply()

    assert "coordinator said" in scene.traced("rebalance.triggered")[-1]["because"]
    completed = scene.traced("rebalance.completed")[-1]
    assert (completed["ms"], completed["generation"]) == (250.0, 2)
    assert (completed["added"], completed["revoked"]) == (["a-0"], 2)


def test_a_timeout_error_of_ours_is_retriable() -> None:
    scene = a_member(max_poll_interval=400.0).wants_to_join()

    scene.fail(scene.sent(JoinGroupRequest), KafkaTimeoutError("305 s"))
    scene.after(0.1)

    assert scene.has_sent(JoinGroupRequest)


def test_heartbeats_go_on_beside_a_sync_that_waits_for_the_leader() -> None:
    scene = a_member().is_syncing()
    sync = scene.sent(SyncGroupRequest)
    scene.after(3.0)
    beat = scene.sent(HeartbeatRequest)
    assert (sync.lane, beat.lane) == (Lane.HOLDS, Lane.ORDINARY)
    scene.answer(beat, beaten())

    scene.answer(sync, synced("a-0"))
    scene.apply()

    assert scene.beats().lane is Lane.ORDINARY


def test_a_session_is_never_shortened_by_an_answer_that_was_long_under_way() -> None:
    scene = a_stable_cooperative_member("a-0", session_timeout=10.0)
    scene.beats(REBALANCE_IN_PROGRESS)
    join = scene.sent(JoinGroupRequest)
    scene.after(3.0)
    scene.answer(scene.sent(HeartbeatRequest), beaten(REBALANCE_IN_PROGRESS))
    scene.messages.clear()

    scene.answer(join, joined(2, assignor="cooperative-sticky"))

    assert not scene.has_said(SessionExtended)


def test_a_join_that_succeeded_ends_the_row_of_failures() -> None:
    scene = a_member().wants_to_join()
    for _ in range(3):
        scene.answer(scene.sent(JoinGroupRequest), join_refused(COORDINATOR_LOADING))
        scene.after(2.0)
    scene.answer(scene.sent(JoinGroupRequest), joined())
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))
    scene.apply()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(COORDINATOR_LOADING))

    scene.after(0.1)

    assert scene.has_sent(JoinGroupRequest)


@pytest.mark.parametrize("where", ["join", "sync", "sync's assignor"])
def test_an_answer_for_another_protocol_is_not_taken_for_ours(where: str) -> None:
    """KIP-559."""
    scene = a_member().wants_to_join()
    answer = joined()
    if where == "join":
        answer.protocol_type = "connect"
        scene.answer(scene.sent(JoinGroupRequest), answer)
    else:
        scene.answer(scene.sent(JoinGroupRequest), answer)
        other = synced("a-0")
        if where == "sync":
            other.protocol_type = "connect"
        else:
            other.protocol_name = "roundrobin"
        scene.answer(scene.sent(SyncGroupRequest), other)

    assert isinstance(scene.said(GroupFailed).error, InconsistentGroupProtocolError)
    assert not scene.has_said(AssignPartitions)


def test_the_trace_of_states_is_a_walk_through_the_table() -> None:
    scene = a_member().is_stable("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()

    walked = [one["after"] for one in scene.traced("membership.moved")]

    assert walked == [
        "joining",
        "syncing",
        "assigning",
        "stable",
        "preparing",
        "joining",
    ]


class Storm:
    """Anything that may happen to a member, in any order, drawn by a seed."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.random = random.Random(seed)
        self.scene = Scene(max_poll_interval=20.0, session_timeout=6.0, **settings)
        (self.assignor,) = {one.name for one in settings["partition_assignment_strategy"]}
        self.tickets = 0

    def blow(self, steps: int) -> None:
        """So many things happen."""
        scene, pick = self.scene, self.random.choice
        scene.wants_to_join("a")
        often = [
            scene.poll,
            lambda: scene.subscribe(*pick([("a",), ("a", "b")])),
            scene.find_coordinator,
            lambda: scene.tell(ConfirmSession()),
            lambda: scene.see(a=pick([1, 2]), b=1),
        ]
        seldom = [
            lambda: scene.find_coordinator(Broker(node_id=2, host="kafka-2", port=9092)),
            lambda: scene.tell(CoordinatorLost(because="storm")),
            lambda: scene.tell(CoordinatorRefused(error=InvalidGroupIdError("storm"))),
            lambda: scene.tell(ActorsRestarted(actors=("commits",), because=RuntimeError())),
            scene.subscribe,
            self.leave,
        ]
        for _ in range(steps):
            kind = self.random.random()
            if kind < 0.4 and scene.requests:
                self.answer(scene.requests.pop(0), self.random.random() < 0.8)
            elif kind < 0.7 and self.steps():
                self.take(self.steps()[0])
            elif kind < 0.8:
                scene.after(pick([0.01, 0.5, 4.0]))
            else:
                pick(often if kind < 0.97 else seldom)()

    def leave(self) -> None:
        """The application leaves."""
        self.tickets += 1
        self.scene.tell(a_leave(self.scene.now + 3, ticket=self.tickets))

    def answer(self, request: Request, kindly: bool) -> None:
        """A request ends, well or badly."""
        body, scene = request.body, self.scene
        if not kindly and self.random.random() < 0.3:
            scene.fail(request)
            return
        code = 0 if kindly else self.random.choice([14, 15, 16, 22, 25, 27, 27, 30])
        if isinstance(body, JoinGroupRequest):
            if kindly and not body.member_id:
                scene.answer(request, join_refused(MEMBER_ID_REQUIRED, f"m{scene.now}"))
            elif kindly:
                self.join(request)
            else:
                scene.answer(request, join_refused(code))
        elif isinstance(body, SyncGroupRequest):
            owned = self.random.choice(["", "a-0", "a-1", "a-0 b-0"])
            scene.answer(request, sync_refused(code) if code else synced(owned))
        else:
            scene.answer(
                request, left(code) if isinstance(body, LeaveGroupRequest) else beaten(code)
            )

    def join(self, request: Request) -> None:
        """JoinGroup succeeds, at times as the leader."""
        member = request.body.member_id
        leader = self.random.choice([member, "somebody"])
        members = {member: a_subscription("a", "b")} if leader == member else {}
        generation = request.context.generation + self.random.randint(1, 3)
        answer = joined(max(1, generation), member, leader, self.assignor, members)
        self.scene.answer(request, answer)

    def steps(self) -> list[object]:
        """What the application is asked to do."""
        kinds = (RevokePartitions, CommitBeforeRevocation, RunRevokedCallback, AssignPartitions)
        return [one for one in self.scene.messages if isinstance(one, kinds)]

    def take(self, step: object) -> None:
        """The application does it."""
        self.scene.messages.remove(step)
        if isinstance(step, RevokePartitions):
            answer: object = PartitionsReleased(
                rebalance=step.rebalance,
                positions=dict.fromkeys(step.partitions, OffsetAndMetadata(1, "", -1)),
            )
        elif isinstance(step, CommitBeforeRevocation):
            answer = RevocationCommitted(rebalance=step.rebalance)
        else:
            assert isinstance(step, (RunRevokedCallback, AssignPartitions))
            assigned = isinstance(step, AssignPartitions)
            answer = CallbackFinished(rebalance=step.rebalance, assigned=assigned)
        self.scene.tell(answer)

    def calm(self, *, until: State) -> None:
        """Everybody answers kindly, and the application polls, until the member is there."""
        for _ in range(200):
            while self.steps():
                self.take(self.steps()[0])
            while self.scene.requests:
                self.answer(self.scene.requests.pop(0), kindly=True)
            if self.scene.manager.state is until and not self.steps():
                return
            self.scene.after(0.5)
            self.scene.poll()
        raise AssertionError(f"still {self.scene.manager.state}")


@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", range(40))
def test_after_any_storm_the_member_joins_and_every_leave_was_answered_once(
    seed: int, strategy: dict[str, object]
) -> None:
    storm = Storm(seed, **strategy)
    storm.blow(steps=300)

    storm.scene.find_coordinator()
    storm.scene.subscribe("a", "b")
    storm.calm(until=State.STABLE)
    storm.leave()
    storm.calm(until=State.UNJOINED)

    answered = [one.ticket for one in storm.scene.messages if isinstance(one, Answered)]
    assert sorted(answered) == list(range(1, storm.tickets + 1))


@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", range(40))
def test_in_any_storm_the_steps_add_up_to_what_the_member_owns(
    seed: int, strategy: dict[str, object]
) -> None:
    """Nothing is assigned twice, and nothing is taken back that was not given."""
    storm = Storm(seed, **strategy)
    held: frozenset[TopicPartition] = frozenset()
    take = storm.take

    def check(step: object) -> None:
        nonlocal held
        if isinstance(step, AssignPartitions):
            assert step.added == step.assigned - held
            assert held <= step.assigned
            held = step.assigned
        elif isinstance(step, RunRevokedCallback):
            assert step.partitions <= held
            held -= step.partitions
        take(step)

    def leave() -> None:
        nonlocal held
        held = frozenset()
        storm.scene.messages = [one for one in storm.scene.messages if one not in storm.steps()]
        Storm.leave(storm)

    storm.take, storm.leave = check, leave  # type: ignore[method-assign]
    storm.blow(steps=300)

    assert storm.scene.traced("rebalance.completed")
