"""Partitions that were taken from their owners, and that no other member has when the traces end.

A partition that has a new owner has a row in the table of downtimes. One that has none yet, since a
rebalance goes on or never came to its end, is silent all the same: its owner says nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from aktor.trace.rebalances.assembly import Assembly
from aktor.trace.rebalances.departures import REACH
from aktor.trace.rebalances.holds import now_of
from aktor.trace.rebalances.ownership import Owner
from aktor.trace.rebalances.parts import Life, Part, milliseconds
from aktor.trace.rebalances.rows import Silence
from aktor.trace.rebalances.silences import LEAST, silence

__all__ = ["HEARD", "REBALANCE", "under_way", "was_lost"]

#: The reason of these silences.
REBALANCE: Final = "rebalance"

#: A member hears within so many seconds that a partition was released which it is to have: by its
#: next heartbeat (`group.consumer.max.heartbeat.interval.ms`).
HEARD: Final = 15.0

_GIVEN_UP: Final = "it is to be given up in a rebalance"
_NOBODY: Final = "it was given up, and no other member has it yet"
_LOST: Final = "it was given up in a rebalance, and its owner left before another member had it"


def under_way(
    group: str,
    in_transit: Iterable[tuple[str, Owner]],
    lives: dict[str, Life],
    going_on: Iterable[Assembly],
    told: Collection[tuple[str, str]],
    last: float,
) -> Iterator[Silence]:
    """Those that are on their way when the traces end, at `last`. `in_transit`: with their last
    owners, all partitions that were taken from these or are being taken; `going_on`: the
    rebalances that go on then; `told`: the silences that have a row anyway, by trace and
    partition."""
    going_on = list(going_on)
    there = [life for life in lives.values() if _is_there(life, last)]
    for partition, owner in in_transit:
        since = owner.taken_since
        is_told = (owner.source, partition) in told
        if since is None or is_told or last - since < LEAST:
            continue
        because: str | None = _GIVEN_UP
        if owner.released is not None:
            because = _because(owner, lives, going_on, there, last)
        elif (pending := lives[owner.source].pending) is not None:
            ms, quiet = milliseconds(pending[1], last), lives[owner.source].quiet(last)
            because = f"{_GIVEN_UP}; {now_of(pending[0], ms, quiet)}"
        if because is not None:
            yield silence(group, owner.name, partition, since, None, last, REBALANCE, because)


def _is_there(life: Life, last: float) -> bool:
    """Whether the member may be given a partition: it is in the group, and was not killed long
    before the traces end."""
    if not life.in_group or life.departed:
        return False
    if last - life.told <= max(HEARD, 2 * life.heartbeat_interval):
        return True
    # Of these a trace tells nothing for long: the answer to a classic JoinGroup, which comes when
    # all have joined, and the heartbeats of a stable member, unless it has all levels.
    waits = life.state == "joining" and life.protocol == "classic"
    return waits or (life.state == "stable" and not life.has_all_levels)


def _because(
    owner: Owner,
    lives: dict[str, Life],
    going_on: list[Assembly],
    there: list[Life],
    last: float,
) -> str | None:
    """Why nobody has a partition that was released; None: somebody without a trace may have it."""
    released = owner.released or 0.0
    for assembly in going_on:
        parts = [part for part in assembly.parts if lives[part.source].protocol == "classic"]
        # A classic group waits for all of its members before anybody is given anything.
        if parts and released >= assembly.began - REACH and assembly.is_waiting(owner.revoked_in):
            hold = assembly.hold
            return _NOBODY if hold is None else f"{_NOBODY}; {hold.words}"
    others = [life for life in there if life.source != owner.source]
    if last - released <= HEARD and (others or owner.revoked_in in _going_on(there)):
        return _NOBODY
    return None


def _going_on(there: Iterable[Life]) -> list[Part | None]:
    return [life.part or life.last_part for life in there]


def was_lost(
    group: str,
    assembly: Assembly,
    owner_of: Callable[[str], Owner | None],
    told: Collection[str],
    *,
    classic: bool,
) -> Iterator[Silence]:
    """The partitions of members that left before the rebalance had come to its end, and that no
    other member was given; but not those that are `told`."""
    ended = assembly.ended or assembly.began
    for part in assembly.parts:
        if part.outcome not in ("left", "lost") or part.goes_on:
            continue
        until = ended if classic and not assembly.generations else part.ended
        for partition in sorted(part.revoked):
            owner = owner_of(partition)
            if owner is None or owner.revoked_in is not part or partition in told:
                continue
            since = owner.taken_since
            if since is None or until is None or until - since < LEAST:
                continue
            hold = assembly.hold
            because = _LOST if hold is None else f"{_LOST}; {hold.words}"
            yield silence(group, owner.name, partition, since, until, until, REBALANCE, because)
