"""`to_table`: a bounded range of the assigned partitions, read by `poll_arrow`.

A range never follows `auto_offset_reset`: an offset that the log does not have is an error, or
records that were deleted are skipped, if the application asks for it.

It is not one call of the core (`Waiting`), but many calls of the consumer's public methods, as an
application makes them. What a poll has given out is not taken back. A `close` or `wakeup` ends the
poll that is under way. After an interrupt the next call repairs what is needed. `progress` may call
the consumer between two polls.

`read` is a generator, for consumers whose methods return results and for those whose methods are
coroutines. It yields what a method has returned, and is sent the result. `at_once` drives it for
the first kind, `awaited` for the second.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from kafka.errors import IllegalStateError, KafkaTimeoutError, OffsetOutOfRangeError
from kafka.structs import TopicPartition

from aktor.errors import OutsideLogError
from aktor.trace import Trace

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Bound", "Reading", "at_once", "awaited", "read"]

T = TypeVar("T")

#: A `KafkaConsumer`; named here, its module and this one would import each other.
Consumer: TypeAlias = Any

#: Its `Engine`; named here, since this room imports no other one.
Engine: TypeAlias = Any

#: Yields what a method of the consumer returned; is sent the result.
Steps: TypeAlias = Generator[Any, Any, T]

#: Where a range begins or ends: an offset for each partition, a time, "earliest" or "latest".
Bound: TypeAlias = Mapping[TopicPartition, int] | datetime | str | None


class Reading:
    """How a range is read: which columns, for how long nothing may come, who hears of it."""

    def __init__(
        self,
        poll: Callable[[float, Sequence[str]], Any],
        *,
        columns: Sequence[str],
        timeout: float,
        progress: Callable[[int, int], Any] | None,
        clock: Callable[[], float],
        log: Trace,
        skip_deleted: bool,
        subscribed: Callable[[], Set[str] | None],
        in_group: bool = True,
        ask: Callable[..., Any] = lambda method, *arguments: method(*arguments),
    ) -> None:
        #: Polls for so many seconds; raises OffsetOutOfRangeError, whatever the policy is.
        self.poll = poll
        self.columns = columns
        #: In seconds.
        self.timeout = timeout
        self.progress = progress
        self.clock = clock
        self.log = log
        #: Go on where the log begins, if records of the range were deleted.
        self.skip_deleted = skip_deleted
        #: The topics of the subscription; None: there is none.
        self.subscribed = subscribed
        #: A group assigns the partitions. Without one all those of the subscription are read.
        self.in_group = in_group
        #: Calls a method of the consumer that waits, with these arguments, for `timeout` at most if
        #: the application has asked for one.
        self.ask = ask

    @classmethod
    def of(
        cls,
        engine: Engine,
        poll: Callable[[float, Sequence[str]], Any],
        columns: Sequence[str],
        *,
        limit: float | None,
        progress: Callable[[int, int], Any] | None,
        skip_deleted: bool,
        ask: Callable[..., Any],
    ) -> Self:
        """How the consumer with this engine reads a range, if the application asks for a time limit
        of so many seconds, or for none."""
        core = engine.core
        return cls(
            poll,
            columns=columns,
            timeout=core.settings.default_api_timeout if limit is None else limit,
            progress=progress,
            clock=core.clock,
            log=core.log,
            skip_deleted=skip_deleted,
            subscribed=lambda: engine.subscribed_topics,
            in_group=core.settings.group_id is not None,
            ask=ask,
        )

    @property
    def polled_columns(self) -> list[str]:
        """The columns that are asked for, and those by which rows are left out."""
        places = ("topic", "partition", "offset")
        return [*self.columns, *(name for name in places if name not in self.columns)]


def read(consumer: Consumer, start: Bound, end: Bound, reading: Reading) -> Steps[pyarrow.Table]:
    """See `KafkaConsumer.to_table`."""
    from aktor.consumer.columns.arrow import table_of

    partitions = yield from _assigned(consumer, reading)
    ends = yield from _offsets(
        consumer, partitions, end if end is not None else "latest", "end", reading
    )
    if start is not None:
        starts = yield from _offsets(consumer, partitions, start, "start", reading)
        for partition, offset in starts.items():
            yield consumer.seek(partition, offset)
    begins = yield from _positions(consumer, partitions, reading)
    batches: list[pyarrow.RecordBatch] = []

    def add(batch: pyarrow.RecordBatch) -> None:
        batches.append(batch.select(list(reading.columns)))

    paused = consumer.paused()
    try:
        yield consumer.resume(*paused)
        yield from _read(consumer, begins, ends, reading, add)
    except _TopicChanged:
        raise  # the offsets of the old topic mean nothing in the new one
    except BaseException:
        for partition in consumer.assignment() & begins.keys():
            yield consumer.seek(partition, begins[partition])
        raise
    finally:
        still = consumer.assignment()
        yield consumer.resume(*(consumer.paused() - paused))
        yield consumer.pause(*(paused & still))
    return table_of(batches, reading.columns)


def at_once(steps: Steps[T]) -> T:
    """Drive the steps of a consumer whose methods return their results."""
    result: Any = None
    interrupt: BaseException | None = None
    while True:
        try:
            result = steps.send(result) if interrupt is None else steps.throw(interrupt)
            interrupt = None
        except StopIteration as over:
            done: T = over.value
            return done
        except BaseException as error:
            if inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED:
                raise  # the steps have ended by it
            interrupt = error  # it came between two steps


async def awaited(steps: Steps[T]) -> T:
    """Drive the steps of a consumer whose methods are coroutines, or functions."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            result = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as over:
            done: T = over.value
            return done
        error = None
        if inspect.isawaitable(result):
            try:
                result = await result
            except BaseException as raised:
                error = raised


def _assigned(consumer: Consumer, reading: Reading) -> Steps[list[TopicPartition]]:
    """The assigned partitions. A consumer that has subscribed gets them in a poll: this polls until
    it has some, and rewinds what these polls return."""
    timeout, clock = reading.timeout, reading.clock
    deadline = clock() + timeout
    while True:
        partitions = sorted(consumer.assignment())
        missing = set() if reading.in_group else _missing(reading, partitions)
        if partitions and not missing:
            return partitions
        if reading.subscribed() is None:
            raise IllegalStateError(
                "to_table reads the assigned partitions, and there are none: call assign() with"
                " those of the table, or subscribe() first"
            )
        if clock() >= deadline:
            if not reading.in_group:
                topics = ", ".join(sorted(missing)) or "a topic that matches the pattern"
                raise KafkaTimeoutError(
                    f"no partition of {topics} was assigned within {timeout:g} s: check that the"
                    " topic exists, and that these brokers have it"
                )
            raise KafkaTimeoutError(
                f"no partition was assigned within {timeout:g} s: other members of the group may"
                " have all of them. A consumer without group_id gets all partitions, and assign()"
                " takes those that it names"
            )
        names = ["topic", "partition", "offset"]
        batch = yield consumer.poll_arrow(100, max_records=1, columns=names)
        for row in batch.to_pylist():
            yield consumer.seek(TopicPartition(row["topic"], row["partition"]), row["offset"])


def _missing(reading: Reading, partitions: Sequence[TopicPartition]) -> set[str]:
    """The subscribed topics of which no partition is assigned."""
    topics = reading.subscribed() or set()
    return {*topics} - {partition.topic for partition in partitions}


def _read(
    consumer: Consumer,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    reading: Reading,
    add: Callable[[pyarrow.RecordBatch], None],
) -> Steps[None]:
    """Read all ranges. A partition is paused when its range is read to the end."""
    from aktor.consumer.columns.arrow import without

    total = sum(max(0, ends[partition] - begins[partition]) for partition in begins)
    done = dict(begins)
    topics = _topic_ids(consumer, begins)
    left = yield from _end_those_read(consumer, done, ends, set(begins))
    heard = reading.clock()
    while left:
        try:
            batch = yield reading.poll(min(1.0, reading.timeout), reading.polled_columns)
        except OffsetOutOfRangeError as error:
            _check_topics(consumer, topics)
            yield from _skip_deleted(consumer, error, reading)
            batch = None
        _check_topics(consumer, topics)
        positions = yield from _positions(consumer, left, reading)
        if positions != {partition: done[partition] for partition in left}:
            heard = reading.clock()
        elif reading.clock() - heard >= reading.timeout:
            names = ", ".join(
                f"{partition.topic}-{partition.partition} at {done[partition]}"
                for partition in sorted(left)
            )
            raise KafkaTimeoutError(f"nothing came within {reading.timeout:g} s of {names}")
        done.update(positions)
        for partition in left:
            if positions[partition] > ends[partition]:
                if batch is not None:
                    batch = without(batch, partition.topic, partition.partition, ends[partition])
                yield consumer.seek(partition, ends[partition])
        left = yield from _end_those_read(consumer, done, ends, left)
        if reading.progress is not None:
            reading.progress(
                sum(
                    min(done[partition], ends[partition]) - begins[partition]
                    for partition in begins
                ),
                total,
            )
        if batch is not None and batch.num_rows:
            add(batch)


class _TopicChanged(IllegalStateError):  # type: ignore[misc]  # kafka-python is not typed
    """A topic of the range was deleted and created anew."""


def _topic_ids(consumer: Consumer, partitions: Iterable[TopicPartition]) -> dict[str, Any]:
    known = consumer.known_topics()
    return {
        partition.topic: known[partition.topic].topic_id
        for partition in partitions
        if partition.topic in known
    }


def _check_topics(consumer: Consumer, topics: Mapping[str, Any]) -> None:
    """The consumer resets positions in a topic that was created anew: its records are not of the
    range."""
    known = consumer.known_topics()
    for topic, topic_id in topics.items():
        if topic in known and known[topic].topic_id != topic_id:
            raise _TopicChanged(
                f"the topic {topic} was deleted and created anew while a range of it was read"
            )


def _skip_deleted(
    consumer: Consumer, error: OffsetOutOfRangeError, reading: Reading
) -> Steps[None]:
    """Go on where the log begins, or raise."""
    for partition, asked in error.args[0].items():
        first = (yield reading.ask(consumer.beginning_offsets, [partition]))[partition]
        if not reading.skip_deleted or asked >= first:
            ends = yield reading.ask(consumer.end_offsets, [partition])
            raise OutsideLogError(
                topic=partition.topic,
                partition=partition.partition,
                offset=asked,
                log_start=first,
                log_end=ends[partition],
            ) from error
        reading.log.warning(
            "range.shortened",
            partition=partition,
            offset=asked,
            log_start=first,
            because="the records in between were deleted",
        )
        yield consumer.seek(partition, first)


def _end_those_read(
    consumer: Consumer,
    done: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    left: set[TopicPartition],
) -> Steps[set[TopicPartition]]:
    """Pause the partitions that are read to their ends; returns the others."""
    over = {partition for partition in left if done[partition] >= ends[partition]}
    yield consumer.pause(*over)
    return left - over


def _positions(
    consumer: Consumer, partitions: Iterable[TopicPartition], reading: Reading
) -> Steps[dict[TopicPartition, int]]:
    found = {}
    for partition in partitions:
        position = yield reading.ask(consumer.position, partition)
        if position is None:
            name = f"{partition.topic}-{partition.partition}"
            raise KafkaTimeoutError(f"no position of {name} was found in time")
        found[partition] = position
    return found


def _offsets(
    consumer: Consumer,
    partitions: Sequence[TopicPartition],
    bound: Bound,
    name: str,
    reading: Reading,
) -> Steps[dict[TopicPartition, int]]:
    """For each partition the offset that the bound stands for."""
    if isinstance(bound, Mapping):
        missing = [partition for partition in partitions if partition not in bound]
        if missing:
            raise ValueError(f"{name} has no offset for {missing[0].topic}-{missing[0].partition}")
        return {partition: bound[partition] for partition in partitions}
    if isinstance(bound, datetime):
        moment = int(bound.timestamp() * 1000)
        found = yield reading.ask(consumer.offsets_for_times, dict.fromkeys(partitions, moment))
        latest = yield reading.ask(consumer.end_offsets, partitions)
        return {
            partition: latest[partition] if (at := found[partition]) is None else at.offset
            for partition in partitions
        }
    if bound == "earliest":
        return dict((yield reading.ask(consumer.beginning_offsets, partitions)))
    if bound == "latest":
        return dict((yield reading.ask(consumer.end_offsets, partitions)))
    raise ValueError(
        f"{name} must be a dict of offsets, a datetime, 'earliest' or 'latest', not {bound!r}"
    )
