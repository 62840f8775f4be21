"""Exactly once into a database: the rows of a batch, and how far it was read, are one transaction.

The group says who reads which partition; the offsets are in the database alone. A member that has
lost its partition without knowing cannot store anything: the offset in the database is not the one
it began at. SQLite stands for any database with transactions.

python -m examples.exactly_once_sqlite localhost:9092 orders billing billing.db
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import closing

from aktor import ConsumerRebalanceListener, ConsumerRecord, KafkaConsumer, TopicPartition

Record = ConsumerRecord[bytes | None, bytes | None]
#: Stores one record, inside the transaction.
Insert = Callable[[sqlite3.Connection, Record], object]

TABLES = """
create table if not exists bills (amount text);
create table if not exists offsets (
    topic text, partition integer, next integer, primary key (topic, partition)
);
"""


class Offsets(ConsumerRebalanceListener):
    """The offsets in the database; partitions that come are read from there on."""

    def __init__(self, database: sqlite3.Connection, consumer: KafkaConsumer) -> None:
        self.database = database
        self.consumer = consumer

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        for partition in assigned:
            found = self.database.execute(
                "select next from offsets where topic = ? and partition = ?", partition
            ).fetchone()
            if found is not None:
                self.consumer.seek(partition, found[0])
            else:
                begin = self.consumer.position(partition)
                self.database.execute("insert into offsets values (?, ?, ?)", (*partition, begin))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        pass  # each batch is stored before the next poll: nothing is in hand

    def store(self, partition: TopicPartition, records: list[Record], insert: Insert) -> None:
        """Store the records and the offset behind them, or neither."""
        first, behind = records[0].offset, records[-1].offset + 1
        with self.database:  # commits, or rolls back if this raises
            self.database.execute("begin immediate")
            moved = self.database.execute(
                "update offsets set next = ? where topic = ? and partition = ? and next <= ?",
                (behind, *partition, first),
            )
            if moved.rowcount != 1:
                raise RuntimeError(f"{partition} was stored beyond {first} by another member")
            for record in records:
                insert(self.database, record)


def bill(database: sqlite3.Connection, record: Record) -> None:
    """What is done with one record."""
    database.execute("insert into bills values (?)", ((record.value or b"").decode(),))


def main(
    bootstrap: str,
    topic: str,
    group: str,
    path: str,
    *,
    insert: Insert = bill,
    idle_ms: float = 10_000,
) -> int:
    """Store records until none has come for `idle_ms`; returns how many."""
    done = 0
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as database,
        KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        database.executescript(TABLES)
        offsets = Offsets(database, consumer)
        consumer.subscribe([topic], listener=offsets)
        while batch := consumer.poll(timeout_ms=idle_ms):
            for partition, records in batch.items():
                offsets.store(partition, records, insert)
                done += len(records)
    return done


def stored(path: str) -> Iterable[str]:
    """What was stored."""
    with closing(sqlite3.connect(path)) as database:
        return [amount for (amount,) in database.execute("select amount from bills")]


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
