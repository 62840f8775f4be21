"""How a question of the application thread ends: exactly once, by one of these.

    application ──(any message with a ticket)──▶ manager
    application ◀──Answered | Failed── manager

A ticket is a number that the application gave out together with a future; the manager keeps it
until it answers. Questions carry an absolute `deadline`: a manager forgets (and traces) what is
past its deadline, and the application has raised by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """manager ▶ application: the result of the question with this ticket."""

    ticket: int
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """manager ▶ application: the question with this ticket ended in a typed error."""

    ticket: int
    error: Exception
