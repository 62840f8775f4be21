"""Topics made, grown, emptied, deleted and described: what an admin client asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
)

from aktor.broker.broker_configs import broker_configs
from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.ports import TopicChanges
from aktor.broker.settings import ClusterSettings
from aktor.broker.topic_configs import check_topic_configs, describe_broker, describe_topic
from aktor.broker.topics import Topic, check_name
from aktor.broker.topology import Topology

__all__ = ["TopicAdmin", "check_replicas"]

_Created: Final = CreateTopicsResponse.CreatableTopicResult
_CreatedConfig: Final = _Created.CreatableTopicConfigs
_Deleted: Final = DeleteTopicsResponse.DeletableTopicResult
_Grown: Final = CreatePartitionsResponse.CreatePartitionsTopicResult
_Emptied: Final = DeleteRecordsResponse.DeleteRecordsTopicResult
_EmptiedPartition: Final = _Emptied.DeleteRecordsPartitionResult
_Described: Final = DescribeConfigsResponse.DescribeConfigsResult

_ZERO: Final = UUID(int=0)
_BROKER_ID: Final = re.compile(r"[-+]?[0-9]{1,10}")
#: How DescribeConfigs names what it describes.
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_GROUP_RESOURCE: Final = 32
#: So many partitions are made by one request at most (ReplicationControlManager).
_PARTITIONS_MAX: Final = 10_000


class TopicAdmin:
    """Any broker answers these: it stands for the controller."""

    def __init__(
        self, topology: Topology, *, settings: ClusterSettings, changes: TopicChanges
    ) -> None:
        self._topology = topology
        self._topics = topology.topics
        self._settings = settings
        self._changes = changes

    # -- create

    def create_topics(self, call: Call) -> None:
        """CreateTopics (ReplicationControlManager.createTopics)."""
        times = Counter(topic.name for topic in call.request.topics)
        self._check_total(call.request.topics)
        results, seen = [], set()
        for wanted in call.request.topics:
            if wanted.name in seen:
                continue
            seen.add(wanted.name)
            try:
                if times[wanted.name] > 1:
                    raise Refused(Code.INVALID_REQUEST, "Duplicate topic name.")
                results.append(self._create(call, wanted))
            except Refused as refused:
                results.append(
                    _Created(
                        name=wanted.name,
                        error_code=refused.code,
                        error_message=refused.message,
                        configs=[],
                    )
                )
        call.reply(CreateTopicsResponse(topics=results))

    def _check_total(self, topics: Any) -> None:
        """Raises Refused for more partitions than a request may ask for."""
        default = self._settings.partitions
        total = sum(
            len(topic.assignments)
            or (default if topic.num_partitions == -1 else topic.num_partitions)
            for topic in topics
            if topic.num_partitions >= -1
        )
        if total > _PARTITIONS_MAX:
            raise Refused(
                Code.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )

    def _create(self, call: Call, wanted: Any) -> Any:
        """Raises Refused."""
        check_name(wanted.name)
        if self._topics.get(wanted.name):
            raise Refused(Code.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
        for other in self._topics.names():
            if _alike(other) == _alike(wanted.name):
                raise Refused(
                    Code.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{wanted.name}' collides with existing topic: {other}",
                )
        configs = self._configs(wanted)
        assignment = self._assignment(wanted)
        if call.request.validate_only:
            # The id that it would have had, as Kafka tells it.
            topic_id = self._topics.new_id()
        else:
            topic_id = self._changes.make_topic(wanted.name, assignment, configs).topic_id
        return _Created(
            name=wanted.name,
            topic_id=topic_id,
            error_code=Code.NONE,
            error_message=None,
            num_partitions=len(assignment),
            replication_factor=len(assignment[0]),
            configs=[
                _CreatedConfig(
                    name=config.name,
                    value=config.value,
                    read_only=config.read_only,
                    config_source=config.config_source,
                    is_sensitive=config.is_sensitive,
                )
                for config in describe_topic(configs, defaults=self._defaults)
            ],
        )

    def _configs(self, wanted: Any) -> dict[str, str]:
        return check_topic_configs(
            [(config.name, config.value) for config in wanted.configs], defaults=self._defaults
        )

    def _assignment(self, wanted: Any) -> list[tuple[int, ...]]:
        if wanted.assignments:
            return self._manual(wanted)
        replication = wanted.replication_factor
        if replication == 0 or replication < -1:
            raise Refused(
                Code.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        partitions = wanted.num_partitions
        if partitions == 0 or partitions < -1:
            raise Refused(
                Code.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        return self._topology.assignment(
            None if partitions == -1 else partitions, None if replication == -1 else replication
        )

    def _manual(self, wanted: Any) -> list[tuple[int, ...]]:
        for what, value in (
            ("replication factor", wanted.replication_factor),
            ("numPartitions", wanted.num_partitions),
        ):
            if value != -1:
                raise Refused(
                    Code.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        found: dict[int, tuple[int, ...]] = {}
        for assignment in wanted.assignments:
            if assignment.partition_index in found:
                raise Refused(
                    Code.INVALID_REPLICA_ASSIGNMENT,
                    "Found multiple manual partition assignments for partition "
                    f"{assignment.partition_index}",
                )
            replicas = tuple(assignment.broker_ids)
            check_replicas(
                replicas, brokers=self._topology.nodes, like=next(iter(found.values()), None)
            )
            found[assignment.partition_index] = replicas
        if sorted(found) != list(range(len(found))):
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        return [found[index] for index in range(len(found))]

    # -- delete

    def delete_topics(self, call: Call) -> None:
        """DeleteTopics: by name, or by id from version 6 on."""
        if call.version < 6:
            asked = [(name, None) for name in call.request.topic_names]
        else:
            asked = [(topic.name, topic.topic_id or None) for topic in call.request.topics]
        found = [self._topics.get(name, topic_id) for name, topic_id in asked]
        times = Counter(topic.name for topic in found if topic)
        results: dict[Any, Any] = {}
        for (name, topic_id), topic in zip(asked, found, strict=True):
            code, why = self._deletable(name, topic_id, topic, times)
            if topic is not None and not code:
                self._changes.delete_topic(topic, call.now)
            results[topic.name if topic else (name, topic_id)] = _Deleted(
                name=topic.name if topic else name,
                topic_id=topic.topic_id if topic else topic_id,
                error_code=code,
                error_message=why,
            )
        call.reply(DeleteTopicsResponse(responses=list(results.values())))

    def _deletable(
        self, name: str | None, topic_id: UUID | None, topic: Topic | None, times: Counter[str]
    ) -> tuple[Code, str | None]:
        by_id = topic_id is not None and topic_id != _ZERO
        if name is not None and by_id:
            return Code.INVALID_REQUEST, "Either the name or the id of a topic is given, not both."
        if name is None and not by_id:
            return Code.INVALID_REQUEST, "Neither the name nor the id of the topic is given."
        if topic is None and by_id:
            return Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        if topic is None:
            return (
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        if times[topic.name] > 1:
            return Code.INVALID_REQUEST, "Duplicate topic name."
        return Code.NONE, None

    # -- grow

    def create_partitions(self, call: Call) -> None:
        """CreatePartitions: more of them, never fewer."""
        results = []
        times = Counter(topic.name for topic in call.request.topics)
        for wanted in {topic.name: topic for topic in call.request.topics}.values():
            try:
                if times[wanted.name] > 1:
                    raise Refused(Code.INVALID_REQUEST, "Duplicate topic name.")
                self._grow(wanted, validate_only=call.request.validate_only, now=call.now)
                code, why = Code.NONE, None
            except Refused as refused:
                code, why = refused.code, refused.message
            results.append(_Grown(name=wanted.name, error_code=code, error_message=why))
        call.reply(CreatePartitionsResponse(results=results))

    def _grow(self, wanted: Any, *, validate_only: bool, now: float) -> None:
        """Raises Refused."""
        topic = self._topics.get(wanted.name)
        if topic is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        there = len(topic.partitions)
        if wanted.count == there:
            raise Refused(Code.INVALID_PARTITIONS, f"Topic already has {there} partition(s).")
        if wanted.count < there:
            raise Refused(
                Code.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {there} partition(s); {wanted.count} "
                "would not be an increase.",
            )
        more = wanted.count - there
        if more > _PARTITIONS_MAX:
            raise Refused(
                Code.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )
        replication = len(topic.partitions[0].replicas)
        if wanted.assignments is None:
            assignment = self._topology.assignment(more, replication)
        else:
            if len(wanted.assignments) != more:
                raise Refused(
                    Code.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {more} additional partition(s), but only "
                    f"{len(wanted.assignments)} assignment(s) were specified.",
                )
            assignment = [tuple(partition.broker_ids) for partition in wanted.assignments]
            for replicas in assignment:
                check_replicas(
                    replicas, brokers=self._topology.nodes, like=topic.partitions[0].replicas
                )
        if not validate_only:
            self._changes.grow_topic(topic, assignment, now)

    # -- delete records

    def delete_records(self, call: Call) -> None:
        """DeleteRecords: the log starts later; -1 stands for the high watermark."""

        def emptied(topic: Any, partition: Any) -> Any:
            try:
                low = self._delete_before(
                    call, topic.name, partition.partition_index, partition.offset
                )
            except Refused as refused:
                return _EmptiedPartition(
                    partition_index=partition.partition_index,
                    low_watermark=-1,
                    error_code=refused.code,
                )
            return _EmptiedPartition(
                partition_index=partition.partition_index, low_watermark=low, error_code=Code.NONE
            )

        call.reply(
            DeleteRecordsResponse(
                topics=[
                    _Emptied(
                        name=topic.name,
                        partitions=[emptied(topic, partition) for partition in topic.partitions],
                    )
                    for topic in call.request.topics
                ]
            )
        )

    def _delete_before(self, call: Call, name: str, index: int, offset: int) -> int:
        """The new start. Raises Refused."""
        partition = self._topics.partition(name, index)
        if partition is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != call.node:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        topic = self._topics.get(name)
        if topic is not None and topic.internal:
            raise Refused(Code.INVALID_TOPIC_EXCEPTION)
        log = partition.log
        wanted = log.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= log.high_watermark:
            raise Refused(Code.OFFSET_OUT_OF_RANGE)
        if "delete" not in log.config.cleanup_policy:
            raise Refused(Code.POLICY_VIOLATION)
        log.delete_before(wanted)
        partition.settle()
        return log.start_offset

    # -- configs

    def describe_configs(self, call: Call) -> None:
        """DescribeConfigs of topics and brokers."""
        request = call.request
        results = []
        for wanted in request.resources:
            try:
                configs = self._described(wanted, request, call.node)
                code, why = Code.NONE, None
            except Refused as refused:
                configs, code, why = [], refused.code, refused.message
            results.append(
                _Described(
                    error_code=code,
                    error_message=why if code else "",
                    resource_type=wanted.resource_type,
                    resource_name=wanted.resource_name,
                    configs=configs,
                )
            )
        call.reply(DescribeConfigsResponse(results=results))

    def _described(self, wanted: Any, request: Any, node: int) -> list[Any]:
        """Raises Refused."""
        keys = wanted.configuration_keys
        if wanted.resource_type == _TOPIC_RESOURCE:
            check_name(wanted.resource_name)
            topic = self._topics.get(wanted.resource_name)
            if topic is None:
                raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "")
            return describe_topic(
                topic.configs,
                keys,
                defaults=self._defaults,
                include_synonyms=request.include_synonyms,
                include_documentation=request.include_documentation,
            )
        if wanted.resource_type == _BROKER_RESOURCE:
            self._check_broker(wanted.resource_name, node)
            return describe_broker(
                self._broker_configs(node),
                keys,
                topic_defaults=self._defaults,
                for_all_brokers=not wanted.resource_name,
                include_synonyms=request.include_synonyms,
                include_documentation=request.include_documentation,
            )
        if wanted.resource_type == _GROUP_RESOURCE and wanted.resource_name:
            return []  # nothing can be set
        raise Refused(Code.INVALID_REQUEST, f"Unsupported resource type: {wanted.resource_type}")

    def _broker_configs(self, node: int) -> dict[str, str]:
        return broker_configs(
            self._topology.nodes[node],
            self._settings,
            replication_factor=self._topology.default_replication,
        )

    def _check_broker(self, name: str, node: int) -> None:
        """A broker describes itself, or under no name what was set for all. Raises Refused."""
        if name and not _BROKER_ID.fullmatch(name):
            raise Refused(Code.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if name and int(name) != node:
            raise Refused(
                Code.INVALID_REQUEST,
                f"Unexpected broker id, expected {node} or empty string, but received {name}",
            )

    @property
    def _defaults(self) -> Mapping[str, str]:
        return self._settings.topic_configs


def check_replicas(
    replicas: Sequence[int], *, brokers: Container[int], like: Sequence[int] | None = None
) -> None:
    """What an admin may have meant for a partition; `like`: another one of the same topic.

    Raises Refused(INVALID_REPLICA_ASSIGNMENT).
    """
    if not replicas:
        why = "The manual partition assignment includes an empty replica list."
    elif len(set(replicas)) < len(replicas):
        why = (
            "The manual partition assignment includes the broker "
            f"{Counter(replicas).most_common(1)[0][0]} more than once."
        )
    elif unknown := [replica for replica in replicas if replica not in brokers]:
        why = (
            f"The manual partition assignment includes broker {unknown[0]}, but no such "
            "broker is registered."
        )
    elif like is not None and len(like) != len(replicas):
        why = (
            f"The manual partition assignment includes a partition with {len(replicas)} "
            f"replica(s), but this is not consistent with previous partitions, which have "
            f"{len(like)} replica(s)."
        )
    else:
        return
    raise Refused(Code.INVALID_REPLICA_ASSIGNMENT, why)


def _alike(name: str) -> str:
    """Metric names cannot tell a dot from an underscore (Topic.unifyCollisionChars)."""
    return name.replace(".", "_")
