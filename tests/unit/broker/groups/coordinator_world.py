"""A group coordinator with topics around it, and clients that speak to it in bytes."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.producer import TxnOffsetCommitRequest

from aktor.broker.codes import Code
from aktor.broker.groups.coordinator import GroupCoordinator
from aktor.broker.groups.settings import GroupSettings
from aktor.protocol.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from tests.unit.broker.harness import Asked, Topics, World

NONE = (-1, "")


class CoordinatorWorld(World):
    """All groups of a cluster, and the time."""

    def __init__(self, *, seed: int = 0, **settings: Any) -> None:
        super().__init__(seed)
        self.topics = Topics(orders=3, bills=2)
        self.settings = GroupSettings(**settings)
        self.coordinator = self._new()

    def _new(self) -> GroupCoordinator:
        return GroupCoordinator(
            rng=self.rng, settings=self.settings, topics=self.topics, journal=self.journal
        )

    @property
    def machine(self) -> GroupCoordinator:
        return self.coordinator

    def restart(self) -> None:
        """A new process: what was kept is all there is."""
        self.coordinator = self._new()
        self.coordinator.restore(self.journal.values(), self.now)

    def delete_topic(self, name: str) -> None:
        self.coordinator.topic_deleted(name, self.topics.delete(name), self.now)
        self.coordinator.topics_changed(self.now)

    # Classic groups.

    def join(
        self,
        group: str = "g",
        member_id: str = "",
        *,
        instance: str | None = None,
        topics: tuple[str, ...] = ("orders",),
        protocol_type: str = "consumer",
        session: float = 10.0,
        version: int = 9,
    ) -> Asked:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=int(session * 1000),
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance if version >= 5 else None,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(
                    name="range", metadata=subscription(*topics)
                )
            ],
        )
        return self.send(self.coordinator.handle_join_group, request, version)

    def sync(self, group: str, member_id: str, generation: int = 1, *, version: int = 3) -> Asked:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=b"a")
            ],
        )
        return self.send(self.coordinator.handle_sync_group, request, version)

    def heartbeat(self, group: str, member_id: str, generation: int = 1) -> Code:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        return self.send(self.coordinator.handle_heartbeat, request, 4).code

    def leave(self, group: str, *who: tuple[str, str | None]) -> Asked:
        """Ask for (member id, instance id) pairs to leave."""
        members = [
            LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance)
            for member_id, instance in who
        ]
        request = LeaveGroupRequest(group_id=group, members=members)
        return self.send(self.coordinator.handle_leave_group, request, 5)

    def stable(self, group: str = "g", **details: Any) -> str:
        """Have a stable classic group of generation 1 with one member: its id."""
        asked = self.join(group, version=3, **details)
        member_id: str = asked.answer.member_id
        assert self.sync(group, member_id).code is Code.NONE
        return member_id

    # Consumer groups.

    def beat(
        self,
        group: str = "c",
        member_id: str = "m",
        epoch: int = 0,
        *,
        instance: str | None = None,
        topics: tuple[str, ...] | None = ("orders",),
        owned: list[Any] | None = None,
        regex: str | None = None,
    ) -> Asked:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=30_000 if epoch == 0 else -1,
            subscribed_topic_names=list(topics) if topics is not None and epoch == 0 else None,
            subscribed_topic_regex=regex,
            topic_partitions=[] if epoch == 0 else owned,
        )
        return self.send(self.coordinator.handle_consumer_group_heartbeat, request, 1)

    def enter(self, group: str = "c", member_id: str = "m", **details: Any) -> int:
        """Have a member in a consumer group: its epoch."""
        asked = self.beat(group, member_id, **details)
        assert asked.code is Code.NONE
        epoch: int = asked.answer.member_epoch
        return epoch

    # Offsets.

    def commit(
        self,
        group: str = "g",
        offsets: dict[tuple[str, int], int] | None = None,
        *,
        version: int = 9,
        member_id: str = "",
        epoch: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        topic_id: UUID | None = None,
    ) -> Code | dict[tuple[str, int], Code]:
        """Commit; one code if all partitions have the same, else all codes."""
        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                topic_type(
                    name=name,
                    topic_id=topic_id or self.topics.topic_id(name) or UUID(int=0),
                    partitions=[
                        topic_type.OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                        for partition, offset in partitions
                    ],
                )
                for name, partitions in by_topic(offsets or {("orders", 0): 5})
            ],
        )
        asked = self.send(self.coordinator.handle_offset_commit, request, version)
        return codes_of(asked)

    def commit_in_transaction(
        self,
        group: str = "g",
        offsets: dict[tuple[str, int], int] | None = None,
        *,
        producer_id: int = 1,
        version: int = 3,
        member_id: str = "",
        epoch: int = -1,
        instance: str | None = None,
        verify: Any = None,
    ) -> Code | dict[tuple[str, int], Code]:
        topic_type = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                topic_type(
                    name=name,
                    partitions=[
                        topic_type.TxnOffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                        for partition, offset in partitions
                    ],
                )
                for name, partitions in by_topic(offsets or {("orders", 0): 5})
            ],
        )
        handler = self.coordinator.handle_txn_offset_commit
        return codes_of(self.send(handler, request, version, verify=verify))

    def end(self, group: str = "g", producer_id: int = 1, *, commit: bool) -> None:
        self.coordinator.end_transaction(group, producer_id, commit, self.now)

    def fetch_answer(
        self,
        group: str = "g",
        places: list[tuple[str, int]] | None = None,
        *,
        version: int = 9,
        stable: bool = False,
        member_id: str | None = None,
        epoch: int = -1,
        topic_id: UUID | None = None,
    ) -> Any:
        """The answer of one group, in the shape of the version."""
        group_type = OffsetFetchRequest.OffsetFetchRequestGroup
        old, new = OffsetFetchRequest.OffsetFetchRequestTopic, group_type.OffsetFetchRequestTopics
        named = None if places is None else by_topic(dict.fromkeys(places, 0))
        if version < 8:
            topics = named and [
                old(name=n, partition_indexes=[p for p, _ in ps]) for n, ps in named
            ]
            request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
            return self.send(self.coordinator.handle_offset_fetch, request, version).answer
        asked = named and [
            new(
                name=name,
                topic_id=topic_id or self.topics.topic_id(name) or UUID(int=0),
                partition_indexes=[partition for partition, _ in partitions],
            )
            for name, partitions in named
        ]
        request = OffsetFetchRequest(
            groups=[
                group_type(group_id=group, member_id=member_id, member_epoch=epoch, topics=asked)
            ],
            require_stable=stable,
        )
        answer = self.send(self.coordinator.handle_offset_fetch, request, version).answer
        assert [one.group_id for one in answer.groups] == [group]
        return answer.groups[0]

    def fetch(self, *args: Any, **details: Any) -> dict[tuple[str, int], int]:
        """Offsets by topic and partition: all of the group, or those of the places."""
        answer = self.fetch_answer(*args, **details)
        by_name = details.get("version", 9) < 10
        found = {}
        for topic in answer.topics:
            name = topic.name if by_name else self.topics.name(topic.topic_id) or ""
            for one in topic.partitions:
                assert one.error_code == Code.NONE
                found[name, one.partition_index] = one.committed_offset
        return found

    def fetch_codes(self, *args: Any, **details: Any) -> list[Code]:
        answer = self.fetch_answer(*args, **details)
        return [Code(one.error_code) for topic in answer.topics for one in topic.partitions]

    def delete_offsets(
        self, group: str, *places: tuple[str, int]
    ) -> Code | dict[tuple[str, int], Code]:
        """The group's code if there is one, else that of the partitions."""
        topic_type = OffsetDeleteRequest.OffsetDeleteRequestTopic
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                topic_type(
                    name=name,
                    partitions=[
                        topic_type.OffsetDeleteRequestPartition(partition_index=partition)
                        for partition, _ in partitions
                    ],
                )
                for name, partitions in by_topic(dict.fromkeys(places, 0))
            ],
        )
        asked = self.send(self.coordinator.handle_offset_delete, request, 0)
        return asked.code if asked.code is not Code.NONE else codes_of(asked)

    # Administration.

    def describe(self, *groups: str, version: int = 6, operations: bool = False) -> list[Any]:
        request = DescribeGroupsRequest(
            groups=list(groups), include_authorized_operations=operations
        )
        asked = self.send(self.coordinator.handle_describe_groups, request, version)
        found: list[Any] = asked.answer.groups
        return found

    def describe_consumer_group(self, group: str) -> Any:
        request = ConsumerGroupDescribeRequest(
            group_ids=[group], include_authorized_operations=True
        )
        asked = self.send(self.coordinator.handle_consumer_group_describe, request, 1)
        return asked.answer.groups[0]

    def list(
        self, *, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int = 5
    ) -> list[tuple[str, ...]]:
        """Id, protocol type, state and type of each group, as far as the version has them."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        asked = self.send(self.coordinator.handle_list_groups, request, version)
        columns = ["group_id", "protocol_type", "group_state", "group_type"]
        shown = columns[: 4 if version >= 5 else 3 if version == 4 else 2]
        return [tuple(getattr(group, name) for name in shown) for group in asked.answer.groups]

    def delete(self, *groups: str) -> dict[str, Code]:
        request = DeleteGroupsRequest(groups_names=list(groups))
        asked = self.send(self.coordinator.handle_delete_groups, request, 2)
        return {one.group_id: Code(one.error_code) for one in asked.answer.results}


def by_topic(
    offsets: dict[tuple[str, int], int],
) -> list[tuple[str, list[tuple[int, int]]]]:
    """(partition, offset) pairs by topic."""
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append((partition, offset))
    return list(topics.items())


def codes_of(asked: Asked) -> Code | dict[tuple[str, int], Code]:
    codes = {
        (getattr(topic, "name", None) or "", one.partition_index): Code(one.error_code)
        for topic in asked.answer.topics
        for one in topic.partitions
    }
    different = set(codes.values())
    return different.pop() if len(different) == 1 else codes


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    encoded = [topic.encode() for topic in topics]
    names = b"".join(struct.pack(">h", len(topic)) + topic for topic in encoded)
    return struct.pack(">hi", 0, len(topics)) + names + b"\xff\xff\xff\xff"
