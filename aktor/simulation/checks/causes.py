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


def a_commit_follows_from_nothing_before_its_call(history: History) -> list[str]:
    """A commit that the application asks for begins a chain of its own: nothing that was told
    before the call is the cause of its first request, such as the end of the commit before. But one
    that a listener asks for follows from what the application does in the rebalance; or from what
    led to that, if the manager hears of the rebalance, too, before it acts."""
    complaints = []
    told: dict[str, dict[int, int]] = defaultdict(dict)
    #: The commits that are asked for and not over: when each began, by its number; None: the one
    #: for which the application waits.
    asked: dict[str, dict[int | None, int]] = defaultdict(dict)
    #: What led to the step on which the application has acted last, and what that led to.
    step: dict[str, set[int]] = defaultdict(set)
    for place, event in enumerate(history.events):
        who = event["member"]
        if "seq" in event:
            told[who][event["seq"]] = place
            if event.get("actor") == "application" and "cause" in event:
                step[who] = _led_to(event, told[who], history)
        match event["event"]:
            case "user.commits" if "future" in event:  # else a producer's transaction commits
                asked[who].setdefault(event["future"], place)
            case "commit.told":
                asked[who].pop(event["future"], None)
            case "user.committed" | "user.hears" | "user.interrupted":
                asked[who].pop(None, None)
            case "commit.sent" if event.get("attempts") == 1 and event["kind"] == "asked":
                led = told[who].get(event.get("cause", 0))
                if led is not None and led < min(asked[who].values(), default=0):
                    before = history.events[led]
                    acts = before.get("actor") == "application" and "cause" in before
                    if acts or event["cause"] in step[who]:
                        continue  # it acts on a step
                    what = f"a commit was led to by {before['event']}, before it"
                    complaints.append(f"{when(event)}: {what}")
    return complaints


def _led_to(event: Event, told: dict[int, int], history: History) -> set[int]:
    """The numbers of this event, and of all that led to it."""
    chain: set[int] = set()
    at: Event | None = event
    while at is not None and at["seq"] not in chain:
        chain.add(at["seq"])
        led = told.get(at.get("cause", 0))
        at = None if led is None else history.events[led]
    return chain


CHECKS: Final = (nothing_follows_from_a_mere_effect, a_commit_follows_from_nothing_before_its_call)
