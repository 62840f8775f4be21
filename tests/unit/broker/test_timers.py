"""Requests that wait."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

from aktor.broker.call import Call
from aktor.broker.timers import Waiting, WaitingList

PLACE = ("orders", 0)
OTHER = ("orders", 1)


class Visitor:
    """Waits, and says how often it was asked to try again, and how."""

    def __init__(self, *places: tuple[str, int], deadline: float = 10.0) -> None:
        self.tries: list[bool] = []
        self.has_enough = False
        self.call = Call(None, answer=lambda _: None, version=0, now=0.0)
        self.waiting = Waiting(
            call=self.call,
            deadline=deadline,
            places=frozenset(places or (PLACE,)),
            again=self.again,
        )

    def again(self, late: bool) -> bool:
        self.tries.append(late)
        return late or self.has_enough


def a_list(*visitors: Visitor) -> WaitingList:
    waiting = WaitingList()
    for visitor in visitors:
        waiting.add(visitor.waiting)
    return waiting


def test_who_waits_for_a_place_is_tried_when_it_changes_in_the_order_they_came() -> None:
    order: list[Any] = []

    class Noting(Visitor):
        def again(self, late: bool) -> bool:
            order.append(self)
            return super().again(late)

    first, second, elsewhere = Noting(), Noting(PLACE, OTHER), Noting(OTHER)
    waiting = a_list(first, second, elsewhere)

    waiting.changed(PLACE)

    assert order == [first, second]
    assert len(waiting) == 3


def test_who_has_enough_waits_no_more_anywhere() -> None:
    visitor = Visitor(PLACE, OTHER)
    waiting = a_list(visitor)

    visitor.has_enough = True
    waiting.changed(PLACE)
    waiting.changed(OTHER)
    waiting.tick(1000.0)

    assert visitor.tries == [False]
    assert (len(waiting), waiting.wake_at()) == (0, math.inf)


def test_time_runs_out_at_the_deadline_and_not_before() -> None:
    early, late = Visitor(deadline=5.0), Visitor(deadline=7.0)
    waiting = a_list(late, early)
    assert waiting.wake_at() == 5.0

    waiting.tick(4.9)
    assert early.tries == []

    waiting.tick(5.0)
    assert (early.tries, late.tries) == ([True], [])
    assert waiting.wake_at() == 7.0


def test_who_is_forgotten_is_never_tried_again() -> None:
    gone, stays = Visitor(), Visitor()
    waiting = a_list(gone, stays)

    waiting.forget(lambda call: call is gone.call)
    waiting.changed(PLACE)
    waiting.tick(10.0)

    assert gone.tries == []
    assert stays.tries == [False, True]


def test_who_is_forgotten_while_it_is_answered_is_counted_once() -> None:
    waiting = WaitingList()

    class Breaking(Visitor):
        def again(self, late: bool) -> bool:
            waiting.forget(lambda call: call is self.call)
            return True

    waiting.add(Breaking().waiting)
    waiting.add(Visitor().waiting)

    waiting.changed(PLACE)

    assert len(waiting) == 1


def test_those_that_were_answered_long_before_their_deadline_are_not_kept() -> None:
    waiting = WaitingList()
    alive: list[Any] = []

    class Tracked(Visitor):
        def __init__(self) -> None:
            super().__init__(deadline=1e9)
            alive.append(weakref.ref(self))
            self.has_enough = True

    for _ in range(1000):
        waiting.add(Tracked().waiting)
        waiting.changed(PLACE)
    gc.collect()

    assert sum(1 for one in alive if one() is not None) < 100
