"""A rebalance that is put together of its members' parts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aktor.trace.rebalances.balance import least_moves
from aktor.trace.rebalances.causes import Cause
from aktor.trace.rebalances.parts import CALLBACKS, PHASES, Part, milliseconds
from aktor.trace.rebalances.rows import At, MemberPart, Rebalance

__all__ = ["REACH", "SKEW", "Assembly", "Departure", "Moves"]

#: A member that left or was lost so many seconds before explains a rebalance: the other members
#: learn of it by a heartbeat.
REACH: Final = 30.0

#: Clocks of hosts differ by so many seconds.
SKEW: Final = 2.0

#: A part with one of these causes did not trigger the rebalance: another member or the first round
#: did, or its trace does not say why it began.
_OF_OTHERS: Final = frozenset({Cause.PEER, Cause.SECOND_ROUND, Cause.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Departure:
    """A member left its group, or was lost."""

    at: float
    cause: Cause
    because: str | None
    name: tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Moves:
    """Which partitions changed hands, and what would have been enough."""

    partitions: int = 0
    moved: int = 0
    first: int = 0
    least: int | None = None
    needlessly: int | None = None
    unseen: int = 0


@dataclass(slots=True, eq=False)
class Assembly:
    """Parts that belong together, because of their generation or what they hand to each other."""

    parts: list[Part] = field(default_factory=list)
    generations: set[int] = field(default_factory=set)
    #: When it is complete, unless more of it is told until then.
    due: float = math.inf
    #: Departures until then explain no rebalance that comes later.
    explained: float = -math.inf
    #: When the last part ended: who owned which partition, and who was in the group.
    owners: Mapping[str, str] = field(default_factory=dict)
    members: Collection[str] = ()

    @property
    def ended(self) -> float | None:
        """When its last part ended; None as long as one goes on."""
        ends = [part.ended for part in self.parts]
        return None if None in ends else max(end for end in ends if end is not None)

    @property
    def slowest(self) -> Part:
        """The part that was done last."""
        parts = sorted(self.parts, key=lambda part: (part.began, part.source))
        return max(parts, key=lambda part: (part.ended or 0.0, part.duration_ms))

    @property
    def counted(self) -> tuple[int, int]:
        """How many members the leader of the last generation counted (0 if its trace is not here),
        and how many of them have traces."""
        last = max(self.generations, default=None)
        parts = [part for part in self.parts if part.generation == last]
        counted = max((part.counted for part in parts), default=0)
        return counted, len({part.source for part in parts}.union(self.members))

    @property
    def began(self) -> float:
        """When its first part began."""
        return min(part.began for part in self.parts)

    def take(self, other: Assembly) -> None:
        """The other one is the same rebalance."""
        self.parts += other.parts
        self.generations |= other.generations

    def trigger(self, departures: Iterable[Departure]) -> Departure | None:
        """The first part or departure that gives a cause of its own: it triggered the rebalance.
        None if it is later than the beginning by more than SKEW: then no trace has the trigger."""
        candidates = [
            Departure(part.began, part.cause, part.because, part.name)
            for part in self.parts
            if part.cause not in _OF_OTHERS
        ]
        began = self.began
        candidates += [departure for departure in departures if departure.at >= began - REACH]
        first = min(candidates, key=lambda departure: departure.at, default=None)
        if first is None or first.at > began + SKEW:
            return None
        self.explained = max(began, first.at)
        return first

    def moves(self) -> Moves:
        """What changed hands, against the fewest moves that balance these members."""
        before: dict[str, str | None] = {}
        moves: Counter[str] = Counter()
        first = 0
        for part in sorted(self.parts, key=lambda part: (part.began, part.source)):
            for partition, owner in part.added:
                before.setdefault(partition, owner)
                moves[partition] += owner is not None and owner != part.source
                first += owner is None
        moved = moves.total()
        known = {
            partition: before.get(partition, owner) for partition, owner in self.owners.items()
        }
        kept = dict.fromkeys(self.members, 0)
        for owner in known.values():
            if owner in kept:
                kept[owner] += 1
        counted, seen = self.counted
        unfinished = any(part.outcome == "unfinished" for part in self.parts)
        if counted > len(self.members) or unfinished:
            # The assignor has given partitions to members that have no trace here or left at once,
            # so `owners` lacks them. Or a part is unfinished: it is ended after ABANDONED, and
            # `owners` are those of that time. In both cases the least moves are not known.
            return Moves(len(known), moved, first, unseen=max(0, counted - seen))
        owned_before = sum(owner is not None for owner in known.values())
        least = least_moves(list(kept.values()), len(kept), len(known), owned_before)
        settled = sum(moves[partition] for partition in known)
        return Moves(len(known), moved, first, least, max(0, settled - least))

    def rows(
        self, group: str, protocol: str | None, departures: Iterable[Departure]
    ) -> tuple[Rebalance, list[MemberPart]]:
        """The rows of the rebalance and of its parts."""
        parts = sorted(self.parts, key=lambda part: (part.began, part.source))
        outcomes = Counter(part.outcome for part in parts if part.outcome != "completed")
        began, ended = self.began, self.ended or self.began
        generations = sorted(self.generations)
        trigger, moves = self.trigger(departures), self.moves()
        slowest = self.slowest
        phase = max(slowest.spent, key=lambda phase: slowest.spent[phase], default=None)
        gaps = [gap for part in parts for gap in part.gaps]
        longest = _longest(parts)
        name = f"{group}/{generations[-1] if generations else '?'}/{began:.6f}"
        row = Rebalance(
            group=group,
            rebalance=name,
            protocol=protocol,
            began=At(began),
            ended=At(ended),
            duration_ms=milliseconds(began, ended),
            first_generation=generations[0] if generations else None,
            last_generation=generations[-1] if generations else None,
            generations=len(generations),
            trigger=(trigger.cause if trigger else Cause.UNKNOWN).value,
            because=trigger.because if trigger else None,
            initiator=trigger.name[0] if trigger else None,
            initiator_host=trigger.name[1] if trigger else None,
            members=len({part.source for part in parts}),
            members_unseen=moves.unseen,
            **longest,
            slowest=slowest.name[0],
            slowest_phase=phase,
            partitions=moves.partitions,
            moved=moves.moved,
            first_assigned=moves.first,
            least_moves=moves.least,
            moved_needlessly=moves.needlessly,
            resumed=len(gaps),
            longest_downtime_ms=max(gaps, default=None),
            incomplete=outcomes.total(),
            sentence=_sentence(
                group, milliseconds(began, ended), trigger, slowest, parts, outcomes, moves, gaps
            ),
        )
        return row, [_part_row(group, name, part) for part in parts]


def _longest(parts: Iterable[Part]) -> dict[str, float | None]:
    """The longest of each phase and of each callback."""
    parts = list(parts)
    found: dict[str, float | None] = {}
    for phase in PHASES.values():
        found[f"{phase}_ms"] = max(
            (p.spent[phase] for p in parts if phase in p.spent), default=None
        )
    for call in CALLBACKS.values():
        took = (p.callbacks[call] for p in parts if call in p.callbacks)
        found[f"{call}_ms"] = max(took, default=None)
    return found


def _part_row(group: str, name: str, part: Part) -> MemberPart:
    return MemberPart(
        group=group,
        rebalance=name,
        consumer=part.name[0],
        host=part.name[1],
        member=part.member,
        trigger=part.cause.value,
        because=part.because,
        began=At(part.began),
        ended=At(part.ended if part.ended is not None else part.seen),
        duration_ms=part.duration_ms,
        outcome=part.outcome,
        generation=part.generation,
        attempts=part.attempts,
        delayed=part.delayed,
        **_longest([part]),
        added=len(part.added),
        revoked=len(part.revoked),
    )


def _sentence(
    group: str,
    took: float,
    trigger: Departure | None,
    slowest: Part,
    parts: Iterable[Part],
    outcomes: Mapping[str, int],
    moves: Moves,
    gaps: list[float],
) -> str:
    """All of it in one sentence, for people."""
    if trigger is None:
        began = "what triggered it is in no trace (a session that ran out, or a member unseen)"
    else:
        began = f"triggered by {_called(trigger.name)}: {trigger.because or trigger.cause.value}"
    words = [f"{group}: {_seconds(took)}, {began}"]
    words += _done_last(took, slowest, parts)
    if outcomes:
        counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        words.append(f"not completed by all members: {counted}")
    needless = ""
    if moves.needlessly is not None and moves.moved:
        needless = f" ({moves.needlessly} needlessly)"
    words.append(f"partitions moved: {moves.moved}{needless}, owned at the end: {moves.partitions}")
    if moves.unseen:
        are = "member is" if moves.unseen == 1 else "members are"
        words.append(f"{moves.unseen} {are} in no trace")
    if gaps:
        words.append(f"pauses that are over: {len(gaps)}, the longest {_seconds(max(gaps))}")
    return "; ".join(words) + "."


def _done_last(took: float, slowest: Part, parts: Iterable[Part]) -> list[str]:
    """Who was done last in a rebalance that took so many milliseconds, and what with."""
    phase = max(slowest.spent, key=lambda phase: slowest.spent[phase], default=None)
    spent = slowest.spent[phase] if phase else 0.0
    if not spent:
        return []
    name, own = _called(slowest.name), _seconds(slowest.duration_ms)
    # A part may begin late: the member is told of it by a heartbeat, or when others are done.
    late = slowest.duration_ms < took / 2
    last = f"{name} was done last{f'; its own part took {own}' if late else f' after {own}'}"
    words = f"{last}, {_seconds(spent)} of it in {phase}{_mostly(slowest, spent)}"
    awaited = _awaited(slowest, parts) if phase == "join" else None
    if awaited is not None:
        busy = awaited.spent["prepare"]
        words += f", where it waited for {_called(awaited.name)}"
        words += f" ({_seconds(busy)} in prepare{_mostly(awaited, busy)})"
    return [words]


def _awaited(joined: Part, parts: Iterable[Part]) -> Part | None:
    """The member for which `joined` waited in JoinGroup, if one is known. The coordinator answers
    when all have joined. A member joins late if its revocation (`prepare`) takes long: here at
    least half as long as the wait."""
    others = [
        part
        for part in parts
        if part.source != joined.source
        and part.generation == joined.generation is not None
        and part.spent.get("prepare", 0.0) >= joined.spent["join"] / 2
    ]
    return max(others, key=lambda part: part.spent["prepare"], default=None)


def _mostly(part: Part, spent: float) -> str:
    """The callback that took at least half of this time."""
    called = [name for name, took in part.callbacks.items() if took >= spent / 2]
    return f", mostly its {called[0].split('_')[0]} callback" if called else ""


def _called(name: tuple[str | None, str | None]) -> str:
    return f"{name[0] or 'a member'}{f' on {name[1]}' if name[1] else ''}"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
