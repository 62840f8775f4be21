"""Which cases of a test run with another Python."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import settings, strategies

from tests.gate import draw_at_most
from tests.release.sample import CASES, EXAMPLES, sampled


@pytest.mark.parametrize("count", [1, CASES - 1, CASES, CASES + 1, 7 * CASES])
def test_few_cases_of_a_test_run_with_the_first_and_the_last_of_them(count: int) -> None:
    cases = list(range(count))

    chosen = sampled(cases)

    assert len(set(chosen)) == len(chosen) == min(count, CASES)
    assert (chosen[0], chosen[-1]) == (0, count - 1)


def test_hypothesis_draws_few_examples_for_a_test_that_names_a_number(
    request: pytest.FixtureRequest,
) -> None:
    examples: list[int] = []

    @settings(max_examples=20 * EXAMPLES)
    @drawn(strategies.integers())
    def rule(number: int) -> None:
        examples.append(number)

    item = pytest.Function.from_parent(request.node.parent, name="rule", callobj=rule)
    draw_at_most(lambda _: EXAMPLES, item)
    rule()

    assert 0 < len(examples) <= EXAMPLES


def test_each_case_of_a_test_draws_the_same_part_of_its_examples(
    request: pytest.FixtureRequest,
) -> None:
    examples: list[int] = []

    @settings(max_examples=90)
    @drawn(strategies.integers())
    def rule(number: int) -> None:
        examples.append(number)

    for _ in range(8):
        item = pytest.Function.from_parent(request.node.parent, name="rule", callobj=rule)
        draw_at_most(lambda count: count // 3, item)
    rule()

    assert 25 < len(examples) <= 30


def test_one_example_is_drawn_at_least(request: pytest.FixtureRequest) -> None:
    examples: list[int] = []

    @settings(max_examples=2)
    @drawn(strategies.integers())
    def rule(number: int) -> None:
        examples.append(number)

    item = pytest.Function.from_parent(request.node.parent, name="rule", callobj=rule)
    draw_at_most(lambda count: count // 3, item)
    rule()

    assert len(examples) == 1
