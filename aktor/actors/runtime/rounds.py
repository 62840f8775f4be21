"""Rounds: when the supervisor asks the actors what they want to send, and which of them.

A round is due when something has happened since the last one, or when the earliest time has come at
which an actor wants to be asked. It begins with `TickDue`, and ends when the supervisor says so.
"""

from __future__ import annotations

import math
import random

from aktor.events.lifecycle import TickDue

__all__ = ["Rounds"]


class Rounds:
    """Owns the time of the next round, the actors with news, and the randomness in a tick."""

    __slots__ = ("_has_work", "_is_on", "_random", "_wake_at", "news")

    def __init__(self, seed: int | None) -> None:
        self._random = random.Random(seed)
        self._wake_at = -math.inf
        self._has_work = True
        self._is_on = False
        #: The actors that were given a message since they were last asked.
        self.news: set[str] = set()

    @property
    def is_on(self) -> bool:
        """Whether a round is under way."""
        return self._is_on

    @property
    def wake_at(self) -> float:
        """When the next round is due if nothing happens before."""
        return self._wake_at

    def note(self, actor: str) -> None:
        """This actor was given a message other than those of a round."""
        self._has_work = True
        self.news.add(actor)

    def asked(self, actor: str) -> None:
        """This actor is asked now: it has no news any more."""
        self.news.discard(actor)

    def begin(self, now: float) -> TickDue | None:
        """Begin a round if one is due: returns the message for the supervisor."""
        if not self._has_work and now < self._wake_at:
            return None
        self._has_work = False
        self._is_on = True
        return TickDue(now=now, jitter=self._random.random())

    def finish(self, wake_at: float) -> None:
        """The supervisor has asked every actor."""
        self._is_on = False
        self._wake_at = wake_at

    def begin_again(self) -> None:
        """An actor of this round has crashed, so that the round does not end: another is due."""
        self._is_on = False
        self._has_work = True

    def stop(self) -> None:
        """The consumer has failed: a message is no reason for a round any more."""
        self._has_work = False
