"""The asyncio consumer on a cluster: how it starts and ends."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.serializer import Deserializer

from aktor.aio import (
    AIOKafkaConsumer,
    ConsumerStoppedError,
    KafkaConsumer,
    TopicPartition,
)
from aktor.errors import (
    BootstrapError,
    IllegalStateError,
    UserCallbackError,
    WakeupError,
)
from tests.gate import all_but_the_first
from tests.kafka.asyncio_support import (
    COUNT,
    Listener,
    Reporter,
    assigned,
    first_of,
    quick,
    run,
    unstopped,
    with_records,
)
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import PROMPT_S, SOON_S, wait_until

pytestmark = pytest.mark.ours("how it begins and ends in an event loop is its own matter")


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with some records."""
    return with_records(kafka, topic)


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


def test_before_its_start_it_says_that_it_was_not_started(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        consumer = quick(kafka, orders.topic, group_id=group)
        assert "has not been started" in consumer.why()
        assert consumer.status().state == "not started"
        async with consumer:
            assert consumer.status().state == "running"

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


@pytest.mark.both("the group is told")
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
    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Of what is recorded by `catch_warnings` the source is kept, which is the consumer.
        monkeypatch.setattr(warnings, "showwarning", lambda what, *_: told.append(str(what)))
        loop.close()
        del task, consumer, loop
        wait_until(lambda: gc.collect() >= 0 and not dispatcher.alive, "its thread has ended")
    assert not [one for one in told if "was not stopped" not in one]
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


def test_deserializers_are_not_closed_by_a_start_that_raises() -> None:
    """The next consumer is given the same ones."""
    closed: list[str] = []

    class Text(Deserializer):
        def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
            return data

        def close(self) -> None:
            closed.append("value")

    async def program() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=100, value_deserializer=Text()
        )
        with pytest.raises(BootstrapError):
            await consumer.start()
        await consumer.stop()

    run(program())
    assert closed == []


@pytest.mark.embedded("aiokafka's classes are what is looked at")
def test_assignors_of_aiokafka_are_ours_of_the_same_names(kafka: EmbeddedCluster) -> None:
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as RoundRobin

    async def program() -> None:
        consumer = quick(kafka, partition_assignment_strategy=(RoundRobinPartitionAssignor,))
        assert consumer.config["partition_assignment_strategy"] == (RoundRobin,)
        await consumer.stop()

    run(program())
