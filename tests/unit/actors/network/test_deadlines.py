"""Rules of the network actor: how many requests a broker is given, and how long they may take."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from aktor.events.network import (
    ResponseReceived,
)
from tests.unit.actors.network.builders import (
    ANY,
    NetworkHarness,
    a_cluster,
    a_request,
    answered,
    connected,
)

# -- limits


def test_at_most_max_in_flight_requests_are_sent_before_an_answer() -> None:
    harness = connected(max_in_flight=2).send(*(a_request(1) for _ in range(4)))
    assert len(harness.net.sends) == 2

    harness.answer(0)

    assert len(harness.net.sends) == 3


def test_a_broker_that_throttles_is_left_alone_for_that_long() -> None:
    """KIP-219."""
    harness = connected().send(a_request(1))
    harness.tell(answered(*harness.net.sends[0][:2], throttle=0.4))

    harness.send(a_request(1))
    assert len(harness.net.sends) == 1
    harness.sleep()

    assert harness.time.now == pytest.approx(0.4)
    assert len(harness.net.sends) == 2


# -- deadlines


def test_a_request_that_was_never_sent_times_out_at_its_deadline() -> None:
    harness = NetworkHarness().tell(a_cluster(a=1)).send(a_request(1, deadline=5.0))
    assert harness.wake_at == 5.0

    harness.sleep()

    (failed,) = harness.said
    assert isinstance(failed.error, KafkaTimeoutError)
    assert "a:9092" in str(failed.error)


def test_a_request_for_anybody_times_out_naming_the_last_failure() -> None:
    harness = NetworkHarness().send(a_request(ANY, deadline=0.01)).refuse()

    harness.at(0.01)

    assert isinstance(harness.said[0].error, KafkaTimeoutError)
    assert "Connection refused" in str(harness.said[0].error)


def test_a_broker_that_does_not_answer_in_time_is_hung_up_on() -> None:
    harness = connected()
    late, other, queued = a_request(1, deadline=5.0), a_request(1), a_request(1)
    harness.send(late, other)
    key = harness.last_key

    harness.at(5.0)

    assert harness.net.closes == [key]
    errors = {one.request.context: one.error for one in harness.said}
    assert isinstance(errors[late.context], KafkaTimeoutError)
    assert isinstance(errors[other.context], KafkaConnectionError)
    assert "disconnected" in str(errors[other.context])
    harness.send(queued)
    assert len(harness.net.connects) == 1, "it was not even given the backoff"
    harness.sleep()
    assert len(harness.net.connects) == 2


def test_a_broker_that_does_not_answer_fails_since_it_was_asked() -> None:
    """That it is tried again from then on counts from the first attempt."""
    harness = connected().at(2.0).send(a_request(1, deadline=5.0))

    harness.at(5.0)

    assert harness.actor.present.brokers[1].failing_since == 2.0
    (link,) = (link for link in harness.actor._lanes.all() if link.node == 1)
    assert link.attempts.failing_since == 5.0


def test_an_answer_that_is_still_arriving_at_its_deadline_is_waited_for() -> None:
    harness = connected(request_timeout=30.0).send(a_request(1, deadline=5.0))
    harness.net.arriving = {harness.last_key}

    harness.at(5.0).sleep().answer()

    assert harness.net.closes == []
    assert len(harness.of(ResponseReceived)) == 1


def test_an_answer_that_stopped_arriving_is_given_up_at_the_next_look() -> None:
    harness = connected(request_timeout=30.0).send(a_request(1, deadline=5.0))
    harness.net.arriving = {harness.last_key}
    harness.at(5.0)
    harness.net.arriving = set()

    harness.sleep()

    assert len(harness.net.closes) == 1
    assert isinstance(harness.said[0].error, KafkaTimeoutError)


def test_an_answer_that_arrives_for_ever_is_given_up_after_the_request_timeout() -> None:
    harness = connected(request_timeout=10.0).send(a_request(1, deadline=5.0))
    harness.net.arriving = {harness.last_key}

    for _ in range(5):
        harness.sleep()
    assert harness.net.closes == []
    harness.sleep()

    assert harness.time.now == 10.0
    assert len(harness.net.closes) == 1


def test_the_request_timeout_is_not_exceeded_by_the_look_at_an_answer_that_arrives() -> None:
    harness = connected(request_timeout=10.0).send(a_request(1, deadline=5.5))
    harness.net.arriving = {harness.last_key}

    while not harness.net.closes:
        harness.sleep()

    assert harness.time.now == 10.0


def test_a_late_answer_is_dropped_and_traced() -> None:
    harness = connected().send(a_request(1, deadline=5.0)).at(5.0)
    harness.said.clear()

    harness.answer()

    assert harness.said == []
    assert len(harness.traced("answer.dropped")) == 1
