"""When nothing of a partition was given out although there were records, and why.

The consumer tells it (`delivery.stalled`, `delivery.resumed`), with the reason that it knew then.
That the application has paused a partition is a reason, too, and so is a revoked callback of a
member that leaves: the group hears of it when the callback has returned. Other silences while a
partition goes from one owner to the next are in the table of downtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aktor.trace.alike import without_numbers
from aktor.trace.rebalances.holds import called, of_group, seconds
from aktor.trace.rebalances.parts import Name, milliseconds
from aktor.trace.rebalances.rows import At, Silence

__all__ = ["CALLBACK", "CALLBACK_WORDS", "LEAST", "PAUSED", "PAUSED_WORDS", "Silences"]
__all__ += ["in_sentences", "silence"]

#: The reason of a silence that the application asked for; and its words.
PAUSED = "paused"
PAUSED_WORDS = "the application had paused it"

#: The same of a member that leaves its group (it is closed, or unsubscribes).
CALLBACK = "callback"
CALLBACK_WORDS = (
    "its revoked callback ran before it left the group, which gives its partitions to others only"
    " after that"
)

#: A pause by the application, and a callback, are told if they are as long, in seconds, as a
#: silence has to be.
LEAST = 1.0

#: Silences that began within so many seconds may be one, and so many of them are named.
TOGETHER = 2.0
NAMES = 6


@dataclass(slots=True, eq=False)
class _Silent:
    """A partition of which nothing is given out now."""

    name: Name
    began: float
    #: When each reason was told, the reason, and the sentence.
    told: list[tuple[float, str | None, str | None]] = field(default_factory=list)

    def main(self, until: float) -> tuple[float, str | None, str | None]:
        """The reason that lasted longest, when it was told, and its sentence."""
        ends = [*(at for at, _, _ in self.told[1:]), until]
        begins = [self.began, *(at for at, _, _ in self.told[1:])]
        longest = max(range(len(self.told)), key=lambda n: ends[n] - begins[n])
        return self.told[longest]


@dataclass(slots=True, eq=False)
class Silences:
    """Knows the partitions of one group of which nothing is given out, by consumer."""

    group: str
    _silent: dict[tuple[str, str], _Silent] = field(default_factory=dict)

    def begin(
        self,
        source: str,
        name: Name,
        partition: str,
        since: float,
        at: float,
        reason: str | None,
        because: str | None,
    ) -> None:
        """Nothing is given out of it since then. Told again: for another reason now."""
        silent = self._silent.setdefault((source, partition), _Silent(name, since))
        silent.told.append((at, reason, because))

    def is_for(self, source: str, partition: str, reason: str) -> bool:
        """Whether nothing is given out of it, for this reason."""
        silent = self._silent.get((source, partition))
        return silent is not None and silent.told[-1][1] == reason

    def end(
        self, source: str, partition: str, at: float, seconds: float | None = None
    ) -> Silence | None:
        """Records are given out again, or the partition is given up. `seconds`: how long it lasted
        by the consumer's own clock, which never jumps. (It says so of what it has told, not of a
        pause, which it is told of itself.)"""
        silent = self._silent.get((source, partition))
        if silent is None or (seconds is not None and silent.told[0][1] == PAUSED):
            return None
        del self._silent[source, partition]
        if seconds is not None and seconds >= 0.0:
            silent.began = at - seconds
        row = self._row(partition, silent, at, at)
        brief = row.duration_ms is not None and row.duration_ms < LEAST * 1000
        return None if brief and row.reason in (PAUSED, CALLBACK) else row

    def close(self, ends: Mapping[str, float]) -> Iterator[Silence]:
        """These traces end, at these times, and their silences go on."""
        for source, partition in sorted(key for key in self._silent if key[0] in ends):
            silent = self._silent.pop((source, partition))
            yield self._row(partition, silent, None, max(ends[source], silent.began))

    @property
    def goes_on(self) -> set[tuple[str, str]]:
        """Of which nothing is given out now: the trace of the owner, and the partition."""
        return set(self._silent)

    def _row(self, partition: str, silent: _Silent, ended: float | None, seen: float) -> Silence:
        told, reason, because = silent.main(seen)
        # The reason has times of its own, as of then.
        ago = milliseconds(silent.began, told)
        # (A process that stood still says so when that is over.)
        says = because not in (PAUSED_WORDS, CALLBACK_WORDS) and told < seen
        then = f"; it said after {seconds(ago)}" if ago and says else ""
        name, began = silent.name, silent.began
        return silence(self.group, name, partition, began, ended, seen, reason, because, then)


def silence(
    group: str,
    name: Name,
    partition: str,
    began: float,
    ended: float | None,
    seen: float,
    reason: str | None,
    because: str | None,
    then: str = "",
) -> Silence:
    """The row of a silence; `seen`: when it ended, or the traces; `then`: when the reason was
    told."""
    lasted = milliseconds(began, seen)
    goes_on = "" if ended is not None else ", and it goes on"
    return Silence(
        group=group,
        partition=partition,
        consumer=name[0],
        host=name[1],
        began=At(began),
        ended=None if ended is None else At(ended),
        duration_ms=None if ended is None else lasted,
        reason=reason,
        because=because,
        sentence=f"{of_group(group)}: {called(name)} was given nothing from {partition} for"
        f" {seconds(lasted)}{goes_on}{then}:"
        f" {(because or reason or 'its trace does not say why').rstrip('.')}.",
    )


def in_sentences(rows: Iterable[Silence]) -> Iterator[tuple[float, str]]:
    """When silences began, and what is to be said of them. What one consumer was given nothing from
    for one reason, from about the same time on, is one sentence: a broker has many partitions."""
    alike: dict[tuple[str | None, ...], list[Silence]] = {}
    for row in sorted(rows, key=lambda row: row.began):
        key = row.group, row.consumer, row.host, row.reason, without_numbers(row.because)
        before = alike.setdefault(key, [])
        if before and row.began > before[0].began + TOGETHER:
            yield _as_one(before)
            before.clear()
        before.append(row)
    yield from map(_as_one, alike.values())


def _as_one(rows: list[Silence]) -> tuple[float, str]:
    longest = max(
        rows, key=lambda row: float("inf") if row.ended is None else row.ended - row.began
    )
    names = list(dict.fromkeys(row.partition for row in rows))
    if len(names) == 1:
        return longest.began, longest.sentence
    told = ", ".join(names[:NAMES]) + (f", ... ({len(names)})" if len(names) > NAMES else "")
    one, all_of_them = f"nothing from {longest.partition} for", f"nothing from {told} for up to"
    return rows[0].began, longest.sentence.replace(one, all_of_them, 1)
