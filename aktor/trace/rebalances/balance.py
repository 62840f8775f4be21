"""Which partitions have moved, and the fewest that have to move so that a group is balanced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Moves", "least_moves"]


@dataclass(frozen=True, slots=True)
class Moves:
    """Which partitions changed hands, and what would have been enough."""

    partitions: int = 0
    moved: int = 0
    first: int = 0
    least: int | None = None
    needlessly: int | None = None
    unseen: int = 0
    #: So many partitions nobody with a trace had before it, though somebody had had them; and so
    #: many nobody with a trace has after it.
    given: int = 0
    taken: int = 0


def least_moves(kept: Sequence[int], members: int, partitions: int, moved: int) -> int:
    """How many partitions have to move, if each of `members` may own any of `partitions`.

    `kept` says how many partitions each member that is still in the group owned before; `moved` is
    the number of partitions that had an owner before, in the group or not any more. A group is
    balanced if no member owns two partitions more than another one. The members with the most
    partitions are those that may own one more.
    """
    if members == 0:
        return 0
    share, more = divmod(partitions, members)
    fullest = sorted(kept, reverse=True)
    stays = sum(min(count, share + (at < more)) for at, count in enumerate(fullest))
    return moved - stays
