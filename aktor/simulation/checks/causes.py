"""Causes: what an event's `cause` leads back to (docs/trace.md)."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aktor.simulation.checks.readers import when
from aktor.simulation.history import Event, History

__all__ = ["BEGINNINGS", "EFFECTS"]

#: Nothing follows from these, so no event has one of them as its cause.
EFFECTS: Final = frozenset(
    {
        *("records.delivered", "records.taken_back"),
        *("delivery.stalled", "delivery.resumed"),
        *("message.dropped", "clock.set", "heartbeat.late", "poll.overdue"),
    }
)

#: With these a rebalance of a consumer may begin.
BEGINNINGS: Final = frozenset(
    {
        # A time has come, or is over; or the answer to what was sent then.
        *("request.failed", "commit.failed", "rebalance.triggered", "replica.left"),
        *("request.sent", "metadata.requested", "cluster.changed", "membership.moved"),
        *("coordinator.found", "coordinator.lost", "coordinator.retried", "coordinator.suspected"),
        *("bootstrap.started", "connection.closed", "connection.failed", "connection.opened"),
        # A call of the application: it begins, subscribes, seeks, pauses, commits or ends.
        *(
            "actor.started",
            "consumer.started",
            "subscription.matched",
            "subscription.told",
            "membership.doubted",
        ),
        *("position.sought", "partitions.paused", "partitions.resumed", "partitions.assigned"),
        *("partitions.revoking", "callback.finished", "callback.failed", "partitions.released"),
        *("commit.sent", "offsets.requested", "session.unconfirmed"),
        # An actor has crashed.
        *("actor.crashed", "actor.restarted", "call.repaired", "coordinator.refused"),
    }
)

#: The requests of a rebalance.
_REQUESTS: Final = frozenset({"JoinGroup", "SyncGroup", "LeaveGroup"})


def what_a_rebalance_does_leads_back_to_its_beginning(history: History) -> list[str]:
    """Each request, callback and last commit of a rebalance walks back, by the causes, to an event
    with which one may begin; and none has an effect as its cause."""
    told: dict[str, dict[int, Event]] = defaultdict(dict)
    for event in history.events:
        if "seq" in event:
            told[event["member"]][event["seq"]] = event
    complaints = []
    for events in told.values():
        begun: dict[int, Event] = {}
        for number, event in sorted(events.items()):
            cause = event.get("cause")
            led = events.get(cause) if cause is not None else None
            if led is not None and led["event"] in EFFECTS:
                complaints.append(f"{when(event)}: {event['event']} was led to by {led['event']}")
            begun[number] = begin = event if led is None else begun.get(led["seq"], led)
            is_whole = begin.get("cause") is None  # else an event is missing in the history
            if _is_of_a_rebalance(event) and is_whole and begin["event"] not in BEGINNINGS:
                complaints.append(f"{when(event)}: {event['event']} began with {begin['event']}")
    return complaints


def _is_of_a_rebalance(event: Event) -> bool:
    match event["event"]:
        case "request.sent":
            return event["api"] in _REQUESTS
        case "commit.sent":
            return bool(event["kind"] == "revocation")
        case name:
            return name in {"callback.finished", "callback.failed"}


CHECKS: Final = (what_a_rebalance_does_leads_back_to_its_beginning,)
