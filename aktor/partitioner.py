"""kafka-python's `kafka.partitioner`, for those who ask which partition a key is in."""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.partitioner import DefaultPartitioner, Partitioner, StickyPartitioner, murmur2

__all__ = ["DefaultPartitioner", "Partitioner", "StickyPartitioner", "murmur2"]
