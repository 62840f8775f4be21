"""One rebalance after the other: its number, why it is under way, and what it has moved."""

from __future__ import annotations

from typing import Final

from kafka.structs import TopicPartition

from aktor.trace import Trace

__all__ = ["Rebalance"]

#: More rebalances than one incarnation will see.
REBALANCES_PER_LIFE: Final = 1_000_000

_NOTHING: Final[frozenset[TopicPartition]] = frozenset()


class Rebalance:
    """Owns what operators are told of the rebalance under way, and whether the application has
    applied its assignment."""

    def __init__(self, incarnation: int) -> None:
        # Answers to an earlier incarnation's steps must not be taken for answers to ours.
        self._first = (incarnation - 1) * REBALANCES_PER_LIFE
        self.number = self._first
        self.because = ""
        self.began_at = 0.0
        self.added = _NOTHING
        self.revoked = 0
        #: Whether the assigned callback succeeded, when it has been run. (Not its error, whose
        #: traceback holds the consumer.)
        self.callback_succeeded: bool | None = None

    @property
    def is_first(self) -> bool:
        """Whether no rebalance has begun yet."""
        return self.number == self._first

    def next(self) -> None:
        """The next rebalance: answers to steps of the one before are dropped from now on."""
        self.number += 1

    def begin(self, now: float) -> None:
        """Measure from now on, and count what is revoked."""
        self.began_at = now
        self.revoked = 0

    def explain(self, because: str) -> None:
        """Note why the rebalance is under way."""
        self.because = because

    def forget_callback(self) -> None:
        """Forget whether an assigned callback succeeded: another assignment begins, or none."""
        self.callback_succeeded = None

    def applied(self, *, succeeded: bool) -> None:
        """The application has applied the assignment; its callback has returned or raised."""
        self.callback_succeeded = succeeded

    def note_added(self, partitions: frozenset[TopicPartition]) -> None:
        """The application is given these partitions, which it did not have before."""
        self.added = partitions

    def note_revoked(self, count: int) -> None:
        """The application has given up so many partitions, or lost them."""
        self.revoked += count

    def trace_triggered(self, log: Trace, *, member_id: str, generation: int, owned: int) -> None:
        """Trace that the rebalance begins."""
        log.info(
            "rebalance.triggered",
            rebalance=self.number,
            because=self.because,
            member=member_id,
            generation=generation,
            owned=owned,
        )

    def trace_completed(self, log: Trace, now: float, *, generation: int, owned: int) -> None:
        """Trace that the member has its assignment."""
        log.info(
            "rebalance.completed",
            rebalance=self.number,
            because=self.because,
            ms=round((now - self.began_at) * 1000, 3),
            generation=generation,
            owned=owned,
            added=self.added,
            revoked=self.revoked,
        )
