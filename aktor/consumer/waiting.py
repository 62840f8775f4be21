"""How the application's half waits without a thread, a bell or an event loop of its own.

What may wait is a generator. It does what it can, and yields the time until which it has nothing
more to do. It is resumed at that time, or sooner if the background or another thread has said
something. What it returns is the result of the call, what it raises is the call's error.

    def position(self, partition: TopicPartition, deadline: float) -> Waiting[int]:
        while (offset := self.known_offset(partition)) is None:
            yield deadline
        return offset

Who drives it decides how to wait: a thread with its bell (`Blocking`; the simulation's bell waits
in virtual time), an asyncio consumer with its event loop. No rule of Kafka stands in a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from aktor.actors.runtime import Bell

__all__ = ["Blocking", "Waiting"]

T = TypeVar("T")

#: Yields until when it waits (by the clock of the consumer), and returns a result.
Waiting: TypeAlias = Generator[float, None, T]


class Blocking:
    """Drives what waits on the thread that calls: it waits for its bell."""

    __slots__ = ("_bell", "_clock")

    def __init__(self, bell: Bell, clock: Callable[[], float]) -> None:
        self._bell = bell
        self._clock = clock

    def run(self, waiting: Waiting[T]) -> T:
        """Go on with it until it is over; returns its result.

        An interrupt that comes here ends it where it waits. The bell is not waited for where
        StopIteration is caught: a signal handler may raise one.
        """
        try:
            while True:
                try:
                    until = next(waiting)
                except StopIteration as over:
                    result: T = over.value
                    return result
                self._bell.wait(until - self._clock())
        except BaseException:
            waiting.close()
            raise
