"""`asyncio.timeout` of a process that may be stopped (SIGSTOP) meanwhile: see `Patience`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aktor.consumer.core.waiting import Patience

__all__ = ["patient_timeout"]


@contextlib.asynccontextmanager
async def patient_timeout(seconds: float) -> AsyncIterator[None]:
    """As `asyncio.timeout(seconds)`. If the process stood still past the end of that, the event
    loop has read nothing yet of what came meanwhile: then the wait goes on for `CATCH_UP`, once.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    patience = Patience(began + seconds, began)
    async with asyncio.timeout(None) as scope:
        timer: asyncio.TimerHandle | None = None

        def look() -> None:
            nonlocal timer
            now = loop.time()
            if patience.is_over(now):
                scope.reschedule(now)
            else:
                timer = loop.call_at(patience.until(now), look)

        timer = loop.call_at(patience.until(began), look)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
