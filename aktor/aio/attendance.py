"""From `start` until a task reads, the consumer takes part in rebalances by itself.

aiokafka's `start` returns with an assignment, and its members rebalance in the background. Ours
rebalance inside of calls that read, so that no partition goes while its records are in work. Before
the first such call there are none in work. So a task of the event loop takes part until then: when
`start` returns there are partitions, and a second member that is started next need not wait for the
first read of this one.
"""

from __future__ import annotations

import asyncio

from kafka.errors import KafkaError

from aktor.aio import tasks
from aktor.aio.driver import Driver
from aktor.aio.turns import TaskGuard, Turn
from aktor.consumer.core.engine import Engine
from aktor.errors import ConsumerClosedError, UserCallbackError

__all__ = ["Attendance"]


class Attendance:
    """Owns the task that takes part. It does not keep a dropped consumer alive."""

    def __init__(self, engine: Engine, driver: Driver, guard: TaskGuard, longest: float) -> None:
        self._engine = engine
        self._driver = driver
        self._guard = guard
        #: If no task reads for so many seconds, the member is to leave its group.
        self._longest = longest
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self._assigned: asyncio.Future[None] | None = None

    async def begin(self, timeout: float) -> None:
        """Begin, and wait until there is an assignment, for `timeout` seconds at most.

        Raises what `poll` raises, but for an error of the listener: the first call that reads
        raises that one.
        """
        loop = asyncio.get_running_loop()
        self._assigned = loop.create_future()
        self._task = tasks.begin(self._attend(), name="aktor: start()")
        await asyncio.wait(
            [self._task, self._assigned], timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if self._task.done() and not self._is_over:
            self._task.result()
        self._assigned.cancel()

    def end(self) -> None:
        """A task reads, or the consumer stops: that takes part from now on."""
        if not self._is_over:
            self._is_over = True
            self._engine.core.port.bell.ring()

    async def _attend(self) -> None:
        engine, driver = self._engine, self._driver
        until = engine.core.clock() + self._longest
        turn = Turn("start", asyncio.current_task())
        await self._guard.wait_for_turn(turn)
        try:
            driver.begin()
            await driver.run(turn, engine.attend(until, self._look))
        except BaseException as error:
            driver.note_error(error, turn)
            if isinstance(error, ConsumerClosedError):
                return
            if not self._is_for_a_reader(error):
                raise
            engine.call.raise_later(error)
        finally:
            driver.leave(turn)

    def _is_for_a_reader(self, error: BaseException) -> bool:
        """Whether the first call that reads raises this, and not `start`."""
        started = self._assigned is not None and self._assigned.done()
        return isinstance(error, UserCallbackError) or (started and isinstance(error, KafkaError))

    def _look(self) -> bool:
        assigned = self._assigned
        if self._engine.is_assigned and assigned is not None and not assigned.done():
            assigned.set_result(None)
        return self._is_over
