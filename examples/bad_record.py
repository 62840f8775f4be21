"""What to do with a record that cannot be deserialized: look at it, put it aside, go on.

python -m examples.bad_record localhost:9092 orders billing
"""

from __future__ import annotations

import json
import sys
from typing import Any

from aktor import KafkaConsumer, TopicPartition
from aktor.errors import RecordDeserializationError


def main(
    bootstrap: str, topic: str, group: str, idle_ms: float = 10_000
) -> tuple[list[Any], list[bytes | None]]:
    """Read JSON values; returns the good ones and the raw bytes of the bad ones."""
    good: list[Any] = []
    bad: list[bytes | None] = []
    with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        value_deserializer=json.loads,
    ) as consumer:
        while True:
            try:
                batch = consumer.poll(timeout_ms=idle_ms)
            except RecordDeserializationError as error:
                print(error)
                bad.append(error.value)
                consumer.seek(TopicPartition(error.topic, error.partition), error.offset + 1)
                continue
            if not batch:
                return good, bad
            for records in batch.values():
                good.extend(record.value for record in records)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
