"""kafka-python's internal attributes, of which tools and old programs read some.

An instance of ours is a `kafka.KafkaConsumer`, too: it has all of its methods. What kafka-python
keeps inside (`_client`, `_coordinator`, `_subscription`, ...) is here as views. They have no state
and decide nothing: what is read is looked up in the consumer at that moment, and to write raises an
AttributeError that says what to call instead. What is not here does not exist in aktor.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kafka.coordinator.base import Generation
from kafka.errors import IllegalStateError
from kafka.protocol.metadata import MetadataResponse
from kafka.structs import MemberState, OffsetAndMetadata, TopicPartition

from aktor.actors.network.metrics import IN_FLIGHT, LAST_HEARTBEAT, LAST_HEARTBEAT_ANSWER
from aktor.consumer import habits
from aktor.consumer.configuration import bootstrap
from aktor.consumer.core.partition import Partition
from aktor.events.metadata import Broker, Cluster
from aktor.events.metric import Metric
from aktor.managers.coordinator import NODE
from aktor.managers.membership.metrics import LAST as LAST_REBALANCE

__all__ = ["Internals"]

if TYPE_CHECKING:  # kafka-python is untyped: with its class as base, each misspelt name would pass
    _KafkaPython = object
else:
    from kafka.consumer.group import KafkaConsumer as _KafkaPython


class _Internal:
    """An attribute that can be read."""

    def __init__(self, read: Callable[[Any], Any], instead: str) -> None:
        self._read = read
        self._instead = instead
        self.__doc__ = f"kafka-python's, to be read only. {instead}."

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, consumer: Any, owner: type | None = None) -> Any:
        return self if consumer is None else self._read(consumer)

    def __set__(self, consumer: Any, value: object) -> None:
        raise AttributeError(f"{self._name} can only be read in aktor. {self._instead}")


class Internals(habits.Elsewhere, _KafkaPython):
    """What a consumer has of kafka-python's inside."""

    _closed = _Internal(lambda consumer: consumer._guard.ending, "Call close()")
    _client = _Internal(lambda consumer: ClientView(consumer), "Call the consumer's methods")
    _manager = _Internal(lambda consumer: ClientView(consumer), "Call the consumer's methods")
    _net = _Internal(lambda consumer: NetView(consumer), "Call the consumer's methods")
    _cluster = _Internal(lambda consumer: ClusterView(consumer), "Call look_up_topics()")
    _coordinator = _Internal(
        lambda consumer: CoordinatorView(consumer), "Call commit(), committed(), unsubscribe()"
    )
    _fetcher = _Internal(
        lambda consumer: FetcherView(consumer), "Call poll(), end_offsets(), offsets_for_times()"
    )
    _subscription = _Internal(
        lambda consumer: SubscriptionView(consumer),
        "Call subscribe(), assign(), seek(), pause(), resume()",
    )
    _metrics = _Internal(
        lambda consumer: None if consumer._measured is None else consumer._measured.registry,
        "Give the constructor metrics_enabled, metric_reporters",
    )
    _iterator = _Internal(
        lambda consumer: consumer if consumer._engine.iteration.has_records else None,
        "Call seek(): what was fetched for an iteration is dropped by itself",
    )
    _consumer_timeout = _Internal(
        lambda consumer: time.monotonic() + consumer.config["consumer_timeout_ms"] / 1000,
        "Set config['consumer_timeout_ms']: each call of next() counts from its beginning",
    )

    def _set_consumer_timeout(self) -> None:
        """Nothing: each call of `next` counts from its beginning."""

    def _message_generator_v2(self) -> Iterator[Any]:
        """The consumer's iterator."""
        return iter(self)  # type: ignore[call-overload, no-any-return]

    def _fetch_all_topic_metadata(self) -> None:
        """Ask a broker for all topics, as `topics` does."""
        self.topics()  # type: ignore[attr-defined]

    def _refresh_committed_offsets(self, timeout_ms: float | None = None) -> bool:
        """Whether each assigned partition has a position. They are looked up by themselves."""
        return SubscriptionView(self).has_all_fetch_positions()


class _View:
    """Something of kafka-python's inside, as it is now."""

    __slots__ = ("_consumer",)

    #: How kafka-python calls it, and what to use in place of what is not here.
    NAME: ClassVar[str]
    INSTEAD: ClassVar[str]

    def __init__(self, consumer: Any) -> None:
        object.__setattr__(self, "_consumer", consumer)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"aktor has no {self.NAME}.{name}. {self.INSTEAD}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self.NAME}.{name} can only be read in aktor. {self.INSTEAD}")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __repr__(self) -> str:
        return f"<{self.NAME} of {self._consumer!r}>"

    @property
    def config(self) -> Mapping[str, Any]:
        """The consumer's settings."""
        return MappingProxyType(self._consumer.config)


def _measured(consumer: Any, metric: Metric) -> float | None:
    """What the actors say of this metric now; None if the background does not answer."""
    for actor in consumer._actors():
        if metric in actor.counters:
            value: float = actor.counters[metric]
            return value
    return None


class ClusterView(_View):
    """`ClusterMetadata`: what the last Metadata said, of the topics that the consumer reads."""

    __slots__ = ()
    NAME = "_client.cluster"
    INSTEAD = "Call topics(), partitions_for_topic() or look_up_topics()"

    #: Nobody is told who the controller is: without ZooKeeper a broker names any broker in its
    #: Metadata, another one each time.
    controller: ClassVar[None] = None
    need_update: ClassVar[bool] = False

    @property
    def _seen(self) -> Cluster:
        cluster: Cluster = self._consumer._core.port.cluster
        return cluster

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None before the first answer."""
        return self._seen.cluster_id

    @property
    def _topics(self) -> set[str]:
        engine = self._consumer._engine
        topics: set[str] = engine.delivery.topics | engine.subscription.topics
        return topics

    def brokers(self) -> list[Any]:
        """All brokers, in kafka-python's class."""
        return [_broker(broker) for broker in self._seen.brokers.values()]

    def bootstrap_brokers(self) -> list[Any]:
        """The servers of `bootstrap_servers`, with kafka-python's names for them."""
        servers = bootstrap.addresses(self._consumer.config["bootstrap_servers"])
        return [
            MetadataResponse.MetadataResponseBroker(
                node_id=f"bootstrap-{number}", host=host, port=port, rack=None
            )
            for number, (host, port) in enumerate(servers)
        ]

    def is_bootstrap(self, node_id: Any) -> bool:
        """Whether it is the name of one of them."""
        return any(one.node_id == node_id for one in self.bootstrap_brokers())

    def broker_metadata(self, broker_id: int) -> Any:
        """One broker, or None."""
        found = self._seen.brokers.get(broker_id)
        return None if found is None else _broker(found)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The topics that are known."""
        return {
            name
            for name, topic in self._seen.topics.items()
            if not (exclude_internal_topics and topic.internal)
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic that is known, else None."""
        return self._seen.partitions_for_topic(topic)

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Those that have a leader."""
        known = self._seen.partitions_for_topic(topic)
        if known is None:
            return None
        return {one for one in known if self._seen.leader(topic, one) is not None}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """The leader's node id, -1 if there is none, None if the partition is not known."""
        topic = self._seen.topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return None if found is None else found.leader

    def leader_epoch_for_partition(self, partition: TopicPartition) -> int | None:
        """Its leader epoch, None if the partition is not known."""
        topic = self._seen.topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return None if found is None else found.leader_epoch

    def partitions_for_broker(self, broker_id: int) -> set[TopicPartition]:
        """The partitions that this broker leads."""
        return {
            TopicPartition(name, number)
            for name, topic in self._seen.topics.items()
            for number, partition in topic.partitions.items()
            if partition.leader == broker_id
        }

    def topic_id(self, topic_name: str) -> Any:
        """The topic's id, or None."""
        topic = self._seen.topics.get(topic_name)
        return None if topic is None else topic.topic_id

    def topic_name_for_id(self, topic_id: Any) -> str | None:
        """The name of the topic with this id, or None."""
        named = (name for name, one in self._seen.topics.items() if one.topic_id == topic_id)
        return next(named, None)

    def request_update(self) -> Any:
        """A future that is done: aktor asks for metadata when it needs to."""
        from kafka.future import Future

        return Future().success(self)


def _broker(broker: Broker) -> Any:
    return MetadataResponse.MetadataResponseBroker(
        node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
    )


class ClientView(_View):
    """`KafkaNetClient`: the connections."""

    __slots__ = ()
    NAME = "_client"
    INSTEAD = "Call the consumer's methods; status() and metrics() say how the connections are"

    @property
    def cluster(self) -> ClusterView:
        """The metadata."""
        return ClusterView(self._consumer)

    @property
    def _manager(self) -> ClientView:
        return self

    @property
    def bootstrapped(self) -> bool:
        """Whether a broker has described the cluster."""
        reached: bool = self._consumer.bootstrap_connected()
        return reached

    def bootstrap_connected(self) -> bool:
        """The same."""
        return self.bootstrapped

    @property
    def broker_version(self) -> tuple[int, ...] | None:
        """The version of the brokers, as far as their API versions tell."""
        version: tuple[int, ...] | None = self._consumer._broker_version()
        return version

    def get_broker_version(self, timeout_ms: float | None = None) -> tuple[int, ...] | None:
        """The same."""
        return self.broker_version

    def check_version(
        self, node_id: int | None = None, timeout_ms: float = 0
    ) -> tuple[int, ...] | None:
        """The same, of any broker."""
        return self.broker_version

    def connected(self, node_id: int) -> bool:
        """Whether this broker is known and has not been unreachable for long."""
        port = self._consumer._core.port
        return node_id in port.cluster.brokers and node_id not in port.connections.lost

    is_ready = connected

    def maybe_connect(self, node_id: int, **_: object) -> None:
        """Nothing: aktor connects when there is something to send."""

    def ready(self, node_id: int, **_: object) -> bool:
        """The same: aktor connects when there is something to send."""
        return self.connected(node_id)

    def is_disconnected(self, node_id: int) -> bool:
        """The opposite."""
        return not self.connected(node_id)

    def least_loaded_node(self, bootstrap_fallback: bool = False) -> int | None:
        """A broker that is not unreachable."""
        nodes = filter(self.connected, self._consumer._core.port.cluster.brokers)
        return next(iter(nodes), None)

    def in_flight_request_count(self, node_id: int | None = None) -> int:
        """How many requests are sent and not answered, to all brokers."""
        if node_id is not None:
            raise AttributeError(f"aktor has no count for one node. {self.INSTEAD}")
        return int(_measured(self._consumer, IN_FLIGHT) or 0)

    def poll(self, timeout_ms: float | None = None, future: Any = None) -> None:
        """Nothing: the background thread does all network work by itself."""

    def wakeup(self) -> None:
        """Nothing, as above. (To end a blocked poll, call the consumer's `wakeup`.)"""


class NetView(_View):
    """`NetworkSelector`: what does the network's work. Here that is the background thread."""

    __slots__ = ()
    NAME = "_net"
    INSTEAD = ClientView.INSTEAD

    def poll(self, timeout_ms: float | None = None, future: Any = None) -> None:
        """Nothing: the background thread does all network work by itself."""

    def wakeup(self) -> None:
        """Nothing, as above."""


class SubscriptionView(_View):
    """`SubscriptionState`: what is subscribed, assigned, paused, and the positions."""

    __slots__ = ()
    NAME = "_subscription"
    INSTEAD = "Call subscribe(), assign(), seek(), pause(), resume()"

    @property
    def _partitions(self) -> Mapping[TopicPartition, Partition]:
        partitions: Mapping[TopicPartition, Partition]
        partitions = self._consumer._engine.delivery.partitions
        return partitions

    @property
    def subscription(self) -> set[str] | None:
        """The topics, or None."""
        topics: frozenset[str] = self._consumer._engine.subscription.topics
        return set(topics) or None

    @property
    def subscribed_pattern(self) -> re.Pattern[str] | None:
        """The pattern, or None."""
        pattern = self._consumer._engine.subscription.pattern
        return None if pattern is None else pattern.pattern

    @property
    def rebalance_listener(self) -> Any:
        """The listener, or None."""
        return self._consumer._engine.rebalancing.listener

    listener = rebalance_listener

    @property
    def _user_assignment(self) -> set[TopicPartition]:
        by_user = self._consumer._engine.subscription.assigned_by_user
        return set(self._partitions) if by_user else set()

    @property
    def assignment(self) -> Mapping[TopicPartition, PartitionView]:
        """The assigned partitions and their states."""
        return MappingProxyType(
            {one: PartitionView(self._consumer, state) for one, state in self._partitions.items()}
        )

    def assigned_partitions(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._partitions)

    def partitions_auto_assigned(self) -> bool:
        """Whether topics or a pattern are subscribed."""
        return self.subscription is not None or self.subscribed_pattern is not None

    def group_subscription(self) -> set[str]:
        """The subscribed topics."""
        return self.subscription or set()

    def paused_partitions(self) -> set[TopicPartition]:
        """The paused partitions."""
        return {one for one, state in self._partitions.items() if state.paused}

    def fetchable_partitions(self) -> list[TopicPartition]:
        """Those that are read now."""
        return [one for one, state in self.assignment.items() if state.is_fetchable()]

    def all_consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions, of the partitions that have one."""
        positions = {one: state.position for one, state in self.assignment.items()}
        return {one: position for one, position in positions.items() if position is not None}

    def has_all_fetch_positions(self) -> bool:
        """Whether each partition has a position."""
        return all(state.has_valid_position for state in self.assignment.values())

    def missing_fetch_positions(self) -> set[TopicPartition]:
        """Those that have none."""
        return {one for one, state in self.assignment.items() if not state.has_valid_position}

    def has_valid_position(self, partition: TopicPartition) -> bool:
        """Whether it is assigned and has a position."""
        return self.is_assigned(partition) and self.assignment[partition].has_valid_position

    def position(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Its position. KeyError: it is not assigned."""
        return self.assignment[partition].position

    def is_assigned(self, partition: TopicPartition) -> bool:
        """Whether it is assigned."""
        return partition in self._partitions

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether it is assigned and paused."""
        return self.is_assigned(partition) and self._partitions[partition].paused

    def is_fetchable(self, partition: TopicPartition) -> bool:
        """Whether it is assigned and read now."""
        return self.is_assigned(partition) and self.assignment[partition].is_fetchable()


class PartitionView(_View):
    """`TopicPartitionState`: one assigned partition."""

    __slots__ = ("_state",)
    NAME = "_subscription.assignment[partition]"
    INSTEAD = "Call seek(), pause(), resume()"

    def __init__(self, consumer: Any, state: Partition) -> None:
        super().__init__(consumer)
        object.__setattr__(self, "_state", state)

    @property
    def position(self) -> OffsetAndMetadata | None:
        """The next record to be given out; None: it is not known yet."""
        offset = self._consumer._engine.iteration.offset_of(self._state)
        return None if offset is None else OffsetAndMetadata(offset, "", self._state.leader_epoch)

    @property
    def has_valid_position(self) -> bool:
        """Whether it is known."""
        return self.position is not None

    @property
    def awaiting_reset(self) -> bool:
        """Whether a reset is under way."""
        return self._state.reset is not None

    @property
    def highwater(self) -> int | None:
        """The offset after the last record, as the latest Fetch told it."""
        offset: int | None = self._state.high_watermark
        return offset

    @property
    def paused(self) -> bool:
        """Whether the user has paused it."""
        paused: bool = self._state.paused
        return paused

    def is_fetchable(self) -> bool:
        """Whether it is read now."""
        return self.has_valid_position and bool(self._state.open)


class HeartbeatView(_View):
    """`Heartbeat`: when heartbeats were sent and answered, by `time.monotonic`."""

    __slots__ = ()
    NAME = "_coordinator.heartbeat"
    INSTEAD = "metrics() has when the last heartbeat was; the background sends them by itself"

    @property
    def last_send(self) -> float:
        """When the last one was sent; -inf: none was."""
        return self._since(LAST_HEARTBEAT)

    @property
    def last_receive(self) -> float:
        """When the last one was answered; -inf: none was."""
        return self._since(LAST_HEARTBEAT_ANSWER)

    @property
    def last_poll(self) -> float:
        """When the background was last told that the application polls."""
        at: float = self._consumer._engine.poll_heartbeat.last_told_at
        return at

    @property
    def last_reset(self) -> float:
        """When the last rebalance was completed; -inf: none was."""
        ago = _measured(self._consumer, LAST_REBALANCE)
        return -math.inf if ago is None or ago < 0 else time.monotonic() - ago

    @property
    def heartbeat_failed(self) -> bool:
        """Whether the group has not confirmed the member within its session."""
        port = self._consumer._core.port
        in_group = port.membership.member.generation >= 0
        return bool(in_group and self._consumer._core.clock() > port.membership.session_until)

    def _since(self, metric: Metric) -> float:
        ago = _measured(self._consumer, metric)
        return -math.inf if ago is None else time.monotonic() - ago


#: Programs compare with `is`.
_STATES: Final[Mapping[str, str]] = {
    state: state for state in (MemberState.UNJOINED, MemberState.REBALANCING, MemberState.STABLE)
}


class CoordinatorView(_View):
    """`ConsumerCoordinator`: the member of the group, and the broker that coordinates it."""

    __slots__ = ()
    NAME = "_coordinator"
    INSTEAD = "Call commit(), committed(), group_metadata(), unsubscribe(), close()"

    @property
    def group_id(self) -> str | None:
        """The group."""
        group_id: str | None = self._consumer._settings.group_id
        return group_id

    @property
    def group_instance_id(self) -> str | None:
        """The static member's name."""
        name: str | None = self._consumer._settings.group_instance_id
        return name

    @property
    def coordinator_id(self) -> str | None:
        """The coordinator's node, as kafka-python names it; None: it is not known."""
        node = _measured(self._consumer, NODE)
        return None if node is None or node < 0 else f"coordinator-{int(node)}"

    def coordinator(self) -> str | None:
        """The same."""
        return self.coordinator_id

    def coordinator_unknown(self) -> bool:
        """Whether it is not known."""
        return self.coordinator_id is None

    def ensure_coordinator_ready(self, timeout_ms: float | None = None) -> bool:
        """Whether it is known now: the background looks it up by itself."""
        return not self.coordinator_unknown()

    @property
    def _generation(self) -> Generation:
        member = self._consumer._core.port.membership.member
        return Generation(member.generation, member.member_id, member.assignor)

    def generation(self) -> Generation | None:
        """The member's generation; None if its group is not stable."""
        return self._generation if self.stable() else None

    generation_if_stable = generation

    @property
    def state(self) -> str:
        """One of `kafka.structs.MemberState`."""
        return _STATES[self._consumer._core.port.membership.member.state.value]

    def stable(self) -> bool:
        """Whether the member has its assignment."""
        return self.state is MemberState.STABLE

    def rebalance_in_progress(self) -> bool:
        """Whether a rebalance is under way."""
        return self.state is MemberState.REBALANCING

    def need_rejoin(self) -> bool:
        """Whether the member has yet to join, or is joining."""
        subscribed: bool = self._consumer._engine.subscription.is_subscribed
        return subscribed and self.group_id is not None and not self.stable()

    rejoin_needed = property(need_rejoin)

    def group_metadata(self) -> Any:
        """As the consumer's method."""
        return self._consumer.group_metadata()

    @property
    def heartbeat(self) -> HeartbeatView:
        """When heartbeats were sent."""
        return HeartbeatView(self._consumer)

    def time_to_next_heartbeat(self) -> float:
        """Seconds; inf outside of a group."""
        if self.state is MemberState.UNJOINED:
            return math.inf
        interval: float = self._consumer._settings.heartbeat_interval
        heartbeat = self.heartbeat
        since = max(heartbeat.last_send, heartbeat.last_reset)
        return max(0.0, since + interval - time.monotonic())

    @property
    def _subscription(self) -> SubscriptionView:
        return SubscriptionView(self._consumer)

    @property
    def _client(self) -> ClientView:
        return ClientView(self._consumer)

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Whether the group is stable, or there is none: the background does the work of the group,
        and the consumer's `poll` takes part."""
        return not self.need_rejoin()

    def fetch_committed_offsets(
        self, partitions: Any, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """As the consumer's `committed`; partitions without a committed offset are left out."""
        found = self._consumer.committed(list(partitions), metadata=True, timeout_ms=timeout_ms)
        return {one: offset for one, offset in found.items() if offset is not None}

    def commit_offsets_sync(self, offsets: Any, timeout_ms: float | None = None) -> None:
        """As the consumer's `commit`."""
        if offsets:
            self._consumer.commit(offsets, timeout_ms=timeout_ms)

    def commit_offsets_async(self, offsets: Any, callback: Any = None) -> Any:
        """As the consumer's `commit_async`."""
        return self._consumer.commit_async(offsets, callback)

    def maybe_leave_group(self, reason: str | None = None, timeout_ms: float | None = None) -> None:
        """Refused: the consumer would not know that it has left."""
        raise IllegalStateError(
            "a member leaves its group by unsubscribe() or close(): these also end its assignment"
        )


class FetcherView(_View):
    """`Fetcher`: what is read."""

    __slots__ = ()
    NAME = "_fetcher"
    INSTEAD = "Call poll(), beginning_offsets(), end_offsets(), offsets_for_times()"

    @property
    def _subscriptions(self) -> SubscriptionView:
        return SubscriptionView(self._consumer)

    @property
    def _client(self) -> ClientView:
        return ClientView(self._consumer)

    def in_flight_fetches(self) -> bool:
        """Whether a request is sent and not answered."""
        return self._client.in_flight_request_count() > 0

    def beginning_offsets(self, partitions: Any, timeout_ms: float | None = None) -> Any:
        """As the consumer's method."""
        return self._consumer.beginning_offsets(partitions, timeout_ms)

    def end_offsets(self, partitions: Any, timeout_ms: float | None = None) -> Any:
        """As the consumer's method."""
        return self._consumer.end_offsets(partitions, timeout_ms)


#: The attributes of kafka-python's consumer that are views here.
NAMES: Final = tuple(
    name for name, value in vars(Internals).items() if isinstance(value, _Internal)
)
