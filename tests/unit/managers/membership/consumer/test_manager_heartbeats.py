"""The consumer protocol's membership manager: heartbeats, and how fast it is.

Scenarios are those of the Java client's `ConsumerMembershipManagerTest` and
`ConsumerHeartbeatRequestManagerTest`.
"""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError

from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    ConfirmSession,
    SessionExtended,
)
from aktor.managers.membership.consumer.manager import FIRST_INTERVAL
from aktor.managers.membership.consumer.states import State
from tests.unit.managers.membership.builders import COORDINATOR_LOADING, partitions
from tests.unit.managers.membership.consumer.builders import (
    LOST,
    OTHER_COORDINATOR,
    a_member,
    a_stable_member,
    heard,
    refused,
    row,
    tells,
)

# -- heartbeats


def test_the_interval_is_the_brokers() -> None:
    harness = a_stable_member()
    for _ in range(12):  # quick ones after a rebalance come first
        harness.is_told(interval=2_000)
    last = harness.now

    harness.next_beat()

    assert harness.now == pytest.approx(last + 2.0)


@pytest.mark.parametrize("said", [0, -1])
def test_an_interval_that_is_none_is_not_followed(said: int) -> None:
    """70 heartbeats a second would be sent."""
    harness = a_stable_member()
    for _ in range(12):
        harness.is_told(interval=said)
    last = harness.now

    harness.next_beat()

    assert harness.now == pytest.approx(last + FIRST_INTERVAL)


def test_an_acknowledgement_waits_for_the_heartbeat_in_flight_and_not_for_the_interval() -> None:
    harness = a_member().is_reconciling()
    in_flight = harness.next_beat()
    harness.apply()
    assert harness.state is State.ACKNOWLEDGING
    assert not harness.has_beaten

    harness.answer(in_flight, heard(1))

    assert tells(harness.beat()) == partitions("a-0 a-1")


def test_an_acknowledgement_that_failed_waits_for_the_backoff() -> None:
    harness = a_member().is_reconciling()
    in_flight = harness.next_beat()
    harness.apply()
    harness.answer(in_flight, refused(COORDINATOR_LOADING))
    assert not harness.has_beaten
    before = harness.now

    assert tells(harness.next_beat()) == partitions("a-0 a-1")

    assert harness.now == pytest.approx(before + 0.1)


@pytest.mark.parametrize(
    "failure", ["disconnect", "timeout", "loading", "coordinator lost", "coordinator moved"]
)
def test_after_any_failure_the_next_heartbeat_says_everything(failure: str) -> None:
    """Scenario 52."""
    harness = a_stable_member("a-0", client_rack="r1").is_quiet()
    request = harness.next_beat()

    if failure == "disconnect":
        harness.fail(request)
    elif failure == "timeout":
        harness.time_out(request)
    elif failure == "loading":
        harness.answer(request, refused(COORDINATOR_LOADING))
    elif failure == "coordinator lost":
        harness.tell(LOST)
        harness.find_coordinator()
    else:
        harness.find_coordinator(OTHER_COORDINATOR)

    again = harness.next_beat()
    assert row(again) == (1, 300_000, ["a"], None, partitions("a-0"))
    assert again.body.rack_id is None


def test_the_same_partitions_of_a_later_target_are_said_again() -> None:
    """Scenario 53: the coordinator waits to hear that this target is owned."""
    harness = a_stable_member("a-0").is_quiet()
    harness.is_told("a-0 a-1")
    harness.said(AssignPartitions)  # the application takes its time
    harness.is_told("a-0")
    harness.tell(CallbackFinished(rebalance=2, assigned=True))
    assert tells(harness.is_told()) == partitions("a-0 a-1")
    harness.revoke()
    harness.apply()

    assert tells(harness.next_beat()) == partitions("a-0")


def test_a_target_that_came_back_before_anything_was_done_is_settled_and_said() -> None:
    """Scenario 53: same partitions, but of a later target."""
    harness = a_stable_member("a-0").is_quiet()
    harness.is_told("a-0 c-0")
    assert harness.state is State.RECONCILING

    harness.is_told("a-0")

    assert harness.state is State.STABLE
    assert tells(harness.next_beat()) == partitions("a-0")


def test_each_answered_heartbeat_extends_the_session_from_when_it_was_asked() -> None:
    harness = a_member()
    harness.wants_to_join("a")
    asked_at = harness.now
    harness.now += 1.0

    harness.answer(harness.beat(), heard(1, "a-0", interval=3_000))

    assert harness.said(SessionExtended).until == asked_at + 27.0


def test_a_session_is_never_taken_to_be_longer_than_kafkas_default() -> None:
    harness = a_member()
    harness.wants_to_join("a")

    harness.answer(harness.beat(), heard(1, "a-0", interval=15_000))

    assert harness.said(SessionExtended).until == harness.now + 45.0


def test_a_refused_heartbeat_does_not_extend_the_session() -> None:
    harness = a_stable_member()

    harness.is_refused(COORDINATOR_LOADING)

    assert not harness.has_said(SessionExtended)


def test_there_is_no_second_heartbeat_while_one_is_in_flight() -> None:
    harness = a_stable_member().is_quiet()
    harness.next_beat()

    harness.tell(ConfirmSession())
    harness.subscribe("a", "b")
    harness.poll()

    assert not harness.has_beaten


def test_the_answer_to_a_heartbeat_that_was_given_up_is_dropped() -> None:
    harness = a_stable_member().is_quiet()
    request = harness.next_beat()
    harness.tell(LOST)

    harness.answer(request, heard(1, "b-0"))

    assert harness.state is State.STABLE
    assert harness.traced("answer.dropped")


# -- how fast


def test_after_a_new_target_the_coordinator_is_asked_soon_what_comes_next() -> None:
    """What others have to give up first comes with one of the next answers."""
    harness = a_stable_member().is_quiet()
    harness.is_told("a-0")
    told_at = harness.now

    harness.next_beat()

    assert harness.now - told_at < 0.05


def test_a_heartbeat_without_news_waits_for_the_interval() -> None:
    harness = a_stable_member().is_quiet()
    harness.is_told()
    told_at = harness.now

    harness.next_beat()

    assert harness.now - told_at == pytest.approx(5.0)


def test_a_failed_connection_is_traced_with_its_reason() -> None:
    harness = a_stable_member()

    harness.fail(harness.next_beat(), KafkaConnectionError("reset by peer"))

    assert "reset by peer" in str(harness.traced("heartbeat.failed")[0]["because"])


# -- until when the coordinator waits for partitions


def test_partitions_that_are_not_given_up_let_records_out_until_the_rebalance_timeout() -> None:
    """The coordinator fences a member that has not told it by then that it has given them up
    (GroupMetadataManager, scheduleConsumerGroupRebalanceTimeout); heartbeats show nothing before.
    """
    harness = a_stable_member("a-0 a-1", max_poll_interval=60.0).is_quiet()
    told_at = harness.is_told("a-0").context.at

    for _ in range(20):
        harness.poll()
        harness.is_told()

    assert harness.state is State.RECONCILING
    assert harness.now > told_at + 60.0
    assert harness.last_said(SessionExtended).until == told_at + 60.0


def test_the_coordinator_may_wait_since_a_heartbeat_whose_answer_is_lost() -> None:
    harness = a_stable_member("a-0 a-1", max_poll_interval=30.0).is_quiet()
    lost = harness.next_beat()
    harness.time_out(lost)
    harness.after(1.0)

    harness.is_told("a-0")

    assert harness.last_said(SessionExtended).until == lost.context.at + 30.0


def test_the_coordinator_waits_no_longer_when_it_has_heard_that_they_are_given_up() -> None:
    harness = a_stable_member("a-0 a-1", max_poll_interval=60.0).is_quiet()
    harness.is_told("a-0")
    for _ in range(5):
        harness.poll()
        harness.is_told()
    harness.revoke()
    harness.apply()

    request = harness.is_told()

    assert tells(request) == partitions("a-0")
    assert harness.last_said(SessionExtended).until == request.context.at + 45.0


def test_an_answer_that_was_under_way_says_nothing_of_what_is_given_up_meanwhile() -> None:
    harness = a_stable_member("a-0 a-1", max_poll_interval=20.0).is_quiet()
    told_at = harness.is_told("a-0").context.at
    for _ in range(5):
        harness.poll()
        harness.is_told()
    under_way = harness.next_beat()
    harness.revoke()
    harness.apply()

    harness.answer(under_way, heard())

    assert harness.last_said(SessionExtended).until == told_at + 20.0


def test_the_coordinator_waits_for_partitions_too_that_were_never_taken_on() -> None:
    """Found by a simulation (seed 97300010): the target grew and shrank while the application was
    busy. The coordinator waits until it hears that the member does not have them."""
    harness = a_stable_member("a-0", max_poll_interval=30.0).is_quiet()
    harness.is_told("a-0 a-1")
    harness.is_told("a-0 a-1 a-2")
    told_at = harness.is_told("a-0 a-1").context.at

    harness.is_told()
    assert harness.last_said(SessionExtended).until == told_at + 30.0

    harness.now += 1.0
    harness.apply()
    reported = harness.next_beat()
    assert tells(reported) == partitions("a-0 a-1")
    harness.answer(reported, heard())
    assert harness.last_said(SessionExtended).until == reported.context.at + 45.0


def test_the_coordinator_waits_for_what_it_gave_before_the_last_report_and_takes_back() -> None:
    """Found by a simulation (seed 220001024). The report is of the time before the partition is
    taken back: the coordinator waits for a later one."""
    harness = a_stable_member("a-0", max_poll_interval=30.0).is_quiet()
    harness.is_told("a-0 c-0")
    assert tells(harness.is_told()) == partitions("a-0"), "the name of topic c is awaited"
    told_at = harness.is_told("a-0").context.at

    assert harness.last_said(SessionExtended).until == told_at + 30.0

    while tells(reported := harness.is_told()) is None:
        assert harness.last_said(SessionExtended).until == told_at + 30.0
    assert harness.last_said(SessionExtended).until == reported.context.at + 45.0


def test_topics_whose_names_are_awaited_do_not_make_the_coordinator_wait() -> None:
    harness = a_stable_member("a-0 a-1", max_poll_interval=60.0).is_quiet()
    harness.is_told("a-0 a-1 c-0")

    for _ in range(20):
        harness.poll()
        last = harness.is_told()

    assert harness.last_said(SessionExtended).until == last.context.at + 45.0


def test_a_member_of_a_short_rebalance_timeout_is_believed_in_between_heartbeats() -> None:
    """The coordinator begins to wait when it reads a heartbeat, and at no other time."""
    harness = a_stable_member("a-0 a-1", max_poll_interval=6.0).is_quiet()

    request = harness.is_told()

    assert harness.last_said(SessionExtended).until == request.context.at + 45.0
