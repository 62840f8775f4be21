"""One rebalance, step by step: what each member did, and which step the others waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aktor.trace.pictures import colours
from aktor.trace.pictures.charts import LABELS, WIDTH, Values, altair, colour, say
from aktor.trace.pictures.members import DOING, doing, holding, words
from aktor.trace.pictures.names import Labels, short
from aktor.trace.pictures.partitions import NOBODY, in_order
from aktor.trace.pictures.times import clock, day, lasting
from aktor.trace.plain import visible
from aktor.trace.rebalances.holds import called, seconds
from aktor.trace.rebalances.parts import Name
from aktor.trace.rebalances.rows import Downtime, MemberPart, Rebalance, Span
from aktor.trace.rebalances.spans import STATE

__all__ = ["waterfall_chart"]

#: Rows that are drawn: the longest steps, and the longest pauses of partitions.
STEPS: Final = 40
PAUSES: Final = 12

#: Members whose part has a row.
MEMBERS: Final = 15

_PART: Final = "its part in the rebalance"
#: What happened longer before or after it is cut off there, in seconds.
NEAR: Final = 60.0

_SHORT: Final = {"poll": "no poll", "coordinator": "coordinator away"}


@dataclass(frozen=True, slots=True)
class _Step:
    """A bar."""

    name: str
    what: str
    began: float
    ended: float
    say: str
    held: bool = False

    def values(self, row: Rebalance, label: str) -> dict[str, Any]:
        """As the chart has it."""
        took = seconds((self.ended - self.began) * 1000)
        return {
            "a": max(self.began - row.began, -NEAR),
            "b": min(self.ended, row.ended + NEAR) - row.began,
            "row": label,
            "what": self.what,
            "held": self.held,
            "label": f"{took}  ◀ held the rebalance" if self.held else took,
            "say": visible(self.say),
        }


def waterfall_chart(
    row: Rebalance,
    parts: Sequence[MemberPart],
    spans: Sequence[Span],
    downtimes: Sequence[Downtime],
) -> tuple[Any, dict[str, Values], list[str]]:
    """The chart, its data, and what it leaves out, in sentences."""
    alt = altair()
    mine = _members(row, parts)
    alike = Counter(consumer for consumer, _ in mine)
    names = {
        name: short(called(name) if alike[name[0]] > 1 else name[0] or "a member", 20)
        for name in mine
    }
    steps, members = _steps(row, mine, names, spans)
    pauses, partitions = _pauses(row, names, downtimes)
    steps += pauses
    left_out = []
    if members:
        left_out.append(f"{members} more members have a part in it, and are left out.")
    if partitions:
        left_out.append(
            f"{partitions} more partitions moved, and were silent no longer than these."
        )
    labels = Labels(
        {at: [one.name, f"{one.name} {clock(one.began)}"] for at, one in enumerate(steps)}, 40
    )
    values = [one.values(row, labels[at]) for at, one in enumerate(steps)]
    order = list(labels.values())
    least = min([0.0, *(value["a"] for value in values)])
    most = max([row.duration_ms / 1000, *(value["b"] for value in values), 0.001])
    room = (most - least) * 0.12
    # Below a second the unit is the millisecond.
    unit, factor = ("s", 1.0) if most - least >= 1.0 else ("ms", 1000.0)
    for value in values:
        value.update({key: round(value[key] * factor, 4) for key in ("a", "b")})
    title = f"{unit} since it began: {day(row.began)} {clock(row.began)} UTC"
    x = alt.X(
        "a:Q",
        scale=alt.Scale(domain=[least * factor, (most + 2.2 * room) * factor], nice=False),
        axis=alt.Axis(title=title, tickCount=9),
    )
    y = alt.Y(
        "row:N",
        scale=alt.Scale(domain=order, paddingInner=0.25, paddingOuter=0.2),
        axis=alt.Axis(title=None, ticks=False, domain=False, minExtent=LABELS, maxExtent=LABELS),
    )
    told = {value["what"] for value in values}
    painted = {
        what: hue
        for what, hue in ((_PART, colours.ABSENT), *DOING.items(), (NOBODY, colours.SILENT))
        if what in told
    }
    base = alt.Chart(alt.NamedData(name="steps"))
    bars = base.mark_bar(strokeWidth=0.8, minBandSize=2).encode(
        x=x,
        x2="b:Q",
        y=y,
        color=colour("what", painted, "a step", orient="top", columns=4, symbolType="square"),
        stroke=alt.condition("datum.held", alt.value(colours.HELD), alt.value(colours.BORDER)),
        strokeWidth=alt.condition("datum.held", alt.value(2.4), alt.value(0.6)),
        tooltip=say(),
    )
    # The dashed line of the end does not go through them.
    lengths = base.mark_text(
        align="left", dx=5, fontSize=11, color=colours.INK, stroke=colours.GROUND, strokeWidth=4
    ).encode(x="b:Q", y=y, text="label:N", tooltip=say())
    end = (
        alt.Chart(alt.NamedData(name="ends"))
        .mark_rule(color=colours.BORDER, strokeDash=[3, 3])
        .encode(x="a:Q", tooltip=say())
    )
    ends = [
        {"a": 0.0, "say": visible(f"It begins. {row.sentence}")},
        {"a": round(row.duration_ms / 1000 * factor, 4), "say": "All members have their part."},
    ]
    chart = alt.layer(end, bars, lengths).properties(width=WIDTH, height=max(1, len(order)) * 19)
    return chart, {"steps": values, "ends": ends}, left_out


def _members(row: Rebalance, parts: Sequence[MemberPart]) -> dict[Name, MemberPart | None]:
    """The members in the order in which they came to it, each with its part; and first those that
    began it, or held it, without one."""
    mine: dict[Name, MemberPart | None] = {}
    for part in sorted(parts, key=lambda one: (one.began, one.consumer or "")):
        mine.setdefault((part.consumer, part.host), part)
    told = {(row.held_by, row.held_by_host), (row.initiator, row.initiator_host)} - {(None, None)}
    for name in sorted(told, key=str):
        mine.setdefault(name, None)
    return dict(sorted(mine.items(), key=lambda item: item[0] not in told))


def _steps(
    row: Rebalance,
    mine: Mapping[Name, MemberPart | None],
    names: Mapping[Name, str],
    spans: Sequence[Span],
) -> tuple[list[_Step], int]:
    """Member by member: its part, and what it did in it; and how many members are left out."""
    held = set(map(id, holding(row, spans)))
    inside = [
        span
        for span in spans
        if span.began < row.ended
        and span.ended > row.began
        and not (span.kind == STATE and span.what == "stable")
    ]
    kept = set(
        map(id, sorted(inside, key=lambda one: (id(one) not in held, -one.duration_ms))[:STEPS])
    )
    steps: list[_Step] = []
    for name, its_part in list(mine.items())[:MEMBERS]:
        its = [one for one in inside if (one.consumer, one.host) == name and id(one) in kept]
        if its_part is not None:
            took = lasting(its_part.began, its_part.ended)
            say = f"{called(name)}: its part took {took}: {its_part.outcome}."
            label = f"{names[name]}: its part"
            steps.append(_Step(label, _PART, its_part.began, its_part.ended, say))
        for span in sorted(its, key=lambda one: (one.began, -one.ended)):
            say = f"{words(span)}: {lasting(span.began, span.ended)}."
            label = f"{names[name]}: {_SHORT.get(span.what, span.what.replace('_', ' '))}"
            steps.append(_Step(label, doing(span), span.began, span.ended, say, id(span) in held))
    return steps, max(0, len(mine) - MEMBERS)


def _pauses(
    row: Rebalance, names: Mapping[Name, str], downtimes: Sequence[Downtime]
) -> tuple[list[_Step], int]:
    """The partitions that got another owner in it, those that were silent longest; and how many are
    left out."""
    steps = []
    for gap in sorted(downtimes, key=lambda one: in_order(one.partition)):
        began, ended = gap.last_delivered, gap.first_delivered
        inside = row.began - 1.0 <= gap.assigned <= row.ended + 1.0
        if inside and gap.moved and began is not None and ended is not None and gap.downtime_ms:
            topic, _, number = gap.partition.rpartition("-")
            before = called((gap.from_consumer, gap.from_host))
            after = called((gap.to_consumer, gap.to_host))
            say = (
                f"{gap.partition}: nothing is delivered for {lasting(began, ended)}, on its way"
                f" from {before} to {after}."
            )
            to = names.get((gap.to_consumer, gap.to_host)) or short(gap.to_consumer or "?", 20)
            name = f"{short(topic, 14)}-{number} to {to}"
            steps.append(_Step(name, NOBODY, began, ended, say))
    longest = sorted(steps, key=lambda one: one.began - one.ended)[:PAUSES]
    return sorted(longest, key=lambda one: one.began), len(steps) - len(longest)
