"""A page about the rebalances: HTML with its charts as SVG in it, to be opened from a file."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from aktor.spark.rebalances.summary import BUCKETS, DECADES, Records, Summary

__all__ = ["render"]

_COLOURS: Final = ("#3b6fb6", "#d1603d", "#5a9e6f", "#a05fb4", "#c9a227", "#5bb3c4", "#8c6d5a")
_OTHER: Final = "#9a9a9a"

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #222; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd;
  vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.facts { display: flex; flex-wrap: wrap; gap: 1.5rem; } .facts b { display: block;
  font-size: 1.4rem; }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: #444; }
.wide { overflow-x: auto; } p.note { color: #666; font-size: 13px; }
"""

_WIDTH: Final = 900
_HEIGHT: Final = 220
_LEFT, _BOTTOM, _TOP = 50, 30, 10


def render(summary: Summary) -> str:
    """The page."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Rebalances</title>",
        f"<style>{_STYLE}</style></head><body><h1>Rebalances</h1>",
        _facts(summary),
        _section("Rebalances over time, by trigger", _over_time(summary)),
        _section("How long rebalances took", _bars(_decades(), summary.durations)),
        _section(
            "How long partitions were not delivered when they changed hands",
            _bars(_decades(), summary.downtimes)
            + _note("From the last record by the old owner to the first by the new one. A partition"
                    " without new records has a long one, too."),
        ),
        _section("Where the time goes (the member that was longest in it; mean)", _phases(summary)),
        _section("The longest rebalances", _sentences(summary.longest)),
        _section("Rebalances that moved partitions needlessly", _sentences(summary.needless)),
        _section("Members, by their time in rebalances", _table(summary.members)),
        _section("Storms", _table(summary.storms)),
        _section("Commits that were refused", _table(summary.refused)),
        _section("Positions that were reset", _table(summary.resets)),
        "</body></html>\n",
    ]  # fmt: skip
    return "".join(parts)


def _section(title: str, body: str) -> str:
    return f"<h2>{html.escape(title)}</h2>{body}"


def _note(text: str) -> str:
    return f"<p class='note'>{html.escape(text)}</p>"


def _facts(summary: Summary) -> str:
    totals = summary.totals
    facts = {
        "rebalances": totals["rebalances"],
        "groups": totals["groups"],
        "partitions moved": totals["moved"] or 0,
        "of them needlessly": totals["needlessly"] or 0,
        "longest pause": _duration(totals["downtime"]),
        "without a known trigger": totals["unexplained"] or 0,
    }
    shown = "".join(f"<div><b>{_value(fact)}</b>{name}</div>" for name, fact in facts.items())
    counts = ", ".join(f"{name}: {count:,}" for name, count in sorted(summary.counts.items()))
    return f"<div class='facts'>{shown}</div>{_note(f'Lines by what became of them: {counts}.')}"


# -- charts


def _over_time(summary: Summary) -> str:
    triggers = Counter[str]()
    for _, trigger, count in summary.over_time:
        triggers[trigger] += count
    colours = dict(zip((trigger for trigger, _ in triggers.most_common()), _COLOURS, strict=False))
    bars: list[list[tuple[float, str, str]]] = [[] for _ in range(BUCKETS)]
    for bucket, trigger, count in summary.over_time:
        colour = colours.get(trigger, _OTHER)
        bars[bucket].append((count, colour, f"{count} by {trigger}"))
    labels = {at: _clock(summary.began + at * summary.bucket_s) for at in range(0, BUCKETS, 10)}
    legend = "".join(
        f"<tspan fill='{colours.get(trigger, _OTHER)}'>■ </tspan><tspan>{trigger}  </tspan>"
        for trigger in triggers
    )
    return _chart(bars, labels, f"<text x='{_LEFT}' y='{_HEIGHT - 2}'>{legend}</text>")


def _bars(names: Sequence[str], counts: Sequence[int]) -> str:
    bars = [
        [(count, _COLOURS[0], f"{count:,}: {name}")]
        for name, count in zip(names, counts, strict=True)
    ]
    return _chart(bars, dict(enumerate(names)), "")


def _chart(
    bars: Sequence[Sequence[tuple[float, str, str]]], labels: Mapping[int, str], below: str
) -> str:
    """Bars of parts that are on top of each other: (value, colour, what it is)."""
    most = max((sum(part[0] for part in bar) for bar in bars), default=0) or 1
    room, step = _HEIGHT - _BOTTOM - _TOP - 14, (_WIDTH - _LEFT) / len(bars)
    base = _TOP + room
    shapes = [f"<line x1='{_LEFT}' x2='{_WIDTH}' y1='{base}' y2='{base}' stroke='#999'/>"]
    shapes += [
        f"<text x='{_LEFT - 6}' y='{_TOP + 10}' text-anchor='end'>{most:,.0f}</text>"
        f"<text x='{_LEFT - 6}' y='{base}' text-anchor='end'>0</text>"
    ]
    for at, bar in enumerate(bars):
        y = float(base)
        for value, colour, title in bar:
            height = value / most * room
            y -= height
            shapes.append(
                f"<rect x='{_LEFT + at * step + 1:.1f}' y='{y:.1f}' width='{step - 2:.1f}'"
                f" height='{height:.1f}' fill='{colour}'><title>{html.escape(title)}</title></rect>"
            )
    shapes += [
        f"<text x='{_LEFT + at * step + 1:.1f}' y='{base + 14}'>{html.escape(label)}</text>"
        for at, label in labels.items()
    ]
    inside = "".join(shapes) + below
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>{inside}</svg>"


def _decades() -> list[str]:
    bounds = [_duration(decade) for decade in DECADES]
    return [*(f"≤ {bound}" for bound in bounds), f"> {bounds[-1]}"]


# -- tables


def _phases(summary: Summary) -> str:
    """A row for each phase, a column for each protocol."""
    spoken = {phase["protocol"] or "unknown": phase for phase in summary.phases}
    phases = [field for field in (summary.phases or [{}])[0] if field.endswith("_ms")]
    means = [
        {"ms": phase.removesuffix("_ms").replace("_", " ")}
        | {name: record[phase] for name, record in spoken.items()}
        for phase in phases
    ]
    return _table([mean for mean in means if any(mean[name] is not None for name in spoken)])


def _sentences(records: Records) -> str:
    if not records:
        return _note("None.")
    return (
        "<ol>"
        + "".join(f"<li>{html.escape(record['sentence'])}</li>" for record in records)
        + "</ol>"
    )


def _table(records: Records) -> str:
    columns = [column for column in (records[0] if records else {}) if _is_told(column, records)]
    if not columns:
        return _note("None.")
    head = "".join(
        f"<th{_class(column, records)}>{html.escape(column.replace('_', ' '))}</th>"
        for column in columns
    )
    rows = "".join(f"<tr>{''.join(_cells(record, columns, records))}</tr>" for record in records)
    return f"<div class='wide'><table><tr>{head}</tr>{rows}</table></div>"


def _is_told(column: str, records: Iterable[Mapping[str, Any]]) -> bool:
    return any(record[column] is not None for record in records)


def _class(column: str, records: Iterable[Mapping[str, Any]]) -> str:
    values = (record[column] for record in records)
    is_number = any(isinstance(value, int | float) for value in values)
    return " class='number'" if is_number else ""


def _cells(record: Mapping[str, Any], columns: Iterable[str], records: Records) -> Iterator[str]:
    for column in columns:
        yield f"<td{_class(column, records)}>{html.escape(_value(record[column]))}</td>"


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _duration(ms: float | None) -> str:
    if ms is None:
        return "–"
    return f"{round(ms / 1000, 1):g} s" if ms >= 1000 else f"{round(ms):g} ms"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%m-%d %H:%M:%S}"
