"""The generations of a classic group: which members each has, and who told of it.

The coordinator answers the JoinGroups of all members of a generation at once, and gives its leader
the list of their ids. The list says what no member says of itself: that its session has ended. And
it has the members that have no trace here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Set
from typing import Final

from aktor.trace.rebalances.causes import Cause
from aktor.trace.rebalances.clocks import cut
from aktor.trace.rebalances.parts import Life, Part
from aktor.trace.rebalances.together import Together

__all__ = ["Generations"]

#: So many generations are kept, and so many ids of members.
KEPT: Final = 50
IDS: Final = 10_000


class Generations:
    """Owns the lists of members.

    `lives` are the members, `together` their parts. The group is told of what lists show: that the
    part of a member has ended (`end`), that the coordinator took a member out of the group
    (`expel`), perhaps in the midst of its part (`take_out`).
    """

    def __init__(
        self,
        lives: Mapping[str, Life],
        together: Together,
        *,
        end: Callable[[Life, float, str], None],
        expel: Callable[[Life, float], None],
        take_out: Callable[[Life, float], None],
    ) -> None:
        self._lives = lives
        self._together = together
        self._end = end
        self._expel = expel
        self._take_out = take_out
        #: The generation of which a member has heard last.
        self._answered: int | None = None
        #: Those that members were done with last.
        self._completed: list[int] = []
        #: The ids of the members: as the leader had them last (with their group_instance_id), of
        #: each generation, of all traces.
        self._listed: Mapping[str, object] | None = None
        self._lists: dict[int, frozenset[str]] = {}
        self._ids: dict[str, None] = {}

    def know(self, member: str) -> None:
        """A trace has this id."""
        self._ids[member] = None
        cut(self._ids, IDS)

    def are_seen(self, part: Part, its: Container[str | None]) -> None:
        """What is known by now of the ids that this part's list had: of whom a trace tells, though
        later (by another clock, say), that one has a trace. `its`: who is in the same rebalance,
        and has come into the group by it."""
        part.came = [one for one in part.came if one in its or one not in self._ids]

    def answered(
        self, part: Part, at: float, generation: int, listed: Mapping[str, object]
    ) -> None:
        """The JoinGroup of this part was answered; if it is the leader's, with the ids of all, each
        with its group_instance_id."""
        if generation != self._answered:
            self._answered = generation
            self._pass_by(part, at, generation)
        if listed:
            self._name_listed(part, generation, listed.keys())
            self._compare(part, generation, listed)
        self._count(part.counted, generation)

    def completed(self, generation: int) -> None:
        """A member is done with it."""
        if generation not in self._completed:
            self._completed = [*self._completed[1 - KEPT :], generation]

    def between(self, left: int, given: int) -> bool | None:
        """Whether a member without a trace was there in a generation between these two; None: there
        was none. (Of those that no trace tells of nobody knows who was there.)"""
        if left + 1 >= given:
            return None
        meanwhile = (one for one in self._completed if left < one < given)
        listed = {member for one in meanwhile for member in self._lists.get(one, ())}
        return bool(listed - self._ids.keys())

    def _compare(self, part: Part, generation: int, listed: Mapping[str, object]) -> None:
        """The leader's list against those of before: who is gone, and who is new?"""
        before = self._listed or {}
        for life in self._lives.values():
            self._end_if_passed(life, part, generation, listed.keys())
            # (A static member that is closed tells nobody: it, or another one, may come back.)
            instance = None if life.member is None else before.get(life.member)
            is_closed = not life.in_group and instance is not None
            silent = life.part is None and (life.in_group or is_closed) and not life.departed
            silent = silent and (instance is None or instance not in listed.values())
            # (A leader may read its list when the group is generations ahead.)
            silent = silent and (life.generation or 0) < generation
            if silent and life.member is not None and life.member not in listed:
                expelled = life.expel(part.seen)
                expelled.is_closed = is_closed
                part.expelled.append(expelled)
                if not is_closed:
                    self._expel(life, part.seen)
            if _is_missing(life, part, generation, listed.keys()):
                self._take_out(life, part.seen)
        if self._listed is not None:
            part.came += sorted(listed.keys() - before.keys() - self._ids.keys())
            part.went += sorted(before.keys() - listed.keys() - self._ids.keys())
        self._listed, self._lists[generation] = listed, frozenset(listed)
        cut(self._lists, KEPT)

    def _pass_by(self, part: Part, at: float, generation: int) -> None:
        """The coordinator answers all members that have joined at once. Who tells nothing of that
        has joined later, or is not there any more."""
        for life in self._lives.values():
            own = life.part
            if own is not None and own is not part and life.state == "joining":
                since = own.since_generation if own.generation is None else own.generation
                if own.passed is None and (since or 0) < generation:
                    own.passed = at

    def _name_listed(self, part: Part, generation: int, listed: Set[str]) -> None:
        """Who is in the list is in this generation, whether or not it has told of its answer. (A
        new member may not even have heard of its id.)"""
        ids = set(listed - self._ids.keys())
        for life in self._lives.values():
            own = life.part
            if own is None or own.generation is not None or own.passed is None:
                continue
            if life.member is None:
                found = next((one for one in sorted(ids) if life.may_be(one)), None)
                if found is None:
                    continue
                life.member = found
                self.know(found)
                ids.remove(found)
            if life.member in listed:
                self._together.join_generation(own, generation)

    def _end_if_passed(self, life: Life, part: Part, generation: int, listed: Set[str]) -> None:
        """A member was in a generation, has told nothing of it, and is not in this one, which is
        later: it was killed in that one, and its session has ended since."""
        own = life.part
        if own is None or own.generation is None or own is part:
            return
        if own.generation < generation and life.member is not None and life.member not in listed:
            self._end(life, max(own.seen, own.began), "lost")
            life.in_group = True

    def _count(self, counted: int, generation: int) -> None:
        """If the leader counts fewer members than seem to be in the group, some were killed and
        their sessions have ended. Take out the members whose traces have been silent for longest.

        (A static member that was killed is counted until its session ends. A member may be taken
        out wrongly if its trace does not yet say that it is in the generation: it is back in the
        group with its next `membership.moved` or `rebalance.completed`.)
        """
        members = [life for life in self._lives.values() if life.in_group]
        if not 0 < counted < len(members):
            return
        others = [life for life in members if life.generation != generation]
        for life in sorted(others, key=_told)[: len(members) - counted]:
            life.in_group = False


def _is_missing(life: Life, part: Part, generation: int, listed: Set[str]) -> bool:
    """Whether a member was told that the group rebalances, and is not in what came of it."""
    own = life.part
    if own is None or own is part or life.protocol != "classic":
        return False
    since = own.since_generation
    was_there = own.cause is Cause.PEER and since is not None and since < generation
    return was_there and life.member is not None and life.member not in listed


def _told(life: Life) -> tuple[bool, float]:
    """A key to sort members by: first those that are in no rebalance; among equals first the one
    whose trace told of a rebalance longest ago."""
    part = life.part or life.last_part
    return life.part is not None, -math.inf if part is None else part.seen
