"""A look-up of committed offsets: the OffsetFetch, who waits for it, and what it has brought."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.exchange import Exchange
from aktor.managers.commits.errors import Coordinator, Waited
from aktor.values import Mutable, Value

__all__ = ["Asker", "LookUp", "OffsetFetchSent", "Outcome"]


class Asker(Mutable, kw_only=False):
    """An application call that waits for committed offsets."""

    ticket: int
    deadline: float
    since: float | None = None

    def begin_waiting(self, now: float) -> None:
        """The manager has its first tick with this call."""
        self.since = now


class Outcome(Mutable, kw_only=False):
    """The answer to an OffsetFetch: offsets, errors that a retry may mend, and final errors."""

    found: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    again: dict[TopicPartition, Exception] = field(default_factory=dict)
    refused: dict[TopicPartition, Exception] = field(default_factory=dict)


class LookUp(Mutable):
    """One OffsetFetch on its way, and the questions that wait for it.

    `for_positions` are the partitions that the position manager waits for, each with the number of
    its ownership. `as_of` counts the commits that were stored when it was first sent: a question
    that came after a later commit must not be answered by it. `by_name`: the broker refused our
    topic ids, send names. `stable`: see `FindStartingOffsets`. `held_until`: wait for an unanswered
    commit at most until then.
    """

    partitions: frozenset[TopicPartition]
    exchange: Exchange
    wanted: frozenset[TopicPartition]
    found: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    askers: list[Asker] = field(default_factory=list)
    for_positions: dict[TopicPartition, int] = field(default_factory=dict)
    as_of: int | None = None
    by_name: bool = False
    stable: bool = True
    sent_at: float = -math.inf
    held_until: float = -math.inf
    last_error: Exception | None = None

    @property
    def needed(self) -> bool:
        """Whether anybody still waits for something."""
        return bool(self.wanted) and bool(self.askers or self.for_positions)

    @property
    def attempts(self) -> int:
        """How often it was sent."""
        return 0 if self.as_of is None else self.exchange.failures + self.exchange.in_flight

    @property
    def due(self) -> float:
        """When it may be sent."""
        return max(self.exchange.due, self.held_until)

    def waited(self, since: float | None, now: float, coordinator: Coordinator) -> Waited:
        """How long somebody has waited for it, and what stood in its way."""
        return Waited(
            since=since,
            until=now,
            attempts=self.attempts,
            last_error=self.last_error,
            sent_at=self.sent_at if self.exchange.in_flight else None,
            coordinator=coordinator,
        )

    # -- who waits for it

    def asked_by(self, asker: Asker) -> None:
        """This call waits for it, too."""
        self.askers.append(asker)

    def dismiss(self, asker: Asker) -> None:
        """This call is answered."""
        self.askers.remove(asker)

    def dismiss_all(self) -> list[Asker]:
        """No call waits for it any more; returns those that did."""
        askers, self.askers = self.askers, []
        return askers

    def find_for_positions(self, ownerships: Mapping[TopicPartition, int]) -> None:
        """The position manager waits for these, too, each in this ownership."""
        self.for_positions.update(ownerships)

    def forget_positions(self, partitions: Iterable[TopicPartition]) -> None:
        """The position manager does not wait for these any more."""
        for partition in partitions:
            del self.for_positions[partition]

    def ask_only_for_positions(self) -> None:
        """No call waits for it: from now on it asks only for what the position manager wants."""
        self.partitions = self.wanted = self.wanted & self.for_positions.keys()

    # -- the request and its answer

    def hold(self, unanswered: Collection[TopicPartition], until: float) -> None:
        """Hold it back, at most `until`, while its answer would miss a commit of ours.

        A partition that is assigned again by `assign` would then start at the offset from before
        that commit, and records would be given out twice. The wait is bounded, because a commit may
        be retried for as long as its caller likes. `unanswered` are the partitions of commits that
        are on their way.
        """
        if self.for_positions.keys().isdisjoint(unanswered):
            self.held_until = -math.inf
        elif self.held_until == -math.inf:
            self.held_until = until

    def sent(self, now: float, commits_stored: int) -> None:
        """An attempt is made, after so many commits were stored."""
        self.exchange.sent()
        self.sent_at = now
        if self.as_of is None:
            self.as_of = commits_stored

    def answered(self, outcome: Outcome) -> None:
        """The attempt is over: partitions whose error a retry may mend are still wanted."""
        self.exchange.ended()
        self.found.update(outcome.found)
        self.wanted = frozenset(outcome.again)

    def failed(self, error: Exception, now: float, jitter: float) -> float:
        """The attempt has failed for some partitions; returns when the next may be made."""
        self.last_error = error
        return self.exchange.failed(now, jitter)

    def drop_answers(self) -> None:
        """Some partitions were refused for good: keep only what is still wanted.

        It is wanted for the position manager only: no later question may share this look-up.
        """
        self.partitions = self.wanted
        self.found.clear()


class OffsetFetchSent(Value):
    """Note on an OffsetFetch: for which look-up, of which partitions, from whom."""

    look_up: LookUp
    partitions: frozenset[TopicPartition]
    node: int
