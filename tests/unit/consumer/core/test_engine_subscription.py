"""Subscriptions, and assignments by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from aktor.consumer.core.questions import ANSWER_GRACE
from aktor.errors import BootstrapError, WakeupError
from aktor.events.answers import Answered
from aktor.events.fetching import PausePartitions
from aktor.events.membership import (
    CallbackFinished,
    GroupFailed,
    LeaveGroup,
    Loss,
    MemberChanged,
    MemberState,
    Operation,
    RunRevokedCallback,
    SessionExtended,
    SubscriptionChanged,
)
from aktor.events.metadata import (
    Cluster,
    ClusterChanged,
    PartitionInfo,
    TopicInfo,
    TopicsRefused,
    TrackTopics,
)
from aktor.events.network import BootstrapFailed
from aktor.events.positions import AssignmentChanged
from tests.unit.consumer.core.builders import (
    ORDERS,
    EngineHarness,
    NotingListener,
    a_member,
    a_restart,
    an_assignment,
)
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


def test_subscribing_in_a_group_is_said_to_the_membership() -> None:
    harness = EngineHarness(group_id="g")

    harness.run(harness.engine.subscribe(ORDERS, None))

    assert harness.said == [
        TrackTopics(owner="application", topics=ORDERS),
        AssignmentChanged(partitions={}, by_group=True),
        SubscriptionChanged(topics=ORDERS),
    ]


def test_subscribing_without_a_group_is_to_own_all_partitions_and_those_that_come() -> None:
    harness = EngineHarness(group_id=None)
    harness.hear(ClusterChanged(cluster=a_cluster(1)))

    harness.run(harness.engine.subscribe(ORDERS, None))
    assert set(harness.engine.delivery.partitions) == {A}

    harness.hear(ClusterChanged(cluster=a_cluster(2)))
    harness.poll()
    assert set(harness.engine.delivery.partitions) == {A, B}
    assert not harness.of(AssignmentChanged)[-1].by_group


OTHERS = frozenset({"others"})


def test_what_is_buffered_of_a_topic_that_is_left_out_is_dropped_and_not_fetched_any_more() -> None:
    harness = a_member()
    harness.fetched(a_chunk(count=10, epoch=1))
    harness.poll(limit=4)
    harness.forget()

    harness.run(harness.engine.subscribe(OTHERS, None))

    state = harness.engine.delivery.partitions[A]
    assert (state.buffered_bytes, state.offset) == (0, 4)
    assert harness.of(AssignmentChanged)[-1].partitions == {A: state.assigned}
    assert harness.of(PausePartitions) == [PausePartitions(partitions=frozenset({A}))]
    assert harness.of(SubscriptionChanged) == [SubscriptionChanged(topics=OTHERS)]
    harness.fetched(a_chunk(count=10, epoch=state.epoch))
    assert harness.poll() == {}


def test_a_topic_that_is_subscribed_again_is_fetched_from_its_position() -> None:
    harness = a_member()
    harness.fetched(a_chunk(count=10, epoch=1))
    harness.poll(limit=4)
    harness.run(harness.engine.subscribe(OTHERS, None))
    harness.forget()

    harness.run(harness.engine.subscribe(ORDERS, None))

    state = harness.engine.delivery.partitions[A]
    assert harness.of(PausePartitions) == [PausePartitions(resumed=frozenset({A}))]
    assert harness.of(AssignmentChanged)[-1].partitions[A] == state.assigned
    harness.fetched(a_chunk(A, 4, count=6, epoch=state.epoch))
    assert harness.poll() == {A: [4, 5, 6, 7, 8, 9]}


def test_an_application_that_has_paused_a_partition_must_resume_it_itself() -> None:
    harness = a_member()
    harness.engine.pause([A], paused=True)
    harness.run(harness.engine.subscribe(OTHERS, None))
    harness.forget()

    harness.engine.pause([A], paused=False)  # not subscribed: nothing is fetched
    harness.engine.pause([A], paused=True)
    harness.run(harness.engine.subscribe(ORDERS, None))

    assert all(not one.resumed for one in harness.of(PausePartitions))
    assert not harness.engine.delivery.partitions[A].fetchable


def test_partitions_that_are_assigned_for_the_subscription_of_before_give_out_nothing() -> None:
    harness = EngineHarness(group_id="g")
    harness.run(harness.engine.subscribe(ORDERS, None))
    harness.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=145.0),
        an_assignment(A),
    )
    harness.run(harness.engine.subscribe(OTHERS, None))

    harness.poll()
    harness.found(A)
    harness.fetched(a_chunk(count=10, epoch=harness.engine.delivery.partitions[A].epoch))

    assert harness.poll() == {}
    assert harness.of(PausePartitions)[-1].partitions == {A}


def test_a_subscribe_that_was_interrupted_gives_out_nothing_of_what_it_leaves_out() -> None:
    harness = a_member()
    harness.fetched(a_chunk(count=10, epoch=1))
    harness.engine.subscription.replace(OTHERS, None, "")  # here the interrupt came

    harness.engine.recovery.repair()

    harness.fetched(a_chunk(count=10, epoch=harness.engine.delivery.partitions[A].epoch))
    assert harness.poll() == {}
    assert harness.of(PausePartitions)[-1].partitions == {A}


def test_what_a_pattern_of_the_brokers_leaves_out_is_known_when_the_group_revokes_it() -> None:
    harness = a_member(group_protocol="consumer")
    harness.fetched(a_chunk(count=10, epoch=1))

    harness.run(harness.engine.subscribe(frozenset(), None, regex="others.*"))

    assert len(harness.poll()[A]) == 10


def a_cluster(partitions: int) -> Cluster:
    info = PartitionInfo(leader=1, leader_epoch=0)
    topic = TopicInfo(topic_id=None, partitions=dict.fromkeys(range(partitions), info))
    return Cluster(version=partitions, topics={"orders": topic})


def test_a_rebalance_gives_partitions_and_takes_them_in_polls() -> None:
    harness = a_member()
    harness.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        an_assignment(B, rebalance=3),
    )
    assert set(harness.engine.delivery.partitions) == {A}

    harness.poll()

    assert set(harness.engine.delivery.partitions) == {B}
    assert [one.rebalance for one in harness.of(CallbackFinished)] == [2, 3]


def test_unsubscribing_gives_the_partitions_back_leaves_and_owns_nothing() -> None:
    harness = a_member()
    harness.on_said = lambda message: (
        harness.hear(Answered(ticket=message.ticket)) if isinstance(message, LeaveGroup) else None
    )

    harness.unsubscribe(harness.clock.now + 10)

    assert harness.engine.delivery.partitions == {}
    assert harness.engine.subscription.topics == frozenset()
    assert len(harness.of(LeaveGroup)) == 1
    assert harness.of(SubscriptionChanged) == [SubscriptionChanged(topics=frozenset())]
    assert harness.said[-1] == AssignmentChanged(partitions={})


@pytest.mark.parametrize(
    "said",
    [
        TopicsRefused(topics=ORDERS, error=TopicAuthorizationFailedError()),
        GroupFailed(error=GroupAuthorizationFailedError()),
    ],
    ids=lambda said: type(said).__name__,
)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_who_has_unsubscribed_is_not_told_what_the_group_or_its_topics_refused(
    said: Any, when: str
) -> None:
    harness = a_member()
    if when == "before":
        harness.hear(said)
    answers = {"before": (), "meanwhile": (said,)}[when]
    harness.on_said = lambda message: (
        harness.hear(*answers, Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    harness.unsubscribe(harness.clock.now + 10)

    assert harness.poll() == {}


def test_a_static_member_that_has_unsubscribed_may_still_leave_for_good() -> None:
    """Until then it keeps its place in the group."""
    harness = a_member(group_instance_id="i")
    harness.on_said = lambda message: (
        harness.hear(Answered(ticket=message.ticket)) if isinstance(message, LeaveGroup) else None
    )
    harness.unsubscribe(harness.clock.now + 10)

    harness.leave(harness.clock.now + 10, because="close", operation=Operation.LEAVE_GROUP)

    operations = [one.operation for one in harness.of(LeaveGroup)]
    assert operations == [Operation.DEFAULT, Operation.LEAVE_GROUP]


@pytest.mark.parametrize(("asleep", "told"), [(40.0, "revoked"), (50.0, "lost")])
def test_who_leaves_after_the_session_has_run_out_is_told_lost(asleep: float, told: str) -> None:
    harness = a_member(confirmed_until=145.0)
    harness.engine.rebalancing.listener = listener = NotingListener()
    harness.clock.now += asleep

    harness.leave(harness.clock.now + 1.0, because="the consumer was closed")

    assert listener.heard == [told]


def test_nothing_is_fetched_while_the_listener_hears_that_its_consumer_leaves() -> None:
    harness = a_member()
    paused: list[bool] = []

    class Looking(NotingListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            paused.append(PausePartitions(partitions=frozenset(revoked)) in harness.said)

    harness.engine.rebalancing.listener = Looking()

    harness.unsubscribe(harness.clock.now + 10)

    assert paused == [True]


def test_what_the_group_says_until_it_hears_of_the_leaving_is_not_applied() -> None:
    harness = a_member()
    harness.on_said = lambda message: (
        harness.hear(an_assignment(B, rebalance=2), Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    harness.unsubscribe(harness.clock.now + 10)
    harness.poll()

    assert harness.engine.delivery.partitions == {}


@pytest.mark.parametrize(
    ("interrupt", "raised"),
    [
        (lambda harness: harness.engine.call.wakeup(), WakeupError),
        (
            lambda harness: harness.hear(BootstrapFailed(error=BootstrapError(attempts={}))),
            BootstrapError,
        ),
    ],
    ids=["wakeup", "connection error"],
)
def test_what_interrupts_waits_until_the_group_has_heard_of_the_leaving(
    interrupt: Callable[[EngineHarness], None], raised: type[Exception]
) -> None:
    """Else steps of the membership that was left would be taken; and nobody would hear of it."""
    harness = a_member()
    interrupt(harness)
    harness.on_said = lambda message: (
        harness.hear_at(100.5, an_assignment(B, rebalance=2), Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    harness.unsubscribe(harness.clock.now + 10)
    harness.run(harness.engine.subscribe(ORDERS, None))

    with pytest.raises(raised):
        harness.poll()
    assert harness.poll(1.0) == {}
    assert harness.engine.delivery.partitions == {}


def test_who_leaves_while_the_membership_is_restarted_leaves_under_the_id_it_had() -> None:
    """Else the group would keep its partitions for it until the session ends."""
    harness = a_member()
    no_member = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)
    replies = [
        lambda message: (no_member, a_restart("membership")),
        lambda message: (Answered(ticket=message.ticket),),
    ]
    harness.on_said = lambda message: (
        harness.hear(*replies.pop(0)(message)) if isinstance(message, LeaveGroup) else None
    )

    harness.leave(harness.clock.now + 10.0, because="the consumer was closed")

    first, again = harness.of(LeaveGroup)
    assert again.deadline == first.deadline == 110.0
    assert harness.of(SubscriptionChanged)[0] == SubscriptionChanged(topics=ORDERS, member_id="m-1")
    assert harness.clock.now == 100.0


def test_leaving_waits_for_commits_under_way_and_keeps_time_for_leaving() -> None:
    harness = a_member()
    harness.run(harness.engine.commits.commit_async({}, lambda value, error: None))

    harness.leave(harness.clock.now + 10.0, because="the consumer was closed")

    (leave,) = harness.of(LeaveGroup)
    assert leave.deadline == 110.0
    assert harness.bell.waits[-2:] == [pytest.approx(7.5), pytest.approx(2.5 + ANSWER_GRACE)]
    assert harness.clock.now == pytest.approx(110.0 + ANSWER_GRACE)


def test_the_time_that_is_kept_for_leaving_is_kept_once() -> None:
    """`close` waits for its last commit first, and has used the time of commits up by then."""
    harness = a_member()
    harness.run(harness.engine.commits.commit_async({}, lambda value, error: None))
    deadline = harness.clock.now + 2.5

    harness.leave(deadline, because="the consumer was closed", commits_until=harness.clock.now)

    assert harness.bell.waits[-1] == pytest.approx(2.5 + ANSWER_GRACE)


def test_whoever_leaves_lets_go_of_its_partitions_and_the_group_takes_none_away() -> None:
    harness = a_member()
    harness.leave(harness.clock.now + 10.0, because="the consumer was closed")
    left = harness.of(AssignmentChanged)[0]

    other = a_member()
    other.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))
    other.poll()
    revoked = other.of(AssignmentChanged)[0]

    assert (left.partitions, left.let_go) == ({}, True)
    assert (revoked.partitions, revoked.let_go) == ({}, False)
