"""Kafka record batches in, kafka-python's `ConsumerRecord`s out."""

from __future__ import annotations

from kafka.consumer.fetcher import ConsumerRecord

from aktor.records.reader import MAX_BATCH_BYTES, Deserialize, RecordReader

__all__ = ["MAX_BATCH_BYTES", "ConsumerRecord", "Deserialize", "RecordReader"]
