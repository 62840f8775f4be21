"""The application thread's half: the facade, its settings, delivery and callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

if TYPE_CHECKING:
    from aktor.consumer.facade import KafkaConsumer

__all__ = ["KafkaConsumer"]


def __getattr__(name: str) -> Any:
    # Imported when it is used: its modules import this package.
    if name != "KafkaConsumer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aktor.consumer.facade import KafkaConsumer

    return KafkaConsumer
