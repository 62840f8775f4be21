"""The director: makes the demo's story happen, and waits for each scene before the next one."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aktor.demo.board import BAD, GOOD, Board
from aktor.demo.cluster import Cluster
from aktor.demo.processes import Inbox, Process
from aktor.demo.view import View

__all__ = ["Director", "Plot"]

#: When, of all the seconds, the member is killed and when it returns at the earliest.
KILL_AT = 0.25
RETURN_AT = 0.65
#: How long a scene lasts at least, so that one sees it.
SCENE_S = 2.0

FORMING_TIMEOUT_S = 60.0
#: The killed member's session (6 s), a rebalance, and patience with a busy machine.
REBALANCE_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 30.0
END_TIMEOUT_S = 10.0
REFRESH_EVERY_S = 0.125
ASK_EVERY_S = 0.2
WAIT_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What is asked of the demo; `seconds` is how long orders are written, at least."""

    seconds: float
    rate: int
    members: int
    partitions: int
    cooperative: bool


class PlotError(RuntimeError):
    """A scene did not come about; the message is what was waited for."""


class Director:
    """Owns the processes. `play` is the story; when it ends, however it ends, they have ended."""

    def __init__(self, plot: Plot, cluster: Cluster, board: Board, view: View) -> None:
        self.plot = plot
        self._cluster = cluster
        self._board = board
        self._view = view
        self._inbox = Inbox()
        self._processes: list[Process] = []
        self._ended: set[Process] = set()
        self._refresh_at = 0.0

    def play(self) -> int | None:
        """The whole story. Returns the group's lag at its end, as Kafka says."""
        with self._everybody_ends():
            try:
                self._play()
                lag = self._wait_for_commits()
                self._dismiss(*(row.process for row in self._board.rows.values()))
            except PlotError as error:
                self._board.fault("demo", str(error))
                lag = self._lag()
            except KeyboardInterrupt:
                self._enter("interrupted: everybody ends, and what was made is deleted")
                self._view.refresh(self._board)
                raise
        return lag

    def _play(self) -> None:
        board, plot = self._board, self.plot
        self._enter("the group forms")
        for number in range(1, plot.members + 1):
            self._start_member(f"member-{number}")
        self._until(self._all_at_work, FORMING_TIMEOUT_S, "all members to have partitions")

        self._enter("orders are written and read")
        producer = self._start("producer", "aktor.demo.producer", rate=plot.rate)
        began = time.monotonic()
        self._until_time(began + max(SCENE_S, KILL_AT * plot.seconds))

        victim = board.rows["member-2"].process
        self._enter(f"{victim.name} is dead; the group waits for its session to end")
        self._kill(victim)
        self._until(self._all_at_work, REBALANCE_TIMEOUT_S, f"{victim}'s partitions to be owned")

        self._enter(f"the others have taken over from {victim.name}")
        self._until_time(max(time.monotonic() + SCENE_S, began + RETURN_AT * plot.seconds))

        self._enter(f"{victim.name} comes back")
        board.referee.returned(str(self._start_member(victim.name)))
        board.note(victim.name, "started again", GOOD)
        self._until(
            self._all_at_work, REBALANCE_TIMEOUT_S, f"{victim.name} to get partitions again"
        )

        self._enter("the group is complete again")
        self._until_time(max(time.monotonic() + SCENE_S, began + plot.seconds))

        self._enter("no more orders; the rest is read")
        self._dismiss(producer)
        self._until(lambda: board.referee.outstanding == 0, DRAIN_TIMEOUT_S, "the rest to be read")

    # -- scenes

    def _enter(self, phase: str) -> None:
        self._board.phase = phase
        self._board.note("demo", phase)

    def _all_at_work(self) -> bool:
        """Whether all partitions are owned by members that are there and settled."""
        rows = [row for row in self._board.rows.values() if not row.process.killed]
        settled = all(row.state == "stable" for row in rows)
        return settled and self._board.referee.is_covered_by([row.key for row in rows])

    def _start_member(self, name: str) -> Process:
        process = self._start(
            name,
            "aktor.demo.member",
            group=self._board.group,
            cooperative=self.plot.cooperative,
        )
        self._board.started(process)
        return process

    def _start(self, name: str, module: str, **settings: Any) -> Process:
        common = {
            "bootstrap": self._cluster.bootstrap,
            "topic": self._board.topic,
            "partitions": self.plot.partitions,
        }
        process = Process(name, module, {**common, **settings}, self._inbox)
        self._processes.append(process)
        return process

    def _kill(self, process: Process) -> None:
        process.kill()
        self._board.referee.killed(str(process), time.monotonic())
        self._board.rows[process.name].state = "killed"
        self._board.note(process.name, f"killed with SIGKILL (pid {process.pid})", BAD)

    def _wait_for_commits(self) -> int | None:
        """Members commit ten times a second: soon nothing is left, if all is well."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while True:
            lag = self._lag()
            if lag == 0 or time.monotonic() > deadline:
                return lag
            self._until_time(time.monotonic() + ASK_EVERY_S)

    def _lag(self) -> int | None:
        return self._cluster.lag(self._board.group, self._board.topic, self.plot.partitions)

    def _dismiss(self, *processes: Process) -> None:
        """Let them end in good order, and read what they say at the end."""
        for process in processes:
            process.stop()
        whose = ", ".join(map(str, processes))
        self._until(lambda: self._ended.issuperset(processes), END_TIMEOUT_S, f"{whose} to end")

    @contextmanager
    def _everybody_ends(self) -> Iterator[None]:
        try:
            yield
        finally:
            for process in self._processes:
                process.stop()
            deadline = time.monotonic() + END_TIMEOUT_S
            for process in self._processes:
                process.end(max(0.0, deadline - time.monotonic()))

    # -- waiting is reading reports

    def _until(self, happened: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not happened():
            if time.monotonic() > deadline:
                raise PlotError(f"waited {timeout_s:.0f} s in vain for {what}")
            self._take_reports()

    def _until_time(self, until: float) -> None:
        while time.monotonic() < until:
            self._take_reports()

    def _take_reports(self) -> None:
        """Take what is there, waiting for it a moment; refresh the view when it is time."""
        try:
            while True:
                process, report = self._inbox.get(timeout=WAIT_S)
                self._board.take(process, report)
                if report["said"] == "ended":
                    self._note_end(process)
                if time.monotonic() >= self._refresh_at:
                    break
        except queue.Empty:
            pass
        if time.monotonic() >= self._refresh_at:
            self._refresh_at = time.monotonic() + REFRESH_EVERY_S
            self._view.refresh(self._board)

    def _note_end(self, process: Process) -> None:
        self._ended.add(process)
        if not process.killed and not process.told_to_stop:
            raise PlotError(f"without {process} there is no going on")
