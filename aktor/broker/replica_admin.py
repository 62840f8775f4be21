"""Replicas looked at and moved: sizes on brokers, elections, reassignments, ended transactions.

Followers live in the same process and fetch at once, so that a reassignment is over when it is
answered: none is ever seen under way.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    DescribeLogDirsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.producer import WriteTxnMarkersResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.ports import LeaderChanges
from aktor.broker.topic_admin import check_replicas
from aktor.broker.topics import INTERNAL_TOPICS
from aktor.broker.topology import Topology

__all__ = ["ReplicaAdmin"]

_Folder: Final = DescribeLogDirsResponse.DescribeLogDirsResult
_FolderTopic: Final = _Folder.DescribeLogDirsTopic
_FolderPartition: Final = _FolderTopic.DescribeLogDirsPartition
_Elected: Final = ElectLeadersResponse.ReplicaElectionResult
_ElectedPartition: Final = _Elected.PartitionResult
_Moved: Final = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_MovedPartition: Final = _Moved.ReassignablePartitionResponse
_Marked: Final = WriteTxnMarkersResponse.WritableTxnMarkerResult
_MarkedTopic: Final = _Marked.WritableTxnMarkerTopicResult
_MarkedPartition: Final = _MarkedTopic.WritableTxnMarkerPartitionResult

#: Kinds of elections (org.apache.kafka.common.ElectionType).
_PREFERRED: Final = 0
_UNCLEAN: Final = 1


class ReplicaAdmin:
    """Any broker answers these, save for what only it can know: its log folder, its partitions."""

    def __init__(self, topology: Topology, *, changes: LeaderChanges) -> None:
        self._nodes = topology.nodes
        self._topics = topology.topics
        self._changes = changes

    # -- sizes

    def describe_log_dirs(self, call: Call) -> None:
        """DescribeLogDirs: what this broker's replicas take up; None: all."""
        asked = call.request.topics
        wanted = None if asked is None else {topic.topic: topic.partitions for topic in asked}
        topics = []
        for topic in self._topics:
            if wanted is not None and topic.name not in wanted:
                continue
            here = [
                _FolderPartition(
                    partition_index=partition.index,
                    partition_size=partition.log.size_bytes,
                    offset_lag=max(partition.log.end_offset - partition.end_of(call.node), 0),
                    is_future_key=False,
                )
                for partition in topic.partitions
                if call.node in partition.replicas
                and (wanted is None or partition.index in wanted[topic.name])
            ]
            if here:
                topics.append(_FolderTopic(name=topic.name, partitions=here))
        folder = _Folder(error_code=Code.NONE, log_dir=f"broker-{call.node}", topics=topics)
        call.reply(DescribeLogDirsResponse(error_code=Code.NONE, results=[folder]))

    # -- elections

    def elect_leaders(self, call: Call) -> None:
        """ElectLeaders: the preferred replica, or an unclean one without a leader (KIP-460)."""
        request = call.request
        kind = request.election_type if call.version > 0 else _PREFERRED
        everywhere = request.topic_partitions is None
        if everywhere:
            asked = [(topic.name, range(len(topic.partitions))) for topic in self._topics]
        else:
            asked = [
                (topic_partition.topic, topic_partition.partitions)
                for topic_partition in request.topic_partitions
            ]
        if kind not in (_PREFERRED, _UNCLEAN) and everywhere:
            asked = []
        results = []
        for topic, partitions in asked:
            found = [self._elect(topic, index, kind, call.now) for index in partitions]
            if everywhere:
                found = [
                    result for result in found if result.error_code != Code.ELECTION_NOT_NEEDED
                ]
            results.append(_Elected(topic=topic, partition_result=found))
        code = Code.NONE if kind in (_PREFERRED, _UNCLEAN) else Code.INVALID_REQUEST
        call.reply(ElectLeadersResponse(error_code=code, replica_election_results=results))

    def _elect(self, topic: str, index: int, kind: int, now: float) -> Any:
        code, why = Code.NONE, None
        try:
            if kind not in (_PREFERRED, _UNCLEAN):
                raise Refused(Code.INVALID_REQUEST, f"Unknown election type {kind}")
            partition = self._topics.partition(topic, index)
            if partition is None:
                known = self._topics.get(topic)
                missing = f"partition as {topic}-{index}" if known else f"topic as {topic}"
                raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}")
            target = self._candidate(partition, kind)
            self._changes.move_leader(topic, index, target, now, unclean=kind == _UNCLEAN)
        except Refused as refused:
            code, why = refused.code, refused.message
        return _ElectedPartition(partition_id=index, error_code=code, error_message=why)

    def _candidate(self, partition: Partition, kind: int) -> int:
        """The replica that is to lead from now on. Raises Refused if no other should or can."""
        preferred = partition.replicas[0]
        if partition.leader == preferred if kind == _PREFERRED else partition.leader != NO_LEADER:
            raise Refused(
                Code.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
            )
        up = [node for node in partition.replicas if self._nodes[node].up]
        if kind == _UNCLEAN and up:
            return max(up, key=partition.end_of)
        if kind == _PREFERRED and preferred in up and preferred in partition.isr:
            return preferred
        if kind == _PREFERRED:
            text = "The preferred leader was not available."
            raise Refused(Code.PREFERRED_LEADER_NOT_AVAILABLE, text)
        text = "Eligible topic partition leaders are not available."
        raise Refused(Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)

    # -- reassignments

    def list_partition_reassignments(self, call: Call) -> None:
        """ListPartitionReassignments: none is ever under way."""
        call.reply(
            ListPartitionReassignmentsResponse(error_code=Code.NONE, error_message=None, topics=[])
        )

    def alter_partition_reassignments(self, call: Call) -> None:
        """AlterPartitionReassignments: other replicas, and more or fewer of them (KIP-455)."""
        request = call.request
        resize = request.allow_replication_factor_change if call.version > 0 else True

        def moved(topic: str, partition: Any) -> Any:
            code, why = Code.NONE, None
            try:
                self._reassign(topic, partition, call.now, resize=resize)
            except Refused as refused:
                code, why = refused.code, refused.message
            return _MovedPartition(
                partition_index=partition.partition_index, error_code=code, error_message=why
            )

        call.reply(
            AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=resize,
                error_code=Code.NONE,
                error_message=None,
                responses=[
                    _Moved(
                        name=topic.name,
                        partitions=[moved(topic.name, it) for it in topic.partitions],
                    )
                    for topic in request.topics
                ],
            )
        )

    def _reassign(self, topic: str, wanted: Any, now: float, *, resize: bool) -> None:
        """Raises Refused."""
        if self._topics.get(topic) is None:
            text = f"Unable to find a topic named {topic}."
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, text)
        partition = self._topics.partition(topic, wanted.partition_index)
        if partition is None:
            text = f"Unable to find partition {topic}:{wanted.partition_index}."
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, text)
        if wanted.replicas is None:
            raise Refused(Code.NO_REASSIGNMENT_IN_PROGRESS)
        replicas = tuple(wanted.replicas)
        check_replicas(replicas, brokers=self._nodes)
        if len(replicas) != len(partition.replicas) and not resize:
            raise Refused(
                Code.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {len(partition.replicas)} to "
                f"{len(replicas)}",
            )
        new = [node for node in replicas if node not in partition.replicas]
        down = [node for node in new if not self._nodes[node].up]
        if new and (down or partition.leader == NO_LEADER):
            # Kafka's would be under way until they are back.
            who = f"broker {down[0]}" if down else "the leader"
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT, f"New replicas cannot catch up: {who} is down."
            )
        self._changes.reassign(partition, replicas, now)

    # -- transactions ended by hand

    def write_txn_markers(self, call: Call) -> None:
        """WriteTxnMarkers, with which an admin aborts a transaction in single partitions."""
        call.reply(
            WriteTxnMarkersResponse(
                markers=[
                    _Marked(
                        producer_id=marker.producer_id,
                        topics=[
                            _MarkedTopic(
                                name=topic.name,
                                partitions=[
                                    _MarkedPartition(
                                        partition_index=index,
                                        error_code=self._mark(call, marker, topic.name, index),
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in call.request.markers
                ]
            )
        )

    def _mark(self, call: Call, marker: Any, topic: str, index: int) -> Code:
        partition = self._topics.partition(topic, index)
        if partition is None or call.node not in partition.replicas or topic in INTERNAL_TOPICS:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != call.node:
            return Code.NOT_LEADER_OR_FOLLOWER
        try:
            partition.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                now=call.now,
            )
        except Refused as refused:
            return refused.code
        return Code.NONE
