"""Metadata answers, and what a metadata manager says after one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.metadata import MetadataResponse

from aktor.events.metadata import (
    Cluster,
    ClusterChanged,
    RefreshMetadata,
    TopicsRefused,
)
from aktor.managers.metadata.manager import MetadataManager
from tests.unit.managers.builders import LEADER_NOT_AVAILABLE, answer, tick, topic_id


def a_topic(
    name: str = "t",
    leaders: Mapping[int, tuple[int, int]] | None = None,
    *,
    error: int = 0,
    id_number: int = 1,
    internal: bool = False,
) -> Any:
    """A topic in a Metadata answer; `leaders` is {partition: (leader, leader epoch)}."""
    if leaders is None:
        leaders = {0: (1, 5)} if error == 0 else {}
    kind = MetadataResponse.MetadataResponseTopic
    return kind(
        error_code=error,
        name=name,
        topic_id=topic_id(id_number) if error == 0 else None,
        is_internal=internal,
        partitions=[
            kind.MetadataResponsePartition(
                error_code=0 if leader >= 0 else LEADER_NOT_AVAILABLE,
                partition_index=partition,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[1, 2],
                offline_replicas=[],
            )
            for partition, (leader, epoch) in leaders.items()
        ],
    )


def metadata(
    *topics: Any, brokers: tuple[int, ...] = (1, 2), cluster_id: str = "c", version: int = 13
) -> Any:
    """A Metadata answer, as it comes off the wire in this version."""
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node, host=f"b{node}", port=9092, rack=None
            )
            for node in brokers
        ],
        cluster_id=cluster_id,
        controller_id=1,
        topics=list(topics),
    )
    return MetadataResponse.decode(response.encode(version=version), version=version)


def refresh(manager: MetadataManager, response: Any, now: float) -> list[object]:
    """Somebody finds the snapshot stale; a broker answers at `now`."""
    manager.handle(RefreshMetadata(because="a test"))
    return answer(manager, tick(manager, now).request, response, now=now)


def cluster_in(said: list[object]) -> Cluster:
    """The one snapshot that was told."""
    (cluster,) = (one.cluster for one in said if isinstance(one, ClusterChanged))
    return cluster


def refusals_in(said: list[object]) -> list[TopicsRefused]:
    """What was told about topics that cannot be read."""
    return [one for one in said if isinstance(one, TopicsRefused)]
