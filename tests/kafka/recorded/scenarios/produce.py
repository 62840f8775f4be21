"""Produce: what is taken, what is refused, and what stands in the log afterwards."""

from __future__ import annotations

import time
import uuid

from tests.kafka.recorded.batches import CODECS, THEN, batch, legacy_batch, patched
from tests.kafka.recorded.world import World


def all_versions_take_a_record(world: World) -> None:
    topic = world.topic()
    for version in range(3, 14):
        world.note(f"v{version}", world.produce(topic, "a", version=version))


def records_are_stored_as_they_were_sent(world: World) -> None:
    topic = world.topic()
    data = batch("a", None, b"", keys=[b"k", None, b""], headers=[("h", b"1"), ("h", None)])
    world.note("produce", world.produce(topic, data))
    world.note("fetch", world.fetch(topic))


def all_codecs_are_stored_compressed(world: World) -> None:
    topic = world.topic()
    for codec in CODECS:
        world.note(codec, world.produce(topic, batch("a" * 300, "b" * 300, codec=codec)))
    world.note("fetch", world.fetch(topic))


def acks_1_and_acks_0(world: World) -> None:
    topic = world.topic()
    world.note("acks 1", world.produce(topic, "a", acks=1))
    partitions = [{"index": 0, "records": batch("b")}]
    world.send(
        "Produce",
        9,
        "main",
        acks=0,
        topic_data=[{"name": topic.name, "partition_data": partitions}],
    )
    world.ends("after acks 0 on the same connection", topic)


def acks_0_to_an_unknown_topic_closes_the_connection(world: World) -> None:
    partitions = [{"index": 0, "records": batch("b")}]
    later = world.send(
        "Produce",
        9,
        "main",
        acks=0,
        topic_data=[{"name": world.name("nowhere"), "partition_data": partitions}],
    )
    world.note("then", later.answer())


def acks_other_than_minus_1_0_1_are_refused(world: World) -> None:
    topic = world.topic()
    for acks in (2, -2):
        world.note(f"acks {acks}", world.produce(topic, "a", acks=acks))


def unknown_topics_and_partitions_are_refused(world: World) -> None:
    topic = world.topic()
    world.note("partition", world.produce(topic, "a", partition=1))
    world.note("negative partition", world.produce(topic, "a", partition=-1))
    world.note("topic", world.produce(world.name("nowhere"), "a"))
    world.note("invalid name", world.produce("no/such", "a"))


def a_topic_id_that_nobody_has_is_unknown(world: World) -> None:
    for label, topic_id in (("some id", uuid.UUID(int=7)), ("zero", uuid.UUID(int=0))):
        partitions = [{"index": 0, "records": batch("a")}]
        world.see(
            label,
            "Produce",
            13,
            acks=-1,
            timeout_ms=1000,
            topic_data=[{"topic_id": topic_id, "partition_data": partitions}],
        )


def nothing_to_append_is_refused(world: World) -> None:
    topic = world.topic()
    world.note("no bytes", world.produce(topic))
    world.note("no topics", world.ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=[]))


def a_batch_without_records_is_refused(world: World) -> None:
    topic = world.topic()
    world.note("count 0", world.produce(topic, patched(batch("a")[:61], length=49, count=0)))
    world.note(
        "count 0, last offset delta -1",
        world.produce(topic, patched(batch("a")[:61], length=49, count=0, last_offset_delta=-1)),
    )


def two_batches_at_once_are_refused(world: World) -> None:
    topic = world.topic()
    world.note("produce", world.produce(topic, batch("a"), batch("b")))
    world.ends("after", topic)


def a_wrong_checksum_is_refused(world: World) -> None:
    topic = world.topic()
    world.note("produce", world.produce(topic, patched(batch("a"), crc=1)))
    world.ends("after", topic)


def headers_that_contradict_themselves_are_refused(world: World) -> None:
    topic = world.topic()
    world.note("count too high", world.produce(topic, batch("a", count=2)))
    world.note("count too low", world.produce(topic, batch("a", "b", count=1)))
    world.note("last offset delta", world.produce(topic, batch("a", last_offset_delta=1)))
    world.note("length too short", world.produce(topic, patched(batch("a"), length=20)))
    world.note("length too long", world.produce(topic, patched(batch("a"), length=2000)))
    world.note("negative length", world.produce(topic, patched(batch("a"), length=-5)))
    world.note("cut off", world.produce(topic, batch("a")[:-1]))
    world.note("three bytes", world.produce(topic, b"abc"))
    world.ends("after", topic)


def the_base_offset_must_be_0_and_the_leader_epoch_is_overwritten(world: World) -> None:
    topic = world.topic()
    world.note("offset 100", world.produce(topic, batch("a", base_offset=100)))
    world.note("leader epoch 9", world.produce(topic, batch("a", leader_epoch=9)))
    world.note("fetch", world.fetch(topic))


def records_that_contradict_their_batch_are_refused(world: World) -> None:
    topic = world.topic()
    sound = batch("abc")
    world.note("record cut off", world.produce(topic, patched(sound[:-2], length=len(sound) - 14)))
    world.note("garbage", world.produce(topic, patched(sound[:61] + b"\xff" * 12, length=61)))
    world.note(
        "compressed garbage",
        world.produce(topic, patched(sound[:61] + b"\xff" * 12, length=61, attributes=1)),
    )
    world.note("unknown codec", world.produce(topic, batch("abc", attributes=6)))
    world.ends("after", topic)


def old_formats_are_refused(world: World) -> None:
    topic = world.topic()
    world.note("magic 1", world.produce(topic, legacy_batch(b"a")))
    world.note("magic 0", world.produce(topic, legacy_batch(b"a", magic=0)))
    world.note("magic 3", world.produce(topic, batch("a", magic=3)))
    world.note("magic -1", world.produce(topic, batch("a", magic=-1)))


def a_batch_larger_than_max_message_bytes_is_refused(world: World) -> None:
    topic = world.topic(1, max_message_bytes="200")
    world.note("too large", world.produce(topic, "a" * 200))
    fits = "a" * (200 - len(batch("a" * 100)) + 100)
    assert len(batch(fits)) == 200
    world.note("just fits", world.produce(topic, batch(fits)))
    world.note("one more", world.produce(topic, batch(fits + "a")))


def a_batch_larger_than_a_segment_is_refused(world: World) -> None:
    topic = world.topic(1, segment_bytes="1048576", max_message_bytes="5000000")
    world.note("produce", world.produce(topic, "a" * 1048576))


def log_append_time_is_stamped_by_the_broker(world: World) -> None:
    topic = world.topic(1, message_timestamp_type="LogAppendTime")
    world.note("produce", world.produce(topic, batch("a", "b")))
    world.note("compressed", world.produce(topic, batch("a" * 300, "b" * 300, codec="gzip")))
    world.note("fetch", world.fetch(topic))


def timestamps_of_creation_are_kept(world: World) -> None:
    topic = world.topic()
    world.note("out of order", world.produce(topic, batch("a", "b", timestamps=[THEN, THEN - 5])))
    world.note("none", world.produce(topic, batch("a", timestamps=[-1])))
    world.note("below none", world.produce(topic, batch("a", timestamps=[-2])))
    world.note("max is a lie", world.produce(topic, batch("a", max_timestamp=THEN + 50)))
    world.note("append time is claimed", world.produce(topic, batch("a", attributes=8)))
    world.note("fetch", world.fetch(topic))


def timestamps_too_far_from_now_are_refused(world: World) -> None:
    topic = world.topic()
    now = int(time.time() * 1000)
    world.note("two hours ahead", world.produce(topic, batch("a", timestamps=[now + 7_200_000])))
    world.note(
        "one bad of two", world.produce(topic, batch("a", "b", timestamps=[THEN, now + 7_200_000]))
    )
    strict = world.topic(1, message_timestamp_before_max_ms="1000")
    world.note("too old", world.produce(strict, batch("a", "b")))


def a_compacted_topic_wants_keys(world: World) -> None:
    topic = world.topic(1, cleanup_policy="compact")
    world.note("key", world.produce(topic, batch("a", keys=[b"k"])))
    world.note("no key", world.produce(topic, batch("a")))
    world.note("one of two", world.produce(topic, batch("a", "b", keys=[b"k", None])))
    world.note("compressed", world.produce(topic, batch("a" * 300, codec="gzip")))


def the_topic_may_choose_the_codec(world: World) -> None:
    topic = world.topic(1, compression_type="gzip")
    world.note("none", world.produce(topic, batch("a" * 300, "b" * 300)))
    world.note("zstd", world.produce(topic, batch("a" * 300, "b" * 300, codec="zstd")))
    plain = world.topic(1, compression_type="uncompressed")
    world.note("uncompressed", world.produce(plain, batch("a" * 300, "b" * 300, codec="zstd")))
    world.note("fetch", world.fetch(topic))
    world.note("fetch uncompressed", world.fetch(plain))


def a_client_may_not_write_control_batches(world: World) -> None:
    topic = world.topic()
    world.note("control", world.produce(topic, batch("a", attributes=0x20)))
    world.note(
        "control and transactional",
        world.produce(topic, batch("a", attributes=0x30, producer=(1, 0), sequence=0)),
    )
    world.ends("after", topic)


def internal_topics_take_no_records_from_clients(world: World) -> None:
    world.group()
    world.note("offsets", world.produce("__consumer_offsets", batch("a", keys=[b"k"])))


def several_partitions_in_one_request(world: World) -> None:
    topic = world.topic(2)
    world.see(
        "produce",
        "Produce",
        9,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            {
                "name": topic.name,
                "partition_data": [
                    {"index": 1, "records": batch("a")},
                    {"index": 0, "records": batch("b", "c")},
                    {"index": 7, "records": batch("d")},
                ],
            },
            {
                "name": world.name("nowhere"),
                "partition_data": [{"index": 0, "records": batch("a")}],
            },
        ],
    )


def the_same_partition_twice_in_one_request(world: World) -> None:
    topic = world.topic()
    world.see(
        "produce",
        "Produce",
        9,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            {
                "name": topic.name,
                "partition_data": [
                    {"index": 0, "records": batch("a")},
                    {"index": 0, "records": batch("b", "c")},
                ],
            },
        ],
    )
    world.ends("after", topic)
