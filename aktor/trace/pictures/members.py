"""What each member of a group did, over time; and whom each rebalance waited for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aktor.trace.pictures import colours
from aktor.trace.pictures.charts import LABELS, WIDTH, Values, altair, colour, say, time_axis
from aktor.trace.pictures.names import Labels
from aktor.trace.pictures.times import Window, clock, lasting, milliseconds
from aktor.trace.plain import visible
from aktor.trace.rebalances.holds import LEAST, SESSION, SHARE, called
from aktor.trace.rebalances.parts import PHASES, Name
from aktor.trace.rebalances.rows import OwnedPartition, Rebalance, Silence, Span
from aktor.trace.rebalances.spans import AWAY, CALLBACK, STATE, WAIT

__all__ = ["DOING", "Lanes", "doing", "holding", "members_chart", "words"]

#: Lanes and marks that are drawn; of more the ones that matter most.
LANES: Final = 40
SPANS: Final = 6000
PATHS: Final = 40

#: What a member does, as the legend has it.
DOING: Final = {
    "stable": colours.STABLE,
    "joining": colours.JOINING,
    "taking or giving up partitions": colours.CHANGING,
    "callback of its listener": colours.CALLBACK,
    "waits for its application": colours.WAITING,
    "waits for the coordinator": colours.COORDINATOR,
    "away: taken out of the group": colours.AWAY,
    "not in the group": colours.LEFT,
}
_SILENT: Final = "given nothing from a partition"
_HELD: Final = "whom a rebalance waited for"

_JOINING: Final = {"prepare", "join", "sync"}

#: What it waited for, in words.
_WAITS: Final = {
    "poll": "its application did not poll",
    "commit": "a commit before a revocation",
    "coordinator": "the coordinator was away",
}


def doing(span: Span) -> str:
    """What a member does in this span, as in `DOING`."""
    if span.kind == CALLBACK:
        return "callback of its listener"
    if span.kind == AWAY:
        return "away: taken out of the group"
    if span.kind == WAIT:
        coordinator = span.what == "coordinator"
        return f"waits for {'the coordinator' if coordinator else 'its application'}"
    if span.what == "stable":
        return span.what
    phase = PHASES.get(span.what)
    if phase is None:
        return "not in the group"
    return "joining" if phase in _JOINING else "taking or giving up partitions"


def words(span: Span) -> str:
    """A span, for people."""
    what = {
        STATE: span.what,
        CALLBACK: f"its listener's {span.what.replace('_', ' ')}",
        WAIT: _WAITS.get(span.what, span.what),
        AWAY: "nothing in its trace",
    }[span.kind]
    told = f"{called((span.consumer, span.host))}: {what}"
    return visible(f"{told} ({span.because})" if span.because else told)


def holding(rebalance: Rebalance, spans: Iterable[Span]) -> list[Span]:
    """What the rebalance waited for: the spans that its sentence tells."""
    least = max(LEAST, SHARE * rebalance.duration_ms)
    kinds = (AWAY,) if rebalance.held_in == SESSION else (CALLBACK, WAIT)
    found = [
        span
        for span in spans
        if (span.consumer, span.host) == (rebalance.held_by, rebalance.held_by_host)
        and span.kind in kinds
        and span.began < rebalance.ended
        and span.ended > rebalance.began
        and (span.what == "coordinator") == (rebalance.held_in == "coordinator")
        and span.duration_ms >= least
    ]
    return found if rebalance.held_in is not None else []


@dataclass(frozen=True, slots=True)
class Lanes:
    """The members that have a lane, in the order in which they came, with their labels."""

    labels: Labels
    others: int
    #: Of each name those that have a lane, and from when to when each of them told something.
    _named: Mapping[Name, Mapping[str, tuple[float, float]]]

    @classmethod
    def of(
        cls, spans: Iterable[Span], owned: Iterable[OwnedPartition], first: Iterable[Rebalance]
    ) -> Lanes:
        """Those of these rows. If there are too many, those that held or began a rebalance."""
        came: dict[str, Name] = {}
        told: dict[str, tuple[float, float]] = {}
        busy: defaultdict[str, float] = defaultdict(float)
        for span in sorted(spans, key=lambda one: (one.began, one.trace)):
            came.setdefault(span.trace, (span.consumer, span.host))
            began, ended = told.get(span.trace, (span.began, span.ended))
            told[span.trace] = began, max(ended, span.ended)
            busy[span.trace] += span.duration_ms * (span.what not in ("stable", "unjoined"))
        for row in owned:
            came.setdefault(row.trace, (row.consumer, row.host))
        mattered = {(one.held_by, one.held_by_host) for one in first}
        mattered |= {(one.initiator, one.initiator_host) for one in first}
        chosen = sorted(came, key=lambda one: (came[one] in mattered, busy[one]), reverse=True)[
            :LANES
        ]
        kept = [trace for trace in came if trace in set(chosen)]
        named: dict[Hashable, list[str]] = {
            trace: [came[trace][0] or "a member", called(came[trace])] for trace in kept
        }
        found: defaultdict[Name, dict[str, tuple[float, float]]] = defaultdict(dict)
        for trace in kept:
            if trace in told:
                found[came[trace]][trace] = told[trace]
        return cls(Labels(named), len(came) - len(kept), found)

    def find(self, name: Name, at: float) -> str:
        """The lane of the member of this name that told something near that time; "" if none."""
        told = self._named.get(name, {})
        near = {trace: max(began - at, at - ended) for trace, (began, ended) in told.items()}
        return self.labels[min(near, key=near.__getitem__)] if near else ""

    def initiator(self, row: Rebalance) -> str:
        """The lane of the member that began the rebalance; "" if no trace says who that was."""
        name = row.initiator, row.initiator_host
        return "" if row.initiator is None else self.find(name, row.began)


def members_chart(
    lanes: Lanes,
    spans: Sequence[Span],
    silences: Sequence[Silence],
    rebalances: Sequence[Rebalance],
    window: Window,
) -> tuple[Any, dict[str, Values]]:
    """The chart, and its data."""
    alt = altair()
    data = {
        "spans": _spans(lanes, spans, window),
        "silent": _silent(lanes, silences, window),
        "held": _held(lanes, spans, rebalances, window),
        "path": _path(lanes, spans, rebalances, window),
        "began": _began(lanes, rebalances, window),
    }
    order = list(lanes.labels.values())
    x, x2 = time_axis(window), alt.X2("b:T")
    y = alt.Y(
        "lane:N",
        scale=alt.Scale(domain=order, paddingInner=0.34, paddingOuter=0.24),
        axis=alt.Axis(title=None, ticks=False, domain=False, minExtent=LABELS, maxExtent=LABELS),
    )
    occur = {value["what"] for value in data["spans"]}
    painted = {what: hue for what, hue in DOING.items() if what in occur}
    legend = colour("what", painted, "a member", orient="top", columns=4, symbolType="square")

    def marks(name: str) -> Any:
        return alt.Chart(alt.NamedData(name=name))

    base = marks("spans")
    states = base.transform_filter("datum.kind == 'state'").mark_bar(
        height=alt.RelativeBandSize(1), stroke=colours.BORDER, strokeWidth=0.4
    )
    away = base.transform_filter("datum.kind == 'away'").mark_bar(
        height=alt.RelativeBandSize(1), stroke=colours.HELD, strokeWidth=1.2, strokeDash=[4, 3]
    )
    others = base.transform_filter("datum.kind == 'callback' || datum.kind == 'wait'").mark_bar(
        height=alt.RelativeBandSize(0.5), stroke=colours.INK, strokeWidth=0.8
    )
    states, away, others = (
        one.encode(x=x, x2=x2, y=y, color=legend, tooltip=say()) for one in (states, away, others)
    )
    #: Drawn with a scale of their own, so that they are in a second legend.
    lines = {
        what: hue
        for what, hue, name in ((_SILENT, colours.SILENT, "silent"), (_HELD, colours.HELD, "held"))
        if data[name]
    }
    # One below the other: beside the states there is no room for both.
    named = alt.Legend(
        title=None, orient="top", columns=1, symbolType="stroke", symbolStrokeWidth=3
    )
    second = alt.Stroke(
        "what:N",
        scale=alt.Scale(domain=list(lines), range=list(lines.values())),
        legend=named if lines else None,  # an empty legend makes the picture endless
    )
    silent = marks("silent").mark_rule(strokeWidth=3.4, yOffset=12.5).encode(
        x=x, x2=x2, y=y, stroke=second, tooltip=say()
    )  # fmt: skip
    held = marks("held").mark_bar(
        height=alt.RelativeBandSize(0.78), filled=False, strokeWidth=2.2
    ).encode(x=x, x2=x2, y=y, stroke=second, tooltip=say())  # fmt: skip
    path = marks("path").mark_line(strokeWidth=1.4, strokeDash=[5, 3], color=colours.HELD).encode(
        x=x, y=y, detail="rebalance:N", order="step:Q"
    )  # fmt: skip
    began = marks("began").mark_point(
        shape="triangle-down", filled=True, size=70, yOffset=-11, color=colours.INK, opacity=1
    ).encode(x=x, y=y, tooltip=say())  # fmt: skip
    chart = alt.layer(states, away, path, others, silent, held, began).properties(
        width=WIDTH, height=max(1, len(order)) * 30
    )
    return chart, data


def _spans(lanes: Lanes, spans: Sequence[Span], window: Window) -> Values:
    inside = [span for span in spans if span.trace in lanes.labels]
    inside = [span for span in inside if window.meets(span.began, span.ended)]
    if len(inside) > SPANS:
        inside = sorted(inside, key=lambda span: -span.duration_ms)[:SPANS]
    values: Values = []
    for span in sorted(inside, key=lambda one: (one.began, one.trace)):
        began, ended = window.cut(span.began, span.ended)
        goes_on = "; its trace ends here" if span.unfinished else ""
        values.append(
            {
                "a": milliseconds(began),
                "b": milliseconds(ended),
                "lane": lanes.labels[span.trace],
                "kind": span.kind,
                "what": doing(span),
                "say": f"{words(span)}: {lasting(span.began, span.ended)}{goes_on}.",
            }
        )
    return values


def _silent(lanes: Lanes, silences: Sequence[Silence], window: Window) -> Values:
    """The times in which a member was given nothing from at least one partition."""
    by_lane: defaultdict[str, list[tuple[float, float, Silence]]] = defaultdict(list)
    for row in silences:
        ended = window.ended if row.ended is None else row.ended
        if not window.meets(row.began, ended):
            continue
        if lane := lanes.find((row.consumer, row.host), row.began):
            by_lane[lane].append((*window.cut(row.began, ended), row))
    values: Values = []
    for lane, rows in by_lane.items():
        merged: list[tuple[float, float, list[Silence]]] = []
        for began, ended, row in sorted(rows, key=lambda one: one[:2]):
            if merged and began <= merged[-1][1]:
                first, last, told = merged[-1]
                told.append(row)
                merged[-1] = first, max(last, ended), told
            else:
                merged.append((began, ended, [row]))
        for began, ended, told in merged[:500]:
            partitions = {row.partition for row in told}
            more = f" (and {len(partitions) - 1} other partitions)" if len(partitions) > 1 else ""
            say = visible(f"{told[0].sentence}{more}")
            values.append({"a": milliseconds(began), "b": milliseconds(ended), "lane": lane,
                           "what": _SILENT, "say": say})  # fmt: skip
    return values


def _told(rebalances: Sequence[Rebalance], window: Window) -> list[Rebalance]:
    """The longest ones in this time."""
    inside = [row for row in rebalances if window.meets(row.began, row.ended)]
    longest = sorted(inside, key=lambda row: -row.duration_ms)[:PATHS]
    return sorted(longest, key=lambda row: row.began)


def _held(
    lanes: Lanes, spans: Sequence[Span], rebalances: Sequence[Rebalance], window: Window
) -> Values:
    values: Values = []
    for row in _told(rebalances, window):
        for span in holding(row, spans):
            if span.trace in lanes.labels:
                began, ended = window.cut(span.began, span.ended)
                values.append({"a": milliseconds(began), "b": milliseconds(ended),
                               "lane": lanes.labels[span.trace], "what": _HELD,
                               "say": visible(row.sentence)})  # fmt: skip
    return values


def _path(
    lanes: Lanes, spans: Sequence[Span], rebalances: Sequence[Rebalance], window: Window
) -> Values:
    """From the member that began a rebalance over those that it waited for to the last one."""
    values: Values = []
    for number, row in enumerate(_told(rebalances, window)):
        held = sorted(holding(row, spans), key=lambda span: span.began)
        if not held:
            continue
        points = [(row.began, lanes.initiator(row))]
        for span in held:
            lane = lanes.labels.get(span.trace, "")
            points += [(max(span.began, row.began), lane), (min(span.ended, row.ended), lane)]
        points.append((row.ended, lanes.find((row.slowest, row.slowest_host), row.ended)))
        values += [
            {"a": milliseconds(at), "lane": lane, "rebalance": str(number), "step": step}
            for step, (at, lane) in enumerate(points)
            if lane and window.began <= at <= window.ended
        ]
    return values


def _began(lanes: Lanes, rebalances: Sequence[Rebalance], window: Window) -> Values:
    """Where rebalances began: on the lane of the member that began it. If no trace says who that
    was, or that member has no lane, there is no mark: on another lane it would blame somebody."""
    values: Values = []
    for row in rebalances:
        lane = lanes.initiator(row)
        if lane and window.began <= row.began <= window.ended and len(values) < 500:
            say = f"{clock(row.began)} UTC, a rebalance begins. {row.sentence}"
            values.append({"a": milliseconds(row.began), "lane": lane, "say": visible(say)})
    return values
