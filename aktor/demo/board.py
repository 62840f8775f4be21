"""The board: what the demo knows of its members right now, and what has just happened."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aktor.demo.processes import Process
from aktor.demo.referee import Referee
from aktor.demo.reports import Report

__all__ = ["Board", "Happening", "Row"]

RATE_WINDOW_S = 2.0

#: Colours of what happened, by how bad it is.
NEWS, GOOD, BAD = "news", "good", "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One line of what happened: seconds since the start, who, what, and whether it is bad."""

    at: float
    who: str
    what: str
    kind: str = NEWS


@dataclass(slots=True, kw_only=True)
class Row:
    """A member as the view shows it. A member that comes back takes its old row."""

    process: Process
    state: str = "starting"
    generation: int = -1
    total: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def key(self) -> str:
        """The name of this process for the referee."""
        return str(self.process)

    def rate(self, now: float) -> float:
        """Records a second, over the last two seconds."""
        while self.recent and self.recent[0][0] < now - RATE_WINDOW_S:
            self.recent.popleft()
        return sum(count for _, count in self.recent) / RATE_WINDOW_S


class Board:
    """Owns the rows and the happenings; passes on to the referee what it has to know."""

    def __init__(self, referee: Referee, *, topic: str, group: str, protocol: str) -> None:
        self.referee = referee
        self.topic = topic
        self.group = group
        self.protocol = protocol
        self.rows: dict[str, Row] = {}
        self.happenings: list[Happening] = []
        self.phase = "starting"
        self.progress = 0.0
        self.written = 0
        self.read = 0
        self._began = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def note(self, who: str, what: str, kind: str = NEWS) -> None:
        """Add a line to what happened."""
        self.happenings.append(Happening(at=self.elapsed, who=who, what=what, kind=kind))

    def fault(self, who: str, what: str) -> None:
        """Note what must not happen, and tell the referee."""
        self.note(who, what, BAD)
        self.referee.fault(f"{who}: {what}")

    def started(self, process: Process) -> None:
        """A member's process was started, for the first time or again."""
        before = self.rows.get(process.name)
        self.rows[process.name] = Row(process=process, total=before.total if before else 0)

    def names_by_key(self) -> dict[str, str]:
        """From the referee's names of the members that are there to their short ones."""
        return {row.key: name for name, row in self.rows.items()}

    def take(self, process: Process, report: Report) -> None:
        """Note a report. Each kind of report has a method of its own."""
        getattr(self, f"_on_{report['said']}")(process, report)

    def _on_wrote(self, _: Process, report: Report) -> None:
        for partition, first, orders in report["runs"]:
            self.referee.wrote(partition, first, orders)
            self.written += len(orders)

    def _on_read(self, process: Process, report: Report) -> None:
        count = 0
        for partition, first, waited, orders in report["runs"]:
            self.referee.read(str(process), partition, first, orders, waited, report["at"])
            count += len(orders)
        self.read += count
        row = self._row_of(process)
        if row is not None:
            row.total += count
            row.recent.append((report["at"], count))

    def _on_committed(self, process: Process, report: Report) -> None:
        offsets = {int(one): offset for one, offset in report["offsets"].items()}
        self.referee.committed(str(process), offsets)

    def _on_refused(self, process: Process, report: Report) -> None:
        self.note(process.name, f"commit refused, will be repeated: {report['because']}", BAD)

    def _on_assigned(self, process: Process, report: Report) -> None:
        self.referee.assigned(str(process), report["partitions"], report["at"])
        if report["partitions"]:
            self.note(process.name, f"got {_listed(report['partitions'])}", GOOD)

    def _on_released(self, process: Process, report: Report) -> None:
        self.referee.released(str(process), report["partitions"], report["how"])
        lost = report["how"] == "lost"
        verb = "lost" if lost else "gave up"
        self.note(process.name, f"{verb} {_listed(report['partitions'])}", BAD if lost else NEWS)

    def _on_status(self, process: Process, report: Report) -> None:
        row = self._row_of(process)
        if row is not None and not process.killed:
            row.state, row.generation = report["state"], report["generation"]

    def _on_trace(self, process: Process, report: Report) -> None:
        event = report["event"]
        if event["event"] == "rebalance.completed":
            self._on_rebalance(process, event, report["at"])
            return
        bad = event.get("level") in ("warning", "error")
        reason = event.get("because", event.get("error", ""))
        self.note(process.name, f"{event['event']} {reason}".strip(), BAD if bad else NEWS)

    def _on_rebalance(self, process: Process, event: Mapping[str, Any], at: float) -> None:
        generation, ms = event["generation"], event["ms"]
        self.referee.rebalanced(str(process), generation, event["because"], ms, at)
        self.note(process.name, f"rebalanced in {ms:.0f} ms to generation {generation}", GOOD)

    def _on_closed(self, process: Process, _: Report) -> None:
        row = self._row_of(process)
        if row is not None:
            row.state = "closed"

    def _on_words(self, process: Process, report: Report) -> None:
        if report["text"].strip():
            self.note(process.name, report["text"].strip(), BAD)

    def _on_ended(self, process: Process, report: Report) -> None:
        row = self._row_of(process)
        if row is not None:
            row.state = "killed" if process.killed else "ended"
        if not process.killed and (not process.told_to_stop or report["code"] != 0):
            self.fault(process.name, f"ended by itself with exit code {report['code']}")

    def _row_of(self, process: Process) -> Row | None:
        row = self.rows.get(process.name)
        return row if row is not None and row.process is process else None


def _listed(partitions: list[int]) -> str:
    return f"partition{'s' * (len(partitions) != 1)} {', '.join(map(str, partitions))}"
