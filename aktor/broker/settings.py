"""What the cluster as a whole may be told: settings of server.properties, in seconds and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aktor.broker.groups.settings import GroupSettings
from aktor.broker.limits import check_numbers
from aktor.broker.transactions.settings import TransactionSettings

__all__ = ["ClusterSettings"]

#: Settings that must be above 0: with 0 nothing would work, or a loop would spin.
_ABOVE_ZERO: Final = frozenset(
    {
        "partitions",
        "replication_factor",
        "min_insync_replicas",
        "replica_lag_max",
        "retention_check",
        "cleaner_backoff",
        "fetch_max_bytes",
        "offsets_topic_partitions",
        "transactions_topic_partitions",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Kafka's names and defaults where nothing else is said.

    partitions: `num.partitions`, of topics that are made by being asked for.
    replication_factor: `default.replication.factor`; None: as many as there are brokers, up to 3.
    retention_check: `log.retention.check.interval.ms`, between two looks for old records.
    cleaner_backoff: `log.cleaner.backoff.ms`, between two looks for what can be compacted.
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
    cleaner_backoff: float = 15.0
    fetch_max_bytes: int = 57_671_680
    fetch_session_slots: int = 1000
    offsets_topic_partitions: int = 50
    transactions_topic_partitions: int = 50
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)

    def __post_init__(self) -> None:
        check_numbers(self, above_zero=_ABOVE_ZERO)
