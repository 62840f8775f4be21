"""The promises, each a named check over a history (docs/architecture.md, "Invariants").

A check takes a `History` and returns sentences, one for each time the promise was broken. They read
what happened, never the members' own state, so they hold for the trace of a real cluster as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from aktor.simulation.history import Event, History

__all__ = ["CHECKS", "Check", "broken_promises"]

#: Seconds after which no fetch of a partition that was given up can be under way, and nobody can
#: have stood still all the time.
FORGOTTEN_WITHIN: Final = 20.0

Check = Callable[[History], list[str]]


def broken_promises(history: History) -> list[str]:
    """What any check complains about, each with the check's name."""
    return [f"{check.__name__}: {complaint}" for check in CHECKS for complaint in check(history)]


# -- who had what


@dataclass
class _Ownership:
    """One partition in the hands of one consumer, from `partitions.assigned` on."""

    #: The next offset to be given out, None until it is known.
    next: int | None = None
    #: What the user has been given, and what of it is finished: they came back for more.
    given: int | None = None
    finished: int | None = None
    #: The user has said where to go on, and nothing was given out since.
    sought: bool = False

    def move_to(self, offset: int | None) -> None:
        """It goes on here. What was finished stays so, though the user went back."""
        self.next = offset
        if offset is not None:
            self.given = max(offset, self.given or 0)
            self.finished = max(offset, self.finished or 0)


@dataclass
class _Reader:
    """One consumer, as its events tell."""

    owned: dict[str, _Ownership] = field(default_factory=dict)
    #: Of the assignment that it heard of last.
    generation: int = -1
    #: The coordinator has expelled it for no reason, and it cannot know yet; until it joins anew.
    expelled: bool = False
    joins_anew: bool = False


class _Replay:
    """Reads a history and keeps who owns what; the checks look on."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.readers: dict[str, _Reader] = defaultdict(_Reader)

    def __iter__(self) -> Iterator[tuple[Event, _Reader]]:
        """Each event, and its reader as it was before it."""
        for event in self.history.events:
            reader = self.readers[event["member"]]
            yield event, reader
            self._apply(event, reader)

    def _apply(self, event: Event, reader: _Reader) -> None:
        match event["event"]:
            case "rebalance.synced":
                reader.generation = event["generation"]
                if reader.joins_anew:
                    reader.expelled = reader.joins_anew = False
            case "rebalance.triggered":
                reader.joins_anew = True
            case "session.expired":
                self.readers[event["client_id"]].expelled = True
                self.readers[event["client_id"]].joins_anew = False
            case "partitions.assigned":
                for one in event["partitions"]:
                    reader.owned[one] = _Ownership()
            case "partitions.released":
                for one in event["partitions"]:
                    reader.owned.pop(one, None)
            case "records.delivered":
                mine = reader.owned.get(event["partition"])
                if mine is not None:
                    mine.next = event["offsets"][-1][1] + 1
                    mine.given = max(mine.next, mine.given or 0)
                    mine.sought = False
            case "user.returned" | "user.commits" | "consumer.closing":
                for mine in reader.owned.values():
                    mine.finished = mine.given
            case "position.sought":
                mine = reader.owned.get(event["partition"])
                if mine is not None:
                    mine.move_to(event["offset"])
                    mine.sought = event["offset"] is not None
            case "position.resolved" | "position.reset":
                for one, offset in event["partitions"].items():
                    mine = reader.owned.get(one)
                    if mine is None:
                        continue
                    # What the user sought wins over what was found meanwhile, unless that is not
                    # there any more.
                    outside = (event.get("from_offsets") or {}).get(one) == mine.next
                    if not mine.sought or outside:
                        mine.move_to(offset)


def _when(event: Event) -> str:
    return f"at {event['at']:.3f} {event['member']}"


# -- the promises


def no_gap_no_step_back_no_duplicate_inside_an_ownership(history: History) -> list[str]:
    """From the position where it begins, every record is given out once, in order."""
    complaints = []
    written = _written(history)
    for event, reader in _Replay(history):
        if event["event"] != "records.delivered":
            continue
        where = event["partition"]
        mine = reader.owned.get(where)
        if mine is None:
            continue  # another check's business
        expected = mine.next
        for first, last in event["offsets"]:
            if expected is not None and first < expected:
                complaints.append(
                    f"{_when(event)} was given {where}:{first} again, after {expected - 1}"
                )
            elif expected is not None and any(
                offset in written[where] for offset in range(expected, first)
            ):
                complaints.append(
                    f"{_when(event)} was given {where}:{first}, which skips from {expected}"
                )
            expected = last + 1
    return complaints


def only_owners_are_given_records(history: History) -> list[str]:
    """Nothing is given out before a partition is assigned, or once it was handed on, revoked or
    lost: also not to somebody who has not heard of it yet."""
    complaints = []
    #: The rightful owner is who was assigned it in the latest generation, even if another one was
    #: too busy to apply an earlier assignment sooner.
    owner: dict[tuple[str, str], tuple[int, str]] = {}
    for event, reader in _Replay(history):
        name = event["event"]
        if name == "partitions.assigned" and event["by_group"]:
            for one in event["partitions"]:
                key = event["group"], one
                mine = reader.generation, event["member"]
                if mine[0] >= owner.get(key, mine)[0]:
                    owner[key] = mine
        elif name == "records.delivered":
            one = event["partition"]
            if one not in reader.owned:
                complaints.append(f"{_when(event)} was given {one}, which it does not own")
            elif event["group"] is not None and not reader.expelled:
                now = owner.get((event["group"], one), (0, event["member"]))[1]
                if now != event["member"]:
                    complaints.append(f"{_when(event)} was given {one}, which {now} owns by now")
    return complaints


def nothing_is_given_out_while_it_is_handed_back(history: History) -> list[str]:
    """Once it is said how far a partition was read, for the last commit, no more of it follows."""
    complaints = []
    going: dict[str, set[str]] = defaultdict(set)
    for event in history.events:
        mine = going[event["member"]]
        match event["event"]:
            case "partitions.held_back":
                mine.update(event["partitions"])
            case "partitions.released" | "partitions.assigned":
                mine.difference_update(event["partitions"])
            case "records.delivered" if event["partition"] in mine:
                complaints.append(f"{_when(event)} was given {event['partition']}, which is going")
    return complaints


def nothing_is_fetched_that_was_given_up(history: History) -> list[str]:
    """Nothing that was written long after a consumer gave a partition up is fetched by it."""
    complaints = []
    gone: dict[tuple[str, str], float] = {}
    written: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for event in history.events:
        match event["event"]:
            case "records.written":
                written[event["partition"]].append((event["first"], event["at"]))
            case "partitions.released":
                gone.update({(event["member"], one): event["at"] for one in event["partitions"]})
            case "partitions.assigned":
                for one in event["partitions"]:
                    gone.pop((event["member"], one), None)
            case "chunk.dropped":
                one = event["partition"]
                since = gone.get((event["member"], one))
                at = max(
                    (at for first, at in written[one] if first <= event["offset"]), default=0.0
                )
                if since is not None and at > since + FORGOTTEN_WITHIN:
                    complaints.append(
                        f"{_when(event)} had {one}:{event['offset']} fetched, written at {at:.3f}"
                        f" and given up at {since:.3f}"
                    )
    return complaints


def partitions_are_handed_over_in_order(history: History) -> list[str]:
    """Nobody is assigned what another member has yet to revoke, unless that one is expelled."""
    complaints = []
    early: dict[tuple[str, str], str] = {}
    readers: dict[str, _Reader] = {}
    for event, reader in _Replay(history):
        readers[event["member"]] = reader
        name = event["event"]
        if name == "partitions.assigned" and event["by_group"]:
            for one in event["partitions"]:
                for other, theirs in readers.items():
                    late = theirs.expelled or theirs.generation > reader.generation
                    if other != event["member"] and one in theirs.owned and not late:
                        early[other, one] = _when(event)
        elif name == "partitions.going":
            for one in event["partitions"]:
                told = early.pop((event["member"], one), None)
                if told is not None and event["loss"] == "revoked":
                    complaints.append(f"{told} was assigned {one} before {_when(event)} gave it up")
    return complaints


def every_record_is_finished(history: History) -> list[str]:
    """What was written and is still there was given to somebody of each group, who came back for
    more or committed it. Asked only of histories that demand it, by `progress.demanded`."""
    demanded = {event["group"] for event in history.named("progress.demanded")}
    if not demanded:
        return []
    written = _written(history)
    finished: dict[str, dict[str, set[int]]] = {one: defaultdict(set) for one in demanded}
    under_way: dict[str, list[Event]] = defaultdict(list)
    for event in history.events:
        match event["event"]:
            case "records.delivered" if event["group"] in demanded:
                under_way[event["member"]].append(event)
            case "user.returned" | "user.commits" | "consumer.closing":
                for given in under_way.pop(event["member"], ()):
                    for first, last in given["offsets"]:
                        finished[given["group"]][given["partition"]].update(range(first, last + 1))
    return [
        f"group {group} never finished {partition}:{_some(missing)}"
        for group in sorted(demanded)
        for partition, offsets in sorted(written.items())
        if (missing := offsets - finished[group][partition])
    ]


def no_commit_above_what_was_finished(history: History) -> list[str]:
    """What a consumer commits of its own accord the user came back from; what the user commits
    they were given."""
    complaints = []
    for event, reader in _Replay(history):
        if event["event"] != "commit.sent" or not isinstance(event.get("offsets"), dict):
            continue
        for one, offset in event["offsets"].items():
            mine = reader.owned.get(one)
            if mine is None:
                continue
            limit = mine.given if event["kind"] == "asked" else mine.finished
            if limit is not None and offset > limit:
                complaints.append(f"{_when(event)} commits {one}:{offset}, finished is {limit}")
    return complaints


def only_owners_commit(history: History) -> list[str]:
    """A consumer of a group commits no partition that it does not own."""
    complaints = []
    for event, reader in _Replay(history):
        if event["event"] == "commit.sent" and isinstance(event.get("offsets"), dict):
            complaints += [
                f"{_when(event)} commits {one}, which it does not own"
                for one in event["offsets"]
                if event["kind"] != "asked" and one not in reader.owned
            ]
    return complaints


def committed_offsets_never_go_back(history: History) -> list[str]:
    """Unless who commits sought or was reset, since the partition is theirs."""
    complaints = []
    latest: dict[tuple[str, str], int] = {}
    moved: dict[str, set[str]] = defaultdict(set)
    #: What somebody commits who has gone back.
    excused: set[tuple[str, int]] = set()
    for event in history.events:
        match event["event"]:
            case "position.sought":
                moved[event["member"]].add(event["partition"])
            case "position.reset":
                moved[event["member"]].update(event["partitions"])
            case "partitions.released":
                moved[event["member"]].difference_update(event["partitions"])
            case "commit.sent" if isinstance(event.get("offsets"), dict):
                mine = moved[event["member"]]
                excused.update(item for item in event["offsets"].items() if item[0] in mine)
            case "topic.removed":
                for key in [key for key in latest if key[1].startswith(event["topic"] + "-")]:
                    del latest[key]
            case "offset.committed":
                key = event["group"], event["partition"]
                before, offset = latest.get(key, -1), event["offset"]
                if offset < before and (event["partition"], offset) not in excused:
                    complaints.append(
                        f"at {event['at']:.3f} {key[0]} {key[1]}: {offset} after {before}"
                    )
                latest[key] = offset
    return complaints


def nobody_is_told_that_nothing_is_committed(history: History) -> list[str]:
    """Neither a consumer that looks for its position nor its user, once something is."""
    complaints = []
    #: Since when something is committed.
    committed: dict[tuple[str, str], float] = {}
    #: When a consumer came to own a partition: its look-up is not older.
    owned: dict[tuple[str, str], tuple[str, float]] = {}
    for event in history.events:
        match event["event"]:
            case "offset.committed":
                committed.setdefault((event["group"], event["partition"]), event["at"])
            case "topic.removed":
                for key in [key for key in committed if key[1].startswith(event["topic"] + "-")]:
                    del committed[key]
                owned.clear()
            case "partitions.assigned":
                for one in event["partitions"]:
                    owned[event["member"], one] = event["group"], event["at"]
            case "position.reset" if event["because"] == "no offset is committed":
                for one in event["partitions"]:
                    group, since = owned.get((event["member"], one), (None, -math.inf))
                    if committed.get((str(group), one), math.inf) < since:
                        complaints.append(f"{_when(event)} takes {one} for never committed")
            case "user.finds_nothing_committed":
                one = event["partition"]
                if committed.get((event["group"], one), math.inf) < event["at"] - event["seconds"]:
                    complaints.append(f"{_when(event)} is told that {one} was never committed")
    return complaints


def calls_end_in_time(history: History) -> list[str]:
    """No call takes longer than its timeout, but for the listener's time, and a frozen process."""
    complaints = []
    frozen: dict[str, list[list[float]]] = defaultdict(list)
    for event in history.events:
        process = event["member"].partition("/")[0]
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
                        f"{_when(event)} waited {event['took']:.3f} s for {event['call']}, which"
                        f" may take {event['allowed']:.3f} s"
                    )
    return complaints


def nothing_is_assigned_after_unsubscribing(history: History) -> list[str]:
    """Who has unsubscribed is given partitions only by a group that was joined anew."""
    complaints = []
    out: set[str] = set()
    for event in history.events:
        match event["event"]:
            case "user.unsubscribed":
                out.add(event["member"])
            case "rebalance.synced":
                out.discard(event["member"])
            case "partitions.assigned" if event["by_group"] and event["member"] in out:
                complaints.append(
                    f"{_when(event)} took on {event['partitions']} of the group that it had left"
                )
    return complaints


def who_closes_tells_the_group(history: History) -> list[str]:
    """A member that is closed while its coordinator is known sends LeaveGroup."""
    complaints = []
    members: set[str] = set()
    reachable: set[str] = set()
    owes: set[str] = set()
    for event in history.events:
        who = event["member"]
        match event["event"]:
            case "rebalance.synced":
                members.add(who)
            case "member.lost" | "actor.restarted" | "actor.crashed":
                members.discard(who)
                owes.discard(who)
            case "coordinator.found":
                reachable.add(who)
            case "coordinator.lost":
                reachable.discard(who)
                owes.discard(who)
            case "member.leave_failed":
                owes.discard(who)  # it tried as long as it could
            case "consumer.closing" if who in members & reachable:
                owes.add(who)
            case "request.sent" if event["api"] == "LeaveGroup":
                owes.discard(who)
                members.discard(who)
            case "consumer.closed" if who in owes:
                complaints.append(f"{_when(event)} closed and did not leave its group")
    return complaints


def every_request_ends_once(history: History) -> list[str]:
    """An answer or a failure for each request, and only for requests that were sent."""
    complaints = []
    open_: set[tuple[str, int, int]] = set()
    for event in history.events:
        name = event["event"]
        if name not in ("request.sent", "request.answered", "request.failed"):
            continue
        key = event["member"], event["incarnation"], event["request"]
        if name == "request.sent":
            if key in open_:
                complaints.append(f"{_when(event)} sent request {key[2]} twice")
            open_.add(key)
        elif key in open_:
            open_.remove(key)
        elif name == "request.answered":
            complaints.append(f"{_when(event)} had request {key[2]} answered twice, or unasked")
    return complaints


def no_message_vanishes(history: History) -> list[str]:
    """Nobody is told what they do not know; no fetched data has a hole in front of it."""
    return [
        f"{_when(event)}: {event}"
        for event in history.named("message.dropped", "chunk.dropped")
        if event.get("because") == "unknown" or event["level"] == "error"
    ]


def buffers_stay_in_bounds(history: History) -> list[str]:
    """`max_buffered_bytes` is kept."""
    return [f"{_when(event)}: {event}" for event in history.named("buffer.exceeded")]


def _written(history: History) -> dict[str, set[int]]:
    """Offsets of the records that are there in the end, by partition."""
    written: dict[str, set[int]] = defaultdict(set)
    for event in history.named("records.written", "topic.removed", "log.ends"):
        match event["event"]:
            case "records.written":
                written[event["partition"]].update(range(event["first"], event["last"] + 1))
            case "topic.removed":
                for one in [one for one in written if one.rpartition("-")[0] == event["topic"]]:
                    del written[one]
            case "log.ends":
                # What was not replicated when its leader went was never acknowledged.
                there = range(event["start"], event["end"])
                written[event["partition"]].intersection_update(there)
    return written


def _some(offsets: set[int]) -> Any:
    ordered = sorted(offsets)
    return ordered if len(ordered) <= 5 else f"{ordered[:5]} and {len(ordered) - 5} more"


CHECKS: Final[tuple[Check, ...]] = (
    no_gap_no_step_back_no_duplicate_inside_an_ownership,
    only_owners_are_given_records,
    nothing_is_given_out_while_it_is_handed_back,
    nothing_is_fetched_that_was_given_up,
    partitions_are_handed_over_in_order,
    every_record_is_finished,
    no_commit_above_what_was_finished,
    only_owners_commit,
    committed_offsets_never_go_back,
    nobody_is_told_that_nothing_is_committed,
    calls_end_in_time,
    nothing_is_assigned_after_unsubscribing,
    who_closes_tells_the_group,
    every_request_ends_once,
    no_message_vanishes,
    buffers_stay_in_bounds,
)
