"""What can be wrong with a batch, said before topic, partition and offset are known.

These never leave the package: both readers turn each into the public error with coordinates.
"""

from __future__ import annotations

from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError, UnsupportedCodecError

from aktor.errors import BatchTooLargeError, CorruptBatchError, RecordDeserializationError
from aktor.records.refused import refused


class Malformed(Exception):
    """The bytes break a rule of the record format; the text says which."""


class Oversized(Exception):
    """A batch decompresses to more bytes than it may."""


class CodecUnavailable(Exception):
    """A batch is compressed in a way that cannot be read here; the text says why and the remedy."""


def public_error(
    fault: Exception, *, topic: str, partition: int, offset: int, max_batch_bytes: int
) -> KafkaError:
    """The error that the user gets for `fault`."""
    if isinstance(fault, Oversized):
        return BatchTooLargeError(
            topic=topic, partition=partition, offset=offset, limit=max_batch_bytes
        )
    if isinstance(fault, CodecUnavailable):
        return UnsupportedCodecError(
            f"the record batch in {topic}-{partition} at offset {offset} is {fault}"
        )
    return CorruptBatchError(topic=topic, partition=partition, offset=offset, reason=str(fault))


def undeserializable(record: ConsumerRecord, cause: Exception) -> RecordDeserializationError:
    """The error that the user gets for a record which a deserializer refused; it has raw bytes."""
    names = ("topic", "partition", "offset", "key", "value", "headers")
    return refused(cause, {name: getattr(record, name) for name in names})


def passes(error: KafkaError, offset: int) -> bool:
    """Whether reading can go on at `offset` after this error: behind a refused record."""
    return isinstance(error, RecordDeserializationError) and error.offset < offset
