"""The tables of crash drills: every point at which an actor can crash, and how it ended.

There is one for each group protocol. They stand in docs/simulation.md between markers; `aktor sim
crashes --write docs/simulation.md` puts the present ones there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aktor.simulation.errors import SimulationError
from aktor.simulation.selftest.drill import CONSUMER_UNREACHED, UNREACHED, Outcome, Phase, drill
from aktor.simulation.world.crashes import CONSUMER_POINTS, POINTS, Point

__all__ = [
    "COLUMNS",
    "PROTOCOLS",
    "Column",
    "in_document",
    "replaced",
    "row",
    "shown",
    "table",
]

#: By protocol: the points that there are, and of which none is reached, and why.
PROTOCOLS: Final[Mapping[str, tuple[tuple[Point, ...], Mapping[Point, str]]]] = {
    "classic": (POINTS, UNREACHED),
    "consumer": (CONSUMER_POINTS, CONSUMER_UNREACHED),
}


def _markers(protocol: str) -> tuple[str, str]:
    return f"<!-- crashes: {protocol} -->", f"<!-- /crashes: {protocol} -->"


@dataclass(frozen=True, slots=True)
class Column:
    """How often the actor crashes, and when."""

    title: str
    times: int
    phase: Phase

    def cell(self, point: Point, protocol: str, seed: int = 0) -> tuple[str, bool]:
        """What became of it, in words, and whether that is good."""
        _, unreached = PROTOCOLS[protocol]
        if point in unreached:
            return f"not reached: {unreached[point]}", True
        try:
            outcome = drill(point, self.times, phase=self.phase, seed=seed, group_protocol=protocol)
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
    if cells[0].startswith("not reached: "):
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


def replaced(document: str, protocol: str, new: str) -> str:
    """The document with this table between its markers.

    Raises ValueError if it has no markers.
    """
    first, last = _markers(protocol)
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"there is no {first} ... {last}")
    return f"{before}{first}\n{new}\n{last}{after}"


def shown(document: str, protocol: str) -> str:
    """The table that the document has between its markers."""
    first, last = _markers(protocol)
    return document.partition(first)[2].partition(last)[0].strip()


def in_document(document: str, protocol: str) -> list[list[str]]:
    """Its cells, by rows, without the two lines at the top."""
    lines = shown(document, protocol).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
