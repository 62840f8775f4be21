"""The promises, each a named check over a history (docs/architecture.md, "Invariants").

A check takes a `History` and returns sentences, one for each time the promise was broken. They read
what happened, never the members' own state, so they hold for the trace of a real cluster as well:
who does not tell something (of commits that brokers took, say) is not judged by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aktor.simulation.checks import (
    actors,
    automatic_commits,
    causes,
    commits,
    endings,
    limits,
    listener,
    membership,
    ownership,
    pace,
    processing,
    records,
    status,
)
from aktor.simulation.history import History

__all__ = ["CHECKS", "Check", "broken_promises"]

Check = Callable[[History], list[str]]


def broken_promises(history: History) -> list[str]:
    """What any check complains about, each with the check's name."""
    return [f"{check.__name__}: {complaint}" for check in CHECKS for complaint in check(history)]


CHECKS: Final[tuple[Check, ...]] = (
    *records.CHECKS,
    *ownership.CHECKS,
    *commits.CHECKS,
    *automatic_commits.CHECKS,
    *endings.CHECKS,
    *membership.CHECKS,
    *actors.CHECKS,
    *causes.CHECKS,
    *limits.CHECKS,
    *pace.CHECKS,
    *listener.CHECKS,
    *processing.CHECKS,
    *status.CHECKS,
)
