"""The loop of `process`: poll, give records to workers, commit what is finished.

It runs on the application thread and calls the consumer as a user would: poll, pause, commit_async,
seek. Workers only run handlers, and say what became of them. So positions, commits and rebalances
have one owner, and what may be committed follows from one place (see `work`, `commits`).

Three things are the danger here. An offset that is committed although a record below it is not
finished loses that record in the next crash: `commits` takes the offset of `Work.unfinished`
wherever something is unfinished. A partition that is revoked while a record of it is in a handler
is read by another member from the last commit on: the listener waits for the handlers and commits
before it lets go. And a loop that ends by an error, an interrupt or a signal leaves the positions
at the lowest unfinished offsets, so that whatever is called next goes on from there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection
from typing import Any

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from aktor.consumer.core.waiting import Patience, Waiting
from aktor.errors import (
    ConcurrentAccessError,
    CorruptBatchError,
    RecordDeserializationError,
)
from aktor.processing.handling import Handling
from aktor.processing.listener import RevocationListener
from aktor.processing.plan import Plan, Processed
from aktor.processing.pools import Pools
from aktor.processing.surroundings import BlockingSurroundings
from aktor.processing.workers import runs_handlers

__all__ = ["Processor"]


class Processor(Handling):
    """Owns the loop: when it polls, what is raised, and when it ends."""

    _around: BlockingSurroundings

    def __init__(self, around: BlockingSurroundings, plan: Plan) -> None:
        super().__init__(
            around, plan, Pools(around, plan, f"aktor-{around.consumer.config['client_id']}")
        )
        self._thread = threading.current_thread()
        #: How the consumer is to be closed at the end, None: it is not.
        self.close_asked: Any = None

    # -- the whole

    def run(self) -> Processed:
        """Until it is stopped, nothing has come for long enough, or something is raised."""
        self._note_begin()
        with self._installed(
            lambda users: RevocationListener(users, self._around.revoke, self._lose, self.let_go)
        ):
            try:
                while not self._is_over():
                    self._turn()
            except BaseException as error:
                self._end(because=type(error).__name__, raising=True)
                raise
            self._end(because=self._stopping or "nothing has come", raising=False)
            self._around.engine.call.raise_wakeup()  # it came while the end was waited for
        return self.done

    def close(self, asked: Any) -> bool:
        """The same; the consumer is closed then, as `asked`. From any thread. True: it must not
        wait for that, because the loop or a handler runs on it."""
        self.close_asked = asked
        self.stop("the consumer was closed")
        return threading.current_thread() is self._thread or runs_handlers()

    def check_thread(self) -> None:
        """Raise if this is another thread than the one that processes: a handler's, perhaps."""
        here = threading.current_thread()
        if here is not self._thread:
            raise ConcurrentAccessError(owner=self._thread.name, other=here.name)

    def _turn(self) -> None:
        consumer, limit = self._around.consumer, self._before_poll()
        try:
            self._work.incoming = consumer.poll(self._patience() * 1000, limit)
        except (RecordDeserializationError, CorruptBatchError) as error:
            self._pass_over(error)
        self._after_poll()

    # -- partitions go

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """They are revoked: let what runs end, and commit."""
        self._drain(partitions, self._drain_by())
        try:
            self._commits.commit_now(self._around.consumer, partitions)
        except KafkaError as error:
            # Nothing is lost: the next owner goes on from the last commit, and repeats some.
            self._trace.warning("commit.failed", because=error, at="revocation")

    def _drain(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Begin nothing more of these, and wait until what runs of them has ended."""
        began = self._clock()
        self._work.stop(partitions)
        patience = Patience(deadline, began)

        def waiting() -> Waiting[None]:
            while self._runs_of(partitions, patience):
                if not self._pools.has_news:
                    yield patience.until(self._clock())

        self._around.driver.run(waiting())
        self._note_drained(partitions, began, deadline)

    # -- the end

    def _end(self, *, because: str, raising: bool) -> None:
        """Wait for what runs, commit what is finished, go back to what is not."""
        everything = set(self._work.partitions)
        try:
            with contextlib.suppress(KafkaError):  # the consumer has failed: drain all the same
                # Else the positions may be those of a poll that was cut short.
                self._around.repair()
            self._drain(everything, self._clock() + self._plan.drain_timeout)
            self._commits.commit_now(self._around.consumer)
        except KafkaError as error:
            if not raising:
                raise
            self._trace.warning("commit.failed", because=error, at="end")
        finally:
            self._go_back()
            self._note_end(because)
