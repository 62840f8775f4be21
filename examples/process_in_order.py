"""Bill orders, several at a time; those of one customer (the key) one after the other.

What fails three times goes to the topic "<topic>-dead". Ends on SIGTERM, or when nothing comes.

python -m examples.process_in_order localhost:9092 orders billing
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kafka import KafkaProducer

from aktor import KafkaConsumer
from aktor.processing import Processed, Retries, dead_letter


def bill(record: Any) -> None:
    """What your service does with one record; whatever it raises is a failure."""
    order = json.loads(record.value)
    print(f"billed {order['amount']} to {record.key.decode()}")


def main(bootstrap: str, topic: str, group: str, idle_ms: float = 10_000) -> Processed:
    """Returns how many records were finished, and how many were put aside."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=idle_ms,
    ) as consumer:
        done = consumer.process(
            bill,
            concurrency=16,
            order="key",
            retries=Retries(2, backoff_ms=50),
            on_error=dead_letter(f"{topic}-dead", producer),
        )
    producer.close()
    return done


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(main(*sys.argv[1:]))
