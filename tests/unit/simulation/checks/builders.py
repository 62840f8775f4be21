"""Histories for the tests of the checks: their events, by what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aktor.simulation.history import History

Check = Callable[[History], list[str]]

#: What happened: to whom, the event, its values.
Step = tuple[str, str, dict[str, Any]]
Story = list[Step]


def history(*story: Step) -> History:
    """One event a second: (member, event, values); more time passes by "time.passed"."""
    passed = 0.0
    told = History(lambda: passed + len(told.events), 0.0)
    for member, event, values in story:
        passed += values.get("seconds", 0.0) if event == "time.passed" else 0.0
        told.note(event, member, **{"group": "g", "level": "info", **values})
    return told


def written(first: int, last: int) -> Step:
    return "", "records.written", {"partition": "a-0", "first": first, "last": last}


def synced(member: str, generation: int) -> Step:
    return member, "rebalance.synced", {"generation": generation}


def assigned(member: str) -> Step:
    return member, "partitions.assigned", {"partitions": ["a-0"], "by_group": True}


def in_group(group: str, step: Step) -> Step:
    """The same, in another group than "g"."""
    member, event, values = step
    return member, event, {**values, "group": group}


def seen(**values: Any) -> Step:
    """What a consumer counts, and what there is: the same, unless it is said."""
    same = {"reserved": 0, "asked": 0, "counted": 0, "held": 0, "questions": []}
    return "x", "books.seen", {**same, **values}


def interrupted(method: str) -> Step:
    return "x", "user.interrupted", {"by": "alarm", "method": method}


def reset_to(strategy: str) -> Step:
    return "x", "position.reset", {"partitions": {"a-0": 0}, "strategy": strategy, "because": ""}


def starts(instance: str | None) -> Step:
    values = {"fetch_max_wait_ms": 500, "retry_backoff_ms": 100, "group_instance_id": instance}
    return "x", "consumer.made", values


def called_back(error: str | None = None) -> Step:
    """The callback of an asynchronous commit is called."""
    return "x", "commit.told", {"future": 0, "error": error}


def leaves(operation: str = "default") -> Step:
    return "x", "user.leaves", {"operation": operation}


def going(member: str, loss: str) -> Step:
    """It is told that it has to give its partition up."""
    return member, "partitions.revoking", {"partitions": ["a-0"], "loss": loss}


def released(member: str) -> Step:
    return member, "partitions.released", {"partitions": {"a-0": None}}


def resolved(member: str, offset: int) -> Step:
    return member, "position.resolved", {"partitions": {"a-0": offset}}


def sought(member: str, offset: int) -> Step:
    return member, "position.sought", {"partitions": {"a-0": offset}}


def given(member: str, first: int, last: int) -> Step:
    return member, "records.delivered", {"partition": "a-0", "offsets": [[first, last]]}


def back(member: str) -> Step:
    """Its user is done with what was given, and calls the consumer again."""
    return member, "user.returned", {}


def to_commit(member: str, offset: int, kind: str) -> Step:
    return member, "commit.sent", {"offsets": {"a-0": offset}, "kind": kind}


UNANSWERED: Step = ("x", "request.failed", {"api": "OffsetCommit"})

FOUND_AT_8: Step = (
    *("x", "position.resolved"),
    {"partitions": {"a-0": 8}, "because": "committed"},
)


def succeeded(member: str, offset: int) -> Step:
    return member, "commit.succeeded", {"offsets": {"a-0": offset}}


def at_position(member: str, offset: int) -> Step:
    """It says so to its user."""
    return member, "user.position", {"partitions": {"a-0": offset}}


def committed(offset: int) -> Step:
    return "", "offset.committed", {"partition": "a-0", "offset": offset}


def restarted(actor: str) -> Step:
    return "x", "actor.restarted", {"actors": [actor, "fetch"]}


def later(seconds: float) -> Step:
    """Time passes."""
    return "", "time.passed", {"seconds": seconds}


def out(event: str, because: str = "") -> Step:
    """It is out of its group: it "left", was "lost", or "stayed" (its LeaveGroup failed)."""
    return "x", f"member.{event}", {"member_id": "x-1", "because": because}


def told(word: str) -> Step:
    """The listener is called."""
    return "x", "listener.told", {"told": word, "partitions": ["a-0"]}


def request(member: str, event: str) -> Step:
    return member, f"request.{event}", {"api": "Fetch", "request": 1, "incarnation": 1}


OUT_OF_RANGE: Step = (
    "x",
    "fetch.stopped",
    {"partition": "a-0", "offset": 5, "because": "OffsetOutOfRangeError: a-0"},
)

COORDINATED: Step = "x", "coordinator.found", {"node": 2}

HELD_BACK = ("x", "partitions.held_back", {"partitions": {"a-0": 5}})

A_LONG_TIME = [("", "fault.began", {"number": one}) for one in range(30)]

FROZEN, THAWED = ("x", "member.frozen", {}), ("x", "member.thawed", {})

PAUSED = ("x", "partitions.paused", {"partitions": ["a-0"]})

RESUMED = ("x", "partitions.resumed", {"partitions": ["a-0"]})

#: From now on all must be read.
ALL = ("", "progress.demanded", {})

#: A member was given five of ten records, and has them in hand.
OWNED = [written(0, 9), synced("x", 1), assigned("x"), resolved("x", 0), given("x", 0, 4)]
