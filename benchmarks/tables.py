"""Results as tables: plain text for a terminal, Markdown for `docs/benchmarks.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Table", "at_least", "at_most", "ratio", "spread"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under a title; the notes say what one must know to read them."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def text(self) -> str:
        """For a terminal: columns aligned, the first to the left."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        shown = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in lines
        ]
        return "\n".join([self.title, *shown, *self.notes, ""])

    def markdown(self) -> str:
        """For the documentation."""
        lines = [self.columns, ["---", *["---:"] * (len(self.columns) - 1)], *self.rows]
        shown = [f"| {' | '.join(line)} |" for line in lines]
        notes = ["  \n".join(self.notes), ""] if self.notes else []
        return "\n".join([f"**{self.title}**", "", *shown, "", *notes])


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The median, and the least and the greatest value behind it."""
    middle, least, most = (f"{one:,.{digits}f}" for one in (median(values), *_ends(values)))
    return middle if len(values) == 1 else f"{middle} ({least}-{most})"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Our median against theirs, from the same run."""
    return median(ours) / median(theirs)


def at_most(value: float, target: float, unit: str = "") -> str:
    """The target and whether `value` keeps to it."""
    return f"<= {target:g}{unit}: {'met' if value <= target else 'NOT met'}"


def at_least(value: float, target: float, unit: str = "") -> str:
    """The target and whether `value` reaches it."""
    return f">= {target:g}{unit}: {'met' if value >= target else 'NOT met'}"
