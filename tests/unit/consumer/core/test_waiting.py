"""What may wait is driven by a thread, which waits for a bell (an event loop: `unit/aio`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from aktor.actors.runtime.dispatcher import Bell, VirtualTime
from aktor.consumer.core.waiting import Bells, Blocking, Open, Waiting
from tests.unit.consumer.core.builders import ScriptedBell

T = TypeVar("T")


def waits(*times: float) -> Waiting[str]:
    """Waits until these times."""
    yield from times
    return "done"


# -- with a bell


def test_each_wait_is_for_as_long_as_it_is_until_then() -> None:
    clock = VirtualTime(100.0)
    bell = ScriptedBell(clock)

    assert Blocking(bell, clock).run(waits(101.0, 103.0)) == "done"

    assert bell.waits == [1.0, 2.0]


def test_it_goes_on_as_soon_as_the_bell_rings() -> None:
    clock = VirtualTime(100.0)
    bell = ScriptedBell(clock)
    bell.at(100.5, bell.ring)

    Blocking(bell, clock).run(waits(110.0))

    assert clock.now == 100.5


class _Raising(Bell):
    """A signal handler raises while it is waited for."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def wait(self, timeout: float) -> bool:
        raise self._error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, StopIteration, StopAsyncIteration])
def test_an_interrupt_goes_through_and_ends_what_waits(kind: type[BaseException]) -> None:
    ended = []

    def waiting() -> Waiting[None]:
        try:
            yield 110.0
        finally:
            ended.append(True)

    with pytest.raises(kind):
        Blocking(_Raising(kind()), VirtualTime(100.0)).run(waiting())

    assert ended == [True]


# -- with a bell for each thread


def on_a_thread(act: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result(30)


def test_all_threads_that_wait_hear_a_ring() -> None:
    bells = Bells(Bell)
    ready = threading.Barrier(4)

    def wait() -> bool:
        bells.wait(0)  # what came before
        ready.wait(30)
        return bells.wait(30)

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(wait) for _ in range(3)]
        ready.wait(30)
        bells.ring()
        assert [one.result(30) for one in waiting] == [True] * 3


def test_a_ring_is_kept_for_the_next_wait_of_each_thread() -> None:
    bells = Bells(Bell)
    bells.ring()

    assert [bells.wait(0), bells.wait(0)] == [True, False]
    assert on_a_thread(lambda: [bells.wait(0), bells.wait(0)]) == [True, False]

    assert not bells.wait(0)


def test_the_bells_of_threads_that_have_ended_are_forgotten() -> None:
    bells = Bells(Bell)
    for _ in range(50):
        on_a_thread(lambda: bells.wait(0))

    assert len(bells._all) < 10


def test_an_open_time_is_waited_for_by_who_lets_others_in() -> None:
    clock = VirtualTime(100.0)
    bell = ScriptedBell(clock)
    open_until: list[float] = []

    def waiting() -> Waiting[str]:
        yield 101.0
        yield Open(103.0)
        return "done"

    assert Blocking(bell, clock).run(waiting(), open_until.append) == "done"

    assert (bell.waits, open_until) == ([1.0], [103.0])
