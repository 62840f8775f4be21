"""aktor's consumer in the place of kafka-python's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import kafka
import kafka.consumer
import kafka.consumer.group
import pytest

import aktor
from aktor import KafkaConsumer
from aktor.errors import BootstrapError

THEIRS = kafka.consumer.group.KafkaConsumer
POLL = vars(KafkaConsumer)["poll"]


@pytest.fixture(autouse=True)
def _uninstalled() -> Iterator[None]:
    yield
    aktor.uninstall()


def places() -> list[type]:
    return [
        *(kafka.KafkaConsumer, kafka.consumer.KafkaConsumer, kafka.consumer.group.KafkaConsumer),
    ]


def test_after_install_kafka_has_our_class_and_after_uninstall_its_own() -> None:
    aktor.install()
    assert places() == [KafkaConsumer] * 3

    aktor.uninstall()
    assert places() == [THEIRS] * 3


def test_the_end_of_a_block_undoes_only_what_its_install_did() -> None:
    with aktor.install():
        with aktor.install():
            pass
        assert places() == [KafkaConsumer] * 3

    assert places() == [THEIRS] * 3


def test_producer_and_admin_client_stay_kafka_pythons() -> None:
    before = kafka.KafkaProducer, kafka.KafkaAdminClient

    with aktor.install():
        assert (kafka.KafkaProducer, kafka.KafkaAdminClient) == before


class Wrapped:
    """A method that is wrapped as `wrapt`, which the agents use, wraps it."""

    def __init__(self, wrapped: Any, wrapper: Callable[..., Any]) -> None:
        self.__wrapped__ = wrapped
        self._self_wrapper = wrapper

    def __get__(self, instance: Any, owner: type) -> Any:
        own = self.__wrapped__.__get__(instance, owner)
        return functools.partial(self._self_wrapper, own, instance)


def counted(calls: list[Any]) -> Callable[..., Any]:
    def wrapper(wrapped: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(instance)
        return wrapped(*args, **kwargs)

    return wrapper


def wrap(owner: Any, name: str, wrapper: Callable[..., Any], undo: pytest.MonkeyPatch) -> None:
    undo.setattr(owner, name, Wrapped(vars(owner)[name], wrapper))


@contextlib.contextmanager
def a_consumer() -> Iterator[Any]:
    consumer = KafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0)
    yield consumer
    consumer.close(timeout_ms=0)


@pytest.fixture
def consumer() -> Iterator[Any]:
    with a_consumer() as consumer:
        yield consumer


def poll(consumer: Any, **how: Any) -> None:
    with contextlib.suppress(BootstrapError):  # no broker is there
        consumer.poll(**how)


def test_an_agent_that_wraps_after_the_installation_sees_our_calls(
    consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    aktor.install()
    wrap(kafka.KafkaConsumer, "poll", counted(calls), monkeypatch)

    poll(consumer)
    assert calls == [consumer]


def test_an_agent_that_has_wrapped_kafka_pythons_methods_before_sees_our_calls_too(
    consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    wrap(THEIRS, "poll", counted(calls), monkeypatch)

    aktor.install()
    aktor.install()
    poll(consumer)
    assert calls == [consumer]

    aktor.uninstall()
    poll(consumer)
    assert calls == [consumer]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_agents_that_have_wrapped_kafka_pythons_methods_see_a_consumer_without_install(
    layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the import line was changed: the program's monitoring goes on."""
    calls: list[Any] = []
    for layer in range(layers):
        wrap(THEIRS, "poll", named(calls, layer), monkeypatch)

    for _ in range(2):
        with a_consumer() as consumer:
            poll(consumer)
            assert calls == [*reversed(range(layers))]
            calls.clear()


def named(calls: list[Any], name: int) -> Callable[..., Any]:
    def wrapper(wrapped: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return wrapped(*args, **kwargs)

    return wrapper


def test_an_agent_that_was_stopped_or_was_started_anew_is_followed_by_the_next_consumer() -> None:
    old: list[Any] = []
    new: list[Any] = []
    with pytest.MonkeyPatch.context() as undo:
        wrap(THEIRS, "poll", counted(old), undo)
        with a_consumer() as consumer:
            poll(consumer)
    with pytest.MonkeyPatch.context() as undo:
        wrap(THEIRS, "poll", counted(new), undo)
        with a_consumer() as consumer:
            poll(consumer)
    with a_consumer() as consumer:
        poll(consumer)

    assert (len(old), len(new)) == (1, 1)
    assert vars(KafkaConsumer)["poll"] is POLL


def test_an_agent_that_has_replaced_a_method_by_a_function_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def of_the_agent(self: Any, *args: Any) -> Any: ...

    monkeypatch.setattr(THEIRS, "_poll_once", of_the_agent)
    for _ in range(2):
        with a_consumer():
            pass

    (told,) = [text for text in caplog.messages if text.startswith("agent.unseen")]
    assert "kafka.KafkaConsumer._poll_once" in told
    assert "of_the_agent" in told
    assert "aktor.install()" in told


def test_a_loop_calls_a_next_that_was_replaced(
    consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert iter(consumer) is not consumer

    monkeypatch.setattr(KafkaConsumer, "__next__", lambda self: "a record")

    assert iter(consumer) is consumer
    assert [record for record, _ in zip(consumer, range(2), strict=False)] == ["a record"] * 2


def test_each_poll_goes_through_the_method_that_skywalking_replaces(
    consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, calls = KafkaConsumer._poll_once, []

    def replaced(self: Any, timeout: Any, max_records: Any, update_offsets: bool = True) -> Any:
        calls.append((self, max_records, update_offsets))
        return own(self, timeout, max_records, update_offsets=update_offsets)

    monkeypatch.setattr(KafkaConsumer, "_poll_once", replaced)
    poll(consumer, max_records=7)

    assert calls == [(consumer, 7, True)]
