"""Endings: what was begun ends, once and in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from aktor.simulation.checks.readers import gone_consumers, process_of, standing_still, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Seconds after which what was begun has ended, whatever is configured in a storm.
ENDS: Final = 90.0


def calls_end_in_time(history: History) -> list[str]:
    """No call takes longer than its timeout, but for the listener's time, and a frozen process."""
    complaints = []
    frozen: dict[str, list[list[float]]] = defaultdict(list)
    for event in history.events:
        process = process_of(event["member"])
        match event["event"]:
            case "member.frozen":
                frozen[process].append([event["at"], event["at"]])
            case "member.thawed":
                frozen[process][-1][1] = event["at"]
            case "call.late":
                began = event["at"] - event["took"]
                stood = sum(max(0.0, end - max(start, began)) for start, end in frozen[process])
                if event["took"] - stood > event["allowed"] + 1.0:
                    complaints.append(
                        f"{when(event)} waited {event['took']:.3f} s for {event['call']}, which"
                        f" may take {event['allowed']:.3f} s"
                    )
    return complaints


def every_request_ends_once(history: History) -> list[str]:
    """An answer or a failure for each request, and only for requests that were sent."""
    complaints = []
    sent: dict[tuple[str, int, int], Event] = {}
    for event in history.events:
        name = event["event"]
        if name == "actor.started" and event.get("started") == "network":
            # The requests of the one before ended with it: their askers were told of the restart.
            for key in [key for key in sent if key[0] == event["member"]]:
                del sent[key]
        if name not in ("request.sent", "request.answered", "request.failed"):
            continue
        key = event["member"], event["incarnation"], event["request"]
        if name == "request.sent":
            if key in sent:
                complaints.append(f"{when(event)} sent request {key[2]} twice")
            sent[key] = event
        elif key in sent:
            del sent[key]
        elif name == "request.answered":
            complaints.append(f"{when(event)} had request {key[2]} answered twice, or unasked")
    return complaints + _without_end(history, sent.values(), "sent request")


def every_future_ends_once(history: History) -> list[str]:
    """What `commit_async` returned ends by itself, by success or by an error."""
    complaints = []
    given: dict[tuple[str, int], Event] = {}
    for event in history.named("future.given", "future.ended"):
        key = event["member"], event["future"]
        if event["event"] == "future.given":
            given[key] = event
        elif given.pop(key, None) is None:
            complaints.append(f"{when(event)} had future {key[1]} ended twice")
    return complaints + _without_end(history, given.values(), "was given future")


def _without_end(history: History, begun: Iterable[Event], what: str) -> list[str]:
    """Those that are still open, though they began long ago and their process lives."""
    if not history.events:
        return []
    end = history.events[-1]["at"]
    gone = gone_consumers(history)
    standing = standing_still(history)
    return [
        f"{when(event)} {what}, which never ended"
        for event in begun
        if event["member"] not in gone
        and event["at"] + ENDS + standing[process_of(event["member"])] < end
    ]


CHECKS: Final = (
    calls_end_in_time,
    every_request_ends_once,
    every_future_ends_once,
)
