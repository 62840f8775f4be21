"""The tasks that a consumer begins for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

__all__ = ["begin", "current_task"]

T = TypeVar("T")


def begin(
    coroutine: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
) -> asyncio.Task[T]:
    """A task that runs when the present code lets others run. The loop's task factory is not asked:
    tasks of `asyncio.eager_task_factory` (Python 3.12) run before who begins them has noted them,
    and here each is noted: as the listener that runs, say, whose calls are nested."""
    return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), name=name, context=context)


def current_task() -> asyncio.Task[Any] | None:
    """The task that runs on this thread; None: there is none, or no event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
