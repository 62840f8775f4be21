"""A cluster in passed-in time, and clients that speak to its brokers in bytes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from aktor.broker.partition import Partition
from aktor.broker.settings import ClusterSettings
from aktor.broker.topology import Node
from aktor.broker.wire import APIS
from tests.kafka.recorded.messages import request
from tests.unit.broker import harness
from tests.unit.broker.harness import NOW, Asked, Journal, a_call
from tests.unit.broker.log.building import a_batch

ORDERS = "orders"


def a_cluster(
    brokers: int = 3,
    *,
    topics: Mapping[str, int] | None = None,
    racks: Sequence[str] = (),
    journal: Journal | None = None,
    kept: Mapping[Any, Any] | None = None,
    open_log: Any = None,
    seed: int = 0,
    **settings: Any,
) -> Cluster:
    """Brokers 1, 2, ...; unless told otherwise with topic "orders": one partition that broker 1
    leads, replicated to all."""
    cluster = Cluster(
        [
            Node(
                node_id=node,
                host=f"host-{node}",
                port=9000 + node,
                rack=racks[node - 1] if racks else None,
            )
            for node in range(1, brokers + 1)
        ],
        now=NOW,
        settings=ClusterSettings(**settings),
        rng=random.Random(seed),
        journal=journal,
        kept=kept,
        open_log=open_log,
    )
    for name, count in ({ORDERS: 1} if topics is None else topics).items():
        if cluster.topics.get(name) is None:
            cluster.create_topic(name, count)
    return cluster


def partition_of(cluster: Cluster, topic: str = ORDERS, index: int = 0) -> Partition:
    found = cluster.topics.partition(topic, index)
    assert found is not None, f"there is no {topic}-{index}"
    return found


def pass_time(cluster: Cluster, seconds: float) -> None:
    """Let time go by, and the cluster do what is due when it is due."""
    cluster.tick(harness.pass_time(cluster, cluster.now, seconds))


def send(
    cluster: Cluster, message: Any, version: int, *, node: int = 1, connection: int = 0
) -> Asked:
    """Let a broker have the request as it is after a way through the network."""
    call, asked = a_call(message, version, now=cluster.now, node=node, connection=connection)
    cluster.receive(call, asked.api.name)
    return asked


def ask(cluster: Cluster, message: Any, version: int, node: int = 1) -> Any:
    """The answer to a request that is answered at once."""
    asked = send(cluster, message, version, node=node)
    assert not asked.waits, f"{message} waits"
    return asked.answer


def latest(api: str) -> int:
    """The greatest version that the broker speaks."""
    return next(one.max_version for one in APIS.values() if one.name == api)


# Producers.


def produce(
    cluster: Cluster,
    *values: bytes,
    topic: str = ORDERS,
    partition: int = 0,
    node: int | None = None,
    acks: int = -1,
    timeout: float = 30.0,
    records: bytes | None = None,
    version: int = 12,
) -> Asked:
    """Write a batch to the leader, or to `node`."""
    to = partition_of(cluster, topic, partition).leader if node is None else node
    data = [{"index": partition, "records": a_batch(*values) if records is None else records}]
    message = request(
        "Produce",
        acks=acks,
        timeout_ms=int(timeout * 1000),
        topic_data=[
            {
                "name": topic,
                "topic_id": cluster.topics.topic_id(topic) or UUID(int=1),
                "partition_data": data,
            }
        ],
    )
    return send(cluster, message, version, node=to)


def produced(asked: Asked) -> Any:
    """What is said of the one partition."""
    return asked.answer.responses[0].partition_responses[0]


def write(cluster: Cluster, *values: bytes, **details: Any) -> int:
    """Write a batch that must be taken at once; the offset of its first record."""
    answer = produced(produce(cluster, *values, **details))
    assert answer.error_code == Code.NONE, Code(answer.error_code)
    offset: int = answer.base_offset
    return offset


# Consumers.


def fetch(
    cluster: Cluster,
    offset: int = 0,
    *,
    topic: str = ORDERS,
    partition: int = 0,
    node: int | None = None,
    wait: float = 0.0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    epoch: int = -1,
    last_epoch: int = -1,
    rack: str = "",
    committed: bool = False,
    others: Sequence[tuple[str, int]] = (),
    session: tuple[int, int] = (0, -1),
    version: int = 12,
    connection: int = 0,
) -> Asked:
    """Read one partition (and `others` from 0) from the leader, or from `node`."""
    to = partition_of(cluster, topic, partition).leader if node is None else node
    places = [(topic, partition, offset), *((name, index, 0) for name, index in others)]
    message = request(
        "Fetch",
        max_wait_ms=int(wait * 1000),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        rack_id=rack,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            {
                "topic": name,
                "topic_id": cluster.topics.topic_id(name) or UUID(int=1),
                "partitions": [
                    {
                        "partition": index,
                        "fetch_offset": start,
                        "partition_max_bytes": max_bytes,
                        "current_leader_epoch": epoch,
                        "last_fetched_epoch": last_epoch,
                    }
                ],
            }
            for name, index, start in places
        ],
    )
    return send(cluster, message, version, node=to, connection=connection)


def fetched(asked: Asked) -> Any:
    """What is said of the one partition."""
    (topic,) = asked.answer.responses
    (partition,) = topic.partitions
    return partition


def fetched_code(asked: Asked) -> Code:
    return Code(fetched(asked).error_code)


def list_offset(
    cluster: Cluster, timestamp: int = -1, *, node: int | None = None, version: int = 9
) -> Any:
    """Where a time is in orders-0, by its leader or by `node`."""
    to = partition_of(cluster).leader if node is None else node
    message = request(
        "ListOffsets",
        topics=[{"name": ORDERS, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}],
    )
    return ask(cluster, message, version, to).topics[0].partitions[0]
