"""Who owned each partition, over time, and when nothing of it was delivered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aktor.trace.pictures import colours
from aktor.trace.pictures.charts import LABELS, WIDTH, Values, altair, colour, say, time_axis
from aktor.trace.pictures.names import Labels, several, short
from aktor.trace.pictures.times import Window, lasting, milliseconds
from aktor.trace.plain import visible
from aktor.trace.rebalances.holds import called, seconds
from aktor.trace.rebalances.rows import Downtime, OwnedPartition, Silence

__all__ = ["NOBODY", "Ribbon", "in_order", "partitions_chart", "ribbons_of", "together"]

#: Rows that are drawn. Partitions that had the same owners at the same times share one.
ROWS: Final = 60

#: Marks that are drawn; of more the longest.
MARKS: Final = 8000

#: A shorter pause between two owners is no silence, in seconds.
SHORTEST: Final = 0.25

NOBODY: Final = "nothing is delivered"


@dataclass(slots=True)
class Ribbon:
    """What is known of one partition, or of several that had the same owners."""

    partitions: list[str]
    #: (trace, since, until)
    owners: list[tuple[str, float, float]] = field(default_factory=list)
    #: (since, until, the sentence), of one of the partitions; they may overlap.
    silences: list[tuple[float, float, str]] = field(default_factory=list)

    @property
    def silent(self) -> float:
        """How long nothing was delivered, in seconds of all partitions together."""
        return sum(ended - began for began, ended, _ in self.silences)

    def label(self) -> str:
        """The partitions: "orders-3", or "84 x orders: 0-41, 43"."""
        if len(self.partitions) == 1:
            topic, _, number = self.partitions[0].rpartition("-")
            return f"{short(topic, 24)}-{number}" if topic else short(number)
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for partition in self.partitions:
            topic, _, number = partition.rpartition("-")
            numbers[topic].append(int(number) if number.isdecimal() else 0)
        first, some = next(iter(sorted(numbers.items())))
        if len(numbers) > 1:
            return (
                f"{len(self.partitions)} x {short(first, 14)} and {len(numbers) - 1} other topics"
            )
        return f"{len(self.partitions)} x {short(first, 14)}: {several(some, 2)}"


def ribbons_of(
    owned: Iterable[OwnedPartition],
    downtimes: Iterable[Downtime],
    silences: Iterable[Silence],
    window: Window,
) -> list[Ribbon]:
    """A ribbon for each partition that had an owner in that time."""
    rows: defaultdict[str, list[OwnedPartition]] = defaultdict(list)
    for row in owned:
        rows[row.partition].append(row)
    found: dict[str, Ribbon] = {}
    for partition, of_one in sorted(rows.items(), key=lambda item: in_order(item[0])):
        ribbon = Ribbon([partition])
        of_one.sort(key=lambda one: one.assigned)
        # An owner that did not release its partition has it until the next one is given it.
        nexts = [*(one.assigned for one in of_one[1:]), window.ended]
        for row, following in zip(of_one, nexts, strict=True):
            until = following if row.released is None else row.released
            if window.meets(row.assigned, until) and until > row.assigned:
                ribbon.owners.append((row.trace, *window.cut(row.assigned, until)))
        if ribbon.owners:
            found[partition] = ribbon
    for gap in downtimes:
        began, resumed = gap.last_delivered, gap.first_delivered
        ribbon_of = found.get(gap.partition)
        if ribbon_of is None or began is None or resumed is None or resumed - began < SHORTEST:
            continue
        if gap.unseen_owner:
            continue  # nobody with a trace knows whether it was silent
        if gap.downtime_ms is not None and window.meets(began, resumed):
            before = called((gap.from_consumer, gap.from_host))
            after = called((gap.to_consumer, gap.to_host))
            say = (f"{gap.partition}: nothing is delivered for {lasting(began, resumed)},"
                   f" on its way from {before} to {after}.")  # fmt: skip
            ribbon_of.silences.append((*window.cut(began, resumed), visible(say)))
    for silence in silences:
        ribbon_of = found.get(silence.partition)
        ended = window.ended if silence.ended is None else silence.ended
        if ribbon_of is not None and window.meets(silence.began, ended):
            cut = window.cut(silence.began, ended)
            ribbon_of.silences.append((*cut, visible(silence.sentence)))
    return list(found.values())


def in_order(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number) if number.isdecimal() else -1


def together(ribbons: Sequence[Ribbon], window: Window) -> tuple[list[Ribbon], int]:
    """At most `ROWS` ribbons, and how many partitions are left out. Those that had the same owners
    at the same times become one; of more than `ROWS` those with the longest silence are kept."""
    if len(ribbons) <= ROWS:
        return list(ribbons), 0
    shown: list[Ribbon] = []
    for parts in (200.0, 50.0):
        step = window.seconds / parts
        alike: dict[tuple[tuple[str, int, int], ...], Ribbon] = {}
        for one in ribbons:
            key = tuple(
                (trace, round(began / step), round(ended / step))
                for trace, began, ended in one.owners
                if ended - began >= step
            )
            same = alike.get(key)
            if same is None:
                alike[key] = Ribbon(list(one.partitions), list(one.owners), list(one.silences))
            else:
                same.partitions += one.partitions
                same.silences += one.silences
        shown = list(alike.values())
        if len(shown) <= ROWS:
            return shown, 0
    longest = sorted(shown, key=lambda one: -one.silent)
    kept = set(map(id, longest[:ROWS]))
    return [one for one in shown if id(one) in kept], sum(
        len(one.partitions) for one in longest[ROWS:]
    )


def partitions_chart(
    ribbons: Sequence[Ribbon], owners: Labels, window: Window
) -> tuple[Any, dict[str, Values]]:
    """The chart, and its data."""
    alt = altair()
    labels = Labels({number: [one.label()] for number, one in enumerate(ribbons)}, 40)
    pixel = window.seconds / WIDTH
    values: Values = []
    silent: Values = []
    unnamed = {trace for one in ribbons for trace, _, _ in one.owners if trace not in owners}
    others = f"one of {len(unnamed)} other members" if len(unnamed) > 1 else "another member"
    for number, ribbon in enumerate(ribbons):
        row = labels[number]
        for trace, began, ended in ribbon.owners:
            owner = owners.get(trace, others)
            name = owners.get(trace, "other")
            if ended - began >= pixel / 2:
                values.append(
                    {
                        "a": milliseconds(began),
                        "b": milliseconds(ended),
                        "row": row,
                        "owner": owner,
                        "name": name if (ended - began) / pixel > 7.0 * len(name) + 6 else "",
                        "say": f"{row}: {owner} owned it for {lasting(began, ended)}.",
                    }
                )
        silent += [
            {"a": milliseconds(began), "b": milliseconds(ended), "row": row, "say": say,
             "what": NOBODY}
            for began, ended, say in _merged(ribbon, pixel)
        ]  # fmt: skip
    values, silent = _longest(values), _longest(silent)
    order = [labels[number] for number in range(len(ribbons))]
    told = {value["owner"] for value in values}
    named = [owner for owner in owners.values() if owner in told]
    # First in the legend, which is cut if it is long.
    painted = {others: colours.OTHERS} if others in told else {}
    few = len(colours.OWNERS)
    painted |= {owner: colours.OWNERS[number % few] for number, owner in enumerate(named)}
    title = "owner of a partition"
    if len(named) > few:
        title += f" ({few} colours for {len(named)} members: go by the names)"
    for value in values:
        value["ink"] = colours.on(painted[value["owner"]])
    step = 20 if len(order) <= 30 else 16
    tall = step * 0.8
    x, x2 = time_axis(window), alt.X2("b:T")
    y = alt.Y(
        "row:N",
        scale=alt.Scale(domain=order, paddingInner=0.2, paddingOuter=0.2),
        axis=alt.Axis(title=None, ticks=False, domain=False, minExtent=LABELS, maxExtent=LABELS),
    )
    legend = colour("owner", painted, title, orient="top", columns=7, symbolType="square")
    base = alt.Chart(alt.NamedData(name="owned"))
    ribbon_marks = base.mark_bar(stroke=colours.GROUND, strokeWidth=0.6).encode(
        x=x, x2=x2, y=y, color=legend, tooltip=say()
    )
    names = (
        base.transform_filter("datum.name != ''")
        .mark_text(align="left", dx=4, dy=-0.12 * tall, fontSize=min(10, 0.72 * tall))
        .encode(x=x, y=y, text="name:N", color=alt.Color("ink:N", scale=None))
    )
    pauses = (
        alt.Chart(alt.NamedData(name="silences"))
        .mark_bar(height=tall * 0.3, yOffset=tall * 0.33, stroke=colours.GROUND, strokeWidth=0.8)
        .encode(
            x=x,
            x2=x2,
            y=y,
            tooltip=say(),
            fill=alt.Fill(
                "what:N",
                scale=alt.Scale(domain=[NOBODY], range=[colours.SILENT]),
                legend=alt.Legend(title=None, orient="top", symbolType="square"),
            ),
        )
    )
    chart = alt.layer(ribbon_marks, pauses, names).properties(
        width=WIDTH, height=max(1, len(order)) * step
    )
    return chart, {"owned": values, "silences": silent}


def _merged(ribbon: Ribbon, least: float) -> list[tuple[float, float, str]]:
    """The times in which nothing of one of its partitions was delivered."""
    merged: list[tuple[float, float, list[tuple[float, str]]]] = []
    for began, ended, sentence in sorted(ribbon.silences):
        if merged and began <= merged[-1][1] + (least if len(ribbon.partitions) > 1 else 0.0):
            first, last, told = merged[-1]
            told.append((ended - began, sentence))
            merged[-1] = first, max(last, ended), told
        else:
            merged.append((began, ended, [(ended - began, sentence)]))
    found = []
    for began, ended, told in merged:
        longest, sentence = max(told)
        many = len(ribbon.partitions) > 1 and len(told) > 1
        of = f"The longest of {len(told)} pauses ({seconds(longest * 1000)}): " if many else ""
        found.append((began, ended, f"{of}{sentence}"))
    return found


def _longest(values: Values) -> Values:
    if len(values) <= MARKS:
        return values
    longest = sorted(range(len(values)), key=lambda at: values[at]["a"] - values[at]["b"])[:MARKS]
    return [values[at] for at in sorted(longest)]
