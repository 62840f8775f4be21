"""What `shrink` leaves out of the simulations that a user's function makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aktor.simulation.simulation import Simulation

__all__ = ["Trial", "enter", "trial_of"]


class Trial:
    """One run of the function: without these faults, by their numbers."""

    def __init__(self, without: frozenset[int]) -> None:
        self.without = without
        #: The last simulation that was made: it is the one that fails.
        self.simulation: Simulation | None = None


_TRIAL: Final[ContextVar[Trial | None]] = ContextVar("aktor trial", default=None)


def enter(simulation: Simulation) -> frozenset[int]:
    """There is this simulation; the faults that it has to do without."""
    trial = _TRIAL.get()
    if trial is None:
        return frozenset()
    trial.simulation = simulation
    return trial.without


@contextmanager
def trial_of(without: frozenset[int]) -> Iterator[Trial]:
    """While the block runs, simulations do without these faults."""
    trial = Trial(without)
    token = _TRIAL.set(trial)
    try:
        yield trial
    finally:
        _TRIAL.reset(token)
