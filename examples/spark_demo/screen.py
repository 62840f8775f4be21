"""What is shown: progress while the query runs, then a chart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from examples.spark_demo.orders import SHOPS

WIDTH = 48


class Screen:
    """Owns the console, and which batch was shown last."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._shown = -1
        self._waiting = ""

    def say(self, text: str) -> None:
        """A line on what happens."""
        self.console.print(f"[bold]{text}[/bold]")

    def progress(self, query: Any) -> None:
        """A line on each batch of the query that was not shown yet. Before its first one: what
        Spark does."""
        new = [one for one in query.recentProgress if one["batchId"] > self._shown]
        # "Getting offsets from" the name of a Java class.
        does = query.status["message"].partition(" from ")[0]
        if not new and self._shown < 0 and does != self._waiting:
            self._waiting = does
            self.console.print(f"  {does} ...")
        for one in new:
            if one["batchId"] > self._shown:
                self._shown = one["batchId"]
                self._batch(one)

    def _batch(self, one: Any) -> None:
        [source] = one["sources"]
        behind = _behind(source["latestOffset"], source["endOffset"])
        state = one["stateOperators"][0]["numRowsTotal"] if one["stateOperators"] else 0
        # After a batch that moved the watermark Spark makes one without records: it closes windows.
        what = f"{one['numInputRows']:6,} orders" if one["numInputRows"] else "closes windows"
        self.console.print(
            f"  batch {one['batchId']:2}: {what:>14} in"
            f" {one['durationMs']['triggerExecution']:6,} ms, lag {behind:5,}, {state:3} sums open"
        )

    def chart(self, sums: Mapping[tuple[int, str], int]) -> None:
        """A bar for each shop."""
        by_shop: Counter[str] = Counter()
        for (_, shop), cents in sums.items():
            by_shop[shop] += cents
        most = max(by_shop.values(), default=0) or 1
        table = Table(title="Revenue by shop", title_justify="left", box=None)
        table.add_column("shop")
        table.add_column("")
        table.add_column("euro", justify="right")
        for shop in SHOPS:
            bar = "█" * round(by_shop[shop] / most * WIDTH)
            table.add_row(shop, f"[cyan]{bar}[/cyan]", f"{by_shop[shop] / 100:,.2f}")
        self.console.print(table)


def _behind(latest: str | None, end: str | None) -> int:
    """Offsets that are written and not read yet: Spark has both as JSON. A batch without data has
    no latest offsets."""
    ends = json.loads(end or "null") or {}
    return sum(
        offset - ends.get(topic, {}).get(partition, 0)
        for topic, partitions in (json.loads(latest or "null") or {}).items()
        for partition, offset in partitions.items()
    )
