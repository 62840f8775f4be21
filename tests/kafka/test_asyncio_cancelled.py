"""The asyncio consumer on a cluster: cancellation anywhere, and listeners."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from aktor.aio import (
    AsyncConsumerRebalanceListener,
    ConsumerStoppedError,
    KafkaConsumer,
    TopicPartition,
)
from aktor.errors import (
    IllegalStateError,
)
from tests.gate import all_but_the_first
from tests.kafka.asyncio_support import (
    COUNT,
    NEVER,
    Listener,
    assigned,
    offsets,
    quick,
    run,
    unstopped,
    with_records,
)
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import SOON_S, numbered

pytestmark = pytest.mark.ours("a cancellation never gets as far as a broker")


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with some records."""
    return with_records(kafka, topic)


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


class Alarm(Exception):
    """What a signal handler raises."""


class Alarmed(AsyncConsumerRebalanceListener):
    """If it is armed, a signal comes once, just before it is called of a revocation."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.armed = False

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.told.append("assigned")

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await asyncio.sleep(0)
        self.told.append("revoked")

    def __getattribute__(self, name: str) -> Any:
        if name == "on_partitions_revoked" and self.armed:
            self.armed = False
            raise Alarm
        return super().__getattribute__(name)


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("following", ["subscribe", "assign", "getmany", "unsubscribe", "stop"])
def test_a_listener_hears_of_its_partitions_if_a_signal_ends_unsubscribe_before_it(
    kafka: EmbeddedCluster, orders: TopicPartition, group: str, following: str, queued: bool
) -> None:
    """`subscribe` and `assign` do not wait for the listener, and `unsubscribe` goes on before."""
    listener, settings = Alarmed(), {"group_id": group, "enable_auto_commit": False}

    async def program() -> None:
        async with quick(kafka, **settings, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([orders.topic], listener=listener)
            first = await consumer.getone()
            listener.armed = True
            unsubscribing = consumer.unsubscribe()
            if queued:
                consumer.assign([orders])
            with pytest.raises(Alarm):
                await unsubscribing
            assert listener.told == ["assigned"]
            match following:
                case "subscribe":
                    if not queued:  # else it is refused: partitions are assigned by hand
                        consumer.subscribe([orders.topic])
                case "assign":
                    consumer.assign([orders])
                case "unsubscribe":
                    await consumer.unsubscribe()
            if following == "stop":
                await consumer.stop()
            elif queued or following in ("subscribe", "assign"):
                assert (await consumer.getone()).offset == first.offset
            else:
                assert await consumer.getmany(timeout_ms=10) == {}
                assert consumer.subscription() == frozenset()
            assert listener.told == ["assigned", "revoked"]

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
