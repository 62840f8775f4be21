"""Checks of records: each is given out once, in order, and unchanged."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Final

from aktor.simulation.checks.logs import COMMITTED, Logs
from aktor.simulation.checks.readers import Replay, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS", "every_record_is_finished"]


def no_gap_no_step_back_no_duplicate_inside_an_ownership(history: History) -> list[str]:
    """From the position where it begins, every record is given out once, in order.

    If a topic is created again, or an unclean election lost records, a reader may first give out
    old buffered records; then it goes on with the new records and leaves none out.
    """
    complaints = []
    replay = Replay(history)
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
                    f"{when(event)} was given {where}:{first} again, after {expected - 1}"
                )
            elif expected is not None and any(
                log.readable(offset, era, reader.isolation)
                for offset in range(log.passed_over(expected, before, reader.isolation), first)
            ):
                complaints.append(
                    f"{when(event)} was given {where}:{first}, which skips from {expected}"
                )
            expected = last + 1
    return complaints


def every_record_is_finished(history: History) -> list[str]:
    """For each existing record and each group that reads it, a member has got the record, and has
    polled again or committed it; or a member has sought past it (as a reader with offsets stored
    elsewhere does), or has passed over it because it could not be read. Checked only for histories
    with `progress.demanded`; the last of these events of a group counts.

    If a topic is created again, or an unclean election lost records, only records that were written
    since count, from the group's position on.
    """
    demanded = {event["group"]: event.get("topics") for event in history.named("progress.demanded")}
    if not demanded:
        return []
    books = _Books()
    for event in history.named(*_Books.KINDS):
        books.apply(event)
    complaints = []
    for group, topics in sorted(demanded.items()):
        for partition in sorted(books.logs.logs):
            if topics is not None and partition.rpartition("-")[0] not in topics:
                continue
            if missing := books.unfinished(group, partition):
                complaints.append(f"group {group} never finished {partition}:{_some(missing)}")
    return complaints


class _Books:
    """How far each group has finished its partitions."""

    #: The events that change them.
    KINDS: Final = Logs.KINDS | {
        "partitions.assigned",
        "user.returned",
        "user.commits",
        "consumer.closing",
        "user.passes_over",
        "position.sought",
    }

    def __init__(self) -> None:
        self.logs = Logs()
        #: Of each group and partition, (era, offset).
        self._finished: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
        self._under_way: dict[str, list[tuple[tuple[str, str], int, int, int]]] = defaultdict(list)
        self._isolation: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        self.logs.apply(event)
        match event["event"]:
            case "partitions.assigned":
                self._isolation[event["group"]] = event.get("isolation", "")
            case "records.delivered":
                key = event["group"], event["partition"]
                log = self.logs[event["partition"]]
                for run, (first, last) in enumerate(event["offsets"]):
                    era = log.era_of(event, run)
                    self._under_way[event["member"]].append((key, era, first, last))
            case "user.returned" | "user.commits" | "consumer.closing":
                for key, era, first, last in self._under_way.pop(event["member"], ()):
                    self._finish(key, era, first, last)
            case "user.passes_over":
                key, offset = (event["group"], event["partition"]), event["offset"]
                self._finish(key, len(self.logs[key[1]].eras) - 1, offset, offset)
            case "position.sought" if isinstance(event["partitions"], dict):
                for partition, offset in event["partitions"].items():
                    self._pass_over((event.get("group", ""), partition), offset)

    def _pass_over(self, key: tuple[str, str], offset: int | None) -> None:
        """A commit says that all records below this offset are done, of whichever member."""
        for given in self._under_way.values():
            for other, era, first, last in given:
                if other == key and offset is not None:
                    self._finish(key, era, first, min(last, offset - 1))

    def _finish(self, key: tuple[str, str], era: int, first: int, last: int) -> None:
        records = self.logs[key[1]].records
        for offset in range(first, last + 1):
            found = records.get(offset)
            # From the position in an earlier era, which this era took over.
            if found is not None and found[0] <= era:
                self._finished[key].add((found[0], offset))

    def unfinished(self, group: str, partition: str) -> set[int]:
        """Offsets of what the group should have finished."""
        log, isolation = self.logs[partition], self._isolation.get(group, "")
        # With read_committed no consumer reads past the first record of an open transaction.
        limit = log.last_stable_offset if isolation == COMMITTED else math.inf
        return {
            offset
            for offset, (era, _) in log.records.items()
            if (era, offset) not in self._finished[group, partition]
            and (era == 0 or offset >= log.sought_elsewhere)
            and offset < limit
            and log.readable(offset, era, isolation)
        }


def _some(offsets: set[int]) -> Any:
    ordered = sorted(offsets)
    return ordered if len(ordered) <= 5 else f"{ordered[:5]} and {len(ordered) - 5} more"


def read_committed_sees_committed_records_only(history: History) -> list[str]:
    """No record of an aborted or open transaction is given out."""
    complaints = []
    replay = Replay(history)
    for event, reader in replay:
        if event["event"] != "records.delivered" or reader.isolation != COMMITTED:
            continue
        log = replay.logs[event["partition"]]
        still_open = {offset for offsets in log.open.values() for offset in offsets}
        for run, (first, last) in enumerate(event["offsets"]):
            era = log.era_of(event, run)
            for offset in range(first, last + 1):
                found = log.records.get(offset)
                if found is None or found[0] > era:
                    continue
                if offset in still_open or (found[0], offset) in log.aborted:
                    state = "open" if offset in still_open else "aborted"
                    complaints.append(
                        f"{when(event)} was given {event['partition']}:{offset}, which is {state}"
                    )
    return complaints


def what_is_given_is_what_was_written(history: History) -> list[str]:
    """Key, value, headers and timestamp of a record are those that were written at its offset."""
    complaints = []
    #: What was ever written at an offset: a topic may be created anew, a log be truncated.
    written: dict[tuple[str, int], set[int]] = defaultdict(set)
    for event in history.named("records.written", "user.given"):
        contents = event.get("contents")
        if contents is None:
            continue
        is_written = event["event"] == "records.written"
        offsets = range(event["first"], event["last"] + 1) if is_written else event["offsets"]
        for offset, content in zip(offsets, contents, strict=True):
            where = event["partition"], offset
            if is_written:
                written[where].add(content)
            elif content not in written[where]:
                complaints.append(
                    f"{when(event)} was given another record at {where[0]}:{offset} than was"
                    " written there"
                )
    return complaints


def the_trace_tells_what_is_given(history: History) -> list[str]:
    """The trace names exactly the records that the user gets, before the user gets them."""
    complaints = []
    told: dict[tuple[str, str], list[int]] = defaultdict(list)
    for event in history.named("records.delivered", "records.taken_back", "user.given"):
        key = event["member"], event["partition"]
        match event["event"]:
            case "records.delivered":
                for first, last in event["offsets"]:
                    told[key] += range(first, last + 1)
            case "records.taken_back":
                told[key] = []
            case _:
                if told[key] != event["offsets"]:
                    complaints.append(
                        f"{when(event)} was given {key[1]}:{_some(set(event['offsets']))}, the"
                        f" trace tells of {_some(set(told[key]))}"
                    )
                told[key] = []
    return complaints


def the_trace_tells_what_is_asked(history: History) -> list[str]:
    """The trace has the seeks, pauses and resumes of the user."""
    complaints = []
    told: dict[tuple[str, str], dict[str, int | None]] = {}
    names = "position.sought", "partitions.paused", "partitions.resumed"
    for event in history.named(*names, "user.asked"):
        if event["event"] != "user.asked":
            told[event["member"], event["event"]] = event["partitions"]
            continue
        known = told.pop((event["member"], event["told_as"]), {})
        asked = event["partitions"]
        wrong = [
            partition
            for partition, offset in asked.items()
            if offset is not None and known.get(partition) != offset
        ]
        if wrong or known.keys() != asked.keys():
            complaints.append(
                f"{when(event)} asked for {event['told_as']} {asked}, the trace tells {known}"
            )
    return complaints


def a_reset_is_carried_out(history: History) -> list[str]:
    """After `seek_to_beginning` or `seek_to_end` no record is given out before that reset, whatever
    actor is restarted meanwhile."""
    complaints = []
    #: By consumer and partition: where the user wants to go.
    wanted: dict[tuple[str, str], str] = {}
    for event in history.events:
        who = event["member"]
        match event["event"]:
            case "user.asked" if event["told_as"] == "position.sought":
                for partition in event["partitions"]:
                    wanted.pop((who, partition), None)
                    if event.get("to"):
                        wanted[who, partition] = event["to"]
            case "position.reset":
                for partition in event["partitions"]:
                    if wanted.get((who, partition)) in (None, event["strategy"]):
                        wanted.pop((who, partition), None)
            case "partitions.released" | "partitions.assigned":
                for partition in event["partitions"]:
                    wanted.pop((who, partition), None)
            case "records.delivered":
                partition = event["partition"]
                if (to := wanted.pop((who, partition), None)) is not None:
                    complaints.append(
                        f"{when(event)} was given {partition}:{event['offsets'][0][0]},"
                        f" and asked for the {to} offset before"
                    )
    return complaints


def positions_are_after_what_was_given(history: History) -> list[str]:
    """The result of `position`, and the position at a revocation, is after the last record that was
    given out, with no record in between that could have been given out."""
    complaints = []
    replay = Replay(history)
    for event, reader in replay:
        if event["event"] not in ("partitions.released", "user.position"):
            continue
        for partition, position in event["partitions"].items():
            mine = reader.owned.get(partition)
            if mine is None or mine.next is None or position is None:
                continue
            if not replay.passes_over(mine.next, position, partition, reader):
                complaints.append(
                    f"{when(event)} is at {partition}:{position}, and was given everything before"
                    f" {mine.next}"
                )
    return complaints


def nothing_replicated_is_lost(history: History) -> list[str]:
    """The brokers lose a record that all in-sync replicas had only by an unclean election."""
    return [
        f"at {event['at']:.3f} {event['partition']} lost {event['to']} to {event['replicated'] - 1}"
        for event in history.named("log.truncated")
        if event["to"] < event["replicated"] and not event["unclean"]
    ]


CHECKS: Final = (
    no_gap_no_step_back_no_duplicate_inside_an_ownership,
    every_record_is_finished,
    read_committed_sees_committed_records_only,
    what_is_given_is_what_was_written,
    the_trace_tells_what_is_given,
    the_trace_tells_what_is_asked,
    a_reset_is_carried_out,
    positions_are_after_what_was_given,
    nothing_replicated_is_lost,
)
