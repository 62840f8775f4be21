"""A consumer whose user's calls, and what they returned, are noted in the history.

This is the user's side: what they are given, what they are told, how long their calls take. What
the consumer says of it is in its trace.
"""

from __future__ import annotations

import inspect
import itertools
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from kafka.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from kafka.structs import TopicPartition

from aktor import aio
from aktor.aio.consumer import InProcess
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.guarded import Close
from aktor.consumer.facade import KafkaConsumer
from aktor.events.fetching import Chunk
from aktor.processing import Processed
from aktor.processing.processor import Processor  # noqa: F401  # no member imports it, amid others
from aktor.records import Columns
from aktor.records.columns import to_records
from aktor.settings import Settings
from aktor.simulation.history import fingerprint

__all__ = ["LOOKS", "AnyConsumer", "Noting", "names_of", "observe", "settings_told"]

Note = Callable[..., None]

AnyConsumer: TypeAlias = KafkaConsumer | aio.KafkaConsumer[Any, Any]

#: Settings that say what may be expected of a consumer.
_TOLD: Final = (
    "auto_commit_interval_ms",
    "auto_offset_reset",
    "enable_auto_commit",
    "fetch_max_wait_ms",
    "group_id",
    "group_instance_id",
    "heartbeat_interval_ms",
    "metadata_max_age_ms",
    "request_timeout_ms",
    "retry_backoff_max_ms",
    "retry_backoff_ms",
    "socket_connection_setup_timeout_ms",
)

#: A call that takes so many seconds longer than it may is noted.
LATE: Final = 1.0

#: Seconds between two polls that are worth a note.
AWAY: Final = 5.0

#: Polls with shorter breaks between them are one stretch, in which the user does nothing but poll;
#: a stretch is noted again after so many seconds, or at the end of a longer poll.
BREAK: Final = 0.05
STRETCH: Final = 1.0

#: Polls that are noted while an error is due: records that came before it are given out first.
POLLS_TOLD: Final = 20

#: Requests for records that can be under way to one broker: a session's Fetch and one beside it.
FETCHES: Final = 2

#: Of the bound, what each broker may be asked for beyond it, beside the Fetch in its long poll.
BESIDE: Final = 16


def settings_told(consumer: AnyConsumer) -> dict[str, Any]:
    """What may be expected of it."""
    return {name: consumer.config[name] for name in _TOLD}


def observe(
    consumer: AnyConsumer, note: Note, now: Callable[[], float], left: Callable[[], None]
) -> None:
    """From now on this consumer is of a class that notes. Called before it is initialised.

    `now` is the simulation's: to look at it changes nothing. `left` is called when the consumer
    should be out of its group.
    """
    kind = type(consumer)
    noting: Any = _ObservedInLoop if isinstance(consumer, aio.KafkaConsumer) else _Observed
    consumer.__class__ = type(kind.__name__, (noting, kind), {})
    assert isinstance(consumer, Noting), "it is one now"
    consumer._begin_noting(note, now, left)


class _Loop:
    """An iteration over an observed consumer."""

    def __init__(self, consumer: _Observed, records: Iterator[Any]) -> None:
        self._consumer = consumer
        self._records = records

    def __iter__(self) -> _Loop:
        return self

    def __next__(self) -> Any:
        return self._consumer._observe_next(self._records.__next__)


class _Heard(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """The user's listener; that it was called, and with what, is noted. Its time is not a call's.

    May be one whose methods are coroutines: they are awaited as they would be.
    """

    def __init__(self, consumer: Noting, listener: Any) -> None:
        self._consumer = consumer
        self._listener = listener

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        return self._call("assigned", self._listener.on_partitions_assigned, assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        return self._call("revoked", self._listener.on_partitions_revoked, revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        return self._call("lost", self._listener.on_partitions_lost, lost)

    def _call(
        self, told: str, callback: Callable[[Any], Any], partitions: Collection[TopicPartition]
    ) -> Any:
        names = sorted(_name(partition) for partition in partitions)
        self._consumer._note("listener.told", told=told, partitions=names)
        with self._consumer._in_listener():
            result = callback(partitions)
        return self._await(result) if inspect.isawaitable(result) else result

    async def _await(self, result: Awaitable[Any]) -> Any:
        with self._consumer._in_listener():
            return await result


class Noting:
    """What is noted of a consumer: what the user is given, how long it takes, and when they come
    back."""

    config: Any
    _engine: Engine
    _guard: Any
    _settings: Settings

    _note: Note
    #: Whether records were given out since the user was last back for more.
    _given: bool
    #: Virtual time, and when the user was last given an answer to `poll`, or a record.
    _now: Callable[[], float]
    _last_asked: float
    #: The end of the last poll; since when the user does nothing but poll, and when that was noted.
    _polled_at: float
    _polls_since: float
    _stretch_told: float
    #: Called when it should be out of its group.
    _left: Callable[[], None]
    #: Numbers the futures that the user is given.
    _futures: Iterator[int]
    #: Seconds that listeners took during the present call.
    _listeners_took: float
    #: Partitions that were paused, and of which something is still buffered.
    _put_aside: set[TopicPartition]
    #: The most brokers that there were.
    _brokers: int
    #: So many of the next polls are noted, unless one raises.
    _polls_told: int

    def _begin_noting(self, note: Note, now: Callable[[], float], left: Callable[[], None]) -> None:
        self._note = note
        self._given = False
        self._now = now
        self._left = left
        self._last_asked = self._polled_at = self._polls_since = self._stretch_told = now()
        self._futures = itertools.count()
        self._listeners_took = 0.0
        self._put_aside = set()
        self._brokers = self._polls_told = 0

    def error_is_due(self) -> None:
        """The background has an error for the user: the next polls are noted until one raises."""
        self._polls_told = POLLS_TOLD

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Note which error a poll raised; or, while one is due, that it raised none."""
        try:
            yield
        except Exception as error:
            self._raised(error)
            raise
        self._raised(None)

    def _raised(self, error: Exception | None) -> None:
        if error is not None:
            self._polls_told = 0
            self._note("user.polled", error=type(error).__name__)
        elif self._polls_told:
            self._polls_told -= 1
            self._note("user.polled", error=None)

    def _look_what_is_left(self, taken: Mapping[Any, list[Any]]) -> None:
        """If a poll returned no records: note the partitions whose buffered records it could have
        given out, unless the member has yet to be confirmed by its group."""
        if not taken and not self._engine.session.holds_back:
            owned = self._engine.delivery.partitions
            if ready := [_name(partition) for partition, state in owned.items() if state.ready]:
                self._note("records.passed_over", partitions=sorted(ready))

    def _count(
        self, taken: Mapping[Any, list[Any]], max_records: int | None = None, *_: Any, **__: Any
    ) -> None:
        limit = self.config["max_poll_records"] if max_records is None else max_records
        count = sum(len(records) for records in taken.values())
        if count > limit:
            self._note("limit.exceeded", records=count, limit=limit)

    def _note_commit(self, offsets: Any, future: int | None = None) -> None:
        """`future`: it is not waited for."""
        self._note("user.commits", partitions=names_of(offsets), future=future)

    def _hearing(self, offsets: Any, callback: Any) -> tuple[int, Callable[[Any, Any], None]]:
        """Note a commit that is not waited for. Returns its number, and a callback that notes how
        it ended before it calls the user's."""
        note, number = self._note, next(self._futures)  # not `self`: nobody keeps a consumer alive
        self._note_commit(offsets, number)

        def hear(committed: Any, error: Any) -> None:
            note("commit.told", future=number, error=None if error is None else repr(error))
            if callback is not None:
                callback(committed, error)

        return number, hear

    def _allowed(self, timeout_ms: float | None, *, api: bool = False) -> float:
        settings = self._settings
        default = settings.default_api_timeout if api else settings.request_timeout
        return default if timeout_ms is None else timeout_ms / 1000

    @contextmanager
    def _timed(self, call: str, allowed: float) -> Iterator[None]:
        """Note a call that takes longer than it may, but for its listener's time."""
        began, outer, self._listeners_took = self._now(), self._listeners_took, 0.0
        try:
            yield
        finally:
            took = self._now() - began
            if took > allowed + self._listeners_took + LATE:
                self._note(
                    "call.late", call=call, took=took, allowed=allowed + self._listeners_took
                )
            self._listeners_took = outer + took

    @contextmanager
    def _in_listener(self) -> Iterator[None]:
        """The time of the user's listener is not the call's."""
        began, before = self._now(), self._listeners_took
        try:
            yield
        finally:
            self._listeners_took = before + self._now() - began

    def _asked(self, event: str, partitions: Collection[Any], **more: str) -> None:
        """The trace should have told of this: the event, and its partitions with their offsets."""
        offsets = partitions if isinstance(partitions, dict) else {}
        wanted = {_name(partition): offsets.get(partition) for partition in partitions}
        self._note("user.asked", told_as=event, partitions=wanted, **more)

    @contextmanager
    def _closing(self, allowed: float, operation: str) -> Iterator[None]:
        """The user closes it, or stops it."""
        self._came_back()
        self._note("consumer.closing")
        self._note("user.leaves", operation=operation)
        try:
            with self._timed("close", allowed):
                yield
        finally:
            if self._guard.closed:  # else it is put off, or was cancelled and goes on
                self._note("consumer.closed", questions=self._engine.core.port.open_questions)
                if operation == "default":
                    self._left()

    def _has_polled(self) -> None:
        """A poll returns: note now and then since when the user does nothing but poll."""
        self._polled_at = now = self._now()
        if now - max(self._polls_since, self._stretch_told) >= STRETCH:
            self._stretch_told = now
            self._note("loop.polled", seconds=round(now - self._polls_since, 6))

    def _came_back(self) -> None:
        self._measure_buffer()
        if self._now() - self._polled_at > BREAK:
            self._polls_since = self._now()
        if self._now() - self._last_asked > AWAY:
            self._note("user.was_away", seconds=round(self._now() - self._last_asked, 3))
        if self._given:
            self._given = False
            self._note("user.returned")

    def _gave(self, where: Any, records: list[Any]) -> None:
        self._given = True
        self._note(
            "user.given",
            partition=_name(where),
            offsets=[record.offset for record in records],
            contents=self._fingerprints(records),
        )
        self._measure_buffer()

    def _gave_one(self, record: Any) -> None:
        self._engine.iteration.tell()
        self._gave(record, [record])

    @contextmanager
    def _handling(self, record: Any, order: str) -> Iterator[None]:
        """A handler of `process` works on this record."""
        of = {"partition": _name(record), "offset": record.offset}
        of["lane"] = _lane(order, of["partition"], record.key)
        self._note("handler.began", **of)
        try:
            yield
        except (Exception, CancelledError) as error:
            self._note("handler.ended", error=type(error).__name__, **of)
            raise
        self._note("handler.ended", error=None, **of)

    def _measure_buffer(self) -> None:
        """Note a buffer that is fuller than it may be, see `checks.buffers_stay_in_bounds`."""
        port, owned = self._engine.core.port, self._engine.delivery.partitions
        self._brokers = max(self._brokers, len(port.cluster.brokers))
        chunks = [
            chunk
            for chunk in (
                *port.chunks,
                *(chunk for state in owned.values() for chunk in state.chunks),
            )
            if chunk.partition in owned and chunk.epoch == owned[chunk.partition].epoch
        ]
        paused = {partition for partition, state in owned.items() if state.paused}
        self._put_aside &= paused | {chunk.partition for chunk in chunks}
        if not chunks:
            return
        size = sum(chunk.size for chunk in chunks if chunk.partition not in self._put_aside)
        bound = self._settings.max_buffered_bytes
        batch = max(map(_with_one_batch, chunks))
        allowed = bound + self._brokers * (bound // BESIDE + FETCHES * batch)
        if size > allowed:
            self._note("buffer.exceeded", bytes=size, allowed=allowed, bound=bound)

    def _fingerprints(self, records: list[Any]) -> list[int] | None:
        """What each record is known by; None if a deserializer has made something else of it."""
        if self.config["key_deserializer"] or self.config["value_deserializer"]:
            return None
        return [
            fingerprint(record.key, record.value, record.headers, record.timestamp)
            for record in records
        ]


class _Steered:
    """What is noted of the methods that both kinds of consumers have under the same names. (It is a
    base before the consumer's class, whose methods are the next ones.)"""

    @property
    def _own(self) -> Any:
        return super()

    def seek(self: Any, partition: Any, offset: Any) -> None:
        self._own.seek(partition, offset)
        self._asked("position.sought", {partition: offset})

    def pause(self: Any, *partitions: Any) -> None:
        self._own.pause(*partitions)
        self._put_aside.update(partitions)
        self._asked("partitions.paused", partitions)

    def resume(self: Any, *partitions: Any) -> None:
        self._own.resume(*partitions)
        self._asked("partitions.resumed", partitions)


class _Observed(_Steered, KafkaConsumer, Noting):
    """A consumer that blocks its thread, observed."""

    def poll(self, timeout_ms: float = 0, *args: Any, **kwargs: Any) -> dict[Any, list[Any]]:
        self._came_back()
        with self._timed("poll", timeout_ms / 1000), self._telling():
            taken = super().poll(timeout_ms, *args, **kwargs)
        self._count(taken, *args, **kwargs)
        self._look_what_is_left(taken)
        for partition, records in taken.items():
            self._gave(partition, records)
        self._last_asked = self._now()
        self._has_polled()
        return taken

    def _new_columns(self, limit: int, max_bytes: int | None, names: Sequence[str]) -> Columns:
        # Records are noted whole, also if the user's code asks for a part of the columns.
        return super()._new_columns(limit, max_bytes, (*names, "key", "value", "headers"))

    def _poll_arrow(self, timeout: float, columns: Columns, make: Any, **how: Any) -> Any:
        rows: list[Any] = []

        def made(columns: Columns) -> Any:
            # Within the call: an interrupt of it takes them back.
            rows.extend(to_records(columns))
            return make(columns)

        self._came_back()
        with self._timed("poll", timeout), self._telling():
            result = super()._poll_arrow(timeout, columns, made, **how)
        if columns.rows > columns.limit:
            self._note("limit.exceeded", records=columns.rows, limit=columns.limit)
        taken: dict[TopicPartition, list[Any]] = {}
        # Nothing is given if a signal handler closed the consumer during the call.
        for record in rows if len(result) else ():
            where = TopicPartition(record.topic, record.partition)
            taken.setdefault(where, []).append(record)
        self._look_what_is_left(taken)
        for partition, records in taken.items():
            self._gave(partition, records)
        self._last_asked = self._now()
        self._has_polled()
        return result

    def process(self, handler: Callable[[Any], Any], **options: Any) -> Processed:
        order = options.get("order", "key")

        def noted(record: Any) -> None:
            with self._handling(record, order):
                handler(record)

        self._note("user.processes", order=order)
        return super().process(noted, **options)

    def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        with self._in_listener():
            super()._revoke(partitions)

    def __iter__(self) -> Iterator[Any]:
        # As in a loop over a consumer that is not observed, what is compiled hands records out.
        records = self._records(super().__next__)
        return self if records is self else _Loop(self, records)

    def __next__(self) -> Any:
        return self._observe_next(super().__next__)

    def _kind(self) -> type[KafkaConsumer]:
        kind: type[KafkaConsumer] = type(self).__bases__[1]
        return kind

    def _poll_to_iterate(self, timeout_ms: float) -> dict[Any, list[Any]]:
        # What it returns is noted when the iteration hands it out.
        return super().poll(timeout_ms=timeout_ms, max_records=1)

    def _observe_next(self, next_record: Callable[[], Any]) -> Any:
        self._came_back()
        try:
            record = next_record()
        except StopIteration:
            self._raised(None)  # as an empty poll; records are of a poll that was before
            self._has_polled()
            raise
        except Exception as error:
            self._raised(error)
            raise
        self._gave_one(record)
        self._last_asked = self._now()
        self._has_polled()
        return record

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        if isinstance(listener, ConsumerRebalanceListener | AsyncConsumerRebalanceListener):
            listener = _Heard(self, listener)
        super().subscribe(topics, pattern, listener)
        self._note("user.subscribed", listener=listener is not None)

    def commit(self, offsets: Any = None, timeout_ms: float | None = None) -> None:
        self._note_commit(offsets)
        with self._timed("commit", self._allowed(timeout_ms)):
            super().commit(offsets, timeout_ms)
        self._note("user.committed")

    def committed(
        self, partition: Any, metadata: bool = False, timeout_ms: float | None = None
    ) -> Any:
        with self._timed("committed", self._allowed(timeout_ms, api=True)):
            asked_at = self._now()
            found: Any = super().committed(partition, metadata, timeout_ms)
        if found is None:
            self._note(
                "user.finds_nothing_committed",
                seconds=self._now() - asked_at,
                partition=_name(partition),
                group=self.config["group_id"],
            )
        return found

    def position(self, partition: Any, timeout_ms: float | None = None) -> int | None:
        with self._timed("position", self._allowed(timeout_ms, api=True)):
            found = super().position(partition, timeout_ms)
        self._note("user.position", partitions={_name(partition): found})
        return found

    def topics(self) -> set[str]:
        self._note("user.looks_up", what="topics")
        return super().topics()

    def beginning_offsets(self, partitions: Any, timeout_ms: float | None = None) -> Any:
        self._note("user.looks_up", what="beginning_offsets")
        return super().beginning_offsets(partitions, timeout_ms)

    def offsets_for_times(self, timestamps: Any, timeout_ms: float | None = None) -> Any:
        self._note("user.looks_up", what="offsets_for_times")
        return super().offsets_for_times(timestamps, timeout_ms)

    def end_offsets(self, partitions: Any, timeout_ms: float | None = None) -> Any:
        self._note("user.looks_up", what="end_offsets")
        with self._timed("end_offsets", self._allowed(timeout_ms)):
            return super().end_offsets(partitions, timeout_ms)

    def unsubscribe(self) -> None:
        self._came_back()  # what was given out is committed as finished
        self._note("user.leaves", operation="default")
        with self._timed("unsubscribe", self._allowed(None)):
            super().unsubscribe()
        self._note("user.unsubscribed")
        self._left()

    def commit_async(self, offsets: Any = None, callback: Any = None) -> Any:
        note = self._note
        number, hear = self._hearing(offsets, callback)
        callable_or_none = callback is None or callable(callback)
        future = super().commit_async(offsets, hear if callable_or_none else callback)
        note("future.given", future=number)
        future.add_both(lambda _outcome: note("future.ended", future=number))
        return future

    def seek_to_beginning(self, *partitions: Any) -> None:
        super().seek_to_beginning(*partitions)
        self._asked("position.sought", partitions or self.assignment(), to="earliest")

    def seek_to_end(self, *partitions: Any) -> None:
        super().seek_to_end(*partitions)
        self._asked("position.sought", partitions or self.assignment(), to="latest")

    def close(
        self, autocommit: bool = True, timeout_ms: float | None = None, **options: Any
    ) -> None:
        operation = options.get("group_membership_operation", "default")
        if self._ending.over:
            super().close(autocommit, timeout_ms, **options)
            return
        with self._closing(self._allowed(timeout_ms), operation):
            super().close(autocommit, timeout_ms, **options)

    def _close_now(self, asked: Close) -> None:
        # A call that was asked to close does so as it ends: its time is not that call's.
        if self._ending.over:
            super()._close_now(asked)
            return
        with self._closing(asked.timeout, asked.operation):
            super()._close_now(asked)


class _ObservedInProcess(InProcess):
    """As `process` calls an observed consumer of an event loop."""

    _consumer: _ObservedInLoop

    async def poll(self, timeout: float, limit: int) -> dict[TopicPartition, list[Any]]:
        # Its time is not measured: its listener waits for handlers.
        return await self._consumer._observe_batch(super().poll(timeout, limit), limit)

    def pause(self, *partitions: TopicPartition) -> None:
        super().pause(*partitions)
        self._consumer._put_aside.update(partitions)
        self._consumer._asked("partitions.paused", partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        super().resume(*partitions)
        self._consumer._asked("partitions.resumed", partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        super().seek(partition, offset)
        self._consumer._asked("position.sought", {partition: offset})

    async def commit(self, choose: Callable[[], Any], timeout: float) -> Any:
        def noted() -> Any:
            offsets = choose()
            if offsets:
                self._consumer._note_commit(offsets)
            return offsets

        stored = await super().commit(noted, timeout)
        if stored:
            self._consumer._note("user.committed")
        return stored

    def commit_async(self, offsets: Any, callback: Callable[..., None]) -> None:
        _, hear = self._consumer._hearing(offsets, callback)
        super().commit_async(offsets, hear)


class _ObservedInLoop(_Steered, aio.KafkaConsumer[Any, Any], Noting):
    """A consumer of an event loop, observed."""

    _in_process = _ObservedInProcess

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        with self._timed("poll", timeout_ms / 1000):
            taken = await self._observe_batch(
                super().getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records),
                max_records,
            )
        if not partitions:
            self._look_what_is_left(taken)
        return taken

    async def _observe_batch(
        self, batch: Awaitable[dict[TopicPartition, list[Any]]], limit: int | None
    ) -> dict[TopicPartition, list[Any]]:
        self._came_back()
        with self._telling():
            taken = await batch
        self._count(taken, limit)
        for partition, records in taken.items():
            self._gave(partition, records)
        self._last_asked = self._now()
        self._has_polled()
        return taken

    async def process(self, handler: Callable[[Any], Any], **options: Any) -> Processed:
        order = options.get("order", "key")

        async def noted(record: Any) -> None:
            with self._handling(record, order):
                await handler(record)

        self._note("user.processes", order=order)
        return await super().process(noted, **options)

    async def getone(self, *partitions: TopicPartition) -> Any:
        return await self._observe_next(super().getone(*partitions))

    async def __anext__(self) -> Any:
        return await self._observe_next(super().__anext__())

    async def _observe_next(self, next_record: Awaitable[Any]) -> Any:
        self._came_back()
        try:  # records are of a poll that was before, so that not each is told
            record = await next_record
        except Exception as error:
            self._raised(error)
            raise
        self._gave_one(record)
        self._last_asked = self._now()
        self._has_polled()
        return record

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        super().subscribe(topics, pattern, None if listener is None else _Heard(self, listener))
        self._note("user.subscribed", listener=listener is not None)

    async def commit(self, offsets: Any = None) -> None:
        self._note_commit(offsets)
        with self._timed("commit", self._allowed(None)):
            await super().commit(offsets)
        self._note("user.committed")

    async def position(self, partition: TopicPartition) -> int:
        with self._timed("position", self._allowed(None, api=True)):
            found = await super().position(partition)
        self._note("user.position", partitions={_name(partition): found})
        return found

    async def stop(self, timeout_ms: float | None = None, *, autocommit: bool = True) -> None:
        if self._guard.closed:
            return
        with self._closing(self._allowed(timeout_ms), "default"):
            await super().stop(timeout_ms, autocommit=autocommit)


#: What looks at the consumer besides its user.
LOOKS: Final = frozenset(
    method.__code__ for method in (Noting._came_back, Noting._gave, Noting._gave_one)
)


def names_of(offsets: Any) -> list[str] | None:
    """Which partitions a user names who commits; None: none, so all that are theirs."""
    return sorted(map(_name, offsets)) if isinstance(offsets, Mapping) else None


def _name(where: Any) -> str:
    return f"{where.topic}-{where.partition}"


def _lane(order: str, partition: str, key: Any) -> str | None:
    """What this record keeps its order with; None: with nothing."""
    if order == "partition":
        return f"{partition}/"
    return None if order == "none" or key is None else f"{partition}/{key!r}"


def _with_one_batch(chunk: Chunk) -> int:
    """What a chunk would count if it were its first batch alone: after the offset, the size."""
    length = int.from_bytes(chunk.data[8:12], "big") + 12 if len(chunk.data) >= 12 else 0
    return chunk.size - len(chunk.data) + min(length, len(chunk.data))
