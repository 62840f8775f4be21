"""Several threads in one consumer: any may close it, and calls of others wait for their turn."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from aktor import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from aktor.errors import ConsumerClosedError
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import topics
from tests.kafka.support import PROMPT_S, SOON_S, numbered, quick, wait_until

pytestmark = pytest.mark.ours("threads are those of this process")

COUNT = 100


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with some records."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(COUNT))
    return TopicPartition(topic, 0)


class Worker:
    """A thread that does this, and how it ended."""

    def __init__(self, act: Callable[[], Any], name: str = "worker") -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._act = act
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._act()
        except BaseException as error:
            self.error = error

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def end(self, within: float = PROMPT_S) -> Any:
        """What it returned, or the error that it raised."""
        self._thread.join(within)
        assert not self.runs, "it runs on"
        return self.error if self.error is not None else self.result


class Slow(ConsumerRebalanceListener):
    """A listener that is in its callback from `begun` until `goes_on`."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.told: list[str] = []

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.told.append("assigned")
        self.begun.set()
        assert self.goes_on.wait(SOON_S)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.told.append("revoked")


# -- close, whatever another thread is in


def loop(consumer: KafkaConsumer) -> None:
    for _ in consumer:
        pass


def plain_loop(consumer: KafkaConsumer) -> None:
    while True:
        next(consumer)


def poll_on(consumer: KafkaConsumer) -> None:
    while True:
        consumer.poll(60_000)


def poll_once(consumer: KafkaConsumer) -> Any:
    while found := consumer.poll(60_000):
        assert found
    return found


def poll_columns(consumer: KafkaConsumer) -> int:
    rows = -1
    while rows:
        rows = consumer.poll_arrow(60_000).num_rows
    return rows


def columns(consumer: KafkaConsumer) -> None:
    for _ in consumer.arrow_batches():
        pass


def table(consumer: KafkaConsumer) -> Any:
    consumer.poll(SOON_S * 1000)
    (partition,) = consumer.assignment()
    return consumer.to_table(end={partition: COUNT + 1})


def process(consumer: KafkaConsumer) -> int:
    return consumer.process(lambda record: None).finished


#: What a thread is in, and what it ends in once another thread has closed.
LOOPS: dict[Callable[[KafkaConsumer], Any], Any] = {
    loop: None,
    plain_loop: StopIteration,
    poll_on: ConsumerClosedError,
    poll_once: {},
    poll_columns: 0,
    columns: None,
    table: ConsumerClosedError,
    process: int,  # what runs is finished, and what has not begun is left
}


def ended_in(outcome: Any, expected: Any) -> bool:
    return isinstance(outcome, expected) if isinstance(expected, type) else outcome == expected


def waits(consumer: KafkaConsumer) -> bool:
    """Whether it has read all, and a call waits for more."""
    (state, *_) = (*consumer.status().partitions.values(), None)
    return state is not None and state.position == COUNT and bool(consumer._guard.away)


@pytest.mark.parametrize("act", LOOPS, ids=lambda act: act.__name__)
def test_close_by_another_thread_ends_the_call_under_way_and_the_consumer(
    kafka: Cluster, orders: TopicPartition, group: str, act: Callable[[KafkaConsumer], Any]
) -> None:
    consumer = quick(kafka, orders.topic, group_id=group)
    worker = Worker(lambda: act(consumer))
    wait_until(lambda: waits(consumer), "it has read everything")

    began = time.monotonic()
    consumer.close()

    assert ended_in(worker.end(), LOOPS[act])
    assert time.monotonic() - began < PROMPT_S
    assert consumer.status().state == "closed"
    with pytest.raises(ConsumerClosedError):
        consumer.poll()


#: Calls that wait for a broker's answer.
QUESTIONS: dict[str, Callable[[KafkaConsumer, TopicPartition], Any]] = {
    "commit": lambda consumer, one: consumer.commit({one: OffsetAndMetadata(5, "", -1)}),
    "committed": lambda consumer, one: consumer.committed(one),
    "position": lambda consumer, one: consumer.seek_to_end(one) or consumer.position(one),
    "end_offsets": lambda consumer, one: consumer.end_offsets([one]),
    "topics": lambda consumer, _one: consumer.topics(),
}


@pytest.mark.embedded("a broker that has gone")
def test_close_ends_calls_that_no_broker_answers() -> None:
    one = TopicPartition("orders", 0)
    with EmbeddedCluster() as kafka:
        topics.create_topic(kafka.bootstrap_servers, "orders")
        consumers = {name: quick(kafka, group_id=name) for name in QUESTIONS}
        for consumer in consumers.values():
            consumer.assign([one])
            consumer.topics()
        kafka.kill(1)
        workers = {
            name: Worker(partial(QUESTIONS[name], consumer, one))
            for name, consumer in consumers.items()
        }
        for consumer in consumers.values():
            wait_until(lambda consumer=consumer: consumer._guard.away, "it waits for an answer")
            Worker(partial(consumer.close, timeout_ms=500)).end()

        ends = {name: type(worker.end()) for name, worker in workers.items()}
        assert ends == dict.fromkeys(QUESTIONS, ConsumerClosedError)


def test_close_waits_for_the_listener_of_the_call_under_way(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    listener = Slow()
    consumer = quick(kafka, group_id=group)
    consumer.subscribe([orders.topic], listener=listener)
    worker = Worker(lambda: poll_on(consumer))
    assert listener.begun.wait(SOON_S)

    closer = Worker(consumer.close)
    time.sleep(0.2)
    assert closer.runs
    listener.goes_on.set()

    assert closer.end() is None
    assert isinstance(worker.end(), ConsumerClosedError)
    assert listener.told == ["assigned", "revoked"]


def test_close_says_who_is_in_its_way_and_the_call_closes_as_it_ends(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    """So it is, too, if the listener waits for the thread that closes: no deadlock."""
    closers: list[Worker] = []

    class Waiting(Slow):
        def on_partitions_assigned(self, assigned: Any) -> None:
            closers.append(Worker(lambda: consumer.close(timeout_ms=300)))
            closers[0].end()

    consumer = quick(kafka, group_id=group)
    consumer.subscribe([orders.topic], listener=Waiting())
    worker = Worker(lambda: poll_once(consumer), name="reader")

    assert worker.end(SOON_S) == {}
    error = closers[0].error
    assert isinstance(error, KafkaTimeoutError)
    assert "thread 'reader' is inside the consumer, in a rebalance listener" in str(error)
    assert consumer.status().state == "closed"


def test_threads_that_close_at_once_all_find_it_closed(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    listener = Slow()
    listener.goes_on.set()
    consumer = quick(kafka, group_id=group)
    consumer.subscribe([orders.topic], listener=listener)
    worker = Worker(lambda: loop(consumer))
    wait_until(lambda: waits(consumer), "it has read everything")

    closers = [Worker(consumer.close) for _ in range(4)]

    assert [closer.end() for closer in closers] == [None] * 4
    assert worker.end() is None
    assert listener.told == ["assigned", "revoked"]


@pytest.mark.parametrize("closes_in_handler", [True, False])
def test_close_by_a_handler_or_another_thread_ends_process_after_what_runs(
    kafka: Cluster, orders: TopicPartition, group: str, closes_in_handler: bool
) -> None:
    consumer = quick(kafka, orders.topic, group_id=group)
    handled: list[int] = []
    closers: list[Worker] = []

    def handle(record: Any) -> None:
        if record.offset == 3:
            if closes_in_handler:
                consumer.close()
            else:
                closers.append(Worker(consumer.close))
            wait_until(lambda: consumer._processor._stopping, "it is about to end")
        handled.append(record.offset)

    done = consumer.process(handle, order="partition")

    assert handled == [0, 1, 2, 3]
    assert done.finished == 4
    assert [closer.end() for closer in closers] == [None] * (not closes_in_handler)
    assert consumer.status().state == "closed"
    with quick(kafka, group_id=group) as after:
        assert after.committed(orders) == 4


def iterates(consumer: KafkaConsumer, holds: Callable[[], None]) -> None:
    for record in consumer:
        if record.offset == 7:
            holds()


def polls(consumer: KafkaConsumer, holds: Callable[[], None]) -> None:
    consumer.poll(SOON_S * 1000, max_records=7)
    consumer.poll(SOON_S * 1000, max_records=7)
    holds()


@pytest.mark.parametrize("reads", [iterates, polls])
@pytest.mark.parametrize("asks", [False, True])
def test_close_by_another_thread_commits_what_the_loop_is_done_with_and_no_more(
    kafka: Cluster,
    orders: TopicPartition,
    group: str,
    reads: Callable[[KafkaConsumer, Callable[[], None]], None],
    asks: bool,
) -> None:
    """What the loop's body has in hand may never be finished. So it is, too, if other threads have
    asked, or paused, meanwhile: nothing of that is a sign that it is finished."""
    settings = {"group_id": group, "enable_auto_commit": True, "auto_commit_interval_ms": 60_000}
    has_it, closed = threading.Event(), threading.Event()

    def hold() -> None:
        has_it.set()
        assert closed.wait(SOON_S)

    consumer = quick(kafka, orders.topic, **settings)
    worker = Worker(lambda: reads(consumer, hold))
    assert has_it.wait(SOON_S)
    if asks:
        after = consumer.position(orders)
        consumer.pause(orders)
        consumer.committed(orders)
        assert consumer.position(orders) == after
    consumer.close()
    closed.set()
    assert worker.end() is None

    with quick(kafka, group_id=group) as after_it:
        assert after_it.committed(orders) == 7


@pytest.mark.parametrize("reads", [iterates, polls])
def test_close_by_another_thread_takes_back_nothing_that_was_committed(
    kafka: Cluster,
    orders: TopicPartition,
    group: str,
    reads: Callable[[KafkaConsumer, Callable[[], None]], None],
) -> None:
    settings = {"group_id": group, "enable_auto_commit": True, "auto_commit_interval_ms": 60_000}
    has_it, closed = threading.Event(), threading.Event()

    def hold() -> None:
        has_it.set()
        assert closed.wait(SOON_S)

    consumer = quick(kafka, orders.topic, **settings)
    worker = Worker(lambda: reads(consumer, hold))
    assert has_it.wait(SOON_S)
    consumer.position(orders)
    consumer.commit()
    committed = consumer.committed(orders)
    consumer.close()
    closed.set()
    assert worker.end() is None

    assert committed is not None
    assert committed > 7
    with quick(kafka, group_id=group) as after:
        assert after.committed(orders) == committed


# -- calls that wait for their turn


def test_other_threads_may_call_what_they_like_while_one_reads(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        reader = Worker(lambda: consumer.poll(60_000))
        assert reader.end(SOON_S)
        reader = Worker(lambda: consumer.poll(20_000))
        wait_until(lambda: waits(consumer), "it waits for more")

        assert consumer.position(orders) == COUNT
        consumer.commit()
        assert consumer.committed(orders) == COUNT
        consumer.pause(orders)
        consumer.resume(orders)
        assert consumer.end_offsets([orders]) == {orders: COUNT}
        assert orders.topic in consumer.topics()
        assert consumer.poll(0) == {}
        assert reader.runs
        topics.produce(kafka.bootstrap_servers, orders.topic, ["one more"])

        assert [one.value for one in reader.end()[orders]] == [b"one more"]


def test_a_seek_of_another_thread_is_where_the_reader_goes_on(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        given: list[int] = []
        reader = Worker(lambda: [given.append(record.offset) for record in consumer])
        wait_until(lambda: len(given) == COUNT, "it has read everything")

        consumer.seek(orders, 40)

        wait_until(lambda: len(given) == 2 * COUNT - 40, "it reads them again")
        assert given == [*range(COUNT), *range(40, COUNT)]
        consumer.close()
        assert reader.error is None


def test_a_call_whose_turn_does_not_come_says_so_at_its_deadline(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    listener = Slow()
    with quick(kafka, group_id=group, default_api_timeout_ms=400) as consumer:
        consumer.subscribe([orders.topic], listener=listener)
        reader = Worker(lambda: consumer.poll(20_000), name="reader")
        assert listener.begun.wait(SOON_S)

        for call in (
            lambda: consumer.commit(timeout_ms=300),
            lambda: consumer.position(orders, timeout_ms=300),
            lambda: consumer.pause(orders),
        ):
            began = time.monotonic()
            with pytest.raises(KafkaTimeoutError, match=r"'reader' is .* in a rebalance listener"):
                call()
            assert 0.3 <= time.monotonic() - began < PROMPT_S
        began = time.monotonic()
        assert consumer.poll(300) == {}
        assert 0.3 <= time.monotonic() - began < PROMPT_S

        listener.goes_on.set()
        assert reader.end(SOON_S)


#: Reads in one thread; another one commits five times at once, then a record comes, and in the end
#: a third thread's `close` must leave uncommitted what the reader has in hand. None takes long.
GREEN: str = """
import sys, threading, time
from aktor import KafkaConsumer, TopicPartition
from tests.kafka.real import topics
at, one = [sys.argv[1]], TopicPartition("orders", 0)
settings = {"bootstrap_servers": at, "auto_offset_reset": "earliest", "group_id": "green"}
consumer = KafkaConsumer("orders", auto_commit_interval_ms=60_000, **settings)
given, more, ends = [], threading.Event(), threading.Event()
def reads():
    for record in consumer:
        given.append(record.value.decode())
        if record.value == b"more":
            more.set()
            ends.wait(30)
threads = [threading.Thread(target=reads)]
threads[0].start()
while len(given) < 3:
    time.sleep(0.01)
began = time.monotonic()
committers = [threading.Thread(target=consumer.commit) for _ in range(5)]
for thread in committers: thread.start()
for thread in committers: thread.join()
topics.produce(at, "orders", ["more"])
assert more.wait(20)
assert time.monotonic() - began < 15, "somebody was not rung"
consumer.close()
ends.set()
threads[0].join()
with KafkaConsumer(**settings) as after:
    print(*given, after.committed(one))
"""


@pytest.mark.embedded("the patched libraries are ours to test, not the broker")
@pytest.mark.parametrize(
    "patch",
    ["import eventlet; eventlet.monkey_patch()", "from gevent import monkey; monkey.patch_all()"],
    ids=["eventlet", "gevent"],
)
def test_green_threads_may_call_it_as_threads_may(patch: str) -> None:
    with EmbeddedCluster() as kafka:
        topics.create_topic(kafka.bootstrap_servers, "orders")
        topics.produce(kafka.bootstrap_servers, "orders", numbered(3))
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", patch + GREEN, *kafka.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert done.stdout == "v0 v1 v2 more 3\n", done.stderr


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("how", ["poll", "next", "for"])
def test_many_threads_lose_nothing_repeat_nothing_and_all_come_to_their_turns(
    kafka: Cluster, topic: str, group: str, how: str, switching: None
) -> None:
    """Three threads read, others commit, pause, resume, ask and seek to where they are."""
    # Where each record is a call, it waits for the turns of six others, and these for brokers.
    count = 3000 if how == "poll" else 300
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    for number in range(3):
        topics.produce(kafka.bootstrap_servers, topic, numbered(count // 3), partition=number)
    consumer = quick(kafka, group_id=group, max_poll_records=20, consumer_timeout_ms=SOON_S * 1000)
    consumer.assign(partitions)
    given: list[tuple[int, int]] = []
    done = threading.Event()
    calls = [0] * 4

    def reads() -> None:
        while not done.is_set():
            if how == "poll":
                found = [one for some in consumer.poll(50).values() for one in some]
            elif how == "next":
                found = [next(consumer)]
            else:
                found = []
                for record in consumer:
                    given.append((record.partition, record.offset))
            given.extend((one.partition, one.offset) for one in found)

    def disturbs(number: int) -> None:
        chance = random.Random(number)
        acts: list[Callable[[TopicPartition], Any]] = [
            lambda one: consumer.commit(),
            lambda one: consumer.position(one),
            lambda one: (consumer.pause(one), consumer.resume(one)),
            lambda one: consumer.end_offsets([one]),
            lambda one: consumer.committed(one),
            lambda one: consumer.commit_async(),
        ]
        while not done.is_set():
            chance.choice(acts)(chance.choice(partitions))
            calls[number] += 1

    readers = [Worker(reads) for _ in range(3)]
    disturbers = [Worker(lambda number=number: disturbs(number)) for number in range(4)]

    def came_to_turns() -> bool:
        return len(given) >= count and min(calls) > 0

    # A thread of those that disturb may begin late.
    wait_until(lambda: came_to_turns() or any(not one.runs for one in disturbers), "all read")
    done.set()
    assert [one.end() for one in disturbers] == [None] * 4
    consumer.close()

    ends = [one.end() for one in readers]
    assert all(end is None or isinstance(end, StopIteration | ConsumerClosedError) for end in ends)
    expected = {(partition, offset) for partition in range(3) for offset in range(count // 3)}
    assert len(given) == count
    assert set(given) == expected
    assert min(calls) > 0
