"""The transaction coordinator: gives producer ids, opens and ends transactions, fences the old."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final

from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
)

from aktor.broker.call import Call, Journal, NoJournal
from aktor.broker.codes import Code, Refused
from aktor.broker.transactions.ending import is_retry, may_end
from aktor.broker.transactions.listing import describe, matching
from aktor.broker.transactions.ports import Ports
from aktor.broker.transactions.registry import Registry
from aktor.broker.transactions.settings import TransactionSettings
from aktor.broker.transactions.transaction import NONE, State, Transaction

__all__ = ["TransactionCoordinator"]

_TopicPartition = tuple[str, int]

#: The first EndTxn of clients that let each transaction have its own epoch (KIP-890).
_BUMPING_END_TXN: Final = 5

#: The first AddPartitionsToTxn that brokers send for their clients, many transactions at once.
_BATCHED_ADD_PARTITIONS: Final = 4


class TransactionCoordinator:
    """Answers for all transactional ids; every request at once.

    A decided transaction is kept before the answer; its markers are written after it, and again
    on `tick` for as long as some partition has no leader. That this broker is the coordinator is
    checked by the caller. Nothing here is left to chance, so `rng` is not used: producer ids are
    counted, as Kafka's are.
    """

    def __init__(
        self,
        *,
        rng: Random,
        settings: TransactionSettings,
        journal: Journal | None = None,
        ports: Ports,
    ) -> None:
        self._settings = settings
        self._ports = ports
        self._registry = Registry(settings=settings, journal=journal or NoJournal(), ports=ports)

    # InitProducerId: the producer of an id.

    def handle_init_producer_id(self, call: Call) -> None:
        """A producer id of its own; for a transactional id its next epoch, which fences others."""
        try:
            producer_id, epoch = self._initialize(call.request, call.now)
        except Refused as refused:
            code = _in_version(refused.code, knows_fenced=call.version >= 4)
            call.reply(InitProducerIdResponse(error_code=code, producer_epoch=NONE))
        else:
            call.reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))

    def _initialize(self, request: Any, now: float) -> tuple[int, int]:
        expected = _expected(request)
        if request.transactional_id is None:
            return self._registry.producer_ids.take(), 0
        self._check_initialize(request)

        timeout_ms = request.transaction_timeout_ms
        transaction = self._registry.transactions.get(request.transactional_id)
        if transaction is None:
            transaction = self._registry.create(request.transactional_id, timeout_ms, now)
        elif expected is not None:
            transaction.check_successor(*expected)
        if transaction.prepared:
            raise Refused(Code.CONCURRENT_TRANSACTIONS)
        if transaction.state is State.ONGOING:
            self._registry.abort(transaction, now)
            # The client asks again, and is given an epoch that is higher still.
            raise Refused(Code.CONCURRENT_TRANSACTIONS)
        self._registry.initialize(transaction, expected, timeout_ms, now)
        return transaction.identity

    def _check_initialize(self, request: Any) -> None:
        if not request.transactional_id:
            raise Refused(Code.INVALID_REQUEST)
        # Two-phase commit (KIP-939) is off, as `transaction.two.phase.commit.enable` is by default.
        if request.enable2_pc:
            raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            raise Refused(Code.UNSUPPORTED_VERSION)
        if not 0 < request.transaction_timeout_ms <= self._settings.max_timeout * 1000:
            raise Refused(Code.INVALID_TRANSACTION_TIMEOUT)

    # AddPartitionsToTxn, AddOffsetsToTxn: what is in it.

    def handle_add_partitions_to_txn(self, call: Call) -> None:
        """Add partitions: to one transaction for a client, to many for a broker (v4)."""
        request = call.request
        if call.version < _BATCHED_ADD_PARTITIONS:
            codes = self._add_partitions(
                request.v3_and_below_transactional_id,
                (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
                _partitions(request.v3_and_below_topics),
                call,
            )
            call.reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(codes)))
            return

        results = []
        for transaction in request.transactions:
            add = self._verify_partitions if transaction.verify_only else self._add_partitions
            identity = (transaction.producer_id, transaction.producer_epoch)
            codes = add(
                transaction.transactional_id, identity, _partitions(transaction.topics), call
            )
            results.append(
                AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id, topic_results=_results(codes)
                )
            )
        call.reply(AddPartitionsToTxnResponse(results_by_transaction=results))

    def _add_partitions(
        self,
        transactional_id: str,
        identity: tuple[int, int],
        partitions: list[_TopicPartition],
        call: Call,
    ) -> dict[_TopicPartition, Code]:
        """All of them or none."""
        if missing := self._missing(partitions):
            return missing
        batched = call.version >= _BATCHED_ADD_PARTITIONS
        code = Code.NONE
        try:
            transaction = self._registry.of_producer(transactional_id, *identity)
            self._registry.add(
                transaction, partitions=partitions, bumps_epoch=batched, now=call.now
            )
        except Refused as refused:
            code = _in_version(refused.code, knows_fenced=call.version >= 2)
        return dict.fromkeys(partitions, code)

    def _verify_partitions(
        self,
        transactional_id: str,
        identity: tuple[int, int],
        partitions: list[_TopicPartition],
        call: Call,
    ) -> dict[_TopicPartition, Code]:
        """Which of them are in the transaction; nothing is added."""
        if missing := self._missing(partitions):
            return missing
        try:
            transaction = self._registry.of_producer(transactional_id, *identity)
            if transaction.prepared:
                raise Refused(Code.CONCURRENT_TRANSACTIONS)
        except Refused as refused:
            return dict.fromkeys(partitions, refused.code)
        return {
            partition: Code.NONE
            if partition in transaction.partitions
            else Code.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def _missing(self, partitions: list[_TopicPartition]) -> dict[_TopicPartition, Code]:
        """What to answer if some do not exist; empty if all do."""
        missing = [
            partition for partition in partitions if not self._ports.partition_exists(*partition)
        ]
        if not missing:
            return {}
        codes = dict.fromkeys(partitions, Code.OPERATION_NOT_ATTEMPTED)
        return codes | dict.fromkeys(missing, Code.UNKNOWN_TOPIC_OR_PARTITION)

    def handle_add_offsets_to_txn(self, call: Call) -> None:
        """Add a group, whose offsets are to be committed with the records."""
        request = call.request
        code = Code.NONE
        try:
            transaction = self._registry.of_producer(
                request.transactional_id, request.producer_id, request.producer_epoch
            )
            self._registry.add(
                transaction, groups=[request.group_id], bumps_epoch=False, now=call.now
            )
        except Refused as refused:
            code = _in_version(refused.code, knows_fenced=call.version >= 2)
        call.reply(AddOffsetsToTxnResponse(error_code=code))

    # What leaders and group coordinators ask when a producer writes (KIP-890).

    def add_partition_implicitly(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        now: float,
    ) -> None:
        """Add the partition a leader is asked to append to by Produce v12 or later.

        Raises Refused with the code the leader answers: CONCURRENT_TRANSACTIONS (before that it
        may try again for a moment, as Kafka's does), INVALID_PRODUCER_EPOCH,
        INVALID_PRODUCER_ID_MAPPING.
        """
        transaction = self._for_leader(transactional_id, producer_id, producer_epoch)
        self._registry.add(transaction, partitions=[(topic, partition)], bumps_epoch=True, now=now)

    def add_group_implicitly(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        group_id: str,
        now: float,
    ) -> None:
        """Add the group of a TxnOffsetCommit v5 or later; raises as `add_partition_implicitly`."""
        transaction = self._for_leader(transactional_id, producer_id, producer_epoch)
        self._registry.add(transaction, groups=[group_id], bumps_epoch=True, now=now)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        abortable: bool = True,
    ) -> None:
        """Raise Refused unless the partition was added to the producer's transaction.

        `abortable` says whether the client knows TRANSACTION_ABORTABLE (Produce v11 and later);
        to others it is INVALID_TXN_STATE. Also raised: INVALID_PRODUCER_EPOCH,
        INVALID_PRODUCER_ID_MAPPING and, while the last one is still ending, NOT_ENOUGH_REPLICAS,
        which older clients retry without asking for metadata.
        """
        transaction = self._for_leader(transactional_id, producer_id, producer_epoch)
        if transaction.prepared:
            raise Refused(
                Code.NOT_ENOUGH_REPLICAS,
                "Unable to verify the partition has been added to the transaction. "
                "Underlying error: CONCURRENT_TRANSACTIONS",
            )
        if (topic, partition) not in transaction.partitions:
            raise _not_in_it(abortable)

    def verify_group(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        group_id: str,
        *,
        abortable: bool = True,
    ) -> None:
        """The same for the group of a TxnOffsetCommit, where `abortable` begins with v4.

        While the last transaction is still ending CONCURRENT_TRANSACTIONS is raised as it is.
        """
        transaction = self._for_leader(transactional_id, producer_id, producer_epoch)
        if transaction.prepared:
            raise Refused(Code.CONCURRENT_TRANSACTIONS)
        if group_id not in transaction.groups:
            raise _not_in_it(abortable)

    def _for_leader(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> Transaction:
        """The producer's transaction; refused in the words producers expect from a leader."""
        try:
            return self._registry.of_producer(transactional_id, producer_id, producer_epoch)
        except Refused as refused:
            raise Refused(_in_version(refused.code, knows_fenced=False)) from None

    # EndTxn: commit or abort.

    def handle_end_txn(self, call: Call) -> None:
        """Decide it, answer, then write the markers. From v5 on the answer holds the next epoch."""
        request = call.request
        bumps_epoch = call.version >= _BUMPING_END_TXN
        try:
            transaction, retry = self._to_end(request, bumps_epoch)
            open_ = may_end(transaction, commit=request.committed, retry=retry)
        except Refused as refused:
            code = _in_version(refused.code, knows_fenced=call.version >= 2)
            call.reply(EndTxnResponse(error_code=code))
            return

        if open_:
            self._registry.end(
                transaction, commit=request.committed, bumps_epoch=bumps_epoch, now=call.now
            )
        producer_id, epoch = transaction.identity if bumps_epoch else (NONE, NONE)
        call.reply(EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))
        if open_:
            self._registry.write_markers(transaction, call.now)

    def _to_end(self, request: Any, bumps_epoch: bool) -> tuple[Transaction, bool]:
        """The transaction meant, and whether its producer may have asked for this end before."""
        identity = (request.producer_id, request.producer_epoch)
        if not bumps_epoch:
            # While epochs stay, a retry looks like the first time, and may be one.
            return self._registry.of_producer(request.transactional_id, *identity), True
        transaction = self._registry.known(request.transactional_id)
        return transaction, is_retry(transaction, *identity)

    # Looking at them.

    def handle_list_transactions(self, call: Call) -> None:
        """The transactions of this coordinator that pass the request's filters."""
        call.reply(matching(self._registry.transactions.values(), call.request, call.now))

    def handle_describe_transactions(self, call: Call) -> None:
        """Everything about the transactions that are named."""
        call.reply(
            describe(
                self._registry.transactions,
                call.request.transactional_ids,
                self._settings.offsets_topic_partitions,
            )
        )

    # Time, moves, restarts.

    def wake_at(self) -> float:
        """When `tick` is due: seconds since the epoch, infinity if nothing is waiting."""
        return self._registry.wake_at()

    def tick(self, now: float) -> None:
        """Write the markers left over, abort what is open too long, forget unused ids."""
        self._registry.tick(now)

    def coordinator_moved(self, moved: Callable[[str], bool], now: float) -> None:
        """Another broker took over the ids for which `moved` holds.

        It works from what was kept, which is everything: it goes on with markers that are missing
        under a higher coordinator epoch, and timeouts count from when a transaction began.
        """
        self._registry.moved(moved, now)

    def restore(self, kept: Mapping[tuple[str, tuple[str | int, ...]], Any]) -> None:
        """Take over what the journal kept under (kind, key); other kinds are passed over.

        Markers that were missing are written at the next `tick`, which is due at once.
        """
        for (kind, key), value in kept.items():
            if kind == "producer-id":
                self._registry.producer_ids.restore(value)
            elif kind == "transaction":
                self._registry.restore(str(key[0]), value)


def _in_version(code: Code, *, knows_fenced: bool) -> Code:
    """PRODUCER_FENCED came late: older versions, and leaders, say INVALID_PRODUCER_EPOCH."""
    if code is Code.PRODUCER_FENCED and not knows_fenced:
        return Code.INVALID_PRODUCER_EPOCH
    return code


def _not_in_it(abortable: bool) -> Refused:
    if abortable:
        return Refused(Code.TRANSACTION_ABORTABLE)
    return Refused(Code.INVALID_TXN_STATE, "Partition was not added to the transaction")


def _expected(request: Any) -> tuple[int, int] | None:
    """The identity an InitProducerId says its producer has (v3); None if it has none yet."""
    expected = (request.producer_id, request.producer_epoch)
    if expected == (NONE, NONE):
        return None
    if NONE in expected:
        raise Refused(Code.INVALID_REQUEST)
    return expected


def _partitions(topics: Iterable[Any]) -> list[_TopicPartition]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def _results(codes: dict[_TopicPartition, Code]) -> list[Any]:
    """AddPartitionsToTxnTopicResults."""
    topic_result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), code in codes.items():
        by_topic.setdefault(topic, []).append(
            topic_result.AddPartitionsToTxnPartitionResult(
                partition_index=partition, partition_error_code=code
            )
        )
    return [
        topic_result(name=topic, results_by_partition=results)
        for topic, results in by_topic.items()
    ]
