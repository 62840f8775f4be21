"""What a rebalance listener hears: of each partition, and the right word."""

from __future__ import annotations

import enum
import math
from collections import Counter, defaultdict
from typing import Final

from aktor.simulation.checks.readers import topic_of, when
from aktor.simulation.history import History

__all__ = ["CHECKS"]

#: Seconds after which the application thread has got what the background thread learned.
HEARD_WITHIN: Final = 0.5


def the_listener_hears_of_each_partition(history: History) -> list[str]:
    """`on_partitions_assigned` comes before the first record, `on_partitions_revoked` or
    `on_partitions_lost` before a partition is given up: once for each time that it is owned.

    In the consumer protocol a call that raised is made again until it succeeds, and no record is
    given out before; one that a signal has interrupted may be made again in both. Who is
    interrupted in `unsubscribe` or `close` owns all as before, and is told again when it leaves.
    """
    complaints = []
    #: What each consumer owns for its group, and whether its listener has heard of it.
    owned: dict[str, dict[str, _Heard]] = defaultdict(dict)
    #: The partitions of the call that is under way; and of one that was part of leaving, until they
    #: are released.
    told: dict[str, list[str]] = {}
    leaving: set[str] = set()
    listening: set[str] = set()
    #: Consumers whose group speaks the consumer protocol.
    modern: set[str] = set()
    for event in history.events:
        mine, at = owned[event["member"]], when(event)
        if event["event"] == "listener.told":
            told[event["member"]] = event["partitions"]
        match event["event"]:
            case "rebalance.target":
                modern.add(event["member"])
            case "rebalance.synced":
                modern.discard(event["member"])
            case "user.leaves":
                leaving.add(event["member"])
            case "callback.finished" if event["member"] not in leaving:
                told.pop(event["member"], None)
            case "user.unsubscribed":
                leaving.discard(event["member"])
            case "user.interrupted":
                leaving.discard(event["member"])
                mine.update(dict.fromkeys(told.pop(event["member"], ()), _Heard.PARTLY))
            case "user.subscribed" if event["listener"]:
                listening.add(event["member"])
            case "user.subscribed":
                listening.discard(event["member"])
            case "partitions.assigned" if event["by_group"] and event["member"] in listening:
                mine.update(dict.fromkeys(event["partitions"], _Heard.NOT_YET))
            case "listener.told" if event["told"] == "assigned":
                for partition in event["partitions"]:
                    if mine.get(partition) is _Heard.WELL:
                        complaints.append(f"{at} was told twice that {partition} is assigned")
                    mine[partition] = _Heard.WELL
            case "callback.failed" if event["callback"] == "on_partitions_assigned":
                # (The trace cuts a long list; the listener was told all.)
                failed: list[str] = told.get(event["member"]) or event["partitions"]
                mine.update(dict.fromkeys(failed, _Heard.BADLY))
            case "listener.told":
                for partition in event["partitions"]:
                    if mine.pop(partition, None) is None:
                        complaints.append(
                            f"{at} was told {event['told']}: {partition}, not its own"
                        )
            case "partitions.released":
                leaving.discard(event["member"])
                told.pop(event["member"], None)
                for partition in event["partitions"]:
                    if mine.pop(partition, None) not in (None, _Heard.PARTLY):
                        complaints.append(f"{at} gave {partition} up without a word")
            case "records.delivered" if mine.get(event["partition"]) is _Heard.NOT_YET:
                complaints.append(f"{at} was given {event['partition']} before it was told of it")
            case "records.delivered" if mine.get(event["partition"]) is _Heard.BADLY:
                if event["member"] in modern:
                    complaints.append(f"{at} was given {event['partition']}, told of it in vain")
    return complaints


class _Heard(enum.Enum):
    """Whether a listener knows that a partition is assigned."""

    NOT_YET = "not yet"
    BADLY = "it raised"
    PARTLY = "it was interrupted"
    WELL = "well"


def the_listener_hears_the_right_word(history: History) -> list[str]:
    """If the membership has ended, the listener hears *lost*; if a member gives back, *revoked*."""
    complaints = []
    #: When each consumer's membership ended; when anything happened by which it may have.
    lost: dict[str, float] = defaultdict(lambda: math.inf)
    doubted: set[str] = set()
    renewed: set[str] = set()
    #: How often the cluster has created each topic. A member that has just started may own
    #: partitions of a topic whose former id its own metadata never had.
    created: Counter[str] = Counter()
    #: Whose last commit before a revocation was refused, as the group does not know them.
    expelled: set[str] = set()
    for event in history.events:
        who = event["member"]
        match event["event"]:
            case "commit.failed" if event.get("kind") == "revocation":
                if "does not know member" in str(event["because"]):
                    expelled.add(who)
            case "listener.told" if event["told"] == "revoked" and who in expelled:
                complaints.append(
                    f"{when(event)} was told revoked: {event['partitions']}, and knew by its last"
                    " commit that it is no member"
                )
                expelled.discard(who)
            case "rebalance.synced" | "rebalance.target":
                expelled.discard(who)
                lost.pop(who, None)
                doubted.discard(who)
            case "member.lost":
                expelled.discard(who)
                lost[who] = min(lost[who], event["at"])
                doubted.add(who)
            case "actor.restarted" | "actor.escalated" | "membership.doubted":
                doubted.add(who)
            case "topic.recreated" | "topic.deleted":
                renewed.add(who)  # the partitions of the old topic are lost
            case "topic.created":
                created[event["topic"]] += 1
            case "listener.told" if event["told"] == "revoked":
                if event["at"] > lost[who] + HEARD_WITHIN:
                    complaints.append(
                        f"{when(event)} was told revoked: {event['partitions']}, which it had lost"
                        f" at {lost[who]:.3f}"
                    )
            case "listener.told" if event["told"] == "lost" and who not in doubted | renewed:
                if all(created[topic_of(partition)] > 1 for partition in event["partitions"]):
                    continue
                complaints.append(
                    f"{when(event)} was told lost: {event['partitions']}, and is a member"
                )
    return complaints


CHECKS: Final = (
    the_listener_hears_of_each_partition,
    the_listener_hears_the_right_word,
)
