"""When nothing of a consumer ran: a stopped process, a machine that slept, a clock that was set."""

from __future__ import annotations

import pytest

from aktor.managers.membership.heartbeat_state import PollTimer, StandstillDetector
from aktor.settings import Settings

#: The wall clock at the monotonic time 0.0.
DAY = 1.8e9


def ticking(until: float) -> StandstillDetector:
    """Its ticks came as they were due, once a second, until then."""
    standstill = StandstillDetector()
    for second in range(int(until) + 1):
        assert standstill.tick(float(second), DAY + second) == 0.0
        standstill.wakes_at(second + 1.0)
    return standstill


def test_ticks_that_come_in_time_or_too_early_are_no_standstill() -> None:
    standstill = ticking(5)

    assert standstill.tick(5.1, DAY + 5.1) == 0.0
    assert standstill.tick(7.9, DAY + 7.9) == 0.0, "a busy machine"
    assert standstill.words == ""


def test_a_tick_that_comes_far_too_late_shows_that_the_process_stood_still() -> None:
    standstill = ticking(5)

    assert standstill.tick(46.0, DAY + 46.0) == 40.0
    assert standstill.words == "the process stood still for at least 40.0 s, or its clock jumped"


def test_an_answer_that_comes_before_a_late_tick_shows_it_too() -> None:
    standstill = ticking(5)

    standstill.hear(7.9)
    assert standstill.words == "", "a busy machine"
    standstill.hear(46.0)
    assert standstill.words == "the process stood still for at least 40.0 s, or its clock jumped"


def test_an_answer_that_comes_long_after_it_would_have_failed_shows_it_too() -> None:
    standstill = ticking(5)
    standstill.wakes_at(300.0, heard_by=8.0)

    standstill.hear(9.9)
    assert standstill.words == "", "a busy machine"
    standstill.hear(46.0)
    assert standstill.words == "the process stood still for at least 38.0 s, or its clock jumped"


def test_a_wall_clock_ahead_of_the_monotonic_one_shows_that_the_machine_slept_or_it_was_set() -> (
    None
):
    standstill = ticking(5)

    assert standstill.tick(6.0, DAY + 3606.0) == 0.0, "no late poll by the monotonic clock"
    assert standstill.words == "the machine slept for 3600.0 s, or its clock was set"


def test_a_wall_clock_that_is_set_back_is_nothing_that_the_group_could_notice() -> None:
    standstill = ticking(5)

    assert standstill.tick(6.0, DAY - 3594.0) == 0.0
    assert standstill.words == ""
    standstill.wakes_at(7.0)
    assert standstill.tick(7.0, DAY - 3593.0) == 0.0
    assert standstill.words == ""


def test_what_the_group_has_confirmed_since_has_another_reason() -> None:
    standstill = ticking(5)
    standstill.tick(46.0, DAY + 46.0)

    standstill.confirmed(asked_at=5.0)
    assert standstill.words, "it was asked before"
    standstill.confirmed(asked_at=46.0)
    assert standstill.words == ""


@pytest.mark.parametrize(
    ("polled_at", "told"), [(250.0, 299.0), (1.0, 0.0)], ids=["in time", "too late anyway"]
)
def test_a_poll_is_late_by_a_standstill_only_if_it_was_not_late_without_it(
    polled_at: float, told: float
) -> None:
    timer = PollTimer(Settings(max_poll_interval=300.0))
    timer.polled(polled_at)
    timer.update(602.0)
    timer.stood_still(299.0)

    assert timer.standstill == told
    timer.polled(603.0)
    assert timer.standstill == 0.0
