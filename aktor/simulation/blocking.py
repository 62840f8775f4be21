"""Finds member code that blocks on something that is not simulated, and names it.

While a member's code runs, `time.sleep` and the start of a thread are replaced by a refusal for
this thread; of sockets and processes Python tells by audit events (PEP 578) before they happen. A
`sleep` that was imported by name before is not found.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import Any, Final

from aktor.simulation.errors import BlockingCallError

__all__ = ["watch"]

#: Audit events, and what to say of them.
_BLOCKING: Final = {
    "socket.connect": "a socket",
    "socket.bind": "a socket",
    "socket.getaddrinfo": "a name look-up",
    "subprocess.Popen": "a process",
    "os.fork": "a process",
}

_HOOK: Final = threading.local()
_sleep: Final = time.sleep
_start: Final = threading.Thread.start
_installed = False


class watch:
    """While the block runs, this thread runs code of this member."""

    def __init__(self, member: object) -> None:
        self._member = member

    def __enter__(self) -> None:
        _install()
        _HOOK.member = self._member
        time.sleep = _refused_sleep  # type: ignore[assignment]
        threading.Thread.start = _refused_start  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        time.sleep = _sleep
        threading.Thread.start = _start  # type: ignore[method-assign]
        _HOOK.member = None


def _refused_sleep(seconds: float) -> None:
    _refuse("time.sleep (use Simulation.sleep)")
    _sleep(seconds)


def _refused_start(thread: threading.Thread) -> None:
    _refuse("a thread")
    _start(thread)


def _install() -> None:
    """An audit hook cannot be taken out again, so there is one, which looks who is running."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_audit)


def _audit(event: str, _arguments: Any) -> None:
    if event in _BLOCKING:
        _refuse(_BLOCKING[event])


def _refuse(what: str) -> None:
    """Raise, if it is a member's code in this thread that does it."""
    member = getattr(_HOOK, "member", None)
    if member is not None:
        raise BlockingCallError(f"{member} blocks on {what} at {_where()}; it is not simulated")


def _where() -> str:
    """The line that did it, behind our own and the standard library's."""
    hidden = ("blocking.py", "socket.py", "subprocess.py")
    frames = reversed(traceback.extract_stack())
    frame = next(one for one in frames if not one.filename.endswith(hidden))
    return f"{frame.filename}:{frame.lineno}"
