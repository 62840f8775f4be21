"""Who owned each partition, over time, and when nothing of it was delivered."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
#: The same of a row of several partitions: from so many of them, and how thick the line is, as a
#: share of the row.
_MOST: Final = "nothing from half of a row's partitions or more"
_FEW: Final = "nothing from fewer of them"
_THICK: Final = {NOBODY: 0.3, _MOST: 0.17, _FEW: 0.07}


@dataclass(slots=True)
class Ribbon:
    """What is known of one partition, or of several that had the same owners."""

    partitions: list[str]
    #: (trace, since, until)
    owners: list[tuple[str, float, float]] = field(default_factory=list)
    #: (since, until, the sentence, the partition); they may overlap.
    silences: list[tuple[float, float, str, str]] = field(default_factory=list)

    @property
    def silent(self) -> float:
        """How long nothing was delivered, in seconds of all partitions together."""
        return sum(ended - began for began, ended, *_ in self.silences)

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
            cut = window.cut(began, resumed)
            ribbon_of.silences.append((*cut, visible(say), gap.partition))
    for silence in silences:
        ribbon_of = found.get(silence.partition)
        ended = window.ended if silence.ended is None else silence.ended
        if ribbon_of is not None and window.meets(silence.began, ended):
            cut = window.cut(silence.began, ended)
            ribbon_of.silences.append((*cut, visible(silence.sentence), silence.partition))
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
    moment = max(pixel, window.seconds * len(ribbons) / MARKS)
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
        many = len(ribbon.partitions)
        silent += [
            {"a": milliseconds(one.began), "b": milliseconds(one.ended), "row": row,
             "say": one.say(many), "what": one.what(many)}
            for one in _pauses(ribbon, moment)
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
    thick = _THICK if any(len(one.partitions) > 1 for one in ribbons) else {NOBODY: _THICK[NOBODY]}
    # Beside the legend of the lines, which is wider if some rows are of several partitions.
    columns = 7 if len(thick) == 1 else 6
    legend = colour("owner", painted, title, orient="top", columns=columns, symbolType="square")
    base = alt.Chart(alt.NamedData(name="owned"))
    ribbon_marks = base.mark_bar(stroke=colours.GROUND, strokeWidth=0.6).encode(
        x=x, x2=x2, y=y, color=legend, tooltip=say()
    )
    names = (
        base.transform_filter("datum.name != ''")
        .mark_text(align="left", dx=4, dy=-0.12 * tall, fontSize=min(10, 0.72 * tall))
        .encode(x=x, y=y, text="name:N", color=alt.Color("ink:N", scale=None))
    )
    for value in silent:
        value["edge"] = tall * _THICK[value["what"]] + 1.6
    pauses = alt.Chart(alt.NamedData(name="silences")).encode(x=x, x2=x2, y=y, tooltip=say())
    edges = pauses.mark_rule(yOffset=tall * 0.33, stroke=colours.GROUND).encode(
        strokeWidth=alt.StrokeWidth("edge:Q", scale=None)
    )
    lines = pauses.mark_rule(yOffset=tall * 0.33, stroke=colours.SILENT).encode(
        strokeWidth=alt.StrokeWidth(
            "what:N",
            scale=alt.Scale(
                type="ordinal",
                domain=list(thick),
                range=[tall * one for one in thick.values()],
            ),
            legend=alt.Legend(
                title=None,
                orient="top",
                columns=1,
                labelLimit=0,
                symbolType="stroke",
                symbolStrokeColor=colours.SILENT,
            ),
        )
    )
    chart = alt.layer(ribbon_marks, edges, lines, names).properties(
        width=WIDTH, height=max(1, len(order)) * step
    )
    return chart, {"owned": values, "silences": silent}


@dataclass(slots=True)
class _Pause:
    """A time in which nothing of some of a ribbon's partitions was delivered."""

    began: float
    ended: float
    #: How many partitions: at least, at most, and in the mean.
    least: int
    most: int
    mean: float
    #: The longest of their silences, and its sentence.
    longest: tuple[float, str]

    def what(self, partitions: int) -> str:
        """As the legend has it."""
        if self.least == partitions:
            return NOBODY
        return _MOST if self.mean >= partitions / 2 else _FEW

    def say(self, partitions: int) -> str:
        """What is to be said of it."""
        lasted, sentence = self.longest
        if partitions == 1:
            return sentence
        many = f"{self.least} to {self.most}" if self.least < self.most else f"{self.most}"
        return (
            f"Nothing from {many} of these {partitions} partitions. The longest of their pauses"
            f" ({seconds(lasted * 1000)}): {sentence}"
        )

    def add(self, other: _Pause) -> None:
        """The next one, after less than a moment or none, is told with it."""
        both = self.mean * (self.ended - self.began) + other.mean * (other.ended - other.began)
        least = self.least if self.ended == other.began else 0
        self.least, self.most = min(least, other.least), max(self.most, other.most)
        self.ended, self.mean = other.ended, both / (other.ended - self.began)
        self.longest = max(self.longest, other.longest)


def _pauses(ribbon: Ribbon, moment: float) -> list[_Pause]:
    """The times in which nothing of some of its partitions was delivered. In a row of several a
    `moment` is the shortest time that is drawn."""
    rows = sorted(ribbon.silences)
    ends = sorted((ended, partition) for _, ended, _, partition in rows)
    times = sorted({at for began, ended, *_ in rows for at in (began, ended)})
    many = len(ribbon.partitions)
    moment = moment if many > 1 else 0.0
    silent: Counter[str] = Counter()
    longest: list[tuple[float, float, str]] = []
    begun = over = 0
    found: list[_Pause] = []
    for at, until in pairwise(times):
        while over < len(ends) and ends[over][0] <= at:
            partition = ends[over][1]
            over += 1
            silent[partition] -= 1
            if not silent[partition]:
                del silent[partition]
        while begun < len(rows) and rows[begun][0] <= at:
            began, ended, sentence, partition = rows[begun]
            begun += 1
            silent[partition] += 1
            heapq.heappush(longest, (began - ended, ended, sentence))
        if not silent:
            continue
        while longest[0][1] <= at:
            heapq.heappop(longest)
        told = -longest[0][0], longest[0][2]
        now = len(silent)
        one, last = _Pause(at, until, now, now, now, told), found[-1] if found else None
        if last is not None and (
            (at == last.ended and one.what(many) == last.what(many))
            or (at < last.ended + moment and until < last.began + moment)
        ):
            last.add(one)
        else:
            found.append(one)
    return found


def _longest(values: Values) -> Values:
    if len(values) <= MARKS:
        return values
    longest = sorted(range(len(values)), key=lambda at: values[at]["a"] - values[at]["b"])[:MARKS]
    return [values[at] for at in sorted(longest)]
