"""The producers of the sink: confluent-kafka's where it is installed, else kafka-python's.

A task without transactions uses the one producer of its Python worker, which stays between tasks
with its connections and metadata. A transactional one is made for each attempt of a task.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from kafka.errors import KafkaError, KafkaTimeoutError, ProducerFencedError

from aktor.errors import ConfigurationError, DeliveryError, InvalidRowError
from aktor.spark import garbage, producer_settings
from aktor.spark.producer_settings import ProducerSettings
from aktor.spark.sink_options import SinkOptions
from aktor.spark.sink_rows import Rows

__all__ = ["TaskProducer", "task_producer"]

_LOG: Final = logging.getLogger("aktor.spark")

#: Seconds between two looks at a full queue, and at a flush that is under way.
_ROOM: Final = 0.01
_FLUSH: Final = 1.0

#: What a record takes in kafka-python's producer beside its key and value, in bytes.
_RECORD_OVERHEAD: Final = 1_000

#: The producer of this process: its pid, its options, itself. A variable of the module, since
#: Spark unpickles the writer for each task, and nothing else lives as long as the worker.
_kept: tuple[int, tuple[str, Mapping[str, str]], TaskProducer] | None = None


class TaskProducer(Protocol):
    """What a task needs of a producer."""

    def send(self, rows: Rows) -> None:
        """Hand over the rows; wait while too much is not acknowledged yet."""

    def flush(self) -> None:
        """Wait until all is acknowledged. Raises DeliveryError, KafkaTimeoutError."""

    def begin(self) -> None:
        """Begin a transaction; a predecessor with the same transactional.id is fenced."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """Forget what is not sent, and close the connections."""


@contextmanager
def task_producer(options: SinkOptions, transactional_id: str | None) -> Iterator[TaskProducer]:
    """A producer for an attempt of a task. At the end all is acknowledged (and committed).

    After an error nothing more is sent, since Spark tries the task again: the transaction is
    aborted, and the producer of the worker is dropped, whose state is unknown.
    """
    if transactional_id is not None:
        producer = _made(options, transactional_id)
        try:
            yield from _in_transaction(producer)
        finally:
            producer.close()
        return
    producer = _worker_producer(options)
    try:
        yield producer
        producer.flush()
    except BaseException:
        _drop()
        raise


def _in_transaction(producer: TaskProducer) -> Iterator[TaskProducer]:
    producer.begin()
    try:
        yield producer
        producer.flush()
        producer.commit()
    except BaseException:
        try:
            producer.abort()
        except Exception as error:
            # The next attempt fences this one, or the coordinator aborts it by its timeout.
            _LOG.warning("a transaction was not aborted: %s", error)
        raise


def _worker_producer(options: SinkOptions) -> TaskProducer:
    """The worker's producer with these options: the one that is there, or a new one.

    A producer that was made before a fork is left alone: it belongs to the parent process.
    """
    global _kept
    wanted = options.producer, options.client
    if _kept is not None and _kept[0] == os.getpid():
        if _kept[1] == wanted:
            return _kept[2]
        _drop()
    producer = _made(options, None)
    _kept = os.getpid(), wanted, producer
    garbage.leave_out_what_is_there()
    return producer


def _drop() -> None:
    global _kept
    kept, _kept = _kept, None
    if kept is not None and kept[0] == os.getpid():
        kept[2].close()


def _made(options: SinkOptions, transactional_id: str | None) -> TaskProducer:
    """A new producer. Raises ConfigurationError, in which no secret is."""
    library = options.producer
    if library == "auto":
        there = importlib.util.find_spec("confluent_kafka") is not None
        library = "confluent" if there else "kafka-python"
    settings = producer_settings.read(options.client, transactional=transactional_id is not None)
    make: Callable[..., TaskProducer]
    make = _ConfluentProducer if library == "confluent" else _KafkaPythonProducer
    try:
        return make(settings, transactional_id)
    except ImportError:
        raise ConfigurationError(
            "producer=confluent needs confluent-kafka where the tasks run: pip install"
            " confluent-kafka"
        ) from None
    except Exception as error:
        text = settings.without_secrets(str(error))
        if isinstance(error, KafkaTimeoutError):
            raise KafkaTimeoutError(
                f"{library}: {text}. Check kafka.bootstrap.servers, kafka.security.protocol and the"
                " login; the log of the Python worker (logger kafka.net) tells the reason"
            ) from None
        raise ConfigurationError(f"{library} refuses the options kafka.*: {text}") from None


# -- confluent-kafka


class _Failures:
    """Owns what a confluent-kafka producer told of failures since the last look. Apart from the
    producer, which refers to it: a cycle would keep a dropped producer alive."""

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
            self.first = message.topic(), partition, error.str()

    def on_error(self, error: Any) -> None:
        """The client has trouble, which may pass, or the brokers do not let us in."""
        self.trouble = error.str()
        if error.code() == error._AUTHENTICATION:
            self.refused = error.str()


class _ConfluentProducer:
    """Owns a producer of confluent-kafka."""

    def __init__(self, settings: ProducerSettings, transactional_id: str | None) -> None:
        import confluent_kafka

        self._failures = _Failures()
        self._error = confluent_kafka.KafkaException
        self._timeout = settings.get("max_block_ms") / 1000
        self._topic = ""
        config = settings.for_confluent(transactional_id)
        config["delivery.report.only.error"] = True
        config["error_cb"] = self._failures.on_error
        config["logger"] = _LOG
        self._producer: Any
        try:
            self._producer = confluent_kafka.Producer(config)
        except self._error as error:
            raise ValueError(error.args[0].str()) from None

    def send(self, rows: Rows) -> None:
        produce, on_delivery = self._producer.produce, self._failures.on_delivery
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
        self._producer.poll(0)
        self._check()

    def _produce_when_there_is_room(self, topic: str, *record: Any, headers: Any) -> None:
        """Wait until the queue has room. A record that the broker does not take leaves the queue
        after `delivery.timeout.ms`, and then this raises."""
        while True:
            self._producer.poll(_ROOM)
            self._check()
            try:
                self._producer.produce(topic, *record, headers=headers)
            except BufferError:
                continue
            except self._error as error:
                raise self._refused(topic, record[2], record[0], error) from None
            return

    def _refused(self, topic: str, partition: int, value: Any, error: Any) -> DeliveryError:
        reason = error.args[0].str()
        if error.args[0].code() == error.args[0].MSG_SIZE_TOO_LARGE:
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
        while self._producer.flush(_FLUSH):
            self._check()
        self._check()

    def _check(self) -> None:
        failures = self._failures
        if failures.first is None and not failures.refused:
            return
        # The reason may come behind the failures, as when a newer attempt has fenced this one.
        self._producer.poll(_ROOM)
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
        self._transaction(lambda: self._producer.init_transactions(self._timeout))
        self._transaction(self._producer.begin_transaction)

    def commit(self) -> None:
        self._transaction(lambda: self._producer.commit_transaction(self._timeout))

    def abort(self) -> None:
        self._producer.purge()
        self._transaction(lambda: self._producer.abort_transaction(self._timeout))

    def _transaction(self, act: Callable[[], Any]) -> None:
        try:
            act()
        except self._error as raised:
            error = raised.args[0]
            if error.code() in (error._FENCED, error.INVALID_PRODUCER_EPOCH):
                raise ProducerFencedError(
                    f"{error.str()}: a newer attempt of the task has begun, or the task took longer"
                    " than kafka.transaction.timeout.ms"
                ) from None
            trouble = f" ({self._failures.trouble})" if self._failures.trouble else ""
            raise KafkaError(f"{error.str()}{trouble}") from None

    def close(self) -> None:
        self._producer.purge()
        self._producer = None


# -- kafka-python


class _KafkaPythonProducer:
    """Owns a KafkaProducer, and the futures of what is not acknowledged: kafka-python has no bound
    of memory, so everything is acknowledged before more than `buffer.memory` is queued."""

    def __init__(self, settings: ProducerSettings, transactional_id: str | None) -> None:
        from kafka import KafkaProducer

        self._timeout = settings.get("delivery_timeout_ms") / 1000
        self._most = settings.get("buffer_memory")
        self._queued = 0
        self._futures: list[Any] = []
        self._producer = KafkaProducer(
            **settings.for_kafka_python(), transactional_id=transactional_id
        )

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
                raise DeliveryError(
                    topic=topic,
                    partition=chosen,
                    not_acknowledged=1 + len(self._futures),
                    reason=_said(error),
                ) from None
            self._queued += _RECORD_OVERHEAD + len(value or b"") + len(key or b"")
            if self._queued > self._most:
                self.flush()

    def flush(self) -> None:
        with suppress(KafkaTimeoutError):  # those that are left are counted
            self._producer.flush(self._timeout)
        futures, self._futures, self._queued = self._futures, [], 0
        failed = [one for one in futures if not one.is_done or one.exception is not None]
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

    def begin(self) -> None:
        self._producer.init_transactions()
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._in_time(self._producer.commit_transaction)

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
        thread.join(self._timeout)
        if not outcome:
            raise KafkaTimeoutError(f"the transaction did not end within {self._timeout:g} s")
        if outcome[0] is not None:
            raise outcome[0]

    def close(self) -> None:
        # `close(timeout=0)` alone raises where something is queued, and goes on to send it.
        self._producer._sender.force_close()
        with suppress(KafkaTimeoutError):
            self._producer.close(timeout=_FLUSH)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
