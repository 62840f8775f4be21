"""A Kafka consumer for Python, built as an actor system; a drop-in for kafka-python's.

from aktor import KafkaConsumer

for record in KafkaConsumer("orders", group_id="billing", bootstrap_servers="localhost:9092"):
    print(record.value)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from aktor.version import __version__

if TYPE_CHECKING:
    from kafka.consumer.subscription_state import (
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
    )
    from kafka.structs import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
    )

    from aktor import errors
    from aktor.consumer.columns.json_columns import json_columns
    from aktor.consumer.core.subscription import SubscriptionPattern
    from aktor.consumer.facade import KafkaConsumer
    from aktor.consumer.status import ConsumerStatus, PartitionStatus

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerStatus",
    "KafkaConsumer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionStatus",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
    "errors",
    "json_columns",
]

#: Where the names above come from. They are imported when they are first used, since that takes
#: 0.3 s, which the command `aktor` and every start of pytest (aktor.testing.plugin) would wait for.
_MODULES: Final = {
    "AsyncConsumerRebalanceListener": "kafka.consumer.subscription_state",
    "ConsumerGroupMetadata": "kafka.structs",
    "ConsumerRebalanceListener": "kafka.consumer.subscription_state",
    "ConsumerStatus": "aktor.consumer.status",
    "KafkaConsumer": "aktor.consumer.facade",
    "OffsetAndMetadata": "kafka.structs",
    "OffsetAndTimestamp": "kafka.structs",
    "PartitionStatus": "aktor.consumer.status",
    "SubscriptionPattern": "aktor.consumer.core.subscription",
    "TopicPartition": "kafka.structs",
    "json_columns": "aktor.consumer.columns.json_columns",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("aktor.errors")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("aktor.kafka_python")  # it checks kafka-python
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
