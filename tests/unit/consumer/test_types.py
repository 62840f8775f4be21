"""What is said to type checkers is harmless when the program runs. (Checkers: `tests.typing`.)"""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any, get_type_hints

import kafka.consumer.subscription_state
import kafka.future
import kafka.structs
import pytest
from kafka.consumer.fetcher import ConsumerRecord as KafkaRecord

import aktor
from aktor import ConsumerRecord, ConsumerSettings, KafkaConsumer, future, structs
from aktor.consumer import subscription_state
from aktor.consumer.configuration.keywords import Config
from aktor.consumer.configuration.table import SETTINGS

NOBODY: dict[str, Any] = {"bootstrap_servers": "localhost:1", "bootstrap_timeout_ms": 0}


def test_a_consumer_with_types_is_made_and_is_one() -> None:
    with KafkaConsumer[str, int](**NOBODY) as consumer:
        assert type(consumer) is KafkaConsumer
        assert isinstance(consumer, KafkaConsumer)


def test_a_class_of_the_users_may_say_the_types() -> None:
    class Orders(KafkaConsumer[str, int]):
        def poll(self, *args: Any, **kwargs: Any) -> Any:
            return "mine"

    with Orders(**NOBODY) as consumer:
        assert consumer.poll() == "mine"


def test_annotations_with_types_can_be_read() -> None:
    def bill(record: ConsumerRecord[str, int], consumer: KafkaConsumer[str, int]) -> None: ...

    assert get_type_hints(bill)["record"].__origin__ is ConsumerRecord


@pytest.mark.parametrize("settings", [ConsumerSettings, Config])
def test_the_types_of_settings_can_be_read(settings: Any) -> None:
    missing = {"key_deserializer", "value_deserializer"} if settings is ConsumerSettings else set()

    assert set(get_type_hints(settings)) == SETTINGS.keys() - missing


def test_there_is_one_class_of_each_name() -> None:
    assert ConsumerRecord is KafkaRecord
    assert future.Future is kafka.future.Future
    for name in subscription_state.__all__:
        theirs = getattr(kafka.consumer.subscription_state, name)
        assert getattr(subscription_state, name) is getattr(aktor, name) is theirs
    for name in {*structs.__all__} - {"ConsumerRecord"}:
        assert getattr(structs, name) is getattr(kafka.structs, name)


@pytest.mark.parametrize("read", [inspect.getdoc, pydoc.render_doc], ids=lambda one: one.__name__)
def test_help_lists_each_setting_with_its_default_and_unit(
    read: Callable[[object], str],
) -> None:
    text = pydoc.plain(read(KafkaConsumer))

    assert all(f"    {name} = " in text for name in SETTINGS)
    assert "session_timeout_ms = 45000 ms\n" in text
    assert "fetch_max_bytes = 52428800 bytes\n" in text
    assert "(RangePartitionAssignor, RoundRobinPartitionAssignor)\n" in text


def test_a_class_of_the_users_has_its_own_help() -> None:
    class Orders(KafkaConsumer):
        """Reads orders."""

    assert Orders.__doc__ == "Reads orders."
