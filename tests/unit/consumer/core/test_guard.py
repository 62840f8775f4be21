"""One thread at a time, in the process that made the consumer, until it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from aktor.consumer.core.guard import Guard, ThreadGuard, exclusive, looking
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


class Consumer:
    """The least that has a guard: `stay` is one call, in which `act` is done."""

    def __init__(self) -> None:
        self._guard = ThreadGuard()
        self._close_asked = None
        self.repairs = 0

    @exclusive
    def stay(self, act: Callable[[], Any] = lambda: "was inside", *, times: int = 1) -> Any:
        """What `act` returned."""
        return [act() for _ in range(times)][-1]

    @looking
    def look(self) -> str:
        return "saw"

    def _begin_call(self) -> None:
        self.repairs += self._guard.broken
        self._guard.broken = False
        self._guard.begun = True

    def _end_call_by(self, error: BaseException, frame: FrameType, result: object) -> None:
        self._guard.begun = False
        self._guard.leave(frame)

    def _call_nested(self, method: Any, args: Any, kwargs: Any) -> Any:
        return method(self, *args, **kwargs)


def refused(consumer: Consumer) -> bool:
    return isinstance(on_another_thread(consumer.stay), ConcurrentAccessError)


def test_a_second_thread_is_refused_with_both_names() -> None:
    consumer = Consumer()

    refusal = consumer.stay(lambda: on_another_thread(consumer.stay, name="worker"))

    assert isinstance(refusal, ConcurrentAccessError)
    assert f"{threading.current_thread().name!r} is inside" in str(refusal)
    assert "'worker' made another" in str(refusal)
    assert "wakeup" in str(refusal)


def test_a_second_thread_may_enter_once_the_first_has_left() -> None:
    consumer = Consumer()
    consumer.stay()

    assert on_another_thread(consumer.stay) == "was inside"
    assert consumer.stay() == "was inside"


def test_the_same_thread_may_enter_again_and_is_out_when_the_first_call_has_ended() -> None:
    consumer = Consumer()

    def again() -> bool:
        assert consumer.stay() == "was inside"
        return refused(consumer)

    assert consumer.stay(again)
    assert on_another_thread(consumer.stay) == "was inside"
    assert consumer.repairs == 0


def test_who_was_refused_has_not_let_anybody_else_in() -> None:
    consumer = Consumer()

    assert consumer.stay(lambda: [refused(consumer) for _ in range(2)]) == [True, True]


def test_an_error_inside_lets_the_guard_go() -> None:
    consumer = Consumer()

    with pytest.raises(ZeroDivisionError):
        consumer.stay(lambda: 1 // 0)

    assert on_another_thread(consumer.stay) == "was inside"


@pytest.mark.parametrize("begun", [False, True])
def test_who_was_interrupted_before_it_could_let_go_is_succeeded_by_the_next(begun: bool) -> None:
    consumer = Consumer()

    def interrupted() -> None:
        assert consumer._guard.enter(sys._getframe())
        consumer._guard.begun = begun

    interrupted()

    assert on_another_thread(consumer.stay) == "was inside"
    assert (consumer.stay(), consumer.repairs) == ("was inside", begun)


def test_who_is_inside_is_found_out_also_if_it_is_many_calls_deep() -> None:
    consumer = Consumer()

    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else (consumer.stay(), refused(consumer))

    assert consumer.stay(lambda: deep(50)) == ("was inside", True)
    assert consumer.repairs == 0


def test_many_threads_are_never_inside_at_once() -> None:
    consumer = Consumer()
    inside: list[str] = []
    seen: list[int] = []

    def act() -> None:
        inside.append("me")
        seen.append(len(inside))
        inside.pop()

    def run() -> int:
        entered = 0
        for _ in range(2000):
            with contextlib.suppress(ConcurrentAccessError):
                consumer.stay(act)
                entered += 1
        return entered

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            entered = [one.result() for one in [pool.submit(run) for _ in range(4)]]
    finally:
        sys.setswitchinterval(before)

    assert set(seen) == {1}
    assert sum(entered) == len(seen)
    assert consumer.repairs == 0


def test_a_call_leaves_nothing_for_the_garbage_collector() -> None:
    consumer = Consumer()

    def act() -> str:
        return "was inside"

    left = weakref.ref(consumer), weakref.ref(act)
    gc.disable()
    try:
        consumer.stay(act)
        del consumer, act  # a frame in a cycle with itself would hold both
        assert [ref() for ref in left] == [None, None]
    finally:
        gc.enable()


def test_a_closed_consumer_is_used_no_more() -> None:
    consumer = Consumer()
    consumer._guard.closed = True

    with pytest.raises(ConsumerClosedError):
        consumer.stay()
    with pytest.raises(ConsumerClosedError):
        consumer.look()


def test_looking_is_for_any_thread_at_any_time() -> None:
    consumer = Consumer()

    assert consumer.stay(lambda: on_another_thread(consumer.look)) == "saw"


def test_a_child_of_fork_is_refused_with_both_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, parent = Consumer(), os.getpid()
    assert not consumer._guard.forked

    monkeypatch.setattr(os, "getpid", lambda: parent + 1)

    assert consumer._guard.forked
    with pytest.raises(ConsumerForkedError, match=f"made in process {parent} .* {parent + 1}"):
        consumer.stay()


def test_a_child_of_fork_is_refused_also_if_it_was_forked_inside_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, parent = Consumer(), os.getpid()

    def forked() -> None:
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(ConsumerForkedError):
            consumer.stay()

    consumer.stay(forked)


def test_an_exclusive_method_keeps_its_name_arguments_and_result() -> None:
    consumer = Consumer()

    assert consumer.stay(lambda: 3, times=2) == 3
    assert (consumer.stay.__name__, consumer.stay.__doc__) == ("stay", "What `act` returned.")


class TaskGuard(Guard[Any]):
    """What an asyncio consumer would bring: a call is known by the task that makes it."""

    def is_within(self, caller: Any, holder: Any) -> bool:
        return caller is holder

    def is_running(self, holder: Any) -> bool:
        return not holder.done()

    def refusal(self, holder: Any) -> ConcurrentAccessError:
        return ConcurrentAccessError(owner=holder.get_name(), other="another task")


def test_a_driver_of_another_kind_brings_a_guard_that_knows_calls_by_tasks() -> None:
    async def main() -> None:
        guard, done = TaskGuard(), asyncio.Event()

        async def call(*, ends_by: Callable[[Any], None]) -> bool:
            task = asyncio.current_task()
            entered = guard.enter(task)
            guard.begin()
            await done.wait()
            ends_by(task)
            return entered

        inside = asyncio.create_task(call(ends_by=guard.leave), name="first")
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentAccessError, match="first"):
            guard.enter(asyncio.current_task())
        done.set()
        assert await inside
        assert not guard.broken

        # A task that was cancelled does not leave: the next call takes over, and repairs.
        done.clear()
        cancelled = asyncio.create_task(call(ends_by=guard.leave))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert guard.enter(asyncio.current_task())
        assert guard.broken

    asyncio.run(main())


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
