"""The embedded Kafka as a stand-in for a real one: the same tests run on both.

with EmbeddedCluster(nodes=3) as kafka:
    topics.create_topic(kafka.bootstrap_servers, "orders", partitions=4, replication=3)
    kafka.kill(1)
    kafka.restart(1)
"""

from __future__ import annotations

from tests.kafka.embedded.cluster import EmbeddedCluster
from tests.kafka.real import KafkaCluster

__all__ = ["Cluster", "EmbeddedCluster"]

#: What a test takes that does not care which it is.
Cluster = KafkaCluster | EmbeddedCluster
