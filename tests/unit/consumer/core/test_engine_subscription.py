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
    NotingListener,
    Site,
    a_member,
    a_restart,
    an_assignment,
)
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


def test_subscribing_in_a_group_is_said_to_the_membership() -> None:
    site = Site(group_id="g")

    site.engine.subscribe(ORDERS, None)

    assert site.said == [
        TrackTopics(owner="application", topics=ORDERS),
        AssignmentChanged(partitions={}, by_group=True),
        SubscriptionChanged(topics=ORDERS),
    ]


def test_subscribing_without_a_group_is_to_own_all_partitions_and_those_that_come() -> None:
    site = Site(group_id=None)
    site.hear(ClusterChanged(cluster=a_cluster(1)))

    site.engine.subscribe(ORDERS, None)
    assert set(site.engine.delivery.partitions) == {A}

    site.hear(ClusterChanged(cluster=a_cluster(2)))
    site.poll()
    assert set(site.engine.delivery.partitions) == {A, B}
    assert not site.of(AssignmentChanged)[-1].by_group


OTHERS = frozenset({"others"})


def test_what_is_buffered_of_a_topic_that_is_left_out_is_dropped_and_not_fetched_any_more() -> None:
    site = a_member()
    site.fetched(a_chunk(count=10, epoch=1))
    site.poll(limit=4)
    site.forget()

    site.engine.subscribe(OTHERS, None)

    state = site.engine.delivery.partitions[A]
    assert (state.buffered_bytes, state.offset) == (0, 4)
    assert site.of(AssignmentChanged)[-1].partitions == {A: state.assigned}
    assert site.of(PausePartitions) == [PausePartitions(partitions=frozenset({A}))]
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=OTHERS)]
    site.fetched(a_chunk(count=10, epoch=state.epoch))
    assert site.poll() == {}


def test_a_topic_that_is_subscribed_again_is_fetched_from_its_position() -> None:
    site = a_member()
    site.fetched(a_chunk(count=10, epoch=1))
    site.poll(limit=4)
    site.engine.subscribe(OTHERS, None)
    site.forget()

    site.engine.subscribe(ORDERS, None)

    state = site.engine.delivery.partitions[A]
    assert site.of(PausePartitions) == [PausePartitions(resumed=frozenset({A}))]
    assert site.of(AssignmentChanged)[-1].partitions[A] == state.assigned
    site.fetched(a_chunk(A, 4, count=6, epoch=state.epoch))
    assert site.poll() == {A: [4, 5, 6, 7, 8, 9]}


def test_an_application_that_has_paused_a_partition_must_resume_it_itself() -> None:
    site = a_member()
    site.engine.pause([A], paused=True)
    site.engine.subscribe(OTHERS, None)
    site.forget()

    site.engine.pause([A], paused=False)  # not subscribed: nothing is fetched
    site.engine.pause([A], paused=True)
    site.engine.subscribe(ORDERS, None)

    assert all(not one.resumed for one in site.of(PausePartitions))
    assert not site.engine.delivery.partitions[A].fetchable


def test_partitions_that_are_assigned_for_the_subscription_of_before_give_out_nothing() -> None:
    site = Site(group_id="g")
    site.engine.subscribe(ORDERS, None)
    site.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=145.0),
        an_assignment(A),
    )
    site.engine.subscribe(OTHERS, None)

    site.poll()
    site.found(A)
    site.fetched(a_chunk(count=10, epoch=site.engine.delivery.partitions[A].epoch))

    assert site.poll() == {}
    assert site.of(PausePartitions)[-1].partitions == {A}


def test_a_subscribe_that_was_interrupted_gives_out_nothing_of_what_it_leaves_out() -> None:
    site = a_member()
    site.fetched(a_chunk(count=10, epoch=1))
    site.engine.subscription.replace(OTHERS, None, "")  # here the interrupt came

    site.engine.recovery.repair()

    site.fetched(a_chunk(count=10, epoch=site.engine.delivery.partitions[A].epoch))
    assert site.poll() == {}
    assert site.of(PausePartitions)[-1].partitions == {A}


def test_what_a_pattern_of_the_brokers_leaves_out_is_known_when_the_group_revokes_it() -> None:
    site = a_member(group_protocol="consumer")
    site.fetched(a_chunk(count=10, epoch=1))

    site.engine.subscribe(frozenset(), None, regex="others.*")

    assert len(site.poll()[A]) == 10


def a_cluster(partitions: int) -> Cluster:
    info = PartitionInfo(leader=1, leader_epoch=0)
    topic = TopicInfo(topic_id=None, partitions=dict.fromkeys(range(partitions), info))
    return Cluster(version=partitions, topics={"orders": topic})


def test_a_rebalance_gives_partitions_and_takes_them_in_polls() -> None:
    site = a_member()
    site.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        an_assignment(B, rebalance=3),
    )
    assert set(site.engine.delivery.partitions) == {A}

    site.poll()

    assert set(site.engine.delivery.partitions) == {B}
    assert [one.rebalance for one in site.of(CallbackFinished)] == [2, 3]


def test_unsubscribing_gives_the_partitions_back_leaves_and_owns_nothing() -> None:
    site = a_member()
    site.on_said = lambda message: (
        site.hear(Answered(ticket=message.ticket)) if isinstance(message, LeaveGroup) else None
    )

    site.unsubscribe(site.clock.now + 10)

    assert site.engine.delivery.partitions == {}
    assert site.engine.subscription.topics == frozenset()
    assert len(site.of(LeaveGroup)) == 1
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=frozenset())]
    assert site.said[-1] == AssignmentChanged(partitions={})


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
    site = a_member()
    if when == "before":
        site.hear(said)
    answers = {"before": (), "meanwhile": (said,)}[when]
    site.on_said = lambda message: (
        site.hear(*answers, Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    site.unsubscribe(site.clock.now + 10)

    assert site.poll() == {}


def test_a_static_member_that_has_unsubscribed_may_still_leave_for_good() -> None:
    """Until then it keeps its place in the group."""
    site = a_member(group_instance_id="i")
    site.on_said = lambda message: (
        site.hear(Answered(ticket=message.ticket)) if isinstance(message, LeaveGroup) else None
    )
    site.unsubscribe(site.clock.now + 10)

    site.leave(site.clock.now + 10, because="close", operation=Operation.LEAVE_GROUP)

    operations = [one.operation for one in site.of(LeaveGroup)]
    assert operations == [Operation.DEFAULT, Operation.LEAVE_GROUP]


@pytest.mark.parametrize(("asleep", "told"), [(40.0, "revoked"), (50.0, "lost")])
def test_who_leaves_after_the_session_has_run_out_is_told_lost(asleep: float, told: str) -> None:
    site = a_member(confirmed_until=145.0)
    site.engine.rebalancing.listener = listener = NotingListener()
    site.clock.now += asleep

    site.leave(site.clock.now + 1.0, because="the consumer was closed")

    assert listener.heard == [told]


def test_nothing_is_fetched_while_the_listener_hears_that_its_consumer_leaves() -> None:
    site = a_member()
    paused: list[bool] = []

    class Looking(NotingListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            paused.append(PausePartitions(partitions=frozenset(revoked)) in site.said)

    site.engine.rebalancing.listener = Looking()

    site.unsubscribe(site.clock.now + 10)

    assert paused == [True]


def test_what_the_group_says_until_it_hears_of_the_leaving_is_not_applied() -> None:
    site = a_member()
    site.on_said = lambda message: (
        site.hear(an_assignment(B, rebalance=2), Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    site.unsubscribe(site.clock.now + 10)
    site.poll()

    assert site.engine.delivery.partitions == {}


@pytest.mark.parametrize(
    ("interrupt", "raised"),
    [
        (lambda site: site.engine.call.wakeup(), WakeupError),
        (
            lambda site: site.hear(BootstrapFailed(error=BootstrapError(attempts={}))),
            BootstrapError,
        ),
    ],
    ids=["wakeup", "connection error"],
)
def test_what_interrupts_waits_until_the_group_has_heard_of_the_leaving(
    interrupt: Callable[[Site], None], raised: type[Exception]
) -> None:
    """Else steps of the membership that was left would be taken; and nobody would hear of it."""
    site = a_member()
    interrupt(site)
    site.on_said = lambda message: (
        site.hear_at(100.5, an_assignment(B, rebalance=2), Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    site.unsubscribe(site.clock.now + 10)
    site.engine.subscribe(ORDERS, None)

    with pytest.raises(raised):
        site.poll()
    assert site.poll(1.0) == {}
    assert site.engine.delivery.partitions == {}


def test_who_leaves_while_the_membership_is_restarted_leaves_under_the_id_it_had() -> None:
    """Else the group would keep its partitions for it until the session ends."""
    site = a_member()
    no_member = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)
    replies = [
        lambda message: (no_member, a_restart("membership")),
        lambda message: (Answered(ticket=message.ticket),),
    ]
    site.on_said = lambda message: (
        site.hear(*replies.pop(0)(message)) if isinstance(message, LeaveGroup) else None
    )

    site.leave(site.clock.now + 10.0, because="the consumer was closed")

    first, again = site.of(LeaveGroup)
    assert again.deadline == first.deadline == 110.0
    assert site.of(SubscriptionChanged)[0] == SubscriptionChanged(topics=ORDERS, member_id="m-1")
    assert site.clock.now == 100.0


def test_leaving_waits_for_commits_under_way_and_keeps_time_for_leaving() -> None:
    site = a_member()
    site.run(site.engine.commits.commit_async({}, lambda value, error: None))

    site.leave(site.clock.now + 10.0, because="the consumer was closed")

    (leave,) = site.of(LeaveGroup)
    assert leave.deadline == 110.0
    assert site.bell.waits[-2:] == [pytest.approx(7.5), pytest.approx(2.5 + ANSWER_GRACE)]
    assert site.clock.now == pytest.approx(110.0 + ANSWER_GRACE)


def test_the_time_that_is_kept_for_leaving_is_kept_once() -> None:
    """`close` waits for its last commit first, and has used the time of commits up by then."""
    site = a_member()
    site.run(site.engine.commits.commit_async({}, lambda value, error: None))
    deadline = site.clock.now + 2.5

    site.leave(deadline, because="the consumer was closed", commits_until=site.clock.now)

    assert site.bell.waits[-1] == pytest.approx(2.5 + ANSWER_GRACE)
