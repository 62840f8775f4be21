"""Lines of trace files: which of them tell of rebalances, and what is in them.

Logs come as they were shipped: with lines of other programs, with a last line that was cut off, or
with another one behind such a torn one, or with a prefix. What is not understood is counted by its
reason.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

__all__ = ["DELIVERED", "EVENTS", "PATTERN", "REASONS", "Event", "NotUnderstoodError", "parse"]

#: An event of a trace, as it was read: "event", "t", "group" and "source" are there.
Event = dict[str, Any]

#: By far the most frequent of the events.
DELIVERED: Final = "records.delivered"

#: The events that are needed.
EVENTS: Final = frozenset(
    {"callback.failed", "callback.finished", "commit.failed", "member.epoch", "member.left"}
    | {"member.lost", "membership.moved", "partitions.assigned", "partitions.released", "poll.late"}
    | {"position.reset", "rebalance.completed", "rebalance.delayed", "rebalance.joined"}
    | {"rebalance.triggered", DELIVERED}
)

#: Finds every line with one of them, by a regular expression that Java and Python know alike.
PATTERN: Final = f'"event": ?"(?:{"|".join(re.escape(one) for one in sorted(EVENTS))})"'

#: Why a line is not understood.
TORN, NO_TIME, NO_GROUP, OTHER = "torn", "no time", "no group", "another event"
REASONS: Final = (TORN, NO_TIME, NO_GROUP, OTHER)

#: How a line begins that aktor writes.
_BEGINNING: Final = '{"consumer":'


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
    if event.get("event") not in EVENTS:
        raise NotUnderstoodError(OTHER)
    t = event.get("t")
    if isinstance(t, bool) or not isinstance(t, int | float) or not math.isfinite(t):
        raise NotUnderstoodError(NO_TIME)
    if not isinstance(event.get("group"), str):
        raise NotUnderstoodError(NO_GROUP)
    event["t"] = float(t)
    event["source"] = str(event.get("trace") or f"{file}#{event.get('consumer')}")
    return event


def _load(line: str) -> Event | None:
    """The JSON object of a line; of two that a torn line made one, the last."""
    for start in (0, line.find("{"), line.rfind(_BEGINNING)):
        if start >= 0:
            try:
                found = json.loads(line[start:])
            except ValueError:
                continue
            if isinstance(found, dict):
                return found
    return None
