"""One call at a time, in the process that made the consumer, until it is closed; calls of other
threads wait for their turn."""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from aktor.actors.runtime.dispatcher import Bell, VirtualTime
from aktor.consumer.core.guard import ThreadGuard
from aktor.consumer.core.guarded import exclusive, looking
from aktor.errors import ConsumerClosedError
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
    thread.join(30)
    return outcome[0]


class Consumer:
    """The least that has a guard: `stay` is one call, in which `act` is done."""

    def __init__(self) -> None:
        self._guard = ThreadGuard()
        self._close_asked = None
        self.repairs = 0
        self.nested = 0
        self.make_bell: Callable[[], Bell] = Bell
        #: For how many seconds a call waits for its turn.
        self.patience = 10.0
        self.clock: Callable[[], float] = time.monotonic

    @exclusive
    def stay(self, act: Callable[[], Any] = lambda: "was inside", *, times: int = 1) -> Any:
        """What `act` returned."""
        return [act() for _ in range(times)][-1]

    @looking
    def look(self) -> str:
        return "saw"

    def wait_for(self, event: threading.Event) -> None:
        """What a call does that waits for the cluster."""
        frame = self._guard.let_others_in()
        assert event.wait(30)
        self._guard.come_back(frame, make_bell=Bell, clock=time.monotonic)
        self._guard.begin()

    def _wait_for_turn(self, frame: FrameType, method: Any, args: Any, kwargs: Any) -> Any:
        until = self.clock() + self.patience
        entered = self._guard.wait(frame, until, bell=self.make_bell(), clock=self.clock)
        return (args, kwargs) if entered else None

    def _miss_turn(self, method: Any, args: Any) -> Any:
        raise TimeoutError(f"{self._guard.owner} is inside")

    def _begin_call(self) -> None:
        self.repairs += self._guard.broken
        self._guard.broken = False
        self._guard.begun = True

    def _end_call_by(self, error: BaseException, frame: FrameType, result: object) -> None:
        self._guard.leave(frame)

    def _wake_for_records(self) -> None:
        """It has no records."""

    def _call_nested(self, method: Any, args: Any, kwargs: Any) -> Any:
        self.nested += 1
        return method(self, *args, **kwargs)


def refused(consumer: Consumer) -> bool:
    """Whether a call of another thread must wait."""
    before, consumer.patience = consumer.patience, 0.02
    try:
        return isinstance(on_another_thread(consumer.stay), TimeoutError)
    finally:
        consumer.patience = before


class InTheBackground:
    """A call on a thread of its own, which has begun to wait for its turn when this is made."""

    def __init__(self, consumer: Consumer, act: Callable[[], Any]) -> None:
        before = len(consumer._guard.places)
        self.outcome: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._run(consumer, act))
        self._thread.start()
        while len(consumer._guard.places) == before:
            time.sleep(0.001)

    def _run(self, consumer: Consumer, act: Callable[[], Any]) -> None:
        self.outcome.append(consumer.stay(act))

    def end(self) -> Any:
        """What it returned."""
        self._thread.join(30)
        return self.outcome[0]


def test_a_second_thread_waits_until_the_first_has_left() -> None:
    consumer = Consumer()
    done: list[str] = []

    def first() -> InTheBackground:
        other = InTheBackground(consumer, lambda: done.append("second"))
        done.append("first")
        return other

    consumer.stay(first).end()

    assert done == ["first", "second"]


def test_calls_of_other_threads_have_their_turns_in_order_also_if_the_first_comes_back() -> None:
    consumer = Consumer()
    done: list[int] = []

    def first() -> list[InTheBackground]:
        return [
            InTheBackground(consumer, lambda number=number: done.append(number))
            for number in range(3)
        ]

    others = consumer.stay(first)
    consumer.stay(lambda: done.append(3))
    for other in others:
        other.end()

    assert done == [0, 1, 2, 3]


def test_a_call_whose_time_is_over_leaves_the_queue_and_is_told_who_is_inside() -> None:
    consumer = Consumer()
    consumer.patience = 0.02

    error = consumer.stay(lambda: on_another_thread(consumer.stay))

    assert str(error) == f"{threading.current_thread().name} is inside"
    assert not consumer._guard.places
    assert on_another_thread(consumer.stay) == "was inside"


def test_a_call_whose_process_was_stopped_is_let_in_by_one_that_ends_at_once() -> None:
    """Its time has passed, and the call that is inside has had no time to end."""
    consumer, goes_on = Consumer(), threading.Event()
    clock = VirtualTime()

    class StoppedBell(Bell):
        stopped = False

        def wait(self, timeout: float) -> bool:
            if not self.stopped:
                self.stopped = True
                clock.now += 14.0
                return False
            goes_on.set()
            return super().wait(timeout)

    consumer.clock, consumer.make_bell = clock, StoppedBell
    with ThreadPoolExecutor(1) as another:

        def first() -> Future[Any]:
            waiting = another.submit(consumer.stay)
            goes_on.wait(2)
            return waiting

        assert consumer.stay(first).result() == "was inside"


def test_a_call_that_waits_for_the_cluster_lets_others_in_and_goes_on_after_them() -> None:
    consumer, answer = Consumer(), threading.Event()
    done: list[str] = []

    def wait() -> None:
        consumer.wait_for(answer)
        done.append("first")

    first = threading.Thread(target=lambda: consumer.stay(wait))
    first.start()
    while not consumer._guard.away:
        time.sleep(0.001)

    def second() -> None:
        answer.set()
        time.sleep(0.01)  # the first would go on now, if it could
        done.append("second")

    consumer.stay(second)
    first.join(30)

    assert done == ["second", "first"]
    assert (consumer.repairs, dict(consumer._guard.away)) == (0, {})


def test_a_call_in_the_middle_of_one_that_has_let_others_in_is_nested() -> None:
    """A signal handler may make it: it must not wait for the call that it has interrupted."""
    consumer = Consumer()

    def handler_runs_meanwhile() -> Any:
        frame = consumer._guard.let_others_in()
        nested = consumer.stay(lambda: "nested")
        consumer._guard.come_back(frame, make_bell=Bell, clock=time.monotonic)
        return nested

    assert consumer.stay(handler_runs_meanwhile) == "nested"
    assert consumer.nested == 1


def test_a_call_in_the_middle_of_one_that_waits_for_its_turn_is_nested() -> None:
    consumer = Consumer()
    nested: list[Any] = []

    class Signalled(Bell):
        """A signal handler runs while it is waited for."""

        def wait(self, timeout: float) -> bool:
            if not nested:
                nested.append(consumer.stay(lambda: "nested"))
            return super().wait(timeout)

    consumer.make_bell = Signalled
    inside = threading.Event()
    leave = threading.Event()
    first = threading.Thread(target=lambda: consumer.stay(lambda: (inside.set(), leave.wait(30))))
    first.start()
    assert inside.wait(30)
    threading.Timer(0.05, leave.set).start()

    assert consumer.stay() == "was inside"

    first.join(30)
    assert (nested, consumer.nested) == (["nested"], 1)


@pytest.mark.parametrize("where", ["inside", "away", "waiting"])
def test_a_call_that_was_interrupted_on_any_line_keeps_nobody_out(where: str) -> None:
    consumer = Consumer()
    guard = consumer._guard

    def interrupted() -> None:
        frame = sys._getframe()
        if where == "waiting":
            guard.places.append(type("Place", (), {"frame": frame, "bell": Bell()}))
            return
        assert guard.enter(frame)
        guard.begun = True
        if where == "away":
            guard.let_others_in()

    interrupted()

    assert on_another_thread(consumer.stay) == "was inside"
    assert (consumer.stay(), consumer.repairs) == ("was inside", where == "inside")
    assert [list(guard.places), list(guard.away), list(guard.holder)] == [[], [], []]


class InterruptedOnEntering(dict[None, FrameType]):
    """The holder, if Ctrl-C comes as soon as a call has entered."""

    def setdefault(self, *args: Any) -> Any:
        super().setdefault(*args)
        raise KeyboardInterrupt


def test_a_call_that_is_interrupted_as_it_comes_back_is_still_away_and_lets_others_in() -> None:
    """Its end then does not take what the next call does for its own."""
    guard, frame = ThreadGuard(), sys._getframe()
    guard.holder = InterruptedOnEntering()
    guard.holder[None] = frame
    guard.let_others_in()

    with pytest.raises(KeyboardInterrupt):
        guard.wait(frame, time.monotonic() + 1, bell=Bell(), clock=time.monotonic)

    assert guard.is_away(frame)
    assert not guard.places
    guard.leave(frame)
    assert not guard.away


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
        for _ in range(500):
            consumer.stay(act)
        return 500

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
    consumer._guard.close()

    with pytest.raises(ConsumerClosedError):
        consumer.stay()
    with pytest.raises(ConsumerClosedError):
        consumer.look()


def test_looking_is_for_any_thread_at_any_time() -> None:
    consumer = Consumer()

    assert consumer.stay(lambda: on_another_thread(consumer.look)) == "saw"


def said_in_a_child(act: Callable[[], Any]) -> str:
    """The error of what is done in a child of fork."""
    theirs, ours = os.pipe()
    child = os.fork()
    if not child:
        try:
            act()
        except Exception as error:
            os.write(ours, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(ours)
    with os.fdopen(theirs) as told:
        said = told.read()
    assert os.waitpid(child, 0)[1] == 0, "the child was killed"
    return said.replace(str(child), "the child's")


def test_a_child_of_fork_is_refused_with_both_processes() -> None:
    consumer = Consumer()

    refusal = said_in_a_child(consumer.stay)

    assert re.match(f"ConsumerForkedError.*made in process {os.getpid()} .*the child's", refusal)
    assert said_in_a_child(consumer.look) == refusal
    assert not consumer._guard.forked
    assert consumer.stay() == "was inside"


def test_a_child_of_fork_is_refused_also_if_it_was_forked_inside_a_call() -> None:
    consumer = Consumer()

    refusal = consumer.stay(lambda: said_in_a_child(consumer.stay))

    assert refusal.startswith("ConsumerForkedError")


def test_an_exclusive_method_keeps_its_name_arguments_and_result() -> None:
    consumer = Consumer()

    assert consumer.stay(lambda: 3, times=2) == 3
    assert (consumer.stay.__name__, consumer.stay.__doc__) == ("stay", "What `act` returned.")


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
