"""What is left to .ci/run: tests with the marker `gate`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest


def all_but_the_first(count: int, values: Iterable[Any]) -> list[Any]:
    """For `parametrize`: these values; those behind the first ones are left to .ci/run.

    A value that is a tuple has one item for each argument of the test.
    """
    rest = iter(values)
    first = list(islice(rest, count))
    return first + [pytest.param(*_items(one), marks=pytest.mark.gate) for one in rest]


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
