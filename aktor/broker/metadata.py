"""What the cluster says of itself: versions, brokers, topics, coordinators."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from kafka.protocol.admin import DescribeClusterResponse, DescribeTopicPartitionsResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.ports import Coordinators, TopicChanges
from aktor.broker.topics import GROUP_OFFSETS, TRANSACTION_STATE, Topic, check_name
from aktor.broker.topology import Topology
from aktor.broker.wire import APIS

__all__ = ["MetadataRequests"]

_Topic: Final = MetadataResponse.MetadataResponseTopic
_Partition: Final = _Topic.MetadataResponsePartition
_Coordinator: Final = FindCoordinatorResponse.Coordinator
_Described: Final = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_DescribedPartition: Final = _Described.DescribeTopicPartitionsResponsePartition
_Cursor: Final = DescribeTopicPartitionsResponse.Cursor

_ZERO: Final = UUID(int=0)
_API_VERSIONS_KEY: Final = 18

#: Feature, least and greatest level, level in use: what tells clients which protocols they may use.
_FEATURES: Final = (
    ("group.version", 0, 1, 1),
    ("metadata.version", 7, 30, 30),
    ("transaction.version", 0, 2, 2),
)
#: Whose coordinator FindCoordinator is asked for.
_COORDINATED_BY: Final = {0: GROUP_OFFSETS, 1: TRANSACTION_STATE}
_COORDINATOR_KEYS: Final = 4
#: The coordinators of share groups, which are not here.
_SHARE: Final = 2
#: From this version on topics may be asked for by id.
_METADATA_BY_ID: Final = 12
#: What a client may do, by AclOperation's codes: everything that there is to be done.
_TOPIC_OPERATIONS: Final = frozenset({3, 4, 5, 6, 7, 8, 10, 11})
_CLUSTER_OPERATIONS: Final = frozenset({5, 7, 8, 9, 10, 11, 12})
_TOPIC_OPERATION_BITS: Final = sum(1 << code for code in _TOPIC_OPERATIONS)
#: A client asks for this many partitions at most (KIP-966).
_DESCRIBED_MAX: Final = 2000


class MetadataRequests:
    """Any broker answers these."""

    def __init__(
        self,
        topology: Topology,
        *,
        auto_create_topics: bool,
        changes: TopicChanges,
        coordinators: Coordinators,
    ) -> None:
        self._topology = topology
        self._topics = topology.topics
        self._auto_create_topics = auto_create_topics
        self._changes = changes
        self._coordinators = coordinators

    def api_versions(self, call: Call) -> None:
        """The APIs and versions spoken here. A call without a request had an unknown version."""
        if call.request is None:
            apis = [APIS[_API_VERSIONS_KEY]]
            call.reply(
                ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=_ranges(apis))
            )
            return
        if call.version >= 3 and not _sound_client(call.request):
            call.reply(ApiVersionsResponse(error_code=Code.INVALID_REQUEST, api_keys=[]))
            return
        call.reply(
            ApiVersionsResponse(
                error_code=Code.NONE,
                api_keys=_ranges(APIS.values()),
                supported_features=[
                    ApiVersionsResponse.SupportedFeatureKey(
                        name=name, min_version=least, max_version=greatest
                    )
                    for name, least, greatest, _ in _FEATURES
                    # A least level of 0 is more than clients before version 4 understand.
                    if least > 0 or call.version >= 4
                ],
                finalized_features_epoch=1,
                finalized_features=[
                    ApiVersionsResponse.FinalizedFeatureKey(
                        name=name, max_version_level=level, min_version_level=level
                    )
                    for name, _, _, level in _FEATURES
                ],
            )
        )

    # -- Metadata

    def metadata(self, call: Call) -> None:
        """The brokers that are up, and all topics or the ones asked for."""
        asked = call.request.topics
        if asked is None or (call.version == 0 and not asked):
            found = [self._described(topic, call) for topic in self._topics]
        elif any(_has_id(topic) for topic in asked):
            found = self._by_id(call)
        else:
            names = dict.fromkeys(topic.name for topic in asked)
            if None in names:
                raise Refused(Code.UNKNOWN_SERVER_ERROR)
            found = [self._by_name(call, name) for name in names]
        call.reply(
            MetadataResponse(
                brokers=[
                    MetadataResponse.MetadataResponseBroker(
                        node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
                    )
                    for node in self._topology.up()
                ],
                cluster_id=self._topology.cluster_id,
                controller_id=self._topology.controller,
                topics=found,
                authorized_operations=_CLUSTER_OPERATIONS
                if call.request.include_cluster_authorized_operations
                else None,
            )
        )

    def _by_id(self, call: Call) -> list[Any]:
        """If one has an id, all are found by id (KafkaApis.handleTopicMetadataRequest)."""
        if call.version < _METADATA_BY_ID:
            raise Refused(Code.INVALID_REQUEST)
        ids = dict.fromkeys(topic.topic_id for topic in call.request.topics if _has_id(topic))
        found = []
        for topic_id in ids:
            topic = self._topics.get(None, topic_id)
            if topic is not None:
                found.append(self._described(topic, call))
            else:
                found.append(
                    _Topic(
                        error_code=Code.UNKNOWN_TOPIC_ID,
                        name=None,
                        topic_id=topic_id,
                        partitions=[],
                    )
                )
        return found

    def _by_name(self, call: Call, name: str) -> Any:
        if name in self._topics.hidden:
            return _Topic(error_code=Code.TOPIC_AUTHORIZATION_FAILED, name=name, partitions=[])
        topic = self._topics.get(name)
        if topic is not None:
            return self._described(topic, call)
        return _Topic(error_code=self._make(name, call), name=name, partitions=[])

    def _make(self, name: str, call: Call) -> Code:
        """Make a topic that was asked for, if that is wanted; the error to answer now."""
        wanted = call.request.allow_auto_topic_creation or call.version < 4
        try:
            check_name(name)
            if wanted and self._auto_create_topics:
                self._changes.auto_create_topic(name)
        except Refused as refused:
            return refused.code
        # As Kafka: it is being made, ask once more.
        return Code.UNKNOWN_TOPIC_OR_PARTITION

    def _described(self, topic: Topic, call: Call) -> Any:
        return _Topic(
            error_code=Code.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=[_Partition(**_facts(partition)) for partition in topic.partitions],
            authorized_operations=_TOPIC_OPERATIONS
            if call.request.include_topic_authorized_operations
            else None,
        )

    def describe_topic_partitions(self, call: Call) -> None:
        """As Metadata, a page at a time (KIP-966)."""
        request = call.request
        names = sorted({topic.name for topic in request.topics}) or list(self._topics.names())
        cursor = request.cursor
        if cursor and cursor.partition_index < 0:
            raise Refused(Code.INVALID_REQUEST)
        left = max(1, min(request.response_partition_limit, _DESCRIBED_MAX))
        found, following = [], None
        for name in names:
            if cursor and name < cursor.topic_name:
                continue
            topic = self._topics.get(name)
            if topic is None:
                found.append(_missing(name))
                continue
            first = cursor.partition_index if cursor and name == cursor.topic_name else 0
            if left == 0:
                following = _Cursor(topic_name=name, partition_index=first)
                break
            page = topic.partitions[first : first + left]
            left -= len(page)
            found.append(
                _Described(
                    error_code=Code.NONE,
                    name=topic.name,
                    topic_id=topic.topic_id,
                    is_internal=topic.internal,
                    partitions=[
                        _DescribedPartition(
                            **_facts(partition), eligible_leader_replicas=[], last_known_elr=[]
                        )
                        for partition in page
                    ],
                    topic_authorized_operations=_TOPIC_OPERATION_BITS,
                )
            )
            if first + len(page) < len(topic.partitions):
                following = _Cursor(topic_name=name, partition_index=first + len(page))
                break
        call.reply(DescribeTopicPartitionsResponse(topics=found, next_cursor=following))

    # -- the cluster

    def describe_cluster(self, call: Call) -> None:
        """The brokers that are up, and which one is the controller's address for clients."""
        endpoints = call.request.endpoint_type if call.version >= 1 else 1
        if endpoints != 1:
            code = (
                Code.MISMATCHED_ENDPOINT_TYPE
                if endpoints == 2
                else (Code.UNSUPPORTED_ENDPOINT_TYPE)
            )
            call.reply(
                DescribeClusterResponse(
                    error_code=code,
                    error_message="brokers are asked for brokers only",
                    cluster_id="",
                    brokers=[],
                )
            )
            return
        call.reply(
            DescribeClusterResponse(
                error_code=Code.NONE,
                cluster_id=self._topology.cluster_id,
                controller_id=self._topology.controller,
                brokers=[
                    DescribeClusterResponse.DescribeClusterBroker(
                        broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack
                    )
                    for node in self._topology.up()
                ],
                authorized_operations=_CLUSTER_OPERATIONS
                if call.request.include_cluster_authorized_operations
                else None,
            )
        )

    def find_coordinator(self, call: Call) -> None:
        """The coordinator of a group, or of a transactional id."""
        request = call.request
        if call.version < _COORDINATOR_KEYS:
            coordinator = self._coordinator(request.key, request.key_type)
            call.reply(
                FindCoordinatorResponse(
                    error_code=coordinator.error_code,
                    error_message=coordinator.error_message if coordinator.error_code else "NONE",
                    node_id=coordinator.node_id,
                    host=coordinator.host,
                    port=coordinator.port,
                )
            )
            return
        call.reply(
            FindCoordinatorResponse(
                coordinators=[
                    self._coordinator(key, request.key_type) for key in request.coordinator_keys
                ]
            )
        )

    def _coordinator(self, key: str, key_type: int) -> Any:
        topic = _COORDINATED_BY.get(key_type)
        if topic is None:
            why = "" if key_type == _SHARE else f"there is no coordinator of type {key_type}"
            return _no_coordinator(key, Code.INVALID_REQUEST, why)
        node = self._coordinators.coordinator(topic, key)
        if node is None:
            return _no_coordinator(
                key, Code.COORDINATOR_NOT_AVAILABLE, "its partition has no leader"
            )
        return _Coordinator(
            key=key,
            node_id=node.node_id,
            host=node.host,
            port=node.port,
            error_code=Code.NONE,
            error_message="",
        )


def _no_coordinator(key: str, code: Code, why: str) -> Any:
    return _Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=why)


def _missing(name: str) -> Any:
    try:
        check_name(name)
        code = Code.UNKNOWN_TOPIC_OR_PARTITION
    except Refused as refused:
        code = refused.code
    return _Described(
        error_code=code,
        name=name,
        partitions=[],
        topic_authorized_operations=_TOPIC_OPERATION_BITS,
    )


def _has_id(topic: Any) -> bool:
    return topic.topic_id is not None and topic.topic_id != _ZERO


def _facts(partition: Partition) -> dict[str, Any]:
    return {
        "error_code": Code.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else Code.NONE,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": list(partition.isr),
        "offline_replicas": partition.offline,
    }


def _ranges(apis: Any) -> list[Any]:
    return [
        ApiVersionsResponse.ApiVersion(
            api_key=api.key, min_version=api.min_version, max_version=api.max_version
        )
        for api in apis
    ]


def _sound_client(request: Any) -> bool:
    """KIP-511: name and version are letters, digits, dots and dashes, not dashes at the ends."""
    legal = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")
    return all(
        text and set(text) <= legal and text[0] not in "-." and text[-1] not in "-."
        for text in (request.client_software_name, request.client_software_version)
    )
