"""The asyncio consumer on a cluster: its calls, cancellation anywhere, listeners, and its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

import anyio
import pytest
import uvloop

from aktor.aio import (
    AIOKafkaConsumer,
    AsyncConsumerRebalanceListener,
    ConsumerStoppedError,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from aktor.aio.consumer import AMID_A_BATCH
from aktor.errors import (
    BootstrapError,
    IllegalStateError,
    OutsideLogError,
    UserCallbackError,
    WakeupError,
)
from tests.gate import all_but_the_first
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import PROMPT_S, QUICK, SOON_S, hurried, numbered, wait_until

COUNT = 60

#: A call is not suspended so often.
NEVER = 10**9

T = TypeVar("T")


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with some records."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(COUNT))
    return TopicPartition(topic, 0)


def quick(kafka: Cluster, *names: str, **settings: Any) -> KafkaConsumer[Any, Any]:
    """A consumer with the settings in `QUICK` unless told."""
    own = {"bootstrap_servers": kafka.bootstrap_servers, **settings}
    return KafkaConsumer(*names, **hurried(QUICK, own))


def run(program: Coroutine[Any, Any, T]) -> T:
    """Run it in an event loop of its own; it may not take long."""

    async def main() -> T:
        async with asyncio.timeout(SOON_S):
            return await program

    return asyncio.run(main())


@asynccontextmanager
async def assigned(
    kafka: Cluster, *partitions: TopicPartition, **settings: Any
) -> AsyncIterator[KafkaConsumer[Any, Any]]:
    """A consumer that was started and reads these partitions."""
    async with quick(kafka, **settings) as consumer:
        consumer.assign(partitions)
        yield consumer


def offsets(found: dict[TopicPartition, list[Any]]) -> list[int]:
    return [record.offset for records in found.values() for record in records]


# -- the calls


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
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
        await consumer.stop()
        await consumer.stop()

    async def main() -> None:
        async with asyncio.timeout(SOON_S):
            await program()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def first_of(count: int, consumer: KafkaConsumer[Any, Any]) -> AsyncIterator[Any]:
    async for record in consumer:
        yield record
        count -= 1
        if not count:
            return


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


async def at_the_suspension(at: int, program: Coroutine[Any, Any, Any]) -> None:
    """Cancel it where it lets the event loop go on for the `at`-th time."""
    task = asyncio.create_task(program)
    for _ in range(at):
        await asyncio.sleep(0)
    task.cancel()
    await task


def test_a_range_without_partitions_says_what_to_do(kafka: EmbeddedCluster) -> None:
    async def program() -> None:
        async with quick(kafka) as consumer:
            with pytest.raises(IllegalStateError, match=r"call assign\(\)"):
                await consumer.to_table()

    run(program())


class Reporter:
    """Notes the names of metrics."""

    made: ClassVar[list[Reporter]] = []

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.closed = False
        self.made.append(self)

    def configure(self, configs: Any) -> None:
        """Nothing."""

    def init(self, metrics: Any) -> None:
        """Nothing."""

    def metric_change(self, metric: Any) -> None:
        self.names.add(metric.metric_name.name)

    def metric_removal(self, metric: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        self.closed = True


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


async def islice(some: AsyncIterator[T], count: int) -> AsyncIterator[T]:
    for _ in range(count):
        yield await anext(some)


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


# -- cancellation


class CancelledAt:
    """Awaits a coroutine, and cancels it where it is suspended for the n-th time."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int) -> None:
        self._coroutine = coroutine
        self._number = number
        self.was_cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        for _ in range(self._number):
            try:
                future = next(steps)
            except StopIteration as over:
                return over.value
            with suppress(asyncio.CancelledError):
                yield future
        self.was_cancelled = True
        try:
            steps.throw(asyncio.CancelledError())
        except StopIteration as over:
            return over.value
        raise AssertionError("it waits on, though it was cancelled")


async def by_getmany(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    given += offsets(await consumer.getmany(timeout_ms=SOON_S * 1000, max_records=20))


async def by_getone(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    for _ in range(3):
        given.append((await consumer.getone()).offset)


async def by_iteration(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    async for record in consumer:
        given.append(record.offset)
        if record.offset % 10 == 9 or record.offset == 29:
            return


async def by_columns(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    batch = await consumer.poll_arrow(SOON_S * 1000, max_records=20)
    given += batch.column("offset").to_pylist()


async def with_commits(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    given.append((await consumer.getone()).offset)
    await consumer.commit()
    given.append((await consumer.getone()).offset)


async def with_questions(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    (partition,) = consumer.assignment()
    await consumer.position(partition)
    given.append((await consumer.getone(partition)).offset)
    await consumer.end_offsets([partition])
    await consumer.committed(partition)


async def with_looks(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    (partition,) = consumer.assignment()
    await consumer.look_up_topics([partition.topic])
    await consumer.topics()
    given.append((await consumer.getone()).offset)
    await consumer.beginning_offsets([partition])
    await consumer.offsets_for_times({partition: 0})
    consumer.group_metadata()


async def with_an_assignment(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    (partition,) = consumer.assignment()
    consumer.assign({partition: len(given)})
    given.append((await consumer.getone()).offset)


async def with_seeks(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    (partition,) = consumer.assignment()
    await consumer.commit({partition: len(given)})
    await consumer.seek_to_committed()
    given.append((await consumer.getone()).offset)


async def with_pauses(consumer: KafkaConsumer[Any, Any], given: list[int]) -> None:
    (partition,) = consumer.assignment()
    consumer.pause(partition)
    assert not await consumer.getmany(timeout_ms=1)
    consumer.resume(partition)
    given.append((await consumer.getone()).offset)


@pytest.mark.parametrize(
    "reads",
    all_but_the_first(
        7,
        [
            by_getmany,
            by_getone,
            by_iteration,
            by_columns,
            with_commits,
            with_an_assignment,
            with_pauses,
            with_questions,
            with_looks,
            with_seeks,
        ],
    ),
)
def test_a_program_that_is_cancelled_anywhere_misses_no_record_and_gets_none_twice(
    kafka: Cluster,
    topic: str,
    group: str,
    reads: Callable[[KafkaConsumer[Any, Any], list[int]], Coroutine[Any, Any, None]],
) -> None:
    orders = TopicPartition(topic, 0)
    topics.create_topic(kafka.bootstrap_servers, topic)
    for _ in range(10):  # a fetch brings one batch, so that each read waits
        topics.produce(kafka.bootstrap_servers, topic, numbered(3))

    async def program() -> None:
        small = {"max_partition_fetch_bytes": 1, "group_id": group}
        async with assigned(kafka, orders, **small) as consumer:
            cancelled, number, total = 1, 0, 0
            while cancelled:
                # Every other attempt is cancelled, at its first suspension; in the next round at
                # the second; and so on, until none is suspended so often.
                number, cancelled, attempts = number + 1, 0, 0
                consumer.seek(orders, 0)
                given: list[int] = []
                while len(given) < 28:
                    attempts += 1
                    attempt = CancelledAt(reads(consumer, given), number if attempts % 2 else NEVER)
                    with suppress(asyncio.CancelledError):
                        await attempt
                    cancelled += attempt.was_cancelled
                assert given == [*range(len(given))]
                total += cancelled
            assert total > 0, "nothing was cancelled"

    run(program())


@pytest.mark.embedded("records are here already")
@pytest.mark.parametrize("scope", ["anyio", "timeout", "wait_for", "task group"])
def test_whatever_cancels_a_call_no_record_is_lost(
    kafka: EmbeddedCluster, orders: TopicPartition, scope: str
) -> None:
    """Python 3.11's `wait_for` drops a result that is ready when it is cancelled."""

    async def program() -> None:
        found: list[int] = []

        async def read() -> None:
            found.extend(offsets(await consumer.getmany(timeout_ms=1000, max_records=1)))

        async def fail(after: float) -> None:
            await asyncio.sleep(after)
            raise ZeroDivisionError

        async with assigned(kafka, orders, max_partition_fetch_bytes=200) as consumer:
            for number in range(40):
                after = number * 0.00003
                with suppress(TimeoutError):
                    if scope == "anyio":
                        with anyio.move_on_after(after):
                            await read()
                    elif scope == "timeout":
                        async with asyncio.timeout(after):
                            await read()
                    elif scope == "wait_for":
                        await asyncio.wait_for(read(), after)
                    else:
                        with suppress(ExceptionGroup):
                            async with asyncio.TaskGroup() as tasks:
                                tasks.create_task(read())
                                tasks.create_task(fail(after))
            while len(found) < COUNT:
                await read()
        assert found == [*range(COUNT)]

    run(program())


def test_asyncios_debug_mode_finds_nothing(
    kafka: Cluster, orders: TopicPartition, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No task that was destroyed while it waited, no coroutine that was never awaited."""

    async def program() -> None:
        asyncio.get_running_loop().slow_callback_duration = SOON_S
        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=Listener(lambda _assigned: commit()))

            async def commit() -> None:
                await consumer.commit({orders: 0})

            for turns in range(12):
                call = asyncio.create_task(consumer.getmany(timeout_ms=1000, max_records=1))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
            await consumer.getone()
            committing = asyncio.create_task(consumer.commit())
            await asyncio.sleep(0)
            committing.cancel()
            consumer.unsubscribe()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    gc.collect()  # what other tests have left
    with warnings.catch_warnings(record=True) as told, caplog.at_level(logging.WARNING, "asyncio"):
        warnings.simplefilter("always")
        asyncio.run(program(), debug=True)
        gc.collect()
    # The consumer may warn: of the commit that was cancelled, and of a clock that seems to jump.
    of_asyncio = [one.getMessage() for one in caplog.records if one.name == "asyncio"]
    assert [*unstopped(told), *of_asyncio] == []


def test_a_listener_has_the_context_of_the_call_in_which_it_runs(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[str] = []

    async def look(_assigned: object) -> None:
        await asyncio.sleep(0)
        seen.append(request.get())

    async def program() -> None:
        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=Listener(look))
            request.set("of the reader")
            await consumer.getone()

    run(program())
    assert seen == ["of the reader"]


class Listener(AsyncConsumerRebalanceListener):
    """It waits for something in its callback, and notes what it was told."""

    def __init__(self, then: Callable[[Any], Awaitable[object]] | None = None) -> None:
        self.told: list[str] = []
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self._then = then

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.told.append("assigned")
        self.begun.set()
        self.loops.add(asyncio.get_running_loop())
        if self._then is None:
            await self.goes_on.wait()
        else:
            await self._then(assigned)
        self.told.append("assigned, over")

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.told.append("revoked")


def test_a_listener_runs_to_its_end_though_the_call_that_it_runs_in_is_cancelled(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        listener = Listener()
        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=listener)
            reading = asyncio.create_task(consumer.getmany(timeout_ms=SOON_S * 1000))
            await listener.begun.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            listener.goes_on.set()
            assert offsets(await consumer.getmany(timeout_ms=SOON_S * 1000)) == [*range(COUNT)]
            assert listener.told == ["assigned", "assigned, over"]
            assert listener.loops == {asyncio.get_running_loop()}

    run(program())


def test_a_listener_may_call_the_consumer_also_from_tasks_that_it_starts(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        found: list[Any] = []

        async def ask(assigned: set[TopicPartition]) -> None:
            (partition,) = assigned
            async with asyncio.TaskGroup() as tasks:
                position = tasks.create_task(consumer.position(partition))
                ends = tasks.create_task(consumer.end_offsets([partition]))
            found.extend((position.result(), ends.result()))
            await consumer.commit({partition: 7})
            consumer.seek(partition, 50)
            with pytest.raises(IllegalStateError, match="getmany may not be called"):
                await consumer.getmany()
            with pytest.raises(IllegalStateError, match="subscribe may not be called"):
                consumer.subscribe(["other"])

        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=Listener(ask))
            assert (await consumer.getone()).offset == 50
            assert found == [0, {orders: COUNT}]
            assert await consumer.committed(orders) == 7

    run(program())


def test_a_listener_may_wait_for_tasks_that_commit_and_look(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    """As it is usual: on a revocation the workers end what they have in hand, and commit it."""

    async def program() -> None:
        wanted = asyncio.Event()

        async def work() -> int:
            await wanted.wait()
            await consumer.commit({orders: 7})
            consumer.seek(orders, 50)
            return await consumer.position(orders)

        worker = asyncio.create_task(work())

        async def wait_for_it(_assigned: object) -> None:
            wanted.set()
            await worker

        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=Listener(wait_for_it))
            assert (await consumer.getone()).offset == 50
            assert worker.result() == 50
            assert await consumer.committed(orders) == 7

    run(program())


def test_a_call_that_others_began_in_a_listener_is_over_before_the_rebalance_goes_on(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        async def commit(_assigned: object) -> None:
            commits.append(asyncio.create_task(consumer.commit({orders: 7})))
            await asyncio.sleep(0)

        commits: list[asyncio.Task[None]] = []
        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=Listener(commit))
            while not await consumer.getmany(timeout_ms=SOON_S * 1000):
                pass
            assert commits[0].done()
            assert await consumer.committed(orders) == 7

    run(program())


@pytest.mark.parametrize("reads", ["getmany", "getone", "unsubscribe"])
def test_a_task_that_reads_may_not_be_waited_for_by_a_listener(
    kafka: Cluster, orders: TopicPartition, group: str, reads: str
) -> None:
    async def program() -> None:
        wanted = asyncio.Event()

        async def work() -> None:
            await wanted.wait()
            if reads == "getmany":
                await consumer.getmany(timeout_ms=SOON_S * 1000)
            elif reads == "getone":
                await consumer.getone()
            else:
                await consumer.unsubscribe()

        worker = asyncio.create_task(work(), name="worker")

        async def wait_for_it(_assigned: object) -> None:
            wanted.set()
            await asyncio.wait([worker])

        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=Listener(wait_for_it))
            assert (await consumer.getone()).offset == 0
            with pytest.raises(IllegalStateError, match=r"'worker' would wait for ever"):
                worker.result()

    run(program())


def test_getmany_waits_for_the_listener_of_another_task_until_its_time_is_over(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        listener = Listener()
        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=listener)
            reading = asyncio.create_task(consumer.getone())
            await listener.begun.wait()
            assert await consumer.getmany(timeout_ms=20) == {}
            consumer.pause(orders)
            consumer.resume(orders)
            listener.goes_on.set()
            assert (await reading).offset == 0

    run(program())


def test_a_listener_may_wait_for_a_task_that_stops_the_consumer(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        wanted = asyncio.Event()

        async def work() -> None:
            await wanted.wait()
            await consumer.stop()

        worker = asyncio.create_task(work())

        async def wait_for_it(_assigned: object) -> None:
            wanted.set()
            await worker

        consumer = quick(kafka, group_id=group)
        await consumer.start()
        consumer.subscribe([orders.topic], listener=Listener(wait_for_it))
        with pytest.raises(ConsumerStoppedError):
            await consumer.getone()
        await consumer.stop()

    run(program())


# -- start


def test_start_returns_with_the_partitions_of_the_subscription(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        listener = Listener(lambda _assigned: consumer.commit({orders: 5}))
        consumer = quick(kafka, group_id=group)
        consumer.subscribe([orders.topic], listener=listener)
        async with consumer:
            assert consumer.assignment() == {orders}
            assert listener.told == ["assigned", "assigned, over"]
            assert await consumer.seek_to_committed() == {orders: 5}
            assert (await consumer.getone()).offset == 5
        async with quick(kafka, orders.topic, group_id=None) as consumer:
            assert consumer.assignment() == {orders}

    run(program())


def test_members_that_are_started_one_after_the_other_share_before_the_first_read(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)

    async def program() -> None:
        async with (
            quick(kafka, topic, group_id=group) as one,
            quick(kafka, topic, group_id=group) as two,
        ):
            assert two.assignment(), "the other one took part, though nothing reads it"
            assert not two.assignment() & one.assignment()

    run(program())


def test_what_a_listener_raises_in_start_is_raised_by_the_first_call_that_reads(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def fail(_assigned: object) -> None:
        raise ZeroDivisionError

    async def program() -> None:
        consumer = quick(kafka, group_id=group)
        consumer.subscribe([orders.topic], listener=Listener(fail))
        async with consumer:
            with pytest.raises(UserCallbackError):
                await consumer.getone()
            assert (await consumer.getone()).offset == 0

    run(program())


def test_what_a_listener_raises_is_raised_by_the_call_that_it_runs_in(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def fail(_assigned: object) -> None:
        raise ZeroDivisionError

    async def program() -> None:
        async with quick(kafka, group_id=group) as consumer:
            consumer.subscribe([orders.topic], listener=Listener(fail))
            with pytest.raises(UserCallbackError) as raised:
                await consumer.getone()
            assert isinstance(raised.value.__cause__, ZeroDivisionError)
            assert (await consumer.getone()).offset == 0

    run(program())


# -- the end


@pytest.mark.parametrize("waits", ["getone", "getmany", "iteration", "columns"])
def test_stop_ends_what_waits_for_records(
    kafka: Cluster, orders: TopicPartition, waits: str
) -> None:
    async def program() -> None:
        async with assigned(kafka, orders) as consumer:
            await consumer.seek_to_end()

            async def iterate() -> str:
                return "".join([str(record.offset) async for record in consumer]) + "over"

            calls: dict[str, Coroutine[Any, Any, Any]] = {
                "getone": consumer.getone(),
                "getmany": consumer.getmany(timeout_ms=SOON_S * 1000),
                "iteration": iterate(),
                "columns": consumer.poll_arrow(SOON_S * 1000),
            }
            task = asyncio.create_task(calls.pop(waits))
            for other in calls.values():
                other.close()
            await asyncio.sleep(0.05)
            async with asyncio.timeout(PROMPT_S):
                await consumer.stop()
                if waits == "iteration":
                    assert await task == "over"
                else:
                    with pytest.raises(ConsumerStoppedError):
                        await task
            for call in (consumer.getone(), consumer.getmany(), consumer.commit({orders: 1})):
                with pytest.raises((ConsumerStoppedError, IllegalStateError)):
                    await call

    run(program())


def test_stop_commits_what_was_given_out_and_leaves_the_group(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        settings = {"group_id": group, "enable_auto_commit": True}
        async with quick(kafka, orders.topic, **settings) as consumer:
            assert [one.offset async for one in first_of(5, consumer)] == [*range(5)]
        async with quick(kafka, orders.topic, **settings) as consumer:
            async with asyncio.timeout(PROMPT_S):  # it need not wait for a session to end
                assert (await consumer.getone()).offset == 5

    run(program())


@pytest.mark.parametrize("ends_by", ["an error", "cancelled in hand", "cancelled while it waits"])
def test_what_was_in_hand_when_the_block_ended_is_not_committed(
    kafka: Cluster, orders: TopicPartition, group: str, ends_by: str
) -> None:
    """As in the synchronous class. While a call for records waits, none is in hand."""

    async def program() -> None:
        settings = {"group_id": group, "enable_auto_commit": True}
        reached, wanted = asyncio.Event(), COUNT if ends_by == "cancelled while it waits" else 5

        async def read() -> None:
            async with quick(kafka, orders.topic, **settings) as consumer:
                async for record in consumer:
                    if record.offset == wanted - 1:
                        reached.set()
                        if ends_by == "an error":
                            raise ZeroDivisionError
                        if ends_by == "cancelled in hand":
                            await asyncio.Event().wait()

        reading = asyncio.create_task(read())
        await reached.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        reading.cancel()
        with pytest.raises((asyncio.CancelledError, ZeroDivisionError)):
            await reading
        async with quick(kafka, orders.topic, **settings) as consumer:
            committed = await consumer.committed(orders)
        assert (committed == COUNT) if wanted == COUNT else ((committed or 0) < wanted)

    run(program())


def test_a_listener_may_stop_the_consumer(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        consumer = quick(kafka, group_id=group)
        listener = Listener(lambda _assigned: consumer.stop())
        await consumer.start()
        consumer.subscribe([orders.topic], listener=listener)
        with pytest.raises(ConsumerStoppedError):
            await consumer.getone()
        await consumer.stop()
        assert listener.told == ["assigned", "assigned, over", "revoked"]

    run(program())


def test_stop_that_is_cancelled_stops_all_the_same(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        consumer = quick(kafka, orders.topic, group_id=group)
        await consumer.start()
        await consumer.getone()
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        await consumer.stop()
        assert not consumer._dispatcher.alive

    run(program())


@pytest.mark.parametrize("times", [1, 2, 3])
def test_start_that_is_cancelled_ends_the_consumer_and_stop_waits_for_that(times: int) -> None:
    async def program() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", metric_reporters=[Reporter])
        starting = asyncio.create_task(consumer.start())
        await asyncio.sleep(0.01)
        for _ in range(times):
            starting.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await starting
        await consumer.stop()
        assert not consumer._dispatcher.alive
        assert Reporter.made.pop().closed

    run(program())


def test_wakeup_ends_the_call_that_waits(kafka: Cluster, orders: TopicPartition) -> None:
    async def program() -> None:
        async with assigned(kafka, orders) as consumer:
            await consumer.seek_to_end()
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.05)
            await asyncio.to_thread(consumer.wakeup)
            with pytest.raises(WakeupError):
                await waiting

    run(program())


@pytest.mark.embedded("no broker is asked")
def test_a_call_outside_of_its_event_loop_is_refused(kafka: EmbeddedCluster) -> None:
    consumer = quick(kafka)

    async def use() -> None:
        with pytest.raises(IllegalStateError, match="not started: await start"):
            await consumer.getmany()
        await consumer.start()

    async def use_elsewhere() -> None:
        with pytest.raises(IllegalStateError, match="another event loop, which is closed"):
            await consumer.getmany()

    run(use())
    run(use_elsewhere())
    consumer._dispatcher.stop(PROMPT_S)


@pytest.mark.embedded("what the brokers have sent is at hand")
def test_records_at_hand_are_not_given_out_in_another_event_loop(
    kafka: EmbeddedCluster, orders: TopicPartition
) -> None:
    consumer = quick(kafka)

    async def use() -> None:
        await consumer.start()
        consumer.assign([orders])
        assert (await consumer.getone()).offset == 0

    async def use_elsewhere() -> None:
        with pytest.raises(IllegalStateError, match="another event loop"):
            await consumer.getone()
        with pytest.raises(IllegalStateError, match="another event loop"):
            async for _ in consumer:
                pass

    run(use())
    run(use_elsewhere())
    consumer._dispatcher.stop(PROMPT_S)


@pytest.mark.embedded("no broker is asked")
def test_one_that_was_not_stopped_warns(kafka: EmbeddedCluster) -> None:
    async def forget() -> None:
        await quick(kafka).start()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run(forget())
        gc.collect()
    assert any("was not stopped" in str(one.message) for one in told)


def unstopped(told: list[warnings.WarningMessage]) -> list[str]:
    """What was warned of."""
    return [str(one.message) for one in told]


@pytest.mark.embedded("no broker is asked")
def test_one_that_was_never_started_and_is_dropped_leaves_no_socket(kafka: EmbeddedCluster) -> None:
    gc.collect()  # what other tests have left
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            quick(kafka)
        gc.collect()
    assert unstopped(told) == []


async def _amid_an_iteration(consumer: KafkaConsumer[Any, Any]) -> None:
    await consumer.start()
    await consumer.seek_to_end()
    await anext(consumer)


async def _amid_start(consumer: KafkaConsumer[Any, Any]) -> None:
    consumer.subscribe([*consumer.subscription()], listener=Listener())
    await consumer.start()


async def _amid_a_listener(consumer: KafkaConsumer[Any, Any]) -> None:
    await consumer.start()
    topics = [*consumer.subscription()]
    await consumer.unsubscribe()
    consumer.subscribe(topics, listener=Listener())
    await consumer.getone()


async def _amid_stop(consumer: KafkaConsumer[Any, Any]) -> None:
    class Waits(Listener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await self.goes_on.wait()

    consumer.subscribe([*consumer.subscription()], listener=Waits(lambda _: asyncio.sleep(0)))
    await consumer.start()
    await consumer.stop()


async def _amid_process(consumer: KafkaConsumer[Any, Any]) -> None:
    async def handle(record: Any) -> None: ...

    await consumer.start()
    await consumer.process(handle)


async def _amid_a_handler(consumer: KafkaConsumer[Any, Any]) -> None:
    async def handle(record: Any) -> None:
        await asyncio.Event().wait()

    await consumer.start()
    await consumer.process(handle)


async def _amid_its_block(consumer: KafkaConsumer[Any, Any]) -> None:
    async with consumer:
        await asyncio.Event().wait()


@pytest.mark.embedded("what is looked at is this process")
@pytest.mark.parametrize(
    "program",
    all_but_the_first(
        4,
        [
            _amid_an_iteration,
            _amid_start,
            _amid_stop,
            _amid_a_handler,
            _amid_a_listener,
            _amid_process,
            _amid_its_block,
        ],
    ),
)
def test_a_loop_that_is_closed_in_the_middle_of_a_call_does_not_keep_the_consumer(
    kafka: EmbeddedCluster,
    orders: TopicPartition,
    group: str,
    program: Callable[[KafkaConsumer[Any, Any]], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its thread ends, and nothing is awaited that nobody would go on with."""
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: unraisable.append(told.exc_value))
    loop = asyncio.new_event_loop()
    consumer = quick(kafka, orders.topic, group_id=group, enable_auto_commit=False)
    dispatcher = consumer._dispatcher
    task = loop.create_task(program(consumer))
    while not consumer.assignment() and not task.done():
        loop.run_until_complete(asyncio.sleep(0.01))
    loop.run_until_complete(asyncio.sleep(0.1))
    assert not task.done()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loop.close()
        del task, consumer, loop
        wait_until(lambda: gc.collect() >= 0 and not dispatcher.alive, "its thread has ended")
    assert not [one for one in unstopped(told) if "was not stopped" not in one]
    assert unraisable == []


@pytest.mark.embedded("no broker is asked")
def test_outside_of_an_event_loop_it_says_what_to_do(
    kafka: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> KafkaConsumer[Any, Any]:
        consumer = quick(kafka)
        await consumer.start()
        with pytest.raises(IllegalStateError, match="call_soon_threadsafe"):
            await asyncio.to_thread(consumer.pause)
        await consumer.stop()
        return quick(kafka)

    consumer = run(start())
    trio = SimpleNamespace(lowlevel=SimpleNamespace(in_trio_run=lambda: True))
    monkeypatch.setitem(sys.modules, "trio", trio)
    with pytest.raises(IllegalStateError, match=r"in asyncio's event loop.*and not in trio's"):
        consumer.start().send(None)


def test_start_names_the_servers_that_it_has_not_reached() -> None:
    async def program() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=300)
        with pytest.raises(BootstrapError, match=r"127\.0\.0\.1:1"):
            await consumer.start()
        assert not consumer._dispatcher.alive
        with pytest.raises(ConsumerStoppedError):
            await consumer.start()
        async with asyncio.timeout(PROMPT_S):
            await consumer.stop()

    run(program())


@pytest.mark.embedded("aiokafka's classes are what is looked at")
def test_assignors_of_aiokafka_are_ours_of_the_same_names(kafka: EmbeddedCluster) -> None:
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as RoundRobin

    async def program() -> None:
        consumer = quick(kafka, partition_assignment_strategy=(RoundRobinPartitionAssignor,))
        assert consumer.config["partition_assignment_strategy"] == (RoundRobin,)
        await consumer.stop()

    run(program())
