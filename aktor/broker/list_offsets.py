"""ListOffsets and OffsetForLeaderEpoch: where a time, or a leader's epoch, is in a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.admin import DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsResponse, OffsetForLeaderEpochResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.fetching import ISOLATION_LEVELS, check_epoch
from aktor.broker.partition import Partition
from aktor.broker.topics import Topics

__all__ = ["ListOffsets"]

_Listed: Final = ListOffsetsResponse.ListOffsetsTopicResponse
_ListedPartition: Final = _Listed.ListOffsetsPartitionResponse
_Ended: Final = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_EndedPartition: Final = _Ended.EpochEndOffset

_Produced: Final = DescribeProducersResponse.TopicResponse
_Producing: Final = _Produced.PartitionResponse
_Producer: Final = _Producing.ProducerState

_ANY_EPOCH: Final = -1
_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
#: What only tiered storage has: the latest tiered offset, the earliest that waits for upload.
_TIERED: Final = (-5, -6)
_READ_COMMITTED: Final = 1
#: Since which version each of them is known.
_SINCE: Final = {_LATEST: 0, _EARLIEST: 0, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, -5: 9, -6: 11}
_NEVER: Final = 99
#: From this version on a client knows OFFSET_NOT_AVAILABLE.
_KNOWS_NOT_AVAILABLE: Final = 5


class ListOffsets:
    """Asked of a partition's leader."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def list_offsets(self, call: Call) -> None:
        """The offset that belongs to each partition's timestamp, or to a name below zero."""
        times = Counter(
            (topic.name, partition.partition_index)
            for topic in call.request.topics
            for partition in topic.partitions
        )
        if call.request.isolation_level not in ISOLATION_LEVELS:
            raise Refused(Code.UNKNOWN_SERVER_ERROR)

        def answer(name: str, asked: Any) -> Any:
            try:
                if times[name, asked.partition_index] > 1:
                    raise Refused(Code.INVALID_REQUEST)
                partition = self._leader(
                    call, name, asked.partition_index, asked.current_leader_epoch
                )
                offset, timestamp, epoch = self._offset(call, partition, asked.timestamp)
            except Refused as refused:
                return _ListedPartition(
                    partition_index=asked.partition_index, error_code=refused.code
                )
            return _ListedPartition(
                partition_index=asked.partition_index,
                error_code=Code.NONE,
                timestamp=timestamp,
                offset=offset,
                leader_epoch=epoch,
            )

        call.reply(
            ListOffsetsResponse(
                topics=[
                    _Listed(
                        name=topic.name,
                        partitions=[
                            answer(topic.name, partition)
                            for partition in {
                                partition.partition_index: partition
                                for partition in topic.partitions
                            }.values()
                        ],
                    )
                    for topic in call.request.topics
                ]
            )
        )

    def _offset(self, call: Call, partition: Partition, wanted: int) -> tuple[int, int, int]:
        """(offset, timestamp, leader epoch), each -1 if there is none."""
        log = partition.log
        committed = call.request.isolation_level == _READ_COMMITTED
        end = log.last_stable_offset if committed else log.high_watermark
        if wanted < 0 and call.version < _SINCE.get(wanted, _NEVER):
            raise Refused(Code.UNSUPPORTED_VERSION)
        if wanted == _LATEST:
            _check_known(partition, call.version)
            return end, -1, partition.leader_epoch
        if wanted in (_EARLIEST, _EARLIEST_LOCAL):
            return log.start_offset, -1, log.epoch_at(log.start_offset)
        if wanted in _TIERED:
            return -1, -1, -1
        found = log.max_timestamp() if wanted == _MAX_TIMESTAMP else log.offset_for_time(wanted)
        if found and found[0] < end:
            return found
        _check_known(partition, call.version)
        return -1, -1, -1

    def offset_for_leader_epoch(self, call: Call) -> None:
        """Where each epoch ended (KIP-101, KIP-320)."""

        def answer(name: str, asked: Any) -> Any:
            try:
                partition = self._leader(call, name, asked.partition, asked.current_leader_epoch)
            except Refused as refused:
                return _EndedPartition(partition=asked.partition, error_code=refused.code)
            epoch, end = partition.log.end_offset_for_epoch(asked.leader_epoch)
            return _EndedPartition(
                partition=asked.partition, error_code=Code.NONE, leader_epoch=epoch, end_offset=end
            )

        self._each(call, OffsetForLeaderEpochResponse, _Ended, answer)

    def describe_producers(self, call: Call) -> None:
        """The idempotent and transactional producers of each partition (KIP-664)."""

        def answer(name: str, index: int) -> Any:
            try:
                if not self._topics.get(name):
                    raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
                partition = self._leader(call, name, index, _ANY_EPOCH)
            except Refused as refused:
                return _Producing(
                    partition_index=index, error_code=refused.code, error_message=refused.message
                )
            return _Producing(
                partition_index=index,
                error_code=Code.NONE,
                active_producers=[
                    _Producer(**producer._asdict()) for producer in partition.log.active_producers()
                ],
            )

        call.reply(
            DescribeProducersResponse(
                topics=[
                    _Produced(
                        name=topic.name,
                        partitions=[
                            answer(topic.name, partition_index)
                            for partition_index in topic.partition_indexes
                        ],
                    )
                    for topic in call.request.topics
                ]
            )
        )

    def _each(
        self, call: Call, response: Any, topic_class: Any, answer: Callable[[str, Any], Any]
    ) -> None:
        call.reply(
            response(
                topics=[
                    topic_class(
                        topic=topic.topic,
                        partitions=[
                            answer(topic.topic, partition) for partition in topic.partitions
                        ],
                    )
                    for topic in call.request.topics
                ]
            )
        )

    def _leader(self, call: Call, name: str, index: int, epoch: int) -> Partition:
        """The partition, if this broker leads it in this epoch. Raises Refused."""
        partition = self._topics.partition(name, index)
        if partition is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        check_epoch(partition, epoch)
        if partition.leader != call.node:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER)
        return partition


def _check_known(partition: Partition, version: int) -> None:
    """A leader does not know the high watermark before its followers have what it began with
    (KIP-207). Raises Refused."""
    if partition.log.high_watermark < partition.epoch_start:
        known = version >= _KNOWS_NOT_AVAILABLE
        raise Refused(Code.OFFSET_NOT_AVAILABLE if known else Code.LEADER_NOT_AVAILABLE)
