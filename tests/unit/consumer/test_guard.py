"""One thread at a time, in the process that made the consumer, until it is closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from aktor.consumer.guard import Guard, exclusive
from aktor.errors import ConcurrentAccessError, ConsumerClosedError, ConsumerForkedError
from tests.scenarios.world import World


def on_another_thread(act: Callable[[], Any], name: str = "worker") -> Any:
    """What `act` returned or raised there."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(act())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join(10)
    return outcome[0]


def enter_and_leave(guard: Guard) -> str:
    with guard:
        return "was inside"


def test_a_second_thread_is_refused_with_both_names() -> None:
    guard = Guard()

    with guard:
        refused = on_another_thread(lambda: enter_and_leave(guard), name="worker")

    assert isinstance(refused, ConcurrentAccessError)
    assert f"{threading.current_thread().name!r} is inside" in str(refused)
    assert "'worker' made another" in str(refused)
    assert "wakeup" in str(refused)


def test_a_second_thread_may_enter_once_the_first_has_left() -> None:
    guard = Guard()
    enter_and_leave(guard)

    assert on_another_thread(lambda: enter_and_leave(guard)) == "was inside"
    assert enter_and_leave(guard) == "was inside"


def test_the_same_thread_may_enter_again_and_is_out_when_it_has_left_as_often() -> None:
    guard = Guard()

    with guard:
        with guard:
            pass
        refused = on_another_thread(lambda: enter_and_leave(guard))

    assert isinstance(refused, ConcurrentAccessError)
    assert on_another_thread(lambda: enter_and_leave(guard)) == "was inside"


def test_who_was_refused_has_not_let_anybody_else_in() -> None:
    guard = Guard()

    with guard:
        refused = [on_another_thread(lambda: enter_and_leave(guard)) for _ in range(2)]

    assert [type(one) for one in refused] == [ConcurrentAccessError] * 2


def test_an_error_inside_lets_the_guard_go() -> None:
    guard = Guard()

    with pytest.raises(ZeroDivisionError), guard:
        raise ZeroDivisionError

    assert on_another_thread(lambda: enter_and_leave(guard)) == "was inside"


def test_a_closed_consumer_is_entered_by_close_only() -> None:
    guard = Guard()
    guard.closed = True

    with pytest.raises(ConsumerClosedError):
        enter_and_leave(guard)
    guard.enter()
    guard.__exit__()


def test_a_moment_inside_is_refused_to_others_and_over_when_left() -> None:
    guard = Guard()

    assert guard.enter_at_once()
    assert on_another_thread(guard.enter_at_once) is False
    assert isinstance(on_another_thread(lambda: enter_and_leave(guard)), ConcurrentAccessError)

    guard.leave_at_once()
    assert on_another_thread(lambda: enter_and_leave(guard)) == "was inside"


def test_a_moment_inside_is_refused_while_somebody_is_inside() -> None:
    guard = Guard()

    with guard:
        assert not guard.enter_at_once()


def test_a_child_of_fork_is_refused_with_both_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    guard, parent = Guard(), os.getpid()
    assert not guard.forked

    monkeypatch.setattr(os, "getpid", lambda: parent + 1)

    assert guard.forked
    assert not guard.enter_at_once()
    with pytest.raises(ConsumerForkedError, match=f"made in process {parent} .* {parent + 1}"):
        enter_and_leave(guard)


def test_a_child_of_fork_is_refused_also_if_it_was_forked_inside_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard, parent = Guard(), os.getpid()

    with guard:
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(ConsumerForkedError):
            enter_and_leave(guard)


def test_an_exclusive_method_is_guarded_and_gives_its_result() -> None:
    class Consumer:
        def __init__(self) -> None:
            self._guard = Guard()

        @exclusive
        def add(self, one: int, *, other: int) -> int:
            """Their sum."""
            refused = on_another_thread(lambda: self.add(0, other=0)) if one else None
            assert one == 0 or isinstance(refused, ConcurrentAccessError)
            return one + other

        def close(self) -> None:
            self._guard.closed = True

    consumer = Consumer()

    assert consumer.add(1, other=2) == 3
    assert (consumer.add.__name__, consumer.add.__doc__) == ("add", "Their sum.")
    consumer.close()
    with pytest.raises(ConsumerClosedError):
        consumer.add(1, other=2)


class Interrupted(World):
    """A world in which one look at the clock is interrupted by Ctrl-C, when asked for."""

    interrupt = False

    def __call__(self) -> float:
        if self.interrupt:
            self.interrupt = False
            raise KeyboardInterrupt
        return super().__call__()


def test_an_interrupt_while_a_record_is_handed_out_does_not_lock_the_consumer() -> None:
    world = Interrupted(seed=1)
    world.cluster.create_topic("orders")
    world.cluster.fill("orders", 5)
    consumer = world.consumer("orders", auto_offset_reset="earliest")
    assert next(consumer).offset == 0

    world.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        next(consumer)

    assert [next(consumer).offset for _ in range(4)] == [1, 2, 3, 4]
    consumer.close()
