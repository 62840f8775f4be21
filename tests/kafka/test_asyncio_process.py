"""`process` in an event loop: order, retries, commits, and how it ends. What it shares with the
blocking one is tested there."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from aktor import KafkaConsumer as Blocking
from aktor.aio import (
    AsyncConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from aktor.aio.consumer import InProcess
from aktor.errors import (
    ConfigurationError,
    HandlerError,
    IllegalStateError,
    KafkaTimeoutError,
    WakeupError,
)
from aktor.processing import Failure, Processed, dead_letter
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import QUICK, SOON_S, hurried, wait_until

pytestmark = pytest.mark.ours("handlers are the user's tasks")

COUNT = 60


def run(program: Coroutine[Any, Any, None]) -> None:
    """Run it in an event loop of its own; it may not take long."""

    async def main() -> None:
        async with asyncio.timeout(SOON_S):
            await program

    asyncio.run(main())


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with records of five keys."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(COUNT):
        producer.send(topic, key=b"%d" % (number % 5), value=b"%d" % number)
    producer.close()
    return TopicPartition(topic, 0)


def quick(kafka: Cluster, group: str, *names: str, **settings: Any) -> KafkaConsumer[Any, Any]:
    own = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": group, **settings}
    return KafkaConsumer(*names, **hurried(QUICK | {"enable_auto_commit": False}, own))


async def committed(kafka: Cluster, group: str, partition: TopicPartition) -> int | None:
    async with quick(kafka, group) as consumer:
        return await consumer.committed(partition)


def test_handlers_are_tasks_of_the_users_loop_and_keep_the_order_of_each_key(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        seen: dict[bytes, list[int]] = defaultdict(list)
        runs: list[int] = [0, 0]
        loops = set()

        async def handle(record: Any) -> None:
            loops.add(asyncio.get_running_loop())
            runs[0] += 1
            runs[1] = max(runs)
            await asyncio.sleep(0.001 * (record.offset % 3))
            seen[record.key].append(record.offset)
            runs[0] -= 1
            if sum(map(len, seen.values())) == COUNT:
                await consumer.stop()  # it does not wait for itself

        async with quick(kafka, group, orders.topic) as consumer:
            assert await consumer.process(handle, concurrency=4) == Processed(finished=COUNT)
        assert loops == {asyncio.get_running_loop()}
        assert 1 < runs[1] <= 4
        assert all(offsets == sorted(offsets) for offsets in seen.values())
        assert await committed(kafka, group, orders) == COUNT

    run(program())


def test_a_commit_is_sent_at_once_also_if_nothing_else_of_the_event_loop_runs(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    """If it waited for its turn, a rebalance might come first: it would be of a partition that was
    given up, and set the offset of its next owner back."""

    async def program() -> None:
        async with quick(kafka, group, orders.topic) as consumer:
            await consumer.getone()
            finished = {orders: OffsetAndMetadata(1, "", -1)}
            InProcess(consumer).commit_async(finished, lambda _offsets, _error: None)
            with Blocking(bootstrap_servers=kafka.bootstrap_servers, group_id=group) as other:
                wait_until(lambda: other.committed(orders) == 1, "it is stored", SOON_S / 2)

    run(program())


def test_what_fails_is_tried_again_and_then_given_to_a_coroutine(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        letters: list[Failure] = []
        handled: list[int] = []

        async def stop_after_all() -> None:
            if len(handled) + len(letters) == COUNT:
                await consumer.stop()

        async def handle(record: Any) -> None:
            if record.offset == 7:
                raise ZeroDivisionError
            handled.append(record.offset)
            await stop_after_all()

        async def put_aside(failure: Failure) -> None:
            await asyncio.sleep(0)
            letters.append(failure)
            await stop_after_all()

        async with quick(kafka, group, orders.topic) as consumer:
            done = await consumer.process(handle, retries=1, on_error=put_aside)
        assert done == Processed(finished=COUNT - 1, dead_lettered=1, retried=1)
        assert [(letter.record.offset, letter.attempts) for letter in letters] == [(7, 2)]
        assert await committed(kafka, group, orders) == COUNT

    run(program())


@pytest.mark.parametrize("order", ["partition", "none"])
def test_a_handler_that_fails_ends_it_and_its_record_is_given_out_again(
    kafka: Cluster, orders: TopicPartition, group: str, order: str
) -> None:
    async def program() -> None:
        async def handle(record: Any) -> None:
            if record.offset == 7:
                raise ZeroDivisionError

        async with quick(kafka, group, orders.topic) as consumer:
            with pytest.raises(HandlerError, match="7") as raised:
                await consumer.process(handle, order=order)
            assert isinstance(raised.value.__cause__, ZeroDivisionError)
            assert (await consumer.getone()).offset == 7
            assert await consumer.committed(orders) == 7

    run(program())


@pytest.mark.parametrize("times", [1, 2])
def test_a_cancellation_ends_what_is_in_hand_and_commits_what_is_finished(
    kafka: Cluster, orders: TopicPartition, group: str, times: int
) -> None:
    """Cancelled a second time it does not wait for handlers, and cancels them at once, and once: a
    handler may await what it has to clean up."""

    async def program() -> None:
        begun, goes_on, is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        handled: list[int] = []
        cleaned_up: list[int] = []

        async def handle(record: Any) -> None:
            if record.offset == 5:
                begun.set()
                try:
                    await goes_on.wait()
                except asyncio.CancelledError:
                    await is_over.wait()
                    cleaned_up.append(record.offset)
                    raise
            handled.append(record.offset)

        async with quick(kafka, group, orders.topic) as consumer:
            processing = asyncio.create_task(consumer.process(handle, order="partition"))
            await begun.wait()
            processing.cancel()
            for _ in range(3):
                await asyncio.sleep(0.01)
            assert not processing.done(), "the handler is waited for"
            if times == 1:
                goes_on.set()
            else:
                processing.cancel()
                for _ in range(3):
                    await asyncio.sleep(0)
                assert not processing.done(), "it commits"
                goes_on.set()  # too late: what the handler did now would be done once more
            with pytest.raises(asyncio.CancelledError):
                await processing
            is_over.set()
            await asyncio.sleep(0.01)
            assert cleaned_up == ([] if times == 1 else [5])
            assert handled == [*range(6 if times == 1 else 5)]
            assert await consumer.committed(orders) == len(handled)
            assert (await consumer.getone()).offset == len(handled)

    run(program())


@pytest.mark.both("a group rebalances meanwhile")
def test_a_revocation_waits_for_running_handlers_and_commits(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        begun, revoking = asyncio.Event(), asyncio.Event()
        told: list[Any] = []

        async def handle(record: Any) -> None:
            if record.offset == 5:
                begun.set()
                await revoking.wait()

        class Listener(AsyncConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned: Any) -> None:
                """Not of interest."""

            async def on_partitions_revoked(self, revoked: Any) -> None:
                told.append(await consumer.committed(orders))

        async with quick(kafka, group) as consumer, quick(kafka, group) as other:
            consumer.subscribe([orders.topic], listener=Listener())
            processing = asyncio.create_task(consumer.process(handle, order="partition"))
            await begun.wait()

            def hear(event: Any) -> None:
                if event["event"] == "partitions.revoking":
                    revoking.set()

            consumer.on_event(hear, level="debug")
            other.subscribe([orders.topic])
            joining = asyncio.create_task(other.getmany(timeout_ms=SOON_S * 1000))
            while not told:
                await asyncio.sleep(0.01)
            await consumer.stop()
            await processing
            assert told[0] == 6
            joining.cancel()

    run(program())


@pytest.mark.embedded("two members rebalance as on any cluster")
def test_if_it_is_cancelled_in_a_listener_of_a_revocation_nothing_unfinished_is_committed(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    """Neither by it nor by a commit that follows while the listener goes on."""

    async def program() -> None:
        begun, revoking, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def handle(record: Any) -> None:
            if record.offset == 5:
                begun.set()
                await revoking.wait()

        class Listener(AsyncConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned: Any) -> None:
                """Not of interest."""

            async def on_partitions_revoked(self, revoked: Any) -> None:
                if processing.done():
                    return  # by `stop`
                processing.cancel()
                await goes_on.wait()

        async with quick(kafka, group) as consumer, quick(kafka, group) as other:
            consumer.subscribe([orders.topic], listener=Listener())
            processing = asyncio.create_task(consumer.process(handle, order="partition"))
            await begun.wait()

            def hear(event: Any) -> None:
                if event["event"] == "partitions.revoking":
                    revoking.set()

            consumer.on_event(hear, level="debug")
            other.subscribe([orders.topic])
            joining = asyncio.create_task(other.getmany(timeout_ms=SOON_S * 1000))
            with pytest.raises(asyncio.CancelledError):
                await processing
            assert await consumer.committed(orders) == 6
            await consumer.commit()
            assert await consumer.committed(orders) == 6
            goes_on.set()
            joining.cancel()

    run(program())


def test_only_looking_and_stopping_is_allowed_beside_it(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    async def program() -> None:
        async def handle(record: Any) -> None:
            if record.offset:
                return
            assert await consumer.position(orders) > 0
            assert await consumer.committed(orders) is None
            for call in (consumer.getone(), consumer.commit({orders: 1}), consumer.process(handle)):
                with pytest.raises(IllegalStateError, match=r"process\(\) of task 'main' runs"):
                    await call
            for act in (consumer.pause, consumer.resume):
                with pytest.raises(IllegalStateError, match="process"):
                    act(orders)
            consumer.wakeup()

        async with quick(kafka, group, orders.topic) as consumer:
            asyncio.current_task().set_name("main")  # type: ignore[union-attr]
            with pytest.raises(WakeupError):
                await consumer.process(handle)
            assert await consumer.committed(orders)

    run(program())


@pytest.mark.embedded("no broker decides it")
def test_it_refuses_auto_commit(kafka: Cluster, orders: TopicPartition, group: str) -> None:
    async def program() -> None:
        async with quick(kafka, group, orders.topic, enable_auto_commit=True) as consumer:
            with pytest.raises(ConfigurationError, match="enable_auto_commit"):
                await consumer.process(print)

    run(program())


def test_dead_letters_are_written_by_a_producer_of_the_event_loop(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    letters = f"{orders.topic}-letters"
    topics.create_topic(kafka.bootstrap_servers, letters)

    handled: list[int] = []

    async def program() -> None:
        async def handle(record: Any) -> None:
            handled.append(record.offset)
            if len(handled) == COUNT:
                await consumer.stop()
            if record.offset % 20 == 7:
                raise ZeroDivisionError

        async with (
            AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer,
            quick(kafka, group, orders.topic) as consumer,
        ):
            done = await consumer.process(handle, on_error=dead_letter(letters, producer))
            assert (done.finished, done.dead_lettered) == (COUNT - 3, 3)
        async with quick(kafka, f"{group}-2", letters) as consumer:
            written = [await consumer.getone() for _ in range(3)]
        assert sorted(int(record.value) for record in written) == [7, 27, 47]
        headers = dict(written[0].headers)
        assert headers["aktor.errors.topic"] == orders.topic.encode()
        assert headers["aktor.errors.group"] == group.encode()

    run(program())


def test_a_producer_of_the_event_loop_has_no_longer_than_it_was_given() -> None:
    class Slow:
        async def send(self) -> None: ...

        async def send_and_wait(self, *_: object, **__: object) -> None:
            await asyncio.Event().wait()

    async def program() -> None:
        write: Any = dead_letter("letters", Slow(), timeout_ms=20)
        record = ConsumerRecord("t", 0, -1, 7, 0, 0, None, None, [], None, -1, -1, -1)
        with pytest.raises(KafkaTimeoutError, match=r"did not deliver a record to letters within"):
            await write(Failure(record, ZeroDivisionError(), 1, group))

    group = "billing"
    run(program())
