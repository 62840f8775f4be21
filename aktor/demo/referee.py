"""The referee: is told all that was written and read, and judges whether anything went wrong.

It knows no process, clock or Kafka, and believes nobody: what a member reads is compared with what
the producer wrote there, record by record.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Gap", "Ownership", "Rebalance", "Referee", "Verdict"]

KILLED = "killed"

#: What a member says that learnt of a rebalance from the group: others know why it began.
HEARSAY = "the coordinator said that the group rebalances"


@dataclass(slots=True, kw_only=True)
class Ownership:
    """One member's time with one partition. `how` it ended: "revoked", "lost", "killed" or None."""

    member: str
    partition: int
    began: float
    how: str | None = None
    next: int | None = None
    committed: int = -1
    read_from: float = 0.0
    read_until: float = 0.0

    def explains_repeat(self, offset: int) -> bool:
        """Whether `offset`, read in this time, may be read again after it."""
        return self.how == KILLED and offset >= self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How long a partition stood still while records were waiting in it."""

    partition: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One generation of the group: what began it, and how long its slowest member took."""

    generation: int
    trigger: str
    ms: float
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happened to the records, and `faults`: one sentence for each thing that went wrong.

    `deliveries` counts every time a record was given out, `delivered` every record once.
    `lag` is what Kafka says the group has not committed; None if it could not be asked.
    """

    written: int
    deliveries: int
    delivered: int
    lost: int
    repeated_by_kill: int
    repeated_otherwise: int
    lag: int | None
    rebalances: tuple[Rebalance, ...]
    gap_of_killed: Gap | None
    gap_of_others: Gap | None
    faults: tuple[str, ...]


@dataclass(slots=True)
class _Completed:
    """A generation as its members reported it."""

    because: dict[str, str] = field(default_factory=dict)
    ms: float = 0.0
    at: float = 0.0


class Referee:
    """Owns the books: orders by partition and offset, ownerships, generations, and the faults.

    Members are named by a text that no two processes share. Times are seconds of one clock.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._written: dict[int, dict[int, int]] = {one: {} for one in range(partitions)}
        #: In which ownership each offset was read last.
        self._read: dict[int, dict[int, Ownership]] = {one: {} for one in range(partitions)}
        self._claims: list[tuple[int, int, Sequence[int]]] = []
        self._deliveries = 0
        self._repeats: list[tuple[int, Ownership]] = []
        self._owned: dict[str, dict[int, Ownership]] = defaultdict(dict)
        self._ownerships: dict[int, list[Ownership]] = defaultdict(list)
        self._last_read: dict[int, float] = {}
        self._gaps: dict[int, float] = defaultdict(float)
        self._generations: dict[int, _Completed] = defaultdict(_Completed)
        self._killed: dict[str, tuple[float, frozenset[int]]] = {}
        self._returned: set[str] = set()
        self._faults: list[str] = []

    # -- what it is told

    def fault(self, sentence: str) -> None:
        """Something else went wrong that spoils the game."""
        self._faults.append(sentence)

    def wrote(self, partition: int, first: int, orders: Sequence[int]) -> None:
        """Kafka has acknowledged these orders at `first` and the offsets after it."""
        for offset, order in enumerate(orders, first):
            if offset in self._written[partition]:
                self.fault(f"two orders were acknowledged at {_place(partition, offset)}")
            self._written[partition][offset] = order

    def assigned(self, member: str, partitions: Iterable[int], at: float) -> None:
        """These are the member's from now on."""
        how = KILLED if member in self._killed else None
        for one in partitions:
            ownership = Ownership(member=member, partition=one, began=at, how=how)
            self._owned[member][one] = ownership
            self._ownerships[one].append(ownership)

    def released(self, member: str, partitions: Iterable[int], how: str) -> None:
        """The member gave these up ("revoked"), or noticed that they are not its own ("lost")."""
        for one in partitions:
            ownership = self._owned[member].pop(one, None)
            if ownership is None:
                self.fault(f"{member} gave up partition {one}, which it did not own")
            else:
                ownership.how = how

    def killed(self, member: str, at: float) -> None:
        """The member was killed: what it had read and not committed will be read again."""
        self._killed[member] = (at, frozenset(self._owned[member]))
        for ownership in self._owned[member].values():
            ownership.how = KILLED

    def returned(self, member: str) -> None:
        """The member was started in place of one that was killed."""
        self._returned.add(member)

    def read(
        self,
        member: str,
        partition: int,
        first: int,
        orders: Sequence[int],
        waited: float,
        at: float,
    ) -> None:
        """The member was given these orders, at `first` and the offsets after it.

        `waited` is how long the first of them had been in the partition.
        """
        ownership = self._owned[member].get(partition)
        if ownership is None:
            self.fault(f"{member} read {_place(partition, first)} without owning the partition")
            ownership = Ownership(member=member, partition=partition, began=at)
        self._in_order(ownership, first, len(orders), at)
        books = self._read[partition]
        for offset in range(first, first + len(orders)):
            if offset in books:
                self._repeats.append((offset, books[offset]))
            books[offset] = ownership
        self._claims.append((partition, first, orders))
        self._deliveries += len(orders)
        last = self._last_read.get(partition)
        stood_still = waited if last is None else min(waited, at - last)
        self._gaps[partition] = max(self._gaps[partition], stood_still)
        self._last_read[partition] = at

    def _in_order(self, ownership: Ownership, first: int, count: int, at: float) -> None:
        if ownership.next is None:
            ownership.read_from = at
        elif ownership.next != first:
            self.fault(
                f"{ownership.member} read {_place(ownership.partition, first)} where"
                f" {ownership.next} was next"
            )
        ownership.next = first + count
        ownership.read_until = at

    def committed(self, member: str, offsets: Mapping[int, int]) -> None:
        """The member has committed these offsets."""
        for one, offset in offsets.items():
            ownership = self._owned[member].get(one)
            if ownership is None:
                self.fault(f"{member} committed partition {one}, which it did not own")
            else:
                ownership.committed = offset

    def rebalanced(self, member: str, generation: int, because: str, ms: float, at: float) -> None:
        """The member is in this generation now, `ms` milliseconds after it heard of it."""
        completed = self._generations[generation]
        completed.because[member] = because
        completed.ms = max(completed.ms, ms)
        completed.at = max(completed.at, at)

    # -- what it can be asked meanwhile

    @property
    def outstanding(self) -> int:
        """How many written records nobody has read yet."""
        return sum(self.lag_of(one) for one in range(self.partitions))

    def lag_of(self, partition: int) -> int:
        """How many records of a partition nobody has read yet."""
        return max(0, len(self._written[partition]) - len(self._read[partition]))

    def owners(self) -> dict[int, str]:
        """Who owns what now; of a killed member still, until another takes it over."""
        return {one: times[-1].member for one, times in self._ownerships.items() if times}

    def is_covered_by(self, members: Iterable[str]) -> bool:
        """Whether all partitions are owned by these members, and each of them owns some."""
        held = [one for member in members for one in self._owned[member]]
        return sorted(held) == list(range(self.partitions)) and all(
            self._owned[member] for member in members
        )

    # -- the verdict

    def verdict(self, lag: int | None) -> Verdict:
        """Judge. `lag` is what the group has not committed, as Kafka says."""
        lost = self._lost()
        otherwise = [(o, before) for o, before in self._repeats if not before.explains_repeat(o)]
        gap_of_killed, gap_of_others = self._longest_gaps()
        return Verdict(
            written=sum(map(len, self._written.values())),
            deliveries=self._deliveries,
            delivered=sum(map(len, self._read.values())),
            lost=len(lost),
            repeated_by_kill=len(self._repeats) - len(otherwise),
            repeated_otherwise=len(otherwise),
            lag=lag,
            rebalances=tuple(self._rebalances()),
            gap_of_killed=gap_of_killed,
            gap_of_others=gap_of_others,
            faults=(
                *_first_few(self._faults),
                *_lost_faults(lost),
                *_repeat_faults(otherwise),
                *_first_few([*self._false_claims(), *self._overlaps()]),
                *self._missing_rebalances(),
                *_lag_faults(lag),
            ),
        )

    def _lost(self) -> list[tuple[int, int]]:
        return [
            (one, offset)
            for one, orders in self._written.items()
            for offset in sorted(orders.keys() - self._read[one].keys())
        ]

    def _false_claims(self) -> list[str]:
        """Orders that were read and are not what was written there."""
        faults = []
        for one, first, orders in self._claims:
            for offset, order in enumerate(orders, first):
                written = self._written[one].get(offset)
                if written != order:
                    truth = "nothing" if written is None else f"order {written}"
                    place = _place(one, offset)
                    faults.append(f"order {order} was read at {place}, where {truth} was written")
        return faults

    def _overlaps(self) -> list[str]:
        """Partitions that two members read at the same time."""
        faults = []
        for one, times in self._ownerships.items():
            used = sorted((t for t in times if t.next is not None), key=lambda t: t.read_from)
            for before, after in itertools.pairwise(used):
                if before.member != after.member and before.read_until > after.read_from:
                    faults.append(
                        f"{before.member} and {after.member} read partition {one} at the same time"
                    )
        return faults

    def _missing_rebalances(self) -> list[str]:
        faults = []
        for member, (at, partitions) in self._killed.items():
            heirs = {
                time.partition
                for one in partitions
                for time in self._ownerships[one]
                if time.began > at and time.member != member
            }
            if not any(completed.at > at for completed in self._generations.values()):
                faults.append(f"the group did not rebalance after {member} was killed")
            if left := sorted(partitions - heirs):
                faults.append(f"nobody took over the partitions {left} of {member}")
        had = {time.member for times in self._ownerships.values() for time in times}
        faults += [f"{one} came back and got no partition" for one in self._returned - had]
        return faults

    def _rebalances(self) -> Iterable[Rebalance]:
        seen: set[str] = set()
        dead: set[str] = set()
        for generation, completed in sorted(self._generations.items()):
            members = tuple(sorted(completed.because))
            came = [one for one in members if one not in seen]
            gone = [
                one
                for one, (at, _) in self._killed.items()
                if one not in dead and at < completed.at
            ]
            seen.update(members)
            dead.update(gone)
            causes = [
                f"{one} came back" if one in self._returned else f"{one} joined" for one in came
            ]
            causes += [f"{one} was killed" for one in gone]
            reasons = set(completed.because.values())
            yield Rebalance(
                generation=generation,
                trigger="; ".join(causes or sorted(reasons - {HEARSAY}) or [HEARSAY]),
                ms=completed.ms,
                members=members,
            )

    def _longest_gaps(self) -> tuple[Gap | None, Gap | None]:
        """The longest of the partitions that a killed member owned, and of all others."""
        orphans = {one for _, partitions in self._killed.values() for one in partitions}
        gaps = [Gap(partition=one, seconds=seconds) for one, seconds in self._gaps.items()]
        return (
            max((g for g in gaps if g.partition in orphans), key=_seconds, default=None),
            max((g for g in gaps if g.partition not in orphans), key=_seconds, default=None),
        )


def _seconds(gap: Gap) -> float:
    return gap.seconds


def _place(partition: int, offset: int) -> str:
    return f"partition {partition}, offset {offset}"


def _first_few(faults: Sequence[str], limit: int = 5) -> list[str]:
    more = len(faults) - limit
    return [*faults[:limit], *([f"... and {more} more of this kind"] if more > 0 else [])]


def _lost_faults(lost: Sequence[tuple[int, int]]) -> list[str]:
    if not lost:
        return []
    return [f"{len(lost)} records were written and never read, the first: {_place(*lost[0])}"]


def _repeat_faults(repeats: Sequence[tuple[int, Ownership]]) -> list[str]:
    if not repeats:
        return []
    offset, before = repeats[0]
    ended = f"ended: {before.how}" if before.how else "still its owner"
    return [
        f"{len(repeats)} records were read twice without a reason, the first:"
        f" {_place(before.partition, offset)}, after {before.member} had read it"
        f" (committed {before.committed}, {ended})"
    ]


def _lag_faults(lag: int | None) -> list[str]:
    if lag is None:
        return ["Kafka could not be asked for the group's lag"]
    return [f"the group's lag is {lag}, not 0"] if lag else []
