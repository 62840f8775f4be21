"""What is left to .ci/run: tests with the marker `gate`, and examples of Hypothesis."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

#: What `make test` gives to pytest's `-m`.
MAKE_TEST = "not gate"

#: `make test` runs so many cases of a test with the marker FEW. Such a test has a list that is
#: generated, as each API in each version, or seeds: most bugs are seen in many of its cases.
CASES = 10
FEW = "few_cases"

#: Markers that tests get after they were made.
LATER = ("gate", "hypothesis", "timeout")

#: Its multiples, without the part before the point, are spread evenly, however many there are.
GOLDEN = (5**0.5 - 1) / 2

#: The number of examples that a test names, by its function.
_named: dict[Any, int] = {}


def all_but_the_first(count: int, values: Iterable[Any]) -> list[Any]:
    """For `parametrize`: these values; those behind the first ones are left to .ci/run.

    A value that is a tuple has one item for each argument of the test.
    """
    rest = iter(values)
    first = list(islice(rest, count))
    return first + [pytest.param(*_items(one), marks=pytest.mark.gate) for one in rest]


def leave_out_cases(metafunc: pytest.Metafunc) -> None:
    """Of a test with the marker FEW mark all cases but some.

    They are made all the same: not to make what is not asked for saved no time when it was tried.

    Where pytest keeps the cases elsewhere one day, this changes nothing and the run takes longer.
    """
    if metafunc.definition.get_closest_marker(FEW):
        cases = getattr(metafunc, "_calls", [])
        often = [case for case in cases if not any(mark.name == "gate" for mark in case.marks)]
        for case in rest_of(often, [case.indices for case in often]):
            case.marks.append(pytest.mark.gate.mark)


def rest_of(cases: Sequence[T], values: Sequence[Mapping[str, int]]) -> list[T]:
    """All but `CASES` of them, of each test the same. `values`: for each case, by the name of an
    argument, the number of its value.

    Of a test with several arguments those are run that bring most new values of them. They come
    from all parts of the list: a step of equal length would meet the same few values again and
    again.
    """
    if len(cases) <= CASES:
        return []
    order = sorted(range(len(cases)), key=lambda number: number * GOLDEN % 1)
    seen: set[tuple[str, int]] = set()
    chosen: set[int] = set()

    def new(number: int) -> int:
        return len(values[number].items() - seen)

    while len(chosen) < CASES and new(best := max(order, key=new)):
        chosen.add(best)
        seen |= values[best].items()
    return [case for number, case in enumerate(cases) if number not in chosen]


def words_of(expression: str) -> tuple[str, ...]:
    """The words of which a test has at least one if `-k` asks for it; none: that is not known."""
    words = {word.lower() for word in re.findall(r"[^\s()]+", expression)} - {"and", "or"}
    later = any(word in mark for word in words for mark in LATER)
    return () if "not" in words or later else tuple(words)


def make_what_has_one_of(words: Iterable[str], metafunc: pytest.Metafunc) -> None:
    """Of a test that does not have such a word in its name, make the cases that have. If there are
    none, make one: `-k` leaves it out. So `-k commit` need not make 14,000 of 20,000 cases.

    Where pytest keeps the cases elsewhere one day, this changes nothing and takes longer.
    """
    test, cases = metafunc.definition, getattr(metafunc, "_calls", [])
    if len(cases) > 1 and not _have_one_of(words, _names_of(test)):
        cases[:] = [
            case
            for case in cases
            if _have_one_of(words, {case.id, *(mark.name for mark in case.marks)})
        ] or cases[:1]


def _names_of(test: pytest.Item) -> set[str]:
    """Whatever `-k` looks into, but for the name of a case."""
    marks = {mark.name for mark in test.iter_markers()}
    return {test.nodeid, *test.listextrakeywords(), *vars(test.obj), *marks}


def _have_one_of(words: Iterable[str], names: Iterable[str]) -> bool:
    lower = [name.lower() for name in names]
    return any(word in name for word in words for name in lower)


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
