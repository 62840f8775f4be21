"""`process` on both Kafkas: order, retries, dead letters, commits, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaProducer

from aktor import KafkaConsumer, TopicPartition
from aktor.errors import (
    ConcurrentAccessError,
    ConfigurationError,
    HandlerError,
    RecordDeserializationError,
    WakeupError,
    WorkerDiedError,
)
from aktor.processing import Processed, Retries, dead_letter
from tests.kafka.real.topics import create_topic, delete_topic, produce
from tests.kafka.support import PROMPT_S, SOON_S, named, quick, traced, wait_until

pytestmark = pytest.mark.ours("handlers are the user's, and most know nothing of brokers")

#: If nothing comes for so long, nothing comes any more.
IDLE_MS = 3000


def a_consumer(kafka: Any, topic: str, group: str | None, **configs: Any) -> KafkaConsumer:
    configs = {"consumer_timeout_ms": IDLE_MS, "enable_auto_commit": False} | configs
    return quick(kafka, topic, group_id=group, auto_offset_reset="earliest", **configs)


def a_member(kafka: Any, topic: str, group: str, **configs: Any) -> KafkaConsumer:
    """The only one of its group, which has joined it and read nothing yet: on a busy machine that
    may take longer than nothing may come."""
    consumer = a_consumer(kafka, topic, group, **configs)
    deadline = time.monotonic() + SOON_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, "it does not join its group"
        consumer.poll(50, max_records=1)
    for one in consumer.assignment():
        consumer.seek(one, 0)
    return consumer


def filled(kafka: Any, topic: str, count: int, *, partitions: int = 2, keys: int = 5) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=partitions)
    with_keys = [(b"%d" % (number % keys), b"%d" % number) for number in range(count)]
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for key, value in with_keys:
        producer.send(topic, key=key, value=value)
    producer.close()


def committed(consumer: KafkaConsumer) -> int:
    return sum(consumer.committed(one) or 0 for one in consumer.assignment())


def after(seconds: float, act: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


@pytest.mark.both("it is the first one")
def test_every_record_is_handled_in_the_order_of_its_key(
    kafka: Any, topic: str, group: str
) -> None:
    filled(kafka, topic, 400)
    seen: dict[bytes, list[int]] = defaultdict(list)
    with a_member(kafka, topic, group) as consumer:
        done = consumer.process(
            lambda record: seen[record.key].append(int(record.value)), concurrency=4
        )

        assert done == Processed(finished=400)
        assert all(values == sorted(values) for values in seen.values())
        assert committed(consumer) == 400


@pytest.mark.parametrize("kind", ["kafka-python", "confluent-kafka"])
@pytest.mark.both("it writes")
def test_what_fails_is_tried_again_and_then_written_to_the_dead_letter_topic(
    kafka: Any, topic: str, group: str, kind: str
) -> None:
    filled(kafka, topic, 40)
    create_topic(kafka.bootstrap_servers, f"{topic}-dead", partitions=1)
    tries: Counter[bytes] = Counter()

    def handle(record: Any) -> None:
        tries[record.value] += 1
        if record.value == b"7" or (record.value == b"9" and tries[b"9"] < 3):
            raise ValueError("no")

    with a_producer(kind, kafka) as producer, a_member(kafka, topic, group) as consumer:
        letters = dead_letter(f"{topic}-dead", producer)
        done = consumer.process(handle, retries=Retries(2, backoff_ms=1), on_error=letters)

        assert done == Processed(finished=39, dead_lettered=1, retried=4)
        assert committed(consumer) == 40
    with a_consumer(kafka, f"{topic}-dead", None) as reader:
        (letter,) = reader
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"2", b"7")
    assert headers["aktor.errors.topic"] == topic.encode()
    assert headers["aktor.errors.attempts"] == b"3"


class a_producer:
    """kafka-python's or confluent-kafka's."""

    def __init__(self, kind: str, kafka: Any) -> None:
        if kind == "kafka-python":
            self._made: Any = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        else:
            confluent = pytest.importorskip("confluent_kafka")
            bootstrap = ",".join(kafka.bootstrap_servers)
            self._made = confluent.Producer({"bootstrap.servers": bootstrap})

    def __enter__(self) -> Any:
        return self._made

    def __exit__(self, *_: object) -> None:
        self._made.flush()


def test_an_error_is_raised_and_the_next_call_goes_on_from_its_record(
    kafka: Any, topic: str, group: str
) -> None:
    filled(kafka, topic, 40, partitions=1)
    handled: list[int] = []

    def handle(record: Any) -> None:
        if record.offset == 20 and not may_pass:
            raise ValueError("no")
        handled.append(record.offset)

    may_pass: list[bool] = []
    with a_member(kafka, topic, group) as consumer:
        with pytest.raises(HandlerError, match="offset 20") as raised:
            consumer.process(handle, order="partition")
        assert isinstance(raised.value.__cause__, ValueError)
        assert committed(consumer) == 20

        may_pass.append(True)
        consumer.process(handle, order="partition")

    assert handled == list(range(40))


def test_records_that_cannot_be_deserialized_are_put_aside_like_others(
    kafka: Any, topic: str, group: str
) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=1)
    produce(kafka.bootstrap_servers, topic, [b"1", b"not a number", b"3"])
    failures: list[Any] = []
    seen: list[int] = []
    with a_member(kafka, topic, group, value_deserializer=int) as consumer:
        with pytest.raises(RecordDeserializationError):
            consumer.process(lambda record: seen.append(record.value))
        done = consumer.process(lambda record: seen.append(record.value), on_error=failures.append)

        assert committed(consumer) == 3
    assert done.dead_lettered == 1
    assert seen == [1, 3]
    (failure,) = failures
    assert (failure.record.offset, failure.record.value) == (1, b"not a number")
    assert isinstance(failure.error, ValueError)


def test_coroutines_run_together(kafka: Any, topic: str, group: str) -> None:
    filled(kafka, topic, 50)
    running, most = 0, 0

    async def handle(record: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1

    with a_member(kafka, topic, group) as consumer:
        done = consumer.process(handle, concurrency=20, order="none")

        assert done.finished == committed(consumer) == 50
    assert 2 <= most <= 20


def handle_in_a_process(record: Any) -> None:
    """Fails with the first record, to show where it runs."""
    if record.offset == 0:
        raise ValueError(os.getpid())


def test_processes_take_records_and_give_errors_back(kafka: Any, topic: str, group: str) -> None:
    filled(kafka, topic, 20, partitions=1)
    failures: list[Any] = []
    with a_member(kafka, topic, group) as consumer:
        done = consumer.process(
            handle_in_a_process, concurrency=2, workers="processes", on_error=failures.append
        )

        assert (done.finished, done.dead_lettered, committed(consumer)) == (19, 1, 20)
    assert failures[0].error.args[0] != os.getpid()


def test_auto_commit_would_commit_what_is_not_finished(kafka: Any, topic: str, group: str) -> None:
    with (
        a_consumer(kafka, topic, group, enable_auto_commit=True) as consumer,
        pytest.raises(ConfigurationError, match="enable_auto_commit=False"),
    ):
        consumer.process(print)


def test_a_handler_may_not_call_the_consumer(kafka: Any, topic: str, group: str) -> None:
    filled(kafka, topic, 1)
    with a_member(kafka, topic, group) as consumer:
        with pytest.raises(HandlerError) as raised:
            consumer.process(lambda _record: consumer.commit())
        assert isinstance(raised.value.__cause__, ConcurrentAccessError)


@pytest.mark.parametrize("how", ["wakeup", "SIGTERM", "SIGINT", "close in a handler"])
def test_it_ends_with_what_is_in_hand_finished_and_committed(
    kafka: Any, topic: str, group: str, how: str
) -> None:
    filled(kafka, topic, 400, partitions=1, keys=50)
    begun, ended = [], []
    asks, asked = threading.Event(), threading.Event()

    def handle(record: Any) -> None:
        begun.append(record.offset)
        if len(ended) >= 50:
            asks.set()
            assert asked.wait(SOON_S)
        time.sleep(0.005)
        ended.append(record.offset)

    def ask() -> None:
        asks.wait(SOON_S)
        if how == "wakeup":
            consumer.wakeup()
        else:
            signals = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
            os.kill(os.getpid(), signals.get(how, signal.SIGUSR1))
        asked.set()

    consumer = a_member(kafka, topic, group)
    before = signal.signal(signal.SIGUSR1, lambda *_: consumer.close())
    asking = after(0.0, ask)
    try:
        if how in ("wakeup", "SIGINT"):
            with pytest.raises(WakeupError if how == "wakeup" else KeyboardInterrupt):
                consumer.process(handle)
        else:
            assert consumer.process(handle).unfinished > 0
    finally:
        asking.join()
        signal.signal(signal.SIGUSR1, before)
        consumer.close()

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert sorted(begun) == sorted(ended)
    assert 50 <= len(ended) < 400
    with quick(kafka, group_id=group) as reader:
        offset = reader.committed(TopicPartition(topic, 0))
    assert offset == min(set(range(400)) - set(ended))


@pytest.mark.both("a group rebalances meanwhile")
def test_a_second_member_is_handed_what_is_finished(kafka: Any, topic: str, group: str) -> None:
    filled(kafka, topic, 600, partitions=4, keys=60)
    handled: Counter[tuple[int, int]] = Counter()
    joins = threading.Event()

    def handle(record: Any) -> None:
        time.sleep(0.005)
        handled[record.partition, record.offset] += 1
        if len(handled) >= 100:
            joins.set()

    def run(consumer: KafkaConsumer) -> None:
        with consumer:
            # By key, records that are finished above an unfinished one would be handled again.
            consumer.process(handle, concurrency=4, order="partition")

    first = threading.Thread(target=run, args=[a_consumer(kafka, topic, group)])
    first.start()
    assert joins.wait(SOON_S)
    second = threading.Thread(target=run, args=[a_consumer(kafka, topic, group)])
    second.start()
    for one in (first, second):
        one.join(IDLE_MS / 1000 + 4 * PROMPT_S)
        assert not one.is_alive()

    assert len(handled) == 600
    assert set(handled.values()) == {1}, "nothing was handled twice"


def test_a_commit_interval_of_nothing_keeps_no_processor_busy(
    kafka: Any, topic: str, group: str
) -> None:
    filled(kafka, topic, 20)
    with a_member(kafka, topic, group) as consumer:
        poll, polls = consumer.poll, Counter[str]()

        def counted(*arguments: Any) -> Any:
            polls["polls"] += 1
            return poll(*arguments)

        consumer.poll = counted
        done = consumer.process(lambda _record: None, commit_interval_ms=0)

        assert done.finished == 20
        assert committed(consumer) == 20
        assert polls["polls"] < 200


# -- records that kill their worker


def kill_one_in_ten(record: Any) -> None:
    if record.offset % 10 == 3:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.timeout(400)  # it starts seven processes, some after each other: 112 s at a load of 40
@pytest.mark.embedded("processes are our own, whichever Kafka it is, and starting them takes long")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="has no SIGKILL")
@pytest.mark.gate  # tests/unit/processing/test_workers.py tries what kills workers
def test_a_record_that_kills_its_process_has_failed_and_the_others_are_handled(
    kafka: Any, topic: str, group: str
) -> None:
    filled(kafka, topic, 20, partitions=1)
    with a_member(kafka, topic, group, consumer_timeout_ms=15_000) as consumer:
        with pytest.raises(HandlerError, match="offset 3 ") as raised:
            consumer.process(kill_one_in_ten, workers="processes", concurrency=2)
        assert isinstance(raised.value.__cause__, WorkerDiedError)
        assert committed(consumer) == 3

        failures: list[Any] = []
        done = consumer.process(
            kill_one_in_ten,
            workers="processes",
            concurrency=2,
            retries=Retries(1, backoff_ms=1),
            on_error=failures.append,
        )

        assert (done.dead_lettered, done.retried, done.unfinished) == (2, 2, 0)
        assert committed(consumer) == 20
    assert [(failure.record.offset, failure.attempts) for failure in failures] == [(3, 2), (13, 2)]
    assert all(isinstance(failure.error, WorkerDiedError) for failure in failures)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("awaited", [True, False])
def test_an_exit_in_a_task_of_a_coroutine_ends_the_processing_and_names_a_record(
    kafka: Any, topic: str, group: str, awaited: bool, error: type[BaseException]
) -> None:
    filled(kafka, topic, 10, partitions=1, keys=10)
    tasks = set()

    async def leave() -> None:
        raise error

    async def handle(record: Any) -> None:
        if record.offset == 2:
            tasks.add(task := asyncio.create_task(leave()))
            if awaited:
                await task
        if record.offset >= 2:
            await asyncio.Event().wait()

    began = time.monotonic()
    with a_member(kafka, topic, group) as consumer:
        with pytest.raises(HandlerError, match=f"of {topic}-0") as raised:
            consumer.process(handle, concurrency=4, on_error="skip")
        assert isinstance(raised.value.__cause__, error)
        assert raised.value.offset == 2 or not awaited
        assert committed(consumer) == 2
    assert all(isinstance(task.exception(), error) for task in tasks)
    assert time.monotonic() < began + IDLE_MS / 1000 + 2 * PROMPT_S


# -- wake-ups while handlers are waited for


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_wakeup_while_handlers_of_revoked_partitions_are_waited_for_ends_it_after_the_commit(
    kafka: Any, topic: str, group: str, protocol: str
) -> None:
    filled(kafka, topic, 4, partitions=2, keys=4)
    handled: Counter[tuple[int, int]] = Counter()
    running, may_end = threading.Semaphore(0), threading.Event()

    def handle(record: Any) -> None:
        running.release()
        may_end.wait(6 * PROMPT_S)
        handled[record.partition, record.offset] += 1

    first = a_consumer(kafka, topic, group, group_protocol=protocol)
    raised: list[BaseException] = []

    def process() -> None:
        try:
            first.process(handle, concurrency=4, order="none")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=process)
    with traced() as events:
        thread.start()
        for _ in range(4):
            assert running.acquire(timeout=4 * PROMPT_S)
        second = a_consumer(kafka, topic, group, group_protocol=protocol)
        joins = threading.Thread(target=lambda: second.poll(1000 * PROMPT_S))
        joins.start()
        wait_until(lambda: named(events, "partitions.revoking"), "a revocation")
        first.wakeup()
        may_end.set()
        thread.join(3 * PROMPT_S)
        assert not thread.is_alive()
    assert [type(error) for error in raised] == [WakeupError]
    first.close()
    joins.join()
    second.close()
    assert set(handled.values()) == {1}
    with quick(kafka, group_id=group) as reader:
        offsets = [reader.committed(TopicPartition(topic, number)) or 0 for number in range(2)]
    assert sum(offsets) == 4, "what was finished is committed"


@pytest.mark.both("topics have ids")
def test_an_unfinished_record_of_a_deleted_topic_skips_nothing_of_the_new_one(
    kafka: Any, topic: str, group: str
) -> None:
    """Its offset is neither committed nor sought: the position is that of the new topic."""
    servers, partition = kafka.bootstrap_servers, TopicPartition(topic, 0)
    filled(kafka, topic, 5, partitions=1)

    def handle(record: Any) -> None:
        if record.offset == 3:
            delete_topic(servers, topic)
            create_topic(servers, topic)
            wait_until(lambda: named(events, "position.resolved")[1:], "the position to be reset")
            raise ValueError("no")

    with traced() as events, quick(kafka, group_id=group) as consumer:
        consumer.assign([partition])
        with pytest.raises(HandlerError):
            consumer.process(handle, order="partition", commit_interval_ms=600_000)

        assert consumer.position(partition) == 0
        assert not consumer.committed(partition)


@pytest.mark.parametrize("ends_by", ["a stop", "an error"])
def test_a_wakeup_while_the_end_is_waited_for_does_not_give_the_last_commit_up(
    kafka: Any, topic: str, group: str, ends_by: str
) -> None:
    filled(kafka, topic, 2, partitions=1, keys=2)
    running, may_end = threading.Event(), threading.Event()

    def handle(record: Any) -> None:
        if record.offset == 1:
            running.wait(4 * PROMPT_S)
            if ends_by == "an error":
                raise ValueError("no")
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            running.set()
            may_end.wait(6 * PROMPT_S)

    with traced() as events, a_member(kafka, topic, group) as consumer:

        def wake() -> None:
            running.wait(4 * PROMPT_S)
            time.sleep(0.5)  # the end is waited for by now
            consumer.wakeup()
            may_end.set()

        waking = after(0.0, wake)
        with pytest.raises(HandlerError if ends_by == "an error" else WakeupError):
            consumer.process(handle, order="none", commit_interval_ms=600_000)
        waking.join()
        if ends_by == "an error":
            with pytest.raises(WakeupError):
                consumer.poll()
        assert committed(consumer) == (1 if ends_by == "an error" else 2)
    assert not named(events, "commit.failed")
