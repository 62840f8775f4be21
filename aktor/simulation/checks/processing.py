"""What `process` promises of its handlers: their order, and what is committed of their records."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aktor.simulation.checks.readers import when
from aktor.simulation.history import History

__all__ = ["CHECKS"]

#: A partition begins anew, or goes back, with these: what was finished before may come again.
_ANEW: Final = ("partitions.assigned", "partitions.released", "position.sought", "position.reset")


def records_are_handled_in_order(history: History) -> list[str]:
    """Of records that keep an order (a key's, a partition's) a member handles one at a time; and
    each after those before it, from the time on that it is given the partition."""
    complaints = []
    #: Of each member and order: the offset that is handled now, and the last one that was begun.
    now: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    for event in history.named("handler.began", "handler.ended", "user.processes", *_ANEW):
        member = event["member"]
        if event["event"] == "user.processes":
            now = {key: offset for key, offset in now.items() if key[0] != member}
        elif event["event"] in _ANEW:
            gone = tuple(f"{partition}/" for partition in event["partitions"])
            last = {
                key: offset
                for key, offset in last.items()
                if key[0] != member or not key[1].startswith(gone)
            }
        elif event["lane"] is None:
            continue
        elif event["event"] == "handler.ended":
            now.pop((member, event["lane"]), None)
        else:
            key, offset = (member, event["lane"]), event["offset"]
            if key in now:
                complaints.append(f"{when(event)} began with {key[1]}:{offset} during {now[key]}")
            if offset < last.get(key, offset):
                complaints.append(f"{when(event)} began with {key[1]}:{offset} after {last[key]}")
            now[key] = last[key] = offset
    return complaints


def nothing_is_finished_twice(history: History) -> list[str]:
    """As long as a member keeps a partition, it finishes each record of it once, and begins with
    none that is finished. (A handler that was begun before may end meanwhile.)"""
    complaints = []
    #: What was begun, or begun and finished, since the partition was assigned.
    begun: dict[tuple[str, str], set[int]] = defaultdict(set)
    finished: dict[tuple[str, str], set[int]] = defaultdict(set)
    for event in history.named("handler.began", "handler.ended", *_ANEW):
        if event["event"] in _ANEW:
            for partition in event["partitions"]:
                begun.pop((event["member"], partition), None)
                finished.pop((event["member"], partition), None)
            continue
        key, offset = (event["member"], event["partition"]), event["offset"]
        if event["event"] == "handler.began":
            if offset in finished[key]:
                complaints.append(f"{when(event)} began with {key[1]}:{offset} again")
            begun[key].add(offset)
        elif event["error"] is None and offset in begun[key]:
            finished[key].add(offset)
    return complaints


def nothing_unfinished_is_committed(history: History) -> list[str]:
    """What a member that processes commits of a partition has been finished below, whatever was
    delivered since it has the partition; also what a cancelled call took back."""
    complaints = []
    processes: set[str] = set()
    unfinished: dict[tuple[str, str], set[int]] = defaultdict(set)
    names = "user.processes", "records.delivered", "handler.ended", "commit.sent", *_ANEW
    for event in history.named(*names):
        member = event["member"]
        match event["event"]:
            case "user.processes":
                processes.add(member)
            case "records.delivered" if member in processes:
                for first, last in event["offsets"]:
                    unfinished[member, event["partition"]].update(range(first, last + 1))
            case "handler.ended" if event["error"] is None:
                unfinished[member, event["partition"]].discard(event["offset"])
            case "commit.sent" if member in processes and isinstance(event["offsets"], dict):
                for partition, offset in event["offsets"].items():
                    left = [other for other in unfinished[member, partition] if other < offset]
                    if left:
                        complaints.append(
                            f"{when(event)} commits {partition}:{offset}, unfinished is {min(left)}"
                        )
            case "partitions.assigned" | "partitions.released" | "position.sought":
                for partition in event["partitions"]:
                    unfinished.pop((member, partition), None)
    return complaints


def what_is_handed_back_is_not_handled(history: History) -> list[str]:
    """When `on_partitions_revoked` has returned, no handler of these partitions runs: another
    member reads them on. Unless they were waited for as long as they may be; or are cancelled,
    since the user has cancelled `process` twice and waits for none."""
    complaints: dict[tuple[str, str, int], str] = {}
    running: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for event in history.named(
        "handler.began", "handler.ended", "process.drained", "callback.finished"
    ):
        mine = running[event["member"]]
        match event["event"]:
            case "handler.began":
                mine.add((event["partition"], event["offset"]))
            case "handler.ended":
                mine.discard((event["partition"], event["offset"]))
                if event["error"] == "CancelledError":
                    complaints.pop((event["member"], event["partition"], event["offset"]), None)
            case "process.drained" if event["left"] and event["ms"] >= event["allowed_ms"]:
                mine.clear()
            case "callback.finished" if event["callback"] == "on_partitions_revoked":
                for partition, offset in sorted(mine):
                    if partition in event["partitions"]:
                        complaints[event["member"], partition, offset] = (
                            f"{when(event)} handed {partition} back and still handles its record"
                            f" {offset}"
                        )
    return [*complaints.values()]


CHECKS: Final = (
    records_are_handled_in_order,
    nothing_is_finished_twice,
    nothing_unfinished_is_committed,
    what_is_handed_back_is_not_handled,
)
