"""An engine that an event loop drives, as that of `aktor.aio.KafkaConsumer` is driven."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from aktor.aio.driver import Driver, LoopBell
from aktor.aio.turns import TaskGuard, Turn
from aktor.consumer.core.waiting import Waiting
from tests.unit.consumer.core.builders import EngineHarness

LONG = 60.0


class Loop:
    """An engine that the present event loop drives."""

    def __init__(self, **settings: Any) -> None:
        self.bell, self.guard = LoopBell(), TaskGuard()
        self.bell.belong_to(asyncio.get_running_loop())
        self.harness = EngineHarness(clock=time.monotonic, bell=self.bell, **settings)
        self.driver = Driver(self.bell, self.guard, self.harness.engine, lambda: None)

    def begin(self, waiting: Waiting[Any]) -> asyncio.Task[Any]:
        """A task that is in this call."""

        async def call() -> Any:
            turn = Turn("a call", asyncio.current_task())
            await self.guard.wait_for_turn(turn)
            self.driver.begin()
            try:
                return await self.driver.run(turn, waiting)
            except BaseException as error:
                self.driver.note_error(error, turn)
                raise
            finally:
                self.driver.leave(turn)

        return asyncio.create_task(call())


def run(program: Callable[[Loop], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run the program in an event loop of its own, with an engine of these settings."""

    async def main() -> None:
        async with asyncio.timeout(LONG / 2):
            await program(Loop(**settings))

    asyncio.run(main())


async def a_moment() -> None:
    """Until other tasks have come to where they wait."""
    for _ in range(5):
        await asyncio.sleep(0)
