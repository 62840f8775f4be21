"""Whose turn it is, and what time it is: one thread, virtual time, every choice drawn from a seed.

A `Turn` is the dispatcher of a consumer, with messages or a due tick, or a `Task`: an application
thread in a greenlet of its own. One of the turns that can run is drawn: a few messages, or the
application's code up to where it waits. When no turn can run, the clock jumps to the next time on
the agenda.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from aktor.actors.runtime.dispatcher import VirtualTime
from aktor.simulation.errors import DeadlockError, SpinError
from aktor.simulation.world import virtual
from aktor.simulation.world.blocking import watch
from aktor.simulation.world.lines import Lines

__all__ = ["Scheduler", "Task", "Turn"]

#: More turns than this while the clock stands still are an endless loop.
SPIN: Final = 20_000

#: Seconds between two looks from outside.
LOOK_EVERY: Final = 1.0

#: How often an application thread that reads the clock loses its turn.
OVERTAKEN: Final = 0.2

#: If a task reads a clock more often than this while it stands still, so many seconds pass: else a
#: loop that waits for a time would never end.
LOOKS: Final = 10
GLANCE: Final = 0.01

#: Where the clock starts, in seconds since the epoch: a round figure, in which 0.1 µs still count.
START: Final = 1_700_000_000.0


class Turn(Protocol):
    """What takes turns."""

    #: Whether the scheduler has it among those that can run; only the scheduler writes it.
    queued: bool

    def take_turn(self) -> None:
        """Do one thing. A turn that has more to do calls `Scheduler.can_run`."""

    def __str__(self) -> str: ...


class RunningLoop(Protocol):
    """An event loop that a task's code runs."""

    def rests(self) -> None:
        """Others have their turns."""

    def goes_on(self) -> None:
        """It is the task's turn again."""


class Task:
    """One application thread. It runs until it waits; then the scheduler decides when it goes on.

    `waits_for` says in words what it waits for; `waits_for_ever`: only a `wake` ends that. `error`
    is the exception that ended it, if there was one.
    """

    def __init__(self, scheduler: Scheduler, name: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.queued = False
        self.waits_for = "its first turn"
        self.waits_for_ever = False
        self.error: BaseException | None = None
        self.result: Any = None
        self.frozen = False
        #: The event loop that its code runs, if any.
        self.loop: RunningLoop | None = None
        #: Seconds by which its monotonic clock is ahead of the others', less than 0 after a sleep.
        self.ahead = 0.0
        self.scheduler = scheduler
        self._work = work
        self._lines: Lines | None = None
        self._looks = 0
        self._looked_at = 0.0
        self._waiting = 0
        self._greenlet = greenlet(self._run, parent=scheduler.hub)
        self._woken_while_frozen = False

    def __str__(self) -> str:
        return self.name

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self._greenlet.dead)

    def _run(self) -> None:
        try:
            self.goes_on()
            self.result = self._work()
        except GreenletExit:
            raise
        except BaseException as error:
            self.fail(error)
        finally:
            self.rests()

    # -- the scheduler's side

    def fail(self, error: BaseException) -> None:
        """The run ends with this error, even if the code catches it; the first error counts."""
        if self.error is None:
            self.error = error
            self.scheduler.failed = True

    def take_turn(self) -> None:
        """Go on where it waited."""
        if self.frozen:
            self._woken_while_frozen = True
        elif not self._greenlet.dead:
            self._greenlet.switch()

    def wake(self) -> None:
        """Let it go on soon."""
        self.scheduler.can_run(self)

    def freeze(self) -> None:
        """It takes no turn until `thaw`."""
        self.frozen = True

    def thaw(self) -> None:
        """It may take turns again; it goes on if it was woken meanwhile."""
        self.frozen = False
        if self._woken_while_frozen:
            self._woken_while_frozen = False
            self.wake()

    def kill(self) -> None:
        """It takes no turn any more, and no `finally` of its code runs."""
        self.frozen = True

    def kill_at_line(self, count: int, die: Callable[[], None]) -> None:
        """Call `die` before a line of its own code, after so many more of them."""

        def die_here() -> None:
            die()
            raise GreenletExit  # no `except Exception` catches it; a `finally` has no effect

        self.count(Lines(count, die_here))

    def count(self, lines: Lines) -> None:
        """Count its lines instead of those of another task."""
        self.rests()
        self._lines = lines
        if self.scheduler.running is self:
            self.goes_on()

    def unwind(self) -> None:
        """The simulation is over: end its code by GreenletExit; it keeps no object alive."""
        self._greenlet.throw(GreenletExit)

    # -- the task's own side

    def wait(self, timeout: float, what: str) -> None:
        """Wait until `wake`, or until so many seconds have passed."""
        self._waiting += 1
        number, self.waits_for = self._waiting, what
        self.waits_for_ever = timeout == math.inf
        if not self.waits_for_ever:
            self.scheduler.after(timeout, lambda: self._time_is_up(number))
        self.scheduler.switch()
        self.waits_for_ever = False
        self._waiting += 1

    def _time_is_up(self, number: int) -> None:
        if self._waiting == number:
            self.wake()

    def pass_on(self) -> None:
        """Let others take their turns first."""
        self.waits_for = "its next turn"
        self.wake()
        self.scheduler.switch()

    def goes_on(self) -> None:
        """Its code runs."""
        if self._lines is not None:
            self._lines.go_on()

    def rests(self) -> None:
        """Its code waits, or has ended."""
        if self._lines is not None:
            self._lines.rest()

    # -- what its code takes for `time`

    def monotonic(self) -> float:
        """Its machine's clock."""
        return self.scheduler.now + self.ahead

    def wall(self) -> float:
        """Seconds since the epoch: a simulation begins at a round figure."""
        return self.scheduler.now

    def look(self) -> None:
        """Let time pass for a task that reads the clock again and again."""
        if self._looked_at != self.scheduler.now:
            self._looked_at, self._looks = self.scheduler.now, 0
        self._looks += 1
        if self._looks > LOOKS:
            self.wait(GLANCE, "the clock that it looks at")

    def sleep(self, seconds: float) -> None:
        """It is busy for so long."""
        if seconds > 0:
            self.wait(seconds, f"its own sleep of {seconds:g} s")
        else:
            self.pass_on()


class Scheduler(VirtualTime):
    """Owns the time, the agenda, and the tasks that can run; is itself the clock."""

    def __init__(self, seed: int) -> None:
        super().__init__(START)
        self.random = random.Random(f"{seed} scheduler")
        self.turns = 0
        #: The task whose turn it is; None during a dispatcher's turn, and between turns.
        self.running: Task | None = None
        self.tasks: list[Task] = []
        #: Whether the code of a task has raised; set back by its reader.
        self.failed = False
        self.hub = getcurrent()
        self._can_run: list[Turn] = []
        #: Called before each turn, the last one first.
        self._asked: dict[Turn, list[Callable[[], bool]]] = {}
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._still = 0
        #: Called about once a second, when nobody has anything to do before time goes on.
        self.look: Callable[[], None] = lambda: None
        self._looks_at = -math.inf
        self._over = False
        #: Ends the time of its own that members' code has since it first ran.
        self._real_time_again: weakref.finalize[..., Any] | None = None

    # -- the tasks

    def spawn(self, name: str, work: Callable[[], Any]) -> Task:
        """A new application thread, which begins at one of the next turns."""
        task = Task(self, name, work)
        self.tasks.append(task)
        task.wake()
        return task

    def can_run(self, turn: Turn) -> None:
        """It has something to do."""
        if not turn.queued:
            turn.queued = True
            self._can_run.append(turn)

    def ask_before_turns(self, turn: Turn, goes_on: Callable[[], bool]) -> None:
        """Before each of its turns, ask; a turn is left out if the answer is no."""
        self._asked.setdefault(turn, []).insert(0, goes_on)

    def switch(self) -> None:
        """Called by a task: others take turns. Returns when it is this task's turn again."""
        task = self.running
        assert task is not None, "only application threads wait"
        if self._over:
            raise GreenletExit
        task.rests()
        if task.loop is not None:
            task.loop.rests()
        self.running = None
        self.hub.switch()
        self.running = task
        if task.loop is not None:
            task.loop.goes_on()
        task.goes_on()

    def overtake(self) -> None:
        """Called where a real thread may be interrupted: perhaps let others take turns first."""
        task = self.running
        if task is not None and self.random.random() < OVERTAKEN:
            task.pass_on()

    # -- time

    def after(self, delay: float, act: Callable[[], object]) -> None:
        """Call `act` when so many seconds have passed."""
        heapq.heappush(self._agenda, (self.now + delay, next(self._numbers), act))

    def at(self, when: float, act: Callable[[], object]) -> None:
        """Call `act` at this time, or now if that is past."""
        heapq.heappush(self._agenda, (max(when, self.now), next(self._numbers), act))

    # -- going on

    def run(self, until: float, done: Callable[[], bool] | None = None) -> bool:
        """Let all take turns until `done` (returns True), or until this time (False).

        Raises DeadlockError if no turn will ever run again, SpinError if turns never end while the
        clock stands still.
        """
        assert getcurrent() is self.hub, "a member cannot run the simulation it lives in"
        if self._real_time_again is None:
            virtual.take()
            self._real_time_again = weakref.finalize(self, virtual.give_back)
        while True:
            if self._can_run:
                self._one_turn()
                continue
            if done is not None and done():
                return True
            if not self._agenda:
                if until == math.inf:
                    raise DeadlockError(self.who_waits())
                self.now = max(self.now, until)
                return done is None
            if self._agenda[0][0] > until:
                self.now = max(self.now, until)
                return done is None
            self._act()

    def _one_turn(self) -> None:
        can_run = self._can_run
        last = len(can_run) - 1
        if last:
            # Swapped to the end and popped: as good as any order, and cheap.
            place = int(self.random.random() * (last + 1))
            can_run[place], can_run[last] = can_run[last], can_run[place]
        turn = can_run.pop()
        turn.queued = False
        self.turns += 1
        self._still += 1
        if self._still > SPIN:
            raise SpinError(
                f"the clock stands still at {self.now - START:.3f} s: {turn} never rests"
            )
        if isinstance(turn, Task):
            self.running = turn
            with watch(turn), virtual.in_hand(turn):
                self._take(turn)
            self.running = None
        else:
            self._take(turn)

    def _take(self, turn: Turn) -> None:
        if all(goes_on() for goes_on in self._asked.get(turn, ())):
            turn.take_turn()

    def _act(self) -> None:
        """Go to the next moment on the agenda, and do one thing that is due then."""
        when, _, act = heapq.heappop(self._agenda)
        if when > self.now:
            self.now = when
            self._still = 0
            if when >= self._looks_at:
                self._looks_at = when + LOOK_EVERY
                self.look()
        act()

    def who_waits(self) -> str:
        """The tasks whose code has not ended, and what they wait for."""
        waiting = [f"{task} waits for {task.waits_for}" for task in self.tasks if not task.over]
        return "; ".join(waiting) or "there is nobody"

    def end(self) -> None:
        """End the tasks that still wait: only the `finally` blocks of their code run, without
        waiting."""
        self._over = True
        self._agenda.clear()
        self._can_run.clear()
        for task in self.tasks:
            task.kill()
            self.running = task
            with virtual.in_hand(task):
                task.unwind()
        self.running = None
        if self._real_time_again is not None:
            self._real_time_again()
