"""What the core does in its calls is the same when an event loop drives them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from aktor.aio import AsyncConsumerRebalanceListener
from aktor.consumer.columns import arrow
from aktor.consumer.core.waiting import Waiting
from aktor.errors import UserCallbackError, WakeupError
from aktor.events.answers import Answered
from aktor.events.commits import CommitOffsets
from aktor.events.membership import LeaveGroup, MemberChanged, MemberState, SessionExtended
from tests.unit.aio.builders import LONG, Loop, a_moment, run
from tests.unit.consumer.core.builders import ORDERS, an_assignment
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, offsets


def later() -> float:
    return time.monotonic() + LONG


async def assigned(loop: Loop) -> None:
    """A is assigned, at offset 0."""
    await loop.begin(loop.harness.engine.assign([A]))
    loop.harness.found(A)


async def joined(loop: Loop, listener: Any = None) -> None:
    """It is a member, owns A, and has read three records."""
    engine, harness = loop.harness.engine, loop.harness
    loop.driver.run_at_once(engine.subscribe(ORDERS, listener))
    harness.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=later()),
        an_assignment(A),
    )
    await loop.begin(engine.poll(0.0, 500))
    harness.found(A)
    harness.fetched(a_chunk(count=3))
    assert offsets(await loop.begin(engine.poll(later(), 500))) == {A: [0, 1, 2]}


def answer_each(harness: Any) -> None:
    """The background answers each commit and LeaveGroup, a moment later."""

    def answer(message: Any) -> None:
        if isinstance(message, CommitOffsets | LeaveGroup):
            told = Answered(ticket=message.ticket)
            asyncio.get_running_loop().call_soon(harness.hear, told)

    harness.on_said = answer


def test_a_poll_gives_out_what_comes_while_it_waits() -> None:
    async def program(loop: Loop) -> None:
        await assigned(loop)
        polling = loop.begin(loop.harness.engine.poll(later(), 500))
        await a_moment()
        assert not polling.done()
        loop.harness.fetched(a_chunk(count=3))
        assert offsets(await polling) == {A: [0, 1, 2]}

    run(program)


def test_a_poll_ends_at_its_time_or_when_it_is_woken_up() -> None:
    async def program(loop: Loop) -> None:
        await assigned(loop)
        assert await loop.begin(loop.harness.engine.poll(0.0, 500)) == {}
        polling = loop.begin(loop.harness.engine.poll(later(), 500))
        await a_moment()
        loop.harness.engine.call.wakeup()
        with pytest.raises(WakeupError):
            await polling

    run(program)


def test_records_come_many_or_one_by_one_or_as_columns() -> None:
    async def program(loop: Loop) -> None:
        engine = loop.harness.engine
        await assigned(loop)
        loop.harness.fetched(a_chunk(count=5))

        record = await loop.begin(engine.next_record(later(), 500))
        names = ["offset"]
        columns = engine.new_columns(2, None, names)
        make = partial(arrow.batch_of, names=names)
        batch = await loop.begin(engine.poll_columns(later(), columns, make))
        rest = await loop.begin(engine.poll(later(), 500))

        assert (record.offset, batch["offset"].to_pylist()) == (0, [1, 2])
        assert offsets(rest) == {A: [3, 4]}

    run(program)


class Listener(AsyncConsumerRebalanceListener):
    """Its methods are coroutines."""

    def __init__(self, told: Callable[[str], object]) -> None:
        self._told = told

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await asyncio.sleep(0)
        self._told("assigned")

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await asyncio.sleep(0)
        self._told("revoked")


def test_a_listeners_coroutine_runs_in_the_event_loop_of_the_application() -> None:
    async def program(loop: Loop) -> None:
        loops: list[asyncio.AbstractEventLoop] = []

        await joined(loop, Listener(lambda told: loops.append(asyncio.get_running_loop())))

        assert loops == [asyncio.get_running_loop()]

    run(program, group_id="g")


def test_what_a_listeners_coroutine_raises_is_raised_by_the_poll() -> None:
    error = ZeroDivisionError("a bug of the user's")

    def fail(_told: str) -> None:
        raise error

    async def program(loop: Loop) -> None:
        with pytest.raises(UserCallbackError) as raised:
            await joined(loop, Listener(fail))
        assert raised.value.__cause__ is error

    run(program, group_id="g")


def test_a_commit_that_is_not_waited_for_is_settled_and_its_callback_runs_in_a_later_call() -> None:
    async def program(loop: Loop) -> None:
        engine, seen = loop.harness.engine, []
        answer_each(loop.harness)
        await joined(loop)

        await loop.begin(
            engine.commit_async(
                None,
                lambda _value, error: seen.append(("settled", error)),
                lambda committed, error: seen.append((committed[A].offset, error)),
            )
        )
        await a_moment()
        before = list(seen)
        await loop.begin(engine.close(later()))

        assert before == [("settled", None)]
        assert seen == [("settled", None), (3, None)]

    run(program, group_id="g", enable_auto_commit=True)


@pytest.mark.parametrize(
    "end", [lambda engine: engine.unsubscribe(later()), lambda engine: engine.close(later())]
)
def test_leaving_commits_then_runs_the_listener_then_leaves(
    end: Callable[[Any], Waiting[Any]],
) -> None:
    async def program(loop: Loop) -> None:
        harness = loop.harness
        answer_each(harness)
        await joined(loop, Listener(harness.said.append))
        harness.forget()

        await loop.begin(end(harness.engine))

        said = [one for one in harness.said if isinstance(one, CommitOffsets | LeaveGroup | str)]
        assert [type(one) for one in said] == [CommitOffsets, str, LeaveGroup]
        assert not harness.engine.delivery.partitions

    run(program, group_id="g", enable_auto_commit=True)


def test_an_assignment_by_hand_in_place_of_another_commits_the_positions_without_waiting() -> None:
    async def program(loop: Loop) -> None:
        engine, harness = loop.harness.engine, loop.harness
        await assigned(loop)
        harness.fetched(a_chunk(count=3))
        await loop.begin(engine.poll(later(), 500))

        await loop.begin(engine.assign([B]))

        (commit,) = harness.of(CommitOffsets)
        assert {partition: at.offset for partition, at in commit.offsets.items()} == {A: 3}

    run(program, group_id="g", enable_auto_commit=True)
