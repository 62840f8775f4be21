"""Produce: record batches into the logs, answered when enough replicas have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.producer import ProduceResponse

from aktor.broker.call import CLOSE, Call
from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import peek_batch
from aktor.broker.partition import Partition
from aktor.broker.timers import Waiting, WaitingList
from aktor.broker.topics import INTERNAL_TOPICS
from aktor.broker.topology import Topology
from aktor.broker.transactions import TransactionCoordinator
from aktor.records.batch import BatchHeader

__all__ = ["Producing"]

_Topic: Final = ProduceResponse.TopicProduceResponse
_Partition: Final = _Topic.PartitionProduceResponse
_Leader: Final = _Partition.LeaderIdAndEpoch
_Error: Final = _Partition.BatchIndexAndErrorMessage
_Endpoint: Final = ProduceResponse.NodeEndpoint

#: From this version on topics have ids instead of names.
_BY_ID: Final = 13
#: From this version on a transactional batch adds its partition to the transaction (KIP-890).
_IMPLICIT_ADD: Final = 12
#: From this version on a client knows TRANSACTION_ABORTABLE.
_KNOWS_ABORTABLE: Final = 11


#: Errors that are found before the log checks the batch: the answer has no log start offset.
_BEFORE_THE_LOG: Final = (
    Code.CORRUPT_MESSAGE,
    Code.MESSAGE_TOO_LARGE,
    Code.RECORD_LIST_TOO_LARGE,
)


@dataclass(slots=True)
class _Written:
    """The result for one partition; replicas must have the records up to `last_offset`."""

    answer: Any
    partition: Partition | None = None
    last_offset: int = -1


class Producing:
    """The Produce requests of all brokers."""

    def __init__(self, topology: Topology, transactions: TransactionCoordinator) -> None:
        self._topology = topology
        self._topics = topology.topics
        self._transactions = transactions
        self.waiting = WaitingList()

    def handle(self, call: Call) -> None:
        """Append, and answer by `acks`: never, at once, or when all in-sync replicas have it."""
        request = call.request
        written: list[_Written] = []
        response = ProduceResponse(responses=[])
        for topic in request.topic_data:
            name = self._name(call, topic)
            answered = _Topic(name=name or "", topic_id=topic.topic_id, partition_responses=[])
            # If a partition is named twice, only the last one counts, as in Kafka.
            for data in {data.index: data for data in topic.partition_data}.values():
                result = self._write(call, name, data)
                written.append(result)
                answered.partition_responses.append(result.answer)
            response.responses.append(answered)
        self._point_to_leaders(response, written)
        if request.acks == 0:
            # With acks=0 there is no answer: an error closes the connection (KafkaApis).
            call.reply(CLOSE if any(result.answer.error_code for result in written) else None)
        elif request.acks == 1 or not _missing(written):
            call.reply(response)
        else:
            self._wait(call, response, written)

    def _name(self, call: Call, topic: Any) -> str | None:
        if call.version < _BY_ID:
            return str(topic.name)
        return self._topics.name(topic.topic_id) if topic.topic_id else None

    def _write(self, call: Call, name: str | None, data: Any) -> _Written:
        try:
            if call.request.acks not in (-1, 0, 1):
                raise Refused(Code.INVALID_REQUIRED_ACKS)
            if name is None:
                raise Refused(Code.UNKNOWN_TOPIC_ID)
            if name in INTERNAL_TOPICS:
                raise Refused(Code.INVALID_TOPIC_EXCEPTION)
            partition = self._topics.partition(name, data.index)
            if partition is None:
                raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
            return self._append(call, partition, data)
        except Refused as refused:
            return _Written(answer=_refusal(data.index, refused))

    def _append(self, call: Call, partition: Partition, data: Any) -> _Written:
        """Raises Refused, unless the leader has moved: then the answer names the new leader."""
        if partition.leader != call.node:
            answer = _refusal(data.index, Refused(Code.NOT_LEADER_OR_FOLLOWER))
            return _Written(answer=answer, partition=partition)
        if call.request.acks == -1 and not partition.enough_in_sync:
            raise Refused(
                Code.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {len(partition.isr)} is insufficient to satisfy "
                f"the min.isr requirement of {partition.min_insync} for partition "
                f"{partition.topic}-{partition.index}",
            )
        records = data.records
        try:
            batch = peek_batch(records, api_version=call.version)
        except Refused as refused:
            told = refused.code == Code.CORRUPT_MESSAGE
            return _Written(answer=_refusal(data.index, refused, told=told))
        try:
            self._check_transaction(call, partition, batch)
        except Refused as refused:
            return _Written(answer=_refusal(data.index, refused, told=True))
        try:
            appended = partition.append(records, now=call.now, api_version=call.version)
        except Refused as refused:
            start = -1 if refused.code in _BEFORE_THE_LOG else partition.log.start_offset
            return _Written(answer=_refusal(data.index, refused, log_start_offset=start))
        answer = _Partition(
            index=data.index,
            error_code=Code.NONE,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time,
            log_start_offset=partition.log.start_offset,
            record_errors=[],
            error_message=None,
        )
        return _Written(answer=answer, partition=partition, last_offset=appended.last_offset)

    def _check_transaction(self, call: Call, partition: Partition, batch: BatchHeader) -> None:
        """A transactional batch belongs to an open transaction, or opens it. Raises Refused."""
        if not batch.transactional:
            return
        if call.request.transactional_id is None:
            raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        transaction = (call.request.transactional_id, batch.producer_id, batch.producer_epoch)
        place = (partition.topic, partition.index)
        if call.version >= _IMPLICIT_ADD:
            self._transactions.add_partition_implicitly(*transaction, *place, call.now)
        else:
            self._transactions.verify(
                *transaction, *place, abortable=call.version >= _KNOWS_ABORTABLE
            )

    def _point_to_leaders(self, response: Any, written: list[_Written]) -> None:
        """The answer of a broker that does not lead the partition names the leader (KIP-951)."""
        leaders = set()
        for result in written:
            if result.partition and result.answer.error_code == Code.NOT_LEADER_OR_FOLLOWER:
                leaders.add(result.partition.leader)
                result.answer.current_leader = _Leader(
                    leader_id=result.partition.leader, leader_epoch=result.partition.leader_epoch
                )
                result.answer.tags = {"current_leader"}
        if leaders:
            response.node_endpoints = self._topology.endpoints(_Endpoint, leaders)
            response.tags = {"node_endpoints"}

    # -- acks=all

    def _wait(self, call: Call, response: Any, written: list[_Written]) -> None:
        def again(late: bool) -> bool:
            for partition, answer in _missing(written):
                if code := self._lost(call, partition):
                    answer.error_code = code
                elif late:
                    answer.error_code = Code.REQUEST_TIMED_OUT
            if _missing(written):
                return False
            self._point_to_leaders(response, written)
            call.reply(response)
            return True

        self.waiting.add(
            Waiting(
                call=call,
                deadline=call.now + call.request.timeout_ms / 1000,
                places=frozenset(
                    (partition.topic, partition.index) for partition, _ in _missing(written)
                ),
                again=again,
            )
        )

    def _lost(self, call: Call, partition: Partition) -> Code | None:
        """The error if this broker cannot learn that all replicas have it (DelayedProduce)."""
        if self._topics.partition(partition.topic, partition.index) is not partition:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        return Code.NOT_LEADER_OR_FOLLOWER if partition.leader != call.node else None


def _missing(written: list[_Written]) -> list[tuple[Partition, Any]]:
    """Partitions whose in-sync replicas do not all have the records yet, and their answers."""
    return [
        (result.partition, result.answer)
        for result in written
        if result.partition
        and not result.answer.error_code
        and result.partition.log.high_watermark <= result.last_offset
    ]


def _refusal(
    index: int, refused: Refused, *, log_start_offset: int = -1, told: bool = False
) -> Any:
    """`told`: the answer also has an error message, as in Kafka for a few errors."""
    return _Partition(
        index=index,
        error_code=refused.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=log_start_offset,
        record_errors=[
            _Error(batch_index=index, batch_index_error_message=why)
            for index, why in refused.records
        ],
        error_message=refused.message if told or refused.records else None,
    )
