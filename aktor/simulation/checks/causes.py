"""Causes: what an event's `cause` leads back to (docs/trace.md)."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aktor.simulation.checks.readers import when
from aktor.simulation.history import Event, History

__all__ = ["EFFECTS"]

#: What happens to records and messages, and what is only seen.
EFFECTS: Final = frozenset(
    {
        *("records.delivered", "records.taken_back"),
        "message.dropped",
        *("delivery.stalled", "delivery.resumed"),
        *("clock.set", "heartbeat.late", "poll.overdue"),
    }
)


def nothing_follows_from_a_mere_effect(history: History) -> list[str]:
    """No event has an effect as its cause. So what is done in a rebalance (a request, a callback, a
    commit) is walked back to the message that led to it, also while records wait."""
    told: dict[str, dict[int, Event]] = defaultdict(dict)
    for event in history.events:
        if "seq" in event:
            told[event["member"]][event["seq"]] = event
    complaints = []
    for events in told.values():
        for event in events.values():
            led = events.get(event.get("cause", 0))
            if led is not None and _is_effect(led):
                complaints.append(f"{when(event)}: {event['event']} was led to by {led['event']}")
    return complaints


def _is_effect(event: Event) -> bool:
    if event["event"] == "chunk.dropped":  # (After a gap it is fetched anew.)
        return bool(event["because"] == "the partition has moved on")
    return event["event"] in EFFECTS


CHECKS: Final = (nothing_follows_from_a_mere_effect,)
