"""What is counted over many rebalances: storms, and what each member did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aktor.trace.rebalances.assembly import Assembly
from aktor.trace.rebalances.parts import Name, milliseconds
from aktor.trace.rebalances.rows import At, MemberTotal, Rebalance, Storm

__all__ = ["QUIET", "STORM", "Storms", "Totals"]

#: A storm has at least so many generations, none of them later than so many seconds after the one
#: before.
STORM: Final = 5
QUIET: Final = 60.0


@dataclass(slots=True, eq=False)
class _Counts:
    """What is counted of rebalances that follow each other."""

    began: float = float("inf")
    ended: float = float("-inf")
    rebalances: int = 0
    generations: int = 0
    moved: int = 0
    #: None: it is known of none of them.
    needless: int | None = None
    triggers: Counter[str] = field(default_factory=Counter)
    initiators: Counter[str] = field(default_factory=Counter)

    def add(self, row: Rebalance) -> None:
        """The next one."""
        self.began, self.ended = min(self.began, row.began), max(self.ended, row.ended)
        self.rebalances += 1
        self.generations += max(1, row.generations)
        self.moved += row.moved
        if row.moved_needlessly is not None:
            self.needless = (self.needless or 0) + row.moved_needlessly
        self.triggers[row.trigger] += 1
        if row.initiator is not None:
            self.initiators[row.initiator] += 1

    def row(self, group: str) -> Storm:
        """The storm that they were."""
        trigger, triggered = _most(self.triggers)
        initiator, initiated = _most(self.initiators)
        return Storm(
            group=group,
            began=At(self.began),
            ended=At(self.ended),
            duration_ms=milliseconds(self.began, self.ended),
            rebalances=self.rebalances,
            generations=self.generations,
            moved=self.moved,
            moved_needlessly=self.needless,
            trigger=trigger or "",
            triggered=triggered,
            initiator=initiator,
            initiated=initiated,
        )


@dataclass(slots=True, eq=False)
class Storms:
    """Owns the counts of the rebalances that follow each other without a quiet time between
    them."""

    group: str
    _counts: _Counts = field(default_factory=_Counts)

    @property
    def due(self) -> float:
        """When these rebalances are over (`end`) if no other row comes. That is later than QUIET,
        because the row of a rebalance comes a minute after its end."""
        return self._counts.ended + 3 * QUIET if self._counts.rebalances else float("inf")

    def add(self, row: Rebalance) -> list[Storm]:
        """The next rebalance. Returns the storm that it shows to be over."""
        over = self.end() if row.began > self._counts.ended + QUIET else []
        self._counts.add(row)
        return over

    def pass_time(self, now: float) -> list[Storm]:
        """The storm that is over by now."""
        return self.end() if now >= self.due else []

    def end(self) -> list[Storm]:
        """The storm that they were, if it was one."""
        over, self._counts = self._counts, _Counts()
        return [over.row(self.group)] if over.generations >= STORM else []


def _most(counted: Counter[str]) -> tuple[str | None, int]:
    """The most frequent one; of equally frequent ones the first by name."""
    if not counted:
        return None, 0
    return min(counted.items(), key=lambda item: (-item[1], item[0]))


@dataclass(slots=True, eq=False)
class Total:
    """The counts of one name."""

    lives: int = 0
    rebalances: int = 0
    initiated: int = 0
    slowest: int = 0
    rebalancing_ms: float = 0.0
    longest_callback_ms: float = 0.0
    lost: int = 0
    late_polls: int = 0
    refused_commits: int = 0
    resets: int = 0

    def called_back(self, ms: float) -> None:
        """A rebalance listener's call took this long."""
        self.longest_callback_ms = max(self.longest_callback_ms, ms)


@dataclass(slots=True, eq=False)
class Totals:
    """Owns the counts of all names: of each client id on each host."""

    group: str
    _totals: dict[Name, Total] = field(default_factory=dict)

    def of(self, name: Name) -> Total:
        """The counts of this name."""
        return self._totals.setdefault(name, Total())

    def begin_life(self, name: Name) -> None:
        """There is another consumer with this name."""
        self.of(name).lives += 1

    def made(self, row: Rebalance, assembly: Assembly) -> None:
        """A rebalance is over. A member may have several parts in it (a KIP-848 member has one for
        each target): it is in it from the beginning of the first to the end of the last."""
        members: dict[Name, tuple[float, float]] = {}
        for part in assembly.parts:
            began, ended = members.get(part.name, (part.began, part.began))
            last = part.seen if part.ended is None else part.ended
            members[part.name] = min(began, part.began), max(ended, last)
            # (Also one that ran yet when its process was killed.)
            self.of(part.name).called_back(max(part.callbacks.values(), default=0.0))
        for name, (began, ended) in members.items():
            total = self.of(name)
            total.rebalances += 1
            total.rebalancing_ms = round(total.rebalancing_ms + milliseconds(began, ended), 3)
        for name in {trigger.name for trigger in assembly.triggers}:
            if name[0] is not None:
                self.of(name).initiated += 1
        if row.members > 1:
            self.of(assembly.slowest.name).slowest += 1

    def rows(self) -> Iterator[MemberTotal]:
        """As they are now."""
        for (consumer, host), total in sorted(self._totals.items(), key=lambda item: str(item[0])):
            yield MemberTotal(
                group=self.group,
                consumer=consumer,
                host=host,
                lives=total.lives,
                rebalances=total.rebalances,
                initiated=total.initiated,
                slowest=total.slowest,
                rebalancing_ms=total.rebalancing_ms,
                longest_callback_ms=total.longest_callback_ms,
                lost=total.lost,
                late_polls=total.late_polls,
                refused_commits=total.refused_commits,
                resets=total.resets,
            )
