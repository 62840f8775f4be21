"""A loop as services have them: work on each order, put aside what can't be one, then commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka.errors import CommitFailedError

from aktor import KafkaConsumer

GROUP = "billing"
TOPIC = "orders"
DEAD_LETTERS = "orders.dead"


def run(bootstrap: str, work_on: Callable[[Any], None], stop: Callable[[], bool]) -> None:
    """Work until `stop()` is true."""
    with (
        KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        KafkaProducer(bootstrap_servers=bootstrap) as dead_letters,
    ):
        while not stop():
            for records in consumer.poll(timeout_ms=100).values():
                for record in records:
                    try:
                        order = json.loads(record.value)
                    except ValueError:
                        dead_letters.send(DEAD_LETTERS, key=record.key, value=record.value)
                    else:
                        work_on(order)
            dead_letters.flush()  # what is put aside is safe before the commit passes over it
            with suppress(CommitFailedError):  # others have our partitions, and read this again
                consumer.commit()
