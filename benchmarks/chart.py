"""The first table of `throughput` in docs/benchmarks.md as bars: `python -m benchmarks.chart`.

Writes docs/throughput.svg.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

__all__ = ["bars", "main"]

DOCS: Final = Path(__file__).parents[1] / "docs"
ROW: Final = 26
LEFT: Final = 210
WIDTH: Final = 420


def main() -> None:
    """Draw it anew."""
    table = (DOCS / "benchmarks.md").read_text().partition("**throughput: ")[2]
    title, _, rest = table.partition("**")
    rows = [line.split("|")[1:4] for line in rest.splitlines() if line.startswith("| ")][1:]
    end = next(at for at, one in enumerate(rows) if "bare socket" in one[0]) + 1
    values = [
        (name.strip(), float(rate.split()[0].replace(",", "")))
        for name, rate, _ in rows[:end]
        if "---" not in name
    ]
    (DOCS / "throughput.svg").write_text(bars(title, values))


def bars(title: str, values: list[tuple[str, float]]) -> str:
    """An SVG with one bar for each value, in thousands of records a second."""
    most = max(value for _, value in values)
    height = ROW * (len(values) + 1) + 14
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="white"/><text x="10" y="18">{escape(title)};'
        " thousands of records a second</text>",
    ]
    for number, (name, value) in enumerate(values, 1):
        top, size = number * ROW + 4, value / most * WIDTH
        colour = "#2a6f97" if name.startswith("aktor") else "#b8c4cc"
        lines += [
            f'<text x="{LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{size:.1f}" height="{ROW - 6}" fill="{colour}"/>',
            f'<text x="{LEFT + size + 6:.1f}" y="{top + 15}">{value:,.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main()
