"""What a loop does now and then besides reading, as applications do.

What a habit changes for a while it takes back `later`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.errors import TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import UserCallbackError
from aktor.simulation.programs.loop import Act, Loop

__all__ = [
    "HABITS",
    "HIDDEN",
    "LONG_POLL",
    "commit_some",
    "go_back",
    "read_what_is_hidden",
    "wait_long",
    "waver",
]

#: How long a look-up may take.
A_SECOND: Final = 1000

#: Seconds of a long poll.
LONG_POLL: Final = 8.0

#: Seconds in which a beginning may have been looked up, or not.
LOOKED_UP: Final = 0.005

#: A topic that no user may describe.
HIDDEN: Final = "orders-secret"

#: For how many turns of the loop partitions stay paused, and a subscription is another one.
PAUSED_FOR: Final = 10
ELSEWHERE_FOR: Final = 15


def _one(loop: Loop, consumer: KafkaConsumer) -> list[TopicPartition]:
    """One of its partitions, or none."""
    owned = sorted(consumer.assignment())
    return [loop.draw.choice(owned)] if owned else []


def _some(loop: Loop, consumer: KafkaConsumer) -> list[TopicPartition]:
    """One of its partitions or more, or none."""
    owned = sorted(consumer.assignment())
    return loop.draw.sample(owned, loop.draw.randint(1, len(owned))) if owned else []


def _look(loop: Loop, consumer: KafkaConsumer) -> None:
    for partition in _one(loop, consumer):
        consumer.position(partition, timeout_ms=A_SECOND)
        if loop.has_group:
            consumer.committed(partition, timeout_ms=A_SECOND)
        consumer.end_offsets([partition], timeout_ms=A_SECOND)
        consumer.highwater(partition)


def _look_around(loop: Loop, consumer: KafkaConsumer) -> None:
    """Ask for offsets of any partitions, also those that other members own."""
    topics = sorted(consumer.topics())
    every = [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted(consumer.partitions_for_topic(topic))
    ]
    if every:
        some = loop.draw.sample(every, loop.draw.randint(1, len(every)))
        first = consumer.beginning_offsets(some, timeout_ms=A_SECOND)
        last = consumer.end_offsets(some, timeout_ms=A_SECOND)
        times = dict.fromkeys(some, loop.draw.randint(0, loop.wall_ms))
        consumer.offsets_for_times(times, timeout_ms=A_SECOND)
        assert first.keys() == last.keys() == times.keys()


def _pause(loop: Loop, consumer: KafkaConsumer) -> None:
    consumer.pause(*_some(loop, consumer))
    loop.later(
        loop.draw.randint(1, PAUSED_FOR), lambda: consumer.resume(*sorted(consumer.paused()))
    )


def go_back(loop: Loop, consumer: KafkaConsumer) -> None:
    """Seek three records back in one partition, as an application does to process them again."""
    for partition in _one(loop, consumer):
        position = consumer.position(partition, timeout_ms=A_SECOND)
        if position is not None:
            consumer.seek(partition, max(0, position - 3))


def read_what_is_hidden(loop: Loop, consumer: KafkaConsumer) -> None:
    """Subscribe to a topic that it may not describe, twice: it is told so each time."""
    for _ in range(2):
        if loop.subscribe_too(consumer, HIDDEN):
            try:
                loop.turns_until(TopicAuthorizationFailedError)
            finally:  # another error is told first: the next time it would be no new subscription
                loop.subscribe(consumer)
            loop.turn()


def wait_long(loop: Loop, consumer: KafkaConsumer) -> None:
    """In one poll, for longer than the interval of automatic commits."""
    until = loop.now + LONG_POLL
    while loop.now < until:
        loop.finish()
        records = consumer.poll(timeout_ms=1000 * (until - loop.now))
        for partition, some in records.items():
            loop.take(partition, some[-1].offset)
        loop.settle(consumer, has_read=bool(records))


def waver(loop: Loop, consumer: KafkaConsumer) -> None:
    """Subscribe to something else, and one turn later to the old topics again: by then the
    rebalance for the other subscription may have begun."""
    loop.later(1, lambda: loop.subscribe(consumer))
    loop.subscribe_otherwise(consumer)


def _change_its_mind(loop: Loop, consumer: KafkaConsumer) -> None:
    """Seek to the beginning of a partition, and then only a little back from where it was."""
    for partition in _one(loop, consumer):
        position = consumer.position(partition, timeout_ms=A_SECOND)
        if position is None:
            continue
        consumer.seek_to_beginning(partition)
        if loop.draw.random() < 0.5:
            consumer.poll(timeout_ms=0)
        if partition in consumer.assignment():
            consumer.seek(partition, max(0, position - 3))


def _read_again(loop: Loop, consumer: KafkaConsumer) -> None:
    """All of a partition that is still there; and asked for twice, the second time while its
    beginning may be looked up for the first."""
    for partition in _one(loop, consumer):
        consumer.seek_to_beginning(partition)
        loop.sleep(loop.draw.uniform(0.0, LOOKED_UP))
        if partition in consumer.assignment():
            consumer.seek_to_beginning(partition)


def _look_at_the_end(loop: Loop, consumer: KafkaConsumer) -> None:
    """Seek to the end, ask for the position, and seek back. Not with auto-commit: the end might be
    committed, and if the process died then, the records between would be skipped."""
    if consumer.config["enable_auto_commit"]:
        return
    for partition in _one(loop, consumer):
        position = consumer.position(partition, timeout_ms=A_SECOND)
        if position is None:
            continue
        consumer.seek_to_end(partition)
        try:
            consumer.position(partition, timeout_ms=A_SECOND)
        finally:
            if partition in consumer.assignment():
                consumer.seek(partition, position)


def commit_some(loop: Loop, consumer: KafkaConsumer) -> None:
    """Commit the positions of some partitions, or all that was given out; sync or async."""
    if not loop.has_group:
        return
    offsets = None
    if loop.draw.random() < 0.7:
        offsets = {}
        for partition in _some(loop, consumer):
            position = consumer.position(partition, timeout_ms=A_SECOND)
            if position is not None:
                offsets[partition] = OffsetAndMetadata(position, "", -1)
    if offsets == {}:
        return
    if loop.draw.random() < 0.5:
        consumer.commit(offsets, timeout_ms=2 * A_SECOND)
    else:
        loop.commit_unheard(consumer, offsets)


def _resubscribe(loop: Loop, consumer: KafkaConsumer) -> None:
    try:
        consumer.unsubscribe()
    except UserCallbackError:  # its listener stumbled over a commit; it is out all the same
        loop.subscribe(consumer)
        raise
    loop.subscribe(consumer)
    if loop.draw.random() < 0.7:
        # And once more, while the group is on its way to let it in.
        consumer.poll(timeout_ms=0)
        loop.sleep(loop.draw.uniform(0.0, 2.0))
        consumer.unsubscribe()
        loop.subscribe(consumer)


def _read_less(loop: Loop, consumer: KafkaConsumer) -> None:
    """Subscribe to something else for some turns, sometimes after an `unsubscribe`."""
    loop.later(loop.draw.randint(1, ELSEWHERE_FOR), lambda: loop.subscribe(consumer))
    if loop.draw.random() < 0.5:
        consumer.unsubscribe()
    loop.subscribe_otherwise(consumer)


def _reopen(loop: Loop, consumer: KafkaConsumer) -> None:
    loop.finish()
    if loop.has_group and loop.draw.random() < 0.5:
        consumer.commit_async()
    loop.close(consumer, timeout_ms=loop.draw.choice([1000, 5000]))
    loop.begin()


#: How often each of them, by weight.
HABITS: Final[Mapping[Act, float]] = {
    _look: 2,
    _look_around: 1,
    _pause: 2,
    _change_its_mind: 2,
    _read_again: 0.5,
    _look_at_the_end: 1,
    commit_some: 2,
    _resubscribe: 1,
    _read_less: 1,
    _reopen: 2,
}
