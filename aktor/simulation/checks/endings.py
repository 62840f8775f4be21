"""Endings: what was begun ends, once and in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from aktor.simulation.checks.readers import (
    Reader,
    Replay,
    gone_consumers,
    process_of,
    standing_still,
    when,
)
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Seconds after which what was begun has ended, whatever is configured in a storm.
ENDS: Final = 90.0

#: Seconds after which a question has an answer: a commit may take that long (`default_api_timeout`
#: is a minute).
ANSWERED: Final = 70.0

#: Seconds for which one broker is asked for the coordinator: 5, one more if a part of the answer
#: has come by then (`ARRIVING_PATIENCE` of the network actor), and a little.
LOOKED_UP: Final = 6.5

#: Polls that may return before an error is raised that is due.
POLLS: Final = 2

#: Seconds for which an attempt to find positions lasts: a right that is missing is raised once in
#: it, however many partitions want it.
ATTEMPT: Final = 1.0


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
        if name == "actor.started" and event.get("child") == "network":
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


def a_look_for_the_coordinator_is_short(history: History) -> list[str]:
    """A broker that does not say where the coordinator is keeps the group waiting for `LOOKED_UP`
    seconds at most, whatever `request_timeout_ms` is: then another one is asked."""
    complaints = []
    asked: dict[tuple[str, int], float] = {}
    for event in history.named(
        *("request.sent", "request.answered", "request.failed"),
        *("actor.restarted", "member.thawed", "clock.jumped"),
    ):
        who, name = event["member"], event["event"]
        if name in ("actor.restarted", "member.thawed", "clock.jumped"):
            for key in [key for key in asked if who in (key[0], process_of(key[0]))]:
                del asked[key]
        elif event["api"] == "FindCoordinator" and name == "request.sent":
            asked[who, event["request"]] = event["at"]
        elif event["api"] == "FindCoordinator":
            waited = event["at"] - asked.pop((who, event["request"]), event["at"])
            if waited > LOOKED_UP:
                complaints.append(f"{when(event)} waited {waited:.3f} s for FindCoordinator")
    return complaints


def every_future_ends_once(history: History) -> list[str]:
    """What `commit_async` returned ends by itself, by success or by an error; and its callback is
    called, by the end of `close`."""
    complaints = []
    given: dict[tuple[str, int], Event] = {}
    untold: dict[tuple[str, int], Event] = {}
    #: A signal's handler may have closed the consumer before `commit_async` returns.
    told: set[tuple[str, int]] = set()
    for event in history.named("future.given", "future.ended", "commit.told", "consumer.closed"):
        who, name = event["member"], event["event"]
        if name == "consumer.closed":
            complaints += [
                f"{when(event)} closed, and never called the callback of future {key[1]}"
                for key in untold
                if key[0] == who
            ]
            continue
        key = who, event["future"]
        if name == "future.given":
            given[key] = event
            if key not in told:
                untold[key] = event
        elif name == "future.ended" and given.pop(key, None) is None:
            complaints.append(f"{when(event)} had future {key[1]} ended twice")
        elif name == "commit.told":
            if key in told:
                complaints.append(f"{when(event)} had the callback of future {key[1]} called twice")
            told.add(key)
            untold.pop(key, None)
    left = [*given.values(), *(event for key, event in untold.items() if key not in given)]
    return complaints + _without_end(history, left, "was given future")


def every_question_ends(history: History) -> list[str]:
    """What the application asked its background is answered, or given up; all of it at `close`."""
    complaints = []
    #: When each question that is open was first seen.
    seen: dict[tuple[str, int], float] = {}
    late: set[tuple[str, int]] = set()
    standing = standing_still(history)
    for event in history.named("books.seen", "consumer.closed", "question.forgotten"):
        who, at = event["member"], event["at"]
        if event["event"] == "question.forgotten":
            complaints.append(f"{when(event)} waits for {event['actor']}, which was restarted")
            continue
        if event["event"] == "consumer.closed":
            if event.get("questions"):
                complaints.append(f"{when(event)} closed with {event['questions']} open questions")
            continue
        open_now = {(who, question) for question in event["questions"]}
        for key in [key for key in seen if key[0] == who and key not in open_now]:
            del seen[key]
        for key in sorted(open_now):
            until = seen.setdefault(key, at) + ANSWERED + standing[process_of(who)]
            if at > until and key not in late:
                late.add(key)
                complaints.append(
                    f"{when(event)} asked question {key[1]} by {seen[key]:.3f}, and has no answer"
                )
    return complaints


#: What the background has for the user, and by what it may be over before the user polls again.
_DUE: Final = ("fetch.refused", "fetch.stopped", "position.failed")
_OVER: Final = (
    *("partitions.assigned", "partitions.held_back", "partitions.paused", "partitions.released"),
    *("partitions.resumed", "position.reset", "position.resolved", "position.sought"),
)

#: After which the background may say it anew, or not; and methods at whose end a signal takes the
#: place of an error that is on its way to the user, as in every program.
_FORGETS: Final = ("actor.restarted", "member.lost", "session.unconfirmed")
_CALLS: Final = ("__next__", "guarded")

#: What ends a pause.
_GIVEN_OUT_AGAIN: Final = ("partitions.assigned", "partitions.released", "partitions.resumed")


def errors_that_are_due_are_raised(history: History) -> list[str]:
    """After the records before the error are given out, one of the next `POLLS` polls raises it.

    Records of other partitions may be given out before. The error need not be raised if its cause
    has gone by then, nor while its partition is paused.
    """
    complaints = []
    #: By consumer and partition: the error, and how many polls have returned without one since.
    due: dict[tuple[str, str], list[Any]] = {}
    paused: set[tuple[str, str]] = set()
    policies: dict[str, str] = {}
    #: By consumer and kind of error: it was raised, and until this time the same error of another
    #: partition need not be raised again.
    told: dict[tuple[str, str], float] = {}
    for event, reader in Replay(history):
        who, name = event["member"], event["event"]
        if name == "consumer.made":
            policies[who] = event.get("auto_offset_reset", "none")
        elif name == "position.failed" and event["at"] <= told.get((who, _kind(event)), -1.0):
            continue
        elif name in _DUE and not _is_reset(event, policies.get(who, "none")):
            for partition in event.get("partitions") or [event["partition"]]:
                if partition in reader.owned and (who, partition) not in paused:
                    due[who, partition] = [event, 0]
        elif name in _OVER:
            these = {(who, partition) for partition in event["partitions"]}
            for key in these:
                due.pop(key, None)
            if name == "partitions.paused":
                paused |= these
            elif name in _GIVEN_OUT_AGAIN:
                paused -= these
        elif name in _FORGETS or (name == "user.interrupted" and event.get("method") in _CALLS):
            for key in [key for key in due if key[0] == who]:
                del due[key]
        elif name in ("user.polled", "user.hears"):
            kind = str(event["error"]).partition("(")[0]
            if kind.endswith("AuthorizationFailedError"):
                told[who, kind] = event["at"] + ATTEMPT
            for key in [key for key in due if key[0] == who]:
                error, polls = due[key]
                if event["error"] is not None:
                    due[key][1] = 0  # one after the other
                    if event["error"].partition("(")[0] in str(error["because"]):
                        del due[key]
                elif _is_next(error, reader, key[1]):
                    due[key][1] += 1
                    if polls == POLLS:
                        complaints.append(
                            f"{when(event)} polled {polls + 1} times since {error['event']} of"
                            f" {key[1]} at {error['at']:.3f}, and was not told"
                        )
    return complaints


def _kind(error: Event) -> str:
    return str(error["because"]).partition(":")[0]


def _is_reset(error: Event, policy: str) -> bool:
    """Whether the user need not hear of it: out of range is where the policy knows where to go."""
    return policy != "none" and str(error["because"]).startswith("OffsetOutOfRangeError")


def _is_next(error: Event, reader: Reader, partition: str) -> bool:
    """Whether everything before the error was given out."""
    mine = reader.owned.get(partition)
    if mine is None or "offset" not in error:
        return mine is not None
    return mine.next is None or mine.next >= error["offset"]


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
    a_look_for_the_coordinator_is_short,
    every_future_ends_once,
    every_question_ends,
    errors_that_are_due_are_raised,
)
