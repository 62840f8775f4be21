"""A process that is stopped (SIGSTOP) in a call for longer than the call has time, and continued:
what the background reads then, at once, counts. It is not thrown away for an error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from aktor.actors.runtime.dispatcher import VirtualTime
from aktor.consumer.core import waiting
from aktor.consumer.core.guarded import Close
from aktor.consumer.core.timeout import patient_timeout
from aktor.consumer.core.waiting import CATCH_UP, done_within
from aktor.consumer.facade import KafkaConsumer
from aktor.events.answers import Answered
from aktor.events.commits import CommitOffsets
from aktor.events.membership import LeaveGroup
from aktor.events.metadata import Cluster
from tests.unit.consumer.core.builders import EngineHarness, ScriptedBell, a_consumer, a_member
from tests.unit.consumer.core.builders_chunks import A, a_chunk

#: For how many seconds the process is stopped.
STOPPED = 14.0

#: Each call looks at the clock so often at most.
LOOKS = 12


class StoppedBell(ScriptedBell):
    """In a wait the process is stopped once. The wait ends with nothing, since its time has passed
    (PEP 475); what is due is heard in the next one."""

    __slots__ = ("stops",)

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__(clock)
        self.stops = False

    def wait(self, timeout: float) -> bool:
        if self.stops and timeout > 0:
            self.stops = False
            self._clock.now += STOPPED
            return False
        return super().wait(timeout)


class StoppedClock(VirtualTime):
    """Before the look with this number the process is stopped."""

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.left = -1

    def __call__(self) -> float:
        if self.left == 0:
            self.now += STOPPED
        self.left -= 1
        return self.now


class Stopped:
    """Stops the process of a consumer in the wait of its next call (-1), or before that call looks
    at the clock for this time."""

    def __init__(self) -> None:
        self.clock = StoppedClock(100.0)
        self.bell = StoppedBell(self.clock)

    def at(self, where: int) -> None:
        self.bell.stops, self.clock.left = where < 0, where


WHERE = pytest.mark.parametrize("where", range(-1, LOOKS))


@WHERE
def test_an_answer_that_is_there_then_is_the_result(where: int) -> None:
    process = Stopped()
    harness = a_consumer(clock=process.clock, bell=process.bell)

    def hear(message: Any) -> None:
        if isinstance(message, CommitOffsets):
            answer = Answered(ticket=message.ticket, value=None)
            process.bell.at(102.0, lambda: harness.hear(answer))

    harness.on_said = hear
    process.at(where)
    harness.run(harness.engine.commit({}, 105.0))


@WHERE
def test_a_position_that_was_found_then_is_the_result(where: int) -> None:
    process = Stopped()
    harness = EngineHarness(clock=process.clock, bell=process.bell)
    harness.assign([A])
    process.bell.at(102.0, lambda: harness.found(A, 7))
    process.at(where)

    assert harness.run(harness.engine.position(A, 105.0, must=True)) == 7


@WHERE
def test_a_cluster_that_was_described_then_is_reached(where: int) -> None:
    process = Stopped()
    harness = a_consumer(clock=process.clock, bell=process.bell)
    harness.port.cluster = Cluster()

    def described() -> None:
        harness.port.cluster = Cluster(version=1)
        process.bell.ring()

    process.bell.at(102.0, described)
    process.at(where)
    harness.run(harness.engine.questions.reach_cluster(105.0))


@WHERE
def test_records_that_have_come_are_given_out(where: int) -> None:
    process = Stopped()
    harness = a_consumer(clock=process.clock, bell=process.bell)
    process.bell.at(102.0, lambda: harness.fetched(a_chunk(count=3)))
    process.at(where)

    assert harness.poll(5.0) == {A: [0, 1, 2]}


@WHERE
def test_a_commit_under_way_that_is_answered_then_is_heard_before_the_group_is_left(
    where: int,
) -> None:
    process = Stopped()
    harness, heard = a_member(clock=process.clock, bell=process.bell), list[str]()
    said = harness.run(
        harness.engine.commits.commit_async({}, lambda value, error: heard.append("commit"))
    )
    assert said is None
    (commit,) = harness.of(CommitOffsets)

    def hear(message: Any) -> None:
        if isinstance(message, LeaveGroup):
            heard.append("leave")
            harness.hear(Answered(ticket=message.ticket, value=None))

    harness.on_said = hear
    answer = Answered(ticket=commit.ticket, value=None)
    process.bell.at(102.0, lambda: harness.hear(answer))
    process.at(where)
    harness.leave(110.0, because="the consumer was closed")

    assert heard == ["commit", "leave"]


def test_who_is_not_stopped_waits_no_longer() -> None:
    harness = a_consumer()
    calls: list[Callable[[float], Any]] = [
        lambda deadline: harness.run(harness.engine.commit({}, deadline)),
        lambda deadline: harness.poll(deadline - harness.clock.now),
    ]
    for call in calls:
        deadline = harness.clock.now + 5.0
        with contextlib.suppress(KafkaTimeoutError):
            call(deadline)
        assert harness.clock.now <= deadline + 0.1


@WHERE
def test_a_process_that_ends_then_is_waited_for_by_close(where: int) -> None:
    process, processing = Stopped(), object()
    consumer: Any = SimpleNamespace(
        _core=SimpleNamespace(clock=process.clock),
        _make_bell=lambda: process.bell,
        _processor=processing,
    )
    process.bell.at(102.0, lambda: setattr(consumer, "_processor", None))
    process.at(where)

    asked = Close(autocommit=True, timeout=5.0, operation="default")
    KafkaConsumer._wait_for_process(consumer, consumer._processor, asked)


@pytest.mark.parametrize("stops", [False, True])
def test_what_other_threads_have_done_by_then_is_done(
    monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    clock, waits = VirtualTime(100.0), list[float]()
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=clock))

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        clock.now += STOPPED if stops else seconds
        return len(waits) > 1

    assert done_within(5.0, wait) == stops
    assert waits == ([5.0, CATCH_UP] if stops else [5.0])


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("is_done_then", [False, True])
def test_a_coroutine_that_was_stopped_has_a_moment_to_end(
    monkeypatch: pytest.MonkeyPatch, stops: bool, is_done_then: bool
) -> None:
    async def main() -> float:
        loop, stopped, done = asyncio.get_running_loop(), 0.0, asyncio.Event()
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + stopped)
        began = time()

        def stop() -> None:
            nonlocal stopped
            stopped = STOPPED if stops else 0.0
            if is_done_then:
                loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(done.set)))

        loop.call_later(0.01, stop)
        with contextlib.suppress(TimeoutError):
            async with patient_timeout(5.0 if stops else 0.05):
                await done.wait()
        assert done.is_set() == is_done_then
        return time() - began

    took = asyncio.run(main())
    assert (took > CATCH_UP) == (stops and not is_done_then)
