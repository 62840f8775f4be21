"""A Kafka consumer for Python, built as an actor system; a drop-in for kafka-python's.

from aktor import KafkaConsumer

for record in KafkaConsumer("orders", group_id="billing", bootstrap_servers="localhost:9092"):
    print(record.value)
"""

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
    "TopicPartition",
    "errors",
]

__version__ = "0.1.0.dev0"
