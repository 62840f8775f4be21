"""What `process` does with records, whoever drives it: what is begun, tried again and given up,
and how far the loop is. Nothing here waits.

`Processor` drives it on the application thread, `aktor.aio`'s processor in an event loop.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from aktor.consumer.core.handlers import HandlersNow
from aktor.consumer.core.waiting import Patience
from aktor.errors import CorruptBatchError, HandlerError, RecordDeserializationError
from aktor.processing.commits import Commits
from aktor.processing.failures import Failure
from aktor.processing.pausing import Pausing
from aktor.processing.plan import Plan, Processed
from aktor.processing.pools import Pools
from aktor.processing.surroundings import Surroundings
from aktor.processing.work import Task, Work
from aktor.processing.workers import NoWorkerError

__all__ = ["DRAIN_SHARE", "Handling"]

#: A poll waits for so long at most, in seconds.
POLL: Final = 1.0

#: Of the time in which a rebalance must be answered, the part that handlers may take to end.
DRAIN_SHARE: Final = 0.5


class Handling:
    """Owns what was done, and what the loop is to end by."""

    def __init__(self, around: Surroundings, plan: Plan, pools: Pools) -> None:
        self._around = around
        self._clock = around.clock
        self._plan = plan
        self._trace = around.trace.bind(actor="application")
        self._work = Work(plan.order)
        self._pools = pools
        self._pausing = Pausing(around, plan, self._work)
        self._commits = Commits(around, self._work, interval=plan.commit_interval)
        #: The assignment when we last looked.
        self._owned = around.engine.delivery.partitions
        self._busy_at = self._clock()
        self._stopping = ""
        self._fatal: HandlerError | None = None
        self.done = Processed()

    def _note_begin(self) -> None:
        self._trace.info(
            "process.started",
            workers=self._plan.workers,
            concurrency=self._plan.concurrency,
            order=self._plan.order,
        )

    @contextlib.contextmanager
    def _installed(self, make_listener: Callable[[Any], Any]) -> Iterator[None]:
        """Hear of rebalances by the listener that is made of the user's, of SIGTERM, and of workers
        that end while a poll waits."""
        rebalancing, call = self._around.engine.rebalancing, self._around.engine.call
        before = rebalancing.listener
        rebalancing.set_listener(make_listener(before))
        call.poll_ends = self._has_news
        self._around.engine.show_handlers(self._now)
        stop = weakref.WeakMethod(self.stop)  # the handler does not keep a dropped consumer alive

        def on_sigterm() -> None:
            if (still_there := stop()) is not None:
                still_there("SIGTERM")

        restore = self._around.host.on_sigterm(on_sigterm)
        try:
            yield
        finally:
            restore()
            call.poll_ends = None
            self._around.engine.show_handlers(None)
            rebalancing.set_listener(before)
            self._pools.close()

    def stop(self, because: str) -> None:
        """End once what runs has ended. From a signal handler, or a callback."""
        self._stopping = self._stopping or because
        self._around.engine.core.port.bell.ring()

    def _now(self) -> HandlersNow:
        """What is shown of the handlers. From any thread."""
        return HandlersNow(*self._work.now(), self._pausing.paused)

    def _has_news(self) -> bool:
        return self._pools.has_news or bool(self._stopping)

    def _is_over(self) -> bool:
        if self._stopping:
            return True
        now = self._clock()
        if self._work.pending:
            self._busy_at = now
        return now >= self._busy_at + self._plan.idle_timeout

    def _before_poll(self) -> int:
        """Act on what workers have said, begin what may be begun, pause, commit. Returns how many
        records the poll may give."""
        self._pools.collect(self._work)
        if self._fatal is not None:
            raise self._fatal
        self._dispatch()
        workers_wait = len(self._work.running) < self._pools.capacity
        self._pausing.pause_and_resume(workers_wait=workers_wait)
        self._commits.commit_if_due()
        return self._pausing.limit()

    def _pass_over(self, error: RecordDeserializationError | CorruptBatchError) -> None:
        """The poll has raised this: raise it, or go on."""
        if isinstance(error, RecordDeserializationError):
            self._take_in_unreadable(error)
            return
        partition = TopicPartition(error.topic, error.partition)
        if not self._around.engine.corrupt_batches.may_heal(partition):
            raise error

    def _after_poll(self) -> None:
        self._take_in()
        self._drop_what_was_released()

    def _patience(self) -> float:
        """How long a poll may wait, in seconds."""
        now = self._clock()
        due = self._busy_at + self._plan.idle_timeout
        if len(self._work.running) < self._pools.capacity:
            due = min(due, self._work.next_retry)
        due = min(due, self._commits.due)
        return min(POLL, max(0.0, due - now))

    # -- records come

    def _take_in(self) -> None:
        incoming = self._work.incoming
        if incoming:
            self._busy_at = self._clock()
            self._pausing.note(incoming)
            self._work.take_in()

    def _take_in_unreadable(self, error: RecordDeserializationError) -> None:
        """A record that a deserializer refused: what `on_error` says is done about it."""
        if self._plan.on_error == "raise":
            raise error
        partition = TopicPartition(error.topic, error.partition)
        task = self._work.add_aside(partition, _raw_record(error))
        self._around.consumer.seek(partition, error.offset + 1)
        task.attempts, task.error = 1, error.__cause__ or error
        self._give_up(task)

    def _drop_what_was_released(self) -> None:
        """Without a group no listener is called when a deleted topic takes partitions away: drop
        their records here."""
        owned = self._around.engine.delivery.partitions
        if owned is not self._owned:
            gone = self._work.partitions - owned.keys()
            self._lose(gone)
            self.let_go(gone)
            self._owned = owned

    # -- records are worked on

    def _dispatch(self) -> None:
        now = self._clock()
        while len(self._work.running) < self._pools.capacity:
            task = self._work.begin(now)
            if task is None:
                return
            self._pools.handle(task, self._plan.handler, self._handled)

    def _handled(self, task: Task, error: BaseException | None) -> None:
        if error is None:
            self.done.finished += 1
            self._finish(task)
            return
        task.attempts, task.error = task.attempts + 1, error
        retries = self._plan.retries
        if isinstance(error, NoWorkerError):  # so nothing is known of the record
            self._fail(task, f"{error}, so nothing came of the handler", error.__cause__ or error)
        elif task.attempts <= retries.count and isinstance(error, Exception):
            self.done.retried += 1
            wait = retries.wait(task.attempts)
            self._trace.warning("record.retried", **_facts(task), wait_ms=round(wait * 1000))
            self._work.retry(task, self._clock() + wait)
        else:
            self._give_up(task)

    def _finish(self, task: Task) -> None:
        self._work.finish(task)
        self._pausing.note_finished(task.partition)

    def _give_up(self, task: Task) -> None:
        """All attempts have failed."""
        on_error, error = self._plan.on_error, task.error
        assert error is not None, "nothing has failed"
        if not isinstance(error, Exception):
            self._fail(task, f"the handler was ended by {type(error).__name__}", error)
        elif on_error == "raise":
            self._fail(task, "", error)
        elif on_error == "skip":
            self._trace.warning("record.skipped", **_facts(task))
            self.done.skipped += 1
            self._finish(task)
        else:
            assert callable(on_error), "the plan was checked"
            failure = Failure(
                record=task.record,
                error=error,
                attempts=task.attempts,
                group_id=self._around.consumer.config["group_id"],
            )
            self._work.begin_with(task)
            self._pools.call_on_error(task, on_error, failure, self._dead_lettered)

    def _dead_lettered(self, task: Task, error: BaseException | None) -> None:
        if error is None:
            self._trace.warning("record.dead_lettered", **_facts(task))
            self.done.dead_lettered += 1
            self._finish(task)
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

    # -- partitions go

    def _drain_by(self) -> float:
        """When the handlers of revoked partitions must have ended."""
        longest = self._around.consumer.config["max_poll_interval_ms"] / 1000 * DRAIN_SHARE
        return self._clock() + min(self._plan.drain_timeout, longest)

    def _runs_of(self, partitions: Collection[TopicPartition], patience: Patience) -> bool:
        """Whether handlers of these are to be waited for. What is not revoked goes on."""
        self._pools.collect(self._work)
        if not self._work.runs_of(partitions) or patience.is_over(self._clock()):
            return False
        self._dispatch()
        return True

    def _note_drained(
        self, partitions: Collection[TopicPartition], began: float, deadline: float
    ) -> None:
        left = sorted(self._work.runs_of(partitions), key=lambda task: task.record.offset)
        facts = {
            "partitions": sorted(partitions),
            "left": [
                f"{task.record.topic}-{task.record.partition}:{task.record.offset}" for task in left
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

    def let_go(self, partitions: Collection[TopicPartition]) -> None:
        """They were revoked or lost, and the user's listener has ended: forget them.

        Not before: if the loop ends in that listener, they are still owned, and their positions are
        past records that are not finished. A commit of these positions would lose those records. If
        they are given back, and nothing is committed, they may be read from these positions on: so
        they go back now.
        """
        consumed = self._around.engine.delivery.consumed(partitions)
        with contextlib.suppress(KafkaError):  # the consumer has failed, or is closed
            for partition, offset in self._work.unfinished(consumed).items():
                self._around.consumer.seek(partition, offset.offset)
        self._work.release(partitions)
        self._pausing.forget(partitions)
        self._commits.forget(partitions)

    # -- the end

    def _go_back(self) -> None:
        """Seek to the lowest unfinished offsets, so that later calls get these records again;
        resume the partitions that we have paused."""
        consumed = self._around.engine.delivery.consumed()
        with contextlib.suppress(KafkaError):  # the consumer has failed, or is closed
            for partition, offset in self._work.unfinished(consumed).items():
                self._around.consumer.seek(partition, offset.offset)
            self._pausing.end()

    def _note_end(self, because: str) -> None:
        self.done.unfinished = self._work.unfinished_count
        self._trace.info(
            "process.ended",
            because=because,
            finished=self.done.finished,
            skipped=self.done.skipped,
            dead_lettered=self.done.dead_lettered,
            unfinished=self.done.unfinished,
        )


def _facts(task: Task) -> dict[str, Any]:
    """What the trace says of a record whose handler failed: nothing of what is in it."""
    return {
        "partition": task.partition,
        "offset": task.record.offset,
        "attempts": task.attempts,
        "because": type(task.error).__name__,
    }


def _raw_record(error: RecordDeserializationError) -> ConsumerRecord:
    """The record that a deserializer refused, as it came: its key and value are bytes. Its time and
    leader epoch are not known."""
    return ConsumerRecord(
        topic=error.topic,
        partition=error.partition,
        leader_epoch=None,
        offset=error.offset,
        timestamp=None,
        timestamp_type=None,
        key=error.key,
        value=error.value,
        headers=error.headers,
        checksum=None,
        serialized_key_size=-1 if error.key is None else len(error.key),
        serialized_value_size=-1 if error.value is None else len(error.value),
        serialized_header_size=-1,
    )
