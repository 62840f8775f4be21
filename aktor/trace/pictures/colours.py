"""The colours of the pictures: for a light ground and a dark one, for the colour-blind, and in
print.

They are those of Okabe and Ito ("Color Universal Design", 2008), which people with any kind of
colour blindness can tell apart. What has to be told apart without colours, too, has a form of its
own: silence is a thin line, a callback a box with a border, and ribbons have their owner's name.

A picture is drawn in the colours for a light ground. A style sheet in it replaces each of them on a
screen that prefers dark ones; paper has the light ones.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ABSENT", "AWAY", "BORDER", "CALLBACK", "CHANGING", "COORDINATOR", "FAINT", "GROUND"]
__all__ += ["HELD", "INK", "JOINING", "LEFT", "OTHERS", "OWNERS", "PAIRS", "SERIES", "SILENT"]
__all__ += ["STABLE", "WAITING", "on", "style"]

GROUND: Final = "#ffffff"
#: Of letters on a ribbon, which are the same on every ground.
BLACK: Final = "#010101"
WHITE: Final = "#fefefe"
INK: Final = "#24292f"
FAINT: Final = "#d9dee3"
BORDER: Final = "#57606a"

#: A member's states.
STABLE: Final = "#c9d1d9"
JOINING: Final = "#56b4e8"
CHANGING: Final = "#0072b1"
LEFT: Final = "#f6f8fa"
CALLBACK: Final = "#e69f01"
WAITING: Final = "#f0e441"
COORDINATOR: Final = "#cc79a6"
AWAY: Final = "#fde0d0"
ABSENT: Final = "#eaeef2"
HELD: Final = "#d55e01"

#: Nothing of a partition is delivered.
SILENT: Final = "#000000"

#: Owners of partitions, one after the other: neighbours differ in lightness, too.
OWNERS: Final = (
    *("#0072b2", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#56b4e9", "#d55e00"),
    *("#7a4a00", "#a7adb3", "#005e44", "#f2cf7f", "#8f5575", "#aadaf4", "#003a5c"),
    *("#eaae80", "#57606b", "#7fcfb9", "#a89f2e", "#e5bcd3", "#9c8ad0", "#c6e6b5"),
)

#: Owners that have no row and no colour of their own.
OTHERS: Final = "#d0d7de"

#: Causes of rebalances, one after the other.
SERIES: Final = (
    *("#0072b3", "#f0e443", "#d55e02", "#56b4ea", "#009e74", "#e69f02", "#cc79a8", "#6e7781"),
)

#: Each colour, and the one that takes its place on a dark ground. (Two uses of a colour differ in
#: their last digit if they become different ones there.)
PAIRS: Final = {
    GROUND: "#0d1117",
    INK: "#e6edf3",
    FAINT: "#30363d",
    BORDER: "#9da7b1",
    STABLE: "#484f58",
    LEFT: "#161b22",
    AWAY: "#4a2412",
    ABSENT: "#21262d",
    SILENT: "#fffffe",
    CHANGING: "#2f8fd0",
    "#0072b2": "#2f8fd0",
    "#0072b3": "#2f8fd0",
    JOINING: "#7cc8f2",
    "#56b4e9": "#8ad0f7",
    "#56b4ea": "#8ad0f7",
    "#003a5c": "#27628a",
    "#005e44": "#1d7d61",
    "#7a4a00": "#97631a",
    "#6e7781": "#8b949e",
}


def on(ground: str) -> str:
    """The letters that can be read on this colour."""
    red, green, blue = (int(ground[at : at + 2], 16) for at in (1, 3, 5))
    return BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 125 else WHITE


def style(pictures: str = "svg.aktor") -> str:
    """The style sheet for the pictures that this selector finds: the dark colours; and letters that
    have an edge in the colour of the ground, by which no line goes through them, stand on it."""
    rules = [
        f"{pictures} [{what}='{light}']{{{what}:{dark}}}"
        for light, dark in PAIRS.items()
        for what in ("fill", "stroke")
    ]
    edges = f"{pictures} text{{paint-order:stroke}}"
    return f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}{edges}"
