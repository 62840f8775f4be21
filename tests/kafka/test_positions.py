"""Positions: where reading starts, how it is moved, and what is held back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from kafka.structs import OffsetAndTimestamp

from aktor import KafkaConsumer, OffsetAndMetadata, TopicPartition
from aktor.errors import WakeupError
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import (
    PROMPT_S,
    SOON_S,
    batches,
    named,
    numbered,
    offsets,
    poll,
    poll_until,
    quick,
    raised_within,
    read,
    read_for,
    traced,
    values,
    wait_until,
)

COMPRESSIONS = pytest.mark.parametrize("compression", [None, "gzip", "lz4", "zstd", "snappy"])


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with ten records."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(10))
    return TopicPartition(topic, 0)


@contextmanager
def assigned(
    kafka: Cluster, *partitions: TopicPartition, **settings: Any
) -> Iterator[KafkaConsumer]:
    """A consumer to which these partitions are assigned by hand."""
    with quick(kafka, **settings) as consumer:
        consumer.assign(partitions)
        yield consumer


def cut(kafka: Cluster, partition: TopicPartition, before: int) -> None:
    """Delete the records before this offset."""
    with topics.admin(kafka.bootstrap_servers) as admin:
        admin.delete_records({partition: before})


def test_a_seek_goes_back_and_forth(kafka: Cluster, orders: TopicPartition) -> None:
    with assigned(kafka, orders) as consumer:
        read(consumer, 10)
        consumer.seek(orders, 4)
        assert consumer.position(orders) == 4
        assert offsets(read(consumer, 6)) == [4, 5, 6, 7, 8, 9]

        consumer.seek(orders, 9)
        assert offsets(read(consumer, 1)) == [9]


def test_what_is_asked_does_not_wait_for_a_fetch(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group, fetch_max_wait_ms=25_000) as consumer:
        read(consumer, 10)
        poll(consumer, 500)  # now the broker keeps a Fetch until there are more

        began = time.monotonic()
        assert consumer.end_offsets([orders]) == {orders: 10}
        assert orders.topic in consumer.topics()
        consumer.commit()
        consumer.seek_to_end(orders)
        assert consumer.position(orders) == 10

        assert time.monotonic() - began < PROMPT_S


@COMPRESSIONS
def test_a_seek_into_the_middle_of_a_batch_starts_exactly_there(
    kafka: Cluster, topic: str, compression: str | None
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    batches(
        kafka, topic, numbered(50), numbered(50, 50), compression_type=compression, batch_size=10**6
    )
    partition = TopicPartition(topic, 0)

    with assigned(kafka, partition) as consumer:
        for start in (37, 63, 0, 99):
            consumer.seek(partition, start)
            assert values(read(consumer, 100 - start)) == numbered(100 - start, start)


def test_a_seek_before_the_first_poll_wins_over_the_committed_offset(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with assigned(kafka, orders, group_id=group) as consumer:
        consumer.commit({orders: OffsetAndMetadata(8, "", -1)})
        consumer.seek(orders, 3)
        assert offsets(read(consumer, 7)) == list(range(3, 10))


def test_a_seek_drops_what_was_fetched_ahead(kafka: Cluster, orders: TopicPartition) -> None:
    with assigned(kafka, orders) as consumer:
        assert offsets(poll_some(consumer, 2)) == [0, 1]
        consumer.seek(orders, 7)
        assert offsets(read(consumer, 3)) == [7, 8, 9]


def poll_some(consumer: KafkaConsumer, count: int) -> list[Any]:
    return read(consumer, count, max_records=count)


def test_seeks_and_questions_do_not_wait_for_a_fetch_in_its_long_poll(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with assigned(kafka, orders, fetch_max_wait_ms=20_000) as consumer:
        read(consumer, 10)
        assert read_for(consumer, 0.3) == []
        for start in (4, 9, 0, 7):
            consumer.seek(orders, start)
            began = time.monotonic()
            assert offsets(read(consumer, 10 - start))[0] == start
            consumer.seek_to_end(orders)
            assert consumer.position(orders) == 10
            assert consumer.end_offsets([orders]) == {orders: 10}
            assert time.monotonic() - began < PROMPT_S


def test_the_beginning_and_the_end_are_where_they_were_when_asked(
    kafka: Cluster, orders: TopicPartition
) -> None:
    cut(kafka, orders, 3)

    with assigned(kafka, orders) as consumer:
        consumer.seek_to_end()
        assert consumer.position(orders) == 10
        consumer.seek_to_beginning(orders)
        assert consumer.position(orders) == 3
        assert offsets(read(consumer, 7)) == list(range(3, 10))

        assert consumer.beginning_offsets([orders]) == {orders: 3}
        assert consumer.end_offsets([orders]) == {orders: 10}


def test_offsets_of_partitions_that_are_not_assigned_can_be_asked(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with quick(kafka) as consumer:
        assert consumer.beginning_offsets([orders]) == {orders: 0}
        assert consumer.end_offsets([orders]) == {orders: 10}
        assert consumer.partitions_for_topic(orders.topic) == {0}
        assert orders.topic in consumer.topics()


@pytest.mark.parametrize(("policy", "start"), [("earliest", 0), ("latest", 10)])
def test_without_a_committed_offset_the_policy_says_where_to_start(
    kafka: Cluster, orders: TopicPartition, group: str, policy: str, start: int
) -> None:
    with quick(kafka, orders.topic, group_id=group, auto_offset_reset=policy) as consumer:
        records = poll_until(consumer, consumer.assignment, "the partition is assigned")
        assert consumer.position(orders) == start + len(records)
        topics.produce(kafka.bootstrap_servers, orders.topic, ["new"])
        records += read(consumer, 11 - start - len(records))

        assert offsets(records) == list(range(start, 11))


def test_a_consumer_that_starts_at_the_end_misses_nothing_that_comes_after_its_position(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with assigned(kafka, orders, auto_offset_reset="latest") as consumer:
        assert consumer.position(orders) == 10
        topics.produce(kafka.bootstrap_servers, orders.topic, ["new"])

        assert values(read(consumer, 1)) == [b"new"]


def test_without_a_policy_a_missing_position_is_an_error_until_a_seek(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group, auto_offset_reset="none") as consumer:
        error = raised_within(SOON_S, lambda: consumer.poll(200))
        assert isinstance(error, NoOffsetForPartitionError)
        assert orders.topic in str(error)
        with pytest.raises(NoOffsetForPartitionError):
            consumer.poll(20_000)
        with pytest.raises(NoOffsetForPartitionError):
            consumer.position(orders)

        consumer.seek(orders, 8)
        assert offsets(read(consumer, 2)) == [8, 9]


@pytest.mark.parametrize("outside", [50, 1])
@pytest.mark.parametrize(("policy", "start"), [("earliest", 3), ("latest", 10)])
def test_a_position_outside_the_log_is_reset_by_the_policy_and_traced(
    kafka: Cluster, orders: TopicPartition, policy: str, start: int, outside: int
) -> None:
    cut(kafka, orders, 3)

    with traced() as events, assigned(kafka, orders, auto_offset_reset=policy) as consumer:
        consumer.seek(orders, outside)
        records = poll_until(
            consumer, lambda: named(events, "position.reset"), "the position is reset"
        )
        assert consumer.position(orders) == start + len(records)
        topics.produce(kafka.bootstrap_servers, orders.topic, ["new"])
        records += read(consumer, 11 - start - len(records))

        assert offsets(records) == list(range(start, 11))
        name = f"{orders.topic}-0"
        (reset,) = named(events, "position.reset")
        assert reset["partitions"][name] == start
        assert reset["from_offsets"][name] == outside


@pytest.mark.parametrize("outside", [50, 1])
def test_a_position_outside_the_log_is_an_error_without_a_policy(
    kafka: Cluster, orders: TopicPartition, outside: int
) -> None:
    cut(kafka, orders, 3)

    with assigned(kafka, orders, auto_offset_reset="none") as consumer:
        consumer.seek(orders, outside)
        error = raised_within(SOON_S, lambda: consumer.poll(200))
        assert isinstance(error, OffsetOutOfRangeError)
        assert f"{orders.topic}" in str(error)
        assert str(outside) in str(error)
        assert isinstance(raised_within(SOON_S, lambda: consumer.poll(200)), OffsetOutOfRangeError)

        consumer.seek(orders, 5)
        assert offsets(read(consumer, 5)) == [5, 6, 7, 8, 9]


def test_records_deleted_since_the_last_commit_are_skipped_by_the_policy(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with assigned(kafka, orders, group_id=group) as consumer:
        consumer.commit({orders: OffsetAndMetadata(2, "", -1)})
    cut(kafka, orders, 6)

    with quick(kafka, orders.topic, group_id=group) as consumer:
        assert offsets(read(consumer, 4)) == [6, 7, 8, 9]


def test_offsets_are_found_by_time(kafka: Cluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    for timestamp in (1000, 2000, 3000):
        topics.produce(kafka.bootstrap_servers, topic, ["x"], partition=0, timestamp=timestamp)
    first, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)

    with quick(kafka) as consumer:
        assert consumer.offsets_for_times({first: 1500, empty: 0}) == {
            first: OffsetAndTimestamp(1, 2000, 0),
            empty: None,
        }
        assert consumer.offsets_for_times({first: 2000}) == {first: OffsetAndTimestamp(1, 2000, 0)}
        assert consumer.offsets_for_times({first: 3001}) == {first: None}
        assert consumer.offsets_for_times({}) == {}
        with pytest.raises(ValueError, match="negative"):
            consumer.offsets_for_times({first: -1})


def test_offsets_of_a_partition_that_does_not_exist_are_refused_within_the_timeout(
    kafka: Cluster, orders: TopicPartition
) -> None:
    nowhere = TopicPartition(orders.topic, 17)

    with quick(kafka) as consumer:
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=f"{orders.topic}-17"):
            consumer.end_offsets([nowhere], timeout_ms=700)

        assert 0.5 < time.monotonic() - began < PROMPT_S


def test_the_high_watermark_is_known_after_the_first_fetch(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with assigned(kafka, orders) as consumer:
        assert consumer.highwater(orders) is None
        read(consumer, 10)
        assert consumer.highwater(orders) == 10

        topics.produce(kafka.bootstrap_servers, orders.topic, ["new"])
        read(consumer, 1)
        assert consumer.highwater(orders) == 11


def test_paused_partitions_keep_their_position_and_others_are_read(
    kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    held, free = TopicPartition(topic, 0), TopicPartition(topic, 1)

    with assigned(kafka, held, free) as consumer:
        consumer.pause(held)
        for partition in (0, 1):
            topics.produce(kafka.bootstrap_servers, topic, numbered(5), partition=partition)
        assert {record.partition for record in read(consumer, 5)} == {1}
        assert consumer.paused() == {held}
        assert read_for(consumer, 0.3) == []
        assert consumer.position(held) == 0

        consumer.resume(held)
        assert consumer.paused() == set()
        assert offsets(read(consumer, 5)) == [0, 1, 2, 3, 4]


def test_a_partition_paused_with_records_in_the_buffer_goes_on_without_a_gap(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with assigned(kafka, orders) as consumer:
        assert offsets(poll_some(consumer, 3)) == [0, 1, 2]
        consumer.pause(orders)
        assert read_for(consumer, 0.3) == []
        consumer.resume(orders)
        assert offsets(read(consumer, 7)) == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("in_a_group", [False, True])
def test_what_is_buffered_of_a_paused_partition_keeps_no_other_from_being_read(
    kafka3: Cluster, topic: str, group: str, *, in_a_group: bool
) -> None:
    """The brokers of the others hold a Fetch for 20 s; each record is read at once all the same."""
    servers = kafka3.bootstrap_servers
    topics.create_topic(servers, topic, partitions=6)
    for partition in range(3):
        topics.produce(servers, topic, [bytes(1000)] * 500, partition=partition)
    small = {"max_buffered_bytes": 200_000, "max_partition_fetch_bytes": 40_000}
    settings = {"fetch_max_wait_ms": 20_000, "group_id": group if in_a_group else None, **small}

    with quick(kafka3, topic, **settings) as consumer:
        poll_some(consumer, 1)
        wait_until(lambda: _buffered(consumer) > 150_000, "the buffer is full")
        consumer.pause(*(TopicPartition(topic, partition) for partition in range(3)))
        for number in range(20):
            topics.produce(servers, topic, [b"live"], partition=3 + number % 3)
            assert values(read(consumer, 1, within=PROMPT_S)) == [b"live"]


def _buffered(consumer: KafkaConsumer) -> int:
    poll(consumer, 0, max_records=1)
    return sum(one.buffered_bytes for one in consumer.status().partitions.values())


def test_pausing_what_is_not_assigned_is_refused(kafka: Cluster, orders: TopicPartition) -> None:
    with quick(kafka) as consumer:
        with pytest.raises(KeyError):
            consumer.pause(orders)
        with pytest.raises(ValueError, match="ssigned"):
            consumer.seek(orders, 0)
        with pytest.raises(IllegalStateError):
            consumer.position(orders)
    with assigned(kafka, orders) as consumer:
        with pytest.raises(KeyError, match="not-there"):
            consumer.pause(orders, TopicPartition("not-there", 0))
        assert consumer.paused() == set()


def test_a_poll_gives_no_more_than_it_may(kafka: Cluster, orders: TopicPartition) -> None:
    with assigned(kafka, orders, max_poll_records=4) as consumer:
        first = read(consumer, 4)
        assert consumer.position(orders) == 4
        rest = read(consumer, 3, max_records=3) + read(consumer, 3)

        assert offsets(first + rest) == list(range(10))


def test_polls_without_a_timeout_get_everything_in_the_end(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        found: list[Any] = []
        deadline = time.monotonic() + SOON_S
        while len(found) < 10:
            assert time.monotonic() < deadline
            began = time.monotonic()
            found.extend(poll(consumer, 0))
            assert time.monotonic() - began < PROMPT_S
            time.sleep(0.001)

        assert offsets(found) == list(range(10))


def test_a_poll_ends_when_its_time_is_over(kafka: Cluster, orders: TopicPartition) -> None:
    with assigned(kafka, orders) as consumer:
        read(consumer, 10)
        for timeout_ms in (1, 50, 300):
            began = time.monotonic()
            assert consumer.poll(timeout_ms) == {}
            assert timeout_ms / 1000 <= time.monotonic() - began < PROMPT_S


def test_an_iteration_gives_every_record_and_ends_after_the_consumer_timeout(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group, consumer_timeout_ms=800) as consumer:
        # With the first one all are here: how long it takes to join a group is no matter of ours.
        assert offsets(poll_some(consumer, 1)) == [0]
        assert offsets(consumer) == list(range(1, 10))

        began = time.monotonic()
        assert list(consumer) == []
        assert 0.7 < time.monotonic() - began < PROMPT_S


def test_a_commit_inside_an_iteration_covers_what_was_handed_out(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        for record in consumer:
            consumer.commit()
            if record.offset == 5:
                break
        assert consumer.committed(orders) == 6
        assert consumer.position(orders) == 6
        assert offsets(read(consumer, 4)) == [6, 7, 8, 9]


def test_a_seek_inside_an_iteration_takes_effect_with_the_next_record(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with assigned(kafka, orders) as consumer:
        found = []
        for record in consumer:
            found.append(record.offset)
            if record.offset == 3 and found.count(3) == 1:
                consumer.seek(orders, 1)
            if record.offset == 9:
                break

        assert found == [0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_wakeup_from_another_thread_ends_a_long_poll_and_nothing_is_lost(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with assigned(kafka, orders) as consumer:
        read(consumer, 10)
        timer = threading.Timer(0.3, consumer.wakeup)
        timer.start()
        began = time.monotonic()
        with pytest.raises(WakeupError):
            consumer.poll(20_000)
        assert time.monotonic() - began < PROMPT_S

        topics.produce(kafka.bootstrap_servers, orders.topic, ["new"])
        assert values(read(consumer, 1)) == [b"new"]


def test_a_wakeup_before_a_call_ends_the_next_one_and_only_that(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with assigned(kafka, orders) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(1000)

        assert offsets(read(consumer, 10)) == list(range(10))


@pytest.mark.parametrize("call", ["committed", "end_offsets", "position"])
def test_a_wakeup_ends_any_call_that_waits(call: str) -> None:
    partition = TopicPartition("nowhere", 0)
    consumer = KafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0, group_id="g")
    consumer.assign([partition])
    calls: dict[str, Callable[[], Any]] = {
        "committed": lambda: consumer.committed(partition),
        "end_offsets": lambda: consumer.end_offsets([partition]),
        "position": lambda: consumer.position(partition),
    }
    timer = threading.Timer(0.2, consumer.wakeup)
    timer.start()

    error = raised_within(SOON_S, calls[call])
    while not isinstance(error, WakeupError):  # that nobody answers there is said first
        error = raised_within(SOON_S, calls[call])
    consumer.close(timeout_ms=500)


def test_assignments_by_hand_can_be_replaced_and_keep_the_positions_of_what_stays(
    kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    for partition in (0, 1):
        topics.produce(kafka.bootstrap_servers, topic, numbered(3), partition=partition)
    stays, comes = TopicPartition(topic, 0), TopicPartition(topic, 1)

    with assigned(kafka, stays) as consumer:
        read(consumer, 3)
        consumer.assign([stays, comes])

        assert {record.partition for record in read(consumer, 3)} == {1}
        assert read_for(consumer, 0.2) == []


def test_assign_and_subscribe_exclude_each_other(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, group_id=group) as consumer:
        consumer.assign([orders])
        with pytest.raises(IllegalStateError):
            consumer.subscribe([orders.topic])
        consumer.unsubscribe()
        consumer.subscribe([orders.topic])
        with pytest.raises(IllegalStateError):
            consumer.assign([orders])
