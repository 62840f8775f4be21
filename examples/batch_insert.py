"""Batches into a database: a thousand rows, or what has come within a second, in one statement.

Offsets are committed after the rows are stored. If the program falls between the two, the rows are
stored again: their key (topic, partition, offset) says that they are there, so they are kept once.

python -m examples.batch_insert localhost:9092 orders billing billing.db
"""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing
from typing import Final

from aktor import ConsumerRecord, KafkaConsumer

#: A batch is stored when it has so many rows, or when its first one has waited so long (seconds).
ROWS: Final = 1000
WAIT_S: Final = 1.0

TABLE: Final = """
create table if not exists orders (
    topic text, partition integer, "offset" integer, value blob,
    primary key (topic, partition, "offset")
)
"""
INSERT: Final = "insert or ignore into orders values (?, ?, ?, ?)"

Row = tuple[str, int, int, bytes | None]


def row(record: ConsumerRecord[bytes | None, bytes | None]) -> Row:
    """A record as the database has it."""
    return record.topic, record.partition, record.offset, record.value


def main(bootstrap: str, topic: str, group: str, path: str, *, idle_ms: float = 10_000) -> int:
    """Store records until none has come for `idle_ms`; returns in how many batches."""
    batches, rows, since, heard = 0, list[Row](), 0.0, time.monotonic()
    with (
        closing(sqlite3.connect(path)) as database,
        KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=ROWS,
        ) as consumer,
    ):
        database.execute(TABLE)
        while rows or time.monotonic() - heard < idle_ms / 1000:
            polled = consumer.poll(timeout_ms=WAIT_S * 1000, max_records=ROWS - len(rows))
            now = time.monotonic()
            if polled:
                since, heard = since if rows else now, now
                rows += [row(record) for records in polled.values() for record in records]
            if len(rows) >= ROWS or (rows and now - since >= WAIT_S):
                with database:
                    database.executemany(INSERT, rows)
                consumer.commit()  # the positions: all that polls have given out is stored
                batches, rows = batches + 1, []
    return batches


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
