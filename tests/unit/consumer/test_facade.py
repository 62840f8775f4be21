"""A consumer that is dropped, interrupted while it is made, or copied; its thread is a real one."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.system import HOST, Host
from aktor.errors import ConfigurationError, WakeupError
from tests.unit.leftovers import open_files

NAME = "dropped"


class InterruptedHost(Host):
    """Ctrl-C comes when the thread has just begun to turn."""

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        super().start(dispatcher, name)
        raise KeyboardInterrupt


def a_consumer() -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers="127.0.0.1:1", client_id=NAME)


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


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_consumer_is_not_copied(take: Callable[[Any], Any]) -> None:
    """A copy would lose its thread as soon as the other one is dropped."""
    consumer = a_consumer()

    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        take(consumer)

    consumer.close()
