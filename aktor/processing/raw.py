"""A record that a deserializer refused, as it came: with its key and value as bytes."""

from __future__ import annotations

from kafka.consumer.fetcher import ConsumerRecord

from aktor.errors import RecordDeserializationError

__all__ = ["raw_record"]


def raw_record(error: RecordDeserializationError) -> ConsumerRecord:
    """The record that the error tells of. Its time and leader epoch are not known."""
    return ConsumerRecord(
        topic=error.topic,
        partition=error.partition,
        leader_epoch=None,
        offset=error.offset,
        timestamp=None,
        timestamp_type=None,
        key=error.key,
        value=error.value,
        headers=error.headers,
        checksum=None,
        serialized_key_size=-1 if error.key is None else len(error.key),
        serialized_value_size=-1 if error.value is None else len(error.value),
        serialized_header_size=-1,
    )
