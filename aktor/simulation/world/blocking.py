"""Finds member code that blocks on something that is not simulated, and names it.

While a member's code runs, the start of a thread is replaced by a refusal for this thread; of
sockets and processes Python tells by audit events (PEP 578) before they happen. What is left (a
lock, a queue, a loop without end) is found when the turn takes too long by the real clock: a
watching thread then sends a signal, whose handler raises where the code stands.

The code may catch what is raised there, as loops that want to live do. So the member is told as
well: the run ends with the error all the same.
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import threading
import time
from types import FrameType
from typing import Any, Final, Protocol

from greenlet import GreenletExit

from aktor.simulation.errors import BlockingCallError

__all__ = ["Watched", "watch"]

#: Audit events, and what to say of them.
_BLOCKING: Final = {
    "socket.connect": "a socket",
    "socket.bind": "a socket",
    "socket.getaddrinfo": "a name look-up",
    "subprocess.Popen": "a process",
    "os.fork": "a process",
    "os.posix_spawn": "a process",
    "os.system": "a process",
}

THREAD: Final = "a thread"

#: Real seconds that one turn of a member may take. They are counted as looks of the watching
#: thread, so that a process that was stopped is not suspected. The time in which the turn waited
#: for a processor is left out: on a busy machine a turn of half a second takes ten.
TOO_LONG: Final = 5
_LOOK_EVERY_S: Final = 1.0

#: By default this signal is ignored, so it does no harm; not on Windows.
_SIGNAL: Final = getattr(signal, "SIGURG", None)

_HOOK: Final = threading.local()
_sleep: Final = time.sleep
_start: Final = threading.Thread.start
_installed = False


class Watched(Protocol):
    """A member's code."""

    def fail(self, error: BaseException) -> None:
        """The run ends with this."""

    def __str__(self) -> str: ...


class watch:
    """While the block runs, this thread runs code of this member."""

    def __init__(self, member: Watched) -> None:
        self._member = member

    def __enter__(self) -> None:
        _install()
        _HOOK.member = self._member
        _DOG.turn += 1
        _DOG.member = self._member
        threading.Thread.start = _refused_start  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        threading.Thread.start = _start  # type: ignore[method-assign]
        _DOG.member = None
        _HOOK.member = None


def _refused_start(thread: threading.Thread) -> None:
    _refuse(THREAD)
    _start(thread)


def _install() -> None:
    """An audit hook cannot be taken out again, so there is one, which looks which task runs."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_audit)
        _DOG.begin()


def _audit(event: str, _arguments: Any) -> None:
    if event in _BLOCKING:
        _refuse(_BLOCKING[event])


def _refuse(what: str) -> None:
    """Raise, if it is a member's code in this thread that does it."""
    member = getattr(_HOOK, "member", None)
    if member is not None:
        where = _where(sys._getframe(1))
        error = BlockingCallError(
            f"{member} starts a thread at {where}: that is not simulated. Give the loop a pool that"
            " does each task at once, in the thread that submits it"
            if what == THREAD
            else f"{member} blocks on {what} at {where}; it is not simulated"
        )
        member.fail(error)
        raise error


class _WatchDog:
    """A thread that finds turns which take too long. A turn costs it two assignments."""

    def __init__(self) -> None:
        #: Number of the last turn, and whose it is while it lasts.
        self.turn = 0
        self.member: Watched | None = None
        self._thread_of_turns = 0
        #: The same thread, by the number that the operating system has for it.
        self._its_number = 0
        self._suspect = 0
        #: The turn whose code was told, and went on.
        self._told = 0

    def begin(self) -> None:
        """Called by the thread that runs the members."""
        self._thread_of_turns = threading.get_ident()
        self._its_number = threading.get_native_id()
        if _SIGNAL is not None and threading.current_thread() is threading.main_thread():
            signal.signal(_SIGNAL, self._bite)
        _start(threading.Thread(target=self._look, name="aktor simulation watch", daemon=True))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget)

    def _look(self) -> None:
        seen, took, waited = 0, 0.0, 0.0
        while True:
            _sleep(_LOOK_EVERY_S)
            before, waited = waited, _waited_for_a_processor(self._its_number)
            if self.member is None or self.turn != seen:
                seen, took = self.turn, 0.0
                continue
            took += max(0.0, _LOOK_EVERY_S - (waited - before))
            if took > TOO_LONG - _LOOK_EVERY_S / 2:
                took = 0.0
                self._bark(seen)

    def _bark(self, turn: int) -> None:
        self._suspect = turn
        if _SIGNAL is not None and self._thread_of_turns == threading.main_thread().ident:
            signal.pthread_kill(self._thread_of_turns, _SIGNAL)
            return
        # Python cannot interrupt a lock in another thread: at least it is named.
        frame = sys._current_frames().get(self._thread_of_turns)
        print(f"aktor simulation: {self._complaint(frame)}", file=sys.stderr, flush=True)

    def _bite(self, _number: int, frame: FrameType | None) -> None:
        if self.member is None or self.turn != self._suspect or _debugged():
            return
        if self._told == self.turn:
            raise GreenletExit  # no `except Exception` keeps this one
        self._told = self.turn
        error = BlockingCallError(self._complaint(frame))
        self.member.fail(error)
        raise error

    def _complaint(self, frame: FrameType | None) -> str:
        return (
            f"{self.member} has been at {_where(frame)} for {TOO_LONG} real seconds: a lock, a"
            " queue or an endless loop, which are not simulated (time.sleep is)"
        )


def _waited_for_a_processor(thread: int) -> float:
    """For how many seconds this thread of ours could have run and had no processor; 0.0 where the
    operating system does not tell it."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _forget() -> None:
    """In the child of a fork there is no such thread."""
    global _installed
    _installed = False


def _debugged() -> bool:
    """Whether somebody may be reading at a prompt; coverage traces too."""
    tracer = sys.gettrace()
    return tracer is not None and not type(tracer).__module__.startswith("coverage")


#: Where Python's own modules are; what was installed beside them is a user's.
_PYTHON: Final = sysconfig.get_path("stdlib")


def _where(frame: FrameType | None) -> str:
    """The line that did it, behind our own and the standard library's."""
    while frame is not None and frame.f_back is not None and _is_hidden(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "an unknown place"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_hidden(file: str) -> bool:
    if file == __file__ or file.startswith("<frozen"):
        return True
    return file.startswith(_PYTHON) and "site-packages" not in file


_DOG: Final = _WatchDog()
