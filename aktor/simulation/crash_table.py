"""The table of crash drills: every point at which an actor can fall over, and what became of it.

It stands in docs/simulation.md between two markers; `aktor sim crashes --write docs/simulation.md`
puts the present one there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aktor.simulation.crashes import Point
from aktor.simulation.drill import UNREACHED, Outcome, Phase, drill
from aktor.simulation.errors import SimulationError

__all__ = ["COLUMNS", "Column", "in_document", "replaced", "row", "shown", "table"]

BEGIN: Final = "<!-- crashes -->"
END: Final = "<!-- /crashes -->"


@dataclass(frozen=True, slots=True)
class Column:
    """How often the actor falls over, and when."""

    title: str
    times: int
    phase: Phase

    def cell(self, point: Point, seed: int = 0) -> tuple[str, bool]:
        """What became of it, in words, and whether that is good."""
        if point in UNREACHED:
            return f"not reached: {UNREACHED[point]}", True
        try:
            outcome = drill(point, self.times, phase=self.phase, seed=seed)
        except SimulationError as error:
            return f"{type(error).__name__}: {error}".partition("\n")[0], False
        return str(outcome), self.holds(outcome)

    def holds(self, outcome: Outcome) -> bool:
        """Whether it is as it must be; while alice joins or closes not every message comes."""
        enough = self.phase is not Phase.READING or outcome.happened == self.times
        return outcome.good and enough


COLUMNS: Final = (
    Column("once", 1, Phase.READING),
    Column("twice", 2, Phase.READING),
    Column("while joining", 1, Phase.JOINING),
    Column("while closing", 1, Phase.CLOSING),
)


def row(point: Point, cells: list[str]) -> str:
    """A line of the table; what is not reached in a phase is a dash."""
    if point in UNREACHED:
        cells = [cells[0], "", "", ""]
    words = ("–" if cell == "not reached" else cell for cell in cells)
    return f"| {point.actor} | {point.message.__name__} | {' | '.join(words)} |"


def table(cells: dict[Point, list[str]]) -> str:
    """All of it, as Markdown."""
    titles = ["actor", "message", *(column.title for column in COLUMNS)]
    return "\n".join(
        [
            f"| {' | '.join(titles)} |",
            "|---" * len(titles) + "|",
            *(row(point, some) for point, some in cells.items()),
        ]
    )


def replaced(document: str, new: str) -> str:
    """The document with this table between its markers.

    Raises ValueError if it has no markers.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def shown(document: str) -> str:
    """The table that the document has between its markers."""
    return document.partition(BEGIN)[2].partition(END)[0].strip()


def in_document(document: str) -> list[list[str]]:
    """Its cells, by rows, without the two lines at the top."""
    lines = shown(document).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
