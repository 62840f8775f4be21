"""The asyncio consumer on a cluster: its calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from aktor.aio import (
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from aktor.aio.consumer import AMID_A_BATCH
from aktor.errors import (
    IllegalStateError,
    OutsideLogError,
)
from tests.kafka.asyncio_support import (
    COUNT,
    Reporter,
    assigned,
    at_the_suspension,
    first_of,
    islice,
    offsets,
    quick,
    run,
    with_records,
)
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import PROMPT_S, SOON_S, numbered

pytestmark = pytest.mark.ours("how calls wait in an event loop is its own matter")


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with some records."""
    return with_records(kafka, topic)


# -- the calls


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.both("all calls once, on both")
def test_its_calls_are_those_of_aiokafka(
    kafka: Cluster, orders: TopicPartition, group: str, loop: Any
) -> None:
    async def program() -> None:
        consumer = quick(kafka, orders.topic, group_id=group)
        await consumer.start()
        first = await consumer.getone()
        assert (first.offset, first.topic) == (0, orders.topic)
        assert offsets(await consumer.getmany(timeout_ms=1000, max_records=9)) == [*range(1, 10)]
        assert offsets(await consumer.getmany(orders, timeout_ms=1000, max_records=5)) == [
            *range(10, 15)
        ]
        assert (await consumer.getone(orders)).offset == 15
        await consumer.commit()
        assert await consumer.committed(orders) == 16
        await consumer.commit({orders: 3})
        assert await consumer.committed(orders) == 3
        await consumer.commit({orders: (4, "by me")})
        await consumer.commit({orders: OffsetAndMetadata(5, "", -1)})
        assert await consumer.position(orders) == 16
        assert await consumer.seek_to_committed() == {orders: 5}
        assert (await consumer.getone()).offset == 5
        assert await consumer.seek_to_beginning()
        assert await consumer.position(orders) == 0
        assert await consumer.seek_to_end(orders)
        assert await consumer.position(orders) == COUNT
        consumer.seek(orders, COUNT - 2)
        assert [record.offset async for record in first_of(2, consumer)] == [COUNT - 2, COUNT - 1]
        assert await consumer.beginning_offsets([orders]) == {orders: 0}
        assert await consumer.end_offsets([orders]) == {orders: COUNT}
        assert (await consumer.offsets_for_times({orders: 0}))[orders].offset == 0
        assert orders.topic in await consumer.topics()
        assert consumer.partitions_for_topic(orders.topic) == {0}
        assert consumer.assignment() == {orders}
        assert consumer.subscription() == {orders.topic}
        assert consumer.highwater(orders) == consumer.last_stable_offset(orders) == COUNT
        told = consumer.last_poll_timestamp(orders)
        assert told is not None
        assert abs(told - time.time() * 1000) < SOON_S * 1000
        assert consumer.group_metadata().group_id == group
        assert consumer.group_metadata().generation_id >= 0
        assert consumer.bootstrap_connected()
        assert {*await consumer.look_up_topics([orders.topic, "none-such"])} == {orders.topic}
        consumer.pause(orders)
        assert consumer.paused() == {orders}
        consumer.resume(orders)
        consumer.seek(orders, 0)
        assert (await consumer.poll_arrow(1000)).num_rows == COUNT
        await consumer.unsubscribe()
        assert consumer.assignment() == consumer.subscription() == frozenset()
        consumer.assign([orders])
        assert consumer.subscription() == {orders.topic}
        await consumer.stop()
        await consumer.stop()

    async def main() -> None:
        async with asyncio.timeout(SOON_S):
            await program()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def test_assign_takes_offsets_to_begin_at(kafka: Cluster, orders: TopicPartition) -> None:
    async def program() -> None:
        async with quick(kafka) as consumer:
            consumer.assign({orders: COUNT - 3})
            assert consumer.last_poll_timestamp(orders) is None
            assert (await consumer.getone()).offset == COUNT - 3

    run(program())


def test_getmany_gives_records_of_the_partitions_that_it_names_and_keeps_the_others(
    kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    a, b = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for one in (a, b):
        topics.produce(kafka.bootstrap_servers, topic, numbered(10), partition=one.partition)

    async def program() -> None:
        async with assigned(kafka, a, b) as consumer:
            found = await consumer.getmany(b, timeout_ms=SOON_S * 1000, max_records=4)
            assert offsets(found) == [0, 1, 2, 3]
            assert found.keys() == {b}
            while await consumer.getmany(b, timeout_ms=300):
                pass
            assert await consumer.position(a) == 0
            assert (await consumer.getone(a)).offset == 0

    run(program())


def test_a_commit_is_not_held_up_by_a_task_that_waits_for_records(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        async with assigned(kafka, orders, group_id=group) as consumer:
            await consumer.seek_to_end()
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.05)
            async with asyncio.timeout(PROMPT_S):
                await consumer.commit()
                assert await consumer.committed(orders) == COUNT
                consumer.pause(orders)
                consumer.resume(orders)
            assert not waiting.done()
            topics.produce(kafka.bootstrap_servers, orders.topic, numbered(1))
            assert (await waiting).offset == COUNT

    run(program())


def test_a_task_that_waits_for_records_hears_of_those_that_another_task_makes_ready(
    kafka: Cluster, orders: TopicPartition
) -> None:
    async def program() -> None:
        async with assigned(kafka, orders) as consumer:
            assert (await consumer.getone()).offset == 0
            consumer.pause(orders)
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.3)
            assert not waiting.done()
            async with asyncio.timeout(PROMPT_S):
                consumer.resume(orders)
                assert (await waiting).offset == 1

    run(program())


def test_it_says_how_it_is_and_why_nothing_comes(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        events: list[str] = []
        consumer = quick(kafka, orders.topic, group_id=group)
        consumer.on_event(lambda event: events.append(event["event"]))
        async with consumer:
            await consumer.getone()
            assert consumer.status().partitions.keys() == {orders}
            consumer.pause(orders)
            assert "paused" in consumer.why()
            assert len(consumer.rebalances) == 1
            assert "rebalance.completed" in events

    run(program())


def test_who_looks_sees_the_lag_of_a_paused_partition_grow(
    kafka: Cluster, orders: TopicPartition
) -> None:
    async def program() -> None:
        async with assigned(kafka, orders) as consumer:
            await consumer.getone()
            consumer.pause(orders)
            await asyncio.sleep(2.1)
            topics.produce(kafka.bootstrap_servers, orders.topic, numbered(3))
            async with asyncio.timeout(PROMPT_S):
                while consumer.status().partitions[orders].lag != COUNT - 1 + 3:
                    await asyncio.sleep(0.1)

    run(program())


def test_a_bounded_range_comes_as_a_table(kafka: Cluster, orders: TopicPartition) -> None:
    async def program() -> None:
        async with assigned(kafka, orders) as consumer:
            table = await consumer.to_table(start="earliest", columns=["offset"])
            assert table["offset"].to_pylist() == [*range(COUNT)]
            assert (await consumer.position(orders), consumer.paused()) == (COUNT, set())
            with pytest.raises(OutsideLogError):
                await consumer.to_table(start={orders: COUNT + 5}, end={orders: COUNT + 9})

    run(program())


def test_a_table_that_is_cancelled_leaves_the_positions_where_its_ranges_begin(
    kafka: Cluster, orders: TopicPartition
) -> None:
    async def program() -> None:
        async with assigned(kafka, orders) as consumer:
            consumer.seek(orders, 7)
            for at in range(1, 9):
                with suppress(asyncio.CancelledError):
                    await at_the_suspension(at, consumer.to_table(end={orders: COUNT + 1}))
                assert consumer.paused() == set()
            assert await consumer.position(orders) == 7

    run(program())


def test_a_range_without_partitions_says_what_to_do(kafka: EmbeddedCluster) -> None:
    async def program() -> None:
        async with quick(kafka) as consumer:
            with pytest.raises(IllegalStateError, match=r"call assign\(\)"):
                await consumer.to_table()

    run(program())


def test_its_metrics_are_those_of_the_synchronous_consumer(
    kafka: EmbeddedCluster, orders: TopicPartition
) -> None:
    async def program() -> None:
        consumer = quick(kafka, metric_reporters=[Reporter])
        assert "consumer-metrics" in (consumer.metrics() or {}), "also before the start"
        async with consumer:
            consumer.assign([orders])
            while await consumer.position(orders) < COUNT:
                await consumer.getmany(timeout_ms=1000)
            read = (consumer.metrics() or {})["consumer-fetch-manager-metrics"]
            assert read["records-consumed-total"] == COUNT
            assert read["fetch-total"] >= 1, "the actors were asked, too"
        reporter = Reporter.made.pop()
        assert "records-consumed-total" in reporter.names
        assert reporter.closed

    run(program())


async def _by_iteration(consumer: Any) -> AsyncIterator[Any]:
    async for record in consumer:
        yield record


async def _one_by_one(consumer: Any) -> AsyncIterator[Any]:
    while True:
        yield await consumer.getone()


async def _in_batches_of_one(consumer: Any) -> AsyncIterator[Any]:
    while True:
        yield await consumer.getmany(timeout_ms=1000, max_records=1)


async def _in_columns(consumer: Any) -> AsyncIterator[Any]:
    while True:
        yield await consumer.poll_arrow(1000, 1)


@pytest.mark.embedded("records are here already")
@pytest.mark.parametrize("read", [_by_iteration, _one_by_one, _in_batches_of_one, _in_columns])
def test_other_tasks_have_their_turns_while_records_are_here(
    kafka: EmbeddedCluster, orders: TopicPartition, read: Callable[[Any], AsyncIterator[Any]]
) -> None:
    """No call waits then, so that nothing else would let them run."""
    count, turns = 20, 0

    async def program() -> None:
        nonlocal turns
        async with assigned(kafka, orders) as consumer:
            await consumer.getone()

            async def take_turns() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(take_turns())
            async for _ in islice(read(consumer), count):
                time.sleep(1.5 * AMID_A_BATCH)  # the program computes
            other.cancel()

    run(program())
    assert turns >= count // 2


@pytest.mark.embedded("no broker is asked")
@pytest.mark.parametrize("how", ["getmany", "poll_arrow"])
def test_other_tasks_have_their_turns_while_a_program_looks_without_waiting(
    kafka: EmbeddedCluster, how: str
) -> None:
    async def program() -> None:
        async with quick(kafka) as consumer:
            consumer.assign([])
            over = asyncio.Event()
            asyncio.get_running_loop().call_later(0.01, over.set)
            for _ in range(50_000):  # a look takes longer than 1 µs
                await getattr(consumer, how)(timeout_ms=0)
                if over.is_set():
                    return
            raise AssertionError("nothing else has run")

    run(program())


@pytest.mark.embedded("no broker is asked")
@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_topics_may_come_in_whatever_aiokafka_takes(
    kafka: EmbeddedCluster, kind: Callable[[list[str]], Any]
) -> None:
    async def program() -> None:
        consumer = quick(kafka)
        consumer.subscribe(kind(["orders", "bills"]))
        assert consumer.subscription() == {"orders", "bills"}
        with pytest.raises(TypeError):
            consumer.subscribe(kind(["orders", 7]))  # type: ignore[list-item]
        await consumer.stop()

    run(program())


@pytest.mark.parametrize("then", ["assign", "subscribe"])
def test_what_follows_unsubscribe_at_once_takes_effect_after_it(
    kafka: Cluster, orders: TopicPartition, group: str, then: str
) -> None:
    """As programs for aiokafka have it, where `unsubscribe` is a function."""

    async def program() -> None:
        settings = {"group_id": group, "enable_auto_commit": False}
        async with quick(kafka, orders.topic, **settings) as consumer:
            assert (await consumer.getone()).offset == 0
            consumer.unsubscribe()
            if then == "assign":
                consumer.assign([orders])
            else:
                consumer.subscribe([orders.topic])
            assert (await consumer.getone()).offset == 0  # the group has no commit
            assert consumer.assignment() == {orders}

    run(program())


@pytest.mark.parametrize("turns", [2, 4])
def test_unsubscribe_goes_on_though_who_awaits_it_is_cancelled(
    kafka: Cluster, orders: TopicPartition, group: str, turns: int
) -> None:
    async def program() -> None:
        settings = {"group_id": group, "enable_auto_commit": True}
        async with quick(kafka, orders.topic, **settings) as consumer:
            assert (await consumer.getone()).offset == 0

            async def unsubscribe() -> None:
                await consumer.unsubscribe()

            leaving = asyncio.create_task(unsubscribe())
            for _ in range(turns):
                await asyncio.sleep(0)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            consumer.subscribe([orders.topic])
            assert (await consumer.getone()).offset == 1  # it has committed

    run(program())


@pytest.mark.parametrize("how", ["subclass", "put in place"])
def test_an_iteration_calls_the_getone_that_is_in_place_of_ours(
    kafka: EmbeddedCluster, orders: TopicPartition, how: str
) -> None:
    """As aiokafka's: programs count, decode and trace records there."""
    seen: list[int] = []

    class Counting(KafkaConsumer[Any, Any]):
        async def getone(self, *partitions: TopicPartition) -> Any:
            record = await super().getone(*partitions)
            seen.append(record.offset)
            return record

    async def program() -> list[int]:
        settings: dict[str, Any] = {"auto_offset_reset": "earliest"}
        kind = Counting if how == "subclass" else KafkaConsumer
        consumer: Any = kind(orders.topic, bootstrap_servers=kafka.bootstrap_servers, **settings)
        if how == "put in place":
            own = consumer.getone

            async def getone() -> Any:
                record = await own()
                seen.append(record.offset)
                return record

            consumer.getone = getone
        async with consumer:
            found = []
            async for record in consumer:
                found.append(record.offset)
                if record.offset == COUNT - 1:
                    await consumer.stop()
        return found

    assert asyncio.run(program()) == seen == [*range(COUNT)]


def test_many_tasks_read_each_record_once(kafka: Cluster, orders: TopicPartition) -> None:
    async def program() -> None:
        async with assigned(kafka, orders, max_poll_records=7) as consumer:
            found: list[int] = []

            async def read(how: int) -> None:
                while len(found) < COUNT:
                    if how == 0:
                        found.extend(offsets(await consumer.getmany(timeout_ms=50)))
                    elif how == 1:
                        found.append((await consumer.getone()).offset)
                    else:
                        async for record in consumer:
                            found.append(record.offset)
                            await asyncio.sleep(0)

            readers = [asyncio.create_task(read(number % 3)) for number in range(6)]
            while len(found) < COUNT:
                await asyncio.sleep(0.01)
            for reader in readers:
                reader.cancel()
            assert sorted(found) == [*range(COUNT)]

    run(program())


def test_a_partition_that_another_task_gives_up_is_not_sought(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        async with assigned(kafka, orders, group_id=group) as consumer:
            await consumer.commit({orders: 5})
            seeking = asyncio.create_task(consumer.seek_to_committed())
            await asyncio.sleep(0)  # it asks
            consumer.assign([TopicPartition(orders.topic, 1)])
            with pytest.raises(IllegalStateError, match="not assigned any more"):
                await seeking

    run(program())
