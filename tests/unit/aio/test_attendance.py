"""What takes part in rebalances between `start` and the first call that reads."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.aio.attendance import Attendance
from aktor.errors import UserCallbackError
from aktor.events.membership import (
    CallbackFinished,
    MemberChanged,
    MemberState,
    SessionExtended,
)
from tests.unit.aio.builders import LONG, Loop, run
from tests.unit.consumer.core.builders import ORDERS, RaisingListener, an_assignment
from tests.unit.consumer.core.builders_chunks import A


def joins(loop: Loop, listener: Any = None) -> Attendance:
    """A member that has subscribed, and that the group has just given A."""
    engine = loop.harness.engine
    loop.driver.run_at_once(engine.subscribe(ORDERS, listener))
    loop.harness.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=loop.harness.clock() + LONG),
        an_assignment(A),
    )
    return Attendance(engine, loop.driver, loop.guard, LONG)


def test_an_interrupt_is_repaired_by_the_next_call() -> None:
    async def program(loop: Loop) -> None:
        attendance = joins(loop)

        def interrupt(message: Any) -> None:
            if isinstance(message, CallbackFinished):
                raise ZeroDivisionError("by a signal handler")

        loop.harness.on_said = interrupt
        with pytest.raises(ZeroDivisionError):
            await attendance.begin(LONG)
        assert loop.guard.broken

    run(program, group_id="g")


def test_an_error_of_the_listener_needs_no_repair_and_is_raised_by_the_first_reader() -> None:
    async def program(loop: Loop) -> None:
        attendance, call = joins(loop, RaisingListener()), loop.harness.engine.call

        await attendance.begin(LONG)

        assert isinstance(call.unraised, UserCallbackError)
        assert not loop.guard.broken
        assert call.ended_in is None, "its traceback would keep a dropped consumer alive"

    run(program, group_id="g")
