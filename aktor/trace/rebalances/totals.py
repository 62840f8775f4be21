"""What is counted over many rebalances: storms, and what each member did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from aktor.trace.rebalances.assembly import Assembly
from aktor.trace.rebalances.parts import Name, Part, milliseconds
from aktor.trace.rebalances.rows import At, MemberTotal, Rebalance, Storm

__all__ = ["QUIET", "STORM", "Storms", "Totals"]

#: A storm has at least so many generations, none of them later than so many seconds after the one
#: before.
STORM: Final = 5
QUIET: Final = 60.0


@dataclass(slots=True, eq=False)
class Storms:
    """Owns the rebalances that follow each other without a quiet time between them."""

    group: str
    _rows: list[Rebalance] = field(default_factory=list)
    _ended: float = float("-inf")

    @property
    def due(self) -> float:
        """When these rebalances are over (`end`) if no other row comes. That is later than QUIET,
        because the row of a rebalance comes a minute after its end."""
        return self._ended + 3 * QUIET if self._rows else float("inf")

    def add(self, row: Rebalance) -> list[Storm]:
        """The next rebalance. Returns the storm that it shows to be over."""
        over = self.end() if row.began > self._ended + QUIET else []
        self._rows.append(row)
        self._ended = max(self._ended, row.ended)
        return over

    def pass_time(self, now: float) -> list[Storm]:
        """The storm that is over by now."""
        return self.end() if now >= self.due else []

    def end(self) -> list[Storm]:
        """The storm that they were, if it was one."""
        rows, self._rows, self._ended = self._rows, [], float("-inf")
        generations = sum(max(1, row.generations) for row in rows)
        if generations < STORM:
            return []
        began, ended = min(row.began for row in rows), max(row.ended for row in rows)
        needless = [row.moved_needlessly for row in rows if row.moved_needlessly is not None]
        trigger, triggered = _most(row.trigger for row in rows)
        initiator, initiated = _most(row.initiator for row in rows if row.initiator is not None)
        return [
            Storm(
                group=self.group,
                began=At(began),
                ended=At(ended),
                duration_ms=milliseconds(began, ended),
                rebalances=len(rows),
                generations=generations,
                moved=sum(row.moved for row in rows),
                moved_needlessly=sum(needless) if needless else None,
                trigger=trigger or "",
                triggered=triggered,
                initiator=initiator,
                initiated=initiated,
            )
        ]


def _most(values: Iterable[str]) -> tuple[str | None, int]:
    """The most frequent one; of equally frequent ones the first by name."""
    counted = Counter(values)
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

    def took_part(self, part: Part) -> None:
        """A member's part in a rebalance is over."""
        total = self.of(part.name)
        total.rebalances += 1
        total.rebalancing_ms = round(total.rebalancing_ms + part.duration_ms, 3)

    def made(self, row: Rebalance, assembly: Assembly) -> None:
        """A rebalance is over."""
        if row.initiator is not None:
            self.of((row.initiator, row.initiator_host)).initiated += 1
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
