"""Threads, processes and coroutines: each job is run once or taken back, and its end is told."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import queue
import signal
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest

from aktor.actors.runtime.dispatcher import Bell
from aktor.errors import WorkerDiedError
from aktor.processing.processes import Processes
from aktor.processing.workers import Coroutines, Job, NoWorkerError, Threads, Workers
from tests.gate import all_but_the_first

Outcomes = queue.SimpleQueue[BaseException | None]

#: Seconds after which something does not happen any more. It is a limit for what hangs: on a busy
#: machine a process takes long to start.
SOON = 60.0


def threads(count: int, name: str = "test") -> Threads:
    def start(work: Callable[[], None], name: str) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    return Threads(count, start=start, make_bell=Bell, name=name)


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


@pytest.mark.parametrize("kind", ["threads", "coroutines", "processes"])
def test_a_job_has_begun_when_a_worker_begins_with_it_not_when_it_is_given(kind: str) -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    begun: queue.SimpleQueue[int] = queue.SimpleQueue()
    workers: Workers
    handler: Any
    match kind:
        case "threads":
            workers, handler = threads(1), time.sleep
        case "coroutines":
            workers, handler = Coroutines(1, name="test"), asyncio.sleep
        case _:
            workers, handler = Processes(1, handler=time.sleep), time.sleep

    def begins(number: int) -> Callable[[], None]:
        return lambda: begun.put(number)

    for number in range(2):
        workers.submit(Job(handler, 0.2, outcomes.put, False, begins(number)))

    assert begun.get(timeout=SOON) == 0
    assert begun.empty()
    assert outcomes.get(timeout=SOON) is None
    assert begun.get(timeout=SOON) == 1
    assert outcomes.get(timeout=SOON) is None
    workers.close()


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
    workers = threads(1, "closes-alone")
    outcomes: Outcomes = queue.SimpleQueue()
    runs, may_end, begun = threading.Event(), threading.Event(), threading.Event()

    def work(_argument: Any) -> None:
        runs.set()
        may_end.wait(SOON)

    workers.submit(Job(work, None, outcomes.put))
    workers.submit(Job(lambda _argument: begun.set(), None, outcomes.put))
    assert runs.wait(SOON)
    (mine,) = [one for one in threading.enumerate() if one.name == "closes-alone-1"]

    workers.close()
    may_end.set()
    mine.join(SOON)

    assert not begun.is_set()


def test_threads_end_when_they_are_closed() -> None:
    workers = threads(3, "close")
    outcomes: Outcomes = queue.SimpleQueue()
    for _ in range(3):
        workers.submit(Job(str, 7, outcomes.put))
    for _ in range(3):
        outcomes.get(timeout=SOON)
    mine = [one for one in threading.enumerate() if one.name.startswith("close-")]

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


def test_so_many_coroutines_run_at_a_time_and_the_next_begins_when_one_ends() -> None:
    workers = Coroutines(2, name="test")
    begun: queue.SimpleQueue[int] = queue.SimpleQueue()
    outcomes: Outcomes = queue.SimpleQueue()
    may_end = [threading.Event() for _ in range(4)]

    async def work(number: int) -> None:
        begun.put(number)
        await asyncio.to_thread(may_end[number].wait, SOON)

    cancels = [workers.submit(Job(work, number, outcomes.put)) for number in range(4)]
    assert {begun.get(timeout=SOON), begun.get(timeout=SOON)} == {0, 1}
    assert cancels[2]()

    may_end[1].set()

    assert outcomes.get(timeout=SOON) is None
    assert begun.get(timeout=SOON) == 3
    assert begun.empty()
    may_end[0].set()
    may_end[3].set()
    assert outcomes.get(timeout=SOON) is outcomes.get(timeout=SOON) is None
    workers.close()


class Abort(BaseException):
    """As some libraries have: no `except Exception` is to catch it."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("raised", [KeyboardInterrupt, asyncio.CancelledError, Abort])
def test_whatever_a_handler_raises_is_told(raised: type[BaseException]) -> None:
    outcomes: Outcomes = queue.SimpleQueue()

    def abort(_argument: Any) -> None:
        raise raised

    workers = threads(1)
    workers.submit(Job(abort, None, outcomes.put))

    assert isinstance(outcomes.get(timeout=SOON), raised)
    workers.close()


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, Abort])
def test_whatever_a_coroutine_raises_is_told_and_the_others_go_on(
    raised: type[BaseException],
) -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    workers = Coroutines(2, name="test")
    is_told = threading.Event()

    async def abort(_argument: Any) -> None:
        raise raised

    async def wait(_argument: Any) -> None:
        while not is_told.is_set():
            await asyncio.sleep(0.001)

    workers.submit(Job(wait, None, outcomes.put))
    workers.submit(Job(abort, None, outcomes.put))

    assert isinstance(outcomes.get(timeout=SOON), raised)
    is_told.set()
    assert outcomes.get(timeout=SOON) is None
    workers.close()


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_the_loop_of_coroutines_is_closed_with_its_descriptors() -> None:
    workers = Coroutines(2, name="test-loop")
    loops: queue.SimpleQueue[asyncio.AbstractEventLoop] = queue.SimpleQueue()

    async def tell(_argument: Any) -> None:
        loops.put(asyncio.get_running_loop())

    workers.submit(Job(tell, None, lambda _error: None))
    loop = loops.get(timeout=SOON)
    (mine,) = [one for one in threading.enumerate() if one.name == "test-loop"]

    workers.close()
    mine.join(SOON)

    assert loop.is_closed()


async def a_coroutine(_argument: Any) -> None:
    """Awaited by nobody."""


def gives_a_coroutine(argument: Any) -> Any:
    return a_coroutine(argument)


def gives_a_lock(_argument: Any) -> Any:
    return threading.Lock()


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_coroutine_that_is_not_awaited_is_an_error(kind: str) -> None:
    """Else its record would count as handled, and nothing was done."""
    outcomes: Outcomes = queue.SimpleQueue()
    workers: Workers = threads(1) if kind == "threads" else Processes(1, handler=gives_a_coroutine)
    workers.submit(Job(gives_a_coroutine, None, outcomes.put))

    error = outcomes.get(timeout=SOON)
    workers.close()

    assert isinstance(error, TypeError)
    assert "coroutine" in str(error)
    assert "async def" in str(error)


def test_what_a_handler_in_a_process_returns_need_not_be_pickled() -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    workers = Processes(1, handler=gives_a_lock)
    workers.submit(Job(gives_a_lock, None, outcomes.put))

    assert outcomes.get(timeout=SOON) is None
    workers.close()


class Unportable(Exception):
    """It is pickled, but cannot be made again of that, like many exceptions of libraries."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


def raises_unportable(_argument: Any) -> None:
    raise Unportable(404, "not found")


def test_an_exception_that_cannot_be_unpickled_fails_its_record_and_not_the_pool() -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    workers = Processes(1, handler=raises_unportable)

    for _ in range(2):
        workers.submit(Job(raises_unportable, None, outcomes.put))
        error = outcomes.get(timeout=SOON)
        assert isinstance(error, RuntimeError)
        assert not isinstance(error, BrokenProcessPool)
        assert "Unportable" in str(error)
        assert "404: not found" in str(error)
    workers.close()


class Poison:
    """A record that kills the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (1,)


#: What kills its process, by the way it does.
KILLERS: dict[str, Any] = {"a signal": "kill", "its exit": "leave", "its record": Poison()}


def kills(argument: Any) -> None:
    if argument == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if argument == "leave":
        os._exit(1)
    if argument == "fail":
        raise ValueError(argument)


def submitted(workers: Workers, *arguments: Any, alone: bool = False) -> list[Outcomes]:
    """The outcomes of these jobs of `kills`, in order."""
    all_outcomes: list[Outcomes] = [queue.SimpleQueue() for _ in arguments]
    for argument, outcomes in zip(arguments, all_outcomes, strict=True):
        workers.submit(Job(kills, argument, outcomes.put, alone))
    return all_outcomes


def ends(all_outcomes: list[Outcomes]) -> list[type | None]:
    """The type of what each job raised; fails if one does not end, or ends twice."""
    told = [outcomes.get(timeout=3 * SOON) for outcomes in all_outcomes]
    assert all(outcomes.empty() for outcomes in all_outcomes)
    return [None if error is None else type(error) for error in told]


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
@pytest.mark.parametrize("how", all_but_the_first(1, KILLERS))
def test_of_the_jobs_that_run_as_a_process_dies_only_the_one_that_kills_has_failed(
    how: str,
) -> None:
    workers = Processes(2, handler=kills)

    ended = ends(submitted(workers, "a", "fail", KILLERS[how], "b", "c"))

    assert ended == [None, ValueError, WorkerDiedError, None, None]
    assert ends(submitted(workers, "d", "e")) == [None, None], "the next ones find a new pool"
    workers.close()


@pytest.mark.gate
@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_each_of_several_killers_fails_by_itself() -> None:
    workers = Processes(3, handler=kills)

    assert ends(submitted(workers, "kill", "a", "leave", "kill")) == [
        WorkerDiedError,
        None,
        WorkerDiedError,
        WorkerDiedError,
    ]
    workers.close()


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_a_job_that_has_killed_a_process_is_tried_again_alone() -> None:
    """Else each of its attempts would kill what runs beside it."""
    workers = Processes(2, handler=kills)
    before = submitted(workers, "a", "b")
    alone = submitted(workers, "kill", alone=True)
    after = submitted(workers, "c", "d")

    assert ends([*before, *alone, *after]) == [None, None, WorkerDiedError, None, None]
    workers.close()


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_a_process_that_is_killed_while_it_has_nothing_to_do_fails_no_job() -> None:
    workers = Processes(1, handler=process_id)
    outcomes: Outcomes = queue.SimpleQueue()
    workers.submit(Job(process_id, None, outcomes.put))
    error = outcomes.get(timeout=SOON)
    assert error is not None
    os.kill(error.args[0], signal.SIGKILL)

    assert ends(submitted(workers, "a", "b")) == [None, None]
    workers.close()


def test_a_handler_that_no_process_can_load_is_no_fault_of_a_record() -> None:
    """Its record must not be skipped. So it is without `if __name__ == "__main__"`, too."""
    module = types.ModuleType("only_here")
    exec("def handle(argument): pass", module.__dict__)
    sys.modules["only_here"] = module
    try:
        workers = Processes(2, handler=module.handle)
        all_outcomes: list[Outcomes] = [queue.SimpleQueue() for _ in range(3)]
        for outcomes in all_outcomes:
            workers.submit(Job(module.handle, None, outcomes.put))
        assert ends(all_outcomes) == [NoWorkerError] * 3
        workers.close()
    finally:
        del sys.modules["only_here"]


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_a_job_that_waits_for_its_second_try_can_be_taken_back() -> None:
    workers = Processes(1, handler=kills)
    outcomes: Outcomes = queue.SimpleQueue()
    taken: queue.SimpleQueue[bool] = queue.SimpleQueue()
    cancels: list[Callable[[], bool]] = []

    def take_back(error: BaseException | None) -> None:
        outcomes.put(error)
        taken.put(cancels[1]())

    cancels.append(workers.submit(Job(kills, "kill", take_back)))
    cancels.append(workers.submit(Job(kills, "a", outcomes.put)))

    assert isinstance(outcomes.get(timeout=3 * SOON), WorkerDiedError)
    assert taken.get(timeout=SOON)
    workers.close()
    assert outcomes.empty()


def test_what_a_pool_of_the_handlers_own_raises_is_the_handlers_error() -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    workers = Processes(1, handler=has_a_broken_pool)
    workers.submit(Job(has_a_broken_pool, None, outcomes.put))

    error = outcomes.get(timeout=SOON)
    workers.close()

    assert isinstance(error, RuntimeError)
    assert "BrokenProcessPool" in str(error)
    assert not isinstance(error, NoWorkerError)


def has_a_broken_pool(_argument: Any) -> None:
    raise BrokenProcessPool("mine")


def test_processes_that_cannot_be_started_are_no_fault_of_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it is at the exit of the interpreter, and when the machine has no more of them."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    workers = Processes(1, handler=kills)
    monkeypatch.setattr(ProcessPoolExecutor, "submit", refuse)

    assert ends(submitted(workers, "a")) == [NoWorkerError]
    workers.close()


class Pool:
    """Does as ProcessPoolExecutor, without processes: the test says when a job ends.

    As in Python 3.12.1 and later, its futures fail with its lock held, which `submit` takes, and
    whoever drops the last reference to it. (`terminate_broken`, `weakref_cb`.)
    """

    def __init__(self) -> None:
        self.lock = lock = threading.Lock()
        self.jobs: list[tuple[Any, Future[None]]] = []
        self.broken = False
        self.about_to_lock: Callable[[], None] = lambda: None
        #: What was done with its lock held by the thread that holds it, or too late for another.
        self.hung: list[str] = []
        weakref.finalize(self, _take, lock, self.hung, "the last reference was dropped")

    def submit(self, _work: Any, *arguments: Any) -> Future[None]:
        self.about_to_lock()
        _take(self.lock, self.hung, "submit")
        if self.broken:
            raise BrokenProcessPool
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        self.jobs.append((arguments[-1], future))
        return future

    def shutdown(self, **_how: Any) -> None:
        _take(self.lock, self.hung, "shutdown")

    def end(self, argument: Any) -> None:
        (future,) = [one for name, one in self.jobs if name == argument]
        future.set_result(None)


def _take(lock: threading.Lock, hung: list[str], what: str) -> None:
    if not lock.acquire(timeout=SOON / 2):
        hung.append(what)
        raise RuntimeError(f"a deadlock: {what}")
    lock.release()


def fail_futures(futures: list[Future[None]], lock: threading.Lock) -> None:
    """The end of the pool's thread. It has no reference to the pool."""
    with lock:
        while futures:
            futures.pop(0).set_exception(BrokenProcessPool())


class Pools:
    """Makes the pools of `Processes`, in order; each `fails` once it is to be made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[weakref.ref[Pool]] = []
        self.hung: list[list[str]] = []
        self.fails = False
        monkeypatch.setattr(Processes, "_make_pool", lambda _processes: self.make())

    def make(self) -> Pool:
        if self.fails:
            raise OSError(24, "Too many open files")
        pool = Pool()
        self.made.append(weakref.ref(pool))
        self.hung.append(pool.hung)
        return pool

    def __getitem__(self, number: int) -> Pool:
        pool = self.made[number]()
        assert pool is not None
        return pool

    def break_(self, number: int) -> Callable[[], None]:
        """It refuses jobs from now. Returns what fails those that it has."""
        pool = self[number]
        pool.broken = True
        futures = [future for _, future in pool.jobs if not future.done()]
        pool.jobs.clear()
        lock = pool.lock
        return lambda: fail_futures(futures, lock)

    def names(self, number: int) -> list[Any]:
        return [name for name, _ in self[number].jobs]


def start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_job_that_is_submitted_as_a_pool_dies_and_the_death_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.12.1 and later fail the futures with the lock that `submit` of the pool takes."""
    pools = Pools(monkeypatch)
    workers = Processes(1, handler=kills)
    (first,) = submitted(workers, "first")
    fail_all = pools.break_(0)
    at_lock, told = threading.Event(), threading.Event()
    second: list[Outcomes] = []

    def wait_until_the_death_is_told() -> None:
        at_lock.set()
        told.wait(0.5)

    def die() -> None:
        fail_all()
        told.set()

    pools[0].about_to_lock = wait_until_the_death_is_told
    owner = start(lambda: second.extend(submitted(workers, "second")))
    assert at_lock.wait(SOON)
    pool_thread = start(die)
    owner.join(SOON)
    pool_thread.join(SOON)

    assert told.is_set(), "the pool's thread waited for the one that submits, and this for it"
    assert not any(pools.hung)
    pools[1].end(kills)
    pools[1].end("first")
    pools[1].end("second")
    assert ends([first, *second]) == [None, None]
    workers.close()


def test_the_thread_of_a_dead_pool_does_not_drop_the_last_reference_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It holds the pool's lock then, which the end of the last reference takes."""
    pools = Pools(monkeypatch)
    workers = Processes(1, handler=kills)
    submitted(workers, "first")

    start(pools.break_(0)).join(SOON)
    submitted(workers, "second")

    assert not any(pools.hung)
    assert pools.made[0]() is None, "it is not kept for ever"
    workers.close()


def test_nor_does_it_when_the_workers_were_closed_before_and_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = Pools(monkeypatch)
    workers = Processes(1, handler=kills)
    submitted(workers, "first")
    workers.close()
    fail_all = pools.break_(0)

    del workers
    start(fail_all).join(SOON)

    assert not any(pools.hung)


def test_a_job_that_a_dead_pool_refuses_runs_once_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pool refuses jobs a little before the futures of those that it has fail."""
    pools = Pools(monkeypatch)
    workers = Processes(1, handler=kills)
    (first,) = submitted(workers, "first")
    fail_all = pools.break_(0)

    (second,) = submitted(workers, "second")
    fail_all()

    assert len(pools.made) == 2
    pools[1].end(kills)
    assert pools.names(1) == [kills, "first"], "it may have killed its process: it runs alone"
    pools[1].end("first")
    pools[1].end("second")
    assert ends([first, second]) == [None, None]
    assert len(pools.made) == 2
    assert pools.names(1) == [kills, "first", "second"]
    workers.close()


def test_jobs_end_when_no_pool_can_be_made_after_one_has_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = Pools(monkeypatch)
    workers = Processes(1, handler=kills)
    jobs = submitted(workers, "first", "second")
    pools.fails = True

    pools.break_(0)()

    assert ends(jobs) == [NoWorkerError] * 2
    assert ends(submitted(workers, "third")) == [NoWorkerError]
    pools.fails = False
    (fourth,) = submitted(workers, "fourth")
    pools[1].end(kills)
    pools[1].end("fourth")
    assert ends([fourth]) == [None]
    workers.close()


def test_jobs_end_when_a_new_pool_dies_as_it_loads_the_handler_and_no_other_can_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = Pools(monkeypatch)
    workers = Processes(1, handler=kills)
    jobs = submitted(workers, "first", "second")
    pools.break_(0)()
    pools.fails = True

    pools.break_(1)()

    assert ends(jobs) == [NoWorkerError] * 2
    workers.close()


async def exits_in_a_task(error: type[BaseException]) -> None:
    await asyncio.create_task(raises(error))


async def exits_in_a_task_of_a_task(error: type[BaseException]) -> None:
    await asyncio.gather(asyncio.create_task(exits_in_a_task(error)))


async def exits_in_a_task_that_nobody_awaits(error: type[BaseException]) -> None:
    _tasks.add(asyncio.create_task(raises(error)))
    await asyncio.Event().wait()


async def exits_in_a_callback(error: type[BaseException]) -> None:
    def callback() -> None:
        raise error

    asyncio.get_running_loop().call_soon(callback)
    await asyncio.Event().wait()


async def raises(error: type[BaseException]) -> None:
    await asyncio.sleep(0)
    raise error


_tasks: set[asyncio.Task[None]] = set()


async def waits_for_ever(_argument: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize(
    "handler",
    [
        exits_in_a_task,
        exits_in_a_task_of_a_task,
        exits_in_a_task_that_nobody_awaits,
        exits_in_a_callback,
    ],
)
def test_what_ends_the_loop_ends_every_job_in_hand(
    handler: Callable[[Any], Any], error: type[BaseException]
) -> None:
    told: queue.SimpleQueue[tuple[str, BaseException | None]] = queue.SimpleQueue()
    workers = Coroutines(3, name="test")
    enough, heard = threading.Event(), threading.Event()
    all_are_submitted = threading.Event()

    async def exits(argument: Any) -> None:
        # Not before: what is submitted after the end of the loop's run is run as any other job.
        while not all_are_submitted.is_set():
            await asyncio.sleep(0)
        await handler(argument)

    async def hears_nothing(_argument: Any) -> None:
        # Until the end of the test: of a task that never ends Python complains when it ends itself.
        while not enough.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        heard.set()

    def submit(name: str, call: Callable[[Any], Any]) -> None:
        workers.submit(Job(call, error, lambda end: told.put((name, end))))

    submit("runs", waits_for_ever)
    submit("hears nothing", hears_nothing)
    submit("exits", exits)
    submit("waits", waits_for_ever)
    all_are_submitted.set()

    first = told.get(timeout=SOON)
    ended = dict([first, *(told.get(timeout=SOON) for _ in range(3))])
    assert ended.keys() == {"runs", "hears nothing", "exits", "waits"}
    if handler in (exits_in_a_task, exits_in_a_task_of_a_task):
        assert first[0] == "exits", "it is known whose task it was"
        assert isinstance(first[1], error)
    for name, end in ended.items():
        assert isinstance(end, NoWorkerError | error), name
        assert error.__name__ in repr(end)
    enough.set()
    workers.close()
    assert heard.wait(SOON)
    assert told.empty()


async def stops_the_loop(_argument: Any) -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)


def test_a_handler_that_stops_the_loop_stops_no_other() -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    workers = Coroutines(2, name="test")
    for _ in range(4):
        workers.submit(Job(stops_the_loop, None, outcomes.put))

    assert [outcomes.get(timeout=SOON) for _ in range(4)] == [None] * 4
    workers.close()


def interrupts_itself(_argument: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.skipif(sys.platform == "win32", reason="has no process groups")
def test_ctrl_c_is_for_the_process_that_polls() -> None:
    """A terminal sends it to all of them: what runs in the pool is to end in peace."""
    outcomes: Outcomes = queue.SimpleQueue()
    workers = Processes(1, handler=interrupts_itself)
    workers.submit(Job(interrupts_itself, None, outcomes.put))

    assert outcomes.get(timeout=SOON) is None
    workers.close()


def test_threads_that_cannot_be_started_fail_a_record_only_if_there_is_none() -> None:
    outcomes: Outcomes = queue.SimpleQueue()
    may_start = False

    def start(work: Callable[[], None], name: str) -> None:
        if not may_start:
            raise RuntimeError("can't start new thread")
        threading.Thread(target=work, name=name, daemon=True).start()

    workers = Threads(2, start=start, make_bell=Bell, name="test")
    workers.submit(Job(str, 7, outcomes.put))
    assert isinstance(outcomes.get(timeout=SOON), NoWorkerError)

    may_start = True
    workers.submit(Job(str, 7, outcomes.put))
    may_start = False
    for _ in range(9):
        workers.submit(Job(str, 7, outcomes.put))

    assert [outcomes.get(timeout=SOON) for _ in range(10)] == [None] * 10
    workers.close()


def test_a_job_does_not_wait_for_a_thread_that_has_another() -> None:
    """A job comes just as the first thread, which has found none, is about to say that it is idle;
    it takes that job, and is not idle then. The second thread finds nothing, and waits. Of the next
    two jobs one is for the second thread, the other for a third."""
    about_to_wait, may_wait, second_may_start = (threading.Event() for _ in range(3))
    second_waits, may_end = threading.Event(), threading.Event()
    begun: queue.SimpleQueue[str] = queue.SimpleQueue()
    lines, start = inspect.getsourcelines(Threads._work)
    (idle,) = [start + at for at, line in enumerate(lines) if "_idle.append(bell)" in line]

    class SeenBell(Bell):
        def wait(self, timeout: float) -> bool:
            if threading.current_thread().name == "test-2":
                second_waits.set()
            return super().wait(timeout)

    def trace_lines(frame: types.FrameType, event: str, _argument: Any) -> Any:
        if event == "line" and frame.f_lineno == idle and not about_to_wait.is_set():
            about_to_wait.set()
            may_wait.wait(SOON)
        return trace_lines

    def trace(frame: types.FrameType, _event: str, _argument: Any) -> Any:
        return trace_lines if frame.f_code is Threads._work.__code__ else None

    def start_thread(work: Callable[[], None], name: str) -> None:
        def run() -> None:
            if name == "test-1":
                sys.settrace(trace)
            elif name == "test-2":
                second_may_start.wait(SOON)
            work()

        threading.Thread(target=run, name=name, daemon=True).start()

    def long(_argument: Any) -> None:
        begun.put(threading.current_thread().name)
        may_end.wait(SOON)

    def submit() -> None:
        three.submit(Job(long, None, lambda _error: None))

    three = Threads(3, start=start_thread, make_bell=SeenBell, name="test")
    three.submit(Job(str, None, lambda _error: None))
    assert about_to_wait.wait(SOON)
    submit()
    may_wait.set()
    assert begun.get(timeout=SOON) == "test-1"
    second_may_start.set()
    assert second_waits.wait(SOON)

    submit()
    submit()

    assert {begun.get(timeout=SOON), begun.get(timeout=SOON)} == {"test-2", "test-3"}
    may_end.set()
    three.close()
