"""What is left to .ci/run: tests with the marker `gate`, and examples of Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest
from hypothesis import settings

#: The number of examples that a test names, by its function.
_named: dict[Any, int] = {}


def all_but_the_first(count: int, values: Iterable[Any]) -> list[Any]:
    """For `parametrize`: these values; those behind the first ones are left to .ci/run.

    A value that is a tuple has one item for each argument of the test.
    """
    rest = iter(values)
    first = list(islice(rest, count))
    return first + [pytest.param(*_items(one), marks=pytest.mark.gate) for one in rest]


def draw_at_most(count: Callable[[int], int], item: pytest.Item) -> None:
    """Hypothesis draws no more examples for this test than `count` makes of their number, but one.
    Each case of a test comes here, and all cases share the number.

    A profile would not do: it changes nothing for a test that names a number. Where Hypothesis
    keeps its settings elsewhere one day, this changes nothing and the run takes longer.
    """
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)  # of a method
    given = getattr(test, "_hypothesis_internal_use_settings", None)
    if given is None:
        return
    fewer = max(1, count(_named.setdefault(test, given.max_examples)))
    if given.max_examples > fewer:
        test._hypothesis_internal_use_settings = settings(given, max_examples=fewer)


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
