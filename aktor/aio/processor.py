"""`process` in an event loop: handlers are tasks of the user's loop, or run in threads, processes.

What is done with records is in `aktor.processing.handling`, for this loop and the blocking one. The
dangers are those that `aktor.processing.processor` names; a cancellation is one more: it ends the
loop as an error does, and what is finished is committed. `_end` is a task of its own, which the
cancellation does not reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, Final, Protocol

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.aio import tasks
from aktor.aio.driver import LoopBell
from aktor.consumer.core.waiting import Patience
from aktor.errors import CorruptBatchError, RecordDeserializationError
from aktor.processing.commits import LAST_COMMIT
from aktor.processing.handling import Handling
from aktor.processing.plan import Plan, Processed
from aktor.processing.pools import Pools
from aktor.processing.surroundings import Consumer, Surroundings
from aktor.processing.workers import Cancel, Job, Workers

__all__ = ["HANDLING", "AsyncConsumer", "Processor"]

#: The `process` in whose handler the present code runs; tasks that a handler starts have it, too.
HANDLING: Final[ContextVar[Processor | None]] = ContextVar("aktor_handling", default=None)

Partitions = Collection[TopicPartition]


class AsyncConsumer(Consumer, Protocol):
    """What is called as a user would call it; see `aktor.aio.KafkaConsumer`."""

    async def settle(self) -> None: ...
    async def poll(self, timeout: float, limit: int) -> dict[TopicPartition, list[Any]]: ...
    async def commit(
        self, choose: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]], timeout: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata]: ...


class _Tasks:
    """Workers that are tasks of the running event loop."""

    def __init__(self, count: int, processor: Processor) -> None:
        self.capacity = 2 * count  # when one ends, the next one begins at once
        self._count = count
        # Not the context of a listener, though a handler may begin while one waits.
        self._context = copy_context()
        self._context.run(HANDLING.set, processor)
        #: Jobs that have not begun; one that was taken back is an empty list.
        self._inbox: deque[list[Job]] = deque()
        #: What runs, and has not said how it ended.
        self._jobs: dict[asyncio.Task[None], Job] = {}
        self._running = 0
        self._closed = False

    def submit(self, job: Job) -> Cancel:
        """Run it as soon as fewer than `count` run."""
        place = [job]
        self._inbox.append(place)
        self._begin()

        def take_back() -> bool:
            has_not_begun = bool(place)
            place.clear()
            return has_not_begun

        return take_back

    def _begin(self) -> None:
        while self._inbox and self._running < self._count and not self._closed:
            place = self._inbox.popleft()
            if place:
                job = place.pop()
                self._running += 1
                task = tasks.begin(_call(job), context=self._context.copy())
                self._jobs[task] = job
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        job = self._jobs.pop(task)
        self._running -= 1
        # Also CancelledError: it was not finished.
        job.done(asyncio.CancelledError() if task.cancelled() else task.exception())
        self._begin()

    def close(self) -> None:
        """What still runs is cancelled, once: it may await what it has to clean up."""
        if self._closed:
            return
        self._closed = True
        self._inbox.clear()
        for task in self._jobs:
            if not task.get_loop().is_closed():
                task.cancel()


async def _call(job: Job) -> None:
    await job.call(job.argument)


class _Pools(Pools):
    """The workers of a `process` in an event loop."""

    def __init__(self, around: Surroundings, plan: Plan, name: str, processor: Processor) -> None:
        self._processor = processor
        super().__init__(around, plan, name)

    def _make(self, plan: Plan, name: str) -> Workers:
        if plan.workers == "coroutines":
            return _Tasks(plan.concurrency, self._processor)
        return super()._make(plan, name)

    def _make_for_errors(self, plan: Plan, name: str) -> Workers:
        call = getattr(plan.on_error, "__call__", None)  # noqa: B004  # of an object
        if inspect.iscoroutinefunction(plan.on_error) or inspect.iscoroutinefunction(call):
            return _Tasks(plan.concurrency, self._processor)
        return super()._make_for_errors(plan, name)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """Ends what runs of revoked partitions, and calls the user's listener, if there is one."""

    def __init__(self, users: Any, processor: Processor) -> None:
        self._users = users
        self._processor = processor

    async def on_partitions_assigned(self, assigned: Partitions) -> None:
        """Call the user's listener: `process` has nothing to do."""
        await self._tell("on_partitions_assigned", assigned)

    async def on_partitions_revoked(self, revoked: Partitions) -> None:
        """Wait for the running handlers and commit; then call the user's listener."""
        await self._processor.revoke(revoked)
        await self._tell_last("on_partitions_revoked", revoked)

    async def on_partitions_lost(self, lost: Partitions) -> None:
        """Another member may own them already: drop their records, call the user's listener."""
        self._processor.lose(lost)
        await self._tell_last("on_partitions_lost", lost)

    async def _tell(self, name: str, partitions: Partitions) -> None:
        if self._users is not None:
            result = getattr(self._users, name)(partitions)
            if inspect.isawaitable(result):
                await result

    async def _tell_last(self, name: str, partitions: Partitions) -> None:
        try:
            await self._tell(name, partitions)
        except Exception:
            self._processor.let_go(partitions)
            raise
        self._processor.let_go(partitions)


class Processor(Handling):
    """Owns the loop: when it polls, what is raised, and when it ends."""

    def __init__(
        self, around: Surroundings, plan: Plan, consumer: AsyncConsumer, bell: LoopBell
    ) -> None:
        name = f"aktor-{around.consumer.config['client_id']}"
        super().__init__(around, plan, _Pools(around, plan, name, self))
        self._consumer = consumer
        self._bell = bell
        #: The task that has called `process`.
        self.task = asyncio.current_task()
        #: It has been cancelled while it waited for handlers: they are not waited for any more.
        self._is_hurried = False
        #: The loop has ended.
        self.over = asyncio.Event()

    # -- the whole

    async def run(self) -> Processed:
        """Until it is stopped, nothing has come for long enough, or something is raised."""
        self._note_begin()
        try:
            with self._installed(lambda users: _Listener(users, self)):
                try:
                    await self._consumer.settle()
                    while not self._is_over():
                        await self._turn()
                except GeneratorExit:  # the event loop was closed: nothing can be awaited
                    raise
                except BaseException as error:
                    with contextlib.suppress(asyncio.CancelledError):  # the first error is raised
                        await self._end(because=type(error).__name__, raising=True)
                    raise
                await self._end(because=self._stopping or "nothing has come", raising=False)
                self._around.engine.call.raise_wakeup()  # it came while the end was waited for
        finally:
            self.over.set()
        return self.done

    async def _turn(self) -> None:
        limit = self._before_poll()
        try:
            self._work.incoming = await self._consumer.poll(self._patience(), limit)
        except (RecordDeserializationError, CorruptBatchError) as error:
            self._pass_over(error)
        self._after_poll()

    # -- partitions go

    async def revoke(self, partitions: Partitions) -> None:
        """They are revoked: let what runs end, and commit."""
        await self._drain(partitions, self._drain_by())
        try:
            await self._commit(partitions)
        except KafkaError as error:
            # Nothing is lost: the next owner goes on from the last commit, and repeats some.
            self._trace.warning("commit.failed", because=error, at="revocation")

    def lose(self, partitions: Partitions) -> None:
        """They are another member's already: nothing of them is to be committed."""
        self._lose(partitions)

    async def _drain(self, partitions: Partitions, deadline: float) -> None:
        """Begin nothing more of these, and wait until what runs of them has ended."""
        began = self._clock()
        self._work.stop(partitions)
        patience = Patience(deadline, began)
        while not self._is_hurried:
            heard = self._bell.rings
            if not self._runs_of(partitions, patience):
                break
            if not self._pools.has_news:
                now = self._clock()
                await self._bell.wait_for_ring(heard, patience.until(now) - now)
        self._pools.collect(self._work)
        self._note_drained(partitions, began, deadline)

    async def _commit(self, partitions: Partitions | None = None) -> None:
        """Commit what is finished of these (default: all) partitions, and wait for the answer."""
        stored = await self._consumer.commit(
            lambda: self._commits.to_commit(partitions), LAST_COMMIT
        )
        self._commits.note_stored(stored)

    # -- the end

    async def _end(self, *, because: str, raising: bool) -> None:
        """Wait for what runs, commit what is finished, go back to what is not; also if the task is
        cancelled meanwhile: then it waits for no handler any more."""
        ending = tasks.begin(self._wind_up(because=because, raising=raising))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError as error:
                cancelled, self._is_hurried = error, True
                # Before the last commit: what a handler finishes during that is done once more.
                self._pools.close()
                self._bell.ring()
        ending.result()
        if cancelled is not None:
            raise cancelled

    async def _wind_up(self, *, because: str, raising: bool) -> None:
        everything = set(self._work.partitions)
        try:
            await self._drain(everything, self._clock() + self._plan.drain_timeout)
            await self._commit()
        except KafkaError as error:
            if not raising:
                raise
            self._trace.warning("commit.failed", because=error, at="end")
        finally:
            self._go_back()
            self._note_end(because)
