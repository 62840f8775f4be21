"""The base of the managers: duties, and the times that they say they are due."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest

from aktor.actors.manager import AGAIN, NEVER, Duty, RequestManager
from aktor.settings import Settings


class Alarm(RequestManager):
    """Says at each of its times that it is so late; then waits for a message."""

    name: ClassVar[str] = "alarm"

    def __init__(self, *times: float, stuck: bool = False) -> None:
        super().__init__(Settings())
        self._times = list(times)
        self._stuck = stuck

    def duties(self) -> tuple[Duty, ...]:
        return (self._ring, self._never)

    def _ring(self, now: float, _jitter: float) -> float:
        if not self._times:
            return NEVER
        if now < self._times[0]:
            return self._times[0]
        if not self._stuck:
            self._tell(self._times.pop(0))
        return AGAIN

    def _never(self, _now: float, _jitter: float) -> float:
        return NEVER


def test_a_manager_is_asked_again_when_the_first_of_its_duties_is_due() -> None:
    alarm = Alarm(3.0, 5.0)

    early, late = alarm.poll(2.0, 0.5), alarm.poll(3.0, 0.5)

    assert (early.said, early.wake_at) == ((), 3.0)
    assert (late.said, late.wake_at) == ((3.0,), 5.0)


def test_all_that_is_due_is_done_in_one_poll() -> None:
    result = Alarm(3.0, 5.0).poll(6.0, 0.5)

    assert (result.said, result.wake_at) == ((3.0, 5.0), math.inf)


def test_without_a_backoff_the_next_attempt_is_due_at_once_and_that_is_no_crash() -> None:
    class Hasty(Alarm):
        """What it does fails each time, and `retry_backoff_ms` is 0."""

        def _ring(self, now: float, _jitter: float) -> float:
            self._tell("failed")
            return now

    result = Hasty().poll(4.0, 0.5)

    assert (result.said, result.wake_at) == (("failed",), 4.0)


def test_a_duty_that_is_due_and_never_done_is_a_crash_and_no_busy_loop() -> None:
    with pytest.raises(RuntimeError, match="alarm has something to do at once, and never does it"):
        Alarm(3.0, stuck=True).poll(4.0, 0.5)
