"""A consumer whose user's calls, and what they returned, are noted in the history."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.rebalancing import Step
from aktor.events.fetching import Chunk
from aktor.events.membership import Loss, RevokePartitions
from aktor.simulation.history import fingerprint

__all__ = ["observe", "observe_ownership"]

Note = Callable[..., None]

#: A call that takes so many seconds longer than it may is noted.
LATE: Final = 1.0

#: Seconds between two polls that are worth a note.
AWAY: Final = 5.0

#: Requests for records that can be under way to one broker: a session's Fetch and one beside it.
FETCHES: Final = 2

#: Of the bound, what each broker may be asked for beyond it, beside the Fetch in its long poll.
BESIDE: Final = 16


def observe(
    consumer: KafkaConsumer, note: Note, now: Callable[[], float], left: Callable[[], None]
) -> None:
    """From now on this consumer is of a class that notes. Called before it is initialised.

    `now` is the simulation's: to look at it changes nothing. `left` is called when the consumer
    should be out of its group.
    """
    kind = type(consumer)
    consumer.__class__ = type(kind.__name__, (_Observed, kind), {})
    consumer._note = note  # type: ignore[attr-defined]
    consumer._given = False  # type: ignore[attr-defined]
    consumer._now = now  # type: ignore[attr-defined]
    consumer._left = left  # type: ignore[attr-defined]
    consumer._last_asked = now()  # type: ignore[attr-defined]
    consumer._futures = itertools.count()  # type: ignore[attr-defined]
    consumer._nested = 0.0  # type: ignore[attr-defined]
    consumer._put_aside = set()  # type: ignore[attr-defined]
    consumer._brokers = 0  # type: ignore[attr-defined]


def observe_ownership(consumer: KafkaConsumer, note: Note) -> None:
    """Note which partitions it takes on and gives up. Called once it is initialised."""
    engine = consumer._engine
    delivery, rebalancing = engine.delivery, engine.rebalancing
    assign, remove, give_up = delivery.assign, delivery.remove, rebalancing.give_up
    run = rebalancing.run
    group, isolation = consumer.config["group_id"], consumer.config["isolation_level"]

    def assigning(partitions: Iterable[TopicPartition], *, delivering: bool = True) -> None:
        before = set(delivery.partitions)
        assign(partitions, delivering=delivering)
        released(before - delivery.partitions.keys())
        added = [_name(one) for one in delivery.partitions if one not in before]
        if added:
            by_group = not engine.assigned_by_user and group is not None
            note(
                "partitions.assigned",
                partitions=added,
                group=group,
                by_group=by_group,
                isolation=isolation,
                listener=isinstance(rebalancing.listener, _Heard),
            )

    def removing(partitions: Iterable[TopicPartition]) -> None:
        released(delivery.partitions.keys() & partitions)
        remove(partitions)

    def released(partitions: Iterable[TopicPartition]) -> None:
        names = sorted(map(_name, partitions))
        if names:
            note("partitions.released", partitions=names, group=group)

    def giving_up(
        partitions: frozenset[TopicPartition], loss: Loss, event: object = None
    ) -> BaseException | None:
        owned = sorted(_name(one) for one in partitions if one in delivery.partitions)
        note("partitions.going", partitions=owned, loss=loss.name.lower(), group=group)
        with consumer._in_listener():  # type: ignore[attr-defined]
            return give_up(partitions, loss, event)

    def running(step: Step, event: object = None) -> BaseException | None:
        with consumer._in_listener():  # type: ignore[attr-defined]
            error = run(step, event)
        if isinstance(step, RevokePartitions):
            note("partitions.held_back", partitions=sorted(_name(one) for one in step.partitions))
        return error

    rebalancing.run = running  # type: ignore[method-assign]
    delivery.assign = assigning  # type: ignore[method-assign]
    delivery.remove = removing  # type: ignore[method-assign,assignment]
    rebalancing.give_up = giving_up  # type: ignore[method-assign]


class _Heard(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """The user's listener; that it was called, and with what, is noted."""

    def __init__(self, listener: ConsumerRebalanceListener, note: Note) -> None:
        self._listener = listener
        self._note_call = note

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._note("assigned", assigned)
        self._listener.on_partitions_assigned(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._note("revoked", revoked)
        self._listener.on_partitions_revoked(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._note("lost", lost)
        self._listener.on_partitions_lost(lost)

    def _note(self, told: str, partitions: Collection[TopicPartition]) -> None:
        names = sorted(_name(one) for one in partitions)
        self._note_call("listener.told", told=told, partitions=names)


class _Observed(KafkaConsumer):
    """What is noted: records given out, what was sought, and when the user came back."""

    _note: Note
    #: Whether records were given out since the user was last back for more.
    _given: bool
    #: Virtual time, and when the user was last given an answer to `poll`, or a record.
    _now: Callable[[], float]
    _last_asked: float
    #: Called when it should be out of its group.
    _left: Callable[[], None]
    #: Numbers the futures that the user is given.
    _futures: Iterator[int]
    #: Seconds that listeners took during the present call.
    _nested: float
    #: Partitions that were paused, and of which something is still buffered.
    _put_aside: set[TopicPartition]
    #: The most brokers that there were.
    _brokers: int

    def poll(self, timeout_ms: float = 0, *args: Any, **kwargs: Any) -> dict[Any, list[Any]]:
        self._came_back()
        with self._timed("poll", timeout_ms / 1000):
            taken = super().poll(timeout_ms, *args, **kwargs)
        self._count(taken, *args, **kwargs)
        for one, records in taken.items():
            self._gave(one, records)
        self._last_asked = self._now()
        return taken

    def _count(
        self, taken: Mapping[Any, list[Any]], max_records: int | None = None, *_: Any, **__: Any
    ) -> None:
        limit = self.config["max_poll_records"] if max_records is None else max_records
        count = sum(len(records) for records in taken.values())
        if count > limit:
            self._note("limit.exceeded", records=count, limit=limit)

    def __next__(self) -> Any:
        self._came_back()
        record = super().__next__()
        self._gave(record, [record])
        self._last_asked = self._now()
        return record

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        if isinstance(listener, ConsumerRebalanceListener):
            listener = _Heard(listener, self._note)
        super().subscribe(topics, pattern, listener)

    def seek(self, partition: Any, offset: int) -> None:
        super().seek(partition, offset)
        self._sought({partition: offset})

    def seek_to_beginning(self, *partitions: Any) -> None:
        super().seek_to_beginning(*partitions)
        self._sought(dict.fromkeys(partitions or self._mine()))

    def seek_to_end(self, *partitions: Any) -> None:
        super().seek_to_end(*partitions)
        self._sought(dict.fromkeys(partitions or self._mine()))

    def commit(self, offsets: Any = None, timeout_ms: float | None = None) -> None:
        self._note("user.commits")
        with self._timed("commit", self._allowed(timeout_ms)):
            super().commit(offsets, timeout_ms)

    def committed(
        self, partition: Any, metadata: bool = False, timeout_ms: float | None = None
    ) -> Any:
        with self._timed("committed", self._allowed(timeout_ms, api=True)):
            asked_at = self._now()
            found = super().committed(partition, metadata, timeout_ms)
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
            return super().position(partition, timeout_ms)

    def end_offsets(self, partitions: Any, timeout_ms: float | None = None) -> Any:
        with self._timed("end_offsets", self._allowed(timeout_ms)):
            return super().end_offsets(partitions, timeout_ms)

    def unsubscribe(self) -> None:
        self._came_back()  # what was given out is committed as finished
        self._note("user.leaves")
        with self._timed("unsubscribe", self._allowed(None)):
            super().unsubscribe()
        self._note("user.unsubscribed")
        self._left()

    def commit_async(self, *args: Any, **kwargs: Any) -> Any:
        self._note("user.commits")
        future = super().commit_async(*args, **kwargs)
        number = next(self._futures)
        self._note("future.given", future=number)
        future.add_both(lambda _outcome: self._note("future.ended", future=number))
        return future

    def pause(self, *partitions: Any) -> None:
        super().pause(*partitions)
        self._put_aside.update(partitions)
        self._note("partitions.paused", partitions=[_name(one) for one in partitions])

    def resume(self, *partitions: Any) -> None:
        super().resume(*partitions)
        self._note("partitions.resumed", partitions=[_name(one) for one in partitions])

    def close(
        self, autocommit: bool = True, timeout_ms: float | None = None, **options: Any
    ) -> None:
        if self._guard.closed:
            return
        self._came_back()
        self._note("consumer.closing")
        self._note("user.leaves")
        try:
            with self._timed("close", self._allowed(timeout_ms)):
                super().close(autocommit, timeout_ms, **options)
        finally:
            self._note("consumer.closed")
            if options.get("group_membership_operation", "default") == "default":
                self._left()

    def _allowed(self, timeout_ms: float | None, *, api: bool = False) -> float:
        settings = self._settings
        default = settings.default_api_timeout if api else settings.request_timeout
        return default if timeout_ms is None else timeout_ms / 1000

    @contextmanager
    def _timed(self, call: str, allowed: float) -> Iterator[None]:
        """Note a call that takes longer than it may, but for its listener's time."""
        began, outer, self._nested = self._now(), self._nested, 0.0
        try:
            yield
        finally:
            took = self._now() - began
            if took > allowed + self._nested + LATE:
                self._note("call.late", call=call, took=took, allowed=allowed + self._nested)
            self._nested = outer + took

    @contextmanager
    def _in_listener(self) -> Iterator[None]:
        """The time of the user's listener is not the call's."""
        began, before = self._now(), self._nested
        try:
            yield
        finally:
            self._nested = before + self._now() - began

    def _mine(self) -> Iterable[Any]:
        return sorted(self._engine.delivery.partitions)

    def _came_back(self) -> None:
        self._measure_buffer()
        if self._now() - self._last_asked > AWAY:
            self._note("user.was_away", seconds=round(self._now() - self._last_asked, 3))
        if self._given:
            self._given = False
            self._note("user.returned")

    def _gave(self, where: Any, records: list[Any]) -> None:
        self._given = True
        runs, times = _runs(records)
        self._note(
            "records.delivered",
            partition=_name(where),
            offsets=runs,
            times=times,
            contents=self._fingerprints(records),
            group=self.config["group_id"],
        )
        self._measure_buffer()

    def _measure_buffer(self) -> None:
        """Note a buffer that is fuller than it may be, see `checks.buffers_stay_in_bounds`."""
        port, owned = self._engine.port, self._engine.delivery.partitions
        self._brokers = max(self._brokers, len(port.cluster.brokers))
        chunks = [
            one
            for one in (*port.chunks, *(one for state in owned.values() for one in state.chunks))
            if one.partition in owned and one.epoch == owned[one.partition].epoch
        ]
        paused = {one for one, state in owned.items() if state.paused}
        self._put_aside &= paused | {one.partition for one in chunks}
        size = sum(one.size for one in chunks if one.partition not in self._put_aside)
        bound = self._settings.max_buffered_bytes
        batch = max(map(_with_one_batch, chunks), default=0)
        allowed = bound + self._brokers * (bound // BESIDE + FETCHES * batch)
        if size > allowed:
            self._note("buffer.exceeded", bytes=size, allowed=allowed, bound=bound)

    def _fingerprints(self, records: list[Any]) -> list[int] | None:
        """What each record is known by; None if a deserializer has made something else of it."""
        if self.config["key_deserializer"] or self.config["value_deserializer"]:
            return None
        return [fingerprint(one.key, one.value, one.headers, one.timestamp) for one in records]

    def _sought(self, offsets: Mapping[Any, int | None]) -> None:
        for one, offset in offsets.items():
            self._note("position.sought", partition=_name(one), offset=offset)


def _name(where: Any) -> str:
    return f"{where.topic}-{where.partition}"


def _with_one_batch(chunk: Chunk) -> int:
    """What a chunk would count if it were its first batch alone: after the offset, the size."""
    length = int.from_bytes(chunk.data[8:12], "big") + 12 if len(chunk.data) >= 12 else 0
    return chunk.size - len(chunk.data) + min(length, len(chunk.data))


def _runs(records: list[Any]) -> tuple[list[list[int]], list[int]]:
    """Offsets 1, 2, 3, 7 as [[1, 3], [7, 7]], and the timestamp of the first record of each run,
    which is all of one leader epoch."""
    runs: list[list[int]] = []
    times: list[int] = []
    last, epoch = -2, -2
    for one in records:
        offset = one.offset
        if offset == last + 1 and one.leader_epoch == epoch:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
            times.append(one.timestamp)
        last, epoch = offset, one.leader_epoch
    return runs, times
