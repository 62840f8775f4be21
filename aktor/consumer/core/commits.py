"""Commits that the application asks for, and the callbacks of those that are over."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.call import Call
from aktor.consumer.core.port import Settle
from aktor.consumer.core.questions import Questions
from aktor.consumer.core.rebalancing import UserCode
from aktor.consumer.core.waiting import Waiting
from aktor.errors import UserCallbackError
from aktor.events.commits import AutoCommitFinished, CommitOffsets
from aktor.events.routes import COMMITS

__all__ = ["CommitCallbacks", "Commits", "Completion"]

NO_IDS: Final[Mapping[str, UUID]] = {}


class Commits:
    """Owns the callbacks; the commit manager has the commits."""

    def __init__(self, questions: Questions, callbacks: CommitCallbacks) -> None:
        self._questions = questions
        self.callbacks = callbacks

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
        topic_ids: Mapping[str, UUID] = NO_IDS,
    ) -> Waiting[None]:
        """Commit and wait. `topic_ids`: of the topics that the offsets were read from."""
        yield from self._questions.ask(
            COMMITS,
            lambda ticket: CommitOffsets(
                ticket=ticket,
                offsets=dict(offsets),
                deadline=deadline,
                retry=True,
                topic_ids=topic_ids,
            ),
            deadline=deadline,
            what=f"the commit of {len(offsets)} partitions",
            is_commit=True,
        )
        self.callbacks.run()

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        settle: Settle,
        callback: Callable[[Any, Any], Any] | None = None,
        topic_ids: Mapping[str, UUID] = NO_IDS,
    ) -> Waiting[None]:
        """Commit without waiting. When it ended, `settle` is called on the background thread, and
        `callback(offsets, error)` in a later poll, commit or close."""
        callbacks = self.callbacks  # not `self`: a dropped consumer would live until the answer

        def over(value: Any, error: BaseException | None) -> None:
            if callback is not None:
                # (No function of ours in between: an interrupt there would lose the call.)
                callbacks.add(partial(callback, offsets, error))
            settle(value, error)

        callbacks.run()
        yield from self._send(offsets, topic_ids, over)

    def commit_quietly(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        topic_ids: Mapping[str, UUID] = NO_IDS,
    ) -> Waiting[None]:
        """Commit without waiting; nobody hears how it ended."""
        return self._send(offsets, topic_ids, lambda _value, _error: None)

    def _send(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        topic_ids: Mapping[str, UUID],
        settle: Settle,
    ) -> Waiting[None]:
        return self._questions.ask_without_waiting(
            COMMITS,
            lambda ticket: CommitOffsets(
                ticket=ticket,
                offsets=dict(offsets),
                deadline=math.inf,
                retry=False,
                topic_ids=topic_ids,
            ),
            settle,
        )


class Completion:
    """The callback of a commit that is over, to be called once."""

    __slots__ = ("_call", "begun")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.begun = False

    def run(self) -> None:
        """Call it. It counts as called even if an interrupt ends it."""
        self.begun = True
        self._call()


class CommitCallbacks:
    """Owns the callbacks of commits that are over and that were not run yet."""

    __slots__ = ("_call", "_on_auto_commit", "_user_code", "running", "waiting")

    def __init__(
        self,
        call: Call,
        user_code: UserCode,
        on_auto_commit: Callable[[Any, Any], Any] | None,
    ) -> None:
        self._call = call
        #: Either thread adds to it (one append, which is atomic); only the application takes out.
        self.waiting: deque[Completion] = deque()
        self._user_code = user_code
        self._on_auto_commit = on_auto_commit
        #: Whether a callback runs, or ran when an interrupt came.
        self.running = False

    def begin_call(self) -> None:
        """An outermost call begins: no callback runs now."""
        self.running = False

    def add(self, call: Callable[[], Any]) -> None:
        """A commit with this callback is over. From any thread."""
        self.waiting.append(Completion(call))

    def add_auto_commit(self, event: AutoCommitFinished) -> None:
        """An automatic commit is over."""
        if self._on_auto_commit is not None:
            self.add(partial(self._on_auto_commit, event.offsets, event.error))

    def run(self) -> None:
        """Run the callbacks, each once and one after the other.

        If a callback calls `commit`, no further callback runs inside it. Otherwise hundreds of
        nested calls would overflow the stack.
        """
        if self.running:
            return
        while self.waiting:
            first = self.waiting[0]
            if first.begun:
                self.waiting.popleft()
                continue
            before = self._user_code.name
            try:
                self._user_code.enter("a commit callback")
                self.running = True
                first.run()
            except StopIteration as error:
                # In the generators that run the callbacks the StopIteration would become a
                # RuntimeError without a cause to read (PEP 479); in `__next__` it would end the
                # user's loop.
                failed = UserCallbackError(callback="it raised StopIteration", of="commit")
                raise self._call.own(failed) from error
            except Exception as error:
                # The callback counts as called, and nothing is left half done. (If a signal handler
                # raised the error before the call, the next run calls the callback.)
                self._call.own(error)
                raise
            finally:
                self.running = False
                self._user_code.enter(before)
