"""What may wait is driven by a thread with a bell, or by an event loop: the rules are the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from kafka import ConsumerRebalanceListener

from aktor.actors.runtime.dispatcher import Bell, VirtualTime
from aktor.consumer.core.waiting import Blocking, Waiting
from aktor.errors import UserCallbackError, WakeupError
from aktor.events.answers import Answered
from aktor.events.fetching import RecordsFetched
from aktor.events.membership import MemberChanged, MemberState, SessionExtended
from tests.unit.consumer.core.test_delivery import A, a_chunk, offsets
from tests.unit.consumer.core.test_engine import ORDERS, ScriptedBell, Site, an_assignment

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


# -- with an event loop: what an asyncio consumer needs beside the engine


class LoopTime:
    """The time of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> float:
        return self._loop.time()

    @property
    def now(self) -> float:
        return self._loop.time()


class LoopBell(Bell):
    """A bell for which a coroutine waits."""

    __slots__ = ("_loop", "_rung")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._rung.set)

    async def wait_until(self, until: float) -> None:
        """Until rung, or until this time of the loop."""
        try:
            async with asyncio.timeout_at(until):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()


async def run(waiting: Waiting[T], bell: LoopBell) -> T:
    """The driver."""
    error: Exception | None = None
    while True:
        try:
            asked = next(waiting) if error is None else waiting.throw(error)
        except StopIteration as over:
            result: T = over.value
            return result
        error = None
        if isinstance(asked, float | int):
            await bell.wait_until(asked)
            continue
        try:
            await asked
        except Exception as raised:
            error = raised


def in_a_loop(call: Callable[[Site, float], Waiting[T]], meanwhile: Callable[[Site], object]) -> T:
    """Drive this call of a consumer in an event loop, where something comes while it waits."""

    async def main() -> T:
        clock, bell = LoopTime(), LoopBell()
        site = Site(clock=clock, bell=bell)
        site.engine.assign([A])
        site.found(A)
        asyncio.get_running_loop().call_soon(meanwhile, site)
        return await run(call(site, clock.now + 60.0), bell)

    return asyncio.run(main())


def test_a_poll_in_an_event_loop_gives_out_what_comes_while_it_waits() -> None:
    records: Any = in_a_loop(
        lambda site, deadline: site.engine.poll(deadline, 500),
        lambda site: site.hear(RecordsFetched(chunks=(a_chunk(count=3),))),
    )

    assert offsets(records) == {A: [0, 1, 2]}


def test_a_poll_in_an_event_loop_ends_at_its_time() -> None:
    assert in_a_loop(lambda site, _: site.engine.poll(0.0, 500), lambda site: None) == {}


def test_a_poll_in_an_event_loop_is_woken_up() -> None:
    with pytest.raises(WakeupError):
        in_a_loop(
            lambda site, deadline: site.engine.poll(deadline, 500),
            lambda site: site.engine.call.wakeup(),
        )


class LoopListener(ConsumerRebalanceListener):
    """Its methods are coroutines of the application's event loop."""

    def __init__(self, error: Exception | None = None) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []
        self._error = error

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await asyncio.sleep(0)
        self.loops.append(asyncio.get_running_loop())
        if self._error is not None:
            raise self._error

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing."""


async def poll_as_a_member(listener: LoopListener) -> None:
    clock, bell = LoopTime(), LoopBell()
    site = Site(clock=clock, bell=bell, group_id="g")
    site.engine.subscribe(ORDERS, listener)
    site.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=clock.now + 60.0),
        an_assignment(A),
    )
    await run(site.engine.poll(clock.now, 500), bell)
    assert listener.loops == [asyncio.get_running_loop()]
    assert site.engine.delivery.partitions[A].open


def test_a_listeners_coroutine_runs_in_the_event_loop_of_the_application() -> None:
    asyncio.run(poll_as_a_member(LoopListener()))


def test_what_a_listeners_coroutine_raises_is_raised_by_the_poll() -> None:
    error = ZeroDivisionError("a bug of the user's")

    with pytest.raises(UserCallbackError) as raised:
        asyncio.run(poll_as_a_member(LoopListener(error)))

    assert raised.value.__cause__ is error


def test_a_commit_in_an_event_loop_waits_for_the_answer() -> None:
    def answer(site: Site) -> None:
        site.hear(Answered(ticket=site.said[-1].ticket))

    assert in_a_loop(lambda site, at: site.engine.commits.commit({}, at), answer) is None
