"""What may block, on daemon threads of its own: look-ups of names, and logins that ask somebody for
a token or a ticket. The loop goes on meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kafka.future import Future

from aktor.trace.plain import named
from aktor.values import Mutable

__all__ = ["PATIENCE", "LoginThreads", "on_thread"]

#: How long a login's call that nobody waits for any more may run before another one is begun beside
#: it, in seconds.
PATIENCE: Final = 300.0

#: Told the result of a work, or its error, on the loop's thread.
Ended = Callable[[Any, Exception | None], None]


def on_thread(loop: Any, work: Callable[[], Any], ended: Ended) -> None:
    """Run `work` on a thread of its own; `loop` is `kafka.net`'s."""

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        except BaseException as error:  # a token provider exits: only this attempt ends by it
            failure = RuntimeError(named(error))
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(lambda: ended(result, failure))

    threading.Thread(target=run, name="aktor-look-up", daemon=True).start()


class _Call(Mutable, kw_only=False):
    """A login's call; `is_over` says whether the attempt to connect was given up."""

    work: Callable[[], Any]
    is_over: Callable[[], bool]
    done: Future


class LoginThreads:
    """Owns the calls of logins that may block: of a token provider, or for a Kerberos ticket.

    Those of several connections run side by side. But nobody can end a thread: if a call goes on
    though its attempt to connect was given up, the next ones wait until it has ended. Otherwise
    each attempt would leave a thread behind while the provider hangs. A call that never ends must
    not stop all logins either, so another one is begun after a while.
    """

    def __init__(self, loop: Any, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._waiting: deque[_Call] = deque()
        self._running: dict[_Call, None] = {}
        #: Since when a call runs that nobody waits for, as far as was seen.
        self._hangs_since: float | None = None

    async def run(self, work: Callable[[], Any], is_over: Callable[[], bool]) -> Any:
        """Returns what the work returns, and raises what it raises; never goes on if the attempt
        is over."""
        call = _Call(work, is_over, Future())
        self._waiting.append(call)
        self._begin()
        result, error = await call.done
        if error is not None:
            raise error
        return result

    def _begin(self) -> None:
        while self._waiting and not self._hangs():
            call = self._waiting.popleft()
            if not call.is_over():
                self._start(call)

    def _start(self, call: _Call) -> None:
        self._running[call] = None
        try:
            on_thread(self._loop, call.work, lambda *end: self._ended(call, *end))
        except RuntimeError as error:  # no more threads are to be had
            self._ended(call, None, error)

    def _hangs(self) -> bool:
        """Whether a call runs that nobody waits for. One that has run for too long is forgotten."""
        hanging = [call for call in self._running if call.is_over()]
        if not hanging:
            self._hangs_since = None
            return False
        now = self._clock()
        if self._hangs_since is None:
            self._hangs_since = now
        if now < self._hangs_since + PATIENCE:
            return True
        for call in hanging:
            del self._running[call]
        self._hangs_since = None
        return False

    def _ended(self, call: _Call, result: Any, error: Exception | None) -> None:
        self._running.pop(call, None)
        if not call.is_over():
            call.done.success((result, error))
        self._begin()
