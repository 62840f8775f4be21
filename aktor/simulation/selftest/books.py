"""What consumers count, looked at now and then: bytes that are under way or buffered, questions
without an answer.

Only when nobody of a consumer has mail: then what is counted and what is there are the same.
"""

from __future__ import annotations

from typing import Final

from aktor.simulation.simulation import Simulation

__all__ = ["Books"]

#: Seconds between two looks.
LOOK_EVERY: Final = 1.0


class Books:
    """Looks at the consumers of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def watch(self) -> None:
        """From now on, look now and then."""
        for member in self._simulation.members:
            if member.running:
                for host in member.hosts:
                    host.note_books()
        self._simulation.scheduler.after(LOOK_EVERY, self.watch)
