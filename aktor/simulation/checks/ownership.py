"""Ownership: a partition has one consumer of a group at a time."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aktor.simulation.checks.readers import Reader, Replay, given_between, when
from aktor.simulation.history import History

__all__ = ["CHECKS"]

#: Seconds after which no Fetch of a revoked partition can be in flight, and no process can have
#: been suspended all the time.
FORGOTTEN_WITHIN: Final = 20.0


def only_owners_are_given_records(history: History) -> list[str]:
    """No record of a partition is given out before the partition is assigned, or after it was
    revoked, lost or assigned to another member, even if the old owner does not know it yet."""
    complaints = []
    #: The rightful owner is who was assigned it in the latest generation, even if another one was
    #: too busy to apply an earlier assignment sooner.
    owner: dict[tuple[str, str], tuple[int, str]] = {}
    for event, reader in Replay(history):
        name = event["event"]
        if name == "partitions.assigned" and event["by_group"]:
            for partition in event["partitions"]:
                key = event["group"], partition
                mine = reader.generation, event["member"]
                if mine[0] >= owner.get(key, mine)[0]:
                    owner[key] = mine
        elif name == "group.begun":
            owner = {key: mine for key, mine in owner.items() if key[0] != event["group"]}
        elif name == "records.delivered":
            partition = event["partition"]
            if partition not in reader.owned:
                complaints.append(f"{when(event)} was given {partition}, which it does not own")
            elif (
                event["group"] is not None
                and not reader.expelled
                and not reader.owned[partition].outdated
            ):
                now = owner.get((event["group"], partition), (0, event["member"]))[1]
                if now != event["member"]:
                    complaints.append(
                        f"{when(event)} was given {partition}, which {now} owns by now"
                    )
    return complaints


def nothing_is_given_out_while_it_is_handed_back(history: History) -> list[str]:
    """Once it is said how far a partition was read, for the last commit, no more of it follows."""
    return [
        f"{when(event)} was given {event['partition']}, which is going"
        for event in given_between(
            history, "partitions.held_back", {"partitions.released", "partitions.assigned"}
        )
    ]


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
                    f"{when(event)} was given {event['partition']} after its listener was told"
                )
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
            case "topic.removed":  # the next one of its name has the same offsets again
                for key in [key for key in gone if key[1].rpartition("-")[0] == event["topic"]]:
                    del gone[key]
            case "partitions.released":
                gone.update(
                    {(event["member"], partition): event["at"] for partition in event["partitions"]}
                )
            case "partitions.assigned":
                for partition in event["partitions"]:
                    gone.pop((event["member"], partition), None)
            case "chunk.dropped":
                partition = event["partition"]
                since = gone.get((event["member"], partition))
                at = max(
                    (at for first, at in written[partition] if first <= event["offset"]),
                    default=0.0,
                )
                if since is not None and at > since + FORGOTTEN_WITHIN:
                    complaints.append(
                        f"{when(event)} had {partition}:{event['offset']} fetched, written"
                        f" at {at:.3f} and given up at {since:.3f}"
                    )
    return complaints


def partitions_are_handed_over_in_order(history: History) -> list[str]:
    """No member is assigned what another has yet to revoke, unless that one is expelled."""
    complaints = []
    early: dict[tuple[str, str], str] = {}
    readers: dict[str, Reader] = {}
    for event, reader in Replay(history):
        readers[event["member"]] = reader
        name = event["event"]
        if name == "partitions.assigned" and event["by_group"]:
            for partition in event["partitions"]:
                for other, theirs in readers.items():
                    if theirs.group != event["group"]:
                        continue
                    late = theirs.expelled or theirs.generation > reader.generation
                    mine = theirs.owned.get(partition)
                    if other != event["member"] and mine and not (late or mine.outdated):
                        early[other, partition] = when(event)
        elif name == "partitions.revoking":
            for partition in event["partitions"]:
                told = early.pop((event["member"], partition), None)
                # A member that was paused meanwhile may not know.
                if told is not None and event["loss"] == "revoked" and not reader.expelled:
                    complaints.append(
                        f"{told} was assigned {partition} before {when(event)} gave it up"
                    )
        elif name == "partitions.released":
            # Its listener was slow: it began to give it up before, and was expelled meanwhile.
            for partition in event["partitions"]:
                early.pop((event["member"], partition), None)
    return complaints


def nothing_is_assigned_after_unsubscribing(history: History) -> list[str]:
    """After unsubscribe, partitions come only from a group that was joined anew."""
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
                    f"{when(event)} took on {event['partitions']} of the group that it had left"
                )
    return complaints


CHECKS: Final = (
    only_owners_are_given_records,
    nothing_is_given_out_while_it_is_handed_back,
    nothing_is_given_after_its_callback,
    nothing_is_fetched_that_was_given_up,
    partitions_are_handed_over_in_order,
    nothing_is_assigned_after_unsubscribing,
)
