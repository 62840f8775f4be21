"""Which cases of a test `make test` runs: see tests/gate.py."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from tests.gate import CASES, rest_of, words_of


@pytest.mark.parametrize("count", [1, CASES, CASES + 1, 7 * CASES])
def test_of_many_cases_a_few_are_chosen_from_all_parts_of_the_list(count: int) -> None:
    cases = list(range(count))

    left_out = rest_of(cases, [{"number": case} for case in cases])

    chosen = [case for case in cases if case not in left_out]
    assert len(chosen) == min(count, CASES)
    steps = [after - before for before, after in pairwise(chosen)]
    assert max(steps, default=1) <= 2 * -(-count // CASES)


@pytest.mark.parametrize("shape", [(4, 4), (2, 20), (20, 2), (2, 2, 2, 2), (5, 3, 2), (26, 9)])
def test_of_several_arguments_each_meets_as_many_values_as_can_be(shape: tuple[int, ...]) -> None:
    names = "abcd"[: len(shape)]
    cases = list(product(*map(range, shape)))
    values = [dict(zip(names, case, strict=True)) for case in cases]

    left_out = rest_of(cases, values)

    chosen = [case for case in cases if case not in left_out]
    assert len(chosen) <= CASES
    for place, length in enumerate(shape):
        assert len({case[place] for case in chosen}) >= min(length, CASES - 1)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", set()),
        ("commit", {"commit"}),
        ("Commit and (fetch or [real)", {"commit", "fetch", "[real"}),
        ("commit and not slow", set()),
        ("gat", set()),  # a marker that some tests get later
    ],
)
def test_a_test_that_k_asks_for_has_one_of_its_words(expression: str, words: set[str]) -> None:
    assert set(words_of(expression)) == words
