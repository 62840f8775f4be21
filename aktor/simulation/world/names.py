"""The names of brokers: each may have several addresses, of which one may lead nowhere.

Which of them is tried when is `aktor.actors.sockets.addresses`, as over sockets; here are the
addresses and the virtual time for it.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from kafka.future import Future

from aktor.actors.sockets.addresses import Address
from aktor.simulation.world.scheduler import Scheduler

__all__ = ["Names", "Tasks"]


class Names:
    """Owns how many addresses a broker's name has, and which lead nowhere."""

    def __init__(self) -> None:
        self.addresses = 1
        #: By broker: the one of its addresses that drops all packets, counted from 0.
        self.dead: dict[int, int] = {}

    def resolve(self, host: str, port: int) -> list[Address]:
        """As `socket.getaddrinfo` would, in the same order each time."""
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (f"{host}/{number}", port))
            for number in range(self.addresses)
        ]

    def is_dead(self, node: int, address: Address | None) -> bool:
        """Whether this address of a broker drops all packets."""
        return address is not None and address[4][0].endswith(f"/{self.dead.get(node)}")


class Tasks:
    """What a `Race` needs of `kafka.net`'s loop. `hear` runs an action at once, or, if the process
    is frozen, when it goes on."""

    def __init__(self, scheduler: Scheduler, hear: Callable[[Callable[[], None]], None]) -> None:
        self._scheduler = scheduler
        self._hear = hear

    def call_soon(self, begin: Callable[[], Coroutine[Future, None, None]]) -> _Task:
        """Begin the coroutine at once. (It waits for something that takes virtual time.)"""
        return _Task(begin())

    def call_later(self, delay: float, act: Callable[[], None]) -> _Timer:
        """Call `act` after `delay` seconds."""
        timer = _Timer(act)
        self._scheduler.after(delay, lambda: self._hear(timer.go_off))
        return timer

    def cancel(self, task: _Task | _Timer) -> None:
        """Cancel a task or a timer."""
        task.cancel()


class _Timer:
    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act

    def go_off(self) -> None:
        if self._act is not None:
            self._act()

    def cancel(self) -> None:
        self._act = None


class _Task:
    def __init__(self, work: Coroutine[Future, None, None]) -> None:
        self._work = work
        self._cancelled = False
        self._go_on(None)

    def _go_on(self, _: Any) -> None:
        if self._cancelled:
            return  # what it waited for has come all the same
        with contextlib.suppress(StopIteration):  # it is done
            self._work.send(None).add_both(self._go_on)

    def cancel(self) -> None:
        self._cancelled = True
        self._work.close()
