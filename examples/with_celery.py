"""Celery: each record becomes a task. This process reads Kafka, and Celery's workers do the work.

The offset is committed when the task is in Celery's queue. If the process falls between the two,
the task is sent again, with the same id: a task that must not be done twice looks for its id.

python -m examples.with_celery localhost:9092 orders billing redis://localhost
"""

from __future__ import annotations

import sys

from aktor import KafkaConsumer
from examples.record_loop import Record, run


def task_id(record: Record) -> str:
    """The same for each time that this record is read."""
    return f"{record.topic}-{record.partition}-{record.offset}"


def arguments(record: Record) -> list[str]:
    """What the task is given; it must be JSON."""
    return [(record.value or b"").decode()]


def main(bootstrap: str, topic: str, group: str, broker: str) -> int:
    """Send tasks until SIGTERM; returns how many."""
    from celery import Celery

    app = Celery(broker=broker)
    with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        return run(
            consumer,
            lambda record: app.send_task("bill", arguments(record), task_id=task_id(record)),
        )


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
