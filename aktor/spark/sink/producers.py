"""The producers of the sink: confluent-kafka's where it is installed, else kafka-python's.

A task without transactions uses the one producer of its Python worker, which stays between tasks
with its connections and metadata. A transactional one is made for each attempt of a task.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from kafka.errors import KafkaTimeoutError

from aktor.errors import ConfigurationError
from aktor.spark.options import producer_settings
from aktor.spark.options.sink import SinkOptions
from aktor.spark.sink.confluent_producer import ConfluentProducer
from aktor.spark.sink.kafka_python_producer import KafkaPythonProducer
from aktor.spark.sink.rows import Rows
from aktor.spark.tasks import garbage

__all__ = ["TaskProducer", "task_producer"]

_LOG: Final = logging.getLogger("aktor.spark")

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
    make = ConfluentProducer if library == "confluent" else KafkaPythonProducer
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
