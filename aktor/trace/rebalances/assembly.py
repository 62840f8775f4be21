"""A rebalance that is put together of its members' parts."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aktor.trace.rebalances.balance import Moves, least_moves
from aktor.trace.rebalances.causes import OF_OTHERS, STAYS, Cause
from aktor.trace.rebalances.departures import REACH, Departure, Resized
from aktor.trace.rebalances.holds import SESSION, Gone, Hold, called, hold_of, seconds
from aktor.trace.rebalances.parts import (
    CALLBACKS,
    KILLED,
    PHASES,
    Expelled,
    Name,
    Part,
    milliseconds,
    one_clock,
)
from aktor.trace.rebalances.rows import At, MemberPart, Rebalance
from aktor.trace.rebalances.sentence import clocks, sentence

__all__ = ["SKEW", "Assembly"]

#: Clocks of hosts differ by so many seconds.
SKEW: Final = 2.0

#: On one host an event is told so many seconds after it happened.
TOLD: Final = 0.2

#: What may come into a rebalance that something else has triggered. (What else a member tells is
#: what becomes of it in the same rebalance.)
_DEEDS: Final = STAYS | {Cause.JOIN, Cause.LEAVE, Cause.POLL_INTERVAL_EXCEEDED}

#: The coordinator decided it, and the member hears of it later than the others.
_HEARD_LATE: Final = frozenset({Cause.FENCED, Cause.STOOD_STILL})

#: Why, in words, if the coordinator took a member out of the group.
EXPELLED: Final = "the coordinator took it out of the group, and it had not said that it leaves"

#: What is added to that: what the member itself has told when it came back (see `Standstill` of the
#: membership managers), or that it has not.
_CAME_BACK: Final = re.compile(r"(?:^| after )(the (?:process|machine) (?:stood still|slept) .*)")

#: The same, if its own trace shows that it lived, and what a KIP-848 group waited for.
_GAVE_UP: Final = (
    "it had been giving partitions up for {} (its group waits for max_poll_interval_ms, not longer)"
)

#: How the leader's list of members shows a member that has no trace.
_BY_LIST: Final = {
    Cause.JOIN: "a new member, says",
    Cause.LEAVE: "it is gone (it left or was taken out), says",
}


@dataclass(slots=True, eq=False)
class Assembly:
    """Parts that belong together, because of their generation or what they hand to each other."""

    parts: list[Part] = field(default_factory=list)
    generations: set[int] = field(default_factory=set)
    #: When it is complete, unless more of it is told until then.
    due: float = math.inf
    #: Departures until then explain no rebalance that comes later.
    explained: float = -math.inf
    #: Its row was made.
    is_made: bool = False
    #: What triggered it, the first of them first, and what it waited for, when its row was made.
    triggers: Sequence[Departure] = ()
    hold: Hold | None = None
    #: A member that the group waits for when the traces end, and that tells nothing of it.
    not_there: Hold | None = None
    #: Members that have gone for good, and whose partitions have other owners only by a later
    #: rebalance.
    given_later: Collection[str] = ()
    #: When the last part ended of those that told of their ends: who owned which partition, and who
    #: was in the group (and whether one of them had subscribed anew, so that perhaps not every
    #: member may own every partition); and when that was.
    noted: float | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    members: Collection[str] = ()
    has_other_topics: bool = False

    @property
    def ended(self) -> float | None:
        """When its last part ended; None as long as one goes on."""
        ends = [part.ended for part in self.parts]
        return None if None in ends else max(end for end in ends if end is not None)

    @property
    def applied(self) -> float | None:
        """The same of those that tell of their ends: nobody waits for the others."""
        ends = [part.ended for part in self.parts if part.passed is None and not part.is_silent]
        return None if None in ends else max((end for end in ends if end is not None), default=None)

    @property
    def is_refused(self) -> bool:
        """Whether it is none: the group has refused who wanted to join it, as another row says."""
        return all(part.is_refused for part in self.parts)

    @property
    def goes_on(self) -> bool:
        """Whether the traces end within it."""
        return any(part.goes_on for part in self.parts)

    def is_waiting(self, part: Part | None) -> bool:
        """Whether nobody was given anything yet of what was revoked in this part, which may be of
        no rebalance: as long as the group waits for its members, or the leader counts no member
        without a trace."""
        counted, seen = self.counted
        return not self.generations or (part in self.parts and counted <= seen)

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
        if (other.noted or 0.0) > (self.noted or 0.0):
            self.noted, self.owners, self.members = other.noted, other.owners, other.members
            self.has_other_topics = other.has_other_topics

    def find_triggers(
        self,
        departures: Iterable[Departure],
        later: Sequence[Departure],
        resized: Collection[Resized],
        earlier: Iterable[tuple[int, Departure]],
        skew: float = SKEW,
    ) -> Sequence[Departure]:
        """What triggered it: the first part or departure that gives a cause of its own, and then
        those that came into it. Empty if the first is later than the beginning by more than `skew`:
        then no trace has the trigger. `earlier`: the causes of rebalances before, each with the
        generation that it led to."""
        began, earlier = self.began, list(earlier)
        found = [
            Departure(part.began, part.cause, part.because, part.name, part.source)
            for part in self.parts
            if part.cause not in OF_OTHERS
        ]
        found += self._led_here(earlier)
        found += self._came(earlier, self._stayed)
        left = [left for left in departures if self._follows(left, skew)]
        in_time = [one for one in (*found, *left) if one.at <= began + self._late(one, skew)]
        others = {id(one) for one in left if one.source in self.given_later}
        others |= {id(one) for one in left if one.cause in STAYS and self._had_again(one)}
        first = min(in_time, key=lambda one: (id(one) in others, one.at), default=None)
        if first is None:
            first = self._seen_by_others(later, resized, skew)
            first = first or next(iter(self._came(earlier)), None)
        if first is None:
            return ()
        # (What the member told long afterwards says nothing of the departures in between.)
        self.explained = max(began, first.at) if first in in_time else began
        found += [one for one in left if self.is_over(one)]
        triggers = {first.by: first}
        for one in sorted(found, key=lambda one: one.at):
            if one.cause in _DEEDS and one.at >= first.at:
                triggers.setdefault(one.by, one)
        self.triggers = list(triggers.values())
        return self.triggers

    def _follows(self, left: Departure, skew: float) -> bool:
        """Whether this rebalance may be the first one of the group that it was in: one of those
        who take part was in that group, and no later generation than this one had it."""
        if left.at < self.began - REACH or (left.cause not in STAYS and self._had_again(left)):
            return False
        if left.generation is not None:
            if self.generations and max(self.generations) <= left.generation:
                return False
            if min(self._began_in, default=0) > left.generation:
                return False  # that one was without it, too
        elif left.cause not in STAYS and left.source not in self.givers:
            # It brought nobody a partition. Did a member that was expelled?
            expelled = [(one, part.name) for part in self.parts for one in part.expelled]
            if any(one.source != left.source and one.is_sure(skew, by) for one, by in expelled):
                return False
        new = left.outside.union(p.source for p in self.parts if p.cause is Cause.JOIN)
        return any(part.source not in new for part in self.parts)

    def _had_again(self, left: Departure) -> bool:
        """Whether all of those who take part began in a generation that had this member again: what
        they do has nothing to do with what it did before."""
        return left.back_in is not None and min(self._began_in, default=-1) >= left.back_in

    @property
    def _began_in(self) -> list[int]:
        """The generations in which those who take part began, of those who were in one."""
        known = (part.since_generation or 0 for part in self.parts)
        return [generation for generation in known if generation > 0]

    def _late(self, cause: Departure, skew: float) -> float:
        """By how many seconds it may be told after the first part began, which it triggered."""
        first = min(self.parts, key=lambda part: (part.began, part.source))
        late = cause.cause in _HEARD_LATE and cause.source in self.givers
        if late or not one_clock(cause.name, first.name):
            return skew
        return 0.0 if cause.cause is Cause.JOIN else TOLD  # (It is told, and then asked for.)

    def is_over(self, left: Departure) -> bool:
        """Whether it explains no later rebalance: this one came after it, or is that for which it
        released its partitions, or in which it was back."""
        if any(left is trigger for trigger in self.triggers):
            return True
        if left.at <= self.explained:
            # (In a KIP-848 group each of several that leave one after the other makes an epoch.)
            return left.source not in self.given_later
        if left.at > (self.ended or self.began):
            return False
        back = {part.source for part in self.parts if part.began >= left.at}
        if left.cause in STAYS:
            return left.source in back  # what it was given for that
        if left.generation is not None and self.generations and left.source not in back:
            return left.generation < max(self.generations)
        return left.source not in self.given_later

    @property
    def expelled(self) -> Iterator[Expelled]:
        """Who was taken out of the group, as others saw."""
        return (expelled for part in self.parts for expelled in part.expelled)

    @property
    def givers(self) -> set[str]:
        """Whose partitions have another owner now."""
        return {owner for part in self.parts for _, owner in part.added if owner is not None}

    def _seen_by_others(
        self, later: Sequence[Departure], resized: Collection[Resized], skew: float
    ) -> Departure | None:
        """Who triggered it, by what others saw: the coordinator took a member out of the group, a
        topic has other partitions, or the leader's list has another member that has no trace. None
        if no trace shows it."""
        for expelled, by_itself in self._expelled(later, skew):
            why, name, source = _why_gone(later, expelled), expelled.name, expelled.source
            because = f"{EXPELLED} ({why})" if why == expelled.how else f"{EXPELLED}: {why}"
            return by_itself or Departure(self.began, Cause.EXPELLED, because, name, source)
        parts = sorted(self.parts, key=lambda part: (part.began, part.source))
        given = dict(one for part in parts for one in part.added)
        revoked = {partition for part in parts for partition in part.revoked}
        for change in sorted(resized, key=lambda change: (change.topic, change.at)):
            changed = revoked if change.now is None else {p for p in given if given[p] is None}
            of_topic = any(one.rpartition("-")[0] == change.topic for one in changed)
            # A member may be given new partitions before it has heard of them by the metadata.
            sure = any(change.has_brought(partition) for partition in given)
            heard_by = math.inf if sure else (self.ended or self.began) + SKEW
            if (of_topic or sure) and self.began - REACH <= change.at <= heard_by:
                cause = Cause.METADATA_CHANGE
                return Departure(self.began, cause, change.because, (None, None))
        for part in parts:
            for cause, ids in ((Cause.JOIN, part.came), (Cause.LEAVE, part.went)):
                for member in ids:
                    own = next((one for one in parts if one.member == member), None)
                    if own is not None:  # (By its own clock it came later than others tell of it.)
                        return Departure(self.began, own.cause, own.because, own.name, own.source)
                    because = f"{_BY_LIST[cause]} {called(part.name)}, which leads; it has no trace"
                    return Departure(self.began, cause, because, (member, None))
        return None

    def _expelled(
        self, later: Iterable[Departure], skew: float
    ) -> list[tuple[Expelled, Departure | None]]:
        """The members that the coordinator took out of the group, in the order in which their
        sessions ended; at last those of which another row has told it. A member hears of it by its
        next heartbeat: if it leaves by itself, as it tells by then, it was none of these, and its
        clock is another one."""
        found: dict[str, tuple[Expelled, Departure | None]] = {}
        # Of clocks that are apart nobody knows by how much at most.
        differ = math.inf if skew > SKEW else SKEW
        heard_by = (self.ended or self.began) + differ
        first_told = {left.source: left for left in reversed(list(later)) if left.at <= heard_by}
        last = max(self.generations, default=None)
        stayed = {
            part.source
            for part in self.parts
            if part.cause in OF_OTHERS and part.generation is not None and part.generation == last
        }
        for part in sorted(self.parts, key=lambda part: (part.began, part.source)):
            for expelled in part.expelled:
                if expelled.source in stayed:
                    continue
                left = first_told.get(expelled.source)
                if left is not None and _may_be_earlier(left, part):
                    found.setdefault(expelled.source, (expelled, left))
                elif expelled.is_sure(differ, part.name):
                    found.setdefault(expelled.source, (expelled, None))
        return sorted(found.values(), key=lambda one: (one[0].is_told_of, one[0].heard))

    def _led_here(self, earlier: Iterable[tuple[int, Departure]]) -> list[Departure]:
        """What led to a later epoch than that in which these parts began. In a KIP-848 group a
        member that joins is done with its own part at once; the others hear of it by their next
        heartbeats, seconds later."""
        of_peers = [part.since_generation for part in self.parts if part.cause is Cause.PEER]
        known = [generation for generation in of_peers if generation is not None]
        if not known:
            return []
        # (As long as nobody is done with it, no epoch says that it led there.)
        first, last = min(known), max(self.generations, default=math.inf)
        until = self.ended or self.began
        return [one for made, one in earlier if first < made <= last and one.at <= until]

    @property
    def _stayed(self) -> set[str | None]:
        """Who gave something up, and is in the group: nothing but another member takes it."""
        parts = (part for part in self.parts if part.cause is Cause.PEER and part.revoked)
        return {part.source for part in parts if part.outcome == "completed"}

    def _came(
        self, earlier: Iterable[tuple[int, Departure]], givers: Collection[str | None] | None = None
    ) -> list[Departure]:
        """A coordinator that computes targets late (Kafka 4.3) takes several members in with the
        epoch that all have, and with nothing. What they are given later, by one of these if it is
        said, they came for: each when it came last."""
        came = []
        known = {part.source for part in self.parts if part.cause not in OF_OTHERS}
        for part in self.parts:
            is_first = part.cause is Cause.PEER and part.owned == 0 and part.waits_for_first
            is_first = is_first and part.source not in known
            given = {owner for _, owner in part.added}
            if is_first and given and (givers is None or not given.isdisjoint(givers)):
                told = (one for _, one in earlier if one.name == part.name)
                before = [one for one in told if one.at <= part.began]
                came += sorted(before, key=lambda one: one.at)[-1:]
        return sorted(came, key=lambda one: one.at)

    def _gone(self, later: Sequence[Departure], skew: float) -> list[Gone]:
        """Members that the coordinator took out of the group before they came; the first one is
        that for which the others waited longest. It was to take part; or of a classic group all
        that were there had joined, and its trace tells nothing of that."""
        taken = {part.source: part for part in self.parts if part.is_gone}
        gone = [
            Gone(part.name, part.duration_ms, part.pending, _as_told(later, part.source))
            for part in taken.values()
        ]
        known = {*taken, *(trigger.source for trigger in self.triggers)}
        expelled = [
            one
            for one, left in self._expelled(later, skew)
            if one.source not in known
            and not one.is_told_of
            and (left is None or left.cause is not Cause.LEAVE)
        ]
        for one in expelled:
            ms = 0.0 if taken or one is not expelled[-1] else self._waited_for(one)
            why = _why_gone(later, one)
            gone.append(Gone(one.name, ms, None, "" if why == KILLED else why))
        return sorted(gone, key=lambda one: -one.ms)

    def _waited_for(self, expelled: Expelled) -> float:
        """For how many milliseconds a classic group waited for this member, of all that it took out
        the last one."""
        joined = [part for part in self.parts if "join" in part.spent and part.ended is not None]
        # (If nobody else was there, the group may have been empty before.)
        if not any(part.counted for part in joined) or not any(
            part.cause is Cause.PEER for part in joined
        ):
            return 0.0
        ms = min(part.spent["join"] for part in joined)
        return ms if expelled.told <= expelled.at - ms / 2000 else 0.0

    @property
    def own_causes(self) -> Iterator[tuple[int, Departure]]:
        """The parts that began by a cause of their own, each with the generation it led to."""
        for part in self.parts:
            if part.cause not in OF_OTHERS and part.generation is not None:
                cause = Departure(part.began, part.cause, part.because, part.name, part.source)
                yield part.generation, cause

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
        revoked = {partition for part in self.parts for partition in part.revoked}
        expelled = {None, *(one.source for one in self.expelled)}
        given = sum(owner not in expelled for one, owner in before.items() if one not in revoked)
        taken = len(revoked - self.owners.keys())
        counted, seen = self.counted
        unfinished = any(part.outcome == "unfinished" for part in self.parts)
        if counted > len(self.members) or unfinished or self.has_other_topics:
            # The assignor has given partitions to members that have no trace here or left at once,
            # so `owners` lacks them. Or a part is unfinished: it is ended after ABANDONED, and
            # `owners` are those of that time. Or a member cannot keep what it had. In all of these
            # cases the least moves are not known.
            unseen = max(0, counted - seen)
            return Moves(len(known), moved, first, unseen=unseen, given=given, taken=taken)
        owned_before = sum(owner is not None for owner in known.values())
        least = least_moves(list(kept.values()), len(kept), len(known), owned_before)
        settled = sum(moves[partition] for partition, owner in known.items() if owner is not None)
        needlessly = max(0, settled - least)
        return Moves(len(known), moved, first, least, needlessly, given=given, taken=taken)

    def rows(
        self,
        group: str,
        protocol: str | None,
        departures: Iterable[Departure],
        later: Sequence[Departure],
        resized: Collection[Resized],
        earlier: Iterable[tuple[int, Departure]] = (),
        apart: Mapping[tuple[Name, Name], float] = MappingProxyType({}),
    ) -> tuple[Rebalance, list[MemberPart]]:
        """The rows of the rebalance and of its parts. `apart`: whose clock is surely another one
        than that of one of its members, by so many seconds at least."""
        parts = sorted(self.parts, key=lambda part: (part.began, part.source))
        outcomes = Counter(part.outcome for part in parts if part.outcome != "completed")
        began, ended = self.began, self.ended or self.began
        generations = sorted(self.generations)
        skew = max(apart.values(), default=0.0) + SKEW
        triggers = self.find_triggers(departures, later, resized, earlier, skew)
        trigger = triggers[0] if triggers else None
        moves = self.moves()
        slowest = self.slowest
        gone = self._gone(later, skew)
        hold = hold_of(parts, milliseconds(began, ended), gone[0] if gone else None)
        if self.not_there is not None and not any(part.holds_now for part in parts):
            hold = self.not_there
        self.hold = hold
        if hold is not None:  # (Of who held it that is told there.)
            late = Cause.POLL_INTERVAL_EXCEEDED, hold.name
            triggers = [*triggers[:1], *(t for t in triggers[1:] if (t.cause, t.name) != late)]
        phase = max(slowest.spent, key=lambda phase: slowest.spent[phase], default=None)
        gaps = [gap for part in parts for gap in part.gaps]
        unseen = sum(part.unseen_gaps for part in parts)
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
            slowest_host=slowest.name[1],
            slowest_phase=phase,
            partitions=moves.partitions,
            moved=moves.moved,
            first_assigned=moves.first,
            least_moves=moves.least,
            moved_needlessly=moves.needlessly,
            resumed=len(gaps),
            longest_downtime_ms=max(gaps, default=None),
            incomplete=outcomes.total(),
            goes_on=self.goes_on,
            held_by=None if hold is None else hold.name[0],
            held_by_host=None if hold is None else hold.name[1],
            held_in=None if hold is None else hold.what,
            held_ms=None if hold is None else hold.ms,
            sentence=sentence(
                *(group, milliseconds(began, ended), triggers, slowest, hold, outcomes, moves),
                *(gaps, unseen, self.goes_on),
                [one.beside for one in gone[hold is not None and hold.what == SESSION :]],
            )
            + clocks(parts, apart),
        )
        return row, [_part_row(group, name, part) for part in parts]


def _may_be_earlier(left: Departure, part: Part) -> bool:
    """Whether a departure that was told after this part began can have been before it."""
    return left.cause is not Cause.LEAVE or not one_clock(left.name, part.name)


def _as_told(later: Iterable[Departure], source: str) -> str:
    """Why the coordinator did not hear of this member, as it told when it was back; "" if it has
    not."""
    told = (departure.because or "" for departure in later if departure.source == source)
    found = (_CAME_BACK.search(because) for because in told)
    return next((one[1] for one in found if one is not None), "")


def _why_gone(later: Iterable[Departure], expelled: Expelled) -> str:
    """Why the coordinator did not hear of this member, as it told when it was back; or what it was
    to do meanwhile, if its trace went on."""
    if because := _as_told(later, expelled.source):
        return because
    if expelled.gives_up_since is None or not expelled.goes_on:
        return expelled.how
    return _GAVE_UP.format(seconds(1000 * (expelled.at - expelled.gives_up_since)))


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
