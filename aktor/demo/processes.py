"""The processes of the demo as their parent sees them, and the inbox for their reports."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from aktor.demo.reports import Report, parse

__all__ = ["Inbox", "Process"]


class Process:
    """One child, in a session of its own: Ctrl-C in the terminal is for its parent to handle."""

    def __init__(self, name: str, module: str, settings: dict[str, Any], inbox: Inbox) -> None:
        self.name = name
        self.killed = False
        self.told_to_stop = False
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps({**settings, "name": name})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.pid = self._child.pid
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"

    def kill(self) -> None:
        """SIGKILL: no goodbye to anybody."""
        self.killed = True
        self._child.kill()

    def stop(self) -> None:
        """SIGTERM: finish what is under way, say goodbye, end."""
        self.told_to_stop = True
        self._child.send_signal(signal.SIGTERM)

    def end(self, patience_s: float) -> None:
        """Make sure that it has ended."""
        try:
            self._child.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _listen(self, inbox: Inbox) -> None:
        assert self._child.stdout is not None, "it was started with a pipe"
        with self._child.stdout as lines:
            for line in lines:
                # Of a process that was killed the last line may be cut.
                if line.endswith("\n"):
                    inbox.put((self, parse(line)))
        code = self._child.wait()
        inbox.put((self, {"said": "ended", "at": time.monotonic(), "code": code}))


class Inbox(queue.SimpleQueue[tuple[Process, Report]]):
    """Where the reports of all processes arrive, each process's in its order; `ended` is last."""
