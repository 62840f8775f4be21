"""Which consumer of a group owns a partition, and how long nothing of it was delivered."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from aktor.trace.rebalances.parts import Expelled, Name, Part, milliseconds, one_clock
from aktor.trace.rebalances.rows import At, Downtime, OwnedPartition

__all__ = ["OVERLAP", "Owner", "Ownership"]

#: An owner that never said that it released its partition may go on delivering for so many seconds
#: beside the next one: it was fenced and does not know it, or the clocks of their hosts differ.
OVERLAP: Final = 30.0

#: Of so many pairs of members is noted that their clocks differ.
PAIRS: Final = 1_000


@dataclass(slots=True, eq=False)
class Owner:
    """An owner of a partition, for as long as it owns it."""

    source: str
    name: Name
    assigned: float
    released: float | None = None
    #: Since when it was given nothing of it because it had to give it up.
    withheld: float | None = None
    #: When records were delivered to it first.
    first: float | None = None
    #: When records were delivered to it last, and the offset after these. If none were delivered
    #: before the next owner came, these are the values of the owner before it.
    last: float | None = None
    next_offset: int | None = None
    #: The part of a rebalance in which it was given the partition, and in which it was revoked.
    given_in: Part | None = None
    revoked_in: Part | None = None
    #: The generation of a classic group in which it released it.
    released_in: int | None = None
    #: Between the owner before and this one somebody else may have had it; and there was a member
    #: without a trace.
    had_another: bool = False
    had_unseen: bool = False
    #: The next owner got the partition though this one had not released it.
    expelled: Expelled | None = None
    #: `before`: the owner before; None as soon as the row of the hand-over is made. `resumed` and
    #: `first_offset`: when this owner delivered first, and the offset of that record.
    before: Owner | None = None
    resumed: float | None = None
    first_offset: int | None = None
    #: The first offset that was delivered to it, and the owner before it if that one had not
    #: released the partition.
    began_with: int | None = None
    beside: Owner | None = None

    @property
    def taken_since(self) -> float | None:
        """Since when nothing of it is given out because it was taken, or is being taken."""
        return self.withheld if self.withheld is not None else self.released


@dataclass(slots=True, eq=False)
class Ownership:
    """Knows the owner of each partition of one group."""

    group: str
    #: Rows of owners that are none any more.
    over: list[OwnedPartition] = field(default_factory=list)
    #: By how many seconds the clock of the first one is ahead of the second one's, at least: it was
    #: given the earlier records, and says that this was later.
    ahead: dict[tuple[Name, Name], float] = field(default_factory=dict)
    #: The same: the first one released a partition, as the coordinator had asked it to, and says
    #: that this was later than when the second one was given it.
    handed_over: dict[tuple[Name, Name], float] = field(default_factory=dict)
    _owners: dict[str, Owner] = field(default_factory=dict)
    #: When the new owner delivered first, for partitions that the old owner did not release.
    _resumed: dict[str, float] = field(default_factory=dict)

    @property
    def is_waiting(self) -> bool:
        """Whether there is a hand-over whose row is made when OVERLAP seconds have passed."""
        return bool(self._resumed)

    @property
    def due(self) -> float:
        """When the first of these rows is due."""
        return min(self._resumed.values(), default=math.inf) + OVERLAP

    def pass_time(self, now: float) -> Iterator[Downtime]:
        """The rows of the hand-overs that are due by `now`: for OVERLAP seconds the old owner has
        delivered nothing beside the new one."""
        due = [partition for partition, at in self._resumed.items() if at + OVERLAP <= now]
        for partition in sorted(due):
            row = self._end_wait(partition, self._owners[partition])
            if row is not None:
                yield row

    @property
    def sources(self) -> set[str]:
        """Whose traces do not say that they have released what they own."""
        return {owner.source for owner in self._owners.values() if owner.released is None}

    def now(self, members: Collection[str]) -> dict[str, str]:
        """The sources of the owners that are in the group."""
        return {
            partition: owner.source
            for partition, owner in self._owners.items()
            if owner.released is None and owner.source in members
        }

    def assign(
        self, partition: str, source: str, name: Name, at: float, part: Part | None
    ) -> tuple[Owner | None, Downtime | None]:
        """The partition has this owner from now on. Returns the owner before, and the row of the
        hand-over to that one if it was not made yet."""
        before = self._owners.get(partition)
        if before is not None and before.source == source and before.released is None:
            return before, None  # owned all the time; or a line that came twice
        unused = self._end_wait(partition, before) if before is not None else None
        owner = self._owners[partition] = Owner(source, name, at, given_in=part, before=before)
        if before is not None and before.released is None and before.source != source:
            owner.beside = before
            before.beside = None  # of each hand-over only the last one is needed
        if part is not None:
            part.added.append((partition, before.source if before is not None else None))
        return before, unused

    def release(
        self,
        partition: str,
        source: str,
        at: float,
        part: Part | None,
        generation: int | None = None,
        *,
        is_member: bool,
    ) -> Downtime | None:
        """This owner has released the partition, in this generation of a classic group;
        `is_member`: it is in its group, as it says. Returns the row of the hand-over to it if that
        was not made yet: the owner delivered nothing, or OVERLAP had not passed."""
        owner = self._owners.get(partition)
        if owner is None:
            return None
        if owner.source != source:
            return self._release_late(partition, owner, source, at, is_member=is_member)
        owner.released, owner.released_in = at, generation
        if part is not None:
            part.revoked.add(partition)
            owner.revoked_in = part
        return self._end_wait(partition, owner)

    def withhold(self, partition: str, source: str, at: float) -> None:
        """This owner has to give the partition up, and is given nothing of it from now on."""
        owner = self._owners.get(partition)
        if owner is not None and owner.source == source and owner.withheld is None:
            owner.withheld = at

    def had_another(self, partition: str, *, unseen: bool) -> None:
        """Somebody may have had it between its present owner and the one before. `unseen`: a member
        without a trace was there."""
        owner = self._owners[partition]
        owner.had_another, owner.had_unseen = True, unseen

    def owner(self, partition: str) -> Owner | None:
        """Who had it last."""
        return self._owners.get(partition)

    def in_transit(self) -> Iterator[tuple[str, Owner]]:
        """The partitions that were taken from their owners, or are being taken, and that no other
        member has."""
        for partition, owner in sorted(self._owners.items()):
            if owner.released is not None or owner.withheld is not None:
                yield partition, owner

    def _release_late(
        self, partition: str, owner: Owner, source: str, at: float, *, is_member: bool
    ) -> Downtime | None:
        """By the clock of its host the owner before released it after it had a new one."""
        if owner.before is None or owner.before.source != source:
            return None
        owner.before.released = at
        if owner.before.expelled is not None:
            owner.before.expelled.released = at
            owner.before.expelled.was_member = is_member
        if is_member:
            _note(self.handed_over, owner.before.name, owner.name, at - owner.assigned)
        return None if owner.resumed is None else self._end_wait(partition, owner)

    def deliver(
        self,
        partition: str,
        source: str,
        name: Name,
        times: tuple[float, float],
        first: int | None,
        end: int | None,
    ) -> Downtime | None:
        """Records were delivered, the first and the last of them at these times. Returns the end of
        a wait for it."""
        at, last = times
        owner = self._owners.get(partition)
        if owner is None:
            # The trace begins after the assignment.
            owner = self._owners[partition] = Owner(source, name, at)
        before = owner.before
        if owner.source == source:
            if owner.first is None:
                owner.first, owner.began_with = at, first
            if owner.beside is not None:
                self._compare(owner, owner.beside, at, end)
            if owner.withheld is not None and last > owner.withheld:
                owner.withheld = None  # it was not taken from it after all
            owner.last, owner.next_offset = last, end
            if before is None or owner.resumed is not None:
                return None
            owner.resumed, owner.first_offset = at, first
            if before.released is not None:
                return self._end_wait(partition, owner)
            self._resumed[partition] = at
        elif before is not None and before.source == source:
            if owner.resumed is not None and last >= owner.resumed:
                return self._end_wait(partition, owner, overlap=True)
            if before.first is None:
                before.first = at
            before.last, before.next_offset = last, end
        return None

    def _compare(self, owner: Owner, before: Owner, at: float, end: int | None) -> None:
        """Whether this owner is given what precedes all that the one before it was given."""
        began, offset = before.first, before.began_with
        if began is None or offset is None or end is None or end > offset or at <= began:
            owner.beside = None
            return
        _note(self.ahead, owner.name, before.name, at - began)

    def end(self) -> Iterator[Downtime]:
        """The traces end: what is still waited for."""
        for partition, owner in sorted(self._owners.items()):
            row = self._end_wait(partition, owner)
            if row is not None:
                yield row
            self._end(partition, owner)

    def _end(self, partition: str, owner: Owner, *, overlap: bool = False) -> None:
        """Nothing more is told of this owner."""
        last = None if owner.first is None or overlap else owner.last
        self.over.append(
            OwnedPartition(
                group=self.group,
                partition=partition,
                trace=owner.source,
                consumer=owner.name[0],
                host=owner.name[1],
                assigned=At(owner.assigned),
                released=None if owner.released is None else At(owner.released),
                first_delivered=None if owner.first is None else At(owner.first),
                last_delivered=None if last is None else At(last),
            )
        )

    def _end_wait(self, partition: str, owner: Owner, *, overlap: bool = False) -> Downtime | None:
        before, owner.before = owner.before, None
        self._resumed.pop(partition, None)
        if before is None:
            return None
        self._end(partition, before, overlap=overlap)
        # With an overlap the last delivery of the old owner is not known: `Deliveries` leaves out
        # some of its lines.
        last, expected = (None, None) if overlap else (before.last, before.next_offset)
        if owner.last is None:
            # The pause goes on: it lasts until an owner delivers something.
            owner.last, owner.next_offset = before.last, before.next_offset
        resumed, first, released = owner.resumed, owner.first_offset, before.released
        gap = None if last is None or resumed is None else milliseconds(last, resumed)
        repeated = None if expected is None or first is None else expected - first
        # (Records that nobody read here were committed by somebody.)
        is_passed_over = repeated is not None and repeated < 0
        unseen = owner.had_another and (owner.had_unseen or is_passed_over)
        if gap is not None and owner.given_in is not None:
            owner.given_in.gaps.append(gap)
            owner.given_in.unseen_gaps += unseen
        hosts = before.name[1], owner.name[1]
        return Downtime(
            group=self.group,
            partition=partition,
            from_consumer=before.name[0],
            from_host=hosts[0],
            to_consumer=owner.name[0],
            to_host=hosts[1],
            moved=before.source != owner.source,
            last_delivered=None if last is None else At(last),
            released=None if released is None else At(released),
            assigned=At(owner.assigned),
            first_delivered=None if resumed is None else At(resumed),
            downtime_ms=gap,
            unowned_ms=None if released is None else milliseconds(released, owner.assigned),
            expected_offset=expected,
            first_offset=first,
            repeated=repeated,
            overlap=overlap,
            unseen_owner=unseen,
            same_host=None if None in hosts else hosts[0] == hosts[1],
        )


def _note(ahead: dict[tuple[Name, Name], float], one: Name, other: Name, seconds: float) -> None:
    """The clock of the one is so much ahead of the other's, at least."""
    names = one, other
    if not one_clock(one, other) and (names in ahead or len(ahead) < PAIRS):
        ahead[names] = max(ahead.get(names, 0.0), seconds)
