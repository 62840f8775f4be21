"""A revocation: stop delivery, commit the positions, run the revoked or lost callback."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Final, TypeAlias
from uuid import UUID

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.membership import (
    CallbackFinished,
    Loss,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
)
from aktor.events.message import Message
from aktor.settings import Settings
from aktor.state_table import follow

__all__ = ["COMMIT", "POLL", "STAGES", "Revocation", "RevocationStage", "StepAnswer"]

#: What a revocation waits for, besides its callback: a poll, by which the application gives the
#: partitions up, and the last commit before that.
POLL: Final = "poll"
COMMIT: Final = "commit"

#: The listener's method.
CALLBACKS: Final = {Loss.REVOKED: "on_partitions_revoked", Loss.LOST: "on_partitions_lost"}

#: The messages by which the application or the commit manager says that a step is done.
StepAnswer: TypeAlias = PartitionsReleased | RevocationCommitted | CallbackFinished


class RevocationStage(enum.Enum):
    """How far the revocation is."""

    RELEASING = "releasing"
    """The application stops delivery, drops what is buffered, and answers with its positions."""

    RELEASED = "released"
    """No records of the partitions are given out any more. The positions are committed next, if
    auto-commit is on and the partitions are not lost."""

    COMMITTING = "committing"
    """The commit manager stores the positions. The callback waits for that until `commit_until`."""

    COMMITTED = "committed"
    """The commit has ended, with success or not: the callback is due."""

    CALLING = "calling"
    """The application runs `on_partitions_revoked` or `on_partitions_lost`."""

    FINISHED = "finished"
    """The callback has returned, or raised: the partitions are not owned any more."""


_S: Final = RevocationStage

#: Which message, received or sent, leads from one stage to the next. If there are no positions to
#: store, there is no commit. If the commit takes too long, the callback does not wait for it.
STAGES: Final[Mapping[RevocationStage, Mapping[type, RevocationStage]]] = {
    _S.RELEASING:  {PartitionsReleased: _S.RELEASED},
    _S.RELEASED:   {CommitBeforeRevocation: _S.COMMITTING, RunRevokedCallback: _S.CALLING},
    _S.COMMITTING: {RevocationCommitted: _S.COMMITTED, RunRevokedCallback: _S.CALLING},
    _S.COMMITTED:  {RunRevokedCallback: _S.CALLING},
    _S.CALLING:    {CallbackFinished: _S.FINISHED},
    _S.FINISHED:   {},
}  # fmt: skip


class Revocation:
    """Owns the partitions of one revocation, and how far it is."""

    def __init__(
        self,
        settings: Settings,
        *,
        rebalance: int,
        partitions: frozenset[TopicPartition],
        loss: Loss,
    ) -> None:
        self.rebalance = rebalance
        self.partitions = partitions
        self.loss = loss
        self.stage = RevocationStage.RELEASING
        self._commits = settings.enable_auto_commit and loss is Loss.REVOKED
        # Half of the time that the coordinator waits for a member: the callback has the other half.
        self._commit_time = min(settings.max_poll_interval / 2, settings.request_timeout)
        self._commit_until = math.inf
        self._positions: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self._topic_ids: Mapping[str, UUID] = {}

    def begin(self, because: str) -> RevokePartitions:
        """The first message to the application."""
        return RevokePartitions(
            rebalance=self.rebalance, partitions=self.partitions, loss=self.loss, because=because
        )

    def heard(self, answer: StepAnswer) -> bool:
        """Note an answer; False if it belongs to another rebalance or to another stage."""
        if answer.rebalance != self.rebalance or type(answer) not in STAGES[self.stage]:
            return False
        self._move(answer)
        if isinstance(answer, RevocationCommitted) and answer.expelled:
            self.loss = Loss.LOST
        if isinstance(answer, PartitionsReleased):
            self._positions = {
                partition: position
                for partition, position in answer.positions.items()
                if partition in self.partitions
            }
            self._topic_ids = answer.topic_ids
        return True

    def say(self, now: float) -> CommitBeforeRevocation | RunRevokedCallback | None:
        """The next message of the revocation, if it can be sent now."""
        message: CommitBeforeRevocation | RunRevokedCallback
        if self.stage is RevocationStage.RELEASED and self._commits and self._positions:
            self._commit_until = now + self._commit_time
            message = CommitBeforeRevocation(
                rebalance=self.rebalance,
                offsets=self._positions,
                deadline=self._commit_until,
                topic_ids=self._topic_ids,
            )
        elif RunRevokedCallback in STAGES[self.stage] and not self._awaits_commit(now):
            message = RunRevokedCallback(
                rebalance=self.rebalance, partitions=self.partitions, loss=self.loss
            )
        else:
            return None
        self._move(message)
        return message

    @property
    def waits_for_commit(self) -> bool:
        """Whether the positions are being committed; otherwise the application is at work."""
        return self.stage is RevocationStage.COMMITTING

    @property
    def awaits(self) -> str:
        """What it waits for: a poll, by which the application gives the partitions up, the last
        commit, or the callback."""
        match self.stage:
            case RevocationStage.RELEASING | RevocationStage.RELEASED:
                return POLL
            case RevocationStage.COMMITTING | RevocationStage.COMMITTED:
                return COMMIT
        return CALLBACKS[self.loss]

    @property
    def commit_until(self) -> float:
        """When to go on without the commit."""
        return self._commit_until if self.stage is RevocationStage.COMMITTING else math.inf

    def _awaits_commit(self, now: float) -> bool:
        return self.stage is RevocationStage.COMMITTING and now < self._commit_until

    def _move(self, message: Message) -> None:
        self.stage = follow(STAGES, self.stage, type(message))
