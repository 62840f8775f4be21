"""A consumer that is dropped, interrupted while it is made, or copied; its thread is a real one."""

from __future__ import annotations

import contextlib
import copy
import gc
import logging
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import kafka
import pytest
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.metrics.metrics_reporter import AbstractMetricsReporter
from kafka.serializer import Deserializer
from kafka.structs import OffsetAndMetadata, TopicPartition

import aktor
from aktor.actors.runtime.dispatcher import Bell, Dispatcher, _Thread
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.system import HOST, Host
from aktor.errors import (
    BackgroundThreadError,
    BootstrapError,
    ConfigurationError,
    NoBrokersAvailable,
    WakeupError,
)
from tests.unit.leftovers import open_files, open_things

NAME = "dropped"


class InterruptedHost(Host):
    """Ctrl-C comes when the thread has just begun to turn."""

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        super().start(dispatcher, name)
        raise KeyboardInterrupt


class InterruptedBell(Bell):
    """Ctrl-C comes while the application waits for the bell."""

    def wait(self, timeout: float) -> bool:
        raise KeyboardInterrupt


class InterruptedWait(Host):
    def make_bell(self) -> Bell:
        return InterruptedBell()


def a_consumer(**settings: Any) -> KafkaConsumer:
    """With a broker that is not there; unless told, the constructor does not wait for it."""
    usual: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 0}
    return KafkaConsumer(client_id=NAME, **usual | settings)


def the_thread_ends() -> bool:
    for thread in threading.enumerate():
        if thread.name == f"aktor-{NAME}":
            thread.join(20.0)
            return not thread.is_alive()
    return True


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_a_constructor_that_is_interrupted_leaves_no_thread_behind() -> None:
    here = HOST.set(InterruptedHost())
    try:
        a_consumer()
    except KeyboardInterrupt:
        pass
    finally:
        HOST.reset(here)

    assert the_thread_ends()


# -- the constructor waits for a broker


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("caught", [BootstrapError, KafkaTimeoutError, NoBrokersAvailable])
def test_a_constructor_whose_broker_does_not_answer_raises_in_time_and_leaves_nothing_behind(
    caught: type[Exception],
) -> None:
    """A program that is started before Kafka has a loop around the constructor."""
    before, began = open_things(), time.monotonic()

    with pytest.raises(
        caught, match=r"127\.0\.0\.1:1: Connection refused.* Check bootstrap_servers"
    ):
        a_consumer(bootstrap_timeout_ms=300)

    assert 0.3 <= time.monotonic() - began < 5.0
    assert open_things() - before == set()


@pytest.mark.usefixtures("_no_collector")
def test_ctrl_c_ends_the_wait_of_a_constructor_and_leaves_nothing_behind() -> None:
    before, here = open_things(), HOST.set(InterruptedWait())
    try:
        with pytest.raises(KeyboardInterrupt):
            a_consumer(bootstrap_timeout_ms=60_000)
    finally:
        HOST.reset(here)

    assert open_things() - before == set()


@pytest.mark.parametrize("settings", [{}, {"bootstrap_timeout_ms": 60_000, "api_version": (3, 9)}])
def test_a_constructor_that_is_to_wait_for_nobody_does_not(settings: dict[str, Any]) -> None:
    """kafka-python's does not wait either if it is told the broker's version."""
    began = time.monotonic()
    with a_consumer(**settings) as consumer:
        assert time.monotonic() - began < 5.0
        with pytest.raises(BootstrapError):
            consumer.bootstrap(timeout_ms=100)


@pytest.mark.parametrize("topics", [[], ["a bad name"]], ids=["no broker", "a bad topic"])
def test_reporters_of_metrics_are_closed_by_a_constructor_that_raises(topics: list[str]) -> None:
    """The consumer has made them, and nobody else knows them."""
    closed: list[str] = []

    class Reporter(AbstractMetricsReporter):
        def init(self, metrics: Any) -> None:
            pass

        def metric_change(self, metric: Any) -> None:
            pass

        def metric_removal(self, metric: Any) -> None:
            pass

        def configure(self, configs: Any) -> None:
            pass

        def close(self) -> None:
            closed.append("reporter")

    with pytest.raises((BootstrapError, ValueError)):
        KafkaConsumer(
            *topics,
            bootstrap_servers="127.0.0.1:1",
            bootstrap_timeout_ms=100,
            metric_reporters=[Reporter],
        )

    assert closed == ["reporter"]


def test_deserializers_are_not_closed_by_a_constructor_that_raises() -> None:
    """The next attempt is given the same ones."""
    closed: list[str] = []

    class Text(Deserializer):
        def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
            return data

        def close(self) -> None:
            closed.append("value")

    with pytest.raises(BootstrapError):
        a_consumer(bootstrap_timeout_ms=100, value_deserializer=Text())

    assert closed == []


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(
    ("topics", "configs"),
    [(["a bad name"], {}), ([], {"value_deserializer": lambda one, two, three: one})],
    ids=["topic", "deserializer"],
)
def test_a_constructor_that_refuses_something_leaves_nothing_open(
    topics: list[str], configs: dict[str, Any]
) -> None:
    before = open_files()
    with pytest.raises((ValueError, ConfigurationError)) as refusal:
        KafkaConsumer(*topics, bootstrap_servers="127.0.0.1:1", **configs)

    assert open_files() - before == set(), refusal.value


@pytest.mark.usefixtures("_no_collector")
def test_a_consumer_that_is_dropped_after_an_error_ends_its_thread_at_once() -> None:
    consumer = a_consumer()
    consumer.wakeup()
    try:
        consumer.poll(1000)
    except WakeupError:
        del consumer

    assert the_thread_ends()


def test_a_warning_of_a_deserializer_names_the_line_that_makes_the_consumer() -> None:
    with pytest.warns(DeprecationWarning, match="value_deserializer") as warned:
        KafkaConsumer(bootstrap_timeout_ms=0, value_deserializer=bytes.decode).close()

    assert [one.filename for one in warned] == [__file__]


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_consumer_is_not_copied(take: Callable[[Any], Any]) -> None:
    """A copy would lose its thread as soon as the other one is dropped."""
    consumer = a_consumer()

    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        take(consumer)

    consumer.close()


# -- the background thread is gone

PARTITION = TopicPartition("orders", 0)

#: Every method that needs the background thread, called as it may be.
CALLS: dict[str, Callable[[KafkaConsumer], Any]] = {
    "assign": lambda consumer: consumer.assign([PARTITION]),
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([PARTITION]),
    "commit": lambda consumer: consumer.commit({PARTITION: OffsetAndMetadata(1, "", -1)}),
    "commit_async": lambda consumer: consumer.commit_async(
        {PARTITION: OffsetAndMetadata(1, "", -1)}
    ),
    "committed": lambda consumer: consumer.committed(PARTITION),
    "end_offsets": lambda consumer: consumer.end_offsets([PARTITION]),
    "iteration": next,
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({PARTITION: 1}),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("orders"),
    "pause": lambda consumer: consumer.pause(PARTITION),
    "poll": lambda consumer: consumer.poll(60_000),
    "poll without a wait": lambda consumer: consumer.poll(),
    "poll_arrow": lambda consumer: consumer.poll_arrow(60_000),
    "position": lambda consumer: consumer.position(PARTITION),
    "process": lambda consumer: consumer.process(print),
    "resume": lambda consumer: consumer.resume(PARTITION),
    "seek": lambda consumer: consumer.seek(PARTITION, 1),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(),
    "seek_to_end": lambda consumer: consumer.seek_to_end(),
    "to_table": lambda consumer: consumer.to_table(),
    "topics": lambda consumer: consumer.topics(),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
}


NEED_A_PARTITION = frozenset(
    {"pause", "position", "resume", "seek", "seek_to_beginning", "seek_to_end", "to_table"}
)


class SilentHost(Host):
    """It ends without a word, before it turns."""

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        dispatcher._thread = _Thread()


class TakenAway(_Thread):
    """It seems to be alive, and never runs again."""

    def is_alive(self) -> bool:
        return True

    def join(self, timeout: float | None = None) -> None:
        assert timeout == 0.0, "it would be waited for in vain"


class FinalizingHost(Host):
    """The interpreter takes it away."""

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        dispatcher._thread = TakenAway()


def raising(_frame: Any, _event: str, _argument: Any) -> Any:
    raise MemoryError


class UntracedHost(Host):
    """It ends while its first function is called: a hook of `threading.settrace` raises."""

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        threading.settrace(raising)
        try:
            super().start(dispatcher, name)
        finally:
            threading.settrace(sys.gettrace())  # type: ignore[arg-type]  # None: there is none
        assert dispatcher._thread is not None
        dispatcher._thread.join(20.0)


class SleeplessHost(Host):
    """It ends as soon as it would sleep."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def make_net(self, *arguments: Any, **named: Any) -> Any:
        net = super().make_net(*arguments, **named)

        def wait(_timeout: float) -> None:
            raise self.error

        net.wait = wait  # type: ignore[method-assign]
        return net


HOSTS: dict[str, Callable[[], Host]] = {
    "without a word": SilentHost,
    "as it begins": UntracedHost,
    "by an error": lambda: SleeplessHost(OSError("no descriptors")),
    "by an exit": lambda: SleeplessHost(SystemExit(1)),
    "with the interpreter": FinalizingHost,
}


@pytest.fixture(params=list(HOSTS))
def threadless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> KafkaConsumer:
    here = HOST.set(HOSTS[request.param]())
    consumer = a_consumer(group_id="a", enable_auto_commit=False)
    HOST.reset(here)
    if request.param == "with the interpreter":
        monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    return consumer


@pytest.mark.few_cases
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_each_call_says_at_once_that_the_background_thread_is_gone(
    name: str, threadless: KafkaConsumer
) -> None:
    if name in NEED_A_PARTITION:
        threadless._driver.run(threadless._engine.assign([PARTITION]))
    began = time.monotonic()
    while True:  # the thread may need a moment to end
        try:
            CALLS[name](threadless)
        except BackgroundThreadError:
            break
        assert time.monotonic() < began + 20.0

    assert threadless.status().state.startswith("failed: ")
    threadless.close()
    assert time.monotonic() < began + 20.0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", ["without a word", "with the interpreter"])
def test_a_close_that_finds_the_background_thread_gone_says_so_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would hear that nothing was committed, and that the group was not left."""
    here = HOST.set(HOSTS[kind]())
    consumer = a_consumer()
    HOST.reset(here)
    if kind == "with the interpreter":
        monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    began = time.monotonic()

    with pytest.raises(BackgroundThreadError):
        consumer.close()

    assert time.monotonic() < began + 10.0
    consumer.close()
    assert consumer.status().state == "closed"


# -- the program exits


@pytest.mark.few_cases
@pytest.mark.parametrize("name", [*CALLS, "status", "metrics"])
def test_at_the_exit_the_background_thread_rests_again_after_each_call(name: str) -> None:
    """A function of `atexit` may use the consumer and not close it. If the thread ran on, the
    interpreter could abort as it takes the thread away (see `Dispatcher.rest`)."""
    looks: dict[str, Callable[[KafkaConsumer], Any]] = {
        "status": lambda consumer: consumer.status(),
        "metrics": lambda consumer: consumer.metrics(),
    }
    consumer = a_consumer()
    dispatcher, thread = consumer._dispatcher, consumer._dispatcher._thread
    assert thread is not None
    if name in NEED_A_PARTITION:
        consumer.assign([PARTITION])
    dispatcher.rest()
    consumer.wakeup()  # ends each wait at once

    with contextlib.suppress(KafkaError):
        (CALLS | looks)[name](consumer)

    assert thread.rests
    assert thread.is_alive()
    consumer.close()
    assert the_thread_ends()


def test_at_the_exit_the_background_thread_runs_while_a_call_of_another_thread_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a poll of it is long
        consumer = a_consumer(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}")
        consumer._dispatcher.rest()

        def poll() -> None:
            with contextlib.suppress(KafkaError, WakeupError):
                consumer.poll(60_000)

        polling = threading.Thread(target=poll, daemon=True)
        polling.start()
        while not consumer._guard.away:
            time.sleep(0.001)

        assert consumer.status().state.startswith("running")

        thread = consumer._dispatcher._thread
        assert thread is not None
        assert not thread.rests
        consumer.wakeup()
        polling.join(20.0)
        assert thread.rests
        consumer.close()


class Deaf(logging.Handler):
    """A handler of the application's that always raises."""

    def emit(self, record: logging.LogRecord) -> None:
        raise ConnectionError("the log server is down")


def test_a_log_handler_that_raises_does_not_end_the_background_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger, deaf = logging.getLogger("aktor"), Deaf()
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    logger.addHandler(deaf)
    consumer = a_consumer()
    try:
        with pytest.raises(BootstrapError):
            consumer.poll(5000)
        assert consumer.status().state.startswith("running, but ")
        assert {actor.incarnation for actor in consumer.status().actors} == {1}
        consumer.close()
    finally:
        logger.removeHandler(deaf)
    assert the_thread_ends()


def test_the_log_says_in_one_line_at_the_start_which_aktor_reads_and_how(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="aktor")

    with a_consumer() as consumer:
        reader = consumer.status().reader

    told = [record for record in caplog.records if "consumer.started" in record.getMessage()]
    assert len(told) == 1
    for part in (aktor.__version__, reader, kafka.__version__):
        assert part in told[0].getMessage()
