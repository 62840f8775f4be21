"""The producer of the sink where confluent-kafka is installed."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final

from kafka.errors import KafkaError, KafkaTimeoutError, ProducerFencedError

from aktor.consumer.core.waiting import done_within
from aktor.errors import DeliveryError
from aktor.spark.options.producer_settings import ProducerSettings
from aktor.spark.sink.rows import FENCED, NO_PARTITIONS, TOO_BIG, Rows

__all__ = ["ConfluentProducer"]

_LOG: Final = logging.getLogger("aktor.spark")

#: Seconds between two looks at a full queue, and at a flush that is under way.
_ROOM: Final = 0.01
_FLUSH: Final = 1.0

#: What differs between two messages of librdkafka that tell the same.
_VARYING: Final = re.compile(r"\(after [0-9]+ms[^)]*\)")

#: Seconds in which the same message is not passed on again.
_ONCE_IN: Final = 30.0


class _Log:
    """Owns when each of librdkafka's messages was passed on to our logger: while a broker cannot be
    reached, each of its attempts to connect is one, several times a second."""

    def __init__(self) -> None:
        self._passed_on: dict[str, float] = {}

    def log(self, level: int, text: str, *arguments: Any) -> None:
        """Called by confluent-kafka as if this were a logger."""
        message = _VARYING.sub("", text % arguments)
        now = time.monotonic()
        if now - self._passed_on.get(message, -_ONCE_IN) >= _ONCE_IN:
            self._passed_on[message] = now
            _LOG.log(level, text, *arguments)


class _Failures:
    """Owns the failures that a confluent-kafka producer has reported since it was made. It is an
    object of its own, because the library's producer keeps the callbacks: if they referred to the
    `ConfluentProducer`, this cycle would keep a dropped producer alive."""

    def __init__(self) -> None:
        self.count = 0
        self.first: tuple[str, int | None, str] | None = None
        self.trouble = ""
        self.refused = ""

    def on_delivery(self, error: Any, message: Any) -> None:
        """A record failed for good (`delivery.report.only.error`)."""
        self.count += 1
        if self.first is None:
            chosen = message.partition()
            partition = chosen if chosen is not None and chosen >= 0 else None
            told = error.str()
            if partition is None and error.code() == error._MSG_TIMED_OUT:
                told += NO_PARTITIONS
            if error.code() == error.MSG_SIZE_TOO_LARGE:
                told += TOO_BIG
            self.first = message.topic(), partition, told

    def on_error(self, error: Any) -> None:
        """The client has trouble, which may pass, or the brokers do not let us in."""
        self.trouble = error.str()
        if error.code() == error._AUTHENTICATION:
            self.refused = error.str()


class ConfluentProducer:
    """Owns a producer of confluent-kafka; the methods are those of `producers.TaskProducer`."""

    def __init__(self, settings: ProducerSettings, transactional_id: str | None) -> None:
        import confluent_kafka

        self._failures = _Failures()
        self._error = confluent_kafka.KafkaException
        self._timeout = settings.get("max_block_ms") / 1000
        self._transactional = transactional_id is not None
        self._topic = ""
        config = settings.for_confluent(transactional_id)
        config["delivery.report.only.error"] = True
        config["error_cb"] = self._failures.on_error
        config["logger"] = _Log()
        self._producer: Any
        try:
            self._producer = confluent_kafka.Producer(config)
        except self._error as error:
            raise ValueError(error.args[0].str()) from None

    def send(self, rows: Rows) -> None:
        produce, on_delivery = self._producer.produce, self._failures.on_delivery
        try:
            # strict=False: columns that have one value for all rows are endless.
            for value, topic, key, partition, headers in zip(
                rows.values, rows.topics, rows.keys, rows.partitions, rows.headers, strict=False
            ):
                try:
                    produce(topic, value, key, partition, on_delivery, headers=headers)
                except BufferError:
                    self._produce_when_there_is_room(
                        topic, value, key, partition, on_delivery, headers=headers
                    )
                except self._error as error:
                    raise self._refused(topic, partition, value, error) from None
                self._topic = topic
        finally:
            del produce  # see `_call`
        self._call(self._producer.poll, 0)
        self._check()

    def _produce_when_there_is_room(self, topic: str, *record: Any, headers: Any) -> None:
        """Wait until the queue has room. A record that the broker does not take leaves the queue
        after `delivery.timeout.ms`, and then this raises."""
        while True:
            self._call(self._producer.poll, _ROOM)
            self._check()
            try:
                self._producer.produce(topic, *record, headers=headers)
            except BufferError:
                continue
            except self._error as error:
                raise self._refused(topic, record[2], record[0], error) from None
            return

    def _refused(self, topic: str, partition: int, value: Any, error: Any) -> KafkaError:
        told = error.args[0]
        if self._transactional and told.code() == told._FATAL:
            # Only the transaction says why. (Other producers fail with a DeliveryError, which names
            # the partition.)
            return self._failed(self._fatal_error(error))
        reason = told.str()
        if told.code() == told.MSG_SIZE_TOO_LARGE:
            reason += (
                f" (a value of {len(value or b'')} bytes): raise kafka.max.request.size, and"
                " max.message.bytes of the topic"
            )
        return DeliveryError(
            topic=topic,
            partition=partition if partition >= 0 else None,
            not_acknowledged=1 + self._failures.count + len(self._producer),
            reason=reason,
        )

    def flush(self) -> None:
        while self._call(self._producer.flush, _FLUSH):
            self._check()
        self._check()

    def _check(self) -> None:
        failures = self._failures
        if failures.first is None and not failures.refused:
            return
        # The reason may come behind the failures, as when a newer attempt has fenced this one.
        self._call(self._producer.poll, _ROOM)
        topic, partition, reason = failures.first or (self._topic, None, failures.refused)
        if failures.trouble and failures.trouble != reason:
            reason += f" ({failures.trouble})"
        raise DeliveryError(
            topic=topic,
            partition=partition,
            not_acknowledged=failures.count + len(self._producer),
            reason=reason,
        )

    def begin(self) -> None:
        self._call(self._producer.init_transactions, self._timeout)
        self._call(self._producer.begin_transaction)

    def commit(self) -> None:
        late: list[KafkaTimeoutError] = []

        def is_committed(seconds: float) -> bool:
            try:
                self._call(self._producer.commit_transaction, seconds)
            except KafkaTimeoutError as error:
                late.append(error)
                return False
            return True

        if not done_within(self._timeout, is_committed):
            raise late[0]

    def abort(self) -> None:
        self._producer.purge()
        self._call(self._producer.abort_transaction, self._timeout)

    def _call(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """Call the library. Raises ProducerFencedError or KafkaError if the producer has failed.

        At a fatal error (fencing, for example) the library sets a Python exception, and then calls
        `on_delivery` for the records that fail with it. Python turns that into a SystemError, or
        the exception is lost: then `_fatal_error` looks for the reason.
        """
        try:
            return act(*arguments)
        except SystemError as raised:
            raise self._failed(self._fatal_error(raised)) from None
        except self._error as raised:
            raise self._failed(raised.args[0]) from None
        finally:
            # The library may keep an exception that it has raised for ever, and the traceback keeps
            # this frame. `act` is a method of the producer: without `del` the producer would never
            # be freed, and its threads would never end.
            del act

    def _fatal_error(self, raised: Exception) -> Any:
        """The error of the library for which the producer has failed for good; None: it is lost."""
        if isinstance(raised.__cause__, self._error):
            return raised.__cause__.args[0]
        if self._transactional:
            with contextlib.suppress(SystemError):
                try:
                    self._producer.abort_transaction(self._timeout)
                except self._error as told_again:
                    return told_again.args[0]
        return None

    def _failed(self, error: Any) -> KafkaError:
        if error is None:
            reason = self._failures.first[2] if self._failures.first else "it does not say why"
            return KafkaError(f"the producer has failed for good: {reason}")
        if error.code() in (error._FENCED, error.INVALID_PRODUCER_EPOCH):
            return ProducerFencedError(error.str() + FENCED)
        # What the client has heard of its brokers since the last call.
        with contextlib.suppress(SystemError, self._error):
            self._producer.poll(0)
        trouble = f" ({self._failures.trouble})" if self._failures.trouble else ""
        if error.code() == error._TIMED_OUT:
            return KafkaTimeoutError(
                "the brokers did not begin or end the transaction within"
                f" {self._timeout:g} s (kafka.max.block.ms){trouble}"
            )
        return KafkaError(f"{error.str()}{trouble}")

    def close(self) -> None:
        self._producer.purge()
        self._producer = None
