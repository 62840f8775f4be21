"""What the cluster as a whole may be told: settings of server.properties, in seconds and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aktor.broker.groups.settings import GroupSettings
from aktor.broker.transactions import TransactionSettings

__all__ = ["ClusterSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Kafka's names and defaults where nothing else is said.

    partitions: `num.partitions`, of topics that are made by being asked for.
    replication_factor: `default.replication.factor`; None: as many as there are brokers, up to 3.
    topic_configs: what every topic starts with, by Kafka's topic config names.
    replica_selector: whether clients with a rack are sent to a follower there (KIP-392).
    """

    partitions: int = 1
    replication_factor: int | None = None
    auto_create_topics: bool = True
    unclean_leader_election: bool = False
    min_insync_replicas: int = 1
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    replica_selector: bool = True
    replica_lag_max: float = 30.0
    retention_check: float = 300.0
    fetch_max_bytes: int = 57_671_680
    fetch_session_slots: int = 1000
    offsets_topic_partitions: int = 50
    transactions_topic_partitions: int = 50
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
