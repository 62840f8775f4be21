"""How the parts of the application's half reach the background and the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from aktor.consumer.core.port import ApplicationPort, Publish
from aktor.trace import Trace

__all__ = ["Link"]


class Link(NamedTuple):
    """Given to most parts when they are made."""

    #: Where the background's messages wait.
    port: ApplicationPort
    #: Tells the background a message.
    publish: Publish
    clock: Callable[[], float]
    trace: Trace
    #: The trace of the actor "application".
    log: Trace
