"""Lines of trace files: which of them tell of rebalances, and what is in them.

Logs come as they were shipped: with lines of other programs, with a last line that was cut off, or
with another one behind such a torn one, or with a prefix. What is not understood is counted by its
reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = [
    "ALIVE",
    "ALONE",
    "HEARTBEAT",
    "HEARTBEAT_LATE",
    "DELIVERED",
    "EVENTS",
    "NOT_A_TRACE",
    "OURS",
    "PATTERN",
    "REASONS",
    "TORN",
    "Event",
    "Glance",
]
__all__ += ["NotUnderstoodError", "glance", "parse"]

#: An event of a trace, as it was read: "event", "t", "group" and "source" are there.
Event = dict[str, Any]

#: The "group" of consumers that have none: they are taken together.
ALONE: Final = ""

#: By far the most frequent of the events.
DELIVERED: Final = "records.delivered"

#: That a member lives, and that the coordinator answers it: the answer to a heartbeat (an answer to
#: another request is no event that is needed), and that it is late.
HEARTBEAT: Final = "request.answered"
HEARTBEAT_LATE: Final = "heartbeat.late"
_HEARTBEATS: Final = ("Heartbeat", "ConsumerGroupHeartbeat")

#: The events that are needed, besides the answers to heartbeats.
EVENTS: Final = frozenset(
    {"bootstrap.failed", "bootstrap.started", "brokers.unreachable", "clock.set"}
    | {"consumer.started"}
    | {"callback.failed", "callback.finished"}
    | {"commit.failed", "commit.retried", "session.unconfirmed"}
    | {"connection.failed", "coordinator.found", "coordinator.lost"}
    | {"coordinator.refused", "coordinator.retried", "group.failed", "heartbeat.failed"}
    | {HEARTBEAT_LATE}
    | {"member.epoch", "member.left", "member.lost"}
    | {"membership.moved", "partitions.assigned", "partitions.held_back", "partitions.released"}
    | {"partitions.revoking", "poll.late", "position.reset", "rebalance.completed"}
    | {"cluster.changed", "topic.deleted", "topic.refused"}
    | {"subscription.matched", "subscription.told"}
    | {"delivery.resumed", "delivery.stalled", "partitions.paused", "partitions.resumed"}
    | {"rebalance.delayed", "rebalance.joined", "rebalance.triggered", DELIVERED}
)

#: Finds every line with one of them, by a regular expression that Java and Python know alike.
PATTERN: Final = f'"event": ?"(?:{"|".join(re.escape(event) for event in sorted(EVENTS))})"'

#: Finds every answer to a heartbeat.
ALIVE: Final = rf'"api": ?"(?:{"|".join(_HEARTBEATS)})".*"event": ?"{re.escape(HEARTBEAT)}"'

#: Finds a line that a trace may have: an event by its name, or a line that was cut off before it.
OURS: Final = r'"event": ?"[a-z_]+\.[a-z_]+"|\{"consumer":'

#: Why a line is not understood.
TORN, NO_TIME, NO_GROUP, OTHER = "torn", "no time", "no group", "another event"
REASONS: Final = (TORN, NO_TIME, NO_GROUP, OTHER)

#: What is counted of a file that has no line of a trace.
NOT_A_TRACE: Final = "not a trace"

#: How a line begins that aktor writes.
_BEGINNING: Final = '{"consumer":'


#: How aktor's own lines begin and end: enough to sort them, at a fifth of what parsing costs.
_HEAD: Final = re.compile(
    r'\{"consumer": (?:"(?:[^"\\]|\\.)*"|null), "group": (?:"([^"\\]*)"|null)'
)
_TAIL: Final = re.compile(
    r'"event": "([a-z_.]+)", "t": ([0-9]{1,11}(?:\.[0-9]+)?), "host": "([^"\\]*)",'
    r'(?: "pid": [0-9]{1,15},)? "trace": "([0-9a-f]+)", "line": ([0-9]{1,15})\}$'
)
_TAIL_MAX: Final = 400
_API: Final = re.compile(rf'"api": "(?:{"|".join(_HEARTBEATS)})"')

#: A time (`t`) from here on (the year 5138) is not understood, and a number as great as _GREATEST
#: is replaced by null.
_T_END: Final = 1e11
_GREATEST: Final = 10**15

#: A line whose JSON is nested deeper than this is not understood. Events are pickled, and Python
#: pickles 500 levels at most.
_DEEPEST: Final = 200

#: Finds the lines that may need `_cleaned`: those with a lone surrogate (which is no UTF-8) or
#: with such a great number.
_ODD: Final = re.compile(r"\\u[dD]|[\ud800-\udfff]|[0-9]{16}|[0-9][eE]|Infinity|NaN")


class Glance(NamedTuple):
    """What is seen of a line without parsing it."""

    event: str
    t: float
    group: str
    source: str
    line: int


def glance(line: str) -> Glance | None:
    """A few fields of the line, found without parsing it. None if the line does not look as aktor
    writes it: then call `parse`."""
    tail = _TAIL.search(line, max(0, len(line) - _TAIL_MAX))
    head = None if tail is None else _HEAD.match(line)
    if tail is None or head is None:
        return None
    if tail[1] not in EVENTS and not (tail[1] == HEARTBEAT and _API.search(line)):
        return None
    group = ALONE if head[1] is None else head[1]
    return Glance(tail[1], float(tail[2]), group, tail[4], int(tail[5]))


class NotUnderstoodError(ValueError):
    """`reason` is one of `REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse(line: str, file: str = "") -> Event:
    """The event in a line of this file; raises `NotUnderstoodError`.

    "source" says which consumer's trace it is from. Traces that do not have `trace` (written by an
    older aktor) are told apart by their file and their client id.
    """
    event = _load(line)
    if event is None:
        raise NotUnderstoodError(TORN)
    name = event.get("event")
    if not isinstance(name, str) or not (name in EVENTS or _is_heartbeat(name, event)):
        raise NotUnderstoodError(OTHER)
    t = event.get("t")
    if isinstance(t, bool) or not isinstance(t, int | float) or not 0 <= t < _T_END:
        raise NotUnderstoodError(NO_TIME)
    if event.get("group", 0) is None:
        event["group"] = ALONE
    if not isinstance(event.get("group"), str):
        raise NotUnderstoodError(NO_GROUP)
    event["t"] = float(t)
    event["source"] = str(event.get("trace") or f"{file}#{event.get('consumer')}")
    return event


def _is_heartbeat(name: str, event: Event) -> bool:
    return name == HEARTBEAT and event.get("api") in _HEARTBEATS


def _load(line: str) -> Event | None:
    """The JSON object of a line. If a torn line and the next one became one line, that of the
    second."""
    for start in _starts(line):
        try:
            found = json.loads(line[start:] if start else line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(found, dict) or (_may_be_deep(line) and _is_deep(found)):
            continue
        return _cleaned(found) if _ODD.search(line) else found
    return None


def _may_be_deep(line: str) -> bool:
    return len(line) > 2 * _DEEPEST and line.count("[") + line.count("{") > _DEEPEST


def _is_deep(found: Any) -> bool:
    level = [found]
    for _ in range(_DEEPEST):
        inner = (parent.values() if isinstance(parent, dict) else parent for parent in level)
        level = [child for some in inner for child in some if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _cleaned(value: Any) -> Any:
    """The same, without what no table can hold."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int | float):
        return value if abs(value) < _GREATEST else None
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(item) for name, item in value.items()}
    return value


def _starts(line: str) -> Iterator[int]:
    yield 0
    for start in (line.find("{"), line.rfind(_BEGINNING)):
        if start > 0:
            yield start
