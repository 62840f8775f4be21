"""Fetch: offsets, sizes, waiting, epochs, ids, isolation."""

from __future__ import annotations

import uuid
from typing import Any

from tests.kafka.recorded.batches import THEN, batch, read_batches
from tests.kafka.recorded.world import Topic, World


def _filled(world: World, count: int = 3) -> Topic:
    topic = world.topic()
    for number in range(count):
        world.produce(topic, batch(f"record {number}"))
    return topic


def _offsets(answer: Any) -> Any:
    """The offsets of the batches of each partition, and how much there was of the last one."""
    return [
        [each.get("base_offset", "cut off") for each in read_batches(partition.records)]
        for topic in answer.responses
        for partition in topic.partitions
    ]


def all_versions(world: World) -> None:
    topic = _filled(world, 1)
    for version in range(4, 19):
        world.note(f"v{version}", world.fetch(topic, version=version))


def offsets_from_the_middle_to_the_end(world: World) -> None:
    topic = world.topic()
    world.produce(topic, batch("a", "b", "c"))
    world.note("in the middle of a batch", world.fetch(topic, 1))
    world.note("the end", world.fetch(topic, 3))


def offsets_out_of_range(world: World) -> None:
    topic = _filled(world)
    world.note("beyond the end", world.fetch(topic, 4))
    world.note("negative", world.fetch(topic, -1))
    world.note("far away", world.fetch(topic, 2**62))
    world.note("v4", world.fetch(topic, 4, version=4))
    world.note("v17", world.fetch(topic, 4, version=17))


def topics_and_partitions_that_are_not_there(world: World) -> None:
    topic = world.topic()
    nowhere = Topic(world.name("nowhere"), uuid.UUID(int=7), 1)
    world.note("partition", world.fetch(topic, partition=9))
    world.note("partition -1", world.fetch(topic, partition=-1))
    world.note("topic", world.fetch(nowhere))
    world.note("partition by id", world.fetch(topic, partition=9, version=13))
    world.note("topic by id", world.fetch(nowhere, version=13))
    world.note("zero id", world.fetch(Topic("", uuid.UUID(int=0), 1), version=13))


def at_least_one_batch_comes_however_small_the_limits(world: World) -> None:
    topic = _filled(world)
    limits = {"partition_max_bytes": 1}
    world.note("partition limit", _offsets(world.fetch(topic, partition_fields=limits)))
    world.note(
        "partition limit 0",
        _offsets(world.fetch(topic, partition_fields={"partition_max_bytes": 0})),
    )
    world.note("total limit", _offsets(world.fetch(topic, max_bytes=1)))
    world.note("total limit 0", _offsets(world.fetch(topic, max_bytes=0)))
    world.note("negative", _offsets(world.fetch(topic, max_bytes=-1)))


def the_last_batch_is_cut_off_at_the_partition_limit(world: World) -> None:
    topic = _filled(world)
    size = len(batch("record 0"))
    for extra in (0, 1, 11, 12, 30):
        limits = {"partition_max_bytes": size + extra}
        world.note(
            f"one batch and {extra} bytes", _offsets(world.fetch(topic, partition_fields=limits))
        )
    world.note("total limit", _offsets(world.fetch(topic, max_bytes=size + 12)))


def the_total_limit_starves_later_partitions(world: World) -> None:
    topic = world.topic(3)
    for partition in range(3):
        world.produce(topic, batch("a" * 50), partition=partition)
    size = len(batch("a" * 50))
    for limit in (1, size, size + 1, size + 20, 2 * size, 2 * size + 1):
        answer = world.ask(
            "Fetch",
            12,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=limit,
            topics=[
                {
                    "topic": topic.name,
                    "partitions": [
                        {"partition": p, "fetch_offset": 0, "partition_max_bytes": 1000}
                        for p in (2, 0, 1)
                    ],
                }
            ],
        )
        got = {p.partition_index: len(p.records or b"") for p in answer.responses[0].partitions}
        world.note(f"limit {limit}", [got[p] for p in (2, 0, 1)])


def a_fetch_waits_for_records(world: World) -> None:
    topic = world.topic()
    later = world.send_fetch(topic, 0, "b", max_wait_ms=10_000)
    world.note("waits", later.answer(0.2))
    world.produce(topic, batch("a"))
    world.note("comes at once", later.answer())


def a_fetch_waits_for_enough_bytes(world: World) -> None:
    topic = world.topic()
    world.produce(topic, batch("a"))
    later = world.send_fetch(topic, 0, "b", max_wait_ms=10_000, min_bytes=len(batch("a")) + 1)
    world.note("waits", later.answer(0.2))
    world.produce(topic, batch("b"))
    world.note("enough", _offsets(later.answer()))
    brief = world.send_fetch(topic, 0, "b", max_wait_ms=200, min_bytes=100_000)
    world.note("what there is when time is up", _offsets(brief.answer()))


def an_error_is_not_waited_with(world: World) -> None:
    topic = world.topic()
    later = world.send_fetch(topic, 9, "b", max_wait_ms=10_000)
    world.note("out of range", later.answer())
    no_wait = world.send_fetch(topic, 0, "b", max_wait_ms=10_000, min_bytes=0)
    world.note("min bytes 0", no_wait.answer())
    nothing = world.send("Fetch", 12, "b", max_wait_ms=10_000, min_bytes=1, topics=[])
    world.note("no partitions", nothing.answer())


def a_waiting_fetch_hears_of_a_deleted_topic(world: World) -> None:
    topic = world.topic()
    later = world.send_fetch(topic, 0, "b", max_wait_ms=10_000)
    world.note("waits", later.answer(0.2))
    world.ask("DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": topic.name}])
    world.note("then", later.answer())


def leader_epochs_are_checked(world: World) -> None:
    topic = _filled(world, 1)
    for epoch in (-1, 0, 1):
        world.note(
            f"current epoch {epoch}",
            world.fetch(topic, partition_fields={"current_leader_epoch": epoch}),
        )
    world.note(
        "future epoch v16",
        world.fetch(topic, version=16, partition_fields={"current_leader_epoch": 1}),
    )


def the_epoch_last_fetched_shows_where_logs_part(world: World) -> None:
    topic = _filled(world)
    for offset, epoch in ((1, 0), (3, 0), (1, 1), (2, 5)):
        world.note(
            f"offset {offset}, epoch {epoch}",
            world.fetch(
                topic,
                offset,
                partition_fields={"last_fetched_epoch": epoch, "current_leader_epoch": 0},
            ),
        )


def a_partition_asked_for_twice(world: World) -> None:
    topic = _filled(world, 2)
    one = {"partition": 0, "partition_max_bytes": 1000}
    answer = world.ask(
        "Fetch",
        12,
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            {
                "topic": topic.name,
                "partitions": [{**one, "fetch_offset": 0}, {**one, "fetch_offset": 1}],
            }
        ],
    )
    world.note("offsets", _offsets(answer))


def several_topics_some_unknown(world: World) -> None:
    topic, other = _filled(world, 1), _filled(world, 1)
    one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    world.see(
        "fetch",
        "Fetch",
        12,
        max_wait_ms=500,
        min_bytes=1,
        topics=[
            {"topic": topic.name, "partitions": [one, {**one, "partition": 4}]},
            {"topic": world.name("nowhere"), "partitions": [one]},
            {"topic": other.name, "partitions": [one]},
        ],
    )


def as_a_replica(world: World) -> None:
    topic = _filled(world, 1)
    world.note("replica 99 v12", world.fetch(topic, replica_id=99))
    world.note("debugging replica", world.fetch(topic, replica_id=-2))


def isolation_levels_that_are_none(world: World) -> None:
    topic = _filled(world, 1)
    world.note("read committed", world.fetch(topic, isolation_level=1))
    world.note("7", world.fetch(topic, isolation_level=7))


def racks_do_not_matter_to_a_single_broker(world: World) -> None:
    topic = _filled(world, 1)
    world.note("its rack", world.fetch(topic, rack_id="rack-1"))
    world.note("another", world.fetch(topic, rack_id="elsewhere"))


def an_internal_topic_may_be_fetched(world: World) -> None:
    world.group()
    answer = world.fetch(Topic("__consumer_offsets", uuid.UUID(int=0), 4))
    world.note("error", answer.responses[0].partitions[0].error_code)


def a_fetch_ends_where_a_segment_ends(world: World) -> None:
    # A record a week younger than the first of its segment begins another segment (segment.ms).
    topic = world.topic(1, retention_ms="-1")
    month = 30 * 86_400_000
    for age in (2 * month, 2 * month, month, 0):
        world.produce(topic, batch("a", timestamps=[THEN - age]))
    for offset in range(4):
        world.note(f"from {offset}", _offsets(world.fetch(topic, offset)))
