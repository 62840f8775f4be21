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
    from kafka.protocol.consumer import IsolationLevel

    from aktor import admin as admin
    from aktor import cluster as cluster
    from aktor import codec as codec
    from aktor import consumer as consumer
    from aktor import coordinator as coordinator
    from aktor import errors
    from aktor import future as future
    from aktor import metrics as metrics
    from aktor import net as net
    from aktor import partitioner as partitioner
    from aktor import producer as producer
    from aktor import serializer as serializer
    from aktor import structs as structs
    from aktor.admin import KafkaAdminClient, OffsetSpec
    from aktor.consumer.columns.json_columns import json_columns
    from aktor.consumer.configuration.keywords import ConsumerSettings
    from aktor.consumer.core.subscription import SubscriptionPattern
    from aktor.consumer.facade import KafkaConsumer
    from aktor.consumer.status import (
        BrokerStatus,
        ConsumerStatus,
        Health,
        PartitionStatus,
        WaitingFor,
    )
    from aktor.consumer.subscription_state import (
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
    )
    from aktor.installation import install, uninstall
    from aktor.producer import KafkaProducer
    from aktor.serializer import DefaultSerializer, Deserializer, JsonSerializer, Serializer
    from aktor.structs import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
        TopicPartitionReplica,
    )

__all__ = [
    "AsyncConsumerRebalanceListener",
    "BrokerStatus",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerSettings",
    "ConsumerStatus",
    "DefaultSerializer",
    "Deserializer",
    "Health",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartitionStatus",
    "Serializer",
    "SubscriptionPattern",
    "TopicPartition",
    "TopicPartitionReplica",
    "WaitingFor",
    "__version__",
    "errors",
    "install",
    "json_columns",
    "uninstall",
]

#: Where the names above come from. They are imported when they are first used, since that takes
#: 0.3 s, which the command `aktor` and every start of pytest (aktor.testing.plugin) would wait for.
#: All names of `kafka` are here: a program need only replace the name of the package.
_MODULES: Final = {
    "AsyncConsumerRebalanceListener": "aktor.consumer.subscription_state",
    "BrokerStatus": "aktor.consumer.status",
    "ConsumerGroupMetadata": "aktor.structs",
    "ConsumerRebalanceListener": "aktor.consumer.subscription_state",
    "ConsumerRecord": "aktor.structs",
    "ConsumerSettings": "aktor.consumer.configuration.keywords",
    "ConsumerStatus": "aktor.consumer.status",
    "DefaultSerializer": "aktor.serializer",
    "Deserializer": "aktor.serializer",
    "Health": "aktor.consumer.status",
    "IsolationLevel": "kafka.protocol.consumer",
    "JsonSerializer": "aktor.serializer",
    "KafkaAdminClient": "aktor.admin",
    "KafkaConsumer": "aktor.consumer.facade",
    "KafkaProducer": "aktor.producer",
    "OffsetAndMetadata": "aktor.structs",
    "OffsetAndTimestamp": "aktor.structs",
    "OffsetSpec": "aktor.admin",
    "PartitionStatus": "aktor.consumer.status",
    "Serializer": "aktor.serializer",
    "SubscriptionPattern": "aktor.consumer.core.subscription",
    "TopicPartition": "aktor.structs",
    "TopicPartitionReplica": "aktor.structs",
    "WaitingFor": "aktor.consumer.status",
    "install": "aktor.installation",
    "json_columns": "aktor.consumer.columns.json_columns",
    "uninstall": "aktor.installation",
}

#: Modules that can be used after `import aktor`, as those of kafka-python after `import kafka`.
_SUBMODULES: Final = {
    *("admin", "cluster", "codec", "consumer", "coordinator", "errors", "future", "metrics"),
    *("net", "partitioner", "producer", "serializer", "structs"),
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"aktor.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("aktor.kafka_python")  # it checks kafka-python
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
