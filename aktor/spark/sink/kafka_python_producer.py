"""The producer of the sink where only kafka-python is installed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kafka.errors import (
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)

from aktor.consumer.core.waiting import done_within
from aktor.errors import DeliveryError, InvalidRowError
from aktor.spark.options.producer_settings import ProducerSettings
from aktor.spark.sink.rows import FENCED, NO_PARTITIONS, TOO_BIG, Rows

__all__ = ["KafkaPythonProducer"]

#: What a record takes in kafka-python's producer beside its key and value, in bytes.
_RECORD_OVERHEAD: Final = 1_000

#: Seconds that `close` may take.
_CLOSE: Final = 1.0


class KafkaPythonProducer:
    """Owns a KafkaProducer, and the futures of what is not acknowledged; the methods are those of
    `producers.TaskProducer`.

    kafka-python has no bound of memory, so everything is acknowledged before more than
    `buffer.memory` is queued.
    """

    def __init__(self, settings: ProducerSettings, transactional_id: str | None) -> None:
        from kafka import KafkaProducer

        self._timeout = settings.get("delivery_timeout_ms") / 1000
        self._most = settings.get("buffer_memory")
        self._queued = 0
        self._futures: list[Any] = []
        self._producer = KafkaProducer(
            **settings.for_kafka_python(), transactional_id=transactional_id
        )
        if transactional_id is not None:
            # When a leader refuses its epoch or a sequence number, kafka-python asks for a new
            # epoch in the midst of the transaction. That forgets the transaction, and its second
            # way, an epoch of the transactional.id anew, fences the attempt that has fenced this
            # one. A transaction with a lost record fails, as with Java's producer.
            self._producer._transaction_manager._NEEDS_EPOCH_BUMP_ERRORS = frozenset()

    def send(self, rows: Rows) -> None:
        send = self._producer.send
        for place, (value, topic, key, partition, headers) in enumerate(
            zip(rows.values, rows.topics, rows.keys, rows.partitions, rows.headers, strict=False)
        ):
            chosen = partition if partition >= 0 else None
            try:
                self._futures.append(send(topic, value, key, headers, chosen))
            except (TypeError, ValueError) as error:
                # As a null key with a null value, or a header that is null.
                raise InvalidRowError(
                    row=rows.first + place, reason=f"kafka-python: {error}"
                ) from None
            except (AssertionError, KafkaError) as error:
                # In `send` only the partitions of the topic are waited for.
                waited = isinstance(error, KafkaTimeoutError)
                raise DeliveryError(
                    topic=topic,
                    partition=chosen,
                    not_acknowledged=1 + len(self._futures),
                    reason=_said(error) + (NO_PARTITIONS if waited else ""),
                ) from None
            self._queued += _RECORD_OVERHEAD + len(value or b"") + len(key or b"")
            if self._queued > self._most:
                self.flush()

    def flush(self) -> None:
        done_within(self._timeout, self._is_flushed)  # those that are left are counted
        futures, self._futures, self._queued = self._futures, [], 0
        failed = [
            future for future in futures if not future.is_done or future.exception is not None
        ]
        if failed:
            first = failed[0]
            topic, partition = first._produce_future.topic_partition
            reason = f"not acknowledged within {self._timeout:g} s"
            raise DeliveryError(
                topic=topic,
                partition=partition,
                not_acknowledged=len(failed),
                reason=reason if first.exception is None else _said(first.exception),
            )

    def _is_flushed(self, seconds: float) -> bool:
        try:
            self._producer.flush(seconds)
        except KafkaTimeoutError:
            return False
        return True

    def begin(self) -> None:
        self._producer.init_transactions()
        self._producer.begin_transaction()

    def commit(self) -> None:
        try:
            self._in_time(self._producer.commit_transaction)
        except (InvalidProducerEpochError, ProducerFencedError) as error:
            raise ProducerFencedError(_said(error)) from None

    def abort(self) -> None:
        self._in_time(self._producer.abort_transaction)

    def _in_time(self, act: Callable[[], Any]) -> None:
        """kafka-python waits for the end of a transaction without a limit of time."""
        outcome: list[BaseException | None] = []

        def run() -> None:
            try:
                act()
            except BaseException as error:
                outcome.append(error)
            else:
                outcome.append(None)

        thread = threading.Thread(target=run, name="aktor-spark-transaction", daemon=True)
        thread.start()

        def is_over(seconds: float) -> bool:
            thread.join(seconds)
            return bool(outcome)

        if not done_within(self._timeout, is_over):
            raise KafkaTimeoutError(f"the transaction did not end within {self._timeout:g} s")
        if outcome[0] is not None:
            raise outcome[0]

    def close(self) -> None:
        # `close(timeout=0)` alone raises where something is queued, and goes on to send it.
        self._producer._sender.force_close()
        with suppress(KafkaTimeoutError):
            self._producer.close(timeout=_CLOSE)


def _said(error: BaseException) -> str:
    name, text = type(error).__name__, str(error)
    if isinstance(error, MessageSizeTooLargeError) and not any(error.args):
        # A broker's. The library's own names max_request_size.
        return f"{name}{TOO_BIG}"
    if isinstance(error, InvalidProducerEpochError | ProducerFencedError):
        return f"{name}{FENCED}"
    # kafka-python's own errors begin with their names.
    return text if text.startswith(name) else f"{name}: {text}"
