"""What a thread was given last and may not be finished with, while other threads call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from aktor.consumer.core.caller import CallerRef, is_another, nobody
from aktor.consumer.core.partition import Consumed, Partition

__all__ = ["Given", "InHand"]

#: A partition whose records were given out, its epoch, and its position before them.
Given: TypeAlias = tuple[Partition, int, Consumed]


class InHand:
    """Owns the positions before the records that were given to another thread last.

    If a call closes the consumer, the positions go back to these, so that records are not committed
    that their thread may never finish, because the program ends."""

    __slots__ = ("_to", "given")

    def __init__(self) -> None:
        self._to: CallerRef = nobody
        #: Each with the offset after its records. If the position is another one by now, that
        #: thread has come back for more, and so has finished them.
        self.given: list[tuple[Given, int | None]] = []

    def begin_call(self, to: CallerRef, given: Sequence[Given]) -> None:
        """A call begins. These were given to that thread since the call before."""
        if given and is_another(to):
            self._to = to
            self.given = [(one, one[0].offset) for one in given]
        elif self.given and not is_another(self._to):
            self.forget()

    def forget(self) -> None:
        """Another thread polls, or commits: so they count as finished."""
        self.given = []

    def take_back(self) -> None:
        """Set the positions back, unless that thread is this one, or has ended."""
        if self.given and is_another(self._to):
            for (state, epoch, before), after in self.given:
                if (state.epoch, state.offset) == (epoch, after):
                    state.take_back(before)
        self.forget()
