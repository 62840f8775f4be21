"""Members whose traces end while those of others go on.

A member that was killed tells nothing any more, and the group does not know of it before its
session is over: until then no event says that its partitions bring nothing. What its trace lacks
does. After that its partitions have another owner, and a rebalance tells it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from aktor.trace.rebalances.parts import Life, Name

__all__ = ["ENDED", "ENDED_WORDS", "absent"]

#: The reason of such a silence; and its words.
ENDED: Final = "trace ended"
ENDED_WORDS: Final = (
    "its trace ends there, while those of others go on, and no other member has its partitions. If"
    " its process is gone, the group gives them away when its session is over; if its file was"
    " copied before the others, nothing is wrong"
)

#: Another trace goes on for so many seconds at least, and for so many intervals of the member's
#: heartbeats. (A member that reads nothing tells of nothing else.)
LEAST: Final = 10.0
INTERVALS: Final = 2


def absent(
    lives: Mapping[str, Life],
    owners: Mapping[str, str],
    apart: Collection[tuple[Name, Name]],
) -> Iterator[tuple[Life, list[str]]]:
    """The members of which nothing is heard, and their partitions. `owners`: the source of each
    partition's owner; `apart`: whose clocks are known to differ."""
    owned: defaultdict[str, list[str]] = defaultdict(list)
    for partition, source in sorted(owners.items()):
        owned[source].append(partition)
    for source, partitions in sorted(owned.items()):
        life = lives[source]
        after = max(LEAST, INTERVALS * life.heartbeat_interval)
        if life.is_expected and any(
            other.told - life.told >= after and not _are_apart(life.name, other.name, apart)
            for other in lives.values()
        ):
            yield life, partitions


def _are_apart(one: Name, other: Name, apart: Collection[tuple[Name, Name]]) -> bool:
    return (one, other) in apart or (other, one) in apart
