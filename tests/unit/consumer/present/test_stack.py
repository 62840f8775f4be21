"""The line at which a thread is, and clocks that stand still."""

from __future__ import annotations

import threading

import pytest

from aktor.consumer.core.caller import frames_of, thread_of
from aktor.consumer.core.rebalancing import UserCode
from aktor.consumer.present import picture
from aktor.consumer.present.stack import line_of, stack_of
from aktor.consumer.present.watch import ahead_by
from tests.unit.consumer.core.builders import a_consumer


def test_a_thread_that_stands_still_between_two_clocks_says_nothing_of_them() -> None:
    """A consumer on a busy machine said that the clock was set by a second, and then back."""
    times = [5.0]

    def wall() -> float:
        times.append(times[-1] + stands_still)
        return 1000.0 + times[-1]

    stands_still = 0.01
    assert ahead_by(lambda: times[-1], wall) == pytest.approx(1000.0, abs=0.02)
    stands_still = 1.03
    assert ahead_by(lambda: times[-1], wall) is None


def test_the_line_of_the_background_thread_is_told_if_it_is_late_and_does_not_look_itself() -> None:
    may_end = threading.Event()
    background = threading.Thread(target=may_end.wait)
    background.start()

    late, in_time = (picture._frames_of_late(background.ident, overdue) for overdue in (12.0, 0.9))
    may_end.set()
    background.join()

    assert "threading.py" in line_of(late, ours=True)
    assert in_time == []
    assert picture._frames_of_late(threading.get_ident(), 12.0) == []


def test_no_line_is_named_of_a_thread_that_has_ended_since_another_may_have_its_id() -> None:
    harness = a_consumer()
    in_callback = UserCode()

    def polls_and_calls_back() -> None:
        harness.clock.now += 100.0
        harness.poll()
        in_callback.begin("on_partitions_revoked", 0.0)

    thread = threading.Thread(target=polls_and_calls_back)
    thread.start()
    thread.join()

    assert in_callback.running is not None
    for caller in (harness.engine.poll_heartbeat.caller, in_callback.running[2]):
        assert thread_of(caller) is None
    assert line_of(frames_of(None)) == ""
    assert stack_of(frames_of(None)) == ()


def test_the_line_of_the_thread_that_polls_is_named() -> None:
    harness = a_consumer()
    harness.clock.now += 100.0
    harness.poll()

    assert "test_stack.py" in line_of(frames_of(thread_of(harness.engine.poll_heartbeat.caller)))
