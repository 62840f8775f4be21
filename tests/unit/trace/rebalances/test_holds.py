"""Who held a rebalance."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Rebalance
from tests.unit.trace.rebalances.told import Member, rows_of

#: Seconds after the beginning: from when to when a callback ran.
Calls = Mapping[str, tuple[float, float]]


def sentence_of(alice: Calls, bob: Calls) -> str:
    """Of a rebalance of ten seconds."""
    events: list[Event] = []
    for name, calls in {"alice": alice, "bob": bob}.items():
        member = Member(events, name, "vm")
        member.rebalances(0.0, 10.0, 1, because="first join", members=2 if calls is alice else None)
        for call, (began, ended) in calls.items():
            callback = f"on_partitions_{call}"
            member.tells(ended, "callback.finished", callback=callback, ms=1000 * (ended - began))
    (row,) = rows_of(sorted(events, key=lambda event: event["t"]), Rebalance)
    return str(row.sentence)


@pytest.mark.parametrize("revoked", [(0.5, 4.5), (1.0, 4.0)])
def test_two_members_that_hold_a_rebalance_one_after_the_other_are_both_named(
    revoked: tuple[float, float],
) -> None:
    told = sentence_of({"assigned": (4.6, 9.6)}, {"revoked": revoked})

    took = f"{revoked[1] - revoked[0]:.1f} s"
    assert (
        "; alice on vm held it: its assigned callback took 5.0 s; bob on vm held it, too: its"
        f" revoked callback took {took}; "
    ) in told


def test_of_two_members_that_hold_a_rebalance_at_the_same_time_the_longest_is_named() -> None:
    told = sentence_of({"revoked": (0.5, 5.5)}, {"revoked": (0.6, 4.9)})

    assert "; alice on vm held it: its revoked callback took 5.0 s; partitions moved" in told


def test_who_held_a_rebalance_for_a_moment_besides_is_not_named() -> None:
    told = sentence_of({"revoked": (0.5, 5.5)}, {"assigned": (6.0, 7.5)})

    assert "; alice on vm held it: its revoked callback took 5.0 s; partitions moved" in told
