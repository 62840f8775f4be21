"""The fewest moves, against all assignments that there are."""

from __future__ import annotations

import itertools

import pytest

from aktor.trace.rebalances.balance import least_moves


def by_trying(before: tuple[int | None, ...], members: int) -> int:
    """The fewest moves of all balanced assignments; an owner that is None has left."""
    best = len(before)
    for after in itertools.product(range(members), repeat=len(before)):
        counts = [after.count(member) for member in range(members)]
        if max(counts) - min(counts) <= 1:
            best = min(best, sum(a != b for a, b in zip(before, after, strict=True)))
    return best


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("partitions", [0, 1, 2, 3, 4, 5])
def test_no_balanced_assignment_moves_less(members: int, partitions: int) -> None:
    for before in itertools.product([None, *range(members)], repeat=partitions):
        kept = [before.count(member) for member in range(members)]

        assert least_moves(kept, members, partitions, partitions) == by_trying(before, members)


def test_a_group_without_members_moves_nothing() -> None:
    assert least_moves([], 0, 0, 0) == 0
