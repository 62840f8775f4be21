"""Avro whose schemas are in a schema registry: each value is an Order, also for the type checker.

pip install 'aktor[avro]'
python -m examples.schema_registry localhost:9092 orders billing http://localhost:8081
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aktor import KafkaConsumer
from aktor.deserializers import AvroDeserializer, TextDeserializer

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


@dataclass(frozen=True)
class Order:
    """Has the fields of the schema."""

    id: int
    total: float


def main(
    bootstrap: str,
    topic: str,
    group: str,
    registry: str | Mapping[str, object] | SchemaRegistryClient,
    *,
    idle_ms: float = 10_000,
) -> dict[str | None, float]:
    """Sum up totals by key until nothing has come for `idle_ms`. A tombstone takes its key out."""
    totals: dict[str | None, float] = {}
    with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=idle_ms,
        key_deserializer=TextDeserializer(),
        value_deserializer=AvroDeserializer(registry, Order),
    ) as consumer:
        for record in consumer:
            if record.value is None:
                totals.pop(record.key, None)
            else:
                totals[record.key] = totals.get(record.key, 0.0) + record.value.total
    return totals


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    print(main(*sys.argv[1:]))
