"""Iterating over a consumer: the records of a poll, handed out one by one.

A position moves past a record when the record is handed out, so that a commit in the loop's body
covers it, as in kafka-python. What is left when something else happens (a poll, a pause, a
rebalance step) is put back and given out later, or dropped if its partition has moved on.
"""

from __future__ import annotations

import math
from typing import Any

from aktor.consumer.delivery import Partition
from aktor.consumer.engine import Engine

__all__ = ["Iteration"]


class Iteration:
    """Owns the records of a poll that an iteration has not handed out yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._batches: list[tuple[Partition, int, list[Any]]] = []
        self._next = 0
        self._poll_at = -math.inf

    def next(self) -> Any:
        """The next record that is already here, or None: then look at what is pending first."""
        if not self._batches or self._engine.interrupted(self._poll_at):
            return None
        state, epoch, records = self._batches[-1]
        if state.epoch != epoch or not state.open:
            self.stow()
            return None
        record = records[self._next]
        self._next += 1
        if self._next < len(records):
            self._engine.delivery.advance(state, record.offset + 1, record.leader_epoch)
        else:
            self._batches.pop()
            self._next = 0
            self._engine.delivery.advance_past(state)
        return record

    def stow(self) -> None:
        """Put back what was not handed out; a later poll begins with it."""
        while self._batches:
            state, epoch, records = self._batches.pop()
            if state.epoch == epoch:
                state.held = records[self._next :] + state.held
            self._next = 0

    def wait(self, deadline: float, limit: int) -> Any:
        """Poll until there is a record; None at the deadline."""
        while True:
            self.stow()
            taken = self._engine.poll(deadline, limit, advance=False)
            if not taken:
                return None
            now = self._engine.clock()
            self._poll_at = now + 1.0
            partitions = self._engine.delivery.partitions
            self._batches = [
                (partitions[one], partitions[one].epoch, records)
                for one, records in reversed(taken.items())
            ]
            record = self.next()
            if record is not None:
                return record
