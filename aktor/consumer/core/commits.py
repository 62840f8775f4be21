"""Commits that the application asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.assignment import Assignment
from aktor.consumer.core.call import Call
from aktor.consumer.core.commit_callbacks import CommitCallbacks
from aktor.consumer.core.leaving import Leaving
from aktor.consumer.core.link import Link
from aktor.consumer.core.questions import Questions
from aktor.consumer.core.recovery import Recovery
from aktor.consumer.core.waiting import Waiting
from aktor.events.commits import CommitOffsets
from aktor.events.routes import COMMITS
from aktor.managers.commits.errors import says_expelled

__all__ = ["Commits"]


class Commits:
    """Owns nothing: the commit manager has the commits, `CommitCallbacks` has the callbacks."""

    def __init__(
        self,
        link: Link,
        call: Call,
        assignment: Assignment,
        questions: Questions,
        recovery: Recovery,
        leaving: Leaving,
        callbacks: CommitCallbacks,
    ) -> None:
        self._call = call
        self._assignment = assignment
        self._questions = questions
        self._recovery = recovery
        self._leaving = leaving
        self.callbacks = callbacks
        self._port = link.port
        self._publish = link.publish
        self._trace = link.trace

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float
    ) -> Waiting[None]:
        """Commit and wait."""
        yield from self._questions.ask(
            COMMITS,
            lambda ticket: CommitOffsets(
                ticket=ticket, offsets=dict(offsets), deadline=deadline, retry=True
            ),
            deadline=deadline,
            what=f"the commit of {len(offsets)} partitions",
        )
        self.callbacks.run()

    def commit_last(self, deadline: float, *, at: str) -> Waiting[None]:
        """Commit the consumed positions before all partitions are given up. A failure is traced."""
        consumed = self._assignment.consumed()
        if not consumed:
            return
        try:
            yield from self._questions.ask(
                COMMITS,
                lambda ticket: CommitOffsets(
                    ticket=ticket, offsets=consumed, deadline=deadline, retry=True
                ),
                deadline=deadline,
                what="the last commit",
                interruptible=self._call.closing,
            )
        except Exception as error:
            if error is not self._call.ended_in:
                raise  # a signal handler's
            # Nothing is lost: the group goes on from the last commit and repeats some records.
            self._leaving.expel(expelled=says_expelled(error))
            self._trace.warning("commit.failed", because=error, at=at, offsets=consumed)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        settle: Callable[[Any, BaseException | None], None],
    ) -> Waiting[None]:
        """Commit without waiting; `settle` is called when it ended, on the background thread.

        It is a generator because a listener may have to run first, about a restarted actor.
        """
        self._call.check_alive()
        yield from self._recovery.restore_if_restarted()
        self._call.touch()
        ticket = self._port.open(COMMITS, settle, self._call.asked)
        self._publish(
            CommitOffsets(ticket=ticket, offsets=dict(offsets), deadline=math.inf, retry=False)
        )
        self._call.does_not_wait_for(ticket)
