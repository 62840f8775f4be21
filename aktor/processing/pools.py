"""The workers of one `process`: they are given records, and say what became of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from aktor.errors import WorkerDiedError
from aktor.processing.plan import Plan
from aktor.processing.processes import Processes
from aktor.processing.surroundings import Surroundings
from aktor.processing.work import Task, Work
from aktor.processing.workers import Coroutines, Job, Threads, Workers

__all__ = ["Pools", "Settle"]

#: Acts on what became of a task: what its call raised, or None. On the application thread.
Settle: TypeAlias = Callable[[Task, BaseException | None], None]


class Pools:
    """Owns the workers, and what they have said that nobody has acted on yet."""

    def __init__(self, around: Surroundings, plan: Plan, name: str) -> None:
        self._around = around
        self._bell = around.engine.core.port.bell
        self._handlers = self._make(plan, name)
        #: Run `on_error`: it may take as long as a handler.
        self._on_error = self._make_for_errors(plan, name)
        #: What workers said, oldest first. It leaves when it was acted on.
        self._outcomes: deque[tuple[Task, Settle, BaseException | None]] = deque()

    def _make(self, plan: Plan, name: str) -> Workers:
        if plan.workers == "processes":
            return Processes(plan.concurrency, handler=plan.handler)
        if plan.workers == "coroutines":
            return Coroutines(plan.concurrency, name=f"{name}-coroutines")
        return self._threads(plan.concurrency, f"{name}-worker")

    def _make_for_errors(self, plan: Plan, name: str) -> Workers:
        return self._threads(plan.concurrency, f"{name}-errors")

    def _threads(self, count: int, name: str) -> Threads:
        host = self._around.host
        return Threads(count, start=host.start_worker, make_bell=host.make_bell, name=name)

    @property
    def capacity(self) -> int:
        """How many records handlers are given at a time: those that run, and the next ones."""
        return self._handlers.capacity

    @property
    def has_news(self) -> bool:
        """Whether a worker has said something that was not acted on."""
        return bool(self._outcomes)

    def handle(self, task: Task, handler: Callable[[Any], Any], settle: Settle) -> None:
        """Have the handler called with the record; `collect` settles what becomes of it."""
        self._submit(self._handlers, task, handler, task.record, settle)

    def call_on_error(
        self, task: Task, on_error: Callable[[Any], Any], failure: Any, settle: Settle
    ) -> None:
        """Have `on_error` called with the failure of this task's record."""
        self._submit(self._on_error, task, on_error, failure, settle)

    def _submit(
        self,
        workers: Workers,
        task: Task,
        call: Callable[[Any], Any],
        argument: Any,
        settle: Settle,
    ) -> None:
        outcomes, bell, clock = self._outcomes, self._bell, self._around.clock

        def done(error: BaseException | None) -> None:  # on any thread
            outcomes.append((task, settle, error))
            bell.ring()

        def begun() -> None:  # on any thread
            task.since = clock()

        alone = isinstance(task.error, WorkerDiedError)
        task.cancel = workers.submit(Job(call, argument, done, alone, begun))

    def collect(self, work: Work) -> None:
        """Act on what workers have said."""
        while self._outcomes:
            task, settle, error = self._outcomes[0]
            work.returned(task)
            if not task.dropped:
                settle(task, error)
            self._outcomes.popleft()

    def close(self) -> None:
        """Begin nothing more. What runs is not waited for."""
        self._handlers.close()
        self._on_error.close()
