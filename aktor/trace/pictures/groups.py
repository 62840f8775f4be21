"""All pictures of some tables: of each group its members and partitions, the causes of its
rebalances, and one of them step by step."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from aktor.trace.pictures.causes import causes_chart, counted, step_of
from aktor.trace.pictures.charts import Picture, altair
from aktor.trace.pictures.members import Lanes, members_chart
from aktor.trace.pictures.partitions import partitions_chart, ribbons_of, together
from aktor.trace.pictures.times import Window, clock, day
from aktor.trace.pictures.waterfall import waterfall_chart
from aktor.trace.plain import visible
from aktor.trace.rebalances.lines import ALONE
from aktor.trace.rebalances.rows import Rebalance
from aktor.trace.rebalances.silences import in_sentences

if TYPE_CHECKING:
    from aktor.trace.rebalances.tables import Tables

__all__ = ["GroupPictures", "file_names", "groups_of"]

#: Groups that are drawn: those that spent most time in rebalances and silences.
GROUPS: Final = 8

#: Rebalances of a group that are drawn step by step: the longest, if they took at least so much of
#: the time that the longest took.
WATERFALLS: Final = 5
SHARE: Final = 0.1

#: Sentences below a title.
SENTENCES: Final = 3


def groups_of(tables: Tables) -> list[str]:
    """The groups that are drawn, the worst first."""
    spent: dict[str, float] = {}
    for span in tables.spans:
        spent.setdefault(span.group, 0.0)
    for row in tables.rebalances:
        spent[row.group] = spent.get(row.group, 0.0) + row.duration_ms
    for silence in tables.silences:
        spent[silence.group] = spent.get(silence.group, 0.0) + (silence.duration_ms or 0.0)
    return sorted(spent, key=lambda group: (-spent[group], group))[:GROUPS]


class GroupPictures:
    """The pictures of one group."""

    def __init__(self, tables: Tables, group: str) -> None:
        self.group = group
        self.rebalances = [row for row in tables.rebalances if row.group == group]
        self._parts = [row for row in tables.parts if row.group == group]
        self._spans = [row for row in tables.spans if row.group == group]
        self._owned = [row for row in tables.owned_partitions if row.group == group]
        self._downtimes = [row for row in tables.downtimes if row.group == group]
        self.silences = [row for row in tables.silences if row.group == group]
        self.refusals = [row for row in tables.refusals if row.group == group]
        times = [at for row in self._spans for at in (row.began, row.ended)]
        times += [at for row in self.rebalances for at in (row.began, row.ended)]
        times += [row.last_delivered or row.assigned for row in self._owned]
        times += [row.assigned for row in self._owned]
        self.window = Window.of(times)
        #: The time of the last thing that is known of it.
        self.last = max(times, default=0.0)

    @cached_property
    def told(self) -> list[tuple[float, str]]:
        """All of it in sentences, each with its time, in the order in which they are numbered."""
        rebalances = [(row.began, row.sentence) for row in self.rebalances]
        refusals = [(row.began, row.sentence) for row in self.refusals]
        return sorted([*rebalances, *in_sentences(self.silences), *refusals])

    @property
    def worst(self) -> list[Rebalance]:
        """The rebalances that took longest, the longest first."""
        longest = sorted(self.rebalances, key=lambda row: -row.duration_ms)[:WATERFALLS]
        return [row for row in longest if row.duration_ms >= SHARE * longest[0].duration_ms]

    def pictures(self) -> Iterator[Picture]:
        """All of them. Consumers without a group have none: they are told in sentences."""
        if self.group == ALONE:
            return
        yield self.timeline()
        if self.rebalances:
            yield self.causes()
        for number, row in enumerate(self.worst, 1):
            yield self.waterfall(row, "" if number == 1 else f"-{number}")

    def timeline(self) -> Picture:
        """Its members, and its partitions below them, over the same time."""
        alt = altair()
        middle = self.worst[0] if self.worst else None
        window = self.window
        if middle is not None:
            window = window.around(middle.began, middle.ended)
        spans = [row for row in self._spans if window.meets(row.began, row.ended)]
        owned = [
            row
            for row in self._owned
            if row.assigned <= window.ended
            and (row.released is None or row.released >= window.began)
        ]
        near = [row for row in self.rebalances if window.meets(row.began, row.ended)]
        lanes = Lanes.of(spans, owned, near)
        above, data = members_chart(lanes, spans, self.silences, near, window)
        every = ribbons_of(owned, self._downtimes, self.silences, window)
        ribbons, others = together(every, window)
        below, more = partitions_chart(ribbons, lanes.labels, window)
        zoom = alt.selection_interval(
            name="zoom",
            bind="scales",
            encodings=["x"],
            zoom="wheel![event.shiftKey]",
        )
        with warnings.catch_warnings():
            # Of the two charts that are moved together: they are meant to be.
            warnings.filterwarnings("ignore", message="Automatically deduplicated")
            chart = alt.vconcat(above.add_params(zoom), below.add_params(zoom), spacing=14)
        chart = chart.resolve_scale(
            color="independent", stroke="independent", strokeWidth="independent"
        )
        note = []
        if window != self.window:
            note.append(
                f"Shown: {day(window.began)} {clock(window.began)} to {clock(window.ended)} UTC, of"
                f" {day(self.window.began)} {clock(self.window.began)} to {day(self.window.ended)}"
                f" {clock(self.window.ended)}."
            )
        if lanes.others:
            note.append(f"{lanes.others} members are left out that neither began nor held one.")
        if others:
            note.append(f"{others} partitions are left out that were silent for less time.")
        longest = sorted(near, key=lambda row: -row.duration_ms)[:SENTENCES]
        told: list[tuple[float, str]] = [(row.began, row.sentence) for row in longest]
        told = told or list(in_sentences(self.silences))[:SENTENCES]
        numbers = {one: number for number, one in enumerate(self.told, 1)}
        return Picture(
            "timeline",
            f"Group {visible(self.group)}: what its members did, and who owned its partitions",
            [*(f"{numbers[one]}. {one[1]}" for one in sorted(told)), *note],
            chart,
            data | more,
        )

    def causes(self) -> Picture:
        """Its rebalances by their causes."""
        window = Window.of(row.began for row in self.rebalances)
        step = step_of(window)
        chart, data = causes_chart(counted(self.rebalances, step), step)
        title = f"Group {visible(self.group)}: {len(self.rebalances)} rebalances, by their causes"
        end = f"The traces end at {day(self.last)} {clock(self.last)} UTC."
        return Picture("causes", title, [end], chart, data)

    def waterfall(self, row: Rebalance, suffix: str = "") -> Picture:
        """One rebalance step by step."""
        parts = [part for part in self._parts if part.rebalance == row.rebalance]
        chart, data, left_out = waterfall_chart(row, parts, self._spans, self._downtimes)
        title = (
            f"Group {visible(self.group)}: the rebalance of {day(row.began)} {clock(row.began)} UTC"
        )
        return Picture(f"rebalance{suffix}", title, [row.sentence, *left_out], chart, data)


def file_names(groups: Sequence[str]) -> dict[str, str]:
    """How the files of each group begin: with nothing, if there is one group."""
    if len(groups) == 1:
        return {groups[0]: ""}
    found: dict[str, str] = {}
    for group in groups:
        base = re.sub(r"[^A-Za-z0-9._-]+", "_", group)[:60].strip("._") or "group"
        name, number = base, 1
        while f"{name}-" in found.values():
            number += 1
            name = f"{base}_{number}"
        found[group] = f"{name}-"
    return found
