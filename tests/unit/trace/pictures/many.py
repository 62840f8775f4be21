"""A group with many members and partitions, for pictures."""

from __future__ import annotations

from functools import cache
from typing import Any

from aktor.trace.rebalances import Tables, tell
from tests.unit.trace.rebalances.told import BEGAN, Member


@cache
def many(partitions: int = 500, members: int = 50) -> Tables:
    """So many partitions of a group that rebalances ten times; one member at a time is killed."""
    events: list[Any] = []
    each = partitions // members
    its = [Member(events, f"worker-{number}") for number in range(members)]
    for turn in range(10):
        at = BEGAN + 60.0 * turn
        for number, member in enumerate(its):
            owns = [f"orders-{(number + turn) % members * each + one}" for one in range(each)]
            member.rebalances(at, at + 1, turn + 1, because="first join", owns=owns)
            for partition in owns:
                member.is_given(at + 2, partition, 100 * turn, 100 * turn + 9)
                member.is_given(at + 40, partition, 100 * turn + 10, 100 * turn + 99)
    return Tables(tell(events)[0])
