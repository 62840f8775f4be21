"""kafka-python's `kafka.consumer.fetcher`, as far as programs import it: the type of a record."""

from __future__ import annotations

from kafka.consumer.fetcher import RecordTooLargeError

from aktor.structs import ConsumerRecord

__all__ = ["ConsumerRecord", "RecordTooLargeError"]
