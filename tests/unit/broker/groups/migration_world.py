"""Clients of both protocols in one group, which do what they are told and own what they may."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from aktor.broker.codes import Code
from aktor.protocol.consumer_group import ConsumerGroupHeartbeatRequest
from tests.unit.broker.groups.coordinator_world import CoordinatorWorld
from tests.unit.broker.harness import Asked

GROUP = "g"

#: What a client owns: (topic, partition).
Owned = set[tuple[str, int]]

_Protocol = JoinGroupRequest.JoinGroupRequestProtocol
_Assigned = SyncGroupRequest.SyncGroupRequestAssignment
_Partitions = ConsumerGroupHeartbeatRequest.TopicPartitions


class Classic:
    """A client of the classic protocol, stepwise: it sends one request, or waits for its answer.

    `cooperative` ones keep what they own over a rebalance until they are told otherwise (KIP-429).
    """

    def __init__(
        self,
        world: CoordinatorWorld,
        *,
        cooperative: bool = False,
        instance: str | None = None,
        topics: tuple[str, ...] = ("orders",),
        session: float = 10.0,
        rebalance: float = 60.0,
    ) -> None:
        self.world = world
        self.cooperative = cooperative
        self.instance = instance
        self.topics = topics
        self.session = session
        self.rebalance = rebalance
        self.member_id = ""
        self.generation = -1
        self.owned: Owned = set()
        self.joining: Asked | None = None
        self.syncing: Asked | None = None
        self.rejoins = True

    # Single requests.

    def join(self) -> Asked:
        metadata = ConsumerProtocolSubscription(
            version=3,
            topics=list(self.topics),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in by_topic(self.owned).items()
            ],
            generation_id=self.generation,
        ).encode()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(self.session * 1000),
            rebalance_timeout_ms=int(self.rebalance * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[_Protocol(name="range", metadata=metadata)],
        )
        return self.world.send(self.world.coordinator.handle_join_group, request, 9)

    def sync(self, given: dict[str, Owned] | None = None) -> Asked:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                _Assigned(member_id=member_id, assignment=assignment(owned))
                for member_id, owned in (given or {}).items()
            ],
        )
        return self.world.send(self.world.coordinator.handle_sync_group, request, 5)

    def beat(self) -> Code:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return self.world.send(self.world.coordinator.handle_heartbeat, request, 4).code

    def leave(self) -> None:
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance
        )
        request = LeaveGroupRequest(group_id=GROUP, members=[identity])
        self.world.send(self.world.coordinator.handle_leave_group, request, 5)
        self._lose(forget_id=True)

    # As a client does it.

    def step(self) -> None:
        """The next thing to do, if it need not wait."""
        if self.joining is not None:
            if not self.joining.waits:
                answer, self.joining = self.joining.answer, None
                self._joined(answer)
        elif self.syncing is not None:
            if not self.syncing.waits:
                answer, self.syncing = self.syncing.answer, None
                self._synced(answer)
        elif self.rejoins:
            if not self.cooperative:
                self.owned = set()
            self.rejoins = False
            self.joining = self.join()
        else:
            self._refused(self.beat())

    def _joined(self, answer: Any) -> None:
        self.member_id = answer.member_id or self.member_id
        if answer.error_code != Code.NONE:
            self._refused(Code(answer.error_code))
            return
        self.generation = answer.generation_id
        leads = answer.leader == self.member_id
        self.syncing = self.sync(self._assign(answer.members) if leads else None)

    def _assign(self, members: list[Any]) -> dict[str, Owned]:
        """In turn; a partition that another still owns is given to nobody, it will come free."""
        said = {m.member_id: ConsumerProtocolSubscription.decode(m.metadata) for m in members}
        owner = {
            (one.topic, partition): member_id
            for member_id, subscription in said.items()
            for one in subscription.owned_partitions
            for partition in one.partitions
        }
        given: dict[str, Owned] = {member_id: set() for member_id in said}
        for topic in sorted({topic for each in said.values() for topic in each.topics}):
            wanting = sorted(m for m, each in said.items() if topic in each.topics)
            for partition in range(self.world.topics.partitions(topic)):
                member_id = wanting[partition % len(wanting)]
                if owner.get((topic, partition), member_id) == member_id:
                    given[member_id].add((topic, partition))
        return given

    def _synced(self, answer: Any) -> None:
        if answer.error_code != Code.NONE:
            self._refused(Code(answer.error_code))
            return
        before, self.owned = self.owned, read(answer.assignment)
        # What it gave up others can have as soon as it says so.
        self.rejoins = bool(before - self.owned)

    def _refused(self, code: Code) -> None:
        if code in (Code.REBALANCE_IN_PROGRESS, Code.MEMBER_ID_REQUIRED):
            self.rejoins = True
        elif code in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION):
            self._lose(forget_id=code is Code.UNKNOWN_MEMBER_ID)
        else:
            assert code in (Code.NONE, Code.NOT_COORDINATOR), code
            self.rejoins = self.rejoins or code is Code.NOT_COORDINATOR

    def _lose(self, *, forget_id: bool) -> None:
        self.owned, self.generation, self.rejoins = set(), -1, True
        if forget_id:
            self.member_id = ""


class Consumer:
    """A client of the consumer protocol: it owns what it was told, and says so with each step."""

    def __init__(
        self,
        world: CoordinatorWorld,
        member_id: str,
        *,
        instance: str | None = None,
        topics: tuple[str, ...] = ("orders",),
        rebalance: float = 60.0,
        regex: str | None = None,
    ) -> None:
        self.world = world
        self.member_id = member_id
        self.instance = instance
        self.topics = topics
        self.rebalance = rebalance
        self.regex = regex
        self.epoch = 0
        self.owned: Owned = set()

    def beat(self, *, epoch: int | None = None) -> Asked:
        joins = (self.epoch if epoch is None else epoch) == 0
        owned = [] if joins else by_topic(self.owned).items()
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=int(self.rebalance * 1000) if joins else -1,
            subscribed_topic_names=list(self.topics) if joins else None,
            subscribed_topic_regex=self.regex if joins else None,
            topic_partitions=[
                _Partitions(topic_id=self.world.topics.topic_id(topic), partitions=partitions)
                for topic, partitions in owned
            ],
        )
        handler = self.world.coordinator.handle_consumer_group_heartbeat
        return self.world.send(handler, request, 1)

    def step(self) -> None:
        """A heartbeat, and what its answer says done."""
        answer = self.beat().answer
        if answer.error_code != Code.NONE:
            self.epoch, self.owned = 0, set()
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                (self._name(one.topic_id), partition)
                for one in answer.assignment.topic_partitions
                for partition in one.partitions
            }

    def _name(self, topic_id: UUID) -> str:
        name = self.world.topics.name(topic_id)
        assert name is not None
        return name

    def leave(self) -> Asked:
        self.owned = set()
        return self.beat(epoch=-1)


Client = Classic | Consumer


def settle(*clients: Client, rounds: int = 30) -> None:
    """Let all do what they are told, in turn, until nobody has anything to do."""
    for _ in range(rounds):
        for client in clients:
            client.step()


def state(world: CoordinatorWorld) -> tuple[str, str]:
    """Kind and state of the group."""
    ((_, _, group_state, kind),) = world.list()
    return kind, group_state


def described(world: CoordinatorWorld) -> dict[str, tuple[int, int]]:
    """Of each member of the consumer group its epoch and its MemberType: 0 is a classic one."""
    return {
        member.member_id: (member.member_epoch, member.member_type)
        for member in world.describe_consumer_group(GROUP).members
    }


def by_topic(owned: Owned) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        topics.setdefault(topic, []).append(partition)
    return topics


def assignment(owned: Owned) -> bytes:
    made = ConsumerProtocolAssignment(
        version=0,
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(owned).items()
        ],
        user_data=None,
    )
    return bytes(made.encode())


def read(data: bytes) -> Owned:
    if not data:
        return set()
    given = ConsumerProtocolAssignment.decode(bytes(data)).assigned_partitions
    return {(one.topic, partition) for one in given for partition in one.partitions}
