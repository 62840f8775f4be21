"""`KafkaConsumer`, where kafka-python has it: `kafka.consumer.group`."""

from __future__ import annotations

from aktor.consumer.facade import KafkaConsumer

__all__ = ["KafkaConsumer"]
