"""Membership: who leaves is gone, and nobody takes itself for a member for too long."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

from aktor.simulation.checks.ownership import FORGOTTEN_WITHIN
from aktor.simulation.checks.readers import process_of, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Why a member gives its id up without a word: it is not known there (in the consumer protocol: it
#: begins again from epoch 0), or may not ask.
_WITHOUT_A_WORD: Final = (
    "fenced: UNKNOWN_MEMBER_ID",
    "fenced: FENCED_MEMBER_EPOCH",
    "after GroupAuthorizationFailedError",
)


def _is_done_with(event: Event) -> bool:
    """Whether the member has said that it leaves, or cannot say it. (A member may be refused the
    group before it has heard that it is in it: then it only moves.)"""
    match event["event"]:
        case "member.left" | "member.stayed":
            return True
        case "membership.moved" if event["after"] != "fatal" or not event.get("member_id"):
            return False
        case _:
            return event["because"] in _WITHOUT_A_WORD


def who_leaves_is_gone(history: History) -> list[str]:
    """A group has nothing of a consumer that was closed or unsubscribed: no member id but those
    that it had no time or no right to take back, or was interrupted when it did, and those that
    came back with an older state of the group after the coordinator had said that they are gone.
    Nor of one whose actors are beyond help."""
    complaints = []
    excused: dict[str, set[str]] = defaultdict(set)
    given_up: set[str] = set()
    beyond_help: set[str] = set()
    for event in history.events:
        who = event["member"]
        match event["event"]:
            case "user.leaves":
                given_up.discard(who)
            case "member.left" | "member.stayed" | "member.lost" | "membership.moved":
                if _is_done_with(event):
                    excused[who].add(event["member_id"])
            case "member.epoch":
                excused[who].discard(event["member_id"])  # the consumer protocol keeps its id
            case "member.leave_failed" | "user.interrupted":
                given_up.add(who)
            case "actor.escalated":
                beyond_help.add(who)
            case "group.still_has" if who in given_up | beyond_help:
                excused[who].update(event["member_ids"])
            case "group.still_has":
                if left := set(event["member_ids"]) - excused[who]:
                    complaints.append(f"{when(event)} has left, but its group has {sorted(left)}")
    return complaints


def nobody_is_left_behind(history: History) -> list[str]:
    """A group has no member that nobody looks after (`strangers`), but of a process that was
    killed, of a consumer whose actors are beyond help, and those that came back with an older state
    of the group, or could not be told that they leave."""
    complaints = []
    excused: dict[str, set[str]] = defaultdict(set)
    dead: set[str] = set()
    for event in history.events:
        who = event["member"]
        match event["event"]:
            case "member.left" | "member.stayed" | "member.lost" | "membership.moved":
                if _is_done_with(event):
                    excused[who].add(event["member_id"])
            case "group.still_has":
                excused[who].update(event["member_ids"])  # `who_leaves_is_gone` judges it
            case "member.killed" | "actor.escalated":
                dead.add(who)
            case "group.has_stranger" if not {who, process_of(who)} & dead:
                if event["member_id"] not in excused[who]:
                    complaints.append(
                        f"{when(event)} does not know {event['member_id']}, which is a member of"
                        f" its group since {event['since']} at least"
                    )
    return complaints


def no_session_is_believed_in_for_too_long(history: History) -> list[str]:
    """A member never takes its session for longer than its coordinator does, which may expel it
    then, unless it slept meanwhile."""
    complaints = []
    slept: dict[str, float] = {}
    for event in history.named("session.overrated", "member.thawed"):
        if event["event"] == "member.thawed":
            if event.get("asleep"):
                slept[event["member"]] = event["at"]
        elif event["at"] > slept.get(process_of(event["member"]), -math.inf) + FORGOTTEN_WITHIN:
            complaints.append(
                f"{when(event)} believes in its session for {event['seconds']} s too long"
            )
    return complaints


CHECKS: Final = (
    who_leaves_is_gone,
    nobody_is_left_behind,
    no_session_is_believed_in_for_too_long,
)
