"""What each actor knows of the present, for `status()` and `why()`.

These are no messages. An actor keeps the value in its `present` and replaces it as a whole, at the
end of a tick in which something has changed; any thread reads it there at any time, also while the
background thread hangs. Times are those of the dispatcher's clock: who looks computes the ages.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Final

from kafka.structs import TopicPartition

from aktor.values import Value, replace

__all__ = [
    "UNUSED_AFTER",
    "LastFetch",
    "BrokerNow",
    "CommitsFail",
    "CommitsNow",
    "CoordinatorNow",
    "Crowded",
    "FetchNow",
    "Heard",
    "Hindrance",
    "MemberNow",
    "MetadataNow",
    "NetworkNow",
    "PositionNow",
    "PositionsNow",
    "TopicTrouble",
    "was_unused",
]


#: A broker was not needed if it was not tried for so many seconds, after it might have been. What
#: failed before that says nothing of now.
UNUSED_AFTER: Final = 10.0


def was_unused(retry_at: float, now: float) -> bool:
    """Whether nobody has needed a broker since the next attempt might have begun, at `retry_at`
    (-inf: it has not failed). Both in seconds of the dispatcher's clock."""
    return -math.inf < retry_at <= now - UNUSED_AFTER


class Heard:
    """When a broker has last answered on one connection, and when it was last asked. Both change
    with each request, so they are slots: the network actor writes them, any thread reads them."""

    __slots__ = ("asked_at", "at")

    def __init__(self) -> None:
        self.at = -math.inf
        self.asked_at = -math.inf

    def note(self, now: float) -> None:
        """The broker has answered."""
        self.at = now

    def ask(self, now: float) -> None:
        """A request is sent to the broker."""
        self.asked_at = now

    @classmethod
    def until_now(cls, slots: Iterable[Heard]) -> Heard:
        """A slot that nobody writes any more, with the last answer that these have."""
        last, slots = cls(), list(slots)
        last.note(max([one.at for one in slots], default=-math.inf))
        last.ask(max([one.asked_at for one in slots], default=-math.inf))
        return last


class LastFetch:
    """When a broker has last answered the Fetch of its session, and for which partitions. Of these
    the ends are known that were told last: an answer leaves out what has not changed (KIP-227).
    `asked` is the Fetch that has no answer yet, and for which partitions. Both change with each
    Fetch, so they are slots: the fetch manager writes them, any thread reads them."""

    __slots__ = ("asked", "last")

    def __init__(self) -> None:
        self.last: tuple[float, Collection[TopicPartition]] = (-math.inf, ())
        self.asked: tuple[float, Collection[TopicPartition]] = (math.inf, ())

    def sent(self, now: float, partitions: Collection[TopicPartition]) -> None:
        """The broker is sent a Fetch for these."""
        self.asked = now, partitions

    def ended(self) -> None:
        """That Fetch was answered, or has failed."""
        self.asked = math.inf, ()

    def note(self, now: float, partitions: Collection[TopicPartition]) -> None:
        """The broker has answered a Fetch for these."""
        self.last = now, partitions


class Crowded:
    """The partitions of which so much is buffered that they are not fetched before a `Poll` has
    told that some of it was read. It changes with each chunk, so it is a slot: the fetch manager
    writes it, any thread reads it."""

    __slots__ = ("_partitions",)

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}

    def add(self, partition: TopicPartition) -> None:
        """This one is crowded."""
        self._partitions[partition] = None

    def remove(self, partition: TopicPartition) -> None:
        """This one is not crowded any more."""
        del self._partitions[partition]

    @property
    def now(self) -> frozenset[TopicPartition]:
        """Those that are crowded now. (A copy is one operation.)"""
        return frozenset(self._partitions.copy())


class Throttle(Value):
    """A quota is used up: the broker wants no requests on a connection from `since` to `until`."""

    since: float = -math.inf
    until: float = -math.inf


class BrokerNow(Value):
    """One broker, or bootstrap server (`node` < 0), over all connections to it.

    `failing_since`: the first failure in a row, or, if that was an answer which did not come, when
    it was asked for; `failed_at` the last one. `attempts` counts the failures, `error` says how the
    last one ended ("": it hung up), `retry_at` when the next attempt may begin. `refused_since`:
    when it first refused our credentials (None: it does not). It throttles each connection for
    itself: that for ordinary requests (`throttle`), for Fetches, and those to it as the group's
    coordinator.
    """

    node: int
    address: str
    connected: bool
    connecting_since: float | None
    failing_since: float | None
    failed_at: float
    attempts: int
    error: str
    retry_at: float
    refused_since: float | None
    throttle: Throttle
    fetch_throttle: Throttle
    group_throttle: Throttle
    heard: tuple[Heard, ...]

    @property
    def heard_at(self) -> float:
        """When it has last answered; -inf: never."""
        return max([one.at for one in self.heard], default=-math.inf)

    @property
    def asked_at(self) -> float:
        """When it was last asked for something; -inf: never."""
        return max([one.asked_at for one in self.heard], default=-math.inf)

    @property
    def fails(self) -> bool:
        """Whether it has not answered since the last failure."""
        return self.failing_since is not None and self.heard_at < self.failed_at

    def at_rest(self) -> BrokerNow:
        """The same, with the last answer until now."""
        return replace(self, heard=(Heard.until_now(self.heard),))

    def fails_at(self, now: float) -> bool:
        """Whether it fails, and has been tried lately: nobody knows how a broker is now that
        nobody needs. (A connection to it may have been open for long.)"""
        if not self.fails:
            return False
        is_tried = self.connecting_since is not None or self.asked_at > self.failed_at
        return is_tried or not was_unused(self.retry_at, now)


class NetworkNow(Value):
    """The brokers of the cluster and the bootstrap servers, each once."""

    brokers: Mapping[int, BrokerNow] = field(default_factory=dict)
    servers: tuple[BrokerNow, ...] = ()

    def at_rest(self) -> NetworkNow:
        """The same, with the last answers until now: later ones do not change it."""
        brokers = {node: one.at_rest() for node, one in self.brokers.items()}
        servers = tuple([one.at_rest() for one in self.servers])
        return replace(self, brokers=brokers, servers=servers)


class TopicTrouble(Value):
    """Why a topic that is needed is not described, since when: brokers do not know it (`error` is
    ""), or refuse it with this error. `forbidden`: the user may not describe it. `may_pass`: the
    error is one that is not raised, since it may be over with the next answer."""

    since: float
    error: str = ""
    forbidden: bool = False
    may_pass: bool = False


class MetadataNow(Value):
    """The topics that are needed and that the brokers do not know, or refuse."""

    troubles: Mapping[str, TopicTrouble] = field(default_factory=dict)


class CoordinatorNow(Value):
    """Whether the coordinator is known. `node` and `address` are those of the last one that was;
    `since`: from when on it has not been known; `asked` counts the look-ups since, `trouble` says
    how the last one ended, `retry_at` when the next one is due (-inf: it is under way). `moved_at`:
    when it became this broker, if it was another one before (-inf: it was not); `was`: that one."""

    known: bool
    node: int
    address: str
    since: float
    asked: int
    trouble: str
    retry_at: float
    refused: bool
    moved_at: float = -math.inf
    was: str = ""


class MemberNow(Value):
    """The member in its group.

    `step` says what a member that is not stable waits for: "poll", "coordinator", "callback",
    "commit", "metadata", "answer", "backoff" (until it may join again), or "". In four the
    coordinator has not answered JoinGroup or SyncGroup: it waits for others ("members"; "leader":
    for what that one assigns), or for nobody ("join": the first JoinGroup, which gives the member
    its id; "sync": the leader's SyncGroup). `since`: from when on it has been in that state and
    step; `joining_since`: from when on it has been on its way into the group, by all steps (-inf:
    it is not). `asked_at` is when the heartbeat
    in flight was sent (inf: none is), `answered_at` when the last one was answered, `failing_since`
    when the first of the `failures` in a row was sent (inf: the last one has not failed).
    `session_is_known`: the session is so long; else the brokers decide it, and that is assumed.
    `rebalance_until`: how long a rebalance waits for this member at least (inf: none waits).
    `trouble` says how the last request to the coordinator ended that did not confirm the member;
    `refused`: it was answered, with that error. `refusal` is why the group does not want the member
    (only the user can mend that), since `refusal_since`; `joins_at`: when it joins again, if it
    waits for nothing but that time (-inf: it does not); `for_good`: the member does not join again
    by itself. `left_late_at`: when it left the group by itself, because the application polled too
    late (-inf: it did not, or the group has confirmed it since). `stood_still` says for how long
    nothing of the consumer ran, which was found at `awake_since` ("", -inf: it was not, or the
    group has confirmed the member since). `fenced_after` is what has led to it that the group does
    not know the member any more, if that is known.
    """

    state: str
    step: str
    since: float
    asked_at: float
    answered_at: float
    failing_since: float
    failures: int
    session: float
    rebalance_until: float
    trouble: str
    refused: bool = False
    refusal: str = ""
    refusal_since: float = -math.inf
    joins_at: float = -math.inf
    for_good: bool = False
    joining_since: float = -math.inf
    left_late_at: float = -math.inf
    stood_still: str = ""
    awake_since: float = -math.inf
    fenced_after: str = ""
    session_is_known: bool = True


class Hindrance(Value):
    """Why one partition is not fetched: the state of the plan, since when, from which broker it
    would be fetched (without a leader: was fetched last), and until when it waits (inf: for a
    message)."""

    state: str
    since: float
    node: int | None
    until: float
    trouble: str


class FetchNow(Value):
    """The partitions that are not fetched, since when brokers owe an answer that brings records,
    when and how the last Fetch to these failed if it did not just stay without an answer, with what
    these refuse the whole Fetch if they do, the brokers from which partitions are read instead of
    from their leaders (KIP-392), and when brokers have last answered a Fetch."""

    hindered: Mapping[TopicPartition, Hindrance] = field(default_factory=dict)
    late: Mapping[int, float] = field(default_factory=dict)
    failed: Mapping[int, tuple[float, str]] = field(default_factory=dict)
    refusals: Mapping[int, str] = field(default_factory=dict)
    replicas: Mapping[TopicPartition, int] = field(default_factory=dict)
    crowded: Crowded = field(default_factory=Crowded)
    answered: Mapping[int, LastFetch] = field(default_factory=dict)


class PositionNow(Value):
    """What the position of one partition waits for: "committed" (OffsetFetch, asked of the
    coordinator), "reset" (ListOffsets), "validation" (OffsetForLeaderEpoch), "truncated" or
    "failed" (the application decides); since when; which broker is asked and since when; how the
    last attempt ended; when the next one is due."""

    stage: str
    since: float
    node: int | None
    asked_at: float
    trouble: str
    retry_at: float


class PositionsNow(Value):
    """The partitions that have no position, or one that is in doubt."""

    waiting: Mapping[TopicPartition, PositionNow] = field(default_factory=dict)


class CommitsFail(Value):
    """Offsets of partitions that are ours could not be committed, and were not since: `attempts`
    have failed, the first at `since`, the last at `at`, with this error."""

    since: float
    at: float
    attempts: int
    error: str


class CommitsNow(Value):
    """When offsets were last stored; -inf: never. `trouble` is how the last look-up of committed
    offsets ended for which positions wait; "" if none is under way, or was answered yet. `fail`:
    which commits failed, if that was not made good."""

    committed_at: float = -math.inf
    trouble: str = ""
    fail: CommitsFail | None = None
