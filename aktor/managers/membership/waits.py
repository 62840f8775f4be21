"""What a rebalance waits for at this member's side: polls, the last commit, callbacks."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aktor.managers.membership.revocation import COMMIT, POLL
from aktor.settings import Settings
from aktor.values import Mutable

__all__ = ["Waits"]

#: What takes less, in seconds, is not told.
LEAST: Final = 0.05

#: How a wait is told, if it is none for a callback.
_WORDS: Final = {POLL: "a poll", COMMIT: "the last commit"}


class _Wait(Mutable):
    """From `began` to `ended` the rebalance waited for this step of the application's side; for the
    last `ran` seconds of that the listener ran (if it has ended)."""

    step: str
    began: float
    ended: float
    ran: float = 0.0

    def until(self, now: float) -> None:
        """It lasts until now at least."""
        self.ended = now

    def add(self, seconds: float) -> None:
        """The listener ran for so long, until now."""
        self.ran += seconds


class Waits:
    """Owns what the rebalance under way has waited for at this member's side, and for how long.

    A coordinator takes a member out for which a rebalance has waited too long, and says no more
    than that it does not know it. Only the member knows what it did meanwhile.
    """

    __slots__ = ("_longest", "_now", "_over")

    def __init__(self, settings: Settings) -> None:
        self._longest = settings.max_poll_interval
        self._over: list[_Wait] = []
        #: That under way; its `ended` is not known yet.
        self._now: _Wait | None = None

    def note(self, step: str, now: float, awaited_since: float) -> None:
        """From now on this step is awaited ("": none). What was over when a rebalance can have
        begun to wait for this member is forgotten (inf: none waits)."""
        wait = self._now
        if wait is not None and wait.step != step:
            wait.until(now)
            self._over.append(wait)
            self._now = wait = None
        if self._over:
            self._over = [one for one in self._over if one.ended > awaited_since]
        if step and wait is None:
            self._now = _Wait(step=step, began=now, ended=now)

    def ran(self, seconds: float) -> None:
        """The listener has ended, after so many seconds."""
        if self._now is not None:
            self._now.add(seconds)

    def words(self, since: float, now: float) -> str:
        """What a rebalance has waited for that may have begun at `since`, if the application's side
        was not done when its time was over; else ""."""
        waits, until = list(self._over), since + self._longest
        if self._now is not None:
            self._now.until(now)
            waits.append(self._now)
        if not any(one.began <= until <= one.ended for one in waits):
            return ""
        spent: dict[str, float] = defaultdict(float)
        for one in waits:
            took = one.ended - max(one.began, since)
            if one is self._now and one.step not in _WORDS:
                spent[f"{one.step} to end (or a poll to begin it)"] += took
                continue
            ran = took if one.step in _WORDS else min(one.ran, took)
            spent[_WORDS[POLL]] += took - ran
            spent[_WORDS.get(one.step, one.step)] += ran
        told = [
            f"{seconds:.1f} s for {what}" for what, seconds in spent.items() if seconds >= LEAST
        ]
        if not told:
            return ""
        heard = waits[0].began - since
        late = f", and may have begun {heard:.1f} s before the member heard of it"
        bound = f"it waits for {self._longest:.1f} s at most{late if heard >= LEAST else ''}"
        return f"the rebalance had waited {', '.join(told)} (max_poll_interval_ms: {bound})"
