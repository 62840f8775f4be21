"""Which parts of members are one rebalance.

Two parts are of the same rebalance if they are of the same generation or epoch, or if one is the
second round of the other (cooperative members revoke in one generation what is assigned in the
next). In a KIP-848 group nobody waits for the others: there two parts are also of one rebalance if
one takes on a partition that was revoked in the other, and not long before. If it was long before,
or if who had revoked it has it back, a member without a trace has had it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aktor.trace.rebalances.assembly import SKEW, Assembly
from aktor.trace.rebalances.causes import Cause
from aktor.trace.rebalances.parts import Life, Name, Part
from aktor.trace.rebalances.transit import HEARD

__all__ = ["Together"]


class Together:
    """Owns the rebalances of which no row was made yet.

    `lives` are the members, and whose clocks are apart, by how much, says `apart`; both are the
    group's. `settle` is called when two rebalances have turned out to be one.
    """

    def __init__(
        self,
        lives: Mapping[str, Life],
        *,
        apart: Callable[[], Mapping[tuple[Name, Name], float]],
        settle: Callable[[Assembly], None],
    ) -> None:
        self._lives = lives
        self._apart = apart
        self._settle = settle
        #: All of them; those that may get more parts by these, and by their generations.
        self.open: list[Assembly] = []
        self._of: dict[Part, Assembly] = {}
        self._by_generation: dict[int, Assembly] = {}

    @property
    def sources(self) -> set[str]:
        """Who took part in them, or had partitions before that are given away in them."""
        members = {part.source for assembly in self.open for part in assembly.parts}
        return members.union(*(assembly.givers for assembly in self.open))

    def of(self, part: Part) -> Assembly:
        """The rebalance of a part that has just begun or ended."""
        return self._of[part]

    def are_apart(self, one: Part, other: Part) -> bool:
        """Whether they are of two rebalances."""
        return self._of.get(one) is not self._of.get(other)

    def begin(self, part: Part) -> None:
        """It is a rebalance of its own, as far as is known."""
        self.open.append(Assembly(parts=[part]))
        self._of[part] = self.open[-1]
        if part.generation is not None:
            self.join_generation(part, part.generation)

    def join_generation(self, part: Part, generation: int) -> None:
        """It is of the rebalance that has led, or leads, to this generation or epoch."""
        part.generation = generation
        assembly = self._of.get(part)
        if assembly is None:
            return
        assembly.generations.add(generation)
        other = self._by_generation.setdefault(generation, assembly)
        if self._comes_after(part, other):
            other = self._by_generation[generation] = assembly
        self._join(other, assembly)
        self._join_awaited(generation)

    def join_rounds(self, before: Part, part: Part) -> None:
        """The one is the second round of the other."""
        self._join(self._of.get(before), self._of.get(part))

    def join_waiting(self, part: Part) -> None:
        """Classic members that were told, in one generation, that the group rebalances wait for
        each other. If all of them leave meanwhile, no later generation says so."""
        mine, generation = self._of[part], part.since_generation
        if generation is None or not self._waits_after(mine, generation):
            return
        for other in self.open:
            if other is not mine and self._waits_after(other, generation):
                self._join(other, mine)
                return

    def join_ended(self, part: Part) -> None:
        """A part has ended, and no generation or epoch says to which rebalance it belongs: the one
        that was under way then. (A classic group is in one at a time.)"""
        mine, protocol = self._of[part], self._lives[part.source].protocol
        if protocol == "classic" and not mine.generations:
            # (The last one: who was killed amid its first join tells no end of its own.)
            for other in sorted(self.open, key=lambda one: one.began, reverse=True):
                if other is not mine and self._waits_together(part, other):
                    self._join(other, mine)
                    return
        elif protocol != "classic":
            self._join(self._worked_for(part), mine)

    def join_owners(self, revoked_in: Part, given_in: Part) -> None:
        """A partition that was revoked in the one part is given to a member in the other one: they
        are the same rebalance, unless a member without a trace has had it meanwhile."""
        if revoked_in.outcome != "completed" or self.is_handed_over(revoked_in, given_in):
            self._join(self._of.get(revoked_in), self._of.get(given_in))

    def is_handed_over(self, revoked_in: Part, given_in: Part) -> bool:
        """Whether it went from one who was done with its own part to the next owner at once."""
        ended = revoked_in.ended
        if ended is None or revoked_in.source == given_in.source:
            return ended is None  # it was done, and has the partition back by another rebalance
        if all(life.protocol == "classic" for life in self._lives.values() if life.protocol):
            return False  # of these the generation says it, and the second round
        names, known = (revoked_in.name, given_in.name), self._apart()
        differ = max(SKEW, known.get(names, 0.0), known.get(names[::-1], 0.0))
        return given_in.began <= ended + HEARD + differ

    def works_for(self, assembly: Assembly) -> bool:
        """Whether a member works for this rebalance yet, though the others are done."""
        if assembly.parts[0] not in self._of:
            return False
        parts = (life.part for life in self._lives.values())
        return any(part is not None and self._worked_for(part) is assembly for part in parts)

    def close(self, assembly: Assembly) -> bool:
        """The rebalance is complete: no later part is added to it. False: it was before."""
        if assembly.parts[0] not in self._of:
            return False
        for part in assembly.parts:
            del self._of[part]
        for generation in assembly.generations:
            if self._by_generation.get(generation) is assembly:
                del self._by_generation[generation]
        return True

    def forget_made(self) -> None:
        """Rows were made of some."""
        self.open = [assembly for assembly in self.open if not assembly.is_made]

    # -- what belongs together

    def _comes_after(self, part: Part, other: Assembly) -> bool:
        """Whether a classic group had done this rebalance before the part began: a static member
        has come back, or another one has its id now, which makes no new generation (KIP-345)."""
        ended = other.ended if part not in other.parts else None
        if ended is None or self._lives[part.source].protocol != "classic":
            return False
        if part.began <= ended + SKEW:
            return False
        # (Who comes back has another id. If its id is in the list, its clock is another one.)
        if any(one.source == part.source for one in other.parts):
            return True
        ids = {one.member for one in other.parts}
        known = any(part.member in one.listed for one in other.parts)
        return not known and ids.isdisjoint(part.listed)

    def _join_awaited(self, generation: int) -> None:
        """A classic member that was told that the group rebalances, and never joined, was waited
        for in the rebalance that led to the next generation."""
        for assembly in tuple(self.open):
            if self._waits_after(assembly, generation - 1):
                assembly.generations.add(generation)
                self._join(self._by_generation[generation], assembly)

    def _waits_after(self, assembly: Assembly, generation: int) -> bool:
        """Whether classic members of this generation were told that the group rebalances, and none
        of them has joined."""
        part = assembly.parts[0]
        return (
            not assembly.generations
            and part.cause is Cause.PEER
            and part.since_generation == generation
            and part in self._of
            and self._lives[part.source].protocol == "classic"
        )

    def _waits_together(self, part: Part, other: Assembly) -> bool:
        """Whether the members of both were in a classic group that waited for all of them: who had
        asked to join, and who was told that the group rebalances."""
        if other.parts[0] not in self._of:
            return False
        ended = part.ended if part.ended is not None else part.seen
        return any(
            self._lives[one.source].protocol == "classic"
            and (one.passed is None or part.began <= one.passed)
            and one.began <= ended
            and (one.ended is None or one.ended >= part.began)
            and (not other.generations or one.is_asked_with(part))
            and _are_awaited(one, part)
            for one in other.parts
        )

    def _worked_for(self, part: Part) -> Assembly | None:
        """The rebalance for which a KIP-848 member was given another target: the first one that
        led to a later epoch than it had. (Who has revoked something gets the epoch only then.)"""
        since = part.since_generation
        if part.generation is not None or part.cause is not Cause.PEER or since is None:
            return None
        if self._lives[part.source].protocol != "consumer":
            return None
        later = [
            (min(known for known in other.generations if known > since), other.began, other)
            for other in self.open
            if other.generations
            and max(other.generations) > since
            and other.parts[0] in self._of
            and part not in other.parts
            and other.began <= part.began + SKEW
        ]
        return min(later, key=lambda one: one[:2])[2] if later else None

    def _join(self, one: Assembly | None, other: Assembly | None) -> None:
        """These are the same rebalance, unless a row was made of one of them."""
        if one is None or other is None or one is other:
            return
        one.take(other)
        for part in other.parts:
            self._of[part] = one
        for generation in one.generations:
            self._by_generation[generation] = one
        self.open.remove(other)
        self._settle(one)


def _are_awaited(one: Part, other: Part) -> bool:
    """Whether a classic group waited for these members, or they for the group, in one rebalance.
    Who has joined and was refused is in none, unless the other one was in the group before: then
    the group is in a rebalance, and the one tries again."""
    if one.generation is not None or other.generation is not None:
        return False
    if any(part.outcome == "lost" and not part.is_gone for part in (one, other) if part.is_new):
        return False
    if not (one.is_new and other.is_new):
        return True
    return not any(part.refused or part.coordinators for part in (one, other))
