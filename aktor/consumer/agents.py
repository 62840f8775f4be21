"""What monitoring agents have put around the methods of kafka-python's consumer, put around ours.

An agent (OpenTelemetry, Elastic APM, New Relic, Instana, ...) wraps methods of
`kafka.KafkaConsumer`. A program that takes its consumer from aktor would not be seen any more. So
each consumer, as it is made, and `aktor.install` look for such wrappers, and wrap our methods in
the same way.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, Final

import kafka.consumer.group

from aktor.trace import Trace

__all__ = ["Agents"]

#: kafka-python's own class, whatever `aktor.install` has put in its place.
_THEIRS: Final = kafka.consumer.group.KafkaConsumer

#: The methods that agents replace to see records.
_SEEN: Final = ("__next__", "poll", "_poll_once")


class Agents:
    """Owns which methods of our class are wrapped as those of kafka-python's class."""

    def __init__(self, ours: type) -> None:
        self._ours = ours
        #: For each method the wrapper of theirs, our own method, and ours as it was wrapped.
        self._followed: dict[str, tuple[Any, Any, Any]] = {}
        self._told = set[Any]()
        self._lock = threading.Lock()

    def follow(self, trace: Trace | None = None) -> None:
        """Wrap our methods as theirs are wrapped now; unwrap those that are not any more. `trace`
        hears of an agent that cannot be followed."""
        theirs = vars(_THEIRS)
        wrapped = [name for name, method in theirs.items() if hasattr(method, "_self_wrapper")]
        if wrapped or self._followed:
            with self._lock:
                for name in [*self._followed]:
                    if theirs.get(name) is not self._followed[name][0]:
                        self._unwrap(name)
                for name in wrapped:
                    if name not in self._followed:
                        self._wrap(name, theirs[name])
        if trace is not None:
            for name in _SEEN:
                self._tell_of(name, theirs.get(name), trace)

    def leave(self) -> None:
        """Unwrap our methods."""
        with self._lock:
            for name in [*self._followed]:
                self._unwrap(name)

    def _wrap(self, name: str, theirs: Any) -> None:
        own = mine = inspect.getattr_static(self._ours, name)
        for kind, wrapper in reversed(_layers(theirs)):
            mine = kind(mine, wrapper)
        setattr(self._ours, name, mine)
        self._followed[name] = theirs, own, mine

    def _unwrap(self, name: str) -> None:
        _, own, mine = self._followed.pop(name)
        if inspect.getattr_static(self._ours, name) is mine:
            setattr(self._ours, name, own)

    def _tell_of(self, name: str, method: Any, trace: Trace) -> None:
        """Warn, once, of a method that was replaced by another function (as Apache SkyWalking
        does): such a function calls kafka-python's method, so it cannot be put around ours."""
        code = getattr(method, "__code__", None)
        if code is None or code.co_filename == kafka.consumer.group.__file__ or code in self._told:
            return
        self._told.add(code)
        trace.warning(
            "agent.unseen",
            method=f"kafka.KafkaConsumer.{name}",
            replaced_by=f"{method.__module__}.{method.__qualname__}",
            because="it does not see aktor's consumers: call aktor.install() before it is started",
        )


def _layers(method: Any) -> list[tuple[Callable[..., Any], Any]]:
    """The wrappers of a method, the outermost first: each one's class, and what it calls. They are
    made by `wrapt`, or a copy of it."""
    layers: list[tuple[Callable[..., Any], Any]] = []
    while hasattr(method, "_self_wrapper"):
        layers.append((type(method), method._self_wrapper))
        method = method.__wrapped__
    return layers
