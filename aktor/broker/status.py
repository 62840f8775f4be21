"""What a cluster looks like at a moment: brokers, topics and groups as plain JSON values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from aktor.address import written
from aktor.broker.call import Call
from aktor.broker.cluster import Cluster
from aktor.broker.partition import Partition
from aktor.broker.topics import GROUP_OFFSETS, Topic

__all__ = ["committed", "status"]

#: The first ListGroups that has group types; the last OffsetFetch of one group.
_LIST_GROUPS: Final = 5
_OFFSET_FETCH: Final = 7

_NO_OFFSET: Final = -1


def status(cluster: Cluster) -> dict[str, Any]:
    """Brokers, topics (Kafka's own left out) and groups; see docs/embedded.md for the keys."""
    return {
        "cluster_id": cluster.topology.cluster_id,
        "brokers": [
            {
                "id": node.node_id,
                "address": written(node.host, node.port),
                "rack": node.rack,
                "up": node.up,
            }
            for _, node in sorted(cluster.nodes.items())
        ],
        "topics": {topic.name: _topic(topic) for topic in cluster.topics if not topic.internal},
        "groups": _groups(cluster),
    }


def committed(cluster: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    """The offsets a group has committed, by topic and partition; empty for an unknown group."""
    request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=False)
    answer = _ask(cluster, cluster.groups.handle_offset_fetch, request, _OFFSET_FETCH)
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
        if partition.committed_offset != _NO_OFFSET
    }


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "id": str(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": [_partition(partition) for partition in topic.partitions],
    }


def _partition(partition: Partition) -> dict[str, Any]:
    log = partition.log
    return {
        "partition": partition.index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "start_offset": log.start_offset,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "end_offset": log.end_offset,
    }


def _groups(cluster: Cluster) -> dict[str, Any]:
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    listed = _ask(cluster, cluster.groups.handle_list_groups, request, _LIST_GROUPS)
    return {group.group_id: _group(cluster, group) for group in listed.groups}


def _group(cluster: Cluster, listed: Any) -> dict[str, Any]:
    coordinator = cluster.coordinator(GROUP_OFFSETS, listed.group_id)
    return {
        "state": listed.group_state,
        "type": listed.group_type,
        "coordinator": coordinator.node_id if coordinator else -1,
        "members": [
            {
                "id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
            }
            for member in cluster.groups.members(listed.group_id)
        ],
        "committed": [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in sorted(committed(cluster, listed.group_id).items())
        ],
    }


def _ask(cluster: Cluster, handle: Callable[[Call], None], request: Any, version: int) -> Any:
    """The answer to a request that is answered at once."""
    answers: list[Any] = []
    handle(Call(request, answer=answers.append, version=version, now=cluster.now))
    return answers[0]
