"""Times by which something must have happened."""

from __future__ import annotations

import math

from aktor.broker.groups.consumer.deadlines import Deadlines


def test_what_is_due_is_taken_out_earliest_first() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("late", 3.0)
    deadlines.set("early", 1.0)
    deadlines.set("later", 5.0)

    assert deadlines.due(3.0) == ["early", "late"]
    assert deadlines.due(3.0) == []
    assert deadlines.next_at == 5.0


def test_what_is_postponed_is_not_due_when_it_was() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 1.0)
    deadlines.set("a", 2.0)

    assert deadlines.next_at <= 2.0
    assert deadlines.due(1.0) == []
    assert deadlines.next_at == 2.0


def test_without_deadlines_there_is_nothing_to_wait_for() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 1.0)
    deadlines.drop("a")
    deadlines.drop("b")

    assert deadlines.due(9.0) == []
    assert deadlines.next_at == math.inf
    assert "a" not in deadlines
