"""An embedded broker with the settings of the real one that was recorded."""

from __future__ import annotations

from aktor.broker import EmbeddedKafka
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.settings import ClusterSettings

__all__ = ["embedded_kafka"]


def embedded_kafka() -> EmbeddedKafka:
    """One broker, not yet started, with what `tests.real_kafka` calls QUICK."""
    groups = GroupSettings(
        initial_rebalance_delay=0.0,
        min_session_timeout=0.5,
        consumer_min_heartbeat_interval=0.1,
        consumer_heartbeat_interval=0.5,
        consumer_min_session_timeout=1.0,
        consumer_session_timeout=6.0,
    )
    settings = ClusterSettings(
        groups=groups,
        offsets_topic_partitions=4,
        transactions_topic_partitions=4,
        topic_configs={"segment.index.bytes": "1048576"},
    )
    return EmbeddedKafka(brokers=1, racks=("rack-1",), settings=settings)
