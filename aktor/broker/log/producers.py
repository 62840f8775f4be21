"""What a partition knows of its producers: their sequences and transactions (KIP-98)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple

from aktor.broker.codes import Code, Refused
from aktor.records.batch import BatchHeader

__all__ = ["ActiveProducer", "Producers", "Sent"]

_NO_EPOCH: Final = -1
_NO_SEQUENCE: Final = -1
_MAX_SEQUENCE: Final = 2**31 - 1
_EXPIRATION_MS: Final = 24 * 3_600_000


class Sent(NamedTuple):
    """A batch that a producer has written."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ActiveProducer(NamedTuple):
    """One producer, as DescribeProducers shows it; -1 where there is nothing."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class _Aborted(NamedTuple):
    """An aborted transaction; `last_offset` is that of its marker."""

    last_offset: int
    first_offset: int
    producer_id: int
    last_stable_offset: int


class _Producer:
    __slots__ = ("coordinator_epoch", "epoch", "last_offset", "sent", "timestamp", "txn_start")

    #: So many batches may be in flight, so many are remembered (ProducerStateEntry).
    REMEMBERED: Final = 5

    def __init__(self) -> None:
        self.epoch = _NO_EPOCH
        self.coordinator_epoch = -1
        self.timestamp = -1
        self.txn_start = -1
        self.last_offset = -1
        self.sent: deque[Sent] = deque(maxlen=self.REMEMBERED)

    @property
    def last_sequence(self) -> int:
        return self.sent[-1].last_sequence if self.sent else _NO_SEQUENCE

    def move_to(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.sent.clear()
            self.epoch = epoch


class Producers:
    """Owns the producers, the ongoing transactions and the aborted ones (ProducerStateManager)."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        #: First offset of each ongoing transaction: its producer. In the order of the offsets.
        self._ongoing: dict[int, int] = {}
        #: First offset: marker's offset, of those whose marker is not replicated yet.
        self._unreplicated: dict[int, int] = {}
        self._aborted: list[_Aborted] = []

    @property
    def empty(self) -> bool:
        """Whether none has ever written."""
        return not (self._producers or self._unreplicated or self._aborted)

    # -- before a write

    def duplicate_of(self, header: BatchHeader) -> Sent | None:
        """The batch that this one is a repetition of, if it is among the last five."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        for sent in producer.sent:
            if (
                sent.first_sequence == header.base_sequence
                and sent.last_sequence == header.last_sequence
            ):
                return sent
        return None

    def validate(self, header: BatchHeader) -> None:
        """Raise Refused unless the batch follows what its producer wrote (ProducerAppendInfo)."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            # All it wrote may be deleted, so any sequence is right (KAFKA-5494 and KIP-360).
            return
        _validate_epoch(producer, header.producer_id, header.producer_epoch)
        _validate_sequence(producer, header)
        if producer.txn_start >= 0 and not header.transactional:
            raise Refused(
                Code.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id}",
            )

    def validate_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raise Refused if the marker is of an old producer or an old coordinator."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        _validate_epoch(producer, producer_id, epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise Refused(
                Code.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {producer_id}: {coordinator_epoch}"
                f" (zombie), {producer.coordinator_epoch} (current)",
            )

    # -- after a write

    def wrote(self, header: BatchHeader) -> None:
        """A batch of data is in the log."""
        producer = self._producers.setdefault(header.producer_id, _Producer())
        producer.move_to(header.producer_epoch)
        producer.timestamp = header.max_timestamp
        producer.last_offset = header.last_offset
        producer.sent.append(
            Sent(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        )
        if header.transactional and producer.txn_start < 0:
            producer.txn_start = header.base_offset
            self._ongoing[header.base_offset] = header.producer_id

    def ended(self, header: BatchHeader, *, commit: bool, coordinator_epoch: int) -> None:
        """The marker of a transaction's end is in the log."""
        producer = self._producers.setdefault(header.producer_id, _Producer())
        producer.move_to(header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp = header.max_timestamp
        producer.last_offset = header.last_offset
        first, producer.txn_start = producer.txn_start, -1
        if first < 0:
            return
        del self._ongoing[first]
        self._unreplicated[first] = header.base_offset
        if not commit:
            stable = next(iter(self._ongoing), header.base_offset + 1)
            self._aborted.append(_Aborted(header.base_offset, first, header.producer_id, stable))

    def replicated(self, high_watermark: int) -> None:
        """The high watermark has moved."""
        if self._unreplicated:
            self._unreplicated = {
                first: marker
                for first, marker in self._unreplicated.items()
                if marker >= high_watermark
            }

    def drop_before(self, start_offset: int) -> None:
        """The log begins at `start_offset` now."""
        self.replicated(start_offset)
        del self._aborted[: bisect_left(self._aborted, (start_offset,))]

    def keep_untouched(self, older: Producers, offset: int) -> None:
        """After a truncation to `offset`: take over those of `older` that it did not touch.

        A producer may be known though the log has none of its batches any more.
        """
        for producer_id, producer in older._producers.items():
            if producer.last_offset < offset:
                self._producers[producer_id] = producer
                if producer.txn_start >= 0:
                    self._ongoing[producer.txn_start] = producer_id
        self._ongoing = dict(sorted(self._ongoing.items()))

    def forget_aborted(self, markers: set[int]) -> None:
        """The cleaner removed everything of the transactions with these markers."""
        self._aborted = [
            transaction for transaction in self._aborted if transaction.last_offset not in markers
        ]

    def expire(self, now_ms: int) -> None:
        """Forget producers that wrote nothing for a day (producer.id.expiration.ms)."""
        late = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.txn_start < 0 and now_ms - producer.timestamp >= _EXPIRATION_MS
        ]
        for producer_id in late:
            del self._producers[producer_id]

    # -- what is known

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose end is not replicated."""
        first = min(self._unreplicated) if self._unreplicated else None
        if self._ongoing:
            ongoing = next(iter(self._ongoing))
            first = ongoing if first is None else min(first, ongoing)
        return first

    def in_transaction(self, producer_id: int) -> bool:
        """Whether a transaction of this producer is open."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.txn_start >= 0

    def aborted(self, offset: int, upto: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted ones that reach into [offset, upto)."""
        found = []
        for index in range(bisect_left(self._aborted, (offset,)), len(self._aborted)):
            transaction = self._aborted[index]
            if transaction.first_offset < upto:
                found.append((transaction.producer_id, transaction.first_offset))
            if transaction.last_stable_offset >= upto:
                break
        return found

    def aborted_ranges(self) -> list[tuple[int, int, int]]:
        """(producer id, first offset, offset of the marker) of all aborted ones."""
        return [
            (transaction.producer_id, transaction.first_offset, transaction.last_offset)
            for transaction in self._aborted
        ]

    def last_offsets(self) -> dict[int, tuple[int | None, int]]:
        """By producer: (offset of its last record or None, epoch), which compaction must keep."""
        return {
            producer_id: (producer.sent[-1].last_offset if producer.sent else None, producer.epoch)
            for producer_id, producer in self._producers.items()
        }

    def active(self) -> list[ActiveProducer]:
        """All of them, by producer id."""
        return [
            ActiveProducer(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.timestamp,
                producer.coordinator_epoch,
                producer.txn_start,
            )
            for producer_id, producer in sorted(self._producers.items())
        ]


def _validate_epoch(producer: _Producer, producer_id: int, epoch: int) -> None:
    if epoch < producer.epoch:
        raise Refused(
            Code.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen"
            f" epoch {producer.epoch}",
        )


def _validate_sequence(producer: _Producer, header: BatchHeader) -> None:
    if header.producer_epoch != producer.epoch:
        if header.base_sequence != 0 and producer.epoch != _NO_EPOCH:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {header.producer_id}:"
                f" {header.producer_epoch} (request epoch), {header.base_sequence} (seq. number),"
                f" {producer.epoch} (current producer epoch)",
            )
        return
    last = producer.last_sequence
    follows = header.base_sequence == last + 1
    wraps = header.base_sequence == 0 and last == _MAX_SEQUENCE
    if not follows and not wraps:
        raise Refused(
            Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id}:"
            f" {header.base_sequence} (incoming seq. number), {last} (current end sequence number)",
        )
