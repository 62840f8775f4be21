"""What the members of both protocols do alike: `GroupMembershipManager`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError

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
from aktor.events.metadata import Broker, Cluster, ClusterChanged
from aktor.events.network import Destination
from tests.unit.managers.membership.builders import (
    COORDINATOR_LOADING,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
    partitions,
)
from tests.unit.managers.membership.builders_group import KINDS, SESSION, ClassicGroup, GroupHarness

OTHER_COORDINATOR = Broker(node_id=2, host="kafka-2", port=9092)
LOST = CoordinatorLost(because="it is silent")
REFUSED = CoordinatorRefused(error=GroupAuthorizationFailedError("group 'g'"))

pytestmark = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

Kind = type[Any]


def a_stable_member(kind: Kind, owned: str = "a-0 a-1", **settings: Any) -> GroupHarness:
    """A member that owns this, polls, and heartbeats at the interval; nothing is to be done."""
    harness: GroupHarness = kind(**settings).is_stable(owned).is_quiet()
    harness.poll()
    harness.forget()
    return harness


def a_late_member(kind: Kind) -> GroupHarness:
    """The application has not polled for `max_poll_interval_ms`, which is a minute."""
    harness = a_stable_member(kind, max_poll_interval=60.0)
    harness.after(60.0)
    harness.requests = harness.requests[-1:]
    return harness


def is_stable(harness: GroupHarness) -> bool:
    """Whether the membership is not in question."""
    return bool(harness.manager.state.name == "STABLE")


# -- joining


def test_a_member_joins_at_the_first_poll_after_it_subscribed_and_not_before(kind: Kind) -> None:
    """Scenario 49, KAFKA-17154."""
    harness = kind()
    harness.find_coordinator()
    harness.poll()
    harness.subscribe("a")
    assert not harness.requests
    assert harness.manager.state is harness.OUT

    harness.poll()

    assert harness.has_asked_to_join
    assert harness.manager.state.name == "JOINING"


def test_a_member_joins_as_soon_as_the_coordinator_is_known(kind: Kind) -> None:
    harness = kind()
    harness.subscribe("a")
    harness.poll()
    assert not harness.requests

    harness.find_coordinator()

    assert harness.join_request().to is Destination.COORDINATOR


def test_without_topics_nobody_joins_and_nothing_is_awaited(kind: Kind) -> None:
    harness = kind()
    harness.find_coordinator()
    harness.subscribe()
    harness.poll()

    assert not harness.requests
    assert harness.wake_at == float("inf")


# -- who hears of it


def test_answered_heartbeats_and_polls_do_not_change_who_the_member_is(kind: Kind) -> None:
    """Scenario 51."""
    harness = a_stable_member(kind)

    for _ in range(3):
        harness.confirm(harness.next_beat())
        harness.poll()

    assert not harness.has_said(MemberChanged)


def test_commits_hear_from_when_until_when_the_application_gives_partitions_up(kind: Kind) -> None:
    harness = a_stable_member(kind)

    harness.begins_to_revoke()
    assert harness.last_said(MemberChanged).is_revoking
    harness.revoke()

    assert not harness.last_said(MemberChanged).is_revoking


# -- what is measured


def measured(harness: GroupHarness) -> dict[str, float]:
    """By name."""
    return {one.name: value for one, value in harness.manager.measure(harness.now).items()}


def test_a_rebalance_is_measured_when_the_member_has_its_assignment(kind: Kind) -> None:
    harness = kind()
    assert measured(harness)["last-rebalance-seconds-ago"] == -1.0

    harness.is_stable("a-0 a-1").is_quiet()

    assert measured(harness)["rebalance-total"] == 1
    assert measured(harness)["failed-rebalance-total"] == 0
    assert measured(harness)["last-rebalance-seconds-ago"] >= 0.0


def test_a_rebalance_fails_if_the_membership_is_lost_meanwhile(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.begins_to_revoke()
    assert measured(harness)["failed-rebalance-total"] == 0

    harness.refuse(harness.next_beat(), UNKNOWN_MEMBER_ID)

    assert measured(harness)["failed-rebalance-total"] == 1
    assert measured(harness)["rebalance-total"] == 1


def test_a_member_that_leaves_in_the_middle_of_a_rebalance_has_not_failed(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.begins_to_revoke()
    harness.leave()
    harness.let_go(harness.next_leave())
    harness.find_coordinator()

    harness.is_stable("a-0 a-1")

    assert measured(harness)["failed-rebalance-total"] == 0


# -- the session


def test_an_answered_heartbeat_extends_the_session_from_when_it_was_sent(kind: Kind) -> None:
    harness = a_stable_member(kind)
    heartbeat = harness.next_beat()
    sent_at = harness.now
    harness.after(2.0)

    harness.confirm(heartbeat)

    assert harness.said(SessionExtended).until == sent_at + SESSION


def test_who_was_suspended_asks_at_once_whether_the_group_still_counts_on_it(kind: Kind) -> None:
    harness = a_stable_member(kind)
    assert not harness.has_beaten

    harness.tell(ConfirmSession())
    harness.tell(ConfirmSession())

    assert harness.beat()


def test_a_session_cannot_be_confirmed_outside_of_a_group(kind: Kind) -> None:
    harness = kind()

    harness.tell(ConfirmSession())

    assert not harness.requests


def test_a_session_is_not_confirmed_by_a_second_heartbeat_beside_one_in_flight(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.next_beat()

    harness.tell(ConfirmSession())

    assert not harness.has_beaten


def test_the_group_and_not_our_clock_decides_that_a_member_is_lost(kind: Kind) -> None:
    """The coordinator is away for longer than the session."""
    harness = a_stable_member(kind)
    harness.tell(LOST)
    harness.after(2 * SESSION)
    assert not harness.has_said(RevokePartitions)

    harness.find_coordinator()
    harness.confirm(harness.beat())

    assert is_stable(harness)
    assert not harness.has_said(RevokePartitions)


def test_an_answer_to_a_heartbeat_from_before_a_long_pause_is_followed_by_another_at_once(
    kind: Kind,
) -> None:
    """The process was suspended: the answer says nothing of now."""
    harness = a_stable_member(kind)
    before = harness.next_beat()
    harness.now += 60.0
    harness.poll()

    harness.confirm(before)

    assert harness.has_beaten


def test_after_a_long_pause_partitions_are_revoked_as_ours_only_when_the_group_was_heard(
    kind: Kind,
) -> None:
    harness = a_stable_member(kind, enable_auto_commit=False)
    harness.begins_to_revoke()
    before = harness.next_beat()
    harness.now += 60.0
    harness.poll()

    harness.release(a=5)
    harness.confirm(before)
    assert not harness.has_said(RunRevokedCallback)
    harness.confirm(harness.beat())

    assert harness.said(RunRevokedCallback).loss is Loss.REVOKED


def test_who_was_expelled_during_a_long_pause_has_lost_what_it_gives_up(kind: Kind) -> None:
    """Found by a simulation (seed 3000613): the member was frozen while it gave partitions up."""
    harness = a_stable_member(kind, enable_auto_commit=False)
    harness.begins_to_revoke()
    harness.now += 60.0
    harness.poll()

    harness.release(a=5)
    assert not harness.has_said(RunRevokedCallback)
    harness.refuse(harness.beat(), UNKNOWN_MEMBER_ID)

    assert not harness.has_said(RunRevokedCallback)
    assert harness.last_said(RevokePartitions).loss is Loss.LOST


def test_who_waits_for_the_groups_word_does_not_spin_when_its_last_commit_is_overdue(
    kind: Kind,
) -> None:
    harness = a_stable_member(kind, request_timeout=5.0)
    harness.begins_to_revoke()
    harness.release(a=5)
    harness.tell(LOST)

    harness.now += 60.0
    harness.tick()

    assert not harness.has_said(RunRevokedCallback)
    assert harness.wake_at > harness.now


# -- a revocation


def test_without_auto_commit_the_revoked_callback_follows_the_release(kind: Kind) -> None:
    harness = a_stable_member(kind, enable_auto_commit=False)
    harness.begins_to_revoke()

    step = harness.release(a=7)

    assert not harness.has_said(CommitBeforeRevocation)
    assert harness.said(RunRevokedCallback).partitions == step.partitions


def test_a_commit_that_never_ends_does_not_hold_up_the_revocation(kind: Kind) -> None:
    """Scenario 46."""
    harness = a_stable_member(kind, max_poll_interval=60.0)
    harness.begins_to_revoke()
    harness.release(a=7)
    assert harness.said(CommitBeforeRevocation).deadline == harness.now + 30.0

    harness.after(29.9)
    assert not harness.has_said(RunRevokedCallback)
    harness.after(0.1)

    assert harness.said(RunRevokedCallback).loss is Loss.REVOKED


def test_a_commit_of_a_restarted_commit_manager_is_not_awaited(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.begins_to_revoke()
    harness.release(a=7)
    fallen = ("commits", "positions", "fetch")

    harness.tell(ActorsRestarted(actors=fallen, because=RuntimeError("boom")))

    assert harness.has_said(RunRevokedCallback)


def test_a_member_fenced_in_its_revoked_callback_joins_when_that_has_ended_without_another(
    kind: Kind,
) -> None:
    """Simulation, seed 9002338: the callback had yet to begin, and committed as the new member."""
    harness = a_stable_member(kind, "a-1")
    harness.begins_to_revoke()
    harness.release(a=7)
    harness.tell(RevocationCommitted(rebalance=harness.said(CommitBeforeRevocation).rebalance))
    callback = harness.said(RunRevokedCallback)

    harness.refuse(harness.next_beat(), UNKNOWN_MEMBER_ID)
    harness.after(1.0)
    assert not harness.requests
    assert harness.last_said(MemberChanged).generation == -1
    harness.tell(CallbackFinished(rebalance=callback.rebalance))

    assert not harness.has_said(RevokePartitions)
    assert harness.joins_anew()


# -- the coordinator moves, is lost, is refused


def test_without_a_coordinator_only_the_poll_timer_runs(kind: Kind) -> None:
    """Scenario 55: it does not spin."""
    harness = a_stable_member(kind)

    harness.tell(LOST)

    assert harness.wake_at == harness.now + 300.0
    assert is_stable(harness)


@pytest.mark.parametrize("how", ["lost and found", "moved"])
def test_a_heartbeat_in_flight_to_a_former_coordinator_is_sent_to_the_next_at_once(
    how: str, kind: Kind
) -> None:
    harness = a_stable_member(kind)
    old = harness.next_beat()
    if how == "lost and found":
        harness.tell(LOST)
    harness.find_coordinator(OTHER_COORDINATOR)
    assert harness.beat()

    harness.refuse(old, UNKNOWN_MEMBER_ID)

    assert is_stable(harness)
    assert harness.traced("answer.dropped")


@pytest.mark.parametrize(
    "how", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, "disconnect", "timeout"]
)
def test_a_broker_that_is_no_coordinator_or_silent_is_suspected_and_the_next_asked_at_once(
    how: int | str, kind: Kind
) -> None:
    """Scenario 130."""
    harness = a_stable_member(kind)
    heartbeat = harness.next_beat()
    if isinstance(how, int):
        harness.refuse(heartbeat, how)
    elif how == "timeout":
        harness.time_out(heartbeat)
    else:
        harness.fail(heartbeat)
    assert harness.said(SuspectCoordinator).node_id == 1
    assert is_stable(harness)
    harness.tell(LOST)

    harness.find_coordinator(OTHER_COORDINATOR)

    assert harness.has_beaten
    assert is_stable(harness)


def test_who_wants_to_join_is_told_that_the_group_may_not_be_used(kind: Kind) -> None:
    harness = kind()
    harness.subscribe("a")
    harness.poll()

    harness.tell(REFUSED)

    assert harness.said(GroupFailed).error is REFUSED.error


def test_that_the_group_may_not_be_used_is_no_matter_for_who_does_not_subscribe(
    kind: Kind,
) -> None:
    harness = kind()

    harness.tell(REFUSED)

    assert not harness.messages


# -- polled too late


def test_a_member_that_does_not_poll_leaves_at_once_and_its_partitions_are_lost(
    kind: Kind,
) -> None:
    """Scenarios 4 and 71: nobody waits for the callback."""
    harness = a_stable_member(kind, max_poll_interval=60.0)
    harness.after(59.9)
    assert not harness.has_said(RevokePartitions)
    harness.requests.clear()

    harness.after(0.1)

    assert harness.leave_request()
    step = harness.said(RevokePartitions)
    assert (step.loss, step.partitions) == (Loss.LOST, partitions("a-0 a-1"))
    (late,) = harness.traced("poll.late")
    assert late["seconds"] == 60.0
    assert late["because"].startswith("no poll for 60.000 s (max_poll_interval_ms): ")
    assert "max_poll_records" in late["because"]


def test_polling_in_time_keeps_the_member(kind: Kind) -> None:
    """Scenario 7."""
    harness = a_stable_member(kind, max_poll_interval=60.0)

    for _ in range(5):
        harness.after(59.9)
        harness.poll()
        harness.requests.clear()

    assert is_stable(harness)


def test_a_late_member_waits_for_its_lost_callback_and_for_a_poll(kind: Kind) -> None:
    """Scenarios 9 and 50."""
    harness = a_late_member(kind)
    harness.let_go(harness.leave_request())
    harness.poll()
    assert not harness.requests

    harness.revoke()

    assert harness.joins_anew()


def test_a_late_member_whose_callback_is_done_joins_at_the_next_poll_only(kind: Kind) -> None:
    """Scenario 50."""
    harness = a_late_member(kind)
    harness.let_go(harness.leave_request())
    harness.revoke()
    harness.after(100.0)
    assert not harness.requests

    harness.poll()

    assert harness.joins_anew()


def test_who_leaves_after_a_late_poll_waits_for_the_request_to_leave_that_is_under_way(
    kind: Kind,
) -> None:
    harness = a_late_member(kind)
    under_way = harness.leave_request()

    harness.leave(ticket=7)
    assert not harness.has_said(Answered)
    harness.let_go(under_way)

    assert harness.said(Answered).ticket == 7
    assert harness.manager.state is harness.OUT
    assert not harness.requests


def test_who_leaves_after_a_late_poll_waits_no_longer_than_it_may(kind: Kind) -> None:
    harness = a_late_member(kind)
    harness.leave(5.0, ticket=7)

    harness.after(5.0)

    assert harness.said(Answered).ticket == 7


# -- leaving


def test_who_is_in_no_group_has_left_at_once(kind: Kind) -> None:
    harness = kind()

    harness.leave(ticket=7)

    assert harness.said(Answered).ticket == 7
    assert not harness.requests


def test_leaving_does_not_wait_for_a_heartbeat_in_flight(kind: Kind) -> None:
    """Scenario 54, KAFKA-16639."""
    harness = a_stable_member(kind)
    in_flight = harness.next_beat()

    harness.leave()
    assert harness.leave_request()
    harness.refuse(in_flight, UNKNOWN_MEMBER_ID)

    assert harness.manager.state.name == "LEAVING"


@pytest.mark.parametrize(
    "how", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOADING, "broken", "timeout"]
)
def test_a_request_to_leave_that_fails_is_repeated_within_its_time(
    how: int | str, kind: Kind
) -> None:
    harness = a_stable_member(kind)
    harness.leave(60.0, ticket=7)
    request = harness.leave_request()
    if isinstance(how, int):
        harness.let_go(request, how)
    elif how == "timeout":
        harness.time_out(request)
    else:
        harness.fail(request)
    assert harness.has_said(SuspectCoordinator) is (how != COORDINATOR_LOADING)
    assert harness.manager.state.name == "LEAVING"
    assert not harness.requests

    harness.after(0.1)
    harness.let_go(harness.leave_request())

    assert harness.said(Answered).ticket == 7
    assert harness.manager.state is harness.OUT


def test_leaving_without_a_coordinator_waits_for_one(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.tell(LOST)
    harness.leave(ticket=7)
    assert not harness.requests

    harness.find_coordinator(OTHER_COORDINATOR)

    harness.let_go(harness.leave_request())
    assert harness.said(Answered).ticket == 7


@pytest.mark.parametrize("is_sent", [False, True])
def test_leaving_ends_at_its_deadline_whatever_happens(is_sent: bool, kind: Kind) -> None:
    """Scenario 110."""
    harness = a_stable_member(kind)
    if not is_sent:
        harness.tell(LOST)
    harness.leave(5.0, ticket=7)

    harness.after(4.9)
    assert not harness.has_said(Answered)
    harness.after(0.1)

    assert harness.said(Answered).ticket == 7
    assert harness.manager.state is harness.OUT
    (stayed,) = harness.traced("member.stayed")
    why = "no answer to the request to leave came from broker 1 at kafka-1:9092 in time"
    if not is_sent:
        why = "nobody was asked, since the group's coordinator is not known"
    assert stayed["because"] == f"{why}; the session will end it"


def why_it_stayed(harness: GroupHarness) -> str:
    (stayed,) = harness.traced("member.stayed")
    return str(stayed["because"].removesuffix("; the session will end it"))


def test_who_has_no_time_to_ask_does_not_blame_the_coordinator(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.leave(0.0)

    assert not harness.has_asked_to_leave
    assert why_it_stayed(harness) == (
        "nobody was asked, since there was no time to ask broker 1 at kafka-1:9092"
    )


def test_who_could_not_ask_the_coordinator_says_why(kind: Kind) -> None:
    """The request was never on its way: the connection is refused."""
    harness = a_stable_member(kind)
    harness.leave(5.0)
    while harness.now < 5.0 or not harness.traced("member.stayed"):
        if harness.has_asked_to_leave:
            harness.fail(harness.leave_request(), KafkaConnectionError("Connection refused"))
        harness.now = harness.wake_at
        harness.tick()

    assert re.fullmatch(
        r"the request to leave, to broker 1 at kafka-1:9092, failed \d+ times, at last with"
        r" KafkaConnectionError: Connection refused",
        why_it_stayed(harness),
    )


def test_who_was_refused_until_the_time_was_over_says_by_whom(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.leave(5.0)
    harness.let_go(harness.leave_request(), COORDINATOR_LOADING)
    harness.tell(LOST)
    harness.after(5.0)

    assert why_it_stayed(harness) == (
        "the request to leave, to broker 1 at kafka-1:9092, failed once, with"
        " COORDINATOR_LOAD_IN_PROGRESS, and the group's coordinator is not known any more"
    )


def test_whose_coordinator_moved_before_it_answered_says_so(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.leave(5.0)
    assert harness.leave_request()
    harness.tell(LOST)
    harness.after(5.0)

    assert why_it_stayed(harness) == (
        "no answer to the request to leave came from broker 1 at kafka-1:9092 in time, and the"
        " group's coordinator is not known any more"
    )


def test_the_answer_to_a_request_to_leave_after_its_deadline_is_dropped(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.leave(1.0, ticket=7)
    request = harness.leave_request()
    harness.after(1.0)
    harness.forget()

    harness.let_go(request)

    assert not harness.messages
    assert harness.manager.state is harness.OUT


def test_a_silent_coordinator_leaves_time_to_tell_the_next_one(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.leave(15.0, ticket=7)

    harness.time_out(harness.leave_request())
    assert harness.said(SuspectCoordinator).node_id == 1
    harness.tell(LOST)
    harness.find_coordinator(OTHER_COORDINATOR)

    harness.let_go(harness.next_leave())
    assert harness.said(Answered).ticket == 7


def test_leaving_ends_when_the_group_may_not_be_used(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.tell(LOST)
    harness.leave(30.0, ticket=7)
    assert not harness.has_said(Answered)

    harness.tell(REFUSED)

    assert harness.said(Answered).ticket == 7
    assert harness.manager.state is harness.OUT
    assert not harness.has_said(GroupFailed)
    assert why_it_stayed(harness) == f"the coordinator may not be asked: {REFUSED.error}"


def test_only_a_classic_member_knows_how_long_its_session_is(kind: Kind) -> None:
    harness = a_stable_member(kind)
    harness.manager.note_present(harness.now)

    shown = harness.manager.present
    assert (shown.session, shown.session_is_known) == (SESSION, kind is ClassicGroup)


def in_the_cluster(cluster_id: str | None) -> ClusterChanged:
    return ClusterChanged(cluster=Cluster(cluster_id=cluster_id))


def test_a_member_of_a_cluster_that_was_replaced_is_fenced_because_of_that(kind: Kind) -> None:
    """Brokers that come back with empty disks know no members, and have another cluster id."""
    harness = a_stable_member(kind)
    harness.tell(in_the_cluster("old"), in_the_cluster(None), in_the_cluster("new"))

    harness.refuse(harness.next_beat(), UNKNOWN_MEMBER_ID)

    (lost,) = harness.traced("member.lost")
    words = "UNKNOWN_MEMBER_ID after the cluster was replaced (old, now new)"
    assert lost["because"].endswith(words)


def test_a_member_that_stood_still_as_it_waited_for_an_answer_is_fenced_because_of_that(
    kind: Kind,
) -> None:
    """After a standstill the sockets are read before anything is due."""
    harness = a_stable_member(kind)
    in_flight = harness.next_beat()
    harness.now += 40.0

    harness.refuse(in_flight, UNKNOWN_MEMBER_ID)

    (lost,) = harness.traced("member.lost")
    assert "UNKNOWN_MEMBER_ID after the process stood still for at least " in lost["because"]


def test_a_member_whose_heartbeats_were_not_answered_for_a_session_is_fenced_because_of_that(
    kind: Kind,
) -> None:
    harness = a_stable_member(kind)
    harness.confirm(harness.next_beat())
    session_ends = harness.now + harness.manager._heartbeat_state.session
    while harness.now < session_ends:
        heartbeat = harness.next_beat()
        harness.fail(heartbeat)

    harness.refuse(harness.next_beat(), UNKNOWN_MEMBER_ID)

    (lost,) = harness.traced("member.lost")
    assert (
        "UNKNOWN_MEMBER_ID after the coordinator had confirmed no heartbeat for " in lost["because"]
    )


def fenced_because(harness: GroupHarness) -> str:
    """What has led to it, by the trace, and by what is shown."""
    harness.refuse_next(UNKNOWN_MEMBER_ID)
    (lost,) = harness.traced("member.lost")
    after = lost["because"].partition("UNKNOWN_MEMBER_ID")[2].removeprefix(" after ")
    harness.manager.note_present(harness.now)
    assert harness.manager.present.fenced_after == after
    return re.sub(r",? and may have begun \d\.\d s before the member heard of it", "", after)


def test_a_member_that_took_too_long_to_poll_and_to_revoke_is_fenced_because_of_that(
    kind: Kind,
) -> None:
    harness = a_stable_member(kind, max_poll_interval=20.0)
    harness.begins_to_revoke()
    harness.is_waited_for(9.0)
    harness.poll()
    harness.release(a=7)
    harness.is_waited_for(2.0)
    harness.tell(RevocationCommitted(rebalance=harness.said(CommitBeforeRevocation).rebalance))
    callback = harness.said(RunRevokedCallback)
    harness.is_waited_for(11.0)
    harness.tell(CallbackFinished(rebalance=callback.rebalance, seconds=10.0))
    harness.tell(CallbackFinished(rebalance=callback.rebalance, seconds=10.0))  # it may be repeated

    assert fenced_because(harness).startswith(
        "the rebalance had waited 10.0 s for a poll, 2.0 s for the last commit, 10.0 s for"
        " on_partitions_revoked"
    )


def test_a_member_that_is_fenced_in_its_callback_says_how_long_that_has_taken(kind: Kind) -> None:
    harness = a_stable_member(kind, max_poll_interval=20.0, enable_auto_commit=False)
    harness.begins_to_revoke()
    harness.is_waited_for(9.0)
    harness.poll()
    harness.release(a=7)
    harness.is_waited_for(12.0)

    assert re.fullmatch(
        r"the rebalance had waited 9\.0 s for a poll, 1\d\.\d s for on_partitions_revoked to end"
        r" \(or a poll to begin it\) \(max_poll_interval_ms: it waits for 20\.0 s at most\)",
        fenced_because(harness),
    )


def test_a_member_that_was_done_in_time_is_fenced_for_another_reason(kind: Kind) -> None:
    """Its callback took long, but not too long."""
    harness = a_stable_member(kind, max_poll_interval=40.0, enable_auto_commit=False)
    harness.begins_to_revoke()
    harness.is_waited_for(9.0)
    harness.poll()
    harness.release(a=7)
    harness.is_waited_for(12.0)

    assert fenced_because(harness) == ""


def test_who_was_confirmed_since_the_cluster_was_replaced_is_fenced_for_another_reason(
    kind: Kind,
) -> None:
    harness = a_stable_member(kind)
    harness.tell(in_the_cluster("old"), in_the_cluster("new"))
    harness.confirm(harness.next_beat())

    harness.refuse(harness.next_beat(), UNKNOWN_MEMBER_ID)

    (lost,) = harness.traced("member.lost")
    assert lost["because"].endswith("UNKNOWN_MEMBER_ID")
