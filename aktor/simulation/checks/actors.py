"""Actors: no message is lost, no handler raises, and one that crashes too often is given up."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aktor.simulation.checks.readers import process_of, when
from aktor.simulation.history import History

__all__ = ["CHECKS"]

#: As the supervisor has it: so many crashes of one actor in so many seconds are mended.
RESTARTS: Final = 5
WITHIN: Final = 60.0


def no_message_vanishes(history: History) -> list[str]:
    """No actor is told what it has no handler for; no fetched data has a gap before it."""
    return [
        f"{when(event)}: {event}"
        for event in history.named("message.dropped", "chunk.dropped")
        if event.get("because") == "unknown" or event["level"] == "error"
    ]


def no_actor_crashes_by_itself(history: History) -> list[str]:
    """An actor is restarted and all goes on, so nothing else shows a handler that raised. Those
    that the simulation made raise say so."""
    return [
        f"{when(event)}: {event['child']} crashed on {event['message_type']}: {event['because']}"
        for event in history.named("actor.crashed")
        if not str(event["because"]).startswith("Crash: ")
    ]


def restart_budgets_are_kept(history: History) -> list[str]:
    """An actor is restarted until it has used up its restarts. Then it is given up, and after that
    nothing of its consumer is restarted."""
    complaints = []
    restarts: dict[tuple[str, str], list[float]] = defaultdict(list)
    escalated: set[str] = set()
    #: By how much a member's clock is ahead: budgets go by it.
    ahead: dict[str, float] = defaultdict(float)
    frozen: dict[str, float] = {}
    for event in history.events:
        member = event["member"]
        match event["event"]:
            case "clock.jumped":
                ahead[member] += event["seconds"]
            case "member.frozen":
                frozen[member] = event["at"]
            case "member.thawed" if event.get("asleep"):
                ahead[member] -= event["at"] - frozen.get(member, event["at"])
            case "actor.escalated":
                escalated.add(member)
                now = event["at"] + ahead[process_of(member)]
                restarted = restarts[member, event["child"]]
                if sum(now - restart < WITHIN for restart in restarted) < RESTARTS:
                    complaints.append(f"{when(event)} gave {event['child']} up too soon")
            case "actor.restarted":
                if member in escalated:
                    complaints.append(f"{when(event)} restarted {event['actors']} after it gave up")
                now = event["at"] + ahead[process_of(member)]
                recent = restarts[member, event["actors"][0]]
                recent[:] = [*(restart for restart in recent if now - restart < WITHIN), now]
                if len(recent) > RESTARTS:
                    complaints.append(
                        f"{when(event)} restarted {event['actors'][0]} {len(recent)} times in"
                        f" {WITHIN:g} s"
                    )
    return complaints


CHECKS: Final = (
    no_message_vanishes,
    no_actor_crashes_by_itself,
    restart_budgets_are_kept,
)
