"""kafka-python's own producer, under the name that its import has after `kafka` was replaced."""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.producer import KafkaProducer

__all__ = ["KafkaProducer"]
