"""A member of a KIP-848 group and the world around it, in as few words as a test needs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    UnknownError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from kafka.structs import TopicPartition

from aktor.errors import InvalidRegularExpressionError
from aktor.events.coordinator import CoordinatorLost
from aktor.events.membership import LeaveGroup, Operation, SessionExtended, SubscriptionChanged
from aktor.events.metadata import Broker, Cluster, ClusterChanged, TopicsNamed
from aktor.events.network import Request
from aktor.managers.membership.auto import AutoMembershipManager
from aktor.managers.membership.consumer.manager import ConsumerMembershipManager, ProtocolChoice
from aktor.managers.membership.consumer.states import IN_GROUP, State
from aktor.protocol.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from aktor.settings import Settings
from aktor.trace import Trace
from aktor.values import replace
from tests.unit.managers.membership.builders import (
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_MAX_SIZE_REACHED,
    OK,
    MembershipHarness,
    a_cluster,
    partitions,
)

HEARTBEAT: Any = ConsumerGroupHeartbeatRequest

#: The ids of topics: in a test each has one.
IDS: Mapping[str, uuid.UUID] = {
    name: uuid.UUID(int=number) for number, name in enumerate(("a", "b", "c"), start=1)
}
NAMES = {number: name for name, number in IDS.items()}

#: The id of a topic that was created anew.
ANEW = uuid.UUID(int=77)

INVALID_REQUEST = 42
TOPIC_AUTHORIZATION_FAILED = 29
UNSUPPORTED_VERSION = 35
GROUP_ID_NOT_FOUND = 69
FENCED_MEMBER_EPOCH = 110
UNRELEASED_INSTANCE_ID = 111
UNSUPPORTED_ASSIGNOR = 112
INVALID_REGULAR_EXPRESSION = 128


def a_cluster_with_ids(**topics: int) -> Cluster:
    """Topics with so many partitions each, and their ids."""
    cluster = a_cluster(**topics)
    known = {name: replace(info, topic_id=IDS[name]) for name, info in cluster.topics.items()}
    return replace(cluster, topics=known)


def by_id(text: str) -> dict[uuid.UUID, list[int]]:
    """ "a-0 a-1" by topic id, as the coordinator names partitions."""
    found: dict[uuid.UUID, list[int]] = {}
    for topic, number in sorted(partitions(text)):
        found.setdefault(IDS[topic], []).append(number)
    return found


def heard(
    epoch: int = 1, target: str | None = None, *, interval: int = 5_000, anew: bool = False
) -> Any:
    """The coordinator's answer; `target` "a-0 a-1" is what is to be owned, None: as before.

    `anew`: in the topic that was created anew.
    """
    kind = ConsumerGroupHeartbeatResponse.Assignment
    assignment = None
    if target is not None:
        assignment = kind(
            topic_partitions=[
                kind.TopicPartitions(topic_id=ANEW if anew else topic, partitions=numbers)
                for topic, numbers in by_id(target).items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=OK, member_epoch=epoch, heartbeat_interval_ms=interval, assignment=assignment
    )


def refused(code: int, said: str | None = None) -> Any:
    """The coordinator's answer: no."""
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=said, member_epoch=0, heartbeat_interval_ms=0
    )


def tells(request: Request) -> frozenset[TopicPartition] | None:
    """What the heartbeat says is owned; None if it says nothing of it."""
    if request.body.topic_partitions is None:
        return None
    return frozenset(
        TopicPartition(NAMES[one.topic_id], number)
        for one in request.body.topic_partitions
        for number in one.partitions
    )


def row(request: Request) -> tuple[int, int, list[str] | None, str | None, Any]:
    """A heartbeat as a row of a table: epoch, timeout, names, regex, what is owned."""
    body = request.body
    return (
        body.member_epoch,
        body.rebalance_timeout_ms,
        body.subscribed_topic_names,
        body.subscribed_topic_regex,
        tells(request),
    )


def a_leave(
    deadline: float, ticket: int = 7, operation: Operation = Operation.DEFAULT
) -> LeaveGroup:
    """The application leaves."""
    return LeaveGroup(ticket=ticket, deadline=deadline, because="close", operation=operation)


class ConsumerHarness(MembershipHarness):
    """A member of a KIP-848 group; topics a (3 partitions) and b (1) are known."""

    def __init__(self, *, member_id: str = "m", **settings: Any) -> None:
        self.member_id = member_id
        super().__init__(**settings)
        self.see(a=3, b=1)
        self.forget()

    def make_manager(self, settings: Settings, incarnation: int, trace: Trace) -> Any:
        """The manager under test."""
        return ConsumerMembershipManager(
            settings, member_id=self.member_id, incarnation=incarnation, trace=trace
        )

    @property
    def state(self) -> State:
        """Where the member is."""
        state: State = self.manager.state
        return state

    # -- what happens to it

    def see(self, **topics: int) -> None:
        """The metadata manager has news."""
        self.tell(ClusterChanged(cluster=a_cluster_with_ids(**topics)))

    def name(self, *topics: str) -> None:
        """The metadata manager has found out what these are called."""
        self.tell(TopicsNamed(names={IDS[one]: one for one in topics}))

    def create_anew(self, topic: str) -> None:
        """Metadata has another topic of this name."""
        cluster = a_cluster_with_ids(a=3, b=1)
        info = replace(cluster.topics[topic], topic_id=ANEW)
        anew = replace(cluster, topics={**cluster.topics, topic: info})
        self.tell(ClusterChanged(cluster=anew))

    def subscribe_to(self, regex: str) -> None:
        """The application subscribes to a pattern that the brokers evaluate."""
        self.tell(SubscriptionChanged(topics=frozenset(), regex=regex))

    def leave(self, seconds: float = 10.0, **how: Any) -> None:
        """The application leaves, and has so much time."""
        self.tell(a_leave(self.now + seconds, **how))

    # -- heartbeats

    def beat(self) -> Request:
        """The heartbeat that was sent just now."""
        return self.sent(HEARTBEAT)

    @property
    def has_beaten(self) -> bool:
        """Whether there is a heartbeat that nobody looked at."""
        return self.has_sent(HEARTBEAT)

    def next_beat(self) -> Request:
        """Time passes until the next heartbeat."""
        while not self.has_beaten:
            assert self.wake_at > self.now, "it asks to be woken in the past: that spins"
            self.now = self.wake_at
            self.tick()
        return self.beat()

    def is_told(self, target: str | None = None, epoch: int = 1, **how: Any) -> Request:
        """The next heartbeat, answered at once."""
        request = self.next_beat()
        self.answer(request, heard(epoch, target, **how))
        return request

    def is_refused(self, code: int, said: str | None = None) -> Request:
        """The next heartbeat, refused at once."""
        request = self.next_beat()
        self.answer(request, refused(code, said))
        return request

    def is_quiet(self, epoch: int = 1) -> ConsumerHarness:
        """Heartbeats are answered until they come at the interval only; all that is forgotten."""
        until = self.now + 10.0
        while self.now < until:
            self.is_told(epoch=epoch)
            self.poll()
        self.forget()
        return self

    # -- longer stretches

    def is_reconciling(self, target: str = "a-0 a-1", epoch: int = 1) -> ConsumerHarness:
        """The group has taken the member in; the application has not applied anything yet."""
        self.wants_to_join(*sorted({one.topic for one in partitions(target)}) or ("a",))
        self.is_told(target, epoch)
        return self

    def is_acknowledging(self, target: str = "a-0 a-1", epoch: int = 1) -> ConsumerHarness:
        """The application has applied it, and a heartbeat that says so is in flight."""
        self.is_reconciling(target, epoch)
        self.apply()
        return self

    def is_stable(self, owned: str = "a-0 a-1", epoch: int = 1, **_: Any) -> ConsumerHarness:
        """A member that owns its target; everything until here is forgotten."""
        self.is_acknowledging(owned, epoch)
        self.is_told(epoch=epoch)
        self.forget()
        return self


class AutoHarness(ConsumerHarness):
    """A member that has yet to find out which protocol its group speaks."""

    def __init__(self, *, choice: ProtocolChoice | None = None, **settings: Any) -> None:
        self.choice = choice or ProtocolChoice()
        super().__init__(**settings)

    def make_manager(self, settings: Settings, incarnation: int, trace: Trace) -> Any:
        """The manager under test."""
        return AutoMembershipManager(
            settings,
            member_id=self.member_id,
            choice=self.choice,
            incarnation=incarnation,
            trace=trace,
        )


OTHER_COORDINATOR = Broker(node_id=2, host="kafka-2", port=9092)

LOST = CoordinatorLost(because="it is silent")


def a_member(**settings: Any) -> ConsumerHarness:
    return ConsumerHarness(**settings)


def a_static_member(**settings: Any) -> ConsumerHarness:
    return ConsumerHarness(group_instance_id="instance-1", **settings)


def a_stable_member(owned: str = "a-0 a-1", **settings: Any) -> ConsumerHarness:
    return ConsumerHarness(**settings).is_stable(owned)


def a_member_in(state: State) -> ConsumerHarness:
    """A member of a-0 and a-1 that is in this state, with nothing to be said."""
    harness = ConsumerHarness()
    if state is State.UNSUBSCRIBED:
        return harness
    if state is State.JOINING:
        harness.wants_to_join("a")
        return harness
    if state is State.FREEING_INSTANCE_ID:
        harness = a_static_member()
        harness.wants_to_join("a")
        harness.is_refused(UNRELEASED_INSTANCE_ID)
        assert harness.state is state
        return harness
    if state is State.RECONCILING:
        return harness.is_reconciling()
    if state is State.ACKNOWLEDGING:
        harness.is_reconciling()
        harness.next_beat()
        harness.apply()
        return harness
    harness.is_stable()
    if state is State.FENCED:
        harness.is_refused(FENCED_MEMBER_EPOCH)
    if state is State.STALE:
        misses_its_poll(harness)
    if state is State.LEAVING:
        harness.leave()
    if state is State.FATAL:
        harness.is_refused(GROUP_AUTHORIZATION_FAILED)
    assert harness.state is state
    return harness


def misses_its_poll(harness: ConsumerHarness) -> None:
    """The application does not poll for five minutes; heartbeats are answered."""
    while harness.state in IN_GROUP:
        harness.now = harness.wake_at
        harness.tick()
        if harness.state in IN_GROUP:
            harness.answer(harness.beat(), heard())
        harness.messages = [one for one in harness.messages if not isinstance(one, SessionExtended)]


FATAL = [
    (GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailedError, "READ on the group"),
    (INVALID_REQUEST, InvalidRequestError, "broker's log"),
    (GROUP_MAX_SIZE_REACHED, GroupMaxSizeReachedError, "group.consumer.max.size"),
    (UNSUPPORTED_ASSIGNOR, UnsupportedAssignorError, "group_remote_assignor"),
    (INVALID_REGULAR_EXPRESSION, InvalidRegularExpressionError, "RE2"),
    (FENCED_INSTANCE_ID, FencedInstanceIdError, "group_instance_id"),
    (UNSUPPORTED_VERSION, UnsupportedVersionError, "set group_protocol to 'classic'"),
    (-1, UnknownError, "broker's log"),
    (30_000, UnknownError, "broker's log"),
]
