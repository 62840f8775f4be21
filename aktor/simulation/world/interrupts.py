"""Signals that come in the middle of a consumer's methods: at any line of the application's half.

A handler may raise, as Ctrl-C and alarms do, or call what a handler may call. It comes while a
method of the consumer runs on its user's thread, but not while the consumer is being made: whoever
is interrupted there has nothing to go on with.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from kafka.errors import IllegalStateError

import aktor
from aktor.consumer import inside
from aktor.consumer.core.commits import Completion
from aktor.consumer.facade import KafkaConsumer
from aktor.errors import ConsumerClosedError
from aktor.simulation.world import observed
from aktor.simulation.world.host import SimulatedHost
from aktor.simulation.world.lines import Lines
from aktor.simulation.world.observed import LOOKS

__all__ = ["HANDLERS", "INTERRUPTS", "Alarm", "CtrlC", "Interruption"]

_ROOT: Final = Path(aktor.__file__).parent
_PARTS: Final = ("consumer", "processing", "records")
_APPLICATION: Final = tuple(f"{_ROOT / part}{os.sep}" for part in _PARTS)

#: After how many lines it comes, if it may not come where it would.
LATER: Final = 20


class CtrlC(KeyboardInterrupt):
    """What Python's own handler of SIGINT raises."""


class Alarm(Exception):
    """What a handler of SIGALRM may raise: the user's time is up."""


#: What a reader is ready for.
INTERRUPTS: Final = (CtrlC, Alarm)


def _press_ctrl_c(_consumer: KafkaConsumer) -> None:
    raise CtrlC


def _raise_an_alarm(_consumer: KafkaConsumer) -> None:
    raise Alarm


def _wake_up(consumer: KafkaConsumer) -> None:
    consumer.wakeup()


def _close(consumer: KafkaConsumer) -> None:
    consumer.close(timeout_ms=5000)


def _commit(consumer: KafkaConsumer) -> None:
    """Which is refused in the middle of another call."""
    with contextlib.suppress(IllegalStateError):
        consumer.commit_async()


def _look(consumer: KafkaConsumer) -> None:
    """What may be asked for at any time."""
    str(consumer.status())
    with contextlib.suppress(ConsumerClosedError):
        consumer.assignment()
        consumer.paused()


#: What the handler does.
HANDLERS: Final[Mapping[str, Callable[[KafkaConsumer], None]]] = {
    "ctrl-c": _press_ctrl_c,
    "alarm": _raise_an_alarm,
    "wakeup": _wake_up,
    "close": _close,
    "commit": _commit,
    "look": _look,
}


def _is_of_the_application(code: CodeType) -> bool:
    return code.co_filename.startswith(_APPLICATION)


class Interruption(Lines):
    """A signal to a member: its handler runs before one of the next lines of its consumers, and is
    given the consumer of that `host` which is the latest then."""

    def __init__(self, latest: Callable[[], SimulatedHost], lines: int, handler: str) -> None:
        super().__init__(lines, self._come, counts=_is_of_the_application)
        self._latest = latest
        self._handler = handler

    def _come(self) -> None:
        # Called by `_line`, which is called in the frame whose line it is.
        frame = sys._getframe(2)
        interrupted = frame.f_code
        if (
            interrupted in _IN_ONE_GO
            or _is_set_by_the_simulation(frame)
            or not _may_come(sys._getframe())
        ):
            self.wait_for(LATER)
            return
        host = self._latest()
        host.note("user.interrupted", by=self._handler, method=interrupted.co_name)
        assert isinstance(host.consumer, KafkaConsumer), "a signal comes to one that blocks"
        HANDLERS[self._handler](host.consumer)


#: Between the two lines of it CPython does not look for signals: it notes that the callback begins,
#: and calls it. (In the callback it looks at once.)
_IN_ONE_GO: Final = {Completion.run.__code__}

#: Where it may not come: where the simulation looks on, too.
_NOT_IN: Final = LOOKS | {KafkaConsumer.__init__.__code__}


def _is_set_by_the_simulation(frame: FrameType) -> bool:
    """Whether this is the simulation's own consumer, which notes what it sees in attributes: it
    would lose what `poll` has returned to it. In a user's program nothing stands between the two.
    """
    called = frame
    while called.f_code.co_name != "__setattr__":
        if called.f_code.co_filename != inside.__file__ or called.f_back is None:
            return False
        called = called.f_back  # what looks whose attribute it is
    setter = called.f_back
    return setter is not None and setter.f_code.co_filename == observed.__file__


def _may_come(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code not in _NOT_IN:
        frame = frame.f_back
    return frame is None
