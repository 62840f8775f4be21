"""The loop of `process`: poll, give records to workers, commit what is finished.

It runs on the application thread and calls the consumer as a user would: poll, pause, commit_async,
seek. Workers only run handlers, and say what became of them. So positions, commits and rebalances
have one owner, and what may be committed follows from one place (see `work`).

Three things are the danger here. An offset that is committed although a record below it is not
finished loses that record in the next crash: commits are made of `Work.unfinished_from` only. A
partition that is revoked while a record of it is in a handler is read by another member from the
last commit on: the listener waits for the handlers and commits before it lets go. And a loop that
ends by an error, an interrupt or a signal leaves the positions at the lowest unfinished offsets, so
that whatever is called next goes on from there.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final

from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.waiting import Waiting
from aktor.errors import (
    ConcurrentAccessError,
    CorruptBatchError,
    HandlerError,
    RecordDeserializationError,
)
from aktor.processing.failures import Failure
from aktor.processing.listener import HandingBack
from aktor.processing.plan import Plan, Processed
from aktor.processing.raw import raw_record
from aktor.processing.surroundings import Surroundings
from aktor.processing.work import Task, Work
from aktor.processing.workers import Coroutines, Job, Processes, Threads, Workers

__all__ = ["Processor"]

#: A poll waits for so long at most, in seconds.
POLL: Final = 1.0

#: So many records of one partition may be in hand, however many partitions share `max_pending`.
LEAST: Final = 10

#: Of the time in which a rebalance must be answered, the part that handlers may take to end.
DRAIN_SHARE: Final = 0.5

#: Seconds that the commit of what was drained may take.
LAST_COMMIT: Final = 10.0


class Processor:
    """Owns the workers, what they were given, and what was committed."""

    def __init__(self, around: Surroundings, plan: Plan) -> None:
        self._around = around
        self._consumer = around.consumer
        self._engine = around.engine
        self._clock = around.clock
        self._plan = plan
        self._thread = threading.current_thread()
        self._trace = around.trace.bind(actor="application")
        self._work = Work(plan.order)
        self._workers = self._make_workers()
        #: Run `on_error`: it may take as long as a handler.
        self._error_workers = self._make_threads("errors")
        #: What workers said, oldest first. It leaves when it was acted on.
        self._outcomes: deque[tuple[Task, Callable[[BaseException | None], None], Any]] = deque()
        #: What the last poll gave and is not among the work yet.
        self._incoming: dict[TopicPartition, list[Any]] = {}
        #: The assignment when we last looked.
        self._owned = self._engine.delivery.partitions
        #: What we have paused; and whether that is everything, because too much is in hand.
        self._paused: set[TopicPartition] = set()
        self._full = False
        #: Partitions of which records came since we last looked who is behind.
        self._came: set[TopicPartition] = set()
        #: As far as the group has it, as far as we know.
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committing = False
        self._commit_at = self._clock() + plan.commit_interval if self._commits else math.inf
        self._busy_at = self._clock()
        self._stopping = ""
        #: How the consumer is to be closed at the end, None: it is not.
        self.close_asked: Any = None
        self._fatal: HandlerError | None = None
        self.done = Processed()

    def _make_workers(self) -> Workers:
        plan = self._plan
        if plan.workers == "processes":
            return Processes(plan.concurrency, handler=plan.handler)
        if plan.workers == "coroutines":
            return Coroutines(plan.concurrency, name=f"{self._name}-coroutines")
        return self._make_threads("worker")

    def _make_threads(self, what: str) -> Threads:
        return Threads(
            self._plan.concurrency,
            start=self._around.host.start_worker,
            make_bell=self._around.host.make_bell,
            name=f"{self._name}-{what}",
        )

    @property
    def _name(self) -> str:
        return f"aktor-{self._consumer.config['client_id']}"

    # -- the whole

    def run(self) -> Processed:
        """Until it is stopped, nothing has come for long enough, or something is raised."""
        plan = self._plan
        self._trace.info(
            "process.started",
            workers=plan.workers,
            concurrency=plan.concurrency,
            order=plan.order,
        )
        with self._installed():
            try:
                while not self._is_over():
                    self._turn()
            except BaseException as error:
                self._end(because=type(error).__name__, raising=True)
                raise
            self._end(because=self._stopping or "nothing has come", raising=False)
        return self.done

    def stop(self, because: str) -> None:
        """End once what runs has ended. From a signal handler, or a callback."""
        self._stopping = self._stopping or because
        self._engine.link.port.bell.ring()

    def close(self, asked: Any) -> None:
        """The same; the consumer is closed then, as `asked`."""
        self.close_asked = asked
        self.stop("the consumer was closed")

    def check_thread(self) -> None:
        """Raise if this is another thread than the one that processes: a handler's, perhaps."""
        here = threading.current_thread()
        if here is not self._thread:
            raise ConcurrentAccessError(owner=self._thread.name, other=here.name)

    @contextlib.contextmanager
    def _installed(self) -> Iterator[None]:
        """Hear of rebalances, of SIGTERM, and of workers that end while a poll waits."""
        rebalancing, call = self._engine.rebalancing, self._engine.call
        before = rebalancing.listener
        rebalancing.tell(HandingBack(before, self._around.hand_back, self._lose))
        call.poll_ends = self._has_news
        restore = self._around.host.on_sigterm(lambda: self.stop("SIGTERM"))
        try:
            yield
        finally:
            restore()
            call.poll_ends = None
            rebalancing.tell(before)
            self._workers.close()
            self._error_workers.close()

    def _has_news(self) -> bool:
        return bool(self._outcomes or self._stopping)

    def _is_over(self) -> bool:
        if self._stopping:
            return True
        now = self._clock()
        if self._work.pending:
            self._busy_at = now
        return now >= self._busy_at + self._plan.idle_timeout

    def _turn(self) -> None:
        self._collect()
        if self._fatal is not None:
            raise self._fatal
        self._dispatch()
        self._pause_and_resume()
        self._commit_if_due()
        try:
            self._incoming = self._consumer.poll(self._patience() * 1000, self._limit())
        except RecordDeserializationError as error:
            self._take_in_unreadable(error)
        except CorruptBatchError as error:
            partition = TopicPartition(error.topic, error.partition)
            if not self._engine.corrupt_batches.may_heal(partition):
                raise
        self._take_in()
        self._drop_what_was_released()

    def _limit(self) -> int:
        """How many records a poll may give: few enough that all partitions come to their turn."""
        most: int = self._consumer.config["max_poll_records"]
        return min(most, self._share(), max(1, self._plan.max_pending - self._work.pending))

    def _share(self) -> int:
        """How many records of one partition may be in hand."""
        owned = max(1, len(self._engine.delivery.partitions))
        return max(min(LEAST, self._plan.max_pending), self._plan.max_pending // owned)

    def _patience(self) -> float:
        """How long a poll may wait, in seconds."""
        now = self._clock()
        due = self._busy_at + self._plan.idle_timeout
        if len(self._work.running) < self._workers.capacity:
            due = min(due, self._work.next_retry)
        if not self._committing:
            due = min(due, self._commit_at)
        return min(POLL, max(0.0, due - now))

    # -- records come

    def _take_in(self) -> None:
        # An interrupt may come between any two lines: what it leaves in `_incoming` is given out
        # again, see `_unfinished`.
        if self._incoming:
            self._busy_at = self._clock()
        self._came |= self._incoming.keys()
        for partition, records in list(self._incoming.items()):
            self._work.add(partition, records)
            del self._incoming[partition]

    def _take_in_unreadable(self, error: RecordDeserializationError) -> None:
        """A record that a deserializer refused: what `on_error` says is done about it."""
        if self._plan.on_error == "raise":
            raise error
        partition = TopicPartition(error.topic, error.partition)
        task = self._work.add_aside(partition, raw_record(error))
        self._consumer.seek(partition, error.offset + 1)
        task.attempts, task.error = 1, error.__cause__ or error
        self._give_up(task)

    def _drop_what_was_released(self) -> None:
        """Without a group no listener says that partitions have gone, with their topic."""
        owned = self._engine.delivery.partitions
        if owned is not self._owned:
            self._lose(self._work.partitions - owned.keys())
            self._owned = owned

    def _pause_and_resume(self) -> None:
        """Partitions that have too much in hand wait, and all of them if all have."""
        owned = self._engine.delivery.partitions
        if not self._full and self._work.pending >= self._plan.max_pending:
            self._full = True
            self._pause(set(owned))
        elif self._came:
            self._pause({one for one in self._came if self._is_behind(one, share=1.0)})
        elif self._paused and self._work.pending <= self._plan.max_pending / 2:
            self._full = False
            self._resume({one for one in self._paused if not self._is_behind(one, share=0.5)})
        self._came = set()

    def _pause(self, partitions: set[TopicPartition]) -> None:
        owned = self._engine.delivery.partitions
        # What the user has paused stays as it is when the others are resumed.
        late = [one for one in partitions if one in owned and not owned[one].paused]
        if late:
            self._paused.update(late)
            self._consumer.pause(*sorted(late))

    def _resume(self, partitions: set[TopicPartition]) -> None:
        owned = self._engine.delivery.partitions
        ready = [one for one in partitions if one in owned]
        if ready:
            self._consumer.resume(*sorted(ready))
        self._paused -= partitions

    def _is_behind(self, partition: TopicPartition, *, share: float) -> bool:
        work, plan = self._work, self._plan
        return (
            work.pending_of(partition) >= self._share() * share
            or work.ahead_of(partition) >= plan.max_uncommitted * share
        )

    # -- records are worked on

    def _dispatch(self) -> None:
        now = self._clock()
        while len(self._work.running) < self._workers.capacity:
            task = self._work.begin(now)
            if task is None:
                return
            self._submit(self._workers, task, self._plan.handler, task.record, self._handled)

    def _submit(
        self,
        workers: Workers,
        task: Task,
        call: Callable[[Any], Any],
        argument: Any,
        settle: Callable[[Task, BaseException | None], None],
    ) -> None:
        outcomes, bell = self._outcomes, self._engine.link.port.bell

        def done(error: BaseException | None) -> None:  # on any thread
            outcomes.append((task, lambda error: settle(task, error), error))
            bell.ring()

        task.cancel = workers.submit(Job(call, argument, done))

    def _collect(self) -> None:
        """Act on what workers have said."""
        while self._outcomes:
            task, settle, error = self._outcomes[0]
            self._work.returned(task)
            if not task.dropped:
                settle(error)
            self._outcomes.popleft()

    def _handled(self, task: Task, error: BaseException | None) -> None:
        if error is None:
            self.done.finished += 1
            self._work.finish(task)
            return
        task.attempts, task.error = task.attempts + 1, error
        retries = self._plan.retries
        if isinstance(error, BrokenProcessPool):
            self._fail(task, "a process of the pool has died, perhaps", error)
        elif task.attempts <= retries.count and isinstance(error, Exception):
            self.done.retried += 1
            wait = retries.wait(task.attempts)
            self._trace.warning("record.retried", **_facts(task), retry_in=wait)
            self._work.retry(task, self._clock() + wait)
        else:
            self._give_up(task)

    def _give_up(self, task: Task) -> None:
        """All attempts have failed."""
        on_error, error = self._plan.on_error, task.error
        assert error is not None, "nothing has failed"
        if on_error == "raise" or not isinstance(error, Exception):
            self._fail(task, "", error)
        elif on_error == "skip":
            self._trace.warning("record.skipped", **_facts(task))
            self.done.skipped += 1
            self._work.finish(task)
        else:
            assert callable(on_error), "the plan was checked"
            failure = Failure(
                record=task.record,
                error=error,
                attempts=task.attempts,
                group_id=self._consumer.config["group_id"],
            )
            self._work.begin_with(task)
            self._submit(self._error_workers, task, on_error, failure, self._dead_lettered)

    def _dead_lettered(self, task: Task, error: BaseException | None) -> None:
        if error is None:
            self._trace.warning("record.dead_lettered", **_facts(task))
            self.done.dead_lettered += 1
            self._work.finish(task)
        else:
            self._fail(task, "on_error failed, after the handler,", error)

    def _fail(self, task: Task, what: str, error: BaseException) -> None:
        """The loop ends with this, unless it ends with another one already."""
        if self._fatal is None:
            self._fatal = HandlerError(
                topic=task.partition.topic,
                partition=task.partition.partition,
                offset=task.record.offset,
                attempts=task.attempts,
                what=what,
            )
            self._fatal.__cause__ = error

    # -- commits

    @property
    def _commits(self) -> bool:
        return self._consumer.config["group_id"] is not None

    def _finished(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed and is not yet, of these (default: all) partitions."""
        offsets = self._engine.delivery.consumed(partitions) | self._unfinished(partitions)
        return {
            one: offset for one, offset in offsets.items() if self._committed.get(one) != offset
        }

    def _unfinished(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """From where these (default: all) partitions are to be read again, if something is left."""
        found = {}
        for one, records in self._incoming.items():  # interrupted before it was among the work
            found[one] = OffsetAndMetadata(records[0].offset, "", -1)
        for one in self._work.partitions:
            offset = self._work.unfinished_from(one)
            if offset is not None and (one not in found or offset.offset < found[one].offset):
                found[one] = offset
        if partitions is None:
            return found
        return {one: offset for one, offset in found.items() if one in partitions}

    def _commit_if_due(self) -> None:
        now = self._clock()
        if now < self._commit_at or self._committing:
            return
        offsets = self._finished()
        # An interval of nothing is one of a poll's length while there is nothing to commit: else
        # no poll would wait.
        interval = self._plan.commit_interval
        self._commit_at = now + (interval if offsets else max(interval, POLL))
        if offsets:
            self._committing = True
            self._consumer.commit_async(offsets, self._on_committed)

    def _on_committed(self, offsets: Mapping[TopicPartition, Any], error: Any) -> None:
        self._committing = False
        if error is None:  # else the next commit says it again
            self._committed.update(offsets)

    def _commit_now(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if offsets and self._commits:
            self._consumer.commit(offsets, timeout_ms=LAST_COMMIT * 1000)
            self._committed.update(offsets)

    # -- partitions go

    def hand_back(self, partitions: Collection[TopicPartition]) -> None:
        """They are revoked: let what runs end, commit, and forget them."""
        began = self._clock()
        longest = self._consumer.config["max_poll_interval_ms"] / 1000 * DRAIN_SHARE
        self._drain(partitions, began + min(self._plan.drain_timeout, longest))
        try:
            self._commit_now(self._finished(partitions))
        except KafkaError as error:
            # Nothing is lost: the next owner goes on from the last commit, and repeats some.
            self._trace.warning("commit.failed", because=error, at="revocation")
        self._forget(partitions)

    def _drain(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Begin nothing more of these, and wait until what runs of them has ended."""
        began = self._clock()
        self._work.stop(partitions)

        def waiting() -> Waiting[None]:
            self._collect()
            while self._work.runs_of(partitions) and self._clock() < deadline:
                self._dispatch()  # what is not revoked goes on
                if not self._outcomes:
                    yield deadline
                self._collect()

        self._around.driver.run(waiting())
        left = self._work.runs_of(partitions)
        facts = {
            "partitions": sorted(partitions),
            "left": [
                f"{one.record.topic}-{one.record.partition}:{one.record.offset}" for one in left
            ],
            "ms": round((self._clock() - began) * 1000, 1),
            "allowed_ms": round((deadline - began) * 1000, 1),
        }
        if left:
            self._trace.warning("process.drained", **facts)
        else:
            self._trace.info("process.drained", **facts)

    def _lose(self, partitions: Collection[TopicPartition]) -> None:
        """They are another member's already: nothing of them is to be committed."""
        self._work.stop(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._work.forget(partitions)
        self._paused.difference_update(partitions)
        for one in partitions:
            self._committed.pop(one, None)
            self._incoming.pop(one, None)

    # -- the end

    def _end(self, *, because: str, raising: bool) -> None:
        """Wait for what runs, commit what is finished, go back to what is not."""
        everything = set(self._work.partitions)
        try:
            self._around.repair()  # else the positions may be those of a poll that was cut short
            self._drain(everything, self._clock() + self._plan.drain_timeout)
            self._commit_now(self._finished())
        except KafkaError as error:
            if not raising:
                raise
            self._trace.warning("commit.failed", because=error, at="end")
        finally:
            self._go_back()
            self.done.unfinished = self._work.pending + sum(map(len, self._incoming.values()))
            self._trace.info(
                "process.ended",
                because=because,
                finished=self.done.finished,
                skipped=self.done.skipped,
                dead_lettered=self.done.dead_lettered,
                unfinished=self.done.unfinished,
            )

    def _go_back(self) -> None:
        """Whatever is called next is given what is unfinished; what we have paused goes on."""
        owned = self._engine.delivery.partitions
        with contextlib.suppress(KafkaError):  # the consumer has failed, or is closed
            for one, offset in self._unfinished().items():
                if one in owned:
                    self._consumer.seek(one, offset.offset)
            resumed = [one for one in self._paused if one in owned and owned[one].paused]
            if resumed:
                self._consumer.resume(*sorted(resumed))


def _facts(task: Task) -> dict[str, Any]:
    """What the trace says of a record whose handler failed: nothing of what is in it."""
    return {
        "partition": task.partition,
        "offset": task.record.offset,
        "attempts": task.attempts,
        "because": type(task.error).__name__,
    }
