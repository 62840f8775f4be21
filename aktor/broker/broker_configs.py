"""What a broker runs with, by Kafka's names of broker configs: what DescribeConfigs shows of it."""

from __future__ import annotations

from collections.abc import Mapping

from aktor.address import written
from aktor.broker.settings import ClusterSettings
from aktor.broker.topic_configs import BROKER_CONFIGS
from aktor.broker.topology import Node

__all__ = ["broker_configs"]


def broker_configs(
    node: Node, settings: ClusterSettings, *, replication_factor: int
) -> dict[str, str]:
    """What this broker's server.properties would say: all that is not Kafka's default."""
    used = {**_identity(node), **_settings(settings, replication_factor)}
    return {name: text for name, text in used.items() if text != BROKER_CONFIGS[name].default}


def _identity(node: Node) -> Mapping[str, str]:
    address = f"PLAINTEXT://{written(node.host, node.port)}"
    identity = {
        "advertised.listeners": address,
        "broker.id": str(node.node_id),
        "listeners": address,
        "node.id": str(node.node_id),
        "process.roles": "broker,controller",
    }
    return identity if node.rack is None else {**identity, "broker.rack": node.rack}


def _settings(settings: ClusterSettings, replication_factor: int) -> Mapping[str, str]:
    groups, transactions = settings.groups, settings.transactions
    return {
        "auto.create.topics.enable": _boolean(settings.auto_create_topics),
        "default.replication.factor": str(replication_factor),
        "fetch.max.bytes": str(settings.fetch_max_bytes),
        "group.consumer.assignors": ",".join(groups.consumer_assignors),
        "group.consumer.heartbeat.interval.ms": _ms(groups.consumer_heartbeat_interval),
        "group.consumer.max.heartbeat.interval.ms": _ms(groups.consumer_max_heartbeat_interval),
        "group.consumer.max.session.timeout.ms": _ms(groups.consumer_max_session_timeout),
        "group.consumer.max.size": str(groups.consumer_max_size),
        "group.consumer.min.heartbeat.interval.ms": _ms(groups.consumer_min_heartbeat_interval),
        "group.consumer.min.session.timeout.ms": _ms(groups.consumer_min_session_timeout),
        "group.consumer.session.timeout.ms": _ms(groups.consumer_session_timeout),
        "group.initial.rebalance.delay.ms": _ms(groups.initial_rebalance_delay),
        "group.max.session.timeout.ms": _ms(groups.max_session_timeout),
        "group.max.size": str(groups.max_size),
        "group.min.session.timeout.ms": _ms(groups.min_session_timeout),
        "log.cleaner.backoff.ms": _ms(settings.cleaner_backoff),
        "log.retention.check.interval.ms": _ms(settings.retention_check),
        "max.incremental.fetch.session.cache.slots": str(settings.fetch_session_slots),
        "min.insync.replicas": str(settings.min_insync_replicas),
        "num.partitions": str(settings.partitions),
        "offset.metadata.max.bytes": str(groups.offset_metadata_max_bytes),
        "offsets.retention.check.interval.ms": _ms(groups.offsets_retention_check),
        "offsets.retention.minutes": str(int(groups.offsets_retention // 60)),
        "offsets.topic.num.partitions": str(settings.offsets_topic_partitions),
        "replica.lag.time.max.ms": _ms(settings.replica_lag_max),
        "transaction.max.timeout.ms": _ms(transactions.max_timeout),
        "transaction.state.log.num.partitions": str(settings.transactions_topic_partitions),
        "transactional.id.expiration.ms": _ms(transactions.id_expiration),
        "unclean.leader.election.enable": _boolean(settings.unclean_leader_election),
    }


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _boolean(value: bool) -> str:
    return "true" if value else "false"
