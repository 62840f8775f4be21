"""Dead letters: records that could not be handled are written to a topic of their own."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kafka.errors import KafkaTimeoutError

from aktor.consumer.core.timeout import patient_timeout
from aktor.consumer.core.waiting import Patience, done_within
from aktor.processing.failures import Failure

__all__ = ["AsyncDeadLetter", "DeadLetter", "dead_letter"]

#: Seconds between two looks whether confluent-kafka's producer has delivered.
_LOOK: Final = 0.05

Serializer = Callable[[Any], bytes]


def dead_letter(
    topic: str,
    producer: Any,
    *,
    key_serializer: Serializer | None = None,
    value_serializer: Serializer | None = None,
    timeout_ms: float = 30_000,
) -> DeadLetter | AsyncDeadLetter:
    """For `process(on_error=...)`: write the record to `topic`, and go on when it is there.

    Key, value and headers stay; headers with the prefix `aktor.errors.` are added: topic,
    partition, offset and timestamp of the record, the group, the number of attempts, and the
    exception with its traceback (see `Failure.headers`). If the record cannot be written, `process`
    raises, and the record is not committed.

    kafka-python's producer refuses headers that are null, and records with neither key nor value
    (aiokafka's, too): then an empty header, or an empty value, is written instead.

    Args:
        topic: where to write.
        producer: yours: kafka-python's `KafkaProducer`, confluent-kafka's `Producer`, or, with
            `aktor.aio`, aiokafka's `AIOKafkaProducer`, which was started; without serializers. It
            is used from several threads (aiokafka's in the event loop only), and not closed.
        key_serializer, value_serializer: make bytes of what the consumer's deserializers have
            made; not called for bytes and None.
        timeout_ms: how long the serializers and the producer may take in all, whatever the
            producer's own settings allow (`max_block_ms`). After that the record has failed; the
            letter may be written all the same.

    Raises:
        TypeError: the producer has neither `send` nor `produce`.
    """
    kind: type[DeadLetter | AsyncDeadLetter] = DeadLetter
    if inspect.iscoroutinefunction(getattr(producer, "send_and_wait", None)):
        kind = AsyncDeadLetter
    elif not (hasattr(producer, "produce") or hasattr(producer, "send")):
        raise TypeError(
            "the producer of a dead letter must be kafka-python's KafkaProducer or"
            f" confluent-kafka's Producer, not {type(producer).__name__}"
        )
    return kind(topic, producer, key_serializer, value_serializer, timeout_ms / 1000)


class LetterWriter:
    """What is written of a failed record. Owns nothing: the producer is the user's."""

    def __init__(
        self,
        topic: str,
        producer: Any,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        timeout: float,
    ) -> None:
        self.topic = topic
        self._producer = producer
        self._serializers = {"key": key_serializer, "value": value_serializer}
        self._timeout = timeout

    def _too_late(self) -> str:
        return f"the producer did not deliver a record to {self.topic}"

    def _letter(self, failure: Failure) -> tuple[bytes | None, bytes | None, list[tuple[str, Any]]]:
        """Its key, value and headers."""
        record = failure.record
        headers = [*(record.headers or ()), *failure.headers()]
        return self._bytes("key", record.key), self._bytes("value", record.value), headers

    def _bytes(self, what: str, content: Any) -> bytes | None:
        if content is None or isinstance(content, bytes):
            return content
        serializer = self._serializers[what]
        if serializer is None:
            raise TypeError(
                f"the {what} of the record was deserialized to {type(content).__name__}; give"
                f" dead_letter() a {what}_serializer that makes bytes of it"
            )
        return serializer(content)


class DeadLetter(LetterWriter):
    """Writes failed records to a topic, by a producer that blocks."""

    def __call__(self, failure: Failure) -> None:
        """Write it, and wait until the broker has it."""
        _call_within(self._timeout, lambda: self._write_letter(failure), what=self._too_late())

    def _write_letter(self, failure: Failure) -> None:
        is_confluent = hasattr(self._producer, "produce")
        write = self._by_confluent if is_confluent else self._by_kafka_python
        write(*self._letter(failure))

    def _by_kafka_python(self, key: Any, value: Any, headers: list[tuple[str, Any]]) -> None:
        if key is None and value is None:
            value = b""
        headers = [(name, content or b"") for name, content in headers]
        future = self._producer.send(self.topic, key=key, value=value, headers=headers)
        if not done_within(self._timeout, lambda seconds: _is_written(future, seconds)):
            raise KafkaTimeoutError(f"{self._too_late()} within {self._timeout:g} s")

    def _by_confluent(self, key: Any, value: Any, headers: list[tuple[str, Any]]) -> None:
        outcome: list[Any] = []
        began = time.monotonic()
        patience = Patience(began + self._timeout, began)
        while not self._produced(key, value, headers, outcome):
            self._poll(patience)
        while not outcome:
            self._poll(patience)
        if outcome[0] is not None:
            raise RuntimeError(f"the producer could not write to {self.topic}: {outcome[0]}")

    def _produced(
        self, key: Any, value: Any, headers: list[tuple[str, Any]], outcome: list[Any]
    ) -> bool:
        """Whether there was room for it in the producer's queue."""
        try:
            self._producer.produce(
                self.topic,
                key=key,
                value=value,
                headers=headers,
                on_delivery=lambda error, _message: outcome.append(error),
            )
        except BufferError:
            return False
        return True

    def _poll(self, patience: Patience) -> None:
        now = time.monotonic()
        if patience.is_over(now):
            raise KafkaTimeoutError(f"{self._too_late()} within {self._timeout:g} s")
        self._producer.poll(patience.until(now, now + _LOOK) - now)


class AsyncDeadLetter(LetterWriter):
    """The same for `process` of `aktor.aio`, by a producer of the event loop: aiokafka's."""

    async def __call__(self, failure: Failure) -> None:
        """Write it, and wait until the broker has it."""
        key, value, headers = self._letter(failure)
        if key is None and value is None:
            value = b""
        try:
            async with patient_timeout(self._timeout):
                await self._producer.send_and_wait(
                    self.topic, value=value, key=key, headers=headers
                )
        except TimeoutError:
            raise KafkaTimeoutError(f"{self._too_late()} within {self._timeout:g} s") from None


def _is_written(future: Any, seconds: float) -> bool:
    """Wait for so long for what kafka-python's producer says; raises what it says."""
    try:
        future.get(timeout=seconds)
    except KafkaTimeoutError:
        if future.is_done:
            raise  # the producer has given up
        return False
    return True


def _call_within(timeout: float, call: Callable[[], None], *, what: str) -> None:
    """Call it on a thread of its own, and wait for its end: it is code of the user, or of a library
    of the user, and must end in time.

    Such a call knows nothing of our deadline: `KafkaProducer.send` may wait `max_block_ms` for
    metadata, a serializer for a registry. If it is not done in time it goes on in the background,
    and what becomes of it is not known.

    Raises:
        KafkaTimeoutError: `what` was not done within `timeout` seconds.
        What the call raises.
    """
    ended = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="aktor-dead-letter", daemon=True).start()
    if not done_within(min(timeout, threading.TIMEOUT_MAX), ended.wait):
        raise KafkaTimeoutError(f"{what} within {timeout:g} s")
    if errors:
        raise errors.pop()
