"""A real Apache Kafka for tests and demos: plain jars and a JVM, no Docker.

with KafkaCluster(nodes=3) as kafka:
    topics.create_topic(kafka.bootstrap_servers, "orders", partitions=4, replication=3)
    kafka.kill(1)
    kafka.restart(1)
"""

from __future__ import annotations

from tests.kafka.real.cluster import KafkaCluster, KafkaClusterError
from tests.kafka.real.install import (
    KAFKA_VERSION,
    KafkaDownloadError,
    KafkaUnavailableError,
    what_is_missing,
)

__all__ = [
    "KAFKA_VERSION",
    "KafkaCluster",
    "KafkaClusterError",
    "KafkaDownloadError",
    "KafkaUnavailableError",
    "what_is_missing",
]
