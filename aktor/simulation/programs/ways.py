"""The ways in which a loop may take records: by `poll`, by iterating, one by one, by columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.records import Columns
from aktor.records.columns import to_records
from aktor.simulation.programs.loop import Act, Loop

__all__ = ["SETTINGS", "WAYS", "WAYS_BY_COLUMNS"]

#: How long each of them waits for records.
WAIT_MS: Final = 200

#: After how many records an iteration is left, at most.
MOST: Final = 30


def _polls(loop: Loop, consumer: KafkaConsumer, limit: int | None = None) -> None:
    """Poll, finish, poll again."""
    loop.finish()
    records = consumer.poll(timeout_ms=WAIT_MS, max_records=limit)
    for partition, some in records.items():
        loop.take(partition, some[-1].offset)
    loop.settle(consumer, has_read=bool(records))


def _iterates(loop: Loop, consumer: KafkaConsumer) -> None:
    """`for record in consumer`, until there is none for a while, or the loop is left."""
    wanted, count = loop.draw.randint(1, MOST), 0
    for record in consumer:
        loop.take(TopicPartition(record.topic, record.partition), record.offset)
        loop.finish()
        count += 1
        if count >= wanted:
            break
    _see_whether_it_is_open(consumer, has_read=bool(count))
    loop.settle(consumer, has_read=bool(count))


def _leaves_some(loop: Loop, consumer: KafkaConsumer) -> None:
    """Leave an iteration; or poll a few records, perhaps some of those that an iteration has left.
    The others stay, decoded already."""
    if loop.draw.random() < 0.5:
        _iterates(loop, consumer)
    else:
        _polls(loop, consumer, loop.draw.randint(1, 3))


def _takes_one(loop: Loop, consumer: KafkaConsumer) -> None:
    """`next`, and what goes with it after each record."""
    loop.finish()
    record = next(consumer, None)
    if record is not None:
        loop.take(TopicPartition(record.topic, record.partition), record.offset)
    _see_whether_it_is_open(consumer, has_read=record is not None)
    loop.settle(consumer, has_read=record is not None)


def _see_whether_it_is_open(consumer: KafkaConsumer, *, has_read: bool) -> None:
    """An iteration of a consumer that was closed ends as if there were no records."""
    if not has_read:
        consumer.known_topics()  # one of the calls that raise then, and asks nobody


def _polls_columns(loop: Loop, consumer: KafkaConsumer) -> None:
    """As `poll_arrow`, which makes a batch of pyarrow's of these columns."""
    loop.finish()
    columns = Columns(loop.draw.choice((5, 500)), loop.draw.choice((None, 200)))
    records = consumer._poll_arrow(WAIT_MS / 1000, columns, to_records)
    for record in records or ():  # None if it was closed meanwhile
        loop.take(TopicPartition(record.topic, record.partition), record.offset)
    loop.settle(consumer, has_read=bool(records))


def _mixes_all(loop: Loop, consumer: KafkaConsumer) -> None:
    """Rows this time, columns the next time."""
    loop.draw.choice((_polls, _iterates, _takes_one, _polls_columns))(loop, consumer)


def _mixes(loop: Loop, consumer: KafkaConsumer) -> None:
    """One way this time, another one the next time."""
    loop.draw.choice((_polls, _iterates, _takes_one))(loop, consumer)


#: By what it is called.
WAYS: Final[Mapping[str, Act]] = {
    "polls": _polls,
    "iterates": _iterates,
    "takes one": _takes_one,
    "mixes": _mixes,
}

#: A way that few storms have, drawn apart, so that the storms of the other seeds stay as they were.
WAYS_BY_TURNS: Final[Mapping[str, Act]] = {"leaves some": _leaves_some}

#: Ways with columns.
WAYS_BY_COLUMNS: Final[Mapping[str, Act]] = {
    "polls columns": _polls_columns,
    "mixes rows and columns": _mixes_all,
}

#: What all of them need.
SETTINGS: Final[Mapping[str, Any]] = {"consumer_timeout_ms": WAIT_MS}
