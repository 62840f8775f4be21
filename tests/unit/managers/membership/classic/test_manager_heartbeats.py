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
    NOT_COORDINATOR,
    OK,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    MembershipHarness,
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
    harness = a_member().is_stable()
    began = harness.now

    times = []
    for _ in range(3):
        harness.beats()
        times.append(harness.now - began)

    assert times == [3.0, 6.0, 9.0]


@pytest.mark.parametrize("stage", ["preparing", "assigning"])
def test_heartbeats_go_on_while_a_listener_takes_its_time(stage: str) -> None:
    """Scenarios 5 and 6."""
    if stage == "preparing":
        harness = a_member().is_stable()
        harness.beats(REBALANCE_IN_PROGRESS)
        harness.release()
        before = harness.manager.state
    else:
        harness = a_member().is_assigning()
        before = harness.manager.state

    for _ in range(50):
        harness.beats()

    assert harness.manager.state is before


def test_a_commit_in_a_slow_revoked_callback_still_has_a_generation() -> None:
    """Scenario 5."""
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.release()
    harness.after(100)

    told = harness.last_said(MemberChanged)

    assert (told.member_id, told.generation, told.state) == ("m", 1, MemberState.REBALANCING)


def test_a_new_members_session_begins_with_the_join_group_that_gave_it_its_id() -> None:
    harness = a_member(session_timeout=10.0).wants_to_join()
    asked_at = harness.now
    first = harness.sent(JoinGroupRequest)
    harness.after(0.5)
    harness.answer(first, join_refused(MEMBER_ID_REQUIRED, member="m"))
    harness.after(0.5)

    harness.answer(harness.sent(JoinGroupRequest), joined(member="m"))

    assert harness.said(SessionExtended).until == asked_at + 10.0


def test_a_static_members_session_begins_with_the_join_group_that_gave_it_its_id() -> None:
    harness = a_member(session_timeout=10.0, group_instance_id="i").wants_to_join()
    asked_at = harness.now
    request = harness.sent(JoinGroupRequest)
    harness.after(0.5)

    harness.answer(request, joined(member="m"))

    assert harness.said(SessionExtended).until == asked_at + 10.0


def test_a_join_group_that_is_sent_again_extends_no_session() -> None:
    """The answer to the first was lost: the coordinator tells the generation once more."""
    harness = a_member(session_timeout=10.0, request_timeout=5.0).wants_to_join()
    asked_at = harness.now
    harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, member="m"))
    harness.time_out(harness.sent(JoinGroupRequest))
    harness.after(1.0)

    harness.answer(harness.sent(JoinGroupRequest), joined(member="m"))

    assert harness.said(SessionExtended).until == asked_at + 10.0


def test_a_member_that_joins_again_extends_its_session_by_heartbeats_only() -> None:
    """It may be told the generation that it knows, without a rebalance."""
    harness = a_member(session_timeout=10.0).is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    harness.messages.clear()
    request = harness.sent(JoinGroupRequest)
    harness.after(1.0)

    harness.answer(request, joined(generation=2))
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))

    assert not harness.has_said(SessionExtended)


def test_who_keeps_its_id_without_a_generation_extends_its_session_by_heartbeats() -> None:
    harness = a_member(session_timeout=10.0).wants_to_join()
    asked_at = harness.now
    harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, member="m"))
    harness.answer(harness.sent(JoinGroupRequest), joined(member="m"))
    harness.answer(harness.sent(SyncGroupRequest), sync_refused(ILLEGAL_GENERATION))
    harness.after(1.0)

    harness.answer(harness.sent(JoinGroupRequest), joined(generation=7, member="m"))
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))

    assert harness.last_said(SessionExtended).until == asked_at + 10.0


def test_a_sync_group_extends_no_session() -> None:
    """In a stable group it only reads out the assignment, at Kafka 4."""
    harness = a_member(session_timeout=10.0).wants_to_join()
    asked_at = harness.now
    request = harness.sent(JoinGroupRequest)
    harness.after(1.0)
    harness.answer(request, joined())

    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))

    assert harness.last_said(SessionExtended).until == asked_at + 10.0


def test_a_member_whose_session_is_over_when_a_rebalance_ends_asks_at_once() -> None:
    harness = a_member(session_timeout=10.0, request_timeout=60.0).wants_to_join()
    request = harness.sent(JoinGroupRequest)
    harness.now += 11.0

    harness.answer(request, joined())

    harness.sent(HeartbeatRequest)
    harness.sent(SyncGroupRequest)


def test_who_comes_back_under_its_id_is_confirmed_by_a_heartbeat_and_not_before() -> None:
    harness = a_member(session_timeout=10.0)
    harness.find_coordinator()
    harness.subscribe("a", member_id="m")
    harness.poll()

    harness.answer(harness.sent(JoinGroupRequest), joined(generation=7, member="m"))
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))
    unconfirmed = not harness.has_said(SessionExtended)
    harness.answer(harness.sent(HeartbeatRequest), beaten())

    assert unconfirmed
    assert harness.said(SessionExtended).until == harness.now + 10.0


def test_a_heartbeat_that_meets_a_rebalance_confirms_the_session_as_well() -> None:
    harness = a_member(session_timeout=10.0).is_stable()

    harness.beats(REBALANCE_IN_PROGRESS)

    assert harness.said(SessionExtended).until == harness.now + 10.0


def test_a_half_open_coordinator_is_suspected_well_within_the_session() -> None:
    """Lead 7."""
    harness = a_member(session_timeout=6.0).is_stable()
    harness.after(3.0)
    request = harness.sent(HeartbeatRequest)
    assert request.deadline == harness.now + 3.0

    harness.time_out(request)

    assert harness.said(SuspectCoordinator).node_id == 1
    assert harness.manager.state is State.STABLE
    harness.after(0.2)
    assert harness.has_sent(HeartbeatRequest)


def test_the_coordinator_found_after_a_silent_one_has_less_time_and_the_next_ones_more() -> None:
    """Lead 7: Kafka still names the frozen broker, for as long as it takes to notice."""
    harness = a_member(session_timeout=6.0).is_stable()
    harness.after(3.0)
    patience = []

    for _ in range(4):
        request = harness.sent(HeartbeatRequest)
        patience.append(request.deadline - harness.now)
        harness.time_out(request)
        while not harness.has_sent(HeartbeatRequest):
            harness.after(0.01)

    assert patience == pytest.approx([3.0, 1.0, 2.0, 3.0], abs=0.02)


def test_while_join_group_waits_heartbeats_go_on_over_another_connection() -> None:
    """A broker answers the requests of one connection in order."""
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    join = harness.sent(JoinGroupRequest)

    harness.after(3.0)
    request = harness.sent(HeartbeatRequest)

    assert (join.to, join.lane) == (Destination.COORDINATOR, Lane.HOLDS)
    assert (request.to, request.lane) == (Destination.COORDINATOR, Lane.ORDINARY)
    harness.answer(request, beaten(REBALANCE_IN_PROGRESS))
    assert harness.last_said(SessionExtended).until == request.context.at + 45.0
    assert harness.manager.state is State.JOINING


def test_a_heartbeat_of_the_old_generation_does_not_fence_a_member_that_joins() -> None:
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    join = harness.sent(JoinGroupRequest)
    harness.after(3.0)

    harness.answer(harness.sent(HeartbeatRequest), beaten(ILLEGAL_GENERATION))
    harness.answer(join, joined(2, assignor="cooperative-sticky"))

    assert harness.manager.state is State.SYNCING
    assert not harness.has_said(RevokePartitions)


def a_member_whose_heartbeat_joingroup_has_overtaken(
    *codes: int, **settings: object
) -> MembershipHarness:
    """JoinGroup has begun generation 2, and is answered after heartbeats of generation 1."""
    harness = a_stable_cooperative_member("a-0 a-1", **settings)
    harness.beats(REBALANCE_IN_PROGRESS)
    join = harness.sent(JoinGroupRequest)
    for code in codes:
        harness.beats(code)
    assert harness.last_said(SessionExtended).until < harness.now
    assert join.body.member_id == "m"
    harness.answer(join, joined(2, assignor="cooperative-sticky"))
    return harness


def test_what_is_taken_from_a_member_whose_heartbeat_came_too_late_is_revoked() -> None:
    """Found on a real Kafka: it was lost, so its last records were not committed, and repeated."""
    harness = a_member_whose_heartbeat_joingroup_has_overtaken(ILLEGAL_GENERATION)
    assert harness.last_said(SessionExtended).until > harness.now

    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))

    assert harness.last_said(RevokePartitions).loss is Loss.REVOKED


@pytest.mark.parametrize(
    ("codes", "settings"),
    [
        ([ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID], {}),
        ([ILLEGAL_GENERATION], {"group_instance_id": "instance-1"}),
    ],
    ids=["disowned", "static"],
)
def test_a_member_that_the_group_may_have_gone_on_without_is_in_doubt_until_it_is_confirmed(
    codes: list[int], settings: dict[str, object]
) -> None:
    harness = a_member_whose_heartbeat_joingroup_has_overtaken(*codes, **settings)

    assert not harness.has_said(SessionExtended)


def test_who_is_disowned_while_join_group_is_not_answered_begins_anew_beside_it() -> None:
    """Found by a simulation (seed 3000431): its connection was half-open, for five minutes."""
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.sent(JoinGroupRequest)

    while harness.manager.state is State.JOINING:
        harness.beats(UNKNOWN_MEMBER_ID)
    harness.revoke()
    harness.after(1.0)

    again = harness.sent(JoinGroupRequest)
    assert (again.lane, again.body.member_id) == (Lane.HOLDS, "")


def test_who_is_disowned_while_join_group_is_not_answered_gives_nothing_out() -> None:
    """Found by a simulation (seed 20219): what it owned was another member's by then."""
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.sent(JoinGroupRequest)

    harness.beats(UNKNOWN_MEMBER_ID)

    assert harness.manager.state is State.JOINING
    assert harness.last_said(SessionExtended).until < harness.now


def test_an_assignment_asked_for_before_a_long_sleep_is_followed_by_a_heartbeat_at_once() -> None:
    harness = a_stable_cooperative_member("a-0 a-1", session_timeout=10.0, enable_auto_commit=False)
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.answer(
        harness.sent(JoinGroupRequest), joined(generation=2, assignor="cooperative-sticky")
    )
    sync = harness.sent(SyncGroupRequest)

    harness.now += 60.0
    harness.answer(sync, synced("a-0"))

    assert harness.manager.state is State.REVOKING
    assert harness.has_sent(HeartbeatRequest)


def test_an_answer_of_an_earlier_generation_is_ignored() -> None:
    harness = a_stable_cooperative_member("a-0")
    harness.tell(ConfirmSession())
    beat = harness.sent(HeartbeatRequest)
    harness.subscribe("a", "b")
    harness.poll()
    harness.answer(harness.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))

    harness.answer(beat, beaten(UNKNOWN_MEMBER_ID))

    assert harness.manager.state is State.SYNCING


def test_a_rebalance_that_sync_has_ended_is_not_begun_again_by_a_late_heartbeat() -> None:
    harness = a_member().is_syncing()
    sync = harness.sent(SyncGroupRequest)
    harness.tell(ConfirmSession())
    beat = harness.sent(HeartbeatRequest)
    harness.now += 0.01
    harness.answer(sync, synced("a-0"))
    harness.apply()

    harness.answer(beat, beaten(REBALANCE_IN_PROGRESS))

    assert harness.manager.state is State.STABLE


def a_syncing_cooperative_member() -> MembershipHarness:
    """It keeps a-0 while its group rebalances."""
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.answer(harness.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))
    assert harness.manager.state is State.SYNCING
    return harness


def a_member_whose_heartbeat_syncgroup_has_overtaken() -> tuple[MembershipHarness, Request]:
    """SyncGroup is answered while a heartbeat, which was sent before, is not."""
    harness = a_syncing_cooperative_member()
    harness.after(3.0)
    heartbeat = harness.sent(HeartbeatRequest)
    harness.now += 0.01
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))
    return harness, heartbeat


def a_member_with_an_assignment_in_doubt() -> MembershipHarness:
    """Its group rebalanced again, as far as it knows, before SyncGroup was answered."""
    harness = a_syncing_cooperative_member()
    harness.beats(REBALANCE_IN_PROGRESS)
    assert harness.last_said(SessionExtended).until > harness.now
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))
    assert harness.last_said(SessionExtended).until < harness.now
    return harness


def test_what_was_assigned_before_a_rebalance_is_used_when_a_heartbeat_confirms_it() -> None:
    """A broker before Kafka 2.7 answers so to each heartbeat before SyncGroup is answered."""
    harness = a_member_with_an_assignment_in_doubt()

    harness.answer(harness.sent(HeartbeatRequest), beaten())  # it is sent at once

    assert harness.last_said(SessionExtended).until == harness.now + 45.0


def test_what_was_assigned_before_a_rebalance_is_lost_if_the_group_went_on() -> None:
    harness = a_member_with_an_assignment_in_doubt()
    harness.apply()

    harness.answer(harness.sent(HeartbeatRequest), beaten(UNKNOWN_MEMBER_ID))

    assert not harness.has_said(SessionExtended)
    assert harness.last_said(RevokePartitions).loss is Loss.LOST


def test_a_member_with_an_assignment_in_doubt_joins_again_when_a_heartbeat_confirms_it() -> None:
    harness = a_member_with_an_assignment_in_doubt()
    harness.apply()
    harness.subscribe("a", "b")
    harness.poll()
    assert not harness.has_sent(JoinGroupRequest)

    harness.answer(harness.sent(HeartbeatRequest), beaten())

    assert harness.has_sent(JoinGroupRequest)


def test_what_is_in_doubt_stays_so_when_joingroup_is_answered() -> None:
    harness, heartbeat = a_member_whose_heartbeat_syncgroup_has_overtaken()
    harness.apply()
    harness.subscribe("a", "b")
    harness.poll()
    harness.answer(heartbeat, beaten(REBALANCE_IN_PROGRESS))
    assert harness.last_said(SessionExtended).until < harness.now

    harness.answer(harness.sent(JoinGroupRequest), joined(3, assignor="cooperative-sticky"))

    assert not harness.has_said(SessionExtended)


def test_the_assignment_of_the_next_rebalance_is_not_in_doubt() -> None:
    harness = a_member_with_an_assignment_in_doubt()
    harness.apply()
    harness.answer(harness.sent(HeartbeatRequest), beaten(REBALANCE_IN_PROGRESS))
    harness.answer(harness.sent(JoinGroupRequest), joined(3, assignor="cooperative-sticky"))
    assert harness.last_said(SessionExtended).until > harness.now

    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))

    assert not harness.has_said(SessionExtended)


def test_while_syncgroup_is_not_answered_the_application_that_asks_causes_no_more_heartbeats() -> (
    None
):
    """An old broker answers so to each of them: the session goes on, and nobody has to ask."""
    harness = a_syncing_cooperative_member()
    harness.beats(REBALANCE_IN_PROGRESS)

    assert harness.last_said(SessionExtended).until > harness.now
    assert not harness.has_sent(HeartbeatRequest)
    harness.after(2.9)
    assert not harness.has_sent(HeartbeatRequest)


def test_a_member_that_slept_while_it_syncs_asks_again_at_once() -> None:
    harness = a_syncing_cooperative_member()
    harness.after(3.0)
    heartbeat = harness.sent(HeartbeatRequest)
    harness.now += 60.0

    harness.answer(heartbeat, beaten())

    assert harness.has_sent(HeartbeatRequest)


def test_a_heartbeat_that_syncgroup_has_overtaken_puts_the_assignment_in_doubt() -> None:
    harness, heartbeat = a_member_whose_heartbeat_syncgroup_has_overtaken()

    harness.answer(heartbeat, beaten(REBALANCE_IN_PROGRESS))

    assert harness.last_said(SessionExtended).until < harness.now
    harness.answer(harness.sent(HeartbeatRequest), beaten())
    assert harness.last_said(SessionExtended).until == harness.now + 45.0


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION])
def test_a_member_that_is_expelled_before_syncgroup_is_answered_loses_everything_at_once(
    code: int,
) -> None:
    harness = a_syncing_cooperative_member()

    harness.beats(code)

    assert harness.manager.state is State.LOSING
    assert harness.last_said(RevokePartitions).loss is Loss.LOST


def test_a_broken_connection_is_suspicious_while_join_group_waits_on_another() -> None:
    """As in `AbstractCoordinator` of the Java client."""
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.sent(JoinGroupRequest)
    harness.after(3.0)

    harness.fail(harness.sent(HeartbeatRequest), KafkaConnectionError("reset by peer"))

    assert harness.said(SuspectCoordinator).node_id == 1
    assert harness.manager.state is State.JOINING


@pytest.mark.parametrize(("code", "member"), [(UNKNOWN_MEMBER_ID, ""), (ILLEGAL_GENERATION, "m")])
def test_a_fenced_member_gives_everything_up_as_lost_and_joins_again(
    code: int, member: str
) -> None:
    """Scenarios 66, 69 and 70."""
    harness = a_member().is_stable("a-0 a-1")
    harness.beats(code)
    assert harness.last_said(MemberChanged).generation == -1

    step = harness.release(a=5)
    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not harness.has_said(CommitBeforeRevocation)
    harness.after(10)
    assert not harness.has_sent(HeartbeatRequest)
    assert not harness.has_sent(JoinGroupRequest)
    assert harness.run_revoked_callback().loss is Loss.LOST

    assert harness.sent(JoinGroupRequest).body.member_id == member


def test_a_fenced_member_may_be_given_the_same_partitions_again() -> None:
    """Scenario 67."""
    harness = a_member().is_stable("a-0")
    harness.beats(UNKNOWN_MEMBER_ID)
    harness.revoke()
    harness.rejoins(generation=3, assigned="a-0", member="m2")

    step = harness.apply()

    assert step.added == partitions("a-0")
    assert harness.last_said(MemberChanged).member_id == "m2"


def test_a_heartbeat_that_is_not_authorized_fails_the_group() -> None:
    """Scenario 131."""
    harness = a_member().is_stable("a-0")
    harness.beats(GROUP_AUTHORIZATION_FAILED)

    harness.revoke()

    assert isinstance(harness.said(GroupFailed).error, GroupAuthorizationFailedError)


# -- max_poll_interval


def test_the_leave_group_of_a_member_that_does_not_poll_says_so() -> None:
    harness = a_member(max_poll_interval=10.0).is_stable("a-0")

    harness.after(10.0)

    body = harness.sent(LeaveGroupRequest).body
    assert "max_poll_interval_ms" in body.members[0].reason


def test_a_listener_slower_than_max_poll_interval_counts_as_not_polling() -> None:
    harness = a_member(max_poll_interval=10.0).is_assigning("a-0")

    harness.after(10)

    assert harness.sent(LeaveGroupRequest)
    assert harness.said(RevokePartitions).loss is Loss.LOST


def test_a_member_that_stops_polling_while_it_joins_leaves_beside_the_waiting_join() -> None:
    harness = a_member(max_poll_interval=10.0).is_stable("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    join = harness.sent(JoinGroupRequest)
    harness.after(10)
    assert harness.sent(LeaveGroupRequest).lane is Lane.ORDINARY

    harness.answer(join, join_refused(UNKNOWN_MEMBER_ID))

    assert harness.manager.state is State.UNJOINED


def test_a_static_member_that_is_late_does_not_say_goodbye() -> None:
    harness = a_static_member(max_poll_interval=10.0).is_stable("a-0")

    harness.after(10)

    assert not harness.has_sent(LeaveGroupRequest)
    assert harness.said(RevokePartitions).loss is Loss.LOST
    harness.requests.clear()
    harness.after(20)
    assert not harness.requests


# -- until when a rebalance waits for the member


def calm(**settings: object) -> tuple[MembershipHarness, float]:
    """It keeps a-0 while its group rebalances; and when it asked last and no rebalance ran."""
    harness = a_stable_cooperative_member("a-0", max_poll_interval=60.0, **settings)
    return harness, harness.beats().context.at


def polls_on(harness: MembershipHarness, code: int = OK) -> None:
    """The application polls for more than a minute; each heartbeat is answered so."""
    until = harness.now + 65.0
    while harness.now < until:
        harness.poll()
        harness.beats(code)


def test_a_rebalance_that_join_group_does_not_reach_lets_records_out_until_its_timeout() -> None:
    """Found by a simulation (seed 96000028): heartbeats are answered on another connection, and
    the group goes on without the member when it has waited for it so long."""
    harness, asked_at = calm()

    polls_on(harness, REBALANCE_IN_PROGRESS)

    assert harness.manager.state is State.JOINING
    assert harness.last_said(SessionExtended).until == asked_at + 60.0


def test_heartbeats_come_no_faster_when_a_rebalance_has_waited_too_long() -> None:
    harness, _ = calm()
    polls_on(harness, REBALANCE_IN_PROGRESS)
    before = harness.now

    harness.beats(REBALANCE_IN_PROGRESS)

    assert harness.now == before + 3.0


def test_what_joins_after_all_gives_records_out_again_after_the_next_heartbeat() -> None:
    harness, _ = calm(request_timeout=300.0)
    harness.beats(REBALANCE_IN_PROGRESS)
    join = harness.sent(JoinGroupRequest)
    polls_on(harness, REBALANCE_IN_PROGRESS)

    harness.answer(join, joined(2, assignor="cooperative-sticky"))
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))
    harness.apply()
    request = harness.beats()

    assert harness.last_said(SessionExtended).until == request.context.at + 45.0


def test_a_sync_group_that_is_not_answered_lets_records_out_until_the_timeout() -> None:
    """Kafka removes members whose SyncGroup has not come (onPendingSyncExpiration), and its
    heartbeats say nothing of that before."""
    harness, _ = calm(request_timeout=300.0)
    last = harness.beats(REBALANCE_IN_PROGRESS).context.at
    harness.answer(harness.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))

    polls_on(harness)

    assert harness.manager.state is State.SYNCING
    assert harness.last_said(SessionExtended).until == last + 60.0


def test_a_sync_group_that_fails_is_awaited_while_the_member_joins_again() -> None:
    """Found by a simulation (seed 96000028, the coordinator had moved): heartbeats of its
    generation are answered as if no rebalance ran."""
    harness, _ = calm(request_timeout=300.0)
    last = harness.beats(REBALANCE_IN_PROGRESS).context.at
    harness.answer(harness.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))
    harness.answer(harness.sent(SyncGroupRequest), sync_refused(NOT_COORDINATOR))

    polls_on(harness)

    assert harness.manager.state is State.JOINING
    assert harness.last_said(SessionExtended).until == last + 60.0


def test_a_generation_that_is_told_again_has_not_begun_again() -> None:
    """The group waits for SyncGroup since it told the generation first: the first SyncGroup has
    failed, the next JoinGroup is answered at once (simulation, seeds 10, 24, 32)."""
    harness, _ = calm(request_timeout=300.0)
    last = harness.beats(REBALANCE_IN_PROGRESS).context.at
    harness.answer(harness.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))
    harness.answer(harness.sent(SyncGroupRequest), sync_refused(NOT_COORDINATOR))
    harness.beats()
    harness.answer(harness.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))

    polls_on(harness)

    assert harness.manager.state is State.SYNCING
    assert harness.last_said(SessionExtended).until == last + 60.0


def test_a_join_group_that_is_sent_again_does_not_show_when_its_generation_began() -> None:
    """The answer to the first one was lost, and the group waits for SyncGroup since then."""
    harness, _ = calm(request_timeout=10.0)
    last = harness.beats(REBALANCE_IN_PROGRESS).context.at
    harness.fail(harness.sent(JoinGroupRequest))
    harness.now += 1.0
    harness.tick()
    harness.answer(harness.sent(JoinGroupRequest), joined(2, assignor="cooperative-sticky"))

    polls_on(harness)

    assert harness.manager.state is State.SYNCING
    assert harness.last_said(SessionExtended).until == last + 60.0


def test_a_session_longer_than_the_rebalance_timeout_is_believed_in_until_that() -> None:
    """A rebalance may begin right after the answer to a heartbeat."""
    harness = a_stable_cooperative_member("a-0", max_poll_interval=20.0)

    request = harness.beats()

    assert harness.last_said(SessionExtended).until == request.context.at + 20.0
