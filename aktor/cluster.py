"""kafka-python's `kafka.cluster`, for programs that make a ClusterMetadata of their own."""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.cluster import ClusterMetadata

__all__ = ["ClusterMetadata"]
