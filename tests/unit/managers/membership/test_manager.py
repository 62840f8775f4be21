"""What the members of both protocols do alike: `GroupMembershipManager`."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError

from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.coordinator import CoordinatorLost, CoordinatorRefused, SuspectCoordinator
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    CallbackFinished,
    ConfirmSession,
    GroupFailed,
    Loss,
    MemberChanged,
    RevokePartitions,
    RunRevokedCallback,
    SessionExtended,
)
from aktor.events.metadata import Broker
from aktor.events.network import Destination
from tests.unit.managers.membership.builders import (
    COORDINATOR_LOADING,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
    partitions,
)
from tests.unit.managers.membership.builders_group import KINDS, SESSION, GroupScene

OTHER_COORDINATOR = Broker(node_id=2, host="kafka-2", port=9092)
LOST = CoordinatorLost(because="it is silent")
REFUSED = CoordinatorRefused(error=GroupAuthorizationFailedError("group 'g'"))

pytestmark = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

Kind = type[Any]


def a_stable_member(kind: Kind, owned: str = "a-0 a-1", **settings: Any) -> GroupScene:
    """A member that owns this, polls, and heartbeats at the interval; nothing is to be done."""
    scene: GroupScene = kind(**settings).is_stable(owned).is_quiet()
    scene.poll()
    scene.forget()
    return scene


def a_late_member(kind: Kind) -> GroupScene:
    """The application has not polled for `max_poll_interval_ms`, which is a minute."""
    scene = a_stable_member(kind, max_poll_interval=60.0)
    scene.after(60.0)
    scene.requests = scene.requests[-1:]
    return scene


def is_stable(scene: GroupScene) -> bool:
    """Whether the membership is not in question."""
    return bool(scene.manager.state.name == "STABLE")


# -- joining


def test_a_member_joins_at_the_first_poll_after_it_subscribed_and_not_before(kind: Kind) -> None:
    """Scenario 49, KAFKA-17154."""
    scene = kind()
    scene.find_coordinator()
    scene.poll()
    scene.subscribe("a")
    assert not scene.requests
    assert scene.manager.state is scene.OUT

    scene.poll()

    assert scene.has_asked_to_join
    assert scene.manager.state.name == "JOINING"


def test_a_member_joins_as_soon_as_the_coordinator_is_known(kind: Kind) -> None:
    scene = kind()
    scene.subscribe("a")
    scene.poll()
    assert not scene.requests

    scene.find_coordinator()

    assert scene.join_request().to is Destination.COORDINATOR


def test_without_topics_nobody_joins_and_nothing_is_awaited(kind: Kind) -> None:
    scene = kind()
    scene.find_coordinator()
    scene.subscribe()
    scene.poll()

    assert not scene.requests
    assert scene.wake_at == float("inf")


# -- who hears of it


def test_answered_heartbeats_and_polls_do_not_change_who_the_member_is(kind: Kind) -> None:
    """Scenario 51."""
    scene = a_stable_member(kind)

    for _ in range(3):
        scene.confirm(scene.next_beat())
        scene.poll()

    assert not scene.has_said(MemberChanged)


def test_commits_hear_from_when_until_when_the_application_gives_partitions_up(kind: Kind) -> None:
    scene = a_stable_member(kind)

    scene.begins_to_revoke()
    assert scene.last_said(MemberChanged).is_revoking
    scene.revoke()

    assert not scene.last_said(MemberChanged).is_revoking


# -- the session


def test_an_answered_heartbeat_extends_the_session_from_when_it_was_sent(kind: Kind) -> None:
    scene = a_stable_member(kind)
    heartbeat = scene.next_beat()
    sent_at = scene.now
    scene.after(2.0)

    scene.confirm(heartbeat)

    assert scene.said(SessionExtended).until == sent_at + SESSION


def test_who_was_suspended_asks_at_once_whether_the_group_still_counts_on_it(kind: Kind) -> None:
    scene = a_stable_member(kind)
    assert not scene.has_beaten

    scene.tell(ConfirmSession())
    scene.tell(ConfirmSession())

    assert scene.beat()


def test_a_session_cannot_be_confirmed_outside_of_a_group(kind: Kind) -> None:
    scene = kind()

    scene.tell(ConfirmSession())

    assert not scene.requests


def test_a_session_is_not_confirmed_by_a_second_heartbeat_beside_one_in_flight(kind: Kind) -> None:
    scene = a_stable_member(kind)
    scene.next_beat()

    scene.tell(ConfirmSession())

    assert not scene.has_beaten


def test_the_group_and_not_our_clock_decides_that_a_member_is_lost(kind: Kind) -> None:
    """The coordinator is away for longer than the session."""
    scene = a_stable_member(kind)
    scene.tell(LOST)
    scene.after(2 * SESSION)
    assert not scene.has_said(RevokePartitions)

    scene.find_coordinator()
    scene.confirm(scene.beat())

    assert is_stable(scene)
    assert not scene.has_said(RevokePartitions)


def test_an_answer_to_a_heartbeat_from_before_a_long_pause_is_followed_by_another_at_once(
    kind: Kind,
) -> None:
    """The process was suspended: the answer says nothing of now."""
    scene = a_stable_member(kind)
    before = scene.next_beat()
    scene.now += 60.0
    scene.poll()

    scene.confirm(before)

    assert scene.has_beaten


def test_after_a_long_pause_partitions_are_revoked_as_ours_only_when_the_group_was_heard(
    kind: Kind,
) -> None:
    scene = a_stable_member(kind, enable_auto_commit=False)
    scene.begins_to_revoke()
    before = scene.next_beat()
    scene.now += 60.0
    scene.poll()

    scene.release(a=5)
    scene.confirm(before)
    assert not scene.has_said(RunRevokedCallback)
    scene.confirm(scene.beat())

    assert scene.said(RunRevokedCallback).loss is Loss.REVOKED


def test_who_was_expelled_during_a_long_pause_has_lost_what_it_gives_up(kind: Kind) -> None:
    """Found by a simulation (seed 3000613): the member was frozen while it gave partitions up."""
    scene = a_stable_member(kind, enable_auto_commit=False)
    scene.begins_to_revoke()
    scene.now += 60.0
    scene.poll()

    scene.release(a=5)
    assert not scene.has_said(RunRevokedCallback)
    scene.refuse(scene.beat(), UNKNOWN_MEMBER_ID)

    assert not scene.has_said(RunRevokedCallback)
    assert scene.last_said(RevokePartitions).loss is Loss.LOST


def test_who_waits_for_the_groups_word_does_not_spin_when_its_last_commit_is_overdue(
    kind: Kind,
) -> None:
    scene = a_stable_member(kind, request_timeout=5.0)
    scene.begins_to_revoke()
    scene.release(a=5)
    scene.tell(LOST)

    scene.now += 60.0
    scene.tick()

    assert not scene.has_said(RunRevokedCallback)
    assert scene.wake_at > scene.now


# -- a revocation


def test_without_auto_commit_the_revoked_callback_follows_the_release(kind: Kind) -> None:
    scene = a_stable_member(kind, enable_auto_commit=False)
    scene.begins_to_revoke()

    step = scene.release(a=7)

    assert not scene.has_said(CommitBeforeRevocation)
    assert scene.said(RunRevokedCallback).partitions == step.partitions


def test_a_commit_that_never_ends_does_not_hold_up_the_revocation(kind: Kind) -> None:
    """Scenario 46."""
    scene = a_stable_member(kind, max_poll_interval=60.0)
    scene.begins_to_revoke()
    scene.release(a=7)
    assert scene.said(CommitBeforeRevocation).deadline == scene.now + 30.0

    scene.after(29.9)
    assert not scene.has_said(RunRevokedCallback)
    scene.after(0.1)

    assert scene.said(RunRevokedCallback).loss is Loss.REVOKED


def test_a_commit_of_a_restarted_commit_manager_is_not_awaited(kind: Kind) -> None:
    scene = a_stable_member(kind)
    scene.begins_to_revoke()
    scene.release(a=7)
    fallen = ("commits", "positions", "fetch")

    scene.tell(ActorsRestarted(actors=fallen, because=RuntimeError("boom")))

    assert scene.has_said(RunRevokedCallback)


def test_a_member_fenced_in_its_revoked_callback_joins_when_that_has_ended_without_another(
    kind: Kind,
) -> None:
    """Simulation, seed 9002338: the callback had yet to begin, and committed as the new member."""
    scene = a_stable_member(kind, "a-1")
    scene.begins_to_revoke()
    scene.release(a=7)
    scene.tell(RevocationCommitted(rebalance=scene.said(CommitBeforeRevocation).rebalance))
    callback = scene.said(RunRevokedCallback)

    scene.refuse(scene.next_beat(), UNKNOWN_MEMBER_ID)
    scene.after(1.0)
    assert not scene.requests
    assert scene.last_said(MemberChanged).generation == -1
    scene.tell(CallbackFinished(rebalance=callback.rebalance))

    assert not scene.has_said(RevokePartitions)
    assert scene.joins_anew()


# -- the coordinator moves, is lost, is refused


def test_without_a_coordinator_only_the_poll_timer_runs(kind: Kind) -> None:
    """Scenario 55: it does not spin."""
    scene = a_stable_member(kind)

    scene.tell(LOST)

    assert scene.wake_at == scene.now + 300.0
    assert is_stable(scene)


@pytest.mark.parametrize("how", ["lost and found", "moved"])
def test_a_heartbeat_in_flight_to_a_former_coordinator_is_sent_to_the_next_at_once(
    how: str, kind: Kind
) -> None:
    scene = a_stable_member(kind)
    old = scene.next_beat()
    if how == "lost and found":
        scene.tell(LOST)
    scene.find_coordinator(OTHER_COORDINATOR)
    assert scene.beat()

    scene.refuse(old, UNKNOWN_MEMBER_ID)

    assert is_stable(scene)
    assert scene.traced("answer.dropped")


@pytest.mark.parametrize(
    "how", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, "disconnect", "timeout"]
)
def test_a_broker_that_is_no_coordinator_or_silent_is_suspected_and_the_next_asked_at_once(
    how: int | str, kind: Kind
) -> None:
    """Scenario 130."""
    scene = a_stable_member(kind)
    heartbeat = scene.next_beat()
    if isinstance(how, int):
        scene.refuse(heartbeat, how)
    elif how == "timeout":
        scene.time_out(heartbeat)
    else:
        scene.fail(heartbeat)
    assert scene.said(SuspectCoordinator).node_id == 1
    assert is_stable(scene)
    scene.tell(LOST)

    scene.find_coordinator(OTHER_COORDINATOR)

    assert scene.has_beaten
    assert is_stable(scene)


def test_who_wants_to_join_is_told_that_the_group_may_not_be_used(kind: Kind) -> None:
    scene = kind()
    scene.subscribe("a")
    scene.poll()

    scene.tell(REFUSED)

    assert scene.said(GroupFailed).error is REFUSED.error


def test_that_the_group_may_not_be_used_is_no_matter_for_who_does_not_subscribe(
    kind: Kind,
) -> None:
    scene = kind()

    scene.tell(REFUSED)

    assert not scene.messages


# -- polled too late


def test_a_member_that_does_not_poll_leaves_at_once_and_its_partitions_are_lost(
    kind: Kind,
) -> None:
    """Scenarios 4 and 71: nobody waits for the callback."""
    scene = a_stable_member(kind, max_poll_interval=60.0)
    scene.after(59.9)
    assert not scene.has_said(RevokePartitions)
    scene.requests.clear()

    scene.after(0.1)

    assert scene.leave_request()
    step = scene.said(RevokePartitions)
    assert (step.loss, step.partitions) == (Loss.LOST, partitions("a-0 a-1"))
    (late,) = scene.traced("poll.late")
    assert late["by"] == 0.0
    assert "max_poll_records" in late["because"]


def test_polling_in_time_keeps_the_member(kind: Kind) -> None:
    """Scenario 7."""
    scene = a_stable_member(kind, max_poll_interval=60.0)

    for _ in range(5):
        scene.after(59.9)
        scene.poll()
        scene.requests.clear()

    assert is_stable(scene)


def test_a_late_member_waits_for_its_lost_callback_and_for_a_poll(kind: Kind) -> None:
    """Scenarios 9 and 50."""
    scene = a_late_member(kind)
    scene.let_go(scene.leave_request())
    scene.poll()
    assert not scene.requests

    scene.revoke()

    assert scene.joins_anew()


def test_a_late_member_whose_callback_is_done_joins_at_the_next_poll_only(kind: Kind) -> None:
    """Scenario 50."""
    scene = a_late_member(kind)
    scene.let_go(scene.leave_request())
    scene.revoke()
    scene.after(100.0)
    assert not scene.requests

    scene.poll()

    assert scene.joins_anew()


def test_who_leaves_after_a_late_poll_waits_for_the_request_to_leave_that_is_under_way(
    kind: Kind,
) -> None:
    scene = a_late_member(kind)
    under_way = scene.leave_request()

    scene.leave(ticket=7)
    assert not scene.has_said(Answered)
    scene.let_go(under_way)

    assert scene.said(Answered).ticket == 7
    assert scene.manager.state is scene.OUT
    assert not scene.requests


def test_who_leaves_after_a_late_poll_waits_no_longer_than_it_may(kind: Kind) -> None:
    scene = a_late_member(kind)
    scene.leave(5.0, ticket=7)

    scene.after(5.0)

    assert scene.said(Answered).ticket == 7


# -- leaving


def test_who_is_in_no_group_has_left_at_once(kind: Kind) -> None:
    scene = kind()

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7
    assert not scene.requests


def test_leaving_does_not_wait_for_a_heartbeat_in_flight(kind: Kind) -> None:
    """Scenario 54, KAFKA-16639."""
    scene = a_stable_member(kind)
    in_flight = scene.next_beat()

    scene.leave()
    assert scene.leave_request()
    scene.refuse(in_flight, UNKNOWN_MEMBER_ID)

    assert scene.manager.state.name == "LEAVING"


@pytest.mark.parametrize(
    "how", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOADING, "broken", "timeout"]
)
def test_a_request_to_leave_that_fails_is_repeated_within_its_time(
    how: int | str, kind: Kind
) -> None:
    scene = a_stable_member(kind)
    scene.leave(60.0, ticket=7)
    request = scene.leave_request()
    if isinstance(how, int):
        scene.let_go(request, how)
    elif how == "timeout":
        scene.time_out(request)
    else:
        scene.fail(request)
    assert scene.has_said(SuspectCoordinator) is (how != COORDINATOR_LOADING)
    assert scene.manager.state.name == "LEAVING"
    assert not scene.requests

    scene.after(0.1)
    scene.let_go(scene.leave_request())

    assert scene.said(Answered).ticket == 7
    assert scene.manager.state is scene.OUT


def test_leaving_without_a_coordinator_waits_for_one(kind: Kind) -> None:
    scene = a_stable_member(kind)
    scene.tell(LOST)
    scene.leave(ticket=7)
    assert not scene.requests

    scene.find_coordinator(OTHER_COORDINATOR)

    scene.let_go(scene.leave_request())
    assert scene.said(Answered).ticket == 7


@pytest.mark.parametrize("is_sent", [False, True])
def test_leaving_ends_at_its_deadline_whatever_happens(is_sent: bool, kind: Kind) -> None:
    """Scenario 110."""
    scene = a_stable_member(kind)
    if not is_sent:
        scene.tell(LOST)
    scene.leave(5.0, ticket=7)

    scene.after(4.9)
    assert not scene.has_said(Answered)
    scene.after(0.1)

    assert scene.said(Answered).ticket == 7
    assert scene.manager.state is scene.OUT
    (stayed,) = scene.traced("member.stayed")
    why = "did not answer in time" if is_sent else "coordinator is not known"
    assert why in stayed["because"]


def test_the_answer_to_a_request_to_leave_after_its_deadline_is_dropped(kind: Kind) -> None:
    scene = a_stable_member(kind)
    scene.leave(1.0, ticket=7)
    request = scene.leave_request()
    scene.after(1.0)
    scene.forget()

    scene.let_go(request)

    assert not scene.messages
    assert scene.manager.state is scene.OUT


def test_a_silent_coordinator_leaves_time_to_tell_the_next_one(kind: Kind) -> None:
    scene = a_stable_member(kind)
    scene.leave(15.0, ticket=7)

    scene.time_out(scene.leave_request())
    assert scene.said(SuspectCoordinator).node_id == 1
    scene.tell(LOST)
    scene.find_coordinator(OTHER_COORDINATOR)

    scene.let_go(scene.next_leave())
    assert scene.said(Answered).ticket == 7


def test_leaving_ends_when_the_group_may_not_be_used(kind: Kind) -> None:
    scene = a_stable_member(kind)
    scene.tell(LOST)
    scene.leave(30.0, ticket=7)
    assert not scene.has_said(Answered)

    scene.tell(REFUSED)

    assert scene.said(Answered).ticket == 7
    assert scene.manager.state is scene.OUT
    assert not scene.has_said(GroupFailed)
