"""By how much the wall clocks of members differ, as their traces show.

The coordinator of a classic group answers the JoinGroups of all members of a generation at once. If
one member tells of its answer seconds after another one, again and again, their clocks are apart.

And nobody is answered before all have asked: if a member that is in the leader's list asks to join,
by its own clock, after the leader was answered, its clock is ahead; and the other way round.

In a KIP-848 group the epoch of the target assignment only grows. Who joins is given the one that it
has then, and that of any other member is at most that (CurrentAssignmentBuilder). So if another
member tells of a greater epoch, and that this was before, the clock of who joined is ahead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aktor.trace.rebalances.parts import Name, one_clock

__all__ = ["Clocks", "cut"]

#: So many answers are kept, and lists of leaders: the events of members whose clocks are apart come
#: one after the other.
ANSWERS: Final = 2_000
LISTS: Final = 50

#: In so many generations two clocks must be apart, or by so many seconds: once, a process may have
#: stood still (twice as long as a usual session, and it is a member no more).
AGAIN: Final = 2
SURELY: Final = 20.0


class _Asked(NamedTuple):
    """When a member asked to join, and when it was answered."""

    name: Name
    asked: float
    answered: float


@dataclass(slots=True, eq=False)
class Clocks:
    """Owns when members of a group were answered."""

    _answers: dict[tuple[int, str], tuple[float, Name]] = field(default_factory=dict)
    _lists: dict[int, tuple[float, Name, Collection[str]]] = field(default_factory=dict)
    #: When members asked to join each generation, and were answered; and the leader, whose list has
    #: the others.
    _asked: dict[tuple[int, str], _Asked] = field(default_factory=dict)
    _led: dict[int, tuple[_Asked, Collection[str]]] = field(default_factory=dict)
    #: Of each two: in how many generations they were compared, and the least that was between them.
    _apart: dict[tuple[Name, Name], tuple[int, float]] = field(default_factory=dict)
    _set: dict[tuple[float, Name], float] = field(default_factory=dict)
    #: The last epochs of each KIP-848 member that has not left, by the source of its trace, with
    #: its name; and the clocks that are ahead of its own if it was a member all the time: until
    #: when, of whom, by how many seconds.
    _epochs: dict[str, tuple[Name, dict[int, float]]] = field(default_factory=dict)
    _behind: dict[str, list[tuple[float, Name, float]]] = field(default_factory=dict)
    #: By how many seconds the clock of the first is ahead of that of the second one, at least.
    ahead: dict[tuple[Name, Name], float] = field(default_factory=dict)

    def reached(self, epoch: int, at: float, source: str, name: Name, *, joins: bool) -> None:
        """This member of a KIP-848 group has this epoch now; `joins`: it had none."""
        self.ends(source, at)
        for other, (theirs, epochs) in self._epochs.items() if joins else ():
            greater = [since for known, since in epochs.items() if known > epoch]
            if greater and not one_clock(theirs, name):
                self._behind.setdefault(other, []).append((at, name, at - min(greater)))
        epochs = self._epochs.setdefault(source, (name, {}))[1]
        epochs.setdefault(epoch, at)
        cut(epochs, LISTS)
        if len(self._epochs) > ANSWERS:
            self.gone(next(iter(self._epochs)))

    def ends(self, source: str, at: float) -> None:
        """This member was in its group up to now."""
        for until, other, seconds in self._behind.pop(source, ()):
            if at > until:
                names = other, self._epochs[source][0]
                self.ahead[names] = max(self.ahead.get(names, 0.0), seconds)
                cut(self.ahead, ANSWERS)

    def gone(self, source: str) -> None:
        """This member left its group, or was lost. (If a group has ended, its next epoch is 1.)"""
        self._epochs.pop(source, None)
        self._behind.pop(source, None)

    def answered(
        self, generation: int, at: float, member: str | None, name: Name, listed: Collection[str]
    ) -> None:
        """The JoinGroup of this member was answered; a leader was given the ids of all members."""
        if listed and generation in self._lists:
            return  # a static leader that was restarted is told the generation as it is (KIP-814)
        if listed:
            self._lists[generation] = at, name, frozenset(listed)
            cut(self._lists, LISTS)
            for other in listed:
                if other != member and (known := self._answers.get((generation, other))):
                    self._compare(name, at, known[1], known[0])
        elif member is not None:
            leader = self._lists.get(generation)
            if leader is not None and member in leader[2]:
                self._compare(leader[1], leader[0], name, at)
            self._answers[generation, member] = at, name
            cut(self._answers, ANSWERS)

    def asked(
        self,
        generation: int,
        asked: float,
        answered: float,
        member: str | None,
        name: Name,
        listed: Collection[str],
    ) -> None:
        """This member asked to join a generation, and was answered; a leader, that is not static,
        was given the ids of all."""
        is_known = generation in self._led if listed else (generation, member) in self._asked
        if member is None or is_known:
            return  # who asks again may be told the generation as it is
        own = _Asked(name, asked, answered)
        if listed:
            self._led[generation] = own, listed
            cut(self._led, LISTS)
            known = (self._asked.get((generation, one)) for one in listed)
            others = [one for one in known if one is not None]
        else:
            self._asked[generation, member] = own
            cut(self._asked, ANSWERS)
            leader = self._led.get(generation)
            others = [leader[0]] if leader is not None and member in leader[1] else []
        for other in others:
            for one, two in ((own, other), (other, own)):
                if one.asked > two.answered and not one_clock(one.name, two.name):
                    names = one.name, two.name
                    by = one.asked - two.answered
                    self.ahead[names] = max(self.ahead.get(names, 0.0), by)
                    cut(self.ahead, ANSWERS)

    def _compare(self, one: Name, at: float, other: Name, other_at: float) -> None:
        if one_clock(one, other):
            return
        count, least = self._apart.get((one, other), (0, float("inf")))
        self._apart[one, other] = count + 1, min(least, abs(at - other_at))
        cut(self._apart, ANSWERS)

    def was_set(self, at: float, name: Name, seconds: float) -> None:
        """This clock was set, or its machine slept."""
        self._set[at, name] = seconds
        cut(self._set, LISTS)

    def sets(self) -> Mapping[tuple[float, Name], float]:
        """When which clocks were set, by so many seconds (the last `LISTS`)."""
        return self._set

    def apart(self, more_than: float) -> Mapping[tuple[Name, Name], float]:
        """Those whose clocks are further apart than so many seconds, at least by these."""
        return {
            names: least
            for names, (count, least) in self._apart.items()
            if least > (more_than if count >= AGAIN else SURELY)
        }


def cut(kept: dict[Any, Any], most: int) -> None:
    """Keep so many: those that came last."""
    if len(kept) > most:
        del kept[next(iter(kept))]
