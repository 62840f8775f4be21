"""All transactional ids of a coordinator: found, kept, timed, and their markers written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from aktor.broker.call import Journal
from aktor.broker.codes import Code, Refused
from aktor.broker.transactions.alarms import Alarms
from aktor.broker.transactions.ports import Ports
from aktor.broker.transactions.producer_ids import ProducerIds
from aktor.broker.transactions.settings import TransactionSettings
from aktor.broker.transactions.transaction import NONE, State, Transaction

__all__ = ["Registry"]


class Registry:
    """Owns the transactions. Whatever happens to one is kept before anybody is told."""

    def __init__(self, *, settings: TransactionSettings, journal: Journal, ports: Ports) -> None:
        self.producer_ids = ProducerIds(journal)
        self.transactions: dict[str, Transaction] = {}
        self._settings = settings
        self._journal = journal
        self._ports = ports
        self._alarms = Alarms()

    # Finding one.

    def known(self, transactional_id: str | None) -> Transaction:
        """Raises INVALID_REQUEST without an id, INVALID_PRODUCER_ID_MAPPING for an unknown one."""
        if not transactional_id:
            raise Refused(Code.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refused(Code.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def of_producer(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int
    ) -> Transaction:
        """Raises INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED for any producer but its own."""
        transaction = self.known(transactional_id)
        if transaction.producer_id != producer_id:
            raise Refused(Code.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != producer_epoch:
            raise Refused(Code.PRODUCER_FENCED)
        return transaction

    def create(self, transactional_id: str, timeout_ms: int, now: float) -> Transaction:
        """A new one, which has a producer id and no epoch; not kept yet."""
        transaction = Transaction(
            transactional_id=transactional_id,
            producer_id=self.producer_ids.take(),
            timeout_ms=timeout_ms,
            updated=now,
        )
        self.transactions[transactional_id] = transaction
        return transaction

    # What happens to one.

    def initialize(
        self,
        transaction: Transaction,
        expected: tuple[int, int] | None,
        timeout_ms: int,
        now: float,
    ) -> None:
        """Give its next epoch; or a new producer id, where epochs have run out."""
        epoch = transaction.producer_epoch
        if transaction.exhausted and (expected is None or expected[1] == epoch):
            transaction.rotate(
                self.producer_ids.take(),
                last_epoch=NONE if expected is None else epoch,
                timeout_ms=timeout_ms,
                now=now,
            )
        else:
            # With an exhausted epoch and another one expected Kafka fails, by an exception of its
            # own; here it is a retry or a fenced producer, as with any other epoch.
            transaction.initialize(expected, timeout_ms, now)
        self._keep(transaction)

    def add(
        self,
        transaction: Transaction,
        *,
        partitions: Iterable[tuple[str, int]] = (),
        groups: Iterable[str] = (),
        bumps_epoch: bool,
        now: float,
    ) -> None:
        """Take them in. Raises CONCURRENT_TRANSACTIONS while the last transaction is ending."""
        if transaction.prepared:
            raise Refused(Code.CONCURRENT_TRANSACTIONS)
        in_it = transaction.partitions.keys() >= {*partitions} and (
            transaction.groups.keys() >= {*groups}
        )
        if transaction.state is State.ONGOING and in_it:
            return
        transaction.add(partitions, groups, bumps_epoch=bumps_epoch, now=now)
        self._keep(transaction)

    def end(self, transaction: Transaction, *, commit: bool, bumps_epoch: bool, now: float) -> None:
        """Decide how it ends. The markers are for `write_markers`, after the answer."""
        transaction.end(
            commit=commit,
            bumps_epoch=bumps_epoch,
            next_producer_id=self._next_producer_id(transaction) if bumps_epoch else NONE,
            now=now,
        )
        self._keep_decided(transaction, now)

    def abort(self, transaction: Transaction, now: float) -> None:
        """End it against its producer, whose epoch is of no use from now on."""
        transaction.fence(next_producer_id=self._next_producer_id(transaction), now=now)
        self._keep_decided(transaction, now)
        self.write_markers(transaction, now)

    def _keep_decided(self, transaction: Transaction, now: float) -> None:
        # Should a port fail before all markers are written, there is another try.
        transaction.retry_at = now + self._settings.marker_retry_backoff
        self._keep(transaction)

    def _next_producer_id(self, transaction: Transaction) -> int:
        """A new id where the bump at the end takes the last epoch."""
        return self.producer_ids.take() if transaction.exhausted else NONE

    def write_markers(self, transaction: Transaction, now: float) -> None:
        """Write what is missing; complete the transaction, or see to it that it is tried again."""
        commit = transaction.state is State.PREPARE_COMMIT
        for topic, partition in list(transaction.partitions):
            # A partition that was deleted needs no marker.
            if not self._ports.partition_exists(topic, partition) or self._ports.write_marker(
                topic,
                partition,
                transaction.producer_id,
                transaction.producer_epoch,
                commit=commit,
                coordinator_epoch=transaction.coordinator_epoch,
                now=now,
            ):
                del transaction.partitions[topic, partition]
        for group in list(transaction.groups):
            self._ports.end_group_transaction(
                group, transaction.producer_id, commit=commit, now=now
            )
            del transaction.groups[group]

        if transaction.partitions:
            transaction.retry_at = now + self._settings.marker_retry_backoff
        else:
            transaction.complete(now)
        # What is left is kept too, so that a restart writes few markers a second time.
        self._keep(transaction)

    def _keep(self, transaction: Transaction) -> None:
        self._journal.put("transaction", (transaction.transactional_id,), transaction.to_value())
        self._alarms.ask(transaction.transactional_id, self._due(transaction))

    # Time, moves, restarts.

    def wake_at(self) -> float:
        """When `tick` is due; infinity if nothing is waiting."""
        return self._alarms.next()

    def tick(self, now: float) -> None:
        """Write the markers left over, abort what is open too long, forget unused ids."""
        for transactional_id in self._alarms.due(now):
            transaction = self.transactions.get(transactional_id)
            if transaction is None:
                continue
            if self._due(transaction) > now:
                self._alarms.ask(transactional_id, self._due(transaction))
            elif transaction.prepared:
                self.write_markers(transaction, now)
            elif transaction.state is State.ONGOING:
                self.abort(transaction, now)
            else:
                self._forget(transaction, now)

    def _due(self, transaction: Transaction) -> float:
        """When something happens to it without a request."""
        if transaction.prepared:
            return transaction.retry_at
        if transaction.state is State.ONGOING and transaction.started is not None:
            deadline = transaction.started + transaction.timeout_ms / 1000
            interval = self._settings.abort_check_interval
            return math.ceil(deadline / interval) * interval if interval else deadline
        return transaction.updated + self._settings.id_expiration

    def _forget(self, transaction: Transaction, now: float) -> None:
        transaction.expire(now)
        self._journal.put("transaction", (transaction.transactional_id,), None)
        del self.transactions[transaction.transactional_id]

    def moved(self, moved: Callable[[str], bool], now: float) -> None:
        """Go on as another coordinator, with what was kept, for the ids of which `moved` holds."""
        for transaction in self.transactions.values():
            if not moved(transaction.transactional_id):
                continue
            transaction.coordinator_epoch += 1
            self._keep(transaction)
            if transaction.prepared:
                self.write_markers(transaction, now)

    def restore(self, transactional_id: str, value: Any) -> None:
        """Take one over as it was kept. Markers that were missing are due at once."""
        transaction = Transaction.from_value(transactional_id, value)
        transaction.coordinator_epoch += 1
        self.transactions[transactional_id] = transaction
        self._alarms.ask(transactional_id, self._due(transaction))
