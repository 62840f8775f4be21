"""How long members had no answer from their group's coordinator.

A group with a long session (a KIP-848 group has 45 s by default) goes on reading while its
coordinator is dead, and nothing rebalances. But its commits fail, nobody can join, and if it lasts,
deliveries stop, too. A member that joins meanwhile is told by its rebalance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from aktor.trace.rebalances.holds import called, seconds
from aktor.trace.rebalances.parts import FLAPS, Life, milliseconds
from aktor.trace.rebalances.rows import At, Refusal

__all__ = ["COORDINATOR", "Outages"]

#: What a row of these says was refused.
COORDINATOR: Final = "coordinator"

#: A shorter one is not told, in seconds: a coordinator that moves in good order is found again at
#: once.
LEAST: Final = 1.0

#: An answer to a heartbeat may be an error, which is told right after it: within so many seconds.
#: Then the broker did not answer as the coordinator.
SETTLES: Final = 0.1

#: If the first answer comes later than so many seconds after the coordinator was found, the member
#: had nothing to ask before.
SOON: Final = 0.5

#: The reason of a silence that the coordinator is to blame for (see `WaitingFor`).
_UNCONFIRMED: Final = "session unconfirmed"

_WITHHELD: Final = "for the group might have gone on without the member"

#: A broker: its node and its address.
Broker = tuple[int | None, str | None]


@dataclass(slots=True, eq=False)
class _Outage:
    """A coordinator did not answer a member."""

    began: float
    broker: Broker
    #: Why it was lost, and how often.
    because: Counter[str] = field(default_factory=Counter)
    #: The coordinator as it was named since, and when; and whether it has refused a heartbeat.
    found: tuple[float, Broker] | None = None
    is_refused: bool = False
    #: How many commits failed, and how often one was tried again; whether records were withheld
    #: because of it; and partitions of which nothing was given out for so long that it was told.
    commits: int = 0
    retried: int = 0
    has_withheld: bool = False
    withheld: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Member:
    """What is known of one consumer and its coordinator."""

    life: Life
    #: Its coordinator has answered it at least once.
    is_known: bool = False
    #: When the first heartbeat was sent that has no answer.
    asked: float = math.inf
    #: When the answer came that may be an error.
    answered: float | None = None
    #: When commits failed since then, or just now.
    failed: list[float] = field(default_factory=list)
    outage: _Outage | None = None

    def is_answered(self) -> None:
        """Its coordinator answers it."""
        self.is_known, self.asked, self.answered, self.outage = True, math.inf, None, None
        self.failed.clear()


@dataclass(slots=True, eq=False)
class Outages:
    """Knows the coordinators that do not answer the members of one group."""

    group: str
    #: Rows that are complete.
    over: list[Refusal] = field(default_factory=list)
    _members: dict[str, _Member] = field(default_factory=dict)

    def hear(self, life: Life, at: float) -> None:
        """The member tells of something at this time: what it was answered long before stands."""
        member = self._members.get(life.source)
        if member is not None and member.answered is not None and at > member.answered + SETTLES:
            self._end(member, member.answered)

    def answer(self, life: Life, at: float) -> None:
        """A heartbeat of the member was answered."""
        member = self._of(life)
        if member.outage is None:
            member.is_answered()
        elif member.outage.found is not None and member.answered is None:
            member.answered = at

    def reach(self, life: Life, at: float) -> None:
        """The coordinator has told the member of its generation or epoch."""
        self._end(self._of(life), at)

    def refuse(self, life: Life) -> None:
        """A heartbeat has failed: by an error, perhaps."""
        member = self._of(life)
        member.answered = None
        if member.outage is not None:
            member.outage.is_refused = True

    def be_late(self, life: Life, at: float, ago: float) -> None:
        """A heartbeat that was sent so many seconds ago has no answer."""
        member = self._of(life)
        if life.heartbeat is not None:  # else this trace would not say that it was answered
            member.asked = min(member.asked, at - ago)

    def lose(self, life: Life, at: float, broker: Broker, because: str) -> None:
        """The broker was the member's coordinator, and does not act as one."""
        member = self._of(life)
        if not member.is_known or broker[0] is None:
            return
        member.answered = None
        if self._is_over(member, at):
            self._end(member, None)
        outage = member.outage
        if outage is None:
            outage = member.outage = _Outage(min(at, member.asked), broker)
            outage.commits = sum(failed >= outage.began for failed in member.failed)
        outage.because[because.rstrip(".")] += 1
        outage.found = None

    def find(self, life: Life, at: float, broker: Broker) -> None:
        """A broker has named the coordinator, which may not answer all the same."""
        outage = self._of(life).outage
        if outage is not None:
            outage.found, outage.is_refused = (at, broker), False

    def fail_commit(self, life: Life, at: float) -> None:
        """A commit of the member ended in an error."""
        member = self._of(life)
        if member.outage is not None:
            member.outage.commits += 1
            return
        since = min(at, member.asked)
        member.failed = [*(failed for failed in member.failed if failed >= since), at]

    def retry_commit(self, life: Life) -> None:
        """An attempt of a commit has failed, and another one follows."""
        outage = self._of(life).outage
        if outage is not None:
            outage.retried += 1

    def withhold_all(self, life: Life) -> None:
        """A poll of the member is given nothing: the group might have gone on without it."""
        outage = self._of(life).outage
        if outage is not None:
            outage.has_withheld = True

    def withhold(self, life: Life, partition: str, reason: str | None) -> None:
        """The member is given nothing from the partition."""
        outage = self._of(life).outage
        if outage is not None and reason == _UNCONFIRMED:
            outage.withheld.add(partition)

    def close(self, sources: Collection[str]) -> Iterator[Refusal]:
        """These traces end."""
        for source in sorted(source for source in self._members if source in sources):
            member = self._members.pop(source)
            if member.answered is not None or self._is_over(member, member.life.told):
                self._end(member, member.answered)
            elif member.outage is not None:
                self._tell(member, member.outage, member.life.told, ", to the end of its trace")
        yield from self.over
        self.over.clear()

    def _of(self, life: Life) -> _Member:
        member = self._members.get(life.source)
        if member is None:
            member = self._members[life.source] = _Member(life)
        return member

    def _is_over(self, member: _Member, now: float) -> bool:
        """Whether its coordinator was found, and not lost again soon. (Brokers go on naming a dead
        one; that the next one answers is told by a trace with all levels only.)"""
        outage = member.outage
        if outage is None or outage.found is None or outage.is_refused:
            return False
        at, broker = outage.found
        is_silent = member.life.heartbeat is None
        return is_silent or broker != outage.broker or now > at + FLAPS

    def _end(self, member: _Member, answered: float | None) -> None:
        """The coordinator answers it; None: it was found, and is told no answer of."""
        outage = member.outage
        if outage is not None:
            at, broker = outage.found or (answered or outage.began, outage.broker)
            who = "it" if broker == outage.broker else _named(broker)
            # What was found and has refused nothing would have answered as soon as it was asked.
            if answered is not None and (outage.is_refused or answered <= at + SOON):
                self._tell(member, outage, answered, f", until {who} answered")
            else:
                self._tell(member, outage, at, f", until {who} was found")
        member.is_answered()

    def _tell(self, member: _Member, outage: _Outage, ended: float, until: str) -> None:
        name = member.life.name
        if ended - outage.began < LEAST:
            return
        because, times = outage.because.most_common(1)[0]
        lasted = seconds(milliseconds(outage.began, ended))
        self.over.append(
            Refusal(
                group=self.group,
                began=At(outage.began),
                ended=At(ended),
                consumer=name[0],
                host=name[1],
                refused=COORDINATOR,
                times=outage.because.total(),
                because=f"{_named(outage.broker)}: {because}",
                sentence=f"{self.group}: {called(name)} had no answer from its coordinator,"
                f" {_named(outage.broker)}, for {lasted}{until}: {because}"
                f"{f' ({times} times)' if times > 1 else ''}. {_harm(outage)}",
            )
        )


def _named(broker: Broker) -> str:
    node, address = broker
    return f"broker {node}{f' at {address}' if address else ''}"


def _harm(outage: _Outage) -> str:
    """What came of it."""
    silent = ", ".join(sorted(outage.withheld))
    told = []
    if outage.commits:
        told.append(f"{outage.commits} commit{'' if outage.commits == 1 else 's'} failed meanwhile")
    elif outage.retried:
        times = "once" if outage.retried == 1 else f"{outage.retried} times"
        told.append(f"commits were tried again {times} meanwhile")
    if silent:
        told.append(f"nothing was delivered from {silent}, {_WITHHELD}")
    elif outage.has_withheld:
        told.append(f"records were withheld, {_WITHHELD}")
    if not told:
        return "No commit failed meanwhile, and no delivery waited for it."
    words = ", and ".join(told)
    return f"{words[0].upper()}{words[1:]}."
