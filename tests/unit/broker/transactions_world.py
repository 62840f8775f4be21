"""A transaction coordinator with partitions and groups around it, and producers that ask it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.transactions import TransactionCoordinator, TransactionSettings
from aktor.broker.wire import APIS
from tests.unit.broker.harness import Asked, World


@dataclass(frozen=True, slots=True)
class Marker:
    place: tuple[str, int]
    producer: tuple[int, int]
    commit: bool
    coordinator_epoch: int = 0


@dataclass
class Partitions:
    """The coordinator's ports: what was done to partitions and groups is written down."""

    counts: dict[str, int] = field(default_factory=lambda: {"orders": 3, "bills": 1})
    leaderless: set[tuple[str, int]] = field(default_factory=set)
    markers: list[Marker] = field(default_factory=list)
    ended: list[tuple[str, int, bool]] = field(default_factory=list)

    def partition_exists(self, topic: str, partition: int) -> bool:
        return 0 <= partition < self.counts.get(topic, 0)

    def write_marker(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now: float,
    ) -> bool:
        if (topic, partition) in self.leaderless:
            return False
        producer = (producer_id, producer_epoch)
        self.markers.append(Marker((topic, partition), producer, commit, coordinator_epoch))
        return True

    def end_group_transaction(
        self, group_id: str, producer_id: int, *, commit: bool, now: float
    ) -> None:
        self.ended.append((group_id, producer_id, commit))


class TransactionsWorld(World):
    """One coordinator at a time, in time that is passed in."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(seed=1)
        self.settings = TransactionSettings(**settings)
        self.partitions = Partitions()
        self.coordinator = self._start()

    def _start(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            rng=self.rng,
            settings=self.settings,
            journal=self.journal,
            ports=self.partitions,
        )

    @property
    def machine(self) -> TransactionCoordinator:
        return self.coordinator

    def restart(self) -> None:
        """Kill the coordinator; the next one has what the journal kept."""
        self.coordinator = self._start()
        self.coordinator.restore(self.journal.values())

    def ask(self, request: Any, version: int) -> Any:
        """The answer to a request; both are encoded in this version, which need not be one that
        the broker offers to clients."""
        api = APIS[request.API_KEY]
        asked = Asked(api, version)
        call = Call(
            api.request.decode(request.encode(version=version), version=version),
            answer=asked.take,
            version=version,
            now=self.now,
        )
        _HANDLERS[api.name](self.coordinator, call)
        return asked.answer

    def describe(self, transactional_id: str = "payer") -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (state,) = self.ask(request, 0).transaction_states
        return state

    def state(self, transactional_id: str = "payer") -> str:
        return str(self.describe(transactional_id).transaction_state)


_HANDLERS = {
    "InitProducerId": TransactionCoordinator.handle_init_producer_id,
    "AddPartitionsToTxn": TransactionCoordinator.handle_add_partitions_to_txn,
    "AddOffsetsToTxn": TransactionCoordinator.handle_add_offsets_to_txn,
    "EndTxn": TransactionCoordinator.handle_end_txn,
    "ListTransactions": TransactionCoordinator.handle_list_transactions,
    "DescribeTransactions": TransactionCoordinator.handle_describe_transactions,
}


@dataclass
class Producer:
    """A client with the id and epoch it was last told.

    Without `bumps` it is of the first protocol, where the epoch stays from one transaction to the
    next; with it of KIP-890, where leaders add partitions and each end gives a new epoch.
    """

    world: TransactionsWorld
    transactional_id: str | None = "payer"
    timeout_ms: int = 60_000
    bumps: bool = False
    id: int = -1
    epoch: int = -1

    def init(self, *, anew: bool = True, version: int = 5, **fields: Any) -> Code:
        """Ask for an epoch: as a producer that has just started or, not anew, goes on (KIP-360)."""
        mine = {} if anew else {"producer_id": self.id, "producer_epoch": self.epoch}
        asked = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.timeout_ms,
        }
        request = InitProducerIdRequest(**(asked | mine | fields))
        answer = self.world.ask(request, version)
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return Code(answer.error_code)

    def add(self, *places: tuple[str, int]) -> Code:
        """Have partitions in the transaction, by the way of the protocol."""
        if not self.bumps:
            (code,) = {Code(code) for code in self.add_all(*places).values()} or {Code.NONE}
            return code
        try:
            for place in places:
                self.world.coordinator.add_partition_implicitly(
                    self.transactional_id or "", self.id, self.epoch, *place, self.world.now
                )
        except Refused as refused:
            return refused.code
        return Code.NONE

    def add_all(self, *places: tuple[str, int], version: int = 3) -> dict[tuple[str, int], int]:
        """AddPartitionsToTxn of a client: the code for each partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=_topics(places),
        )
        return _codes(self.world.ask(request, version).results_by_topic_v3_and_below)

    def add_as_broker(self, *places: tuple[str, int], verify_only: bool) -> dict[Any, int]:
        """AddPartitionsToTxn of a leader on behalf of this client."""
        one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=_topics(places),
        )
        answer = self.world.ask(AddPartitionsToTxnRequest(transactions=[one]), 5)
        (result,) = answer.results_by_transaction
        assert result.transactional_id == self.transactional_id
        return _codes(result.topic_results)

    def add_group(self, group_id: str, *, version: int = 4) -> Code:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        return Code(self.world.ask(request, version).error_code)

    def end(self, *, commit: bool, learn: bool = True, version: int | None = None) -> Code:
        """Commit or abort; not to `learn` the new epoch is not to get the answer."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        version = (5 if self.bumps else 4) if version is None else version
        answer = self.world.ask(request, version)
        if self.bumps and learn and not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return Code(answer.error_code)

    def verify(self, *place: Any, **how: Any) -> Code:
        """What a leader is told before it appends."""
        try:
            self.world.coordinator.verify(
                self.transactional_id or "", self.id, self.epoch, *place, **how
            )
        except Refused as refused:
            return refused.code
        return Code.NONE

    def copy(self) -> Producer:
        """The same client, to go another way."""
        return Producer(
            self.world, self.transactional_id, self.timeout_ms, self.bumps, self.id, self.epoch
        )


def _topics(places: tuple[tuple[str, int], ...]) -> list[Any]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]


def _codes(topics: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in topics
        for one in topic.results_by_partition
    }
