"""A cluster that nobody has reached, and a session that may have ended."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

from aktor.consumer.core.poll_heartbeat import CONFIRM_REPEAT, POLL_REPEAT
from aktor.consumer.core.questions import REPORT_WAIT
from aktor.errors import ActorCrashedError, AuthenticationError, BootstrapError
from aktor.events.answers import Answered
from aktor.events.fetching import PausePartitions
from aktor.events.lifecycle import ConsumerFailed
from aktor.events.membership import (
    ConfirmSession,
    Loss,
    MemberChanged,
    MemberState,
    PartitionsReleased,
    RevokePartitions,
    SessionExtended,
)
from aktor.events.metadata import Cluster, ClusterChanged, DescribeTopics
from aktor.events.network import BootstrapFailed, BrokerRefused, ReportBootstrap
from aktor.events.polling import Poll
from aktor.events.positions import AssignmentChanged, Position, SeekPartitions
from tests.unit.consumer.core.builders import EngineHarness, a_consumer, a_member, a_restart
from tests.unit.consumer.core.builders_chunks import A, B, C, a_chunk, a_refusal

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


# -- a cluster that nobody has reached


def unreached(came: object) -> EngineHarness:
    """Nobody has answered; `came` is what the network actor says came of the attempts."""
    harness = a_consumer()
    harness.port.cluster = Cluster()

    def answer(said: Any) -> None:
        if isinstance(said, ReportBootstrap):
            harness.hear(Answered(ticket=said.ticket, value=came))

    harness.on_said = answer
    return harness


def test_a_long_poll_does_not_end_with_nothing_if_no_broker_was_ever_reached() -> None:
    harness = unreached(BootstrapError(attempts={"b1:9092": "refused"}))

    for _ in range(2):
        with pytest.raises(BootstrapError, match="b1:9092: refused"):
            harness.poll(1.0)

    assert harness.clock.now == 102.0


def test_a_short_poll_gives_the_brokers_time_to_answer() -> None:
    harness = unreached(BootstrapError(attempts={"b1:9092": "no answer yet"}))

    assert harness.poll(0.5) == {}
    assert harness.of(ReportBootstrap) == []


def test_a_poll_ends_with_nothing_if_a_broker_was_reached_and_has_nothing_to_tell_yet() -> None:
    assert unreached(None).poll(1.0) == {}


def test_a_poll_ends_in_time_if_nobody_says_what_came_of_the_attempts() -> None:
    harness = a_consumer()
    harness.port.cluster = Cluster()

    assert harness.poll(1.0) == {}
    assert harness.clock.now < 100.0 + 1.0 + 2 * REPORT_WAIT


def test_a_poll_does_not_pass_over_the_error_that_is_told_while_it_asks_for_it() -> None:
    harness = a_consumer()
    harness.port.cluster = Cluster()
    failed = BootstrapFailed(error=BootstrapError(attempts={"b1:9092": "refused"}))
    harness.hear_at(101.05, failed)  # the question was asked at 101.0, and has no answer

    with pytest.raises(BootstrapError, match="b1:9092: refused"):
        harness.poll(1.0)


# -- the constructor waits for a broker

REFUSED = BootstrapError(attempts={"b1:9092": "refused"})


def reach(harness: EngineHarness, timeout: float) -> None:
    harness.run(harness.engine.questions.reach_cluster(harness.clock.now + timeout))


def test_the_wait_for_a_broker_ends_with_its_first_description_of_the_cluster() -> None:
    harness = unreached(REFUSED)
    harness.hear_at(103.0, ClusterChanged(cluster=Cluster(version=1)))

    reach(harness, 30.0)

    assert harness.clock.now == 103.0
    assert harness.of(ReportBootstrap) == []


def test_an_attempt_that_failed_does_not_end_the_wait_for_a_broker_that_starts() -> None:
    harness = unreached(REFUSED)
    for time in (102.0, 104.0):
        harness.hear_at(time, BootstrapFailed(error=REFUSED))
    harness.hear_at(105.0, ClusterChanged(cluster=Cluster(version=1)))

    reach(harness, 30.0)

    assert harness.poll() == {}


def test_the_wait_for_a_broker_ends_in_time_with_what_came_of_the_attempts() -> None:
    harness = unreached(REFUSED)
    harness.hear_at(102.0, BootstrapFailed(error=REFUSED))

    with pytest.raises(BootstrapError, match="b1:9092: refused") as raised:
        reach(harness, 30.0)

    assert harness.clock.now == 130.0
    assert isinstance(raised.value, KafkaTimeoutError)


def test_a_refused_login_ends_the_wait_for_a_broker_at_once() -> None:
    refused = AuthenticationError(broker="b1:9092", mechanism="PLAIN", reason="no such user")
    harness = unreached(None)
    harness.hear_at(100.5, BrokerRefused(error=refused))

    with pytest.raises(AuthenticationError, match="no such user"):
        reach(harness, 30.0)

    assert harness.clock.now == 100.5


def test_a_broker_that_answers_and_does_not_describe_the_cluster_ends_the_wait_in_time() -> None:
    harness = unreached(None)

    with pytest.raises(KafkaTimeoutError, match="no broker has described the cluster within 3 s"):
        reach(harness, 3.0)

    assert harness.clock.now == 103.0


def test_a_metadata_manager_that_is_restarted_in_the_wait_is_asked_for_a_broker() -> None:
    harness = unreached(REFUSED)

    def answer(said: Any) -> None:
        if isinstance(said, DescribeTopics):
            harness.hear_at(104.0, Answered(ticket=said.ticket, value={}))

    harness.on_said = answer
    harness.hear_at(103.0, a_restart("metadata"))

    reach(harness, 30.0)

    assert harness.clock.now == 104.0


def test_a_consumer_that_fails_ends_the_wait_for_a_broker() -> None:
    harness = unreached(REFUSED)
    failed = ActorCrashedError(actor="network", reason="a bug")
    harness.hear_at(101.0, ConsumerFailed(error=failed))

    with pytest.raises(ActorCrashedError):
        reach(harness, 30.0)


def test_a_member_that_is_not_stable_wakes_the_background_a_stable_one_does_not() -> None:
    harness = a_member()
    harness.clock.now += POLL_REPEAT
    harness.poll()
    assert harness.wakes == [False]

    harness.hear(MemberChanged(member_id="m-1", generation=-1, state=MemberState.REBALANCING))
    harness.clock.now += POLL_REPEAT
    harness.poll()
    harness.poll()

    assert harness.wakes == [False, True]


def test_a_new_assignment_is_followed_by_a_poll_that_wakes() -> None:
    harness = a_consumer()

    harness.assign([A, B])
    harness.poll()

    assert isinstance(harness.said[-1], Poll)
    assert harness.wakes[-1]


def test_an_assignment_with_offsets_is_told_with_its_positions() -> None:
    harness = a_consumer()

    harness.assign([A, B], {A: 7})

    [told] = [one for one in harness.said if isinstance(one, AssignmentChanged)][-1:]
    assert told.partitions[A].position == Position(offset=7)
    assert told.partitions[B].position is None
    assert not [one for one in harness.said if isinstance(one, SeekPartitions)]


def test_a_step_of_a_rebalance_is_followed_by_a_poll_that_wakes() -> None:
    harness = a_member()
    harness.hear(
        RevokePartitions(
            rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED, because="somebody joined"
        )
    )

    harness.poll()

    kinds = [type(one) for one in harness.said]
    assert kinds == [PartitionsReleased, PausePartitions, Poll]
    assert harness.wakes[-1]


def test_a_poll_that_waits_ends_with_records_as_soon_as_they_come() -> None:
    harness = a_consumer()
    harness.bell.at(103.0, lambda: harness.fetched(a_chunk(count=2)))

    assert harness.poll(10.0) == {A: [0, 1]}
    assert harness.clock.now == 103.0


def test_a_poll_that_waits_in_vain_ends_at_its_deadline() -> None:
    harness = a_consumer()

    assert harness.poll(10.0) == {}
    assert harness.clock.now == 110.0


def test_a_long_poll_keeps_telling_that_it_polls() -> None:
    harness = a_consumer(max_poll_interval=30.0)

    harness.poll(60.0)

    times = [100.0, *(one.now for one in harness.of(Poll))]
    assert all(after - before <= 10.0 for before, after in itertools.pairwise(times))
    assert times[-1] >= 150.0


# -- the session


def test_nothing_is_given_out_by_a_member_that_the_group_has_not_confirmed_lately() -> None:
    harness = a_member(confirmed_until=145.0)
    harness.fetched(a_chunk())
    harness.clock.now = 145.5

    assert harness.poll() == {}
    assert harness.of(ConfirmSession) == [ConfirmSession()]

    harness.hear(SessionExtended(until=190.0))
    assert harness.poll() == {A: [0, 1, 2]}


def test_the_session_is_asked_about_again_and_again_but_not_in_every_poll() -> None:
    harness = a_member(confirmed_until=145.0)
    harness.fetched(a_chunk())
    harness.clock.now = 146.0

    harness.poll()
    harness.poll()
    assert len(harness.of(ConfirmSession)) == 1

    harness.poll(2.5 * CONFIRM_REPEAT)
    assert len(harness.of(ConfirmSession)) == 3


def test_a_poll_that_waits_for_the_group_ends_with_the_records_when_it_answers() -> None:
    harness = a_member(confirmed_until=145.0)
    harness.fetched(a_chunk())
    harness.clock.now = 146.0
    harness.hear_at(146.05, SessionExtended(until=190.0))

    assert harness.poll(5.0) == {A: [0, 1, 2]}
    assert harness.clock.now == pytest.approx(146.05)


def test_a_session_is_not_asked_about_while_there_is_nothing_to_give_out() -> None:
    harness = a_member(confirmed_until=145.0)
    harness.clock.now = 146.0

    harness.poll(5.0)

    assert harness.of(ConfirmSession) == []


def test_the_session_is_asked_about_even_if_what_is_here_is_paused() -> None:
    harness = a_member(confirmed_until=145.0)
    harness.fetched(a_chunk())
    harness.engine.pause([A], paused=True)
    harness.clock.now = 146.0

    harness.poll()

    assert harness.of(ConfirmSession) == [ConfirmSession()]


def test_the_session_is_forgotten_about_when_what_waited_for_it_is_gone() -> None:
    harness = a_member(confirmed_until=145.0)
    harness.fetched(a_chunk())
    harness.clock.now = 146.0
    harness.poll()
    harness.engine.seek(A, Position(offset=40))
    harness.bell.waits.clear()

    assert harness.poll(20.0) == {}

    assert len(harness.of(ConfirmSession)) == 1
    assert len(harness.bell.waits) < 5


def test_an_error_of_a_partition_is_not_raised_by_a_member_that_is_not_confirmed() -> None:
    harness = a_member(confirmed_until=145.0)
    harness.fetched(a_refusal(TopicAuthorizationFailedError()))
    harness.clock.now = 146.0

    assert harness.poll() == {}

    harness.hear(SessionExtended(until=190.0))
    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()


def test_who_is_in_no_group_needs_no_session() -> None:
    harness = a_consumer(group_id="only to commit")
    harness.fetched(a_chunk())

    assert harness.poll() == {A: [0, 1, 2]}


def test_a_refused_topic_is_raised_once_for_all_its_partitions() -> None:
    harness = a_consumer(A, B, C)
    harness.fetched(
        a_refusal(TopicAuthorizationFailedError("orders")),
        a_refusal(TopicAuthorizationFailedError("orders"), partition=B, epoch=2),
        a_refusal(TopicAuthorizationFailedError("others"), partition=C, epoch=3),
    )

    for refused in ("orders", "others"):
        with pytest.raises(TopicAuthorizationFailedError, match=refused):
            harness.poll()

    assert harness.poll() == {}
