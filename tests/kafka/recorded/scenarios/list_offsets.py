"""ListOffsets: earliest, latest, by time; and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

from tests.kafka.recorded.batches import THEN, batch
from tests.kafka.recorded.world import Topic, World


def _offset(world: World, label: str, topic: Topic, timestamp: int, v: int = 11, **f: Any) -> None:
    partition = {
        "partition_index": f.pop("partition", 0),
        "timestamp": timestamp,
        "current_leader_epoch": f.pop("epoch", -1),
    }
    world.see(
        label,
        "ListOffsets",
        v,
        **{"replica_id": -1, "timeout_ms": 1000, **f},
        topics=[{"name": topic.name, "partitions": [partition]}],
    )


def _filled(world: World, **configs: str) -> Topic:
    topic = world.topic(1, **configs)
    world.produce(topic, batch("a", "b", timestamps=[THEN, THEN + 10]))
    world.produce(topic, batch("c", "d", timestamps=[THEN + 30, THEN + 20]))
    return topic


def all_versions_ask_for_the_ends(world: World) -> None:
    topic = _filled(world)
    for version in range(1, 12):
        _offset(world, f"earliest v{version}", topic, -2, version)
        _offset(world, f"latest v{version}", topic, -1, version)


def an_empty_partition(world: World) -> None:
    topic = world.topic()
    for timestamp in (-2, -1, -3, -4, -5, -6, 0):
        _offset(world, f"{timestamp}", topic, timestamp)
    _offset(world, "then", topic, THEN)


def offsets_by_time(world: World) -> None:
    topic = _filled(world)
    for after in (-1, 0, 5, 10, 15, 20, 25, 30, 31):
        _offset(world, f"then + {after}", topic, THEN + after)
    _offset(world, "0", topic, 0)
    _offset(world, "v1, nothing that late", topic, THEN + 99, 1)


def special_timestamps(world: World) -> None:
    topic = _filled(world)
    _offset(world, "max timestamp", topic, -3)
    _offset(world, "earliest local", topic, -4)
    _offset(world, "latest tiered", topic, -5)
    _offset(world, "earliest pending upload", topic, -6)
    _offset(world, "-7", topic, -7)
    _offset(world, "max timestamp v7", topic, -3, 7)


def special_timestamps_in_versions_that_do_not_know_them(world: World) -> None:
    topic = _filled(world)
    for timestamp, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10)):
        _offset(world, f"{timestamp} in v{version}", topic, timestamp, version)


def the_max_timestamp_of_equal_ones_and_of_compressed_batches(world: World) -> None:
    topic = world.topic()
    world.produce(topic, batch("a", "b", timestamps=[THEN, THEN]))
    world.produce(topic, batch("c", timestamps=[THEN]))
    _offset(world, "equal", topic, -3)
    data = batch("x" * 200, "y" * 200, "z", timestamps=[THEN, THEN + 9, THEN + 3], codec="gzip")
    world.produce(topic, data)
    _offset(world, "compressed", topic, -3)
    _offset(world, "by time, compressed", topic, THEN + 2)


def log_append_time_counts_where_it_is_used(world: World) -> None:
    topic = world.topic(1, message_timestamp_type="LogAppendTime")
    world.produce(topic, batch("a", "b"))
    _offset(world, "max timestamp", topic, -3)
    _offset(world, "then", topic, THEN + 1)


def records_without_a_timestamp(world: World) -> None:
    topic = world.topic()
    world.produce(topic, batch("a", timestamps=[-1]))
    _offset(world, "max timestamp", topic, -3)
    _offset(world, "0", topic, 0)


def what_is_below_the_start_is_not_found(world: World) -> None:
    topic = _filled(world)
    world.ask(
        "DeleteRecords",
        2,
        timeout_ms=10_000,
        topics=[{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 3}]}],
    )
    _offset(world, "earliest", topic, -2)
    _offset(world, "then", topic, THEN)
    _offset(world, "max timestamp", topic, -3)


def partitions_and_epochs_that_are_not_there(world: World) -> None:
    topic = world.topic()
    nowhere = Topic(world.name("nowhere"), topic.id, 1)
    _offset(world, "unknown partition", topic, -1, partition=9)
    _offset(world, "unknown topic", nowhere, -1)
    _offset(world, "unknown topic v1", nowhere, -1, 1)
    _offset(world, "newer epoch", topic, -1, epoch=9)
    _offset(world, "this epoch", topic, -1, epoch=0)
    world.see(
        "twice",
        "ListOffsets",
        7,
        replica_id=-1,
        topics=[{"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}] * 2}],
    )
    _offset(world, "as replica 1", topic, -1, replica_id=1)
    _offset(world, "as replica 99", topic, -1, replica_id=99)
    _offset(world, "as debugging replica", topic, -1, replica_id=-2)
    _offset(world, "isolation 7", topic, -1, isolation_level=7)


def _epoch(world: World, label: str, topic: str, epoch: int, version: int = 4, **f: Any) -> None:
    partition = {
        "partition": f.pop("partition", 0),
        "leader_epoch": epoch,
        "current_leader_epoch": f.pop("current", -1),
    }
    world.see(
        label,
        "OffsetForLeaderEpoch",
        version,
        **{"replica_id": -1, **f},
        topics=[{"topic": topic, "partitions": [partition]}],
    )


def the_end_of_a_leader_epoch(world: World) -> None:
    topic = _filled(world)
    for version in (2, 3, 4):
        _epoch(world, f"v{version}", topic.name, 0, version)
    _epoch(world, "future epoch", topic.name, 5)
    _epoch(world, "epoch -1", topic.name, -1)
    _epoch(world, "current epoch is newer", topic.name, 0, current=3)
    _epoch(world, "current epoch is right", topic.name, 0, current=0)
    _epoch(world, "unknown partition", topic.name, 0, partition=9)
    _epoch(world, "unknown topic", world.name("nowhere"), 0)
    empty = world.topic()
    _epoch(world, "empty log", empty.name, 0)
    _epoch(world, "empty log, future", empty.name, 1)
