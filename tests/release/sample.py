"""A smaller run of the units, for another Python: pytest -p tests.release.sample.

All units run with the Python of `make test`. What another Python may do differently is the same for
each case of a test: so each test has a few of its cases here, from its first to its last one, and a
few examples that Hypothesis draws.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar

import pytest

from tests.gate import draw_at_most

T = TypeVar("T")

#: At most so many cases of one test function, and so many examples of Hypothesis.
CASES = 5
EXAMPLES = 5


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other cases, which are shown as deselected."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    chosen = {item for cases in tests.values() for item in sampled(cases)}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
    for item in items:
        draw_at_most(lambda _: EXAMPLES, item)


def sampled(cases: list[T]) -> list[T]:
    """All, or `CASES` at equal distances, with the first and the last one."""
    if len(cases) <= CASES:
        return cases
    return [cases[number * (len(cases) - 1) // (CASES - 1)] for number in range(CASES)]
