"""For how long the dispatcher's thread has done nothing though it should, as other threads see."""

from __future__ import annotations

import math
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from aktor.actors.runtime.dispatcher import Dispatcher, VirtualTime, Wake

#: No step takes longer than this.
AT_MOST = 30.0


class Steps:
    """A dispatcher on a thread that stops in each sleep, and in each turn, until it may go on."""

    def __init__(self) -> None:
        self.clock = VirtualTime(99.0)
        self.wakes_at = 160.0
        self._now = threading.Semaphore(0)
        self._may_go_on = threading.Semaphore(0)
        self.ends = False
        self.dispatcher = Dispatcher({}, clock=self.clock)
        self.dispatcher.sleeper = self
        self.dispatcher.watch_by(self._look)
        self.dispatcher.ticks.wake_at = math.inf  # there is nobody to ask
        self.dispatcher.ticks.stop()
        self.clock.now = 100.0
        self.dispatcher.start_thread("test")
        self.wait_for_step()

    def wait(self, timeout: float) -> None:
        self._stop_here()

    def wake(self) -> None:
        pass

    def prepare_to_rest(self) -> None:
        pass

    def _look(self, now: float) -> tuple[float, Wake]:
        self._stop_here()
        return self.wakes_at, Wake.FOR_LOOK

    def _stop_here(self) -> None:
        self._now.release()
        if not self.ends:
            assert self._may_go_on.acquire(timeout=AT_MOST)

    def wait_for_step(self) -> None:
        assert self._now.acquire(timeout=AT_MOST)

    def go_on(self) -> None:
        """Until it stops again."""
        self._may_go_on.release()
        self.wait_for_step()

    def end(self) -> None:
        self.ends = True
        self._may_go_on.release()
        assert self.dispatcher.stop(timeout=AT_MOST)


@pytest.fixture
def steps() -> Any:
    made = Steps()
    yield made
    made.end()


def test_a_thread_is_late_from_the_beginning_of_its_turn_and_from_the_end_of_its_sleep(
    steps: Steps,
) -> None:
    overdue = steps.dispatcher.overdue
    assert overdue(103.0) == 3.0, "it is in a turn since 100"

    steps.go_on()
    assert (overdue(159.0), overdue(163.0)) == (0.0, 3.0), "it sleeps until 160"
    steps.clock.now = 160.0
    steps.go_on()
    assert overdue(163.0) == 3.0, "it is in the next turn"


def test_a_dispatcher_without_a_thread_is_never_late() -> None:
    assert Dispatcher({}, clock=VirtualTime(100.0)).overdue(1000.0) == 0.0


def test_a_thread_that_has_ended_is_late_for_ever(steps: Steps) -> None:
    steps.end()

    assert steps.dispatcher.overdue(100.0) == math.inf


@pytest.mark.parametrize("line", range(1, 9))
def test_who_wakes_while_another_thread_asks_is_not_late(steps: Steps, line: int) -> None:
    """Its whole sleep was said to be a turn of it if it woke between two reads."""
    steps.go_on()
    steps.clock.now = 160.0
    lines = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if frame.f_code is not Dispatcher.overdue.__code__:
            return None
        if event == "line":
            lines += 1
            if lines == line:
                steps.go_on()  # it wakes, and is in its next turn
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        overdue = steps.dispatcher.overdue(160.0)
    finally:
        sys.settrace(before)

    assert lines >= 4
    assert overdue == 0.0
