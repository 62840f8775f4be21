"""The asyncio consumer: aiokafka's interface over the same actors and the same core as
`aktor.KafkaConsumer`.

    from aktor.aio import KafkaConsumer

    async with KafkaConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as c:
        async for record in c:
            print(record.value)
"""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
from aktor.aio.consumer import AIOKafkaConsumer, KafkaConsumer
from aktor.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from aktor.errors import ConsumerStoppedError
from aktor.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

__all__ = [
    "AIOKafkaConsumer",
    "AsyncConsumerRebalanceListener",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "KafkaConsumer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]
