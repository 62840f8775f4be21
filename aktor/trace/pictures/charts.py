"""What all pictures have in common: the axis of time, the legends, the fonts."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aktor.trace.pictures import colours
from aktor.trace.pictures.names import wrapped
from aktor.trace.pictures.times import Window, day, milliseconds

__all__ = ["WIDTH", "MissingError", "Picture", "altair", "colour", "say", "time_axis", "vl_convert"]
__all__ += ["Values"]

#: Pixels of the part in which marks are.
WIDTH: Final = 860

#: Room for the labels on the left: the same in all charts that share an axis.
LABELS: Final = 228

#: An axis of more seconds has no seconds.
_HOURS: Final = 4 * 3600.0

#: Characters that have two places in a text of JavaScript (emoji, mostly). Vega cuts a label to its
#: room, also between the two, and then no SVG can be made of it.
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")

#: The browser that shows an SVG has another font than the one with which the places of its texts
#: were computed: DejaVu Sans and Verdana are wider by a sixth. So all texts are laid out as if they
#: were so much larger than they are. (A page is laid out by the browser that shows it.)
ROOM: Final = 1.17
_FONT_SIZE: Final = re.compile('font-size="([0-9.]+)px"')

#: The rows of a data set.
Values = list[dict[str, Any]]

_CONFIG: Final[dict[str, Any]] = {
    "background": colours.GROUND,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": colours.INK,
        "titleColor": colours.INK,
        "titleFontWeight": "normal",
        "domainColor": colours.BORDER,
        "tickColor": colours.BORDER,
        "gridColor": colours.FAINT,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "labelLimit": LABELS - 8,
        "labelPadding": 6,
        "labelSeparation": 10,
    },
    "legend": {
        "labelColor": colours.INK,
        "titleColor": colours.INK,
        "titleFontWeight": "bold",
        "labelLimit": 220,
        "titleLimit": 400,
        "symbolLimit": 24,
        "symbolStrokeColor": colours.BORDER,
        "labelFontSize": 11,
        "titleFontSize": 11,
    },
    "title": {
        "color": colours.INK,
        "subtitleColor": colours.INK,
        "anchor": "start",
        "fontSize": 14,
        "subtitleFontSize": 12,
        "subtitlePadding": 6,
        "frame": "bounds",
        "offset": 12,
    },
    "text": {"color": colours.INK},
}


class MissingError(ModuleNotFoundError):
    """Altair or vl-convert is not installed."""


def altair() -> Any:
    """Vega-Altair. Raises MissingError without it."""
    return _import("altair")


def vl_convert() -> Any:
    """What draws SVG, and has Vega in it. Raises MissingError without it."""
    return _import("vl_convert")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingError("pictures need Vega-Altair: pip install 'aktor[pictures]'") from None


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart with its data."""

    #: What it shows, in a word; and for people.
    name: str
    title: str
    #: What there is to be read without it.
    lines: Sequence[str]
    chart: Any
    data: dict[str, Values] = field(default_factory=dict)

    def spec(self, *, titled: bool) -> dict[str, Any]:
        """As Vega-Lite has it. `titled`: with the title, and the lines below it."""
        chart = self.chart
        if titled:
            lines = [part for line in self.lines for part in wrapped(line, 165, 4)]
            title = altair().TitleParams(wrapped(self.title, 100, 1), subtitle=lines)
            chart = chart.properties(title=title)
        spec: dict[str, Any] = chart.to_dict()
        # Altair would check each value of the data, and gives a chart of several a theme's size.
        return {**spec, "config": _CONFIG, "datasets": self.data}

    def svg(self) -> str:
        """A picture of its own, in light and in dark colours."""
        titled = self.spec(titled=True)
        titled |= {part: _scaled(titled[part]) for part in titled if part != "datasets"}
        spec = json.dumps(titled, ensure_ascii=False)
        drawn: str = vl_convert().vegalite_to_svg(_ASTRAL.sub("□", spec))
        drawn = _FONT_SIZE.sub(lambda size: f'font-size="{float(size[1]) / ROOM:g}px"', drawn)
        head, _, rest = drawn.partition(">")
        head = head.replace('class="marks"', 'class="aktor"')
        return f"{head}><style>{colours.style()}</style>{rest}\n"


def _scaled(part: Any) -> Any:
    """A part of a picture, with all its texts `ROOM` times as large."""
    if isinstance(part, list):
        return [_scaled(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: one * ROOM if key.lower().endswith("fontsize") else _scaled(one)
        for key, one in part.items()
    }


def time_axis(window: Window) -> Any:
    """The axis of time, with the day and the zone."""
    alt = altair()
    days = {day(window.began): None, day(window.ended): None}
    minutes = "%H:%M" if window.seconds > _HOURS else "%H:%M:%S"
    return alt.X(
        "a:T",
        scale=alt.Scale(
            type="utc",
            domain=[milliseconds(window.began), milliseconds(window.ended)],
            nice=False,
        ),
        axis=alt.Axis(
            title=f"time (UTC), {' to '.join(days)}",
            grid=True,
            labelOverlap=True,
            labelFlush=False,
            tickCount=9,
            format={
                "year": "%Y-%m-%d",
                "month": "%Y-%m-%d",
                "date": "%m-%d %H:%M" if window.seconds > _HOURS else "%H:%M:%S",
                "hours": minutes,
                "minutes": minutes,
                "seconds": "%H:%M:%S",
                "milliseconds": "%H:%M:%S.%L",
            },
        ),
    )


def colour(field: str, of: dict[str, str], title: str, **legend: Any) -> Any:
    """These values in these colours, with a legend."""
    alt = altair()
    scale = alt.Scale(domain=list(of), range=list(of.values()))
    # An empty legend makes the picture endless.
    shown = alt.Legend(title=title, **legend) if of else None
    return alt.Color(f"{field}:N", scale=scale, legend=shown)


def say() -> Any:
    """The sentence, when the mouse is over a mark."""
    return altair().Tooltip("say:N")
