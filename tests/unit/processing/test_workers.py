"""Threads, processes and coroutines: each job is run once or taken back, and its end is told."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aktor.actors.runtime import Bell
from aktor.processing.workers import Coroutines, Job, Processes, Threads, Workers

Outcomes = queue.SimpleQueue[BaseException | None]

#: Seconds after which something does not happen any more.
SOON = 20.0


def threads(count: int) -> Threads:
    def start(work: Callable[[], None], name: str) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    return Threads(count, start=start, make_bell=Bell, name="test")


def fail(text: str) -> None:
    raise ValueError(text)


def process_id(_argument: Any) -> None:
    raise ValueError(os.getpid())


async def fail_later(text: str) -> None:
    await asyncio.sleep(0)
    raise ValueError(text)


async def leave(_argument: Any) -> None:
    await asyncio.sleep(0)


@pytest.fixture(params=["threads", "coroutines", "processes"])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    made: Workers
    match request.param:
        case "threads":
            made = threads(2)
        case "coroutines":
            made = Coroutines(2, name="test")
        case _:
            made = Processes(1, handler=fail)
    yield made
    made.close()


def test_what_a_handler_raises_is_told(workers: Workers) -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    handler: Any = fail_later if isinstance(workers, Coroutines) else fail

    workers.submit(Job(handler, "no", outcomes.put))

    error = outcomes.get(timeout=SOON)
    assert isinstance(error, ValueError)
    assert str(error) == "no"


def test_many_jobs_each_end_once(workers: Workers) -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    handler: Any = leave if isinstance(workers, Coroutines) else str

    for _ in range(50):
        workers.submit(Job(handler, 7, outcomes.put))

    assert [outcomes.get(timeout=SOON) for _ in range(50)] == [None] * 50
    assert outcomes.empty()


def test_processes_are_others_than_this_one() -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    workers = Processes(1, handler=process_id)
    workers.submit(Job(process_id, None, outcomes.put))

    error = outcomes.get(timeout=SOON)
    workers.close()

    assert error is not None
    assert error.args[0] != os.getpid()


def test_a_handler_that_cannot_be_pickled_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="give a function of a module"):
        Processes(1, handler=lambda record: None)


def test_a_job_that_waits_can_be_taken_back_and_one_that_runs_cannot() -> None:
    workers = threads(1)
    outcomes: Outcomes = queue.SimpleQueue()
    runs, may_end = threading.Event(), threading.Event()

    def work(_argument: Any) -> None:
        runs.set()
        may_end.wait(SOON)

    first = workers.submit(Job(work, None, outcomes.put))
    second = workers.submit(Job(work, None, outcomes.put))
    assert runs.wait(SOON)

    assert not first()
    assert second()
    assert not second()
    may_end.set()
    assert outcomes.get(timeout=SOON) is None
    workers.close()
    assert outcomes.empty()


def test_jobs_that_wait_are_not_begun_once_the_workers_are_closed() -> None:
    """Found by a simulation: Ctrl-C twice, the second one while what ran was waited for."""
    workers = threads(1)
    outcomes: Outcomes = queue.SimpleQueue()
    runs, may_end, begun = threading.Event(), threading.Event(), threading.Event()

    def work(_argument: Any) -> None:
        runs.set()
        may_end.wait(SOON)

    workers.submit(Job(work, None, outcomes.put))
    workers.submit(Job(lambda _argument: begun.set(), None, outcomes.put))
    assert runs.wait(SOON)
    (mine,) = [one for one in threading.enumerate() if one.name == "test-1"]

    workers.close()
    may_end.set()
    mine.join(SOON)

    assert not begun.is_set()


def test_threads_end_when_they_are_closed() -> None:
    workers = threads(3)
    outcomes: Outcomes = queue.SimpleQueue()
    for _ in range(3):
        workers.submit(Job(str, 7, outcomes.put))
    for _ in range(3):
        outcomes.get(timeout=SOON)
    mine = [one for one in threading.enumerate() if one.name.startswith("test-")]

    workers.close()

    for one in mine:
        one.join(SOON)
        assert not one.is_alive()


def test_a_handler_that_exits_fails_its_record_and_not_its_thread() -> None:
    workers = threads(1)
    outcomes: Outcomes = queue.SimpleQueue()

    def leave_python(_argument: Any) -> None:
        raise SystemExit(3)

    workers.submit(Job(leave_python, None, outcomes.put))

    assert isinstance(outcomes.get(timeout=SOON), SystemExit)
    workers.submit(Job(str, 7, outcomes.put))
    assert outcomes.get(timeout=SOON) is None
    workers.close()


def test_coroutines_that_still_run_are_cancelled_at_the_end() -> None:
    workers = Coroutines(2, name="test")
    outcomes: Outcomes = queue.SimpleQueue()
    runs = threading.Event()

    async def never_ends(_argument: Any) -> None:
        runs.set()
        await asyncio.Event().wait()

    workers.submit(Job(never_ends, None, outcomes.put))
    assert runs.wait(SOON)

    workers.close()

    assert isinstance(outcomes.get(timeout=SOON), asyncio.CancelledError)
