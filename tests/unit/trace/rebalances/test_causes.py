"""The words by which the managers explain a rebalance name its cause to the analysis."""

from __future__ import annotations

import json

import pytest

from aktor.trace import reasons
from aktor.trace.rebalances.causes import Cause, cause_of
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.told import STORMS, storm_lines

#: The public ones: a private constant is no reason.
REASONS = [text for name, text in vars(reasons).items() if name.isupper() and name[0] != "_"]


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_of_a_rebalance_has_a_cause(reason: str) -> None:
    assert cause_of(f"{reason}something") is not Cause.UNKNOWN


def test_no_reason_begins_as_another_does() -> None:
    assert [one for one in REASONS for two in REASONS if one != two and one.startswith(two)] == []


@pytest.mark.parametrize(("seed", "protocol"), all_but_the_first(1, STORMS))
def test_each_rebalance_of_a_storm_has_a_cause(seed: int, protocol: str) -> None:
    events = map(json.loads, storm_lines(seed, protocol))
    given = {one["because"] for one in events if one["event"] == "rebalance.triggered"}

    assert given
    assert {one for one in given if cause_of(one) is Cause.UNKNOWN} == set()
