"""Each check complains about a history in which its promise is broken, and not about a good one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aktor.simulation import checks
from aktor.simulation.checks import (
    actors,
    automatic_commits,
    commits,
    endings,
    limits,
    listener,
    membership,
    ownership,
    pace,
    processing,
    records,
)
from aktor.simulation.history import History

Check = Callable[[History], list[str]]
Story = list[tuple[str, str, dict[str, Any]]]


def history(*story: tuple[str, str, dict[str, Any]]) -> History:
    """One event a second: (member, event, values); more time passes by "time.passed"."""
    passed = 0.0
    told = History(lambda: passed + len(told.events), 0.0)
    for member, event, values in story:
        passed += values.get("seconds", 0.0) if event == "time.passed" else 0.0
        told.note(event, member, **{"group": "g", "level": "info", **values})
    return told


def written(first: int, last: int) -> tuple[str, str, dict[str, Any]]:
    return "", "records.written", {"partition": "a-0", "first": first, "last": last}


def synced(member: str, generation: int) -> tuple[str, str, dict[str, Any]]:
    return member, "rebalance.synced", {"generation": generation}


def assigned(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "partitions.assigned", {"partitions": ["a-0"], "by_group": True}


def in_group(group: str, step: tuple[str, str, dict[str, Any]]) -> tuple[str, str, dict[str, Any]]:
    """The same, in another group than "g"."""
    member, event, values = step
    return member, event, {**values, "group": group}


def hindered(how: str = "FailWith", code: str = "") -> tuple[str, str, dict[str, Any]]:
    return "x", "request.hindered", {"api": "JoinGroup", "broker": 1, "how": how, "code": code}


def asks(event: str) -> tuple[str, str, dict[str, Any]]:
    return "x", f"request.{event}", {"api": "JoinGroup", "node": 1}


def refused(waits: float, code: str = "") -> Story:
    """A broker refuses a JoinGroup, which is repeated so many seconds later."""
    return [
        hindered(code=code),
        asks("answered"),
        later(waits - 2.0),
        asks("sent"),
        asks("answered"),
    ]


DELAYED: tuple[str, str, dict[str, Any]] = ("x", "rebalance.delayed", {})


def handler(what: str, offset: int, error: str | None = None) -> tuple[str, str, dict[str, Any]]:
    """In `process`, a handler begins or ends with a record of the key k."""
    of = {"partition": "a-0", "offset": offset, "lane": "a-0/k"}
    return "x", f"handler.{what}", of | ({"error": error} if what == "ended" else {})


HANDED_BACK = (
    "x",
    "callback.finished",
    {"callback": "on_partitions_revoked", "partitions": ["a-0"]},
)


def hits(what: str, which: Any) -> Story:
    """A fault that hits only this."""
    began = "", "fault.began", {"number": 1, "kind": "loss"}
    return [began, ("", "fault.hits", {"number": 1, what: [which]})]


def seen(**values: Any) -> tuple[str, str, dict[str, Any]]:
    """What a consumer counts, and what there is: the same, unless it is said."""
    same = {"reserved": 0, "asked": 0, "counted": 0, "held": 0, "questions": []}
    return "x", "books.seen", {**same, **values}


def crashed(error: str) -> tuple[str, str, dict[str, Any]]:
    return "x", "actor.crashed", {"crashed": "fetch", "handling": "Tick", "error": error}


def polled(error: str | None = None) -> tuple[str, str, dict[str, Any]]:
    return "x", "user.polled", {"error": error}


def interrupted(method: str) -> tuple[str, str, dict[str, Any]]:
    return "x", "user.interrupted", {"by": "alarm", "method": method}


def wants(to: str) -> tuple[str, str, dict[str, Any]]:
    """The user asks for the beginning or the end."""
    return "x", "user.asked", {"told_as": "position.sought", "partitions": {"a-0": None}, "to": to}


def reset_to(strategy: str) -> tuple[str, str, dict[str, Any]]:
    return "x", "position.reset", {"partitions": {"a-0": 0}, "strategy": strategy, "because": ""}


def to_be_committed(*partitions: str) -> tuple[str, str, dict[str, Any]]:
    return "x", "user.commits", {"partitions": list(partitions) or None}


def starts(instance: str | None) -> tuple[str, str, dict[str, Any]]:
    values = {"fetch_max_wait_ms": 500, "retry_backoff_ms": 100, "group_instance_id": instance}
    return "x", "consumer.made", values


def starting(policy: str) -> tuple[str, str, dict[str, Any]]:
    """A consumer with this `auto_offset_reset`."""
    member, event, values = starts(None)
    return member, event, {**values, "auto_offset_reset": policy}


def future(event: str) -> tuple[str, str, dict[str, Any]]:
    """Something becomes of an asynchronous commit."""
    return "x", event, {"future": 0}


def called_back(error: str | None = None) -> tuple[str, str, dict[str, Any]]:
    """The callback of an asynchronous commit is called."""
    return "x", "commit.told", {"future": 0, "error": error}


def closed() -> tuple[str, str, dict[str, Any]]:
    return "x", "consumer.closed", {"questions": 0}


def leaves(operation: str = "default") -> tuple[str, str, dict[str, Any]]:
    return "x", "user.leaves", {"operation": operation}


def goodbye(epoch: int | None) -> tuple[str, str, dict[str, Any]]:
    """The group hears one; of the classic protocol, without an epoch."""
    return "x", "leave.heard", {} if epoch is None else {"epoch": epoch}


def heartbeat(event: str, request: int | None = None) -> tuple[str, str, dict[str, Any]]:
    return (
        *("x", f"request.{event}"),
        {"api": "ConsumerGroupHeartbeat", "node": 1, "request": request},
    )


def looks(event: str) -> tuple[str, str, dict[str, Any]]:
    return "x", f"request.{event}", {"api": "FindCoordinator", "request": 1}


def targets(partitions: int) -> tuple[str, str, dict[str, Any]]:
    return "x", "rebalance.target", {"partitions": partitions, "generation": 1}


def through(owned: int) -> tuple[str, str, dict[str, Any]]:
    return "x", "rebalance.completed", {"owned": owned}


def reports(*partitions: str, full: bool = True, epoch: int = 5) -> tuple[str, str, dict[str, Any]]:
    return "x", "heartbeat.heard", {"full": full, "owned": list(partitions), "epoch": epoch}


def going(member: str, loss: str) -> tuple[str, str, dict[str, Any]]:
    return member, "partitions.revoking", {"partitions": ["a-0"], "loss": loss}


def released(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "partitions.released", {"partitions": {"a-0": None}}


def resolved(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "position.resolved", {"partitions": {"a-0": offset}}


def sought(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "position.sought", {"partitions": {"a-0": offset}}


def given(member: str, first: int, last: int) -> tuple[str, str, dict[str, Any]]:
    return member, "records.delivered", {"partition": "a-0", "offsets": [[first, last]]}


def taken_back(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "records.taken_back", {"partition": "a-0", "offset": offset}


def asked(told_as: str, offset: int | None = None) -> tuple[str, str, dict[str, Any]]:
    return "x", "user.asked", {"told_as": told_as, "partitions": {"a-0": offset}}


def polls(seconds: float) -> tuple[str, str, dict[str, Any]]:
    """The user has done nothing but poll for so long."""
    return "x", "loop.polled", {"seconds": seconds}


def arrived(member: str, *offsets: int) -> tuple[str, str, dict[str, Any]]:
    return member, "user.given", {"partition": "a-0", "offsets": list(offsets)}


def back(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "user.returned", {}


def to_commit(member: str, offset: int, kind: str) -> tuple[str, str, dict[str, Any]]:
    return member, "commit.sent", {"offsets": {"a-0": offset}, "kind": kind}


UNANSWERED: tuple[str, str, dict[str, Any]] = ("x", "request.failed", {"api": "OffsetCommit"})


FOUND_AT_8: tuple[str, str, dict[str, Any]] = (
    *("x", "position.resolved"),
    {"partitions": {"a-0": 8}, "because": "committed"},
)


def succeeded(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "commit.succeeded", {"offsets": {"a-0": offset}}


def committing(member: str, offset: int) -> Story:
    return [to_commit(member, offset, "asked"), succeeded(member, offset)]


def at_position(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    """It says so to its user."""
    return member, "user.position", {"partitions": {"a-0": offset}}


def committed(offset: int) -> tuple[str, str, dict[str, Any]]:
    return "", "offset.committed", {"partition": "a-0", "offset": offset}


def reset(member: str, because: str) -> tuple[str, str, dict[str, Any]]:
    return member, "position.reset", {"partitions": {"a-0": 0}, "because": because}


def truncated(to: int, *, unclean: bool, replicated: int = 10) -> tuple[str, str, dict[str, Any]]:
    values = {"to": to, "replicated": replicated, "unclean": unclean, "time": 100}
    return "", "log.truncated", {"partition": "a-0", **values}


def restarted(actor: str) -> tuple[str, str, dict[str, Any]]:
    return "x", "actor.restarted", {"actors": [actor, "fetch"]}


def later(seconds: float) -> tuple[str, str, dict[str, Any]]:
    """Time passes."""
    return "", "time.passed", {"seconds": seconds}


def in_transaction(first: int, last: int) -> tuple[str, str, dict[str, Any]]:
    return "", "records.written", {"partition": "a-0", "first": first, "last": last, "producer": 7}


def ended(*, commit: bool, marker: int) -> tuple[str, str, dict[str, Any]]:
    values = {"partition": "a-0", "producer": 7, "commit": commit, "marker": marker}
    return "", "transaction.ended", values


def committed_only(member: str) -> tuple[str, str, dict[str, Any]]:
    _, event, values = assigned(member)
    return member, event, {**values, "isolation": "read_committed"}


def dropped(member: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, "chunk.dropped", {"partition": "a-0", "offset": offset}


def late(member: str, took: float, allowed: float) -> tuple[str, str, dict[str, Any]]:
    return member, "call.late", {"call": "poll", "took": took, "allowed": allowed}


def out(event: str, because: str = "") -> tuple[str, str, dict[str, Any]]:
    return "x", f"member.{event}", {"member_id": "x-1", "because": because}


#: Its first heartbeat reached the group, the answer was lost, and then the right was gone.
REFUSED = (
    "x",
    "membership.moved",
    {"member_id": "x-1", "after": "fatal", "because": "after GroupAuthorizationFailedError"},
)


def told(word: str) -> tuple[str, str, dict[str, Any]]:
    return "x", "listener.told", {"told": word, "partitions": ["a-0"]}


def with_contents(
    story: tuple[str, str, dict[str, Any]], *contents: int
) -> tuple[str, str, dict[str, Any]]:
    member, event, values = story
    return member, event, {**values, "contents": list(contents)}


def request(member: str, event: str) -> tuple[str, str, dict[str, Any]]:
    return member, f"request.{event}", {"api": "Fetch", "request": 1, "incarnation": 1}


REFUSED_AT_5: tuple[str, str, dict[str, Any]] = (
    "x",
    "fetch.refused",
    {"partition": "a-0", "offset": 5, "because": "TopicAuthorizationFailedError: a"},
)
OUT_OF_RANGE: tuple[str, str, dict[str, Any]] = (
    "x",
    "fetch.stopped",
    {"partition": "a-0", "offset": 5, "because": "OffsetOutOfRangeError: a-0"},
)
NO_RIGHT: tuple[str, str, dict[str, Any]] = (
    "x",
    "position.failed",
    {"partitions": ["a-0"], "because": "GroupAuthorizationFailedError: [Error 30] no"},
)
NO_POSITION: tuple[str, str, dict[str, Any]] = (
    "x",
    "position.failed",
    {"partitions": ["a-0"], "because": "NoOffsetForPartitionError"},
)
LED: tuple[str, str, dict[str, Any]] = "", "partition.led", {"partition": "a-0", "broker": 1}
COORDINATED: tuple[str, str, dict[str, Any]] = "x", "coordinator.found", {"node": 2}
HEARTBEAT_FAILED = ("x", "heartbeat.failed", {"because": "ILLEGAL_GENERATION"})
STARTED = ("x", "consumer.made", {"fetch_max_wait_ms": 500, "retry_backoff_ms": 100})
LOOKS = ("x", "request.sent", {"api": "Metadata", "node": 1})
FETCHES = ("x", "request.sent", {"api": "Fetch", "node": 1})
NOTHING_COMMITTED = "no offset is committed"
UNSUBSCRIBED = ("x", "user.unsubscribed", {})
REBALANCES = ("x", "rebalance.triggered", {})
HELD_BACK = ("x", "partitions.held_back", {"partitions": {"a-0": 5}})
A_LONG_TIME = [("", "fault.began", {"number": one}) for one in range(30)]
BEYOND_HELP: tuple[str, str, dict[str, Any]] = "x", "actor.escalated", {"actors": []}
LEAVES, STILL_THERE = ("x", "user.leaves", {}), ("x", "group.still_has", {"member_ids": ["x-1"]})
FROZEN, THAWED = ("x", "member.frozen", {}), ("x", "member.thawed", {})

OVERRATED = ("x", "session.overrated", {"member_id": "x-1", "seconds": 0.5})
STRANGER = ("x", "group.has_stranger", {"member_id": "x-1", "since": 0.0})

CONVERTED = ("", "group.converted", {})
PAUSED = ("x", "partitions.paused", {"partitions": ["a-0"]})
RESUMED = ("x", "partitions.resumed", {"partitions": ["a-0"]})
LISTENS = ("x", "user.subscribed", {"listener": True})
HEEDED = assigned("x")
TARGET = ("x", "rebalance.target", {"generation": 3})
STUMBLED = (
    "x",
    "callback.failed",
    {"callback": "on_partitions_assigned", "partitions": ["a-0"]},
)
REVOKED_WELL = (
    "x",
    "callback.finished",
    {"callback": "on_partitions_revoked", "partitions": ["a-0"]},
)

#: And created anew before this member's metadata knew of it again.
DELETED = ("x", "topic.deleted", {"topic": "a"})

ALL = ("", "progress.demanded", {})

#: Two members, one after the other, as it should be.
GOOD = [
    written(0, 9),
    synced("x", 1),
    assigned("x"),
    resolved("x", 0),
    given("x", 0, 4),
    back("x"),
    to_commit("x", 5, "revocation"),
    committed(5),
    succeeded("x", 5),
    going("x", "revoked"),
    ("x", "partitions.released", {"partitions": {"a-0": 5}}),
    synced("y", 2),
    assigned("y"),
    resolved("y", 5),
    given("y", 5, 9),
    at_position("y", 10),
    back("y"),
    ("y", "user.commits", {"partitions": None}),
    to_commit("y", 10, "asked"),
    committed(10),
    succeeded("y", 10),
    ("y", "user.committed", {}),
    ALL,
]

OWNED = [written(0, 9), synced("x", 1), assigned("x"), resolved("x", 0), given("x", 0, 4)]

#: A topic that gets a third partition when the group has committed for the first.
CREATED = ("", "topic.created", {"topic": "a", "partitions": 2})
GROWS = ("", "topic.grown", {"topic": "a", "partitions": 3})
GROWN = [CREATED, committed(0), GROWS]


def resets(partition: str, strategy: str, because: str = "no offset is committed") -> Any:
    values = {"partitions": {partition: 5}, "from_offsets": {partition: None}}
    return "x", "position.reset", {**values, "strategy": strategy, "because": because}


#: A consumer that has committed what it was given; an automatic commit of something else.
COMMITTED_ALL = [*OWNED, back("x"), to_commit("x", 5, "auto"), succeeded("x", 5)]
OF_ANOTHER = ("x", "commit.sent", {"offsets": {"b-0": 1}, "kind": "auto"})

#: A consumer with automatic commits that was given records, and what lets go of them.
AUTOMATIC = [
    ("x", "consumer.made", {"enable_auto_commit": True, "group_id": "g"}),
    *(assigned("x"), given("x", 0, 4)),
]
LETS_GO = ("x", "partitions.released", {"partitions": {"a-0": 5}})
INTERRUPTED = interrupted("poll")

#: One with an automatic commit each minute, whose user has come back from what is before offset 5.
EACH_MINUTE = {"enable_auto_commit": True, "group_id": "g", "auto_commit_interval_ms": 60_000}
OWES_5 = [
    ("x", "consumer.made", EACH_MINUTE),
    *(COORDINATED, assigned("x"), given("x", 0, 4), back("x")),
]
LONG = later(300)
NO_MEMBER: tuple[str, str, dict[str, Any]] = (
    "x",
    "commit.failed",
    {"kind": "revocation", "because": "CommitFailedError: group 'g' does not know member 'x'"},
)
BY_HAND: tuple[str, str, dict[str, Any]] = (
    "x",
    "partitions.assigned",
    {"partitions": ["b-0"], "by_group": False},
)
GOES_ON: tuple[str, str, dict[str, Any]] = "x", "membership.moved", {"after": "stable"}
IS_CLOSED: tuple[str, str, dict[str, Any]] = "x", "consumer.closed", {}

REMOVED: tuple[str, str, dict[str, Any]] = "", "topic.removed", {"topic": "a"}
HEIR = [synced("y", 2), assigned("y")]
COMMITTED = ("x", "user.committed", {})
ASYNCHRONOUSLY = ("x", "user.commits", {"partitions": None, "future": 0})

LOST = {"partition": "a-0", "first": 3, "last": 9, "time": 100}

BROKEN: list[tuple[Check, Story, str]] = [
    (limits.bytes_are_conserved, [seen(reserved=5)], "has reserved 5 bytes, asked are 0"),
    (limits.bytes_are_conserved, [seen(counted=7, held=3)], "has counted 7 bytes, held are 3"),
    (
        endings.every_question_ends,
        [seen(questions=[3]), later(80), seen(questions=[3])],
        "asked question 3 by 0.000",
    ),
    (
        endings.every_question_ends,
        [("x", "consumer.closed", {"questions": 1})],
        "closed with 1 open questions",
    ),
    (
        endings.every_question_ends,
        [("x", "question.forgotten", {"actor": "commits"})],
        "waits for commits, which was restarted",
    ),
    (
        limits.the_background_reads_what_is_wanted,
        [seen(misread=["a-0", "a-1"]), seen(misread=["a-0"])],
        "takes a-0 for what it is not",
    ),
    *[
        (
            commits.an_automatic_commit_leaves_nothing_out,
            [*COMMITTED_ALL, *story, back("x"), later(2), OF_ANOTHER],
            f"leaves a-0 out, at {place}, of which 5 is committed",
        )
        for place, story in [(8, [given("x", 5, 7)]), (3, [sought("x", 2), given("x", 2, 2)])]
    ],
    (
        commits.what_has_not_moved_is_not_committed_again,
        [*2 * [to_commit("x", 5, "auto"), succeeded("x", 5), later(1)], to_commit("x", 5, "auto")],
        "commits ['a-0'] again, which did not move",
    ),
    *[
        (
            automatic_commits.automatic_commits_are_not_late,
            [*OWES_5, *story, polls(300)],
            "did not commit a-0:5 from",
        )
        for story in [
            [later(61)],
            [later(61), to_commit("x", 5, "auto")],
            [PAUSED, later(61)],
            [to_commit("x", 4, "asked"), UNANSWERED, later(61)],
            [given("x", 5, 7), back("x"), later(61), to_commit("x", 8, "auto")],
            [("x", "coordinator.lost", {}), COORDINATED, later(61)],
        ]
    ],
    (
        limits.no_connection_is_forgotten,
        [seen(unused=["b1#1.2"]), seen(unused=["b1#1.2"])],
        "has b1#1.2, which it does not know",
    ),
    (
        pace.a_poll_gives_what_there_is,
        [("x", "records.passed_over", {"partitions": ["a-0"]})],
        "was given nothing of ['a-0'], which is here",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, polled(), polled(), polled()],
        "polled 3 times since fetch.refused of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, PAUSED, RESUMED, REFUSED_AT_5, polled(), polled(), polled()],
        "polled 3 times since fetch.refused of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, interrupted("_collect"), polled(), polled(), polled()],
        "polled 3 times since fetch.refused of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [starting("none"), *OWNED, OUT_OF_RANGE, polled(), polled(), polled()],
        "polled 3 times since fetch.stopped of a-0",
    ),
    (
        endings.errors_that_are_due_are_raised,
        [assigned("x"), NO_POSITION, polled(), polled(), polled()],
        "polled 3 times since position.failed of a-0",
    ),
    *[
        (
            endings.errors_that_are_due_are_raised,
            [assigned("x"), *before, polled(), polled(), polled()],
            "polled 3 times since position.failed of a-0",
        )
        for before in (
            [polled("TopicAuthorizationFailedError"), NO_RIGHT],
            [polled("GroupAuthorizationFailedError"), later(1.1), NO_RIGHT],
            [polled("NoOffsetForPartitionError"), NO_POSITION],
        )
    ],
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("latest"), resolved("x", 5), given("x", 5, 5)],
        "was given a-0:5, and asked for the latest offset before",
    ),
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("earliest"), reset_to("latest"), given("x", 5, 5)],
        "asked for the earliest offset before",
    ),
    (
        commits.nothing_is_committed_that_was_given_up,
        [*OWNED, to_be_committed(), released("x"), assigned("x"), to_commit("x", 5, "asked")],
        "commits a-0, given up since it was asked for",
    ),
    (
        commits.commits_do_not_overtake_each_other,
        [*OWNED, to_commit("x", 5, "asked"), to_commit("x", 4, "auto")],
        "commits a-0:4 (auto) after 5",
    ),
    (
        membership.a_leave_is_the_one_that_is_asked_for,
        [starts(None), leaves(), goodbye(-2)],
        "said epoch -2 when it left, and leaves",
    ),
    (
        membership.a_leave_is_the_one_that_is_asked_for,
        [starts("one"), leaves(), goodbye(-1)],
        "said epoch -1 when it left, and keeps its place",
    ),
    (
        membership.a_leave_is_the_one_that_is_asked_for,
        [starts("one"), leaves(), goodbye(None)],
        "said LeaveGroup when it left, and keeps its place",
    ),
    (
        membership.after_a_failure_everything_is_said_again,
        [*map(heartbeat, ("sent", "failed", "sent", "answered", "sent"))],
        "had not said everything again",
    ),
    (
        membership.a_member_reports_what_it_has,
        [assigned("x"), later(5), reports()],
        "did not report ['a-0'], its own",
    ),
    (
        membership.a_member_reports_what_it_has,
        [assigned("x"), released("x"), GOES_ON, later(5), reports("a-0")],
        "reported ['a-0'], given up before",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 4, 6)],
        "a-0:4 again",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 6, 7)],
        "skips from 5",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, sought("x", 8), resolved("x", 0), given("x", 0, 1)],
        "a-0:0 again",
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, released("x"), given("x", 5, 5)],
        "does not own",
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, synced("y", 2), assigned("y"), given("x", 5, 5)],
        "which y owns by now",
    ),
    (
        ownership.nothing_is_given_out_while_it_is_handed_back,
        [*OWNED, HELD_BACK, given("x", 5, 5)],
        "which is going",
    ),
    (
        ownership.nothing_is_fetched_that_was_given_up,
        [*OWNED, released("x"), *A_LONG_TIME, written(10, 10), dropped("x", 10)],
        "had a-0:10 fetched",
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [committed(5), assigned("x"), reset("x", NOTHING_COMMITTED)],
        "takes a-0 for never committed",
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [*committing("y", 5), assigned("x"), reset("x", NOTHING_COMMITTED)],
        "takes a-0 for never committed",
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [committed(5), ("x", "user.finds_nothing_committed", {"partition": "a-0", "seconds": 0.5})],
        "is told that a-0 was never committed",
    ),
    (endings.calls_end_in_time, [late("x", 2.3, 0.2)], "waited 2.300 s for poll"),
    (
        ownership.nothing_is_assigned_after_unsubscribing,
        [synced("x", 1), UNSUBSCRIBED, assigned("x")],
        "the group that it had left",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *OWNED,
            sought("x", 2),
            released("x"),
            to_commit("x", 2, "asked"),
            committed(5),
            committed(2),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, sought("x", 2), to_commit("x", 2, "auto"), to_commit("x", 5, "auto")),
            *(committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, sought("x", 2), to_commit("x", 2, "asked"), committed(2)),
            *(in_group("h", committed(5)), in_group("h", committed(2))),
        ],
        "h a-0: 2 after 5",
    ),
    (
        ownership.partitions_are_handed_over_in_order,
        [
            *(*OWNED, in_group("h", CONVERTED), synced("y", 1), assigned("y")),
            *(going("x", "revoked"), released("x")),
        ],
        "gave it up",
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, in_group("h", CONVERTED), synced("y", 2), assigned("y"), given("x", 5, 5)],
        "which y owns by now",
    ),
    (membership.who_leaves_is_gone, [LEAVES, STILL_THERE], "its group has ['x-1']"),
    (
        membership.who_leaves_is_gone,
        [
            LEAVES,
            ("x", "member.left", {"member_id": "x-1", "error": "NOT_COORDINATOR"}),
            STILL_THERE,
        ],
        "its group has ['x-1']",
    ),
    (
        membership.who_leaves_is_gone,
        [LEAVES, ("x", "member.leave_failed", {}), LEAVES, STILL_THERE],
        "its group has ['x-1']",
    ),
    (
        membership.who_leaves_is_gone,
        [out("left"), ("x", "member.epoch", {"member_id": "x-1"}), LEAVES, STILL_THERE],
        "its group has ['x-1']",
    ),
    (
        membership.who_leaves_is_gone,
        [out("lost", "fenced: ILLEGAL_GENERATION"), LEAVES, STILL_THERE],
        "its group has ['x-1']",
    ),
    (membership.nobody_is_left_behind, [STRANGER], "does not know x-1"),
    (
        membership.nobody_is_left_behind,
        [out("lost", "fenced: ILLEGAL_GENERATION"), STRANGER],
        "does not know x-1",
    ),
    (membership.no_session_is_believed_in_for_too_long, [OVERRATED], "for 0.5 s too long"),
    (
        ownership.partitions_are_handed_over_in_order,
        [*OWNED, synced("x", 2), synced("y", 2), assigned("y"), going("x", "revoked")],
        "gave it up",
    ),
    (records.every_record_is_finished, [*OWNED, ALL], "never finished a-0"),
    (
        records.every_record_is_finished,
        [committed_only("x"), in_transaction(0, 3), ended(commit=True, marker=4), ALL],
        "never finished a-0:[0, 1, 2, 3]",
    ),
    (
        commits.no_commit_above_what_was_finished,
        [*OWNED, to_commit("x", 5, "auto")],
        "commits a-0:5, finished is 0",
    ),
    (
        commits.no_commit_above_what_was_finished,
        [*OWNED, back("x"), to_commit("x", 6, "asked")],
        "commits a-0:6, finished is 5",
    ),
    (
        commits.only_owners_commit,
        [*OWNED, released("x"), to_commit("x", 5, "auto")],
        "does not own",
    ),
    (commits.committed_offsets_never_go_back, [committed(5), committed(4)], "4 after 5"),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "auto"), to_commit("x", 5, "auto"), UNANSWERED),
            *(committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "auto"), UNANSWERED, to_commit("x", 5, "auto")),
            *(committed(5), committed(2), committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "asked"), UNANSWERED, to_commit("x", 2, "asked")),
            *(committed(2), to_commit("x", 5, "asked"), committed(5), committed(2)),
            *(committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    (endings.every_request_ends_once, [request("x", "answered")], "unasked"),
    (
        endings.every_request_ends_once,
        [request("x", "sent"), request("x", "answered"), request("x", "answered")],
        "answered twice",
    ),
    (
        listener.the_listener_hears_the_right_word,
        [NO_MEMBER, told("revoked")],
        "knew by its last commit that it is no member",
    ),
    (
        endings.a_look_for_the_coordinator_is_short,
        [looks("sent"), later(5), looks("answered")],
        "s for FindCoordinator",
    ),
    (
        membership.a_target_is_reached,
        [targets(1), targets(2), through(1)],
        "is through with 1 partitions, and was to own 2",
    ),
    *[
        (
            commits.what_is_let_go_is_committed,
            [*AUTOMATIC, *before, LETS_GO, *after],
            "let go of a-0 at 5, and has not committed that",
        )
        for before, after in [
            ([], []),
            ([to_commit("x", 3, "auto")], [IS_CLOSED, to_commit("x", 5, "auto")]),
            ([to_commit("x", 5, "auto"), given("x", 5, 5)], []),
            ([], [to_commit("x", 5, "asked")]),
            ([BY_HAND], [IS_CLOSED, to_commit("x", 5, "asked")]),
        ]
    ],
    (
        commits.commits_that_succeed_never_go_back,
        [
            *(*OWNED, *HEIR, *committing("y", 7), *committing("x", 5)),
        ],
        "committed a-0:5 after 7",
    ),
    (
        commits.nothing_is_given_again_that_is_committed,
        [*OWNED, *committing("x", 5), *HEIR, resolved("y", 0), given("y", 0, 4)],
        "was given a-0:0 again, 5 was committed",
    ),
    *[
        (
            commits.a_commit_has_all_that_was_given,
            [*OWNED, *before, to_be_committed(), *stored, COMMITTED],
            "and was given everything before 5",
        )
        for before, stored in [
            ([], []),
            ([OUT_OF_RANGE, reset_to("earliest"), given("x", 0, 4)], []),
            (
                [("x", "topic.recreated", {"topic": "a"}), reset_to("earliest"), given("x", 0, 4)],
                [],
            ),
            ([], [succeeded("x", 4)]),
            ([succeeded("x", 5), released("x"), assigned("x"), given("x", 0, 4)], []),
        ]
    ],
    (
        commits.a_commit_has_all_that_was_given,
        [*OWNED, ASYNCHRONOUSLY, succeeded("x", 4), called_back()],
        "and was given everything before 5",
    ),
    (
        records.positions_are_after_what_was_given,
        [*OWNED, at_position("x", 6)],
        "is at a-0:6, and was given everything before 5",
    ),
    (
        records.positions_are_after_what_was_given,
        [*OWNED, ("x", "partitions.released", {"partitions": {"a-0": 4}})],
        "is at a-0:4",
    ),
    (actors.no_message_vanishes, [("x", "message.dropped", {"because": "unknown"})], "unknown"),
    (actors.no_actor_crashes_by_itself, [crashed("KeyError: 2")], "KeyError: 2"),
    (limits.buffers_stay_in_bounds, [("x", "buffer.exceeded", {"bytes": 1})], "exceeded"),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, truncated(3, unclean=True), ("", "records.written", LOST), given("x", 9, 9)],
        "skips from 5",
    ),
    (
        records.every_record_is_finished,
        [*OWNED, back("x"), truncated(3, unclean=True), ("", "records.written", LOST), ALL],
        "never finished a-0:[3, 4, 5, 6, 7] and 2 more",
    ),
    (
        records.read_committed_sees_committed_records_only,
        [in_transaction(0, 3), committed_only("x"), given("x", 0, 0)],
        "a-0:0, which is open",
    ),
    (
        records.read_committed_sees_committed_records_only,
        [
            in_transaction(0, 3),
            ended(commit=False, marker=4),
            committed_only("x"),
            given("x", 2, 2),
        ],
        "a-0:2, which is aborted",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [
            *(in_transaction(0, 3), ended(commit=True, marker=4), written(5, 6)),
            *(committed_only("x"), resolved("x", 0), given("x", 5, 6)),
        ],
        "skips from 0",
    ),
    (endings.every_request_ends_once, [request("x", "sent"), later(100)], "never ended"),
    (
        endings.every_future_ends_once,
        [future("future.given"), future("future.ended"), closed()],
        "never called the callback of future 0",
    ),
    (
        endings.every_future_ends_once,
        [future("future.given"), future("future.ended"), *[called_back()] * 2],
        "callback of future 0 called twice",
    ),
    (endings.every_future_ends_once, [("x", "future.given", {"future": 0}), later(100)], "never"),
    (
        endings.every_future_ends_once,
        [("x", "future.given", {"future": 0}), *[("x", "future.ended", {"future": 0})] * 2],
        "ended twice",
    ),
    (
        ownership.nothing_is_given_after_its_callback,
        [
            *OWNED,
            ("x", "callback.finished", {"callback": "on_partitions_lost", "partitions": ["a-0"]}),
            given("x", 5, 5),
        ],
        "after its listener was told",
    ),
    (
        commits.resets_are_traced,
        [("x", "position.reset", {"partitions": {"a-0": 0}, "from_offsets": {}, "because": "?"})],
        "without saying from where",
    ),
    (
        commits.new_partitions_begin_at_their_first_record,
        [*GROWN, resets("a-2", "latest")],
        "begins at the end of a-2, which is new",
    ),
    (actors.restart_budgets_are_kept, [restarted("group")] * 6, "group 6 times"),
    (
        processing.records_are_handled_in_order,
        [handler("began", 5), handler("began", 6)],
        "began with a-0/k:6 during 5",
    ),
    (
        processing.records_are_handled_in_order,
        [handler("began", 6), handler("ended", 6), handler("began", 5)],
        "began with a-0/k:5 after 6",
    ),
    (
        processing.nothing_is_finished_twice,
        [handler("began", 5), handler("ended", 5), handler("began", 5)],
        "began with a-0:5 again",
    ),
    (
        processing.nothing_unfinished_is_committed,
        [
            ("x", "user.processes", {"order": "key"}),
            ("x", "user.given", {"partition": "a-0", "offsets": [5, 6]}),
            handler("ended", 6),
            ("x", "commit.sent", {"offsets": {"a-0": 7}, "kind": "asked"}),
        ],
        "commits a-0:7, unfinished is 5",
    ),
    (
        processing.what_is_handed_back_is_not_handled,
        [
            handler("began", 5),
            ("x", "process.drained", {"left": ["a-0:5"], "ms": 3.0, "allowed_ms": 1000.0}),
            HANDED_BACK,
        ],
        "handed a-0 back and still handles its record 5",
    ),
    (
        actors.restart_budgets_are_kept,
        [
            *[restarted("group")] * 5,
            ("x", "actor.escalated", {"crashed": "group"}),
            restarted("group"),
        ],
        "after it gave up",
    ),
    (
        actors.restart_budgets_are_kept,
        [*[restarted("group")] * 5, later(61), ("x", "actor.escalated", {"crashed": "group"})],
        "gave group up too soon",
    ),
    (pace.an_idle_consumer_is_idle, [later(-2.0), request("x", "sent")] * 37, "in a second"),
    (
        pace.an_idle_consumer_is_idle,
        [later(-3.0), REBALANCES, request("x", "sent")] * 90,
        "in a second",
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-2.0), ("x", "user.looks_up", {"what": "topics"})] * 2
        + [later(-2.0), request("x", "sent")] * 53,
        "in a second",
    ),
    (
        pace.an_idle_consumer_is_idle,
        [*[later(-2.0), request("x", "sent")] * 11, later(1.0)] * 5,
        "in half of 5 seconds in which a consumer gave nothing out it sent 11 requests more",
    ),
    (
        records.nothing_replicated_is_lost,
        [written(0, 9), truncated(3, unclean=False)],
        "a-0 lost 3 to 9",
    ),
    (pace.who_owns_records_gives_them_out, [*OWNED, later(70)], "gave nothing of a-0:5 out"),
    *[
        (
            pace.who_owns_records_gives_them_out,
            [*OWNED, LED, COORDINATED, *hits(what, which), later(15)],
            "gave nothing of a-0:5 out",
        )
        for what, which in [("members", "y"), ("partitions", "a-1"), ("brokers", 3)]
    ],
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, DELAYED, DELAYED, ("x", "rebalance.completed", {}), *refused(1.5) * 5],
        "no quarter of them before 1.500 s, the backoff is 0.100 s",
    ),
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, *refused(0.0) * 5],
        "half of them before 0.000",
    ),
    (
        pace.a_quiet_consumer_asks_as_often_as_it_must,
        [STARTED, later(8.2), *([later(-1.9), FETCHES] * 4 + [later(0.6)]) * 6],
        "sent 2 requests Fetch more to a broker than must be",
    ),
    (
        pace.a_quiet_consumer_asks_as_often_as_it_must,
        [STARTED, later(8.9), *[later(-1.9), LOOKS] * 4],
        "sent 4 requests Metadata to broker 1",
    ),
    (
        records.the_trace_tells_what_is_asked,
        [sought("x", 4), asked("position.sought", 3)],
        "the trace tells {'a-0': 4}",
    ),
    (
        records.the_trace_tells_what_is_given,
        [given("x", 5, 6), arrived("x", 5, 6, 7)],
        "the trace tells of [5, 6]",
    ),
    (
        records.what_is_given_is_what_was_written,
        [
            assigned("x"),
            with_contents(written(0, 2), 10, 11, 12),
            with_contents(arrived("x", 0, 1), 10, 12),
        ],
        "another record at a-0:1",
    ),
    (
        limits.paused_partitions_are_silent,
        [*OWNED, PAUSED, given("x", 5, 5)],
        "a-0, which is paused",
    ),
    (
        limits.limits_are_kept,
        [("x", "limit.exceeded", {"records": 6, "limit": 5})],
        "6 records, 5 are allowed",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, given("x", 0, 0)],
        "a-0 before it was told",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [TARGET, LISTENS, HEEDED, told("assigned"), STUMBLED, given("x", 0, 0)],
        "was given a-0, told of it in vain",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), released("x")],
        "gave a-0 up without a word",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), told("assigned")],
        "told twice that a-0 is assigned",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), told("revoked"), told("lost")],
        "told lost: a-0, not its own",
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [
            *[LISTENS, HEEDED, told("assigned"), told("revoked")],
            *[REVOKED_WELL, INTERRUPTED, told("revoked")],
        ],
        "told revoked: a-0, not its own",
    ),
    (
        listener.the_listener_hears_the_right_word,
        [LISTENS, HEEDED, out("lost"), told("revoked")],
        "told revoked",
    ),
    (
        listener.the_listener_hears_the_right_word,
        [LISTENS, HEEDED, told("lost")],
        "told lost",
    ),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_every_check_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(checks.CHECKS)


def test_a_good_history_is_not_complained_about() -> None:
    assert checks.broken_promises(history(*GOOD)) == []


def test_a_handler_that_had_all_the_time_allowed_may_outlive_its_partition() -> None:
    story = [
        handler("began", 5),
        ("x", "process.drained", {"left": ["a-0:5"], "ms": 1000.0, "allowed_ms": 1000.0}),
        HANDED_BACK,
    ]

    assert processing.what_is_handed_back_is_not_handled(history(*story)) == []


def test_a_handler_that_failed_has_finished_nothing_and_one_of_before_does_not_count() -> None:
    again = [handler("began", 5), handler("ended", 5, "ValueError"), handler("began", 5)]
    before = [handler("began", 6), assigned("x"), handler("ended", 6), handler("began", 6)]

    assert processing.nothing_is_finished_twice(history(*again, *before)) == []


@pytest.mark.parametrize(
    "story",
    [
        [*GROWN, resets("a-1", "latest")],  # it was there when the group began
        [*GROWN, resets("a-2", "earliest")],
        [*GROWN, resets("a-2", "latest", "the application asked for it")],
        [CREATED, GROWS, committed(0), resets("a-2", "latest")],  # nobody had followed the topic
        [*GROWN, ("", "topic.removed", {"topic": "a"}), CREATED, resets("a-1", "latest")],
    ],
)
def test_what_is_not_new_to_the_group_may_begin_at_its_end(story: Story) -> None:
    assert commits.new_partitions_begin_at_their_first_record(history(*story)) == []


def test_who_is_expelled_for_no_reason_may_not_know_it_yet() -> None:
    expelled = ("", "session.expired", {"consumer": "x"})
    story = [*OWNED, expelled, synced("y", 2), assigned("y"), given("x", 5, 5)]

    assert ownership.only_owners_are_given_records(history(*story)) == []


def test_who_was_expelled_during_a_slow_callback_is_not_blamed_when_it_revokes_the_next_time() -> (
    None
):
    story = [
        *(*OWNED, going("x", "revoked"), synced("y", 2), assigned("y"), released("x")),
        *(going("y", "lost"), released("y"), synced("x", 3), assigned("x"), going("x", "revoked")),
    ]

    assert ownership.partitions_are_handed_over_in_order(history(*story)) == []


def test_a_seek_that_is_out_of_range_is_reset() -> None:
    moved = {"partitions": {"a-0": 0}, "from_offsets": {"a-0": 90}, "because": "out of range"}
    story = [*OWNED, sought("x", 90), ("x", "position.reset", moved), given("x", 0, 4)]

    check = records.no_gap_no_step_back_no_duplicate_inside_an_ownership
    assert check(history(*story)) == []


def test_a_seek_to_a_marker_is_reset_from_behind_it() -> None:
    """Seed 21004944: the topic was created anew while nothing but a marker had been read."""
    moved = {"partitions": {"a-0": 0}, "from_offsets": {"a-0": 91}, "because": "out of range"}
    story = [sought("x", 90), ("x", "position.reset", moved), given("x", 0, 4)]

    check = records.no_gap_no_step_back_no_duplicate_inside_an_ownership
    marked = [in_transaction(80, 89), ended(commit=True, marker=90), *OWNED]
    assert check(history(*marked, *story)) == []
    assert check(history(*OWNED, *story)) != []


def test_a_seek_excuses_a_commit_that_goes_back() -> None:
    assert (
        commits.committed_offsets_never_go_back(
            history(*OWNED, committed(5), sought("x", 2), to_commit("x", 4, "auto"), committed(4))
        )
        == []
    )


def test_a_reader_passes_over_what_was_aborted_and_over_markers() -> None:
    story = [
        *(in_transaction(0, 3), ended(commit=False, marker=4), written(5, 6)),
        *(synced("x", 1), committed_only("x"), resolved("x", 0)),
        *(given("x", 5, 6), back("x"), to_commit("x", 7, "auto"), committed(7), ALL),
    ]

    assert checks.broken_promises(history(*story)) == []


def test_a_reader_passes_over_what_was_compacted_away_and_over_nothing_else() -> None:
    story = [written(0, 9), ("", "log.compacted", {"partition": "a-0", "gone": [2, 3, 8]})]
    story += [synced("x", 1), assigned("x"), resolved("x", 0), given("x", 0, 1)]
    rest = [back("x"), to_commit("x", 9, "auto"), committed(9)]
    end = [given("x", 9, 9), back("x"), to_commit("x", 10, "auto"), committed(10), ALL]

    assert checks.broken_promises(history(*story, given("x", 4, 7), *rest, *end)) == []
    skipped = str(checks.broken_promises(history(*story, given("x", 5, 7), *rest, *end)))
    assert "a-0:5, which skips from 2" in skipped
    assert "never finished a-0:[4]" in skipped
    too_far = str(checks.broken_promises(history(*story, given("x", 4, 6), *rest, *end)))
    assert "commits a-0:9, finished is 7" in too_far


def test_what_could_not_be_read_and_was_passed_over_is_finished_and_nothing_else() -> None:
    passed = "x", "user.passes_over", {"partition": "a-0", "offset": 5}
    rest = [sought("x", 6), given("x", 6, 9), back("x"), ALL]

    assert checks.broken_promises(history(*OWNED, back("x"), passed, *rest)) == []
    (complaint,) = checks.broken_promises(history(*OWNED, back("x"), *rest))
    assert "never finished a-0:[5]" in complaint


def test_what_is_written_where_records_were_compacted_away_and_cut_off_is_to_be_read() -> None:
    again = ("", "records.written", LOST)
    story = [written(0, 9), ("", "log.compacted", {"partition": "a-0", "gone": [4, 5]})]
    story += [truncated(3, unclean=True), again, synced("x", 1), assigned("x"), resolved("x", 0)]
    runs = {"offsets": [[0, 2], [3, 3], [6, 9]], "times": [0, 100, 100]}

    (complaint,) = checks.broken_promises(
        history(*story, ("x", "records.delivered", {"partition": "a-0", **runs}))
    )
    assert "a-0:6, which skips from 4" in complaint


def test_what_an_unclean_election_left_is_to_be_read_by_who_went_further() -> None:
    """At position 5, of which 3 and 4 are other records now (KIP-320)."""
    cut = [*OWNED, back("x"), truncated(3, unclean=True), ("", "records.written", LOST)]
    moved = {"partitions": {"a-0": 3}, "from_offsets": {"a-0": 5}, "strategy": None}
    rewound = "x", "position.reset", {**moved, "because": "the log was truncated"}
    end = [back("x"), to_commit("x", 10, "auto"), committed(10), ALL]

    assert checks.broken_promises(history(*cut, rewound, given("x", 3, 9), *end)) == []
    (complaint,) = checks.broken_promises(history(*cut, given("x", 5, 9), *end))
    assert "never finished a-0:[3, 4]" in complaint


@pytest.mark.parametrize("first", [4, 5])
def test_who_may_have_passed_a_marker_when_its_topic_is_created_anew_goes_on_there_or_after_it(
    first: int,
) -> None:
    anew = ("", "topic.removed", {"topic": "a"}), ("", "topic.created", {"topic": "a", "time": 100})
    values = {"partition": "a-0", "offsets": [[first, 9]], "times": [100]}
    given_anew = ("x", "records.delivered", values)
    story = [
        *(in_transaction(0, 3), ended(commit=True, marker=4)),
        *(committed_only("x"), resolved("x", 0), given("x", 0, 3), *anew, written(0, 9)),
    ]
    check = records.no_gap_no_step_back_no_duplicate_inside_an_ownership

    assert check(history(*story, given_anew)) == []
    without_marker = check(history(*story[:1], *story[2:], given_anew))
    assert ["skips from 4" in one for one in without_marker] == [True] * (first - 4)


def test_who_passed_a_marker_before_its_topic_was_created_anew_may_commit_and_go_on_behind_it() -> (
    None
):
    """Seed 41002129: a commit by name, as in the classic protocol; only now is it known how far."""
    anew = ("", "topic.removed", {"topic": "a"}), ("", "topic.created", {"topic": "a", "time": 100})
    values = {"partition": "a-0", "offsets": [[5, 9]], "times": [100]}
    story = [
        *(in_transaction(0, 3), ended(commit=True, marker=4)),
        *(committed_only("x"), resolved("x", 0), given("x", 0, 3), back("x"), *anew, written(0, 9)),
        *(to_commit("x", 5, "auto"), committed(5)),
        *(("x", "records.delivered", values), back("x"), ALL),
    ]

    assert records.every_record_is_finished(history(*story)) == []
    assert "a-0:[4]" in str(records.every_record_is_finished(history(*story[:1], *story[2:])))


def test_what_was_given_to_who_died_is_finished_if_the_next_one_seeks_behind_it() -> None:
    """Who keeps offsets in a database finds there how far the one before has come."""
    heir = [synced("y", 2), assigned("y"), resolved("y", 0)]
    rest = [given("y", 5, 9), back("y"), ALL]

    assert records.every_record_is_finished(history(*OWNED, *heir, sought("y", 5), *rest)) == []
    left = str(records.every_record_is_finished(history(*OWNED, *heir, sought("y", 3), *rest)))
    assert "a-0:[3, 4]" in left


def test_who_slept_may_not_know_that_it_was_expelled() -> None:
    asleep = ("x", "member.frozen", {}), ("x", "member.thawed", {"asleep": True})
    story = [*OWNED, synced("y", 2), assigned("y"), *asleep, given("x", 5, 5)]

    assert ownership.only_owners_are_given_records(history(*story)) == []


def test_an_answer_that_waited_while_its_member_slept_tells_of_a_generation_that_is_over() -> None:
    asleep = ("x", "member.frozen", {}), ("x", "member.thawed", {"asleep": True})
    story = [*OWNED, synced("y", 3), assigned("y"), *asleep, synced("x", 2), given("x", 5, 5)]

    assert ownership.only_owners_are_given_records(history(*story)) == []


@pytest.mark.parametrize(
    "hindrance",
    [
        ("", "fault.began", {"number": 1}),
        ("x", "member.frozen", {}),
        ("x", "partitions.paused", {"partitions": ["a-0"]}),
        ("x", "consumer.closed", {}),
        ("", "topic.forbidden", {"topic": "a"}),
    ],
)
def test_who_is_hindered_need_not_give_records_out(hindrance: tuple[str, str, Any]) -> None:
    assert pace.who_owns_records_gives_them_out(history(*OWNED, hindrance, later(100))) == []


def test_a_partition_that_starves_is_found_though_others_are_read() -> None:
    other = ("x", "records.delivered", {"partition": "b-0", "offsets": [[0, 0]]})
    busy = [step for _ in range(8) for step in (later(10), other, back("x"))]

    found = pace.who_owns_records_gives_them_out(history(*OWNED, *busy))

    assert "gave nothing of a-0:5 out" in found[0]


@pytest.mark.parametrize(
    "error", ["TopicAuthorizationFailedError({'b'})", "CorruptBatchError('b-0 at offset 7')"]
)
def test_a_partition_that_starves_is_found_though_another_cannot_be_read(error: str) -> None:
    heard = "x", "user.hears", {"error": error}
    busy = [step for _ in range(8) for step in (later(10), heard)]
    fault = ("", "fault.began", {"number": 1}), ("", "fault.hits", {"number": 1, "topics": ["b"]})

    for began in ([("", "topic.forbidden", {"topic": "b"})], fault):
        (found,) = pace.who_owns_records_gives_them_out(history(*OWNED, *began, *busy))
        assert "gave nothing of a-0:5 out" in found


def test_a_restart_after_a_minute_by_the_members_own_clock_is_within_its_budget() -> None:
    jump = ("x", "clock.jumped", {"seconds": 60.0})

    assert actors.restart_budgets_are_kept(history(*[restarted("group")] * 5, later(61))) == []
    assert (
        actors.restart_budgets_are_kept(
            history(*[restarted("group")] * 5, jump, restarted("group"))
        )
        == []
    )


FORGIVEN: list[tuple[Check, Story]] = [
    (
        listener.the_listener_hears_the_right_word,
        [NO_MEMBER, out("lost"), told("lost"), synced("x", 2), LISTENS, HEEDED, told("revoked")],
    ),
    (endings.a_look_for_the_coordinator_is_short, [looks("sent"), later(3), looks("failed")]),
    # Seed 5300051, consumer: a part of the answer had come.
    (endings.a_look_for_the_coordinator_is_short, [looks("sent"), later(4), looks("failed")]),
    (
        endings.a_look_for_the_coordinator_is_short,
        [looks("sent"), later(6), ("x", "member.thawed", {}), looks("answered")],
    ),
    (membership.a_target_is_reached, [targets(1), through(1), targets(2), through(2)]),
    (membership.a_target_is_reached, [targets(1), out("lost"), through(0)]),
    *[
        (commits.what_is_let_go_is_committed, [*AUTOMATIC, *before, LETS_GO, *after, IS_CLOSED])
        for before, after in [
            ([to_commit("x", 5, "auto")], []),
            ([BY_HAND], [to_commit("x", 5, "asked")]),
            ([HELD_BACK, sought("x", 5)], []),
            ([("x", "partitions.held_back", {"partitions": {"a-0": None}})], []),
            ([("x", "commit.failed", {})], []),
            ([("x", "partitions.revoking", {"partitions": {"a-0": 5}, "loss": "lost"})], []),
        ]
    ],
    (commits.what_is_let_go_is_committed, [*AUTOMATIC[1:], LETS_GO]),
    (
        commits.commits_that_succeed_never_go_back,
        [
            *(*OWNED, to_commit("x", 5, "asked"), *HEIR, to_commit("y", 7, "asked")),
            *(succeeded("y", 7), succeeded("x", 5)),
        ],
    ),
    (
        commits.commits_that_succeed_never_go_back,
        [
            *(*OWNED, *committing("x", 5), sought("x", 2), *committing("x", 2)),
        ],
    ),
    (
        commits.commits_that_succeed_never_go_back,
        [  # the answer says that of another topic it was refused
            *(*OWNED, *committing("x", 5), sought("x", 2), to_commit("x", 2, "asked")),
            *(*HEIR, *committing("y", 3)),
        ],
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [
            *(to_commit("y", 5, "asked"), REMOVED, succeeded("y", 5), assigned("x")),
            reset("x", NOTHING_COMMITTED),
        ],
    ),
    *[
        (
            commits.nothing_is_given_again_that_is_committed,
            [*OWNED, *story, resolved("y", 0), given("y", 0, 4)],
        )
        for story in [
            [to_commit("x", 5, "asked"), *HEIR],
            [to_commit("x", 5, "asked"), REMOVED, succeeded("x", 5), *HEIR],
            [*HEIR, *committing("x", 5)],
            [*committing("x", 5), sought("x", 0), to_commit("x", 0, "auto"), *HEIR],
            [*committing("x", 5), *HEIR, sought("y", 0)],
            [*[in_group("h", step) for step in committing("x", 5)], *HEIR],
        ]
    ],
    *[
        (
            commits.a_commit_has_all_that_was_given,
            [*OWNED, to_be_committed(*named), *story, COMMITTED],
        )
        for named, story in [
            ([], [succeeded("x", 5)]),
            ([], [given("x", 5, 9), succeeded("x", 5)]),
            ([], [released("x")]),
            ([], [sought("x", 0)]),
            ([], [REMOVED]),
            (["b-0"], []),
        ]
    ],
    *(
        (commits.a_commit_has_all_that_was_given, [*OWNED, ASYNCHRONOUSLY, *story])
        for story in (
            [called_back("it failed")],
            [given("x", 5, 9), succeeded("x", 5), called_back()],
        )
    ),
    (
        commits.a_commit_has_all_that_was_given,
        [
            *(*OWNED, ("x", "partitions.held_back", {"partitions": {"a-0": None}})),
            *(to_be_committed(), COMMITTED),
        ],
    ),
    (
        commits.a_commit_has_all_that_was_given,
        [
            *(*OWNED, ("x", "topic.recreated", {"topic": "a"}), given("x", 5, 5)),
            *(to_be_committed(), COMMITTED),
        ],
    ),
    (
        commits.a_commit_has_all_that_was_given,
        [*OWNED[:4], OUT_OF_RANGE, given("x", 0, 4), to_be_committed(), COMMITTED],
    ),
    *[
        (records.positions_are_after_what_was_given, [*OWNED, moves, at_position("x", 7)])
        for moves in (sought("x", 7), taken_back("x", 7), released("x"), given("x", 5, 6))
    ],
    (
        commits.committed_offsets_never_go_back,
        [committed(9), sought("x", 4), released("x"), to_commit("x", 5, "asked"), committed(5)],
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "auto"), UNANSWERED, to_commit("x", 5, "auto")),
            *(committed(5), committed(2)),
        ],
    ),
    (  # storm 3100202: the broker applies the first one last, which was sent again
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "asked"), UNANSWERED, to_commit("x", 2, "asked")),
            *(committed(2), to_commit("x", 5, "asked"), committed(5), committed(2)),
        ],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [
            LISTENS,
            assigned("x"),
            *[told("assigned"), told("revoked"), INTERRUPTED, told("revoked")],
        ],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [
            *[LISTENS, assigned("x"), told("assigned")],
            *[leaves(), told("revoked"), REVOKED_WELL, INTERRUPTED],
            *[leaves(), told("revoked"), released("x")],
        ],
    ),
    (
        membership.a_member_reports_what_it_has,
        [
            *(assigned("x"), released("x"), GOES_ON, later(5)),
            ("x", "connection.opened", {"ms": 5000.0}),
            reports("a-0"),
        ],
    ),
    (
        membership.a_member_reports_what_it_has,
        [
            assigned("x"),
            released("x"),
            GOES_ON,
            later(5),
            ("x", "member.thawed", {}),
            reports("a-0"),
        ],
    ),
    (
        membership.a_member_reports_what_it_has,
        [assigned("x"), released("x"), later(5), reports("a-0")],
    ),
    (
        membership.a_member_reports_what_it_has,
        [assigned("x"), released("x"), GOES_ON, later(5), heartbeat("failed"), reports("a-0")],
    ),
    (actors.no_actor_crashes_by_itself, [crashed("Crash: fetch on Tick")]),
    (limits.bytes_are_conserved, [seen(reserved=5, asked=5, counted=3, held=3)]),
    (endings.every_question_ends, [seen(questions=[3]), later(80), seen(questions=[4])]),
    *(
        (endings.every_future_ends_once, [*events, closed()])
        for events in (
            (future("future.given"), future("future.ended"), called_back()),
            (called_back(), future("future.given"), future("future.ended")),
        )
    ),
    (
        limits.the_background_reads_what_is_wanted,
        [seen(misread=["a-0"]), seen(misread=["a-1"]), seen(misread=[]), seen(misread=["a-1"])],
    ),
    *[
        (
            commits.an_automatic_commit_leaves_nothing_out,
            [*COMMITTED_ALL, *story, later(2), OF_ANOTHER],
        )
        for story in [
            [],
            [given("x", 5, 7)],
            [given("x", 5, 7), back("x"), later(2), to_commit("x", 8, "auto")],
            [sought("x", 2), given("x", 2, 4), back("x")],
            [sought("x", 2)],
            [given("x", 5, 7), back("x"), to_be_committed()],
            [given("x", 5, 7), back("x"), released("x"), assigned("x")],
            [  # storm 5200066: a revocation commits while an automatic commit is in flight
                *(given("x", 5, 6), back("x"), to_commit("x", 7, "auto"), given("x", 7, 7)),
                *(back("x"), to_commit("x", 8, "revocation"), succeeded("x", 7)),
                *(succeeded("x", 8), later(2)),
            ],
            # storm 5200128: since then the user waits for something else, and does not poll
            [given("x", 5, 7), back("x"), given("x", 8, 8), later(2)],
            [given("x", 5, 7), back("x"), ("x", "member.frozen", {}), later(2)],
            [  # storm 3100546: the answer to a commit of before the rebalance comes last
                *(given("x", 5, 7), back("x"), to_commit("x", 5, "auto")),
                *(released("x"), assigned("x"), FOUND_AT_8, succeeded("x", 5), back("x")),
            ],
        ]
    ],
    *[
        (
            commits.what_has_not_moved_is_not_committed_again,
            [*2 * [to_commit("x", 5, "auto"), *story], to_commit("x", 5, "auto")],
        )
        for story in [
            [later(1)],
            [succeeded("x", 5), later(3600)],
            [succeeded("x", 5), assigned("x")],
            [succeeded("x", 5), to_commit("x", 8, "auto"), succeeded("x", 8)],
        ]
    ],
    (records.every_record_is_finished, [committed_only("x"), in_transaction(0, 3), ALL]),
    (limits.no_connection_is_forgotten, [seen(unused=["b1#1.2"]), seen(unused=["b1#1.3"])]),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, polled(), polled(), polled("TopicAuthorizationFailedError")]
        + [polled()] * 3,
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, ("x", "user.hears", {"error": "TopicAuthorizationFailedError()"})]
        + [polled()] * 3,
    ),
    (
        commits.nothing_is_committed_that_was_given_up,
        [
            ("x", "partitions.assigned", {"partitions": ["a-0"], "by_group": False}),
            *(given("x", 0, 4), released("x"), to_commit("x", 5, "asked")),
        ],
    ),
    (
        endings.errors_that_are_due_are_raised,
        [starting("earliest"), *OWNED, OUT_OF_RANGE, polled(), polled(), polled()],
    ),
    (
        endings.errors_that_are_due_are_raised,
        [assigned("x"), polled("GroupAuthorizationFailedError"), NO_RIGHT] + [polled()] * 3,
    ),
    *[
        (
            endings.errors_that_are_due_are_raised,
            [*OWNED, REFUSED_AT_5, over, polled(), polled(), polled()],
        )
        for over in (sought("x", 7), HELD_BACK, PAUSED, released("x"))
    ],
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, PAUSED, sought("x", 5), REFUSED_AT_5] + [polled()] * 3,
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED, REFUSED_AT_5, interrupted("__next__")] + [polled()] * 3,
    ),
    (
        endings.errors_that_are_due_are_raised,
        [*OWNED[:4], REFUSED_AT_5, polled(), polled(), polled(), given("x", 0, 4)],
    ),
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("earliest"), reset_to("earliest"), given("x", 0, 4)],
    ),
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("latest"), asked("position.sought", 5), given("x", 5, 5)],
    ),
    (
        commits.nothing_is_committed_that_was_given_up,
        [*OWNED, released("x"), to_be_committed("a-0"), to_commit("x", 5, "asked")],
    ),
    (
        commits.nothing_is_committed_that_was_given_up,
        [*OWNED, released("x"), assigned("x"), leaves(), to_commit("x", 5, "asked")],
    ),
    *[
        (
            commits.commits_do_not_overtake_each_other,
            [*OWNED, to_commit("x", 5, "asked"), moves, to_commit("x", 4, "auto")],
        )
        for moves in (sought("x", 4), assigned("x"), to_be_committed("a-0"))
    ],
    *[
        (
            membership.a_leave_is_the_one_that_is_asked_for,
            [starts(instance), leaves(operation), goodbye(epoch)],
        )
        for instance, operation, epoch in [
            (None, "default", -1),
            (None, "default", None),
            ("one", "default", -2),
            ("one", "leave_group", -1),
        ]
    ],
    (
        membership.after_a_failure_everything_is_said_again,
        [
            *map(heartbeat, ("sent", "failed", "sent")),
            reports(),
            *map(heartbeat, ("answered", "sent")),
        ],
    ),
    (
        membership.after_a_failure_everything_is_said_again,
        [*map(heartbeat, ("sent", "failed", "sent", "hindered", "answered", "sent"))],
    ),
    (  # storm 5200260: the one that failed was never sent, since the connection was refused
        membership.after_a_failure_everything_is_said_again,
        [
            *(heartbeat("sent", 1), ("x", "heartbeat.failed", {}), heartbeat("answered", 1)),
            *(heartbeat("sent", 3), reports(), heartbeat("answered", 3), heartbeat("sent", 4)),
        ],
    ),
    (membership.a_member_reports_what_it_has, [assigned("x"), HELD_BACK, later(5), reports()]),
    (membership.a_member_reports_what_it_has, [assigned("x"), later(5), reports(epoch=0)]),
    (
        membership.a_member_reports_what_it_has,
        [
            *(assigned("x"), released("x"), GOES_ON, later(5)),
            ("x", "rebalance.target", {"generation": 3, "partitions": 1}),
            reports("a-0"),
        ],
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-2.0), written(0, 0)] * 9 + [later(-2.0), request("x", "sent")] * 45,
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-2.0), ("x", "user.looks_up", {"what": "topics"})] * 2
        + [later(-2.0), request("x", "sent")] * 52,
    ),
    (
        pace.an_idle_consumer_is_idle,
        [later(-3.0), REBALANCES, *[later(-2.0), request("x", "sent")] * 40],
    ),
    *[
        (
            pace.who_owns_records_gives_them_out,
            [*OWNED, LED, COORDINATED, *hits(what, which), later(70)],
        )
        for what, which in [("members", "x"), ("partitions", "a-0"), ("brokers", 1), ("brokers", 2)]
    ],
    (
        pace.who_owns_records_gives_them_out,
        [*OWNED, LED, ("x", "request.hindered", {"broker": 1, "how": "Swallow"}), later(40)],
    ),
    (pace.who_owns_records_gives_them_out, [*OWNED, HELD_BACK, later(70)]),
    (pace.requests_are_repeated_at_their_pace, [STARTED, *refused(0.1) * 3, *refused(15.0) * 6]),
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, *refused(1.5, "GROUP_AUTHORIZATION_FAILED") * 5],
    ),
    (
        pace.requests_are_repeated_at_their_pace,
        [STARTED, DELAYED, DELAYED, *refused(1.5) * 5],
    ),
    *[
        (
            pace.a_quiet_consumer_asks_as_often_as_it_must,
            [STARTED, later(8.9), *[later(-1.9), LOOKS] * 4, later(-1.9), stirs],
        )
        for stirs in (written(0, 0), given("x", 0, 0), REBALANCES, hindered(), HEARTBEAT_FAILED)
    ],
    (
        ownership.nothing_is_given_out_while_it_is_handed_back,
        [*OWNED, HELD_BACK, released("x"), assigned("x"), given("x", 5, 5)],
    ),
    (
        ownership.nothing_is_fetched_that_was_given_up,
        [*OWNED, released("x"), written(10, 10), dropped("x", 10)],
    ),
    (
        ownership.nothing_is_fetched_that_was_given_up,
        [
            *OWNED,
            released("x"),
            *A_LONG_TIME,
            ("", "topic.removed", {"topic": "a"}),
            written(0, 9),
            dropped("x", 10),
        ],
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [assigned("x"), committed(5), reset("x", NOTHING_COMMITTED)],
    ),
    (
        endings.calls_end_in_time,
        [FROZEN, *A_LONG_TIME, THAWED, late("x", 31.0, 0.2)],
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, CONVERTED, synced("y", 2), assigned("y"), given("x", 5, 5)],
    ),
    (
        ownership.partitions_are_handed_over_in_order,
        [*OWNED, CONVERTED, synced("y", 2), assigned("y"), going("x", "revoked"), released("x")],
    ),
    (
        ownership.partitions_are_handed_over_in_order,
        [
            *(*OWNED, in_group("h", synced("y", 2)), in_group("h", assigned("y"))),
            *(going("x", "revoked"), released("x")),
        ],
    ),
    (
        ownership.only_owners_are_given_records,
        [*OWNED, in_group("h", synced("y", 2)), in_group("h", assigned("y")), given("x", 5, 5)],
    ),
    (membership.who_leaves_is_gone, [LEAVES, out("left"), STILL_THERE]),
    (membership.who_leaves_is_gone, [LEAVES, out("stayed"), STILL_THERE]),
    (
        membership.who_leaves_is_gone,
        [out("lost", "fenced: UNKNOWN_MEMBER_ID"), LEAVES, STILL_THERE],
    ),
    (
        membership.who_leaves_is_gone,
        [out("lost", "after GroupAuthorizationFailedError"), LEAVES, STILL_THERE],
    ),
    (
        membership.who_leaves_is_gone,
        [REFUSED, LEAVES, STILL_THERE],
    ),
    (membership.who_leaves_is_gone, [LEAVES, ("x", "member.leave_failed", {}), STILL_THERE]),
    (
        membership.who_leaves_is_gone,
        [LEAVES, ("x", "member.leave_failed", {}), STILL_THERE, LEAVES, STILL_THERE],
    ),
    (
        membership.who_leaves_is_gone,
        [("x", "actor.escalated", {"actors": []}), LEAVES, STILL_THERE],
    ),
    (membership.nobody_is_left_behind, [out("left"), STRANGER]),
    (membership.nobody_is_left_behind, [out("stayed"), STRANGER]),
    (membership.nobody_is_left_behind, [STILL_THERE, STRANGER]),
    (membership.nobody_is_left_behind, [out("lost", "fenced: UNKNOWN_MEMBER_ID"), STRANGER]),
    (membership.nobody_is_left_behind, [("x", "member.killed", {}), STRANGER]),
    (membership.nobody_is_left_behind, [BEYOND_HELP, STRANGER]),
    (
        membership.no_session_is_believed_in_for_too_long,
        [FROZEN, ("x", "member.thawed", {"asleep": True}), OVERRATED],
    ),
    (
        ownership.nothing_is_assigned_after_unsubscribing,
        [UNSUBSCRIBED, synced("x", 1), assigned("x")],
    ),
    *[
        (automatic_commits.automatic_commits_are_not_late, [*OWES_5, *story])
        for story in [
            [later(50), polls(300)],
            [later(50), to_commit("x", 5, "auto"), later(50), polls(300)],
            [later(100), polls(50)],  # the user was away before
            [later(50), ("x", "commit.retried", {"wait_ms": 20_000}), later(50), polls(300)],
            [later(50), ("x", "commit.failed", {}), later(50), polls(300)],
            [later(50), restarted("commits"), later(100), polls(300)],
            [sought("x", 0), given("x", 0, 4), later(100), polls(300)],
            [  # storm 5200285: offset 7 is a marker, which is passed over
                *(released("x"), assigned("x"), FOUND_AT_8, sought("x", 0), given("x", 0, 6)),
                *(back("x"), later(100), polls(300)),
            ],
            [
                to_commit("x", 5, "auto"),
                sought("x", 3),
                given("x", 3, 4),
                back("x"),
                LONG,
                polls(400),
            ],
        ]
    ],
    *[
        (automatic_commits.automatic_commits_are_not_late, [*OWES_5, step, later(300), polls(400)])
        for step in [
            FROZEN,
            to_commit("x", 4, "auto"),  # its answer is not there yet
            ("", "fault.began", {"number": 1}),
            ("x", "coordinator.lost", {}),
            ("x", "membership.moved", {"after": "joining"}),
            ("x", "user.commits", {"partitions": ["a-0"], "future": 0}),
            ("x", "user.leaves", {}),
            ("", "topic.removed", {"topic": "a"}),
            sought("x", 0),
            released("x"),
            to_commit("x", 5, "asked"),
        ]
    ],
    (automatic_commits.automatic_commits_are_not_late, [*OWES_5[:-1], later(300), polls(400)]),
    (limits.paused_partitions_are_silent, [*OWNED, PAUSED, RESUMED, given("x", 5, 5)]),
    (
        limits.paused_partitions_are_silent,
        [*OWNED, PAUSED, released("x"), assigned("x"), given("x", 5, 5)],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [LISTENS, HEEDED, told("assigned"), STUMBLED, given("x", 0, 0), told("assigned")],
    ),
    (
        listener.the_listener_hears_of_each_partition,
        [TARGET, LISTENS, HEEDED, told("assigned"), STUMBLED, told("assigned"), given("x", 0, 0)],
    ),
    (records.the_trace_tells_what_is_asked, [sought("x", 3), asked("position.sought", 3)]),
    (
        records.the_trace_tells_what_is_given,
        [given("x", 5, 6), taken_back("x", 5), given("x", 5, 5), arrived("x", 5)],
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 5, 6), taken_back("x", 5), given("x", 5, 5)],
    ),
    (listener.the_listener_hears_the_right_word, [LISTENS, HEEDED, told("revoked"), out("lost")]),
    (listener.the_listener_hears_the_right_word, [LISTENS, HEEDED, out("lost"), told("lost")]),
    (listener.the_listener_hears_the_right_word, [LISTENS, HEEDED, DELETED, told("lost")]),
]


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []
