"""What may wait is driven by a thread with a bell, or by an event loop: the rules are the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import pyarrow
import pytest
from kafka import ConsumerRebalanceListener
from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.actors.runtime.dispatcher import Bell, VirtualTime
from aktor.consumer.columns import arrow, arrow_range
from aktor.consumer.core.port import Settle
from aktor.consumer.core.waiting import Bells, Blocking, Open, Waiting
from aktor.errors import UserCallbackError, WakeupError
from aktor.events.answers import Answered
from aktor.events.commits import CommitOffsets
from aktor.events.fetching import RecordsFetched
from aktor.events.membership import LeaveGroup, MemberChanged, MemberState, SessionExtended
from aktor.events.metadata import TopicInfo
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    ListOffsets,
    Position,
    PositionsResolved,
    ResetStrategy,
)
from aktor.records import Columns
from tests.unit.consumer.core.builders import ORDERS, EngineHarness, ScriptedBell, an_assignment
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, offsets

T = TypeVar("T")

COMMIT_OR_LEAVE = CommitOffsets | LeaveGroup


def waits(*times: float) -> Waiting[str]:
    """Waits until these times."""
    yield from times
    return "done"


# -- with a bell


def test_each_wait_is_for_as_long_as_it_is_until_then() -> None:
    clock = VirtualTime(100.0)
    bell = ScriptedBell(clock)

    assert Blocking(bell, clock).run(waits(101.0, 103.0)) == "done"

    assert bell.waits == [1.0, 2.0]


def test_it_goes_on_as_soon_as_the_bell_rings() -> None:
    clock = VirtualTime(100.0)
    bell = ScriptedBell(clock)
    bell.at(100.5, bell.ring)

    Blocking(bell, clock).run(waits(110.0))

    assert clock.now == 100.5


class _Raising(Bell):
    """A signal handler raises while it is waited for."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def wait(self, timeout: float) -> bool:
        raise self._error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, StopIteration, StopAsyncIteration])
def test_an_interrupt_goes_through_and_ends_what_waits(kind: type[BaseException]) -> None:
    ended = []

    def waiting() -> Waiting[None]:
        try:
            yield 110.0
        finally:
            ended.append(True)

    with pytest.raises(kind):
        Blocking(_Raising(kind()), VirtualTime(100.0)).run(waiting())

    assert ended == [True]


# -- with a bell for each thread


def on_a_thread(act: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result(10)


def test_all_threads_that_wait_hear_a_ring() -> None:
    bells = Bells(Bell)
    ready = threading.Barrier(4)

    def wait() -> bool:
        bells.wait(0)  # what came before
        ready.wait(10)
        return bells.wait(10)

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(wait) for _ in range(3)]
        ready.wait(10)
        bells.ring()
        assert [one.result(10) for one in waiting] == [True] * 3


def test_a_ring_is_kept_for_the_next_wait_of_each_thread() -> None:
    bells = Bells(Bell)
    bells.ring()

    assert [bells.wait(0), bells.wait(0)] == [True, False]
    assert on_a_thread(lambda: [bells.wait(0), bells.wait(0)]) == [True, False]

    assert not bells.wait(0)


def test_the_bells_of_threads_that_have_ended_are_forgotten() -> None:
    bells = Bells(Bell)
    for _ in range(50):
        on_a_thread(lambda: bells.wait(0))

    assert len(bells._all) < 10


def test_an_open_time_is_waited_for_by_who_lets_others_in() -> None:
    clock = VirtualTime(100.0)
    bell = ScriptedBell(clock)
    open_until: list[float] = []

    def waiting() -> Waiting[str]:
        yield 101.0
        yield Open(103.0)
        return "done"

    assert Blocking(bell, clock).run(waiting(), open_until.append) == "done"

    assert (bell.waits, open_until) == ([1.0], [103.0])


# -- with an event loop: what an asyncio consumer needs beside the engine


class LoopTime:
    """The time of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> float:
        return self._loop.time()

    @property
    def now(self) -> float:
        return self._loop.time()


class LoopBell(Bell):
    """A bell for which a coroutine waits."""

    __slots__ = ("_loop", "_rung")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._rung.set)

    async def wait_until(self, until: float) -> None:
        """Until rung, or until this time of the loop."""
        try:
            async with asyncio.timeout_at(until):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()


async def run(waiting: Waiting[T], bell: LoopBell) -> T:
    """The driver."""
    error: Exception | None = None
    while True:
        try:
            asked = next(waiting) if error is None else waiting.throw(error)
        except StopIteration as over:
            result: T = over.value
            return result
        error = None
        if isinstance(asked, float | int):
            await bell.wait_until(asked)
            continue
        try:
            await asked
        except Exception as raised:
            error = raised


def in_a_loop(
    call: Callable[[EngineHarness, float], Waiting[T]], meanwhile: Callable[[EngineHarness], object]
) -> T:
    """Drive this call of a consumer in an event loop, where something comes while it waits."""

    async def main() -> T:
        clock, bell = LoopTime(), LoopBell()
        harness = EngineHarness(clock=clock, bell=bell)
        harness.assign([A])
        harness.found(A)
        asyncio.get_running_loop().call_soon(meanwhile, harness)
        return await run(call(harness, clock.now + 60.0), bell)

    return asyncio.run(main())


def test_a_poll_in_an_event_loop_gives_out_what_comes_while_it_waits() -> None:
    records: Any = in_a_loop(
        lambda harness, deadline: harness.engine.poll(deadline, 500),
        lambda harness: harness.hear(RecordsFetched(chunks=(a_chunk(count=3),))),
    )

    assert offsets(records) == {A: [0, 1, 2]}


def test_a_poll_in_an_event_loop_ends_at_its_time() -> None:
    assert in_a_loop(lambda harness, _: harness.engine.poll(0.0, 500), lambda harness: None) == {}


def test_a_poll_in_an_event_loop_is_woken_up() -> None:
    with pytest.raises(WakeupError):
        in_a_loop(
            lambda harness, deadline: harness.engine.poll(deadline, 500),
            lambda harness: harness.engine.call.wakeup(),
        )


class LoopListener(ConsumerRebalanceListener):
    """Its methods are coroutines of the application's event loop."""

    def __init__(self, error: Exception | None = None) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []
        self._error = error

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await asyncio.sleep(0)
        self.loops.append(asyncio.get_running_loop())
        if self._error is not None:
            raise self._error

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing."""


async def poll_as_a_member(listener: LoopListener) -> None:
    clock, bell = LoopTime(), LoopBell()
    harness = EngineHarness(clock=clock, bell=bell, group_id="g")
    harness.engine.subscribe(ORDERS, listener)
    harness.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=clock.now + 60.0),
        an_assignment(A),
    )
    await run(harness.engine.poll(clock.now, 500), bell)
    assert listener.loops == [asyncio.get_running_loop()]
    assert harness.engine.delivery.partitions[A].open


def test_a_listeners_coroutine_runs_in_the_event_loop_of_the_application() -> None:
    asyncio.run(poll_as_a_member(LoopListener()))


def test_what_a_listeners_coroutine_raises_is_raised_by_the_poll() -> None:
    error = ZeroDivisionError("a bug of the user's")

    with pytest.raises(UserCallbackError) as raised:
        asyncio.run(poll_as_a_member(LoopListener(error)))

    assert raised.value.__cause__ is error


def test_a_commit_in_an_event_loop_waits_for_the_answer() -> None:
    def answer(harness: EngineHarness) -> None:
        harness.hear(Answered(ticket=harness.said[-1].ticket))

    assert in_a_loop(lambda harness, at: harness.engine.commits.commit({}, at), answer) is None


# -- what an asyncio consumer needs: its methods, by the core alone


class AsyncConsumer:
    """A consumer whose methods are coroutines. It has no rule of Kafka: it drives the core."""

    def __init__(self, **settings: Any) -> None:
        self._bell = LoopBell()
        self.harness = EngineHarness(clock=LoopTime(), bell=self._bell, **settings)
        self.harness.on_said = self._answer
        self.engine = self.harness.engine

    async def _run(self, waiting: Waiting[T]) -> T:
        self.engine.begin_call()
        return await run(waiting, self._bell)

    @property
    def _soon(self) -> float:
        return self.harness.clock.now + 5.0

    async def subscribe(self, topics: frozenset[str], listener: Any) -> None:
        self.engine.begin_call()
        self.engine.subscribe(topics, listener)

    async def assign(self, partitions: list[TopicPartition]) -> None:
        await self._run(self.engine.assign(partitions))

    async def unsubscribe(self) -> None:
        await self._run(self.engine.unsubscribe(self._soon))

    async def getmany(self) -> dict[TopicPartition, list[Any]]:
        return await self._run(self.engine.poll(self._soon, 500))

    async def getone(self) -> Any:
        return await self._run(self.engine.next_record(self._soon, 500))

    async def poll_arrow(self, _timeout: float, columns: Sequence[str]) -> pyarrow.RecordBatch:
        make = partial(arrow.batch_of, names=columns)
        return await self._run(self.engine.poll_columns(self._soon, Columns(500), make))

    async def to_table(self, columns: Sequence[str]) -> pyarrow.Table:
        reading = arrow_range.Reading(
            self.poll_arrow,
            columns=columns,
            timeout=5.0,
            progress=None,
            clock=self.harness.clock,
            log=self.engine.core.log,
            skip_deleted=False,
            subscribed=lambda: None,
        )
        return await arrow_range.awaited(arrow_range.read(self, None, None, reading))

    async def position(self, partition: TopicPartition) -> int | None:
        return await self._run(self.engine.position(partition, self._soon, must=True))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        latest = ResetStrategy.LATEST
        return await self._run(self.engine.questions.edges(partitions, latest, self._soon))

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        self.engine.begin_call()
        self.engine.seek(partition, Position(offset=offset))

    async def pause(self, *partitions: TopicPartition) -> None:
        self.engine.begin_call()
        self.engine.pause(partitions, paused=True)

    async def resume(self, *partitions: TopicPartition) -> None:
        self.engine.begin_call()
        self.engine.pause(partitions, paused=False)

    def known_topics(self) -> Mapping[str, TopicInfo]:
        return self.harness.port.cluster.topics

    def assignment(self) -> set[TopicPartition]:
        return set(self.engine.delivery.partitions)

    def paused(self) -> set[TopicPartition]:
        owned = self.engine.delivery.partitions
        return {partition for partition in owned if owned[partition].paused}

    async def commit_async(self, settle: Settle, callback: Callable[[Any, Any], Any]) -> None:
        await self._run(self.engine.commit_async(None, settle, callback))

    async def close(self) -> BaseException | None:
        return await self._run(self.engine.close(self._soon))

    # -- its background: it finds positions at 0, and answers each question

    def _answer(self, message: Any) -> None:
        if isinstance(message, AssignmentChanged):
            found = {
                partition: Assigned(epoch=one.epoch, position=Position(offset=0))
                for partition, one in message.partitions.items()
                if one.position is None
            }
            self._hear_soon(PositionsResolved(partitions=found))
        elif isinstance(message, ListOffsets):
            ends = dict.fromkeys(message.timestamps, OffsetAndTimestamp(3, -1, None))
            self._hear_soon(Answered(ticket=message.ticket, value=ends))
        elif isinstance(message, CommitOffsets | LeaveGroup):
            self._hear_soon(Answered(ticket=message.ticket))

    def _hear_soon(self, message: object) -> None:
        asyncio.get_running_loop().call_soon(self.harness.hear, message)


async def with_records(**settings: Any) -> AsyncConsumer:
    """It is assigned A, and has fetched three records."""
    consumer = AsyncConsumer(**settings)
    await consumer.assign([A])
    assert await consumer.position(A) == 0
    consumer.harness.fetched(a_chunk(count=3))
    return consumer


async def as_a_member(listener: Any = None) -> AsyncConsumer:
    """It is a member with auto-commit, and has read three records of A."""
    consumer = AsyncConsumer(group_id="g", enable_auto_commit=True)
    await consumer.subscribe(ORDERS, listener)
    consumer.harness.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=consumer.harness.clock.now + 60.0),
        an_assignment(A),
    )
    asyncio.get_running_loop().call_later(0.01, consumer.harness.fetched, a_chunk(count=3))
    assert offsets(await consumer.getmany()) == {A: [0, 1, 2]}
    return consumer


def test_records_come_many_or_one_by_one_or_as_columns_or_as_a_table() -> None:
    async def main() -> None:
        consumer = await with_records()
        assert (await consumer.getone()).offset == 0
        assert await consumer.position(A) == 1
        batch = await consumer.poll_arrow(0.0, ["offset"])
        assert batch["offset"].to_pylist() == [1, 2]
        await consumer.seek(A, 0)
        epoch = consumer.engine.delivery.partitions[A].epoch
        consumer.harness.fetched(a_chunk(count=5, epoch=epoch))
        table = await consumer.to_table(["offset"])
        assert table["offset"].to_pylist() == [0, 1, 2]
        assert await consumer.position(A) == 3
        assert consumer.paused() == set()

    asyncio.run(main())


def test_a_commit_that_is_not_waited_for_is_settled_and_its_callback_runs_in_a_later_call() -> None:
    async def main() -> list[object]:
        consumer = await as_a_member()
        seen: list[object] = []
        await consumer.commit_async(
            lambda _value, error: seen.append(("settled", error)),
            lambda committed, error: seen.append((committed[A].offset, error)),
        )
        await asyncio.sleep(0.01)
        assert seen == [("settled", None)]
        await consumer.close()
        return seen

    assert asyncio.run(main()) == [("settled", None), (3, None)]


@pytest.mark.parametrize("end", [AsyncConsumer.unsubscribe, AsyncConsumer.close])
def test_leaving_commits_then_runs_the_listener_then_leaves(
    end: Callable[[AsyncConsumer], Awaitable[object]],
) -> None:
    class Told(LoopListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await asyncio.sleep(0)
            self.harness.said.append("the listener")

        harness: EngineHarness

    async def main() -> list[object]:
        listener = Told()
        consumer = await as_a_member(listener)
        listener.harness = consumer.harness
        consumer.harness.forget()
        await end(consumer)
        assert consumer.assignment() == set()
        return list(consumer.harness.said)

    said = asyncio.run(main())
    order = [one for one in said if one == "the listener" or isinstance(one, COMMIT_OR_LEAVE)]
    assert [type(one) for one in order] == [CommitOffsets, str, LeaveGroup]


def test_an_assignment_by_hand_in_place_of_another_commits_the_positions_without_waiting() -> None:
    async def main() -> EngineHarness:
        consumer = await with_records(group_id="g", enable_auto_commit=True)
        await consumer.getmany()
        await consumer.assign([B])
        return consumer.harness

    (commit,) = asyncio.run(main()).of(CommitOffsets)
    assert {partition: at.offset for partition, at in commit.offsets.items()} == {A: 3}
