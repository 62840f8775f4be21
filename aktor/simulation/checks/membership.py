"""Membership: a member that leaves is removed, and none takes itself for a member too long."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Final

from aktor.simulation.checks.ownership import FORGOTTEN_WITHIN
from aktor.simulation.checks.readers import process_of, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Seconds after which a heartbeat tells what has become of a partition: it may wait for an answer.
REPORTED: Final = 5.0

#: Why a member gives its id up without a word: it is not known there (in the consumer protocol: it
#: begins again from epoch 0), or may not ask. (The next coordinator may know it again, until its
#: session ends: a classic group is stored when a SyncGroup ends a rebalance, not when a session
#: does; Kafka's GroupMetadataManager.removeMemberAndUpdateClassicGroup writes no record.)
_WITHOUT_A_WORD: Final = (
    "fenced: UNKNOWN_MEMBER_ID",
    "fenced: FENCED_MEMBER_EPOCH",
    "after GroupAuthorizationFailedError",
)

#: What follows the reason if the process or its machine stood still before.
_STOOD_STILL: Final = " after the "

#: With these a coordinator refuses a goodbye that it would take a moment later, or another would.
_PASSING: Final = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
)


def _is_done_with(event: Event) -> bool:
    """Whether the member has said that it leaves, or cannot say it. (A member may be refused the
    group before it has heard that it is in it: then it only moves.)"""
    match event["event"]:
        case "member.left":
            return event.get("error") not in _PASSING
        case "member.stayed":
            return True
        case "membership.moved" if event["after"] != "fatal" or not event.get("member_id"):
            return False
        case _:
            because, _, _ = event["because"].partition(_STOOD_STILL)
            return because in _WITHOUT_A_WORD


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
    """No group has a member without a consumer (`strangers`). Excused are members of killed
    processes and of consumers whose actors have failed for good, members that came back with an
    older state of the group, and members whose LeaveGroup could not be delivered."""
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
    """A member never counts on its coordinator for longer than that keeps it: until its session
    ends, or a rebalance has waited for it; unless it slept meanwhile."""
    complaints = []
    slept: dict[str, float] = {}
    for event in history.named("session.overrated", "member.thawed"):
        if event["event"] == "member.thawed":
            if event.get("asleep"):
                slept[event["member"]] = event["at"]
        elif event["at"] > slept.get(process_of(event["member"]), -math.inf) + FORGOTTEN_WITHIN:
            complaints.append(
                f"{when(event)} believes in its membership for {event['seconds']} s too long"
            )
    return complaints


def a_leave_is_the_one_that_is_asked_for(history: History) -> list[str]:
    """A dynamic member leaves (in the consumer protocol: epoch -1). A static one keeps its place,
    unless `close` is to leave: it says nothing in the classic protocol, epoch -2 in the other."""
    complaints = []
    instances: dict[str, str | None] = {}
    operations: dict[str, str] = {}
    for event in history.named("consumer.made", "user.leaves", "leave.heard"):
        who = event["member"]
        if event["event"] == "consumer.made":
            instances[who] = event["group_instance_id"]
        elif event["event"] == "user.leaves":
            operations[who] = event.get("operation", "default")
        elif (asked := operations.get(who, "default")) != "remain_in_group":
            stays = instances.get(who) is not None and asked != "leave_group"
            said = event.get("epoch")
            if said not in ((-2,) if stays else (None, -1)):
                complaints.append(
                    f"{when(event)} said {'LeaveGroup' if said is None else f'epoch {said}'} when"
                    f" it left, and {'keeps its place' if stays else 'leaves'}"
                )
    return complaints


def after_a_failure_everything_is_said_again(history: History) -> list[str]:
    """After a failed heartbeat of the consumer protocol the member cannot know which fields have
    arrived: the next heartbeat that is answered has all fields again."""
    complaints = []
    #: Of consumers whose heartbeat has failed: None, or the answer that came without.
    owing: dict[str, Event | None] = {}
    #: The one that each sent last: an older one was given up, and has told so.
    latest: dict[str, object] = {}
    #: How many heartbeats of each a broker refused before the group heard of them.
    refused: Counter[str] = Counter()
    #: Those that were on their way when another failed. Their answers are dropped.
    given_up: dict[str, object] = {}
    for event in history.events:
        who, name = event["member"], event["event"]
        complete = name == "heartbeat.heard" and event["full"] and event["owned"] is not None
        if complete or name in ("leave.heard", "member.left"):
            owing.pop(who, None)
        elif name == "heartbeat.failed":
            owing[who] = None
            given_up[who] = latest.get(who)
        if event.get("api") != "ConsumerGroupHeartbeat":
            continue
        if name == "request.hindered":
            refused[who] += 1
        elif name == "request.failed":
            if event.get("request") == latest.get(who):
                owing[who] = None
        elif name == "request.answered" and refused[who]:
            refused[who] -= 1
        elif name == "request.answered" and who in owing:
            if (number := event.get("request")) is None or number != given_up.get(who):
                owing[who] = event
        elif name == "request.sent" and (answered := owing.get(who)) is not None:
            complaints.append(f"{when(answered)} was answered, and had not said everything again")
            del owing[who]
        if name == "request.sent":
            latest[who] = event.get("request")
    return complaints


def a_member_reports_what_it_has(history: History) -> list[str]:
    """Who says in the consumer protocol which partitions it has names all that its application owns
    and has not begun to give up, and none that was given up long ago."""
    complaints = []
    #: By consumer: since when its application has partitions; since when it has them no more and
    #: its membership has gone on (a reconciliation is acknowledged when it is through, as a whole).
    mine: dict[str, dict[str, float]] = defaultdict(dict)
    gone: dict[str, dict[str, float]] = defaultdict(dict)
    released: dict[str, set[str]] = defaultdict(set)
    #: Since when the connection was tried that was opened last: what goes first is as old as that.
    tried: dict[str, float] = {}
    #: Who waits for no answer any more: what the group hears now was on its way for long.
    given_up: set[str] = set()
    for event in history.events:
        who: str = event["member"]
        at: float = event["at"]
        match event["event"]:
            case "connection.opened":
                tried[who] = at - event["ms"] / 1000
            case "request.answered":
                tried.pop(who, None)
            case "request.sent" if event["api"] == "ConsumerGroupHeartbeat":
                given_up.discard(who)
            case "request.failed" if event["api"] == "ConsumerGroupHeartbeat":
                given_up.add(who)
            case "partitions.assigned" if event["by_group"]:
                for partition in event["partitions"]:
                    mine[who][partition] = at
                    gone[who].pop(partition, None)
                    released[who].discard(partition)
            case "partitions.held_back" | "partitions.released":
                for partition in event["partitions"]:
                    mine[who].pop(partition, None)
                if event["event"] == "partitions.released":
                    released[who].update(event["partitions"])
            case "membership.moved":
                gone[who].update(dict.fromkeys(released.pop(who, ()), at))
            case "member.thawed":
                for ages in [
                    ages for consumer, ages in gone.items() if process_of(consumer) == who
                ]:
                    ages.update(dict.fromkeys(ages, at))
            case "rebalance.target":
                gone[who].clear()  # it may be what it is about to take on
            case "topic.removed" | "topic.created" | "topic.grown":
                mine.clear()
                gone.clear()
            case "heartbeat.heard" if (
                event["owned"] is not None and event["epoch"] > 0 and who not in given_up
            ):
                reported = set(event["owned"])
                known = tried.get(who, at) - REPORTED
                missing = {partition for partition, since in mine[who].items() if since < known}
                if left_out := missing - reported:
                    complaints.append(f"{when(event)} did not report {sorted(left_out)}, its own")
                late = {partition for partition, since in gone[who].items() if since < known}
                if wrong := late & reported:
                    complaints.append(f"{when(event)} reported {sorted(wrong)}, given up before")
    return complaints


def a_target_is_reached(history: History) -> list[str]:
    """In the consumer protocol a rebalance is through when a member owns what it was told last."""
    complaints = []
    targets: dict[str, int] = {}
    for event in history.named(
        "rebalance.target", "rebalance.completed", "member.lost", "actor.restarted"
    ):
        who = event["member"]
        if event["event"] == "rebalance.target":
            targets[who] = event["partition_count"]
        elif event["event"] == "rebalance.completed":
            target = targets.get(who, event["owned"])
            if event["owned"] != target:
                complaints.append(
                    f"{when(event)} is through with {event['owned']} partitions, and was to own"
                    f" {target}"
                )
        else:
            targets.pop(who, None)
    return complaints


CHECKS: Final = (
    who_leaves_is_gone,
    nobody_is_left_behind,
    no_session_is_believed_in_for_too_long,
    a_leave_is_the_one_that_is_asked_for,
    after_a_failure_everything_is_said_again,
    a_member_reports_what_it_has,
    a_target_is_reached,
)
