"""The classic membership manager: heartbeats, the session, and max_poll_interval."""

from __future__ import annotations

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from aktor.events.commits import CommitBeforeRevocation
from aktor.events.coordinator import SuspectCoordinator
from aktor.events.membership import (
    ConfirmSession,
    GroupFailed,
    Loss,
    MemberChanged,
    MemberState,
    RevokePartitions,
    SessionExtended,
)
from aktor.events.network import Destination, Lane, Request
from aktor.managers.membership.classic.states import State
from tests.unit.managers.membership.builders import (
    GROUP_AUTHORIZATION_FAILED,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Scene,
    a_member,
    a_stable_cooperative_member,
    a_static_member,
    beaten,
    join_refused,
    joined,
    partitions,
    sync_refused,
    synced,
)

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
