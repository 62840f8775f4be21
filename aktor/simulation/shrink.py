"""A failing seed of a user's own test, with the fewest faults.

    def judge(seed):
        with Simulation(seed) as sim:
            ...

    print(shrink(judge, 7))

The function makes its simulations itself; it need not know that faults are left out of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from aktor.simulation.errors import CheckFailedError, MemberFailedError
from aktor.simulation.faults.chaos import Chaos, Fault
from aktor.simulation.history import History

__all__ = ["Shrunk", "enter", "shrink"]

Judge = Callable[[int], object]


class _Tried(Protocol):
    """A simulation that the function makes."""

    faults: Chaos
    history: History


class _Trial:
    """One run of the function: without these faults, by their numbers."""

    def __init__(self, without: frozenset[int]) -> None:
        self.without = without
        #: The last simulation that was made: it is the one that fails.
        self.simulation: _Tried | None = None


_TRIAL: Final[ContextVar[_Trial | None]] = ContextVar("aktor trial", default=None)


def enter(simulation: _Tried) -> frozenset[int]:
    """There is this simulation; the faults that it has to do without."""
    trial = _TRIAL.get()
    if trial is None:
        return frozenset()
    trial.simulation = simulation
    return trial.without


@contextmanager
def _trial_of(without: frozenset[int]) -> Iterator[_Trial]:
    """While the block runs, simulations do without these faults."""
    trial = _Trial(without)
    token = _TRIAL.set(trial)
    try:
        yield trial
    finally:
        _TRIAL.reset(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """What is left of a failing seed."""

    seed: int
    #: With these faults it still fails, with any one less it does not.
    faults: tuple[Fault, ...]
    #: The numbers of those that are left out: `Simulation(seed, without=...)` fails alike.
    without: frozenset[int]
    #: How it fails now.
    error: BaseException
    #: How often the function was run.
    tries: int

    def __str__(self) -> str:
        there_were = len(self.faults) + len(self.without)
        lines = [f"seed {self.seed} fails alike with {len(self.faults)} of {there_were} faults:"]
        lines += [
            f"{fault.at:10.3f}  {fault.kind} for {fault.seconds:g} s (number {fault.number})"
            for fault in self.faults
        ]
        without = "{" + ", ".join(map(str, sorted(self.without))) + "}"
        if self.without:
            lines.append(f"again: Simulation({self.seed}, without={without})")
        return "\n".join([*lines, f"{type(self.error).__name__}: {self.error}"])


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the function, and the faults that began in it."""

    error: BaseException | None
    faults: tuple[Fault, ...]
    all: frozenset[int]

    def fails_like(self, other: _Run) -> bool:
        mine, theirs = self.error, other.error
        if isinstance(mine, CheckFailedError) and isinstance(theirs, CheckFailedError):
            return bool(mine.checks & theirs.checks)
        if isinstance(mine, MemberFailedError) and isinstance(theirs, MemberFailedError):
            return type(mine.__cause__) is type(theirs.__cause__)
        return mine is not None and type(mine) is type(theirs)


def shrink(judge: Judge, seed: int, told: Callable[[int, int], None] = lambda *_: None) -> Shrunk:
    """Leave out faults of `judge(seed)` as long as it fails in the same way.

    The function fails by raising; it makes its simulations with this seed. `told` hears after each
    run how many faults are left, and how many runs there were. ValueError if it does not fail.
    """
    first = best = _run(judge, seed, frozenset())
    if first.error is None:
        raise ValueError(f"there is nothing to shrink: seed {seed} does not fail")
    tries = 1

    def can_do_without(numbers: set[int]) -> bool:
        nonlocal best, tries
        kept = {fault.number for fault in best.faults} - numbers
        run = _run(judge, seed, first.all - kept)
        tries += 1
        if run.fails_like(first):
            best = run
        told(len(best.faults), tries)
        return best is run

    can_do_without(set())  # those that never began
    chunk = max(1, len(best.faults) // 2)
    while best.faults:
        before = len(best.faults)
        numbers = [fault.number for fault in best.faults]
        for at in range(0, len(numbers), chunk):
            can_do_without(set(numbers[at : at + chunk]))
        if chunk == 1 and len(best.faults) == before:
            break  # none of them can be left out
        chunk = max(1, chunk // 2)
    kept = {fault.number for fault in best.faults}
    assert best.error is not None
    return Shrunk(
        seed=seed, faults=best.faults, without=first.all - kept, error=best.error, tries=tries
    )


def _run(judge: Judge, seed: int, without: frozenset[int]) -> _Run:
    error: BaseException | None = None
    with _trial_of(without) as trial:
        try:
            judge(seed)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # pytest.fail raises one that is no Exception
            error = raised
    if trial.simulation is None:
        raise error or ValueError("the function makes no simulation")
    faults = trial.simulation.faults.faults
    began = {event["number"] for event in trial.simulation.history.named("fault.began")}
    return _Run(
        error,
        tuple(fault for fault in faults if fault.number in began),
        frozenset(fault.number for fault in faults),
    )
