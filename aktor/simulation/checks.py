"""The promises, each a named check over a history (docs/architecture.md, "Invariants").

A check takes a `History` and returns sentences, one for each time the promise was broken. They read
what happened, never the members' own state, so they hold for the trace of a real cluster as well.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from aktor.simulation.history import Event, History
from aktor.simulation.user_checks import (
    limits_are_kept,
    paused_partitions_are_silent,
    the_listener_hears_of_each_partition,
    the_listener_hears_the_right_word,
    what_is_given_is_what_was_written,
)

__all__ = ["CHECKS", "Check", "broken_promises"]

#: Seconds after which no fetch of a partition that was given up can be under way, and nobody can
#: have stood still all the time.
FORGOTTEN_WITHIN: Final = 20.0

#: Why a member gives its id up without a word: it is not known there (in the consumer protocol: it
#: begins again from epoch 0), or may not ask.
_WITHOUT_A_WORD: Final = (
    "fenced: UNKNOWN_MEMBER_ID",
    "fenced: FENCED_MEMBER_EPOCH",
    "after GroupAuthorizationFailedError",
)

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
    #: The topic was deleted since: what has its name now may be assigned to others (KIP-848 goes
    #: by ids), and is read by name until the metadata tells.
    outdated: bool = False

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
    #: Its `isolation_level`.
    isolation: str = ""
    #: The coordinator has expelled it for no reason, or while its clock stood still: it cannot
    #: know yet; until it joins anew.
    expelled: bool = False
    joins_anew: bool = False


class _Replay:
    """Reads a history and keeps who owns what, and what there is; the checks look on."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.logs = _Logs()
        self.readers: dict[str, _Reader] = defaultdict(_Reader)
        #: The latest generation of each group.
        self.latest: dict[str | None, int] = defaultdict(int)

    def __iter__(self) -> Iterator[tuple[Event, _Reader]]:
        """Each event, with the logs as they are after it and its reader as it was before it."""
        for event in self.history.events:
            self.logs.apply(event)
            reader = self.readers[event["member"]]
            yield event, reader
            self._apply(event, reader)

    def _apply(self, event: Event, reader: _Reader) -> None:
        match event["event"]:
            case "rebalance.synced" | "rebalance.target":
                reader.generation = event["generation"]
                group = event.get("group")
                self.latest[group] = max(self.latest[group], reader.generation)
                # An answer that waited while it slept tells of a generation that is over.
                if reader.joins_anew and reader.generation >= self.latest[group]:
                    reader.expelled = reader.joins_anew = False
            case "rebalance.triggered":
                reader.joins_anew = True
            case "group.begun":
                # It was empty, and counts from the beginning.
                self.latest[event["group"]] = 0
                for other in self.readers.values():
                    other.generation = -1
            case "topic.removed":
                for other in self.readers.values():
                    for one, theirs in other.owned.items():
                        theirs.outdated |= one.rpartition("-")[0] == event["topic"]
            case "group.converted":
                # Kafka goes by what its members were to own, not by what they own: until they have
                # joined, others may be given it.
                for other in self.readers.values():
                    other.expelled, other.joins_anew = True, False
            case "session.expired":
                self._expelled(event["consumer"])
            case "member.thawed" if event.get("asleep"):
                self._expelled(event["member"])
            case "partitions.assigned":
                reader.isolation = event.get("isolation", "")
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
                    # What the user sought wins over what was found meanwhile, unless it is that
                    # which is out of range.
                    if mine is None:
                        continue
                    came_to = (event.get("from_offsets") or {}).get(one)
                    if mine.sought and not self._passes_over(mine.next, came_to, one, reader):
                        continue
                    mine.sought = False
                    mine.move_to(offset)

    def _passes_over(
        self, start: int | None, end: int | None, partition: str, reader: _Reader
    ) -> bool:
        """Whether a reader may have come from `start` to `end` without having been given any."""
        if start is None or end is None:
            return start is end
        log = self.logs[partition]
        return start <= end <= log.passed_over(start, range(len(log.eras)), reader.isolation)

    def _expelled(self, member: str) -> None:
        """All consumers that this member has made."""
        for name, reader in self.readers.items():
            if name == member or name.startswith(f"{member}/"):
                reader.expelled = True
                reader.joins_anew = False


@dataclass
class _Log:
    """One partition's records, as the brokers' events tell, in all of its eras: a new one begins
    when its topic is created anew, or when a new leader did not have all of it."""

    #: When each era began, as in the timestamps of records.
    eras: list[int] = field(default_factory=lambda: [0])
    #: Offset to (era, second in which it was written), of what is there now.
    records: dict[int, tuple[int, float]] = field(default_factory=dict)
    #: After what anybody was given or committed, in any era; and that of eras that are over: who
    #: still goes by it may skip as much of a new era (aktor does not validate positions, KIP-320;
    #: and commits go by the topic's name, not its id).
    reached: int = 0
    carried: int = 0
    #: After the last record or marker.
    end: int = 0
    #: The same of the longest era that is over.
    furthest: int = 0
    #: Offsets of records whose transaction is open, by producer.
    open: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    #: (Era, offset) of records whose transaction was aborted, and of markers.
    aborted: set[tuple[int, int]] = field(default_factory=set)
    markers: set[tuple[int, int]] = field(default_factory=set)

    def begin_era(self, time: int, start: int) -> None:
        came_to = self.passed_over(self.reached, range(len(self.eras)), _COMMITTED)
        self.carried = max(self.carried, came_to)
        self.eras.append(time)
        self.furthest = max(self.furthest, self.end)
        self.end = start
        self.records = {one: what for one, what in self.records.items() if one < start}
        for producer, offsets in self.open.items():
            self.open[producer] = [one for one in offsets if one < start]

    def reach(self, offset: int, era: int) -> None:
        """Somebody is this far, in this era."""
        self.reached = max(self.reached, offset)
        if era < len(self.eras) - 1 or offset > self.end:
            self.carried = max(self.carried, offset)

    def era_of(self, event: Event, run: int) -> int:
        """The era of the records in a run of a delivery; the latest, where it does not say."""
        times = event.get("times")
        return len(self.eras) - 1 if times is None else bisect_right(self.eras, times[run]) - 1

    def readable(self, offset: int, era: int, isolation: str) -> bool:
        """Whether a reader must be given it, if it reads on from before."""
        found = self.records.get(offset)
        if found is None or found[0] > era:
            return False
        return isolation != _COMMITTED or (found[0], offset) not in self.aborted

    def passed_over(self, offset: int, eras: range, isolation: str) -> int:
        """Where a reader at `offset` may have come to in these eras without having been given a
        record."""
        hidden = [self.markers, *([self.aborted] if isolation == _COMMITTED else [])]
        while any((era, offset) in one for era in eras for one in hidden):
            offset += 1
        return offset


_COMMITTED: Final = "read_committed"


class _Logs:
    """Owns the logs of all partitions, as far as a history has been read."""

    def __init__(self) -> None:
        self.logs: dict[str, _Log] = defaultdict(_Log)

    def __getitem__(self, partition: str) -> _Log:
        return self.logs[partition]

    def apply(self, event: Event) -> None:
        match event["event"]:
            case "records.written":
                log = self.logs[event["partition"]]
                producer = event.get("producer")
                written = range(event["first"], event["last"] + 1)
                log.end = event["last"] + 1
                for offset in written:
                    log.records[offset] = len(log.eras) - 1, event["at"]
                if producer is not None:
                    log.open[producer] += written
            case "records.delivered":
                log = self.logs[event["partition"]]
                for run, (_, last) in enumerate(event["offsets"]):
                    log.reach(last + 1, log.era_of(event, run))
            case "offset.committed":
                log = self.logs[event["partition"]]
                log.reach(event["offset"], len(log.eras) - 1)
            case "transaction.ended":
                log = self.logs[event["partition"]]
                log.end = max(log.end, event["marker"] + 1)
                log.markers.add((len(log.eras) - 1, event["marker"]))
                offsets = log.open.pop(event["producer"], [])
                if not event["commit"]:
                    log.aborted.update((log.records[one][0], one) for one in offsets)
            case "log.truncated":
                self.logs[event["partition"]].begin_era(event["time"], event["to"])
            case "topic.removed":
                for name, log in self.logs.items():
                    if name.rpartition("-")[0] == event["topic"]:
                        log.records.clear()
                        log.open.clear()
            case "topic.created":
                for name, log in self.logs.items():
                    if name.rpartition("-")[0] == event["topic"]:
                        log.begin_era(event.get("time", 0), 0)
            case "log.ends":
                # What was not replicated when its leader went was never acknowledged.
                log = self.logs[event["partition"]]
                for one in [one for one in log.records if one >= event["end"]]:
                    del log.records[one]
                for one in [one for one in log.records if one < event["start"]]:
                    del log.records[one]


def _when(event: Event) -> str:
    return f"at {event['at']:.3f} {event['member']}"


# -- the promises


def no_gap_no_step_back_no_duplicate_inside_an_ownership(history: History) -> list[str]:
    """From the position where it begins, every record is given out once, in order.

    Where a topic is created anew, or an unclean election lost records, a reader may go on with what
    it has already; then it goes on with the new records, none of them left out.
    """
    complaints = []
    replay = _Replay(history)
    eras: dict[tuple[str, str], int] = {}
    for event, reader in replay:
        if event["event"] != "records.delivered":
            continue
        where = event["partition"]
        mine = reader.owned.get(where)
        if mine is None:
            continue  # another check's business
        log = replay.logs[where]
        expected = mine.next
        for run, (first, last) in enumerate(event["offsets"]):
            era = log.era_of(event, run)
            before = range(eras.get((event["member"], where), 0), era)
            eras[event["member"], where] = era
            if expected is not None and first < expected:
                complaints.append(
                    f"{_when(event)} was given {where}:{first} again, after {expected - 1}"
                )
            elif expected is not None and any(
                log.readable(offset, era, reader.isolation)
                for offset in range(log.passed_over(expected, before, reader.isolation), first)
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
        elif name == "group.begun":
            owner = {key: mine for key, mine in owner.items() if key[0] != event["group"]}
        elif name == "records.delivered":
            one = event["partition"]
            if one not in reader.owned:
                complaints.append(f"{_when(event)} was given {one}, which it does not own")
            elif (
                event["group"] is not None
                and not reader.expelled
                and not reader.owned[one].outdated
            ):
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
                    mine = theirs.owned.get(one)
                    if other != event["member"] and mine and not (late or mine.outdated):
                        early[other, one] = _when(event)
        elif name == "partitions.going":
            for one in event["partitions"]:
                told = early.pop((event["member"], one), None)
                # Who slept meanwhile may not know.
                if told is not None and event["loss"] == "revoked" and not reader.expelled:
                    complaints.append(f"{told} was assigned {one} before {_when(event)} gave it up")
        elif name == "partitions.released":
            # Its listener was slow: it began to give it up before, and was expelled meanwhile.
            for one in event["partitions"]:
                early.pop((event["member"], one), None)
    return complaints


def every_record_is_finished(history: History) -> list[str]:
    """What was written and is still there was given to somebody of each group that reads it, who
    came back for more or committed it. Asked only of histories that demand it, by
    `progress.demanded`; the last one of a group counts.

    Where a topic is created anew, or an unclean election lost records, that is: what was written
    since, from where the group had come to before.
    """
    demanded = {event["group"]: event.get("topics") for event in history.named("progress.demanded")}
    if not demanded:
        return []
    logs = _Logs()
    #: Of each group and partition, (era, offset).
    finished: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    under_way: dict[str, list[tuple[tuple[str, str], int, int, int]]] = defaultdict(list)
    isolation: dict[str, str] = {}
    for event in history.events:
        logs.apply(event)
        match event["event"]:
            case "partitions.assigned":
                isolation[event["group"]] = event.get("isolation", "")
            case "records.delivered" if event["group"] in demanded:
                key = event["group"], event["partition"]
                log = logs[event["partition"]]
                for run, (first, last) in enumerate(event["offsets"]):
                    era = log.era_of(event, run)
                    under_way[event["member"]].append((key, era, first, last))
            case "user.returned" | "user.commits" | "consumer.closing":
                for key, era, first, last in under_way.pop(event["member"], ()):
                    for offset in range(first, last + 1):
                        found = logs[key[1]].records.get(offset)
                        # Of an earlier era that this one took over.
                        if found is not None and found[0] <= era:
                            finished[key].add((found[0], offset))
    complaints = []
    for group, topics in sorted(demanded.items()):
        for partition, log in sorted(logs.logs.items()):
            if topics is not None and partition.rpartition("-")[0] not in topics:
                continue
            missing = {
                offset
                for offset, (era, _) in log.records.items()
                if (era, offset) not in finished[group, partition]
                and (era == 0 or offset >= log.carried)
                and log.readable(offset, era, isolation.get(group, ""))
            }
            if missing:
                complaints.append(f"group {group} never finished {partition}:{_some(missing)}")
    return complaints


def read_committed_sees_committed_records_only(history: History) -> list[str]:
    """Nothing of a transaction that was aborted, or is still open."""
    complaints = []
    replay = _Replay(history)
    for event, reader in replay:
        if event["event"] != "records.delivered" or reader.isolation != _COMMITTED:
            continue
        log = replay.logs[event["partition"]]
        still_open = {one for offsets in log.open.values() for one in offsets}
        for run, (first, last) in enumerate(event["offsets"]):
            era = log.era_of(event, run)
            for offset in range(first, last + 1):
                found = log.records.get(offset)
                if found is None or found[0] > era:
                    continue
                if offset in still_open or (found[0], offset) in log.aborted:
                    state = "open" if offset in still_open else "aborted"
                    complaints.append(
                        f"{_when(event)} was given {event['partition']}:{offset}, which is {state}"
                    )
    return complaints


def no_commit_above_what_was_finished(history: History) -> list[str]:
    """What a consumer commits of its own accord the user came back from; what the user commits
    they were given."""
    complaints = []
    replay = _Replay(history)
    for event, reader in replay:
        if event["event"] != "commit.sent" or not isinstance(event.get("offsets"), dict):
            continue
        for one, offset in event["offsets"].items():
            mine = reader.owned.get(one)
            if mine is None:
                continue
            limit = mine.given if event["kind"] == "asked" else mine.finished
            if limit is None or offset <= limit:
                continue
            log = replay.logs[one]
            if len(log.eras) > 1 and offset <= log.furthest:
                continue  # its position may be that in an era that is over, markers and all
            # Markers and what was aborted are nothing that anybody could finish.
            if offset > log.end or any(
                log.readable(skipped, len(log.eras), reader.isolation)
                for skipped in range(limit, offset)
            ):
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
                for key in [key for key in latest if key[1].rpartition("-")[0] == event["topic"]]:
                    del latest[key]
            case "log.truncated":
                for key in [key for key in latest if key[1] == event["partition"]]:
                    latest[key] = min(latest[key], event["to"])
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
            case "rebalance.synced" | "rebalance.target":
                out.discard(event["member"])
            case "partitions.assigned" if event["by_group"] and event["member"] in out:
                complaints.append(
                    f"{_when(event)} took on {event['partitions']} of the group that it had left"
                )
    return complaints


def who_leaves_is_gone(history: History) -> list[str]:
    """A group has nothing of a consumer that was closed or unsubscribed: no member id but those
    that it had no time or no right to take back, and those that came back with an older state of
    the group after the coordinator had said that they are gone. Nor of one whose actors are beyond
    help."""
    complaints = []
    excused: dict[str, set[str]] = defaultdict(set)
    given_up: set[str] = set()
    beyond_help: set[str] = set()
    for event in history.events:
        who = event["member"]
        match event["event"]:
            case "user.leaves":
                given_up.discard(who)
            case "member.left" | "member.stayed":
                excused[who].add(event["member_id"])
            case "member.lost" if event["because"] in _WITHOUT_A_WORD:
                excused[who].add(event["member_id"])
            case "member.epoch":
                excused[who].discard(event["member_id"])  # the consumer protocol keeps its id
            case "member.leave_failed":
                given_up.add(who)
            case "actor.escalated":
                beyond_help.add(who)
            case "group.still_has" if who in given_up | beyond_help:
                excused[who].update(event["member_ids"])
            case "group.still_has":
                if left := set(event["member_ids"]) - excused[who]:
                    complaints.append(f"{_when(event)} has left, but its group has {sorted(left)}")
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
            case "member.left" | "member.stayed":
                excused[who].add(event["member_id"])
            case "member.lost" if event["because"] in _WITHOUT_A_WORD:
                excused[who].add(event["member_id"])
            case "member.killed" | "actor.escalated":
                dead.add(who)
            case "group.has_stranger" if not {who, _process(who)} & dead:
                if event["member_id"] not in excused[who]:
                    complaints.append(
                        f"{_when(event)} does not know {event['member_id']}, which is a member of"
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
        elif event["at"] > slept.get(_process(event["member"]), -math.inf) + FORGOTTEN_WITHIN:
            complaints.append(
                f"{_when(event)} believes in its session for {event['seconds']} s too long"
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
                complaints.append(f"{_when(event)} sent request {key[2]} twice")
            sent[key] = event
        elif key in sent:
            del sent[key]
        elif name == "request.answered":
            complaints.append(f"{_when(event)} had request {key[2]} answered twice, or unasked")
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
            complaints.append(f"{_when(event)} had future {key[1]} ended twice")
    return complaints + _without_end(history, given.values(), "was given future")


#: Seconds after which what was begun has ended, whatever is configured in a storm; and after which
#: who owns records that can be read has given some of them out.
ENDS: Final = 90.0
DELIVERS: Final = 60.0


def _without_end(history: History, begun: Iterable[Event], what: str) -> list[str]:
    """Those that are still open, though they began long ago and their process lives."""
    if not history.events:
        return []
    end = history.events[-1]["at"]
    gone = _gone(history)
    standing = _standing_still(history)
    return [
        f"{_when(event)} {what}, which never ended"
        for event in begun
        if event["member"] not in gone
        and event["at"] + ENDS + standing[_process(event["member"])] < end
    ]


def _gone(history: History) -> set[str]:
    """Consumers that ended, with their process or without."""
    killed = {event["member"] for event in history.named("member.killed")}
    closed = {event["member"] for event in history.named("consumer.closed")}
    return closed | {one["member"] for one in history.events if _process(one["member"]) in killed}


def _process(consumer: str) -> str:
    """The member that made it: "alice" made "alice" and "alice/2"."""
    return consumer.partition("/")[0]


def _standing_still(history: History) -> dict[str, float]:
    """Seconds that each member's process stood still."""
    seconds: dict[str, float] = defaultdict(float)
    since: dict[str, float] = {}
    for event in history.named("member.frozen", "member.thawed"):
        if event["event"] == "member.frozen":
            since[event["member"]] = event["at"]
        else:
            seconds[event["member"]] += event["at"] - since.pop(event["member"], event["at"])
    end = history.events[-1]["at"] if history.events else 0.0
    for member, began in since.items():
        seconds[member] += end - began
    return seconds


def no_message_vanishes(history: History) -> list[str]:
    """Nobody is told what they do not know; no fetched data has a hole in front of it."""
    return [
        f"{_when(event)}: {event}"
        for event in history.named("message.dropped", "chunk.dropped")
        if event.get("because") == "unknown" or event["level"] == "error"
    ]


def buffers_stay_in_bounds(history: History) -> list[str]:
    """`max_buffered_bytes` bounds what is fetched and could be given out, arrived or taken over.

    Beyond it are: for each Fetch that can be under way (two for each broker), a first batch, which
    a broker sends whole however little was asked for (KIP-74); for each broker a sixteenth of the
    bound, asked for beside a Fetch in its long poll. What was fetched of a partition before it was
    paused, and before a seek, does not count: it must not keep the others from being fetched.
    """
    return [f"{_when(event)}: {event}" for event in history.named("buffer.exceeded")]


def nothing_is_given_after_its_callback(history: History) -> list[str]:
    """Once `on_partitions_revoked` or `on_partitions_lost` has returned, a partition is silent
    until it is assigned again."""
    complaints = []
    told: dict[str, set[str]] = defaultdict(set)
    for event in history.events:
        gone = told[event["member"]]
        match event["event"]:
            case "callback.finished" | "callback.failed":
                if event["callback"] != "on_partitions_assigned":
                    gone.update(event["partitions"])
            case "partitions.assigned":
                gone.difference_update(event["partitions"])
            case "records.delivered" if event["partition"] in gone:
                complaints.append(
                    f"{_when(event)} was given {event['partition']} after its listener was told"
                )
    return complaints


def resets_are_traced(history: History) -> list[str]:
    """Every reset says from where to where, and why."""
    return [
        f"{_when(event)} reset {sorted(event['partitions'])} without saying from where, or why"
        for event in history.named("position.reset")
        if event["partitions"].keys() != event.get("from_offsets", {}).keys()
        or not event.get("because")
    ]


#: As the supervisor has it: so many crashes of one actor in so many seconds are mended.
RESTARTS: Final = 5
WITHIN: Final = 60.0


def restart_budgets_are_kept(history: History) -> list[str]:
    """An actor that crashes more often is not restarted any more; after that its consumer is
    finished."""
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
            case "actor.restarted":
                if member in escalated:
                    complaints.append(
                        f"{_when(event)} restarted {event['actors']} after it gave up"
                    )
                now = event["at"] + ahead[_process(member)]
                recent = restarts[member, event["actors"][0]]
                recent[:] = [*(one for one in recent if now - one < WITHIN), now]
                if len(recent) > RESTARTS:
                    complaints.append(
                        f"{_when(event)} restarted {event['actors'][0]} {len(recent)} times in"
                        f" {WITHIN:g} s"
                    )
    return complaints


#: Requests of one consumer in a second in which it gives nothing out: several times what is seen.
#: And one for each batch that is written meanwhile, which it fetches ahead; and what each rebalance
#: in it may cost, but for those of one that turns in circles.
IDLE: Final = 40
PER_REBALANCE: Final = 5
REBALANCES: Final = 8


def an_idle_consumer_is_idle(history: History) -> list[str]:
    """In a second in which it gives nothing out it does not send one request after the other."""
    sent: Counter[tuple[str, int]] = Counter()
    rebalances: Counter[tuple[str, int]] = Counter()
    written: Counter[int] = Counter()
    delivering = set()
    for event in history.events:
        second = event["member"], int(event["at"])
        match event["event"]:
            case "request.sent":
                sent[second] += 1
            case "rebalance.triggered":
                rebalances[second] += 1
            case "records.written" | "transaction.ended":
                written[second[1]] += 1
            case "records.delivered":
                delivering.add(second)
    return [
        f"at {second[1]} s {second[0]} gave nothing out, and sent {count} requests in a second"
        for second, count in sorted(sent.items())
        if second not in delivering
        and count > IDLE + written[second[1]] + PER_REBALANCE * min(rebalances[second], REBALANCES)
    ]


def nothing_replicated_is_lost(history: History) -> list[str]:
    """Of the brokers: only an unclean election loses what all in sync had."""
    return [
        f"at {event['at']:.3f} {event['partition']} lost {event['to']} to {event['replicated'] - 1}"
        for event in history.named("log.truncated")
        if event["to"] < event["replicated"] and not event["unclean"]
    ]


def who_owns_records_gives_them_out(history: History) -> list[str]:
    """A consumer that owns a partition with records that it has not given out, neither paused nor
    hindered by a fault, gives some out within `DELIVERS` seconds, or says why not."""
    complaints = []
    logs = _Logs()
    replay = _Replay(history)
    waits = _Waits()
    for event, reader in replay:
        if event["event"] == "records.delivered":
            complaints += waits.over(event, reader, logs, event["partition"], event["at"])
        logs.apply(event)
        waits.apply(event)
    gone = _gone(history)
    for member, reader in replay.readers.items():
        for partition in sorted(reader.owned) if member not in gone else ():
            end = history.events[-1]
            complaints += waits.over({**end, "member": member}, reader, logs, partition, end["at"])
    return complaints


class _Waits:
    """Since when who waits for records has nothing to blame but itself."""

    def __init__(self) -> None:
        self._faults: set[int] = set()
        self._frozen: set[str] = set()
        self._paused: set[tuple[str, str]] = set()
        self._everybody = 0.0
        self._since: dict[str, float] = defaultdict(float)
        self._given: dict[tuple[str, str], float] = defaultdict(float)
        self._stable: dict[str, float] = defaultdict(float)

    def apply(self, event: Event) -> None:
        at, member = event["at"], event["member"]
        match event["event"]:
            case "fault.began":
                self._faults.add(event["number"])
            case "fault.ended":
                self._faults.discard(event["number"])
                self._everybody = at
            case "member.frozen":
                self._frozen.add(member)
            case "member.thawed":
                self._frozen.discard(member)
                self._since[member] = at
            case "user.hears" | "user.was_away" | "position.failed" | "actor.restarted":
                self._since[member] = self._since[_process(member)] = at
            case "partitions.assigned":
                self._since[member] = at
            case "partitions.paused":
                self._paused.update((member, one) for one in event["partitions"])
            case "partitions.resumed":
                self._paused.difference_update((member, one) for one in event["partitions"])
                self._since[member] = at
            case "records.delivered":
                self._given[member, event["partition"]] = at
            case "transaction.ended" | "log.truncated" | "replica.released":
                self._stable[event["partition"]] = at

    def over(
        self, event: Event, reader: _Reader, logs: _Logs, partition: str, now: float
    ) -> list[str]:
        """What there is to say when a wait for records ends."""
        member = event["member"]
        mine = reader.owned.get(partition)
        hindered = self._faults or _process(member) in self._frozen
        if mine is None or hindered or (member, partition) in self._paused:
            return []
        log = logs[partition]
        unread = next(
            (
                log.records[offset][1]
                for offset in range(mine.next or 0, log.end)
                if log.readable(offset, len(log.eras), reader.isolation)
            ),
            None,
        )
        if unread is None:
            return []
        since = max(
            unread,
            self._everybody,
            self._since[member],
            self._since[_process(member)],
            self._given[member, partition],
            self._stable[partition],
        )
        if now - since <= DELIVERS:
            return []
        return [
            f"{member} gave nothing of {partition}:{mine.next} out from {since:.3f} to {now:.3f}"
        ]


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
    read_committed_sees_committed_records_only,
    no_commit_above_what_was_finished,
    only_owners_commit,
    committed_offsets_never_go_back,
    nobody_is_told_that_nothing_is_committed,
    calls_end_in_time,
    nothing_is_assigned_after_unsubscribing,
    who_leaves_is_gone,
    nobody_is_left_behind,
    no_session_is_believed_in_for_too_long,
    every_request_ends_once,
    every_future_ends_once,
    no_message_vanishes,
    buffers_stay_in_bounds,
    nothing_is_given_after_its_callback,
    resets_are_traced,
    restart_budgets_are_kept,
    an_idle_consumer_is_idle,
    nothing_replicated_is_lost,
    who_owns_records_gives_them_out,
    what_is_given_is_what_was_written,
    paused_partitions_are_silent,
    limits_are_kept,
    the_listener_hears_of_each_partition,
    the_listener_hears_the_right_word,
)
