"""One consumer that polls, pauses, seeks, is woken and interrupted: what it is given, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import UserCallbackError, WakeupError
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_member, offsets, read
from tests.scenarios.world import World, seeds


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with two partitions of 40 records each; closed and checked at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


def test_repeated_polls_that_do_not_wait_deliver_in_the_end(world: World) -> None:
    """Java 1."""
    consumer = a_member(world)

    records: list[Any] = []
    for _ in range(1000):
        for some in consumer.poll(timeout_ms=0).values():
            records.extend(some)
        world.sleep(0.001)

    assert len(records) == 80


@pytest.mark.parametrize("limit", [1, 7])
def test_a_poll_gives_no_more_than_its_limit_and_loses_nothing(world: World, limit: int) -> None:
    """Java 3."""
    consumer = a_member(world, max_poll_records=limit)

    sizes: list[int] = []
    given: dict[TopicPartition, list[int]] = {T0: [], T1: []}
    while sum(sizes) < 80:
        taken = consumer.poll(timeout_ms=1000)
        assert taken, "records are missing"
        sizes.append(sum(map(len, taken.values())))
        for partition, records in taken.items():
            given[partition] += [one.offset for one in records]

    assert max(sizes) <= limit
    assert given == {T0: list(range(40)), T1: list(range(40))}


def test_who_asks_for_positions_only_is_sent_no_records(world: World) -> None:
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0, T1])

    assert [consumer.position(one) for one in (T0, T1)] == [0, 0]
    consumer.seek_to_end()
    assert [consumer.position(one) for one in (T0, T1)] == [40, 40]
    assert consumer.end_offsets([T0]) == {T0: 40}
    world.sleep(5.0)
    assert world.cluster.asked["Fetch"] == 0

    consumer.seek(T0, 30)
    assert offsets(read(world, consumer, 10), 0) == list(range(30, 40))


@pytest.mark.parametrize("timeout_ms", [0, 600_000])
def test_the_first_poll_begins_the_fetching_however_the_partitions_come(
    world: World, timeout_ms: int
) -> None:
    """Without a group, topics are known only while a poll waits already."""
    consumer = world.consumer("orders", auto_offset_reset="earliest", group_id=None)

    began, count = world.now, 0
    while count < 80:
        count += sum(map(len, consumer.poll(timeout_ms=timeout_ms).values()))
        world.sleep(0.01)

    assert world.now - began < 2.0


def test_an_empty_poll_ends_when_its_time_is_over(world: World) -> None:
    consumer = a_member(world, auto_offset_reset="latest")
    consumer.poll(timeout_ms=1000)

    began = world.now
    assert consumer.poll(timeout_ms=700) == {}

    assert world.now - began == pytest.approx(0.7, abs=1e-3)


def test_a_poll_that_waits_ends_with_the_first_record(world: World) -> None:
    """Java 8: no latency is added."""
    consumer = a_member(world, auto_offset_reset="latest")
    consumer.poll(timeout_ms=2000)
    world.after(1.3, lambda: world.cluster.produce("orders", 1, b"new"))

    began = world.now
    taken = consumer.poll(timeout_ms=10_000)

    assert [one.value for one in taken[T1]] == [b"new"]
    assert world.now - began == pytest.approx(1.3, abs=0.05)


def test_a_paused_partition_keeps_what_is_buffered_for_it(world: World) -> None:
    """Java 90, 94: not fetched again after resume, and nothing is lost."""
    consumer = a_member(world)
    read(world, consumer, 1, max_records=1)
    world.sleep(1.0)
    consumer.pause(T0, T1)

    assert consumer.poll(timeout_ms=500) == {}
    fetched = world.cluster.asked["Fetch"]
    consumer.resume(T0, T1)
    records = consumer.poll(timeout_ms=0, max_records=100)

    assert sum(map(len, records.values())) == 79
    assert world.cluster.asked["Fetch"] == fetched
    assert consumer.paused() == set()


def test_reading_a_little_of_one_after_the_other_and_pausing_it_keeps_the_bound(
    world: World,
) -> None:
    """Each left what was fetched of it beyond the bound: as many times too much as partitions."""
    count, records, bound, part = 20, 300, 20_000, 5_000
    world.cluster.create_topic("many", partitions=count)
    world.cluster.fill("many", records)
    every = [TopicPartition("many", number) for number in range(count)]
    consumer = world.consumer(
        auto_offset_reset="earliest", max_buffered_bytes=bound, max_partition_fetch_bytes=part
    )
    consumer.assign(every)
    given: dict[TopicPartition, list[int]] = {one: [] for one in every}
    most = 0

    def poll(**options: Any) -> bool:
        found = consumer.poll(timeout_ms=500, **options)
        for one, some in found.items():
            given[one] += [record.offset for record in some]
        return bool(found)

    for one in every:
        consumer.pause(*every)
        consumer.resume(one)
        for _ in range(3):
            assert poll(max_records=1)
        world.sleep(0.6)
        most = max(
            most, sum(state.buffered_bytes for state in consumer.status().partitions.values())
        )
    consumer.resume(*every)
    while poll():
        pass

    assert most <= bound + 3 * part  # three brokers
    assert given == {one: list(range(records)) for one in every}


def test_a_paused_partition_does_not_stop_the_other_one(world: World) -> None:
    consumer = a_member(world)
    consumer.poll(timeout_ms=0)
    while not consumer.assignment():
        consumer.poll(timeout_ms=10, max_records=1)
    consumer.pause(T0)

    records = read(world, consumer, 60, within=2.0)

    assert {one.partition for one in records} <= {0, 1}
    assert len(offsets(records, 1)) >= 39
    assert consumer.paused() == {T0}


def test_a_seek_wins_over_a_reset_that_is_under_way(world: World) -> None:
    """Java 83: testSeekWithInFlightReset."""
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0])
    consumer.seek_to_end(T0)
    world.sleep(world.random.uniform(0.0, 0.02))

    consumer.seek(T0, 17)
    world.sleep(1.0)

    assert consumer.position(T0) == 17
    assert read(world, consumer, 1)[0].offset == 17


def test_a_seek_drops_what_was_fetched_for_the_old_position(world: World) -> None:
    """Java 88, 91: mid-batch."""
    consumer = a_member(world)
    read(world, consumer, 1, max_records=1)
    world.sleep(world.random.uniform(0.0, 0.05))

    consumer.seek(T0, 33)
    consumer.seek(T1, 5)
    records = read(world, consumer, 7 + 35)

    assert offsets(records, 0) == list(range(33, 40))
    assert offsets(records, 1) == list(range(5, 40))


def test_positions_and_offsets_can_be_asked_for_between_polls(world: World) -> None:
    """Java 25, 117."""
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 80)

    consumer.commit({T0: OffsetAndMetadata(12, "here", -1)})

    assert consumer.position(T0) == consumer.position(T1) == 40
    assert consumer.committed(T0) == 12
    assert consumer.committed(T0, metadata=True) == OffsetAndMetadata(12, "here", -1)
    assert consumer.committed(T1) is None
    assert consumer.beginning_offsets([T0, T1]) == {T0: 0, T1: 0}
    assert consumer.end_offsets([T0, T1]) == {T0: 40, T1: 40}
    assert consumer.offsets_for_times({T0: 1_700_000_000_007})[T0].offset == 7  # type: ignore[union-attr]
    assert consumer.partitions_for_topic("orders") == {0, 1}
    assert consumer.topics() == {"orders"}
    assert set(consumer.look_up_topics()["orders"].partitions) == {0, 1}
    assert consumer.look_up_topics(["orders"])["orders"].topic_id is not None
    assert consumer.look_up_topics(["absent"]) == {}


def test_a_position_that_cannot_be_found_ends_in_time(world: World) -> None:
    """Java 117: testPositionRespectsTimeout."""
    consumer = world.consumer(auto_offset_reset="earliest", default_api_timeout_ms=3_000)
    missing = TopicPartition("nowhere", 0)
    consumer.assign([missing])

    began = world.now
    assert consumer.position(missing, timeout_ms=500) is None
    with pytest.raises(KafkaTimeoutError, match="nowhere-0"):
        consumer.position(missing)

    assert world.now - began == pytest.approx(3.5, abs=0.1)


def test_a_wakeup_before_a_poll_ends_it_and_loses_nothing(world: World) -> None:
    """Java 18: testWakeupBeforeCallingPoll."""
    consumer = a_member(world)

    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=1000)

    assert len(read(world, consumer, 80)) == 80


def test_a_wakeup_ends_a_waiting_poll_at_once(world: World) -> None:
    """Java 18: testWakeupAfterEmptyFetch."""
    consumer = a_member(world, auto_offset_reset="latest")
    consumer.poll(timeout_ms=1000)
    world.after(0.4, consumer.wakeup)

    began = world.now
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=60_000)

    assert world.now - began == pytest.approx(0.4, abs=1e-3)


def test_a_wakeup_with_records_ready_loses_none_of_them(world: World) -> None:
    """Java 18: testWakeupAfterNonEmptyFetch."""
    consumer = a_member(world)
    records = read(world, consumer, 1, max_records=1)
    world.sleep(1.0)

    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=0)
    records += read(world, consumer, 79)

    assert len({(one.partition, one.offset) for one in records}) == len(records) == 80


def test_wakeups_at_random_moments_lose_nothing(world: World) -> None:
    consumer = a_member(world)
    for _ in range(20):
        world.after(world.random.uniform(0.0, 0.3), consumer.wakeup)

    records: list[Any] = []
    while world.now < 1000.5:
        try:
            for some in consumer.poll(timeout_ms=20, max_records=3).values():
                records.extend(some)
        except WakeupError:
            pass
    records += read(world, consumer, 80 - len(records))

    assert len({(one.partition, one.offset) for one in records}) == len(records) == 80


def test_an_interrupt_from_the_keyboard_leaves_the_consumer_usable(world: World) -> None:
    """Java 17: a wait that is interrupted leaves nothing half done."""
    consumer = a_member(world)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for delay in (0.001, 0.03, 0.06, 0.09):
        world.after(delay, interrupt)
    interrupted = 0
    records: list[Any] = []
    while world.now < 1002.0:
        try:
            for some in consumer.poll(timeout_ms=500).values():
                records.extend(some)
        except KeyboardInterrupt:
            interrupted += 1

    assert interrupted == 4
    assert len({(one.partition, one.offset) for one in records}) == len(records) == 80


@pytest.mark.parametrize("iterating", [False, True])
def test_an_interrupt_while_records_are_decoded_loses_and_repeats_none(
    world: World, iterating: bool
) -> None:
    left = [7, 55, 70]

    def interrupted_now_and_then(value: bytes) -> bytes:
        left[:] = [count - 1 for count in left]
        if 0 in left:
            left.remove(0)
            raise KeyboardInterrupt
        return value

    consumer = world.consumer(
        auto_offset_reset="earliest",
        value_deserializer=interrupted_now_and_then,
        consumer_timeout_ms=500,
        max_poll_records=80,
    )
    consumer.assign([T0, T1])
    world.sleep(1.0)  # all of it is here: one poll takes from both partitions
    records: list[Any] = []
    while len(records) < 80 and world.now < 1010.0:
        try:
            if iterating:
                records.extend(consumer)
            else:
                records.extend(one for some in consumer.poll(100).values() for one in some)
        except KeyboardInterrupt:
            pass

    assert left == []
    assert [offsets(records, partition) for partition in (0, 1)] == [[*range(40)], [*range(40)]]
    assert consumer.position(T0) == consumer.position(T1) == 40


class Stumbling(ConsumerRebalanceListener):
    """A listener that raises whenever partitions are assigned, `times` times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def on_partitions_assigned(self, assigned: Any) -> None:
        if self.left:
            self.left -= 1
            raise ValueError("the database is away")

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass


def test_what_a_listener_raises_is_raised_by_poll_once_and_the_consumer_goes_on(
    world: World,
) -> None:
    """Java 123: failing listener: positions not lost."""
    consumer = a_member(world)
    consumer.subscribe(["orders"], listener=Stumbling(1))

    with pytest.raises(UserCallbackError) as raised:
        consumer.poll(timeout_ms=5000)
    records = read(world, consumer, 80)

    assert isinstance(raised.value.__cause__, ValueError)
    assert len(records) == 80
    assert consumer.assignment() == {T0, T1}


class Asking(ConsumerRebalanceListener):
    """A listener that uses the consumer it listens to."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.found: list[Any] = []

    def on_partitions_assigned(self, assigned: Any) -> None:
        ends = self.consumer.end_offsets(assigned)
        self.found += [self.consumer.assignment(), self.consumer.position(T0), ends[T1]]
        self.consumer.seek(T1, 30)
        self.consumer.pause(T0)

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass


def test_a_listener_may_use_the_consumer(world: World) -> None:
    """Java 121, 122."""
    consumer = a_member(world)
    listener = Asking(consumer)
    consumer.subscribe(["orders"], listener=listener)

    records = read(world, consumer, 11, within=2.0)

    assert listener.found == [{T0, T1}, 0, 40]
    assert [(one.partition, one.offset) for one in records] == [(1, n) for n in range(30, 40)]


def test_what_a_callback_is_refused_repeats_no_records(world: World) -> None:
    """The refusal has changed nothing: the poll around it is a sound one."""
    consumer = a_member(world, max_poll_records=5, enable_auto_commit=False)
    refused: list[BaseException] = []

    def ask_for_too_much(_offsets: Any, _error: Any) -> None:
        with pytest.raises(ValueError, match="Unassigned") as caught:
            consumer.seek(TopicPartition("invoices", 0), 7)
        refused.append(caught.value)

    given: list[tuple[int, int]] = []
    while len(given) < 80:
        consumer.commit_async(callback=ask_for_too_much)
        world.sleep(0.1)
        for some in consumer.poll(timeout_ms=1000).values():
            given += [(one.partition, one.offset) for one in some]

    assert refused
    assert len(set(given)) == len(given) == 80


def test_an_iteration_hands_out_every_record_once(world: World) -> None:
    consumer = a_member(world, consumer_timeout_ms=1000)

    records = []
    for record in consumer:
        records.append((record.partition, record.offset))
        if world.random.random() < 0.2:
            world.sleep(0.05)

    assert sorted(records) == [(p, n) for p in (0, 1) for n in range(40)]


def test_a_poll_in_the_middle_of_an_iteration_goes_on_where_it_stood(world: World) -> None:
    consumer = a_member(world, consumer_timeout_ms=1000)

    records = [next(consumer) for _ in range(5)] + read(world, consumer, 75)

    assert sorted((one.partition, one.offset) for one in records) == [
        (p, n) for p in (0, 1) for n in range(40)
    ]


def test_the_buffer_stays_within_its_bound_while_the_application_stalls(world: World) -> None:
    """Chunks in the port and in the delivery together never hold more than max_buffered_bytes."""
    world.cluster.fill("orders", 3000)
    bound = 20_000
    consumer = a_member(
        world, max_buffered_bytes=bound, max_partition_fetch_bytes=4_000, fetch_max_bytes=8_000
    )
    most, count = 0, 0

    def look() -> None:
        nonlocal most
        in_port = sum(chunk.size for chunk in world.host(consumer).port.chunks)
        in_delivery = consumer.status().partitions.values()
        most = max(most, in_port + sum(one.buffered_bytes for one in in_delivery))

    while count < 2 * 3040:
        for _ in range(world.random.randrange(1, 20)):
            count += sum(map(len, consumer.poll(timeout_ms=1000, max_records=100).values()))
            look()
        world.sleep(2.0)
        look()

    assert bound / 4 < most <= bound


def test_status_reads_well_while_running_and_after_the_end(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    running = consumer.status()

    consumer.close()
    closed = consumer.status()

    assert (running.state, running.lag) == ("running", 0)
    assert [one.incarnation for one in running.actors] == [1] * 7
    assert (closed.state, closed.actors) == ("closed", ())


def test_pausing_partitions_while_the_buffer_is_full_costs_the_others_no_time(world: World) -> None:
    """What was freed is known to the fetch manager before the application waits."""
    big = bytes(2_000)
    for _ in range(60):
        world.cluster.produce("orders", 0, big)
    consumer = world.consumer(
        auto_offset_reset="earliest",
        max_buffered_bytes=60_000,
        max_partition_fetch_bytes=10_000,
        fetch_max_wait_ms=5_000,
        max_poll_records=1,
    )
    consumer.assign([T0, T1])
    read(world, consumer, 60)
    consumer.pause(T0)
    read(world, consumer, 40, within=1.0)

    late: list[float] = []
    for count in range(40):
        world.sleep(0.1)
        world.cluster.produce("orders", 1, big if count % 3 else b"small")
        began = world.now
        assert len(read(world, consumer, 1)) == 1
        late.append(world.now - began)

    assert max(late) < 0.3
