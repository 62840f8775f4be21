"""How many rebalances there were in each hour, and what caused them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aktor.trace.pictures import colours
from aktor.trace.pictures.charts import LABELS, WIDTH, Values, altair, colour, say, time_axis
from aktor.trace.pictures.times import Window, milliseconds, moment
from aktor.trace.plain import visible
from aktor.trace.rebalances.rows import Rebalance

__all__ = ["Count", "causes_chart", "counted", "step_of"]

#: Bars are as wide as one of these, in seconds, and there are at most so many.
STEPS: Final = {
    10: "10 seconds", 60: "minute", 600: "10 minutes", 3600: "hour", 6 * 3600: "6 hours",
    86400: "day", 7 * 86400: "week", 28 * 86400: "4 weeks",
}  # fmt: skip
BARS: Final = 200

#: There is room for so many, at least.
FEWEST: Final = 11

#: Between two numbers at the axis.
_TICKS: Final = [step * 10**power for power in range(12) for step in (1, 2, 5)]
_LABELS: Final = 50

#: An hour is a bar if there are at least so many of them.
HOURS: Final = 6
HOUR: Final = 3600

#: Causes with a colour of their own; the rest is "other".
CAUSES: Final = len(colours.SERIES) - 1


@dataclass(slots=True)
class Count:
    """Rebalances of one cause that began in one bar, and what some of them say."""

    began: float
    cause: str
    rebalances: int = 0
    sentences: list[str] = field(default_factory=list)


def step_of(window: Window) -> int:
    """How many seconds a bar has."""
    fitting = [step for step in STEPS if window.seconds / step <= BARS] or [max(STEPS)]
    below = [step for step in fitting if step < HOUR and window.seconds < HOURS * HOUR]
    finer = [step for step in below if window.seconds < HOURS * 10 * step]
    return min(finer or below[-1:] or [step for step in fitting if step >= HOUR])


def counted(rebalances: Iterable[Rebalance], step: int) -> list[Count]:
    """The rebalances by their bar and their cause."""
    found: dict[tuple[float, str], Count] = {}
    for row in rebalances:
        began = row.began // step * step
        count = found.setdefault((began, row.trigger), Count(began, row.trigger))
        count.rebalances += 1
        if len(count.sentences) < 3:
            count.sentences.append(row.sentence)
    return list(found.values())


def causes_chart(counts: Sequence[Count], step: int) -> tuple[Any, dict[str, Values]]:
    """The chart, and its data."""
    alt = altair()
    totals = Counter[str]()
    for count in counts:
        totals[count.cause] += count.rebalances
    causes = [cause for cause, _ in totals.most_common()]
    painted = {
        cause.replace("_", " "): colours.SERIES[number]
        for number, cause in enumerate(causes[:CAUSES])
    }
    if len(causes) > CAUSES:
        painted["other"] = colours.SERIES[-1]
    bars: defaultdict[float, list[Count]] = defaultdict(list)
    for count in sorted(counts, key=lambda one: causes.index(one.cause)):
        bars[count.began].append(count)
    values: Values = []
    for began, of_bar in sorted(bars.items()):
        height = 0
        for count in of_bar:
            cause = count.cause.replace("_", " ")
            times = f"{moment(began):%Y-%m-%d %H:%M:%S} to {moment(began + step):%H:%M:%S} UTC"
            some = "".join(f"\n{visible(sentence)[:300]}" for sentence in count.sentences)
            values.append(
                {
                    "a": milliseconds(began),
                    "b": milliseconds(began + step),
                    "low": height,
                    "high": height + count.rebalances,
                    "cause": cause if cause in painted else "other",
                    "say": f"{times}: {count.rebalances} by {cause}.{some}",
                }
            )
            height += count.rebalances
    first, last = min(bars, default=0.0), max(bars, default=0.0)
    window = Window(first, max(last, first + FEWEST * step) + step)
    highest = max((value["high"] for value in values), default=1)
    between = next(one for one in _TICKS if highest / one <= 6)
    y = alt.Y(
        "low:Q",
        scale=alt.Scale(domain=[0, highest]),
        axis=alt.Axis(
            title=f"rebalances per {STEPS[step]}",
            values=[*range(0, highest + 1, between)],
            format=",d",
            minExtent=_LABELS,
            maxExtent=_LABELS,
        ),
    )
    chart = (
        alt.Chart(alt.NamedData(name="counts"))
        .mark_bar(stroke=colours.GROUND, strokeWidth=0.7)
        .encode(
            x=time_axis(window),
            x2="b:T",
            y=y,
            y2="high:Q",
            color=colour("cause", painted, "cause (from the bottom to the top of a bar)",
                         orient="top", columns=6, symbolType="square"),
            tooltip=say(),
        )
        .properties(width=WIDTH + LABELS - _LABELS, height=150)
    )  # fmt: skip
    return chart, {"counts": values}
