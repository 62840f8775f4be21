"""The tables of docs/metrics.md, from the declarations of metrics.

`python -m tests.metrics_table` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from aktor.consumer.metrics import DECLARED, restarts_of
from aktor.events.metric import CONSUMER_METRICS, COORDINATOR_METRICS, FETCH_METRICS, Metric

PAGE: Final = Path(__file__).parent.parent / "docs" / "metrics.md"

BEGIN: Final = "<!-- tables -->\n"


def page() -> str:
    """The whole page."""
    parts = [PAGE.read_text().partition(BEGIN)[0], BEGIN]
    every = [*DECLARED, restarts_of("<actor>")]
    for group in (FETCH_METRICS, COORDINATOR_METRICS, CONSUMER_METRICS):
        parts += [f"\n## {group}\n\n| name | is | |\n|---|---|---|\n", *_rows(every, group)]
    return "".join(parts)


def _rows(metrics: Iterable[Metric], group: str) -> list[str]:
    found = sorted(
        (metric for metric in metrics if metric.group == group), key=lambda one: one.name
    )
    return [f"| `{one.name}` | {one.kind} | {one.description} |\n" for one in found]


if __name__ == "__main__":
    PAGE.write_text(page())
