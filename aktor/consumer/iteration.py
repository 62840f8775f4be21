"""Iterating over a consumer: the records of a poll, handed out one by one.

A position moves past a record when the record is handed out, so that a commit in the loop's body
covers it, as in kafka-python. What is left when something else happens (a poll, a pause, a seek, a
rebalance step) is put back and given out later, or dropped if its partition has moved on.
"""

from __future__ import annotations

import math
from typing import Any, Final

from aktor.consumer.delivery import Partition
from aktor.consumer.engine import Engine

__all__ = ["Iteration"]

#: How long records are handed out without a word to the background, in seconds.
LOOK_EVERY: Final = 1.0


class Iteration:
    """Owns the records of a poll that an iteration has not handed out yet."""

    __slots__ = (
        "_batches",
        "_clock",
        "_engine",
        "_epoch",
        "_events",
        "_index",
        "_look_at",
        "_records",
        "_state",
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._clock = engine.clock
        self._events = engine.port.events
        self._batches: list[tuple[Partition, int, list[Any]]] = []
        self._state: Partition | None = None
        self._epoch = 0
        self._records: list[Any] = []
        self._index = 0
        self._look_at = -math.inf

    def next(self) -> Any:
        """The next record that is already here; None: look at what is pending first.

        The one path that is walked per record: flat, and without a call that is not needed.
        """
        index = self._index
        state = self._state
        if (
            state is None
            or index >= len(self._records)
            or state.epoch != self._epoch
            or self._events
            or self._engine.woken
            or self._clock() > self._look_at
        ):
            return None
        record = self._records[index]
        self._index = index + 1
        state.offset = record.offset + 1
        state.leader_epoch = record.leader_epoch
        return record

    def stow(self) -> None:
        """Put back what was not handed out; a later poll begins with it."""
        state = self._state
        if state is not None and state.epoch == self._epoch:
            state.held = self._records[self._index :] + state.held
            if self._index:
                self._engine.delivery.mark_moved(state)
        for waiting, epoch, records in self._batches:
            if waiting.epoch == epoch:
                waiting.held = records + waiting.held
        self._batches = []
        self._state = None
        self._records = []
        self._index = 0

    def wait(self, deadline: float, limit: int) -> Any:
        """Go on with the next partition, or poll until there is a record; None at the deadline."""
        while True:
            if self._index < len(self._records) or not self._begin_next_batch():
                self.stow()
                taken = self._engine.poll(deadline, limit, advance=False)
                if not taken:
                    self._engine.raise_if_unreached()
                    return None
                self._look_at = self._engine.clock() + LOOK_EVERY
                if self._engine.in_group:
                    self._look_at = min(self._look_at, self._engine.port.session_until)
                partitions = self._engine.delivery.partitions
                self._batches = [
                    (partitions[one], partitions[one].epoch, taken[one]) for one in reversed(taken)
                ]
                self._begin_next_batch()
            record = self.next()
            if record is not None:
                return record

    def _begin_next_batch(self) -> bool:
        """Finish this partition's records and begin the next one's; False if there are none."""
        if self._state is not None and self._state.epoch == self._epoch:
            self._engine.delivery.advance_past(self._state)
            self._engine.delivery.mark_moved(self._state)
        self._state, self._records, self._index = None, [], 0
        if not self._batches:
            return False
        self._state, self._epoch, self._records = self._batches.pop()
        return True
