"""What is shown: progress while the query runs, then a chart."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from examples.spark_demo.orders import SHOPS

WIDTH = 48

#: Something is said at least so often.
QUIET_S = 5.0


class Screen:
    """Owns the console, and which batch was shown last."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = Console(highlight=False)
        self._clock = clock
        self._shown = -1
        self._waiting = ""
        self._began = self._last = clock()

    def say(self, text: str) -> None:
        """A line on what happens."""
        self._print(f"[bold]{text}[/bold]")

    @contextmanager
    def waiting(self, what: Callable[[], str]) -> Iterator[None]:
        """While this goes on: a line on what is waited for, when it changes, and at least every
        five seconds."""
        over = threading.Event()

        def tell() -> None:
            while not over.wait(0.2):
                self._wait_for(what())

        self._waiting, self._began = "", self._clock()
        teller = threading.Thread(target=tell, name="screen", daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()

    def _wait_for(self, what: str) -> None:
        now = self._clock()
        if what != self._waiting:
            self._waiting, self._began = what, now
            self._print(f"  {what} ...")
        elif now - self._last >= QUIET_S:
            self._print(f"  {what} ... {now - self._began:.0f} s")

    def _print(self, text: Any) -> None:
        self._last = self._clock()
        self.console.print(text)

    def progress(self, query: Any) -> None:
        """A line on each batch of the query that was not shown yet; if there is none for some time,
        and before the first one: what Spark does."""
        new = [one for one in query.recentProgress if one["batchId"] > self._shown]
        for one in new:
            if one["batchId"] > self._shown:
                self._explain_gap(one["batchId"])
                self._shown = one["batchId"]
                self._batch(one)
        if not new and (self._shown < 0 or self._clock() - self._last >= QUIET_S):
            # "Getting offsets from" the name of a Java class.
            self._wait_for(query.status["message"].partition(" from ")[0])

    def _explain_gap(self, number: int) -> None:
        """A batch without a line was done in the moment in which the query was stopped."""
        first, last = self._shown + 1, number - 1
        if 0 < first <= last:
            which = f"batch {first}" if first == last else f"batches {first} to {last}"
            self._print(
                f"  ({which}: done while the query was stopped, so Spark did not report it)"
            )

    def _batch(self, one: Any) -> None:
        [source] = one["sources"]
        behind = _behind(source["latestOffset"], source["endOffset"])
        state = one["stateOperators"][0]["numRowsTotal"] if one["stateOperators"] else 0
        # After a batch that moved the watermark Spark makes one without records: it closes windows.
        what = f"{one['numInputRows']:6,} orders" if one["numInputRows"] else "closes windows"
        self._print(
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
        self._print(table)


def _behind(latest: str | None, end: str | None) -> int:
    """Offsets that are written and not read yet: Spark has both as JSON. A batch without data has
    no latest offsets."""
    ends = json.loads(end or "null") or {}
    return sum(
        offset - ends.get(topic, {}).get(partition, 0)
        for topic, partitions in (json.loads(latest or "null") or {}).items()
        for partition, offset in partitions.items()
    )
