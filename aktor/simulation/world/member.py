"""A member: a process of its own that runs a user's code, with its consumers, in virtual time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from aktor import aio
from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.system import HOST, Consumer, Host
from aktor.simulation.world import event_loop
from aktor.simulation.world.crashes import Crashes
from aktor.simulation.world.host import SimulatedBell, SimulatedHost
from aktor.simulation.world.interrupts import Interruption
from aktor.simulation.world.producers import Producers
from aktor.simulation.world.scheduler import Task, Turn
from aktor.simulation.world.surroundings import Surroundings

__all__ = ["Member"]

#: About how many lines a loop runs for what it is given.
LINES_OF_A_POLL: Final = 5
LINES_OF_A_RECORD: Final = 2


class Member(Host):
    """Owns one application thread, and the consumers and producers that it makes."""

    def __init__(self, simulation: Surroundings, name: str, work: Callable[[], Any]) -> None:
        self.simulation: Surroundings = simulation
        self.name = name
        self.hosts: list[SimulatedHost] = []
        self.producers = Producers(self)
        #: Killed: its process is gone.
        self.gone = False
        #: Another process has its place.
        self.replaced = False
        self._frozen_at = 0.0
        #: What its code is asked to do by a fault: be busy for so long, or one of the `habits`.
        self.busy_for = 0.0
        self.does_next: Callable[[Any, KafkaConsumer], None] | None = None
        #: Seconds that each call of its rebalance listener takes.
        self.slow_listener = 0.0
        #: How far it comes with its next records.
        self._dies_at: float | None = None
        self.work = work
        #: Called with (actor, message) before an actor of it gets a message.
        self.before_each: Callable[[CooperativeActor, object], None] | None = None
        self.task: Task = simulation.scheduler.spawn(name, lambda: self._live(work))
        #: Its threads: `task` comes first.
        self.tasks = [self.task]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Member {self.name}>"

    def _live(self, work: Callable[[], Any]) -> Any:
        HOST.set(self)
        result = work()
        if inspect.iscoroutine(result):
            task = self.simulation.scheduler.running
            assert task is not None, "it is a member's turn"
            return event_loop.run(result, task, SimulatedBell(self.simulation.scheduler))
        return result

    def also(self, work: Callable[[], Any]) -> Task:
        """Run this, too, in another thread of its process."""
        name = f"{self.name}, thread {len(self.tasks) + 1}"
        task = self.simulation.scheduler.spawn(name, lambda: self._live(work))
        task.ahead = self.ahead
        self.tasks.append(task)
        return task

    def for_consumer(self, consumer: Consumer) -> Host:
        """A new consumer, made by this member's code."""
        assert isinstance(consumer, KafkaConsumer | aio.KafkaConsumer)
        host = SimulatedHost(self, len(self.hosts) + 1)
        self.hosts.append(host)
        host.adopt(consumer)
        return host

    @property
    def consumer(self) -> KafkaConsumer:
        """The consumer that it made last, which blocks its thread."""
        consumer = self.hosts[-1].consumer
        assert isinstance(consumer, KafkaConsumer)
        return consumer

    @property
    def ahead(self) -> float:
        """Seconds by which its monotonic clock is ahead of the others', less than 0 after a sleep
        of its machine."""
        return self.task.ahead

    @property
    def running(self) -> bool:
        """Whether its process lives and does something."""
        return not self.gone and not self.task.frozen and not self.task.over

    def reads_for(self, group: str) -> bool:
        """Whether its last consumer wants to be in this group."""
        return any(host.group == group for host in self.hosts[-1:])

    @property
    def what_it_does(self) -> str:
        """In words, for a user who asks why no records come."""
        if self.task.frozen:
            return "stands still" if not self.gone else "was killed"
        return "has ended" if self.task.over else f"waits for {self.task.waits_for}"

    def note(self, event: str, **values: Any) -> None:
        """Add something to the history, of each of its consumers."""
        for host in self.hosts:
            host.note(event, **values)

    # -- what happens to it

    def crash(self, actor: str, on: type, *, times: int = 1, late: bool = False) -> Crashes:
        """Crash this actor of this member at the next messages of this type.

        `late`: after it has handled them. Returns what counts how often it happened.
        """
        crashes = Crashes(actor, on, times, late=late)
        self.before_each = crashes.before
        return crashes

    def kill(self) -> None:
        """Its process is killed: connections break, and no LeaveGroup is sent."""
        if not self.gone:
            self.gone = True
            for task in self.tasks:
                task.kill()
            self.producers.end()
            for host in self.hosts:
                host.end()
            self.simulation.history.note("member.killed", self.name)

    def kill_after(self, turns: int) -> None:
        """Kill it in place of a later turn: of its code, or of the background of a consumer that
        it has by now; wherever in its work that may be."""
        left = turns

        def lives() -> bool:
            nonlocal left
            left -= 1
            if left < 0:
                self.kill()
            return left >= 0

        taking: list[Turn] = [*self.tasks, *self.hosts]
        for turn in taking:
            self.simulation.scheduler.ask_before_turns(turn, lives)

    def kill_at_line(self, lines: int) -> None:
        """Kill it in place of a line of its own code, after so many more: of what runs in its
        process, Python's modules and aktor aside."""
        self.task.kill_at_line(lines, self.kill)

    def interrupt(self, lines: int, handler: str) -> None:
        """A signal comes after so many more lines of its consumer's methods; `handler` is one of
        `interrupts.HANDLERS`."""
        self.task.count(Interruption(lambda: self.hosts[-1], lines, handler))

    def kill_at_work(self, progress: float) -> None:
        """Kill it at a line of its own code when it has been given records the next time: from 0.0
        (at once) to 1.0 (when it might be through with them)."""
        self._dies_at = progress

    def is_given(self, records: int) -> None:
        """A consumer of it gives so many records out."""
        progress, self._dies_at = self._dies_at, None
        if progress is not None:
            self.kill_at_line(int(progress * (LINES_OF_A_POLL + LINES_OF_A_RECORD * records)))

    def jump_clock(self, seconds: float) -> None:
        """Its monotonic clock jumps ahead: its virtual machine catches up on lost time. It never
        jumps back (PEP 418); timers that are due by it go off."""
        if not self.gone and seconds > 0:
            self.simulation.history.note("clock.jumped", self.name, seconds=seconds)
            for task in self.tasks:
                task.ahead += seconds
            for host in self.hosts:
                self.simulation.scheduler.can_run(host)

    def freeze(self, **noted: Any) -> None:
        """Its process stands still (swapped out, or its virtual machine is paused). `noted` is said
        of it in the history."""
        if not self.gone:
            self.simulation.history.note("member.frozen", self.name, **noted)
            self._frozen_at = self.simulation.now
            for task in self.tasks:
                task.freeze()
            for host in self.hosts:
                host.freeze()

    def thaw(self, *, asleep: bool = False) -> None:
        """It goes on as if nothing had been. `asleep`: its monotonic clock stood still as well, as
        while its machine was suspended (CLOCK_MONOTONIC): it knows nothing of the time between."""
        if not self.gone and self.task.frozen:
            self.simulation.history.note("member.thawed", self.name, asleep=asleep)
            if asleep:
                for task in self.tasks:
                    task.ahead -= self.simulation.now - self._frozen_at
            for host in self.hosts:
                host.thaw()
            for task in self.tasks:
                task.thaw()
