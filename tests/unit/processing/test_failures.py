"""Retries, dead letters, and the arguments of `process`."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from aktor.actors.runtime.dispatcher import VirtualTime
from aktor.consumer.core import waiting
from aktor.errors import HandlerError
from aktor.processing import Failure, Retries, dead_letter
from aktor.processing.dead_letter import AsyncDeadLetter
from aktor.processing.plan import Plan, plan
from tests.unit.processing.builders import a_record


def a_plan(handler: Any = print, **changed: Any) -> Plan:
    known: dict[str, Any] = {
        "order": "key",
        "on_error": "raise",
        "retries": 0,
        "workers": None,
        "numbers": {"concurrency": 1, "max_pending": 1, "max_uncommitted": 1},
        "commit_interval": 1.0,
        "drain_timeout": 1.0,
        "idle_timeout": 1.0,
    }
    return plan(handler, **known | changed)


async def a_coroutine(record: Any) -> None:
    """Nothing."""


class AsynchronousObject:
    async def __call__(self, record: Any) -> None:
        """Nothing."""


def a_generator(record: Any) -> Any:
    yield record


async def an_asynchronous_generator(record: Any) -> Any:
    yield record


def test_the_waits_between_attempts_double_up_to_a_bound() -> None:
    retries = Retries(10, backoff_ms=100, backoff_max_ms=1000)

    assert [retries.wait(attempts) for attempts in (1, 2, 3, 4, 5, 1000)] == [
        *(0.1, 0.2, 0.4, 0.8, 1.0, 1.0)
    ]


@pytest.mark.parametrize("count", [-1, 1.5, True, "3"])
def test_retries_are_a_number(count: Any) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        a_plan(retries=count)


def test_coroutine_functions_run_as_coroutines_and_others_in_threads() -> None:
    assert a_plan(a_coroutine).workers == "coroutines"
    assert a_plan(AsynchronousObject()).workers == "coroutines"
    assert a_plan(print).workers == "threads"


@pytest.mark.parametrize(
    ("handler", "changed", "complaint"),
    [
        (None, {}, "handler must be callable"),
        (print, {"order": "topic"}, "key, partition, none"),
        (print, {"on_error": "ignore"}, "dead_letter"),
        (print, {"workers": "greenlets"}, "threads, processes, coroutines"),
        (print, {"workers": "coroutines"}, "must be a coroutine function"),
        (a_coroutine, {"workers": "threads"}, "must not be a coroutine function"),
        (a_generator, {}, "would never run"),
        (an_asynchronous_generator, {}, "would never run"),
        (an_asynchronous_generator, {"workers": "coroutines"}, "would never run"),
        (print, {"on_error": a_coroutine}, "on_error must be an ordinary function"),
        (print, {"on_error": AsynchronousObject()}, "on_error must be an ordinary function"),
        (print, {"on_error": a_generator}, "on_error must be an ordinary function"),
        (print, {"numbers": {"concurrency": 0}}, "concurrency must be at least 1"),
        (print, {"numbers": {"concurrency": "8"}}, "concurrency must be an int"),
    ],
)
def test_a_wrong_argument_is_named(handler: Any, changed: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        a_plan(handler, **changed)


def test_the_error_names_the_record_and_says_what_to_do() -> None:
    error = HandlerError(topic="orders", partition=2, offset=7, attempts=3)

    assert "offset 7 of orders-2 (3 attempts)" in str(error)
    assert "on_error='skip'" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.offset, str(again)) == (7, str(error))


def a_failure(error: BaseException | None = None) -> Failure:
    return Failure(
        record=a_record(7, b"k"), error=error or ValueError("no"), attempts=3, group_id="g"
    )


def test_the_headers_of_a_dead_letter_say_where_it_was_and_why() -> None:
    headers = dict(a_failure().headers())

    assert headers["aktor.errors.topic"] == b"orders"
    assert headers["aktor.errors.partition"] == b"0"
    assert headers["aktor.errors.offset"] == b"7"
    assert headers["aktor.errors.attempts"] == b"3"
    assert headers["aktor.errors.group"] == b"g"
    assert headers["aktor.errors.exception.class.name"] == b"builtins.ValueError"
    assert headers["aktor.errors.exception.message"] == b"no"
    assert headers["aktor.errors.exception.stacktrace"].endswith(b"ValueError: no\n")


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


@pytest.mark.parametrize("error", [ValueError("\ud800"), Wordless(), ValueError("x" * 2_000_000)])
def test_the_text_of_an_exception_cannot_keep_a_dead_letter_from_being_written(
    error: Exception,
) -> None:
    """Else the record could never be passed."""
    headers = a_failure(error).headers()

    assert sum(len(value) for _, value in headers) < 40_000


class KafkaPython:
    """Takes what is sent, as kafka-python's producer does, and refuses what that refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._error = error

    def send(self, topic: str, **content: Any) -> KafkaPython:
        if content["key"] is None and content["value"] is None:
            raise ValueError("Need at least one: key or value")
        if not all(isinstance(value, bytes) for _, value in content["headers"]):
            raise TypeError("All headers items must be (str, bytes) tuples")
        self.sent.append({"topic": topic} | content)
        return self

    def get(self, timeout: float) -> None:
        if self._error is not None:
            raise self._error


class Stopped:
    """The process is stopped (SIGSTOP) in the first wait of its producer, for longer than that wait
    may take. What was delivered is heard in the next one."""

    is_done = False

    def __init__(self, clock: VirtualTime) -> None:
        self._clock = clock
        self._waits = 0

    def is_told(self) -> bool:
        self._waits += 1
        self._clock.now += 60.0 if self._waits == 1 else 0.0
        return self._waits > 1


class StoppedKafkaPython(Stopped):
    def send(self, topic: str, **content: Any) -> StoppedKafkaPython:
        return self

    def get(self, timeout: float) -> None:
        if not self.is_told():
            raise KafkaTimeoutError


class StoppedConfluent(Stopped):
    def produce(self, topic: str, *, on_delivery: Any, **content: Any) -> None:
        self._on_delivery = on_delivery

    def poll(self, timeout: float) -> None:
        if self.is_told():
            self._on_delivery(None, None)


class Confluent:
    """The same as confluent-kafka's, which says in `poll` that it has delivered."""

    def __init__(self, error: Any = None, *, delivers: bool = True, full: int = 0) -> None:
        self.sent: list[dict[str, Any]] = []
        self._error = error
        self._delivers = delivers
        self._full = full
        self._waiting: list[Any] = []

    def produce(self, topic: str, *, on_delivery: Any, **content: Any) -> None:
        if self._full:
            raise BufferError("Local: Queue full")
        self.sent.append({"topic": topic} | content)
        self._waiting.append(on_delivery)

    def poll(self, timeout: float) -> None:
        self._full = max(0, self._full - 1)
        while self._delivers and self._waiting:
            self._waiting.pop()(self._error, None)


@pytest.mark.parametrize("producer", [KafkaPython(), Confluent()])
def test_a_dead_letter_keeps_key_value_and_headers(producer: Any) -> None:
    failure = a_failure()
    failure.record.headers.append(("trace", b"1"))

    dead_letter("dead", producer)(failure)

    (sent,) = producer.sent
    assert (sent["topic"], sent["key"], sent["value"]) == ("dead", b"k", b"")
    assert sent["headers"] == [("trace", b"1"), *failure.headers()]


@pytest.mark.parametrize("producer", [KafkaPython(RuntimeError("full")), Confluent("full")])
def test_a_dead_letter_that_cannot_be_written_raises(producer: Any) -> None:
    with pytest.raises(RuntimeError, match="full"):
        dead_letter("dead", producer)(a_failure())


def test_a_producer_that_does_not_deliver_is_not_waited_for_for_ever() -> None:
    with pytest.raises(KafkaTimeoutError, match="dead"):
        dead_letter("dead", Confluent(delivers=False), timeout_ms=1)(a_failure())


class Stuck:
    """Something of the user's that waits in the call of this name for as long as it likes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.may_end = threading.Event()

    def wait(self, name: str) -> None:
        if name == self.name:
            self.may_end.wait(60.0)

    def serialize(self, value: Any) -> bytes:
        self.wait("serializer")
        return str(value).encode()


class StuckKafkaPython(Stuck):
    """kafka-python's producer waits `max_block_ms` for metadata, 60 s by default."""

    def send(self, topic: str, **content: Any) -> StuckKafkaPython:
        self.wait("send")
        return self

    def get(self, timeout: float) -> None:
        self.wait("get")


class StuckConfluent(Stuck):
    """A callback of the user's that runs in `poll` may wait, too."""

    def produce(self, topic: str, *, on_delivery: Any, **content: Any) -> None:
        self.wait("produce")

    def poll(self, timeout: float) -> None:
        self.wait("poll")


@pytest.mark.parametrize(
    "stuck",
    [
        StuckKafkaPython("send"),
        StuckKafkaPython("get"),
        StuckKafkaPython("serializer"),
        StuckConfluent("produce"),
        StuckConfluent("poll"),
        StuckConfluent("serializer"),
    ],
    ids=lambda stuck: f"{type(stuck).__name__}.{stuck.name}",
)
def test_a_dead_letter_holds_its_deadline_wherever_it_waits(stuck: Any) -> None:
    letters = dead_letter("dead", stuck, key_serializer=stuck.serialize, timeout_ms=50)
    failure = Failure(record=a_record(7, "k"), error=ValueError(), attempts=1, group_id=None)
    began = time.monotonic()

    with pytest.raises(KafkaTimeoutError, match=r"dead within 0\.05 s"):
        letters(failure)

    assert time.monotonic() < began + 20.0
    stuck.may_end.set()


@pytest.mark.parametrize("producer", [StoppedKafkaPython, StoppedConfluent])
def test_a_letter_that_was_delivered_while_the_process_was_stopped_is_delivered(
    monkeypatch: pytest.MonkeyPatch, producer: type[Stopped]
) -> None:
    clock = VirtualTime(100.0)
    for module in (waiting, sys.modules[AsyncDeadLetter.__module__]):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock))

    dead_letter("dead", producer(clock))(a_failure())


def test_a_letter_is_waited_for_by_a_thread_that_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck = StuckKafkaPython("send")
    began = time.monotonic()

    def clock() -> float:
        """The process is stopped after 0.05 s; what it waits for comes at once when it goes on."""
        if time.monotonic() < began + 0.05:
            return began
        stuck.may_end.set()
        return began + 60.0

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=clock))
    try:
        dead_letter("dead", stuck, timeout_ms=60)(a_failure())
    finally:
        stuck.may_end.set()


def test_a_letter_that_a_coroutine_sends_is_waited_for_if_the_process_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = 0.0

    class Sender:
        async def send_and_wait(self, topic: str, **content: Any) -> None:
            nonlocal stopped
            stopped = 60.0
            for _ in range(10):  # what has come is read, and told, by other turns of the loop
                await asyncio.sleep(0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + stopped)
        letters = dead_letter("dead", Sender())
        assert isinstance(letters, AsyncDeadLetter)
        await letters(a_failure())

    asyncio.run(main())


def test_a_full_queue_of_the_producer_is_waited_for() -> None:
    producer = Confluent(full=3)

    dead_letter("dead", producer)(a_failure())

    assert len(producer.sent) == 1
    with pytest.raises(KafkaTimeoutError, match="dead"):
        dead_letter("dead", Confluent(full=10**9), timeout_ms=1)(a_failure())


def test_what_kafka_pythons_producer_cannot_write_is_written_empty() -> None:
    """It refuses headers that are null, and records without key and value."""
    python, confluent = KafkaPython(), Confluent()
    record = a_record(7, None)._replace(value=None, headers=[("trace", None)])
    failure = Failure(record=record, error=ValueError(), attempts=1, group_id=None)

    dead_letter("dead", python)(failure)
    dead_letter("dead", confluent)(failure)

    assert (python.sent[0]["key"], python.sent[0]["value"]) == (None, b"")
    assert python.sent[0]["headers"][0] == ("trace", b"")
    assert (confluent.sent[0]["key"], confluent.sent[0]["value"]) == (None, None)
    assert confluent.sent[0]["headers"][0] == ("trace", None)


def test_what_was_deserialized_needs_a_serializer() -> None:
    producer = KafkaPython()
    failure = Failure(record=a_record(7, "k"), error=ValueError(), attempts=1, group_id=None)

    with pytest.raises(TypeError, match="key_serializer"):
        dead_letter("dead", producer)(failure)
    dead_letter("dead", producer, key_serializer=str.encode)(failure)

    assert producer.sent[0]["key"] == b"k"


def test_something_that_is_no_producer_is_refused() -> None:
    with pytest.raises(TypeError, match="not object"):
        dead_letter("dead", object())
