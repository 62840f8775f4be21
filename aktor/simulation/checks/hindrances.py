"""Hindrances: what may keep a consumer from giving records out, and for how long after it is over.

A fault says whom it hits: members, topics, partitions, or brokers, with what they lead and
coordinate. One that says nothing hits everybody.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aktor.simulation.checks.readers import process_of, topic_of
from aktor.simulation.history import Event

__all__ = ["Hindrances"]

#: The user hears of an error, or was busy, its process stood still, an actor of its was restarted,
#: or it has to ask its group whether it is still a member.
_OF_A_MEMBER: Final = frozenset(
    {
        "actor.restarted",
        "call.late",
        "callback.finished",
        "clock.jumped",
        "listener.told",
        "member.thawed",
        "position.failed",
        "session.unconfirmed",
        "user.hears",
        "user.was_away",
    }
)

#: What changes where the consumer reads: it got other partitions, a position was reset or sought,
#: or it resumed a partition that it was not allowed to read before.
_OF_AN_OWNER: Final = frozenset(
    {"partitions.assigned", "partitions.resumed", "position.reset", "position.sought"}
)

#: What changes which records of a partition can be read: an open transaction, a replica that is
#: held back. Or the partition has a batch that stays corrupt: its reader does not seek past it, and
#: goes on polling for the other partitions.
_OF_A_PARTITION: Final = frozenset(
    {
        "log.truncated",
        "partition.led",
        "replica.held",
        "replica.released",
        "transaction.ended",
        "user.polls_on",
    }
)

#: Seconds for which an answer may be waited for that never comes (`request_timeout_ms`, 40 s with
#: what storms set); the same where brokers tell what is not so: until the next metadata.
UNANSWERED: Final = 45.0
MISTAKEN: Final = 15.0

#: How long a fault may be felt after it is over.
_LASTS: Final = {
    "address_nowhere": MISTAKEN,
    "broker_moved": MISTAKEN,
    "broker_outdated": MISTAKEN,
    "connection_half_open": UNANSWERED,
}

#: Whom a fault hits if it does not say whom.
_EVERYBODY: Final = ("everybody", None)

_Whom = tuple[str, str | int | None]


class Hindrances:
    """Owns whom a fault hits now, and when each hindrance ended."""

    def __init__(self) -> None:
        self._faults: dict[int, list[_Whom]] = {}
        self._lasts: dict[int, float] = {}
        #: Brokers whose machines failed: their clients were not told that connections ended.
        self._silent_brokers: set[int] = set()
        self._ended: dict[_Whom, float] = defaultdict(float)
        #: Requests that a broker answers late: whose, which broker, which API.
        self._delayed: set[tuple[str, int, str]] = set()
        self._frozen: set[str] = set()
        self._forbidden: set[str] = set()
        #: Partitions that a consumer does not give out on purpose: paused, or handed back.
        self._silent: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._leaders: dict[str, int] = {}
        self._coordinators: dict[str, int] = {}
        #: From which other broker than the leader a consumer has read a partition last.
        self._preferred: dict[tuple[str, str], int] = {}

    def apply(self, event: Event) -> None:
        at, member, name = event["at"], event["member"], event["event"]
        if name in _OF_A_MEMBER and not _is_about_one(event):
            self._end(("members", process_of(member)), at)
        elif name in _OF_A_PARTITION:
            self._end(("partitions", event["partition"]), at)
        elif name in _OF_AN_OWNER:
            for partition in event["partitions"]:
                self._end((member, partition), at)
        match name:
            case "fault.began":
                self._faults[event["number"]] = [_EVERYBODY]
                self._lasts[event["number"]] = _LASTS.get(event.get("kind", ""), 0.0)
            case "fault.hits":
                self._faults[event["number"]] = _hit_by(event)
            case "fault.ended":
                number = event["number"]
                for whom in self._faults.pop(number):
                    self._end(whom, at + self._lasts[number])
            case "request.hindered" if event["how"] == "Swallow":
                self._end((member, event["broker"]), at + UNANSWERED)
            case "request.hindered" if event["how"] == "Delay":
                self._delayed.add((member, event["broker"], event["api"]))
            case "request.answered" if (member, event["node"], event["api"]) in self._delayed:
                self._delayed.discard((member, event["node"], event["api"]))
                self._end((member, event["node"]), at)  # which may be long after the fault
            case "broker.crashed" if event["silent"]:
                self._silent_brokers.add(event["broker"])
            case "broker.restarted":
                self._end(_EVERYBODY, at)
                if event["broker"] in self._silent_brokers:
                    self._silent_brokers.discard(event["broker"])
                    self._end(("brokers", event["broker"]), at + UNANSWERED)
            case "session.expired":
                self._end(("members", process_of(event["consumer"])), at)
            case "topic.forbidden":
                self._forbidden.add(event["topic"])
            case "topic.permitted":
                self._forbidden.discard(event["topic"])
                self._end(("topics", event["topic"]), at)
            case "replica.preferred":
                self._preferred[member, event["partition"]] = event["node"]
            case "partition.led":
                self._leaders[event["partition"]] = event["broker"]
            case "coordinator.found":
                self._coordinators[member] = event["node"]
            case "member.frozen":
                self._frozen.add(member)
            case "member.thawed":
                self._frozen.discard(member)
            case "records.delivered":
                self._end((member, event["partition"]), at)
            case "partitions.paused" | "partitions.held_back":
                self._silent[name].update((member, partition) for partition in event["partitions"])
            case "partitions.resumed":
                self._silent["partitions.paused"] -= {
                    (member, partition) for partition in event["partitions"]
                }
            case "partitions.released" | "partitions.assigned":
                gone = {(member, partition) for partition in event["partitions"]}
                for silent in self._silent.values():
                    silent -= gone

    def _end(self, whom: _Whom, at: float) -> None:
        self._ended[whom] = max(self._ended[whom], at)

    def has_hit(self, member: str, broker: int, since: float) -> bool:
        """Whether a fault hits this broker, the connections of this member, or everybody; or one
        that did ended after this time, or is felt until after it."""
        process = process_of(member)
        concern: set[_Whom] = {_EVERYBODY, ("members", process), ("brokers", broker)}
        if any(not concern.isdisjoint(hit) for hit in self._faults.values()):
            return True
        ended = (self._ended.get(key) for key in (*concern, (member, broker)))
        return any(at is not None and at > since for at in ended)

    def last_ended(self, member: str, partition: str) -> float | None:
        """When the last one ended of those that could keep this consumer from giving out records of
        this partition; None: there is one now."""
        process = process_of(member)
        silent = any((member, partition) in those for those in self._silent.values())
        topic = topic_of(partition)
        if process in self._frozen or topic in self._forbidden or silent:
            return None
        asked = {
            self._leaders.get(partition),
            self._preferred.get((member, partition)),
            self._coordinators.get(member),
        }
        concern: set[_Whom] = {
            _EVERYBODY,
            ("members", process),
            ("partitions", partition),
            ("topics", topic),
            *(("brokers", broker) for broker in asked),
        }
        if any(not concern.isdisjoint(hit) for hit in self._faults.values()):
            return None
        own: set[_Whom] = {(member, partition), *((member, broker) for broker in asked)}
        return max(self._ended[key] for key in concern | own)


def _is_about_one(event: Event) -> bool:
    """Whether the user hears that they may not read a topic, or that a batch is corrupt: with other
    partitions they can go on at once."""
    errors = "TopicAuthorizationFailedError", "CorruptBatchError"
    return event["event"] == "user.hears" and str(event["error"]).startswith(errors)


def _hit_by(event: Event) -> list[_Whom]:
    """The narrowest of what it says: a member whose link to a broker is cut is one member."""
    for kind in ("members", "partitions", "topics", "brokers"):
        if kind in event:
            return [(kind, name) for name in event[kind]]
    return [_EVERYBODY]
