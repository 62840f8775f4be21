"""What ends a simulation."""

from __future__ import annotations

from collections.abc import Collection

__all__ = [
    "BlockingCallError",
    "CheckFailedError",
    "DeadlockError",
    "MemberFailedError",
    "SimulationError",
    "SpinError",
    "TimeIsUpError",
]


class SimulationError(Exception):
    """A simulation could not go on, or found what it was looking for."""


class DeadlockError(SimulationError):
    """No task can ever run again. The text says which task waits for what."""


class SpinError(SimulationError):
    """A task works without end while the clock does not move."""


class TimeIsUpError(SimulationError):
    """What was waited for did not happen within its virtual time. Says who waits for what; of
    `progress`, which partitions are not committed and who owns them."""


class BlockingCallError(SimulationError):
    """A member's code blocks on something that is not simulated: a socket, a process, a new thread,
    a lock."""


class MemberFailedError(SimulationError):
    """A member's code raised. The exception is the cause."""


class CheckFailedError(SimulationError, AssertionError):
    """A promise was not kept: seed, what was broken, and the last lines of the history.

    `checks`: the names of those that complain.
    """

    def __init__(self, message: str, checks: Collection[str] = ()) -> None:
        super().__init__(message)
        self.checks = frozenset(checks)
