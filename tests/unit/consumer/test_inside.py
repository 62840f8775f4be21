"""Names that a consumer has inside: who takes one is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aktor import aio
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.inside import names_inside


def a_consumer(kind: Callable[..., Any]) -> Any:
    return kind(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0)


@pytest.mark.parametrize("base", [KafkaConsumer, aio.KafkaConsumer])
@pytest.mark.parametrize("name", ["_settings", "_engine", "_guard", "_prepare_metrics"])
@pytest.mark.parametrize("how", ["in the class", "before our constructor", "after it"])
def test_a_subclass_that_takes_a_name_of_ours_is_told(base: Any, name: str, how: str) -> None:
    """Else the one breaks the other, with an error that nobody understands."""

    class Reader(base):  # type: ignore[misc]
        def __init__(self, **settings: Any) -> None:
            if how == "before our constructor":
                setattr(self, name, "mine")
            super().__init__(**settings)
            try:
                setattr(self, name, "mine")
            finally:
                end(self)

    if how == "in the class":
        setattr(Reader, name, lambda self: None)
    with pytest.raises(TypeError, match=rf"^Reader\.{name} has the name .* another name$"):
        a_consumer(Reader)


def end(consumer: Any) -> None:
    if isinstance(consumer, KafkaConsumer):
        consumer.close()


def test_a_program_that_replaces_a_name_of_ours_is_told() -> None:
    consumer = a_consumer(KafkaConsumer)

    with pytest.raises(TypeError, match=r"^KafkaConsumer\._host has the name"):
        consumer._host = "kafka-1"
    consumer.host, consumer._my_host = "kafka-1", "kafka-1"
    consumer.close()


def test_a_subclass_may_replace_what_kafka_python_has_inside() -> None:
    class Reader(KafkaConsumer[Any, Any]):
        _topic = "orders"

        def _poll_once(self, *given: Any, **named: Any) -> Any:
            return super()._poll_once(*given, **named)

    a_consumer(Reader).close()


@pytest.mark.parametrize("kind", [KafkaConsumer, aio.KafkaConsumer])
def test_each_inner_attribute_of_a_consumer_is_known(kind: Any) -> None:
    consumer = a_consumer(kind)
    inside = {name for name in vars(consumer) if name.startswith("_")}
    end(consumer)

    assert inside
    assert inside <= names_inside(kind)
