"""Pictures of what traces say of rebalances: what members did, who owned which partition and when
nothing of it was delivered, what caused rebalances, and one of them step by step.

    pictures = draw(read_files(["logs/"]))
    pictures.write_html("why.html")    # with the sentences, to be looked into with the mouse
    pictures.write_svg("pictures")     # a file for each picture

They are drawn by Vega-Altair, which comes with the extra `pictures`. Neither file loads anything:
Vega is in the page. In them are names of groups, topics, members and hosts, times and sentences; no
record, no setting. `aktor why LOG... --html FILE` and `--svg FOLDER` make the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aktor.trace.pictures.charts import MissingError, Picture, altair, vl_convert
from aktor.trace.pictures.groups import GroupPictures, file_names, groups_of
from aktor.trace.pictures.page import escaped, page, sentences
from aktor.trace.pictures.times import clock, day
from aktor.trace.rebalances.lines import ALONE
from aktor.trace.rebalances.tables import TABLES

if TYPE_CHECKING:
    from aktor.trace.rebalances.tables import Tables

__all__ = ["MissingError", "Picture", "Pictures", "check", "draw"]


def draw(
    tables: Tables,
    title: str = "Why groups rebalanced, and what stood still",
    *,
    notes: Sequence[str] = (),
) -> Pictures:
    """The pictures of these tables. `notes` are sentences that the page begins with. Raises
    MissingError (a ModuleNotFoundError) without the extra `pictures`."""
    check()
    return Pictures(tables, title, notes)


def more_groups(left_out: int) -> str:
    """What a page says of groups that are not on it."""
    return f"{left_out} more groups are in these logs."


def check() -> None:
    """Raises MissingError if what draws pictures is not installed."""
    altair()
    vl_convert()


class Pictures:
    """The pictures of each group; of more than eight groups those with most rebalancing."""

    def __init__(self, tables: Tables, title: str, notes: Sequence[str] = ()) -> None:
        self.title = title
        self.groups = [GroupPictures(tables, group) for group in groups_of(tables)]
        every = {row.group for table in TABLES for row in tables[table]} - {ALONE}
        left_out = len(every.difference(one.group for one in self.groups))
        self.notes = [*notes, *([more_groups(left_out)] if left_out else [])]

    def svgs(self) -> dict[str, str]:
        """The SVG of each picture, by its name: "timeline", "causes", "rebalance"."""
        starts = file_names([one.group for one in self.groups])
        return {
            f"{starts[one.group]}{picture.name}": picture.svg()
            for one in self.groups
            for picture in one.pictures()
        }

    def write_svg(self, folder: str | Path) -> list[Path]:
        """Write a file for each picture into the folder, which is made. Raises OSError."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        files = []
        for name, svg in self.svgs().items():
            files.append(place / f"{name}.svg")
            files[-1].write_text(svg, encoding="utf-8")
        return files

    def html(self) -> str:
        """The page."""
        return page(self.title, self._parts())

    def write_html(self, file: str | Path) -> None:
        """Write the page. Raises OSError."""
        Path(file).write_text(self.html(), encoding="utf-8")

    def _parts(self) -> Iterator[str | Picture]:
        if not self.groups:
            yield "<p>No rebalance and no silence is in these logs.</p>"
        for note in self.notes:
            yield f'<p class="note">{escaped(note)}</p>'
        for one in self.groups:
            if one.group == ALONE:
                yield "<h2>Consumers without a group</h2>"
            yield from one.pictures()
            yield "<h3>All of it in sentences</h3>"
            yield sentences([(f"{day(at)} {clock(at)} UTC", said) for at, said in one.told])
        yield (
            '<p class="note">Times are UTC, by the clocks of the hosts. In the first picture of a'
            " group: drag to move in time, Shift and the wheel to zoom, double-click for all of it."
            " Point at anything for its sentence.</p>"
        )

    def _repr_html_(self) -> str:
        """In a notebook: the pictures as they are, without Vega."""
        return "".join(self.svgs().values())
