"""The revenue of each shop in each window, as a page with a picture."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from examples.spark_demo.orders import SHOPS

WIDTH, HEIGHT = 900, 320
COLOURS = ("#1f5f8b", "#3b8f7a", "#c9a227", "#c4622d", "#7b4b94")


def page(sums: Mapping[tuple[int, str], int]) -> str:
    """A column for each window, with a part for each shop. `sums`: cents by (begin, shop)."""
    begins = sorted({begin for begin, _ in sums})
    totals = {begin: sum(sums.get((begin, shop), 0) for shop in SHOPS) for begin in begins}
    most = max(totals.values(), default=0) or 1
    step = WIDTH / max(1, len(begins))
    parts = []
    for place, begin in enumerate(begins):
        top = float(HEIGHT)
        for shop, colour in zip(SHOPS, COLOURS, strict=True):
            high = sums.get((begin, shop), 0) / most * HEIGHT
            top -= high
            said = f"{shop}, window {place + 1}: {sums.get((begin, shop), 0) / 100:,.2f} euro"
            parts.append(
                f'<rect x="{place * step:.1f}" y="{top:.1f}" width="{step * 0.85:.1f}"'
                f' height="{high:.1f}" fill="{colour}"><title>{escape(said)}</title></rect>'
            )
    legend = " ".join(
        f'<span style="color:{colour}">&#9632; {escape(shop)}</span>'
        for shop, colour in zip(SHOPS, COLOURS, strict=True)
    )
    return (
        '<!doctype html><meta charset="utf-8"><title>Revenue</title>'
        '<body style="font-family:sans-serif;margin:2em">'
        f"<h1>Revenue by shop, windows of ten seconds</h1><p>{legend}</p>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">{"".join(parts)}</svg>'
        f"<p>The highest column is {most / 100:,.2f} euro.</p>\n"
    )
