"""The classic membership manager: joining, and static members."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import FencedInstanceIdError
from kafka.protocol.consumer import (
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from aktor.errors import ConfigurationError
from aktor.events.coordinator import SuspectCoordinator
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    GroupFailed,
    Loss,
    MemberChanged,
    MemberState,
    RevokePartitions,
    RunRevokedCallback,
    SubscriptionChanged,
)
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.membership.classic.states import State
from aktor.settings import Settings
from tests.unit.managers.membership.builders import (
    FENCED_INSTANCE_ID,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    MembershipHarness,
    a_member,
    a_static_member,
    join_refused,
    joined,
    left,
    partitions,
)
from tests.unit.managers.membership.classic.builders import a_leave

# -- joining


def test_join_group_has_the_group_its_kind_and_how_long_it_may_wait_for_the_member() -> None:
    harness = a_member().wants_to_join("a")

    join = harness.sent(JoinGroupRequest)
    assert join.in_order_for == 1.0  # it may begin a generation
    body = join.body
    assert (body.group_id, body.member_id, body.protocol_type) == ("g", "", "consumer")
    assert body.session_timeout_ms == 45_000
    assert body.rebalance_timeout_ms == 300_000


def test_a_join_group_that_is_not_answered_is_repeated_and_its_coordinator_believed() -> None:
    """It may never have arrived; heartbeats that do arrive keep us in the group meanwhile."""
    harness = a_member(max_poll_interval=300.0, request_timeout=30.0).is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    first = harness.sent(JoinGroupRequest)
    assert first.deadline == harness.now + 30.0
    harness.after(3.0)
    harness.beats(REBALANCE_IN_PROGRESS)

    harness.forget()
    harness.time_out(first)
    harness.after(1.0)

    assert harness.sent(JoinGroupRequest).body.member_id == first.body.member_id
    assert not harness.has_said(SuspectCoordinator)


def test_a_coordinator_that_answers_neither_join_group_nor_heartbeats_is_suspected() -> None:
    harness = a_member(max_poll_interval=300.0, request_timeout=30.0).is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()

    harness.time_out(harness.sent(JoinGroupRequest))

    assert harness.has_said(SuspectCoordinator)


def test_who_has_no_id_yet_is_told_one_at_once_or_asks_again() -> None:
    """Found by a simulation (seed 1001023): a half-open connection was waited for five minutes."""
    harness = a_member(max_poll_interval=300.0, request_timeout=30.0)

    harness.wants_to_join()

    assert harness.sent(JoinGroupRequest).deadline == harness.now + 30.0


def test_a_first_join_that_is_not_answered_is_repeated_by_the_same_member() -> None:
    harness = a_member(max_poll_interval=300.0, request_timeout=30.0).wants_to_join()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "m"))
    first = harness.sent(JoinGroupRequest)
    harness.forget()

    assert first.deadline == harness.now + 30.0
    harness.time_out(first)
    harness.find_coordinator()
    harness.after(1.0)

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


def test_a_member_whose_session_may_be_over_hears_from_the_group_before_it_hands_back() -> None:
    harness = a_member(session_timeout=10.0).is_stable()

    harness.after(10.5)
    harness.subscribe("a", "b")
    harness.poll()
    assert not harness.has_said(RevokePartitions)
    harness.beats()

    assert harness.said(RevokePartitions).loss is Loss.REVOKED


def test_the_member_id_that_the_coordinator_requires_is_sent_back_at_once() -> None:
    harness = a_member().wants_to_join()

    harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "m"))

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


@pytest.mark.parametrize("given", ["", "m"])
def test_a_coordinator_that_requires_an_id_again_and_again_is_not_asked_in_a_hurry(
    given: str,
) -> None:
    harness = a_member(retry_backoff=0.1, retry_backoff_max=1.0).wants_to_join()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, given))
    if given:
        harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, given))
    harness.forget()

    harness.after(0.05)
    assert not harness.has_sent(JoinGroupRequest)
    harness.after(0.1)
    assert harness.sent(JoinGroupRequest).body.member_id == given


def test_every_assignor_is_offered_in_the_order_of_preference() -> None:
    strategy = (StickyPartitionAssignor, RangePartitionAssignor())
    harness = MembershipHarness(partition_assignment_strategy=strategy)

    harness.wants_to_join("b", "a")

    offers = harness.sent(JoinGroupRequest).body.protocols
    assert [one.name for one in offers] == ["sticky", "range"]
    decoded = ConsumerProtocolSubscription.decode(offers[1].metadata)
    assert sorted(decoded.topics) == ["a", "b"]


@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize(("rack", "version"), [("r1", 3), ("", None)])
def test_a_member_says_its_rack_to_the_leader_if_it_has_one(
    rack: str, version: int | None, cooperative: bool
) -> None:
    """KIP-881. Without a rack the subscription is what it would be without the KIP."""
    kind = CooperativeStickyAssignor if cooperative else RangePartitionAssignor
    harness = MembershipHarness(
        settings=Settings(group_id="g", client_rack=rack), partition_assignment_strategy=(kind,)
    )

    harness.wants_to_join("a")

    (offer,) = harness.sent(JoinGroupRequest).body.protocols
    decoded = ConsumerProtocolSubscription.decode(offer.metadata)
    assert (decoded.rack_id or "") == rack
    assert decoded.version == (version or (2 if cooperative else 0))


def test_by_default_the_assignors_are_those_of_kafka_pythons_consumer() -> None:
    harness = MembershipHarness()

    harness.wants_to_join()

    offers = harness.sent(JoinGroupRequest).body.protocols
    assert [one.name for one in offers] == [
        assignor.name for assignor in KafkaConsumer.DEFAULT_CONFIG["partition_assignment_strategy"]
    ]


def test_eager_and_cooperative_assignors_cannot_be_mixed() -> None:
    strategy = (RangePartitionAssignor, CooperativeStickyAssignor)

    with pytest.raises(ConfigurationError, match="mixes eager and cooperative"):
        ClassicMembershipManager(Settings(group_id="g", partition_assignment_strategy=strategy))


def test_a_follower_syncs_with_the_generation_it_joined() -> None:
    harness = a_member().is_syncing(generation=5, member="m")

    sync = harness.sent(SyncGroupRequest)
    assert not sync.in_order_for  # it begins no generation
    body = sync.body

    assert (body.generation_id, body.member_id, body.protocol_name) == (5, "m", "range")
    assert list(body.assignments) == []


def test_the_assignment_is_told_to_the_application_and_then_the_member_is_stable() -> None:
    harness = a_member().is_assigning("a-0 a-1", generation=5)
    step = harness.said(AssignPartitions)
    assert step.assigned == step.added == partitions("a-0 a-1")
    assert step.generation == 5
    assert harness.last_said(MemberChanged).state is MemberState.REBALANCING

    harness.tell(CallbackFinished(rebalance=step.rebalance, assigned=True))

    changed = harness.said(MemberChanged)
    assert changed.state is MemberState.STABLE
    assert (changed.member_id, changed.generation, changed.assignor) == ("m", 5, "range")
    assert harness.manager.state is State.STABLE


def test_an_empty_assignment_makes_a_stable_member_too_and_runs_the_listener() -> None:
    """Scenario 45. The coordinator answers with no bytes for a member that was left out."""
    harness = a_member().is_syncing()
    nothing = SyncGroupResponse(
        error_code=0, protocol_type=None, protocol_name=None, assignment=b""
    )
    harness.answer(harness.sent(SyncGroupRequest), nothing)

    step = harness.apply()

    assert step.assigned == step.added == frozenset()
    assert harness.manager.state is State.STABLE


def test_no_revoked_callback_runs_before_the_first_join() -> None:
    harness = a_member().is_assigning()

    assert not harness.has_said(RevokePartitions)
    assert not harness.has_said(RunRevokedCallback)


def test_a_restarted_manager_joins_with_the_member_id_the_application_remembers() -> None:
    harness = a_member()
    harness.find_coordinator()
    harness.subscribe("a", member_id="m")
    harness.poll()

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


def test_the_application_hears_under_which_id_the_member_joins_before_it_is_sent() -> None:
    """Restarted while JoinGroup waits it goes on under that id, and leaves nobody behind."""
    harness = a_member().wants_to_join()
    request = harness.sent(JoinGroupRequest)
    harness.forget()

    harness.answer(request, join_refused(MEMBER_ID_REQUIRED, member="m-2"))

    changed = harness.last_said(MemberChanged)
    assert (changed.member_id, changed.joins_as) == ("", "m-2")
    harness.answer(harness.sent(JoinGroupRequest), joined(member="m-2"))
    changed = harness.last_said(MemberChanged)
    assert (changed.member_id, changed.joins_as) == ("m-2", "")


def test_the_application_hears_as_whom_the_member_has_yet_to_leave() -> None:
    harness = a_member(max_poll_interval=10.0).is_stable("a-0")
    me = harness.manager.looks_after

    harness.after(10.0)
    leave = harness.sent(LeaveGroupRequest)
    assert harness.last_said(MemberChanged).leaving == me

    harness.answer(leave, left())
    assert harness.last_said(MemberChanged).leaving == frozenset()


def test_a_restarted_manager_leaves_for_those_who_had_yet_to_leave_before() -> None:
    harness = a_member(incarnation=2, request_timeout=30.0)
    former = frozenset({"m", "m-0"})

    harness.tell(SubscriptionChanged(topics=frozenset({"a"}), member_id="m", leaving=former))
    harness.find_coordinator()

    assert harness.sent(LeaveGroupRequest).body.members[0].member_id == "m-0"
    assert harness.wake_at == harness.now + 30.0


def test_a_restarted_manager_leaves_though_it_hears_of_the_leaving_first() -> None:
    """The consumer is closed just then: nothing else was said to the new manager."""
    harness = a_member(incarnation=2)
    harness.find_coordinator()

    harness.tell(a_leave(harness.now + 10, member_id="m"))

    assert harness.sent(LeaveGroupRequest).body.members[0].member_id == "m"


def test_a_manager_that_joins_anew_leaves_under_its_new_member_id() -> None:
    harness = a_member()
    harness.find_coordinator()
    harness.subscribe("a", member_id="old")
    harness.poll()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(UNKNOWN_MEMBER_ID))
    harness.after(0.2)
    join = harness.sent(JoinGroupRequest)

    harness.tell(a_leave(harness.now + 10, member_id="old"))
    harness.answer(join, join_refused(MEMBER_ID_REQUIRED, member="m-2"))

    assert harness.sent(LeaveGroupRequest).body.members[0].member_id == "m-2"


def test_a_repeated_answer_to_the_giving_up_is_not_taken_for_one_to_the_taking_on() -> None:
    """The application says it again if it was interrupted as it said it."""
    harness = a_member().is_assigning("a-0", generation=5)
    step = harness.said(AssignPartitions)

    harness.tell(CallbackFinished(rebalance=step.rebalance))
    assert harness.last_said(MemberChanged).state is MemberState.REBALANCING

    harness.tell(CallbackFinished(rebalance=step.rebalance, assigned=True))
    assert harness.last_said(MemberChanged).state is MemberState.STABLE


def test_an_answer_to_a_step_of_an_earlier_incarnation_is_not_taken_for_ours() -> None:
    before = a_member().is_assigning().said(AssignPartitions)
    harness = a_member(incarnation=2).is_assigning()

    harness.tell(CallbackFinished(rebalance=before.rebalance, assigned=True))

    assert harness.manager.state is State.ASSIGNING


def test_a_member_id_that_the_group_forgot_is_not_taken_back_from_the_application() -> None:
    harness = a_member().is_stable()
    harness.beats(UNKNOWN_MEMBER_ID)
    harness.subscribe("a", member_id="m")
    harness.revoke()
    harness.poll()

    assert harness.sent(JoinGroupRequest).body.member_id == ""


def test_the_reason_of_a_join_says_why() -> None:
    harness = a_member().is_stable()
    harness.subscribe("a", "b")
    harness.poll()
    harness.revoke()

    assert "subscription changed" in harness.sent(JoinGroupRequest).body.reason


# -- static members


def test_a_static_member_names_its_instance_and_refuses_brokers_that_cannot_hear_it() -> None:
    harness = a_static_member().wants_to_join()
    join = harness.sent(JoinGroupRequest)
    # kafka-python has no public name for the versions that a request is restricted to.
    assert (join.body.group_instance_id, join.body._min_version) == ("instance-1", 5)
    harness.answer(join, joined())

    sync = harness.sent(SyncGroupRequest)

    assert (sync.body.group_instance_id, sync.body._min_version) == ("instance-1", 3)


def test_a_fenced_instance_keeps_its_member_id_so_that_it_cannot_fence_back() -> None:
    """Scenario 64: the newcomer wins."""
    harness = a_static_member().is_stable("a-0")
    harness.beats(FENCED_INSTANCE_ID)
    assert harness.revoke().loss is Loss.LOST
    assert isinstance(harness.said(GroupFailed).error, FencedInstanceIdError)

    harness.after(5)
    harness.poll()

    assert harness.sent(JoinGroupRequest).body.member_id == "m"
    assert not harness.has_sent(LeaveGroupRequest)
