"""What `consumer.status()` returns: one frozen picture of the consumer, readable as text."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.consumer.present import health
from aktor.consumer.present.ends import end_known_at, is_lag_known
from aktor.consumer.present.health import WELL, Health
from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.reason import FAULT_AFTER, Reason, WaitingFor
from aktor.consumer.present.reasons.sentence import Findings
from aktor.consumer.present.seen import PartitionSeen
from aktor.events.lifecycle import ActorStatus
from aktor.events.membership import MemberChanged
from aktor.events.present import BrokerNow
from aktor.records import status as reader_in_use
from aktor.structs import TopicPartition
from aktor.values import made_quickly

__all__ = [
    "COMPUTED",
    "BrokerStatus",
    "ConsumerStatus",
    "Health",
    "PartitionStatus",
    "WaitingFor",
    "looked",
    "make",
]


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One assigned partition: its consumed position, its end as last told, the records between.

    None means not known. `end` is the high watermark (or the last stable offset, with
    read_committed), as the leader told it last, `end_age` seconds ago. `lag` counts from the
    position to the end; it is None if the end is not known now: the leader does not answer; or it
    was not asked, since the partition is paused or there is no room, and nobody has looked lately.
    `lag_at_least` is counted to the end that was told last, however old that is.
    """

    position: int | None
    end: int | None
    lag: int | None
    paused: bool
    buffered_bytes: int
    #: Why no records come, if that is a fault: its leader has not answered for a second, ...
    trouble: str = ""
    #: What the next record waits for, in words (`because`), and for how many seconds; None: it is
    #: not known since when.
    waiting_for: WaitingFor = WaitingFor.FETCH
    because: str = ""
    waiting: float | None = None
    #: How many seconds behind the records are, by their own timestamps: the age of the next one to
    #: be delivered, at most. 0.0 without lag; None: not known.
    lag_seconds: float | None = None
    #: How many seconds ago the leader told `end`, or answered that it is still the same.
    end_age: float | None = None
    lag_at_least: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """One broker to which the consumer talks; ages are in seconds.

    `last_answer`: how long ago it has answered; `failing`: for how long all attempts have failed;
    None: never, or not at all. `error` says how the last attempt ended.
    """

    node: int
    address: str
    connected: bool
    last_answer: float | None
    failing: float | None = None
    attempts: int = 0
    error: str = ""


class _Look:
    """What a status is made of that was made by a look at a consumer: some fields are computed when
    they are first read."""

    __slots__ = ("_later",)

    _later: Mapping[str, Callable[[], Any]]

    if not TYPE_CHECKING:  # where it would make every name an attribute

        def __getattr__(self, name: str) -> Any:
            # Python comes here for what is not set. Two threads that do so at once find the same.
            if name not in COMPUTED or (compute := self._later.get(name)) is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            value = compute()
            object.__setattr__(self, name, value)
            return value


#: The fields that are computed when they are first read: they take longer the more partitions there
#: are.
COMPUTED: Final = frozenset({"state", "partitions", "why", "waiting_for", "healthy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus(_Look):
    """The actors, the member's state in its group, the assignment, and how far it was read.

    `state` is "running", "running, but <what is wrong>", "not started" (an asynchronous one before
    its `start`), "closed", "failed: <error>" or "unresponsive" (the background thread has not
    turned for a second). `why` says in a sentence what is not happening, as `consumer.why()`.
    `group_protocol` is "classic", "consumer", or "auto" while that setting has not been decided;
    `generation` is the member's epoch in the second. `reader` is what reads record batches:
    "compiled", or "Python" and why (`aktor.records`).
    """

    client_id: str
    state: str
    group_id: str | None
    group_protocol: str
    member_id: str
    generation: int
    member_state: str
    subscription: frozenset[str]
    partitions: Mapping[TopicPartition, PartitionStatus]
    actors: tuple[ActorStatus, ...]
    reader: str
    why: str = ""
    waiting_for: WaitingFor | None = None
    alive: Health = WELL
    healthy: Health = WELL
    last_poll: float | None = None
    last_heartbeat: float | None = None
    last_record: float | None = None
    last_commit: float | None = None
    #: For how long commits have failed that were not made good, and the error of the last one.
    commit_failing: float | None = None
    commit_error: str = ""
    brokers: Mapping[int, BrokerStatus] = field(default_factory=dict)

    @property
    def lag_seconds(self) -> float | None:
        """How many seconds the partition that is furthest behind is, None while any is unknown, or
        while it is not known which partitions this consumer is to read."""
        if self._awaits_partitions:
            return None
        lags = [state.lag_seconds for state in self.partitions.values()]
        return None if None in lags else max((lag for lag in lags if lag is not None), default=0.0)

    @property
    def lag(self) -> int | None:
        """Records still to be read over all partitions, None while any of them is unknown, or while
        it is not known which partitions this consumer is to read. 0 for a member to which the group
        has given none."""
        if self._awaits_partitions:
            return None
        lags = [state.lag for state in self.partitions.values()]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    @property
    def lag_at_least(self) -> int:
        """Records that were known to wait when their leaders were asked last, over all partitions.
        Where `lag` is None there may be more by now."""
        return sum(state.lag_at_least or 0 for state in self.partitions.values())

    @property
    def _awaits_partitions(self) -> bool:
        wants_some = bool(self.subscription) and self.member_state != "stable"
        return wants_some and not self.partitions

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it, for a page or a log: `json.dumps(status.to_dict())`. Partitions
        are called "orders-0"; `lag`, `lag_seconds` and `lag_at_least` of the whole consumer are in
        it, too."""
        fields = dataclasses.fields(self)
        told = {one.name: _as_json(getattr(self, one.name)) for one in fields}
        lag = {"lag": self.lag, "lag_seconds": self.lag_seconds}
        return {**told, **lag, "lag_at_least": self.lag_at_least}

    def __str__(self) -> str:
        lines = [f"consumer {self.client_id}: {self.state}"]
        if self.why:
            lines.append(self.why)
        if self.group_id is not None:
            member = self.member_id or "not a member"
            lines.append(
                f"group {self.group_id} ({self.group_protocol}): {member},"
                f" generation {self.generation}, {self.member_state}"
            )
        if self.subscription:
            lines.append(f"subscribed to {', '.join(sorted(self.subscription))}")
        for partition, status in sorted(self.partitions.items()):
            paused = ", paused" if status.paused else ""
            seconds = "" if status.lag_seconds is None else f" ({status.lag_seconds:.1f} s)"
            said = status.trouble or status.because
            told = ""
            if status.lag is None and status.lag_at_least is not None:
                age = "" if status.end_age is None else f", as told {status.end_age:.1f} s ago"
                told = f" (at least {status.lag_at_least}{age})"
            lines.append(
                f"  {partition.topic}-{partition.partition}: position {_or(status.position)},"
                f" end {_or(status.end)}, lag {_or(status.lag)}{told}{seconds}{paused}"
                f"{f', {said}' if said else ''}"
            )
        ages = [
            f"{name} {age:.1f} s ago"
            for name, age in (
                ("poll", self.last_poll),
                ("heartbeat", self.last_heartbeat),
                ("record", self.last_record),
                ("commit", self.last_commit),
            )
            if age is not None
        ]
        if ages:
            lines.append(f"last {', '.join(ages)}")
        for broker in self.brokers.values():
            told = (
                "never answered"
                if broker.last_answer is None
                else (f"answered {broker.last_answer:.1f} s ago")
            )
            fails = "" if broker.failing is None else f", failing for {broker.failing:.1f} s"
            lines.append(
                f"  broker {broker.node} at {broker.address}: {told}{fails}"
                f"{f' ({broker.error})' if broker.error else ''}"
            )
        lines.append(f"reader: {self.reader}")
        for actor in self.actors:
            lines.append(f"  actor {actor.name}: incarnation {actor.incarnation}")
        return "\n".join(lines)


def _as_json(value: Any) -> Any:
    match value:
        case TopicPartition():
            return f"{value.topic}-{value.partition}"
        case enum.Enum():
            return value.value
        case Mapping():
            return {str(_as_json(key)): _as_json(item) for key, item in value.items()}
        case set() | frozenset():
            return sorted(value)
        case tuple():
            return [_as_json(item) for item in value]
        case Health():
            return {"ok": value.ok, "because": value.because}
        case ActorStatus():
            return {"name": value.name, "incarnation": value.incarnation}
        case PartitionStatus() | BrokerStatus():
            fields = dataclasses.fields(value)
            return {one.name: _as_json(getattr(value, one.name)) for one in fields}
        case _:
            return value


def make(
    p: Picture,
    *,
    client_id: str,
    group_protocol: str,
    member: MemberChanged,
    actors: Iterable[CooperativeActor],
) -> ConsumerStatus:
    """The status of the consumer of which `p` is the picture."""
    findings = functools.cache(lambda: Findings.of(p))
    fail = None if p.commits is None else p.commits.fail
    return looked(
        {
            "state": lambda: _state(p, findings()),
            "partitions": lambda: _partitions(findings()),
            "why": lambda: sentence.sentence(findings()),
            "waiting_for": lambda: _waiting_for(findings()),
            "healthy": lambda: health.healthy(p, findings().main, findings().distinct),
        },
        client_id=client_id,
        group_id=p.group_id,
        group_protocol=group_protocol,
        member_id=member.member_id,
        generation=member.generation,
        member_state=member.state.value.strip("<>"),
        subscription=p.topics,
        actors=() if p.closed or p.failure else tuple(map(_actor, actors)),
        reader=reader_in_use(),
        alive=health.alive(p),
        last_poll=_age(p.application.polled_at, p.now),
        last_heartbeat=None if p.member is None else _age(p.member.answered_at, p.now),
        last_record=_age(p.application.delivered_at, p.now),
        last_commit=None if p.commits is None else _age(p.commits.committed_at, p.now),
        commit_failing=None if fail is None else _age(fail.since, p.now),
        commit_error="" if fail is None else fail.error,
        brokers={node: _broker(one, p.now) for node, one in sorted(p.network.brokers.items())},
    )


def looked(later: Mapping[str, Callable[[], Any]], **now: Any) -> ConsumerStatus:
    """A status with these fields, of which those in `later` are computed when they are read."""
    made = object.__new__(ConsumerStatus)
    for name, value in now.items():
        object.__setattr__(made, name, value)
    object.__setattr__(made, "_later", later)
    return made


def _waiting_for(findings: Findings) -> WaitingFor | None:
    """What all of it waits for, if that is one thing."""
    if findings.main is not None:
        return findings.main.waiting_for
    kinds = {reason.waiting_for for reason in findings.distinct}
    return kinds.pop() if len(kinds) == 1 else None


def _partitions(findings: Findings) -> dict[TopicPartition, PartitionStatus]:
    p, waiting = findings.picture, findings.waiting
    return {tp: _partition(p, tp, it, waiting[tp]) for tp, it in p.partitions.items()}


def _state(p: Picture, findings: Findings) -> str:
    """The consumer in a word; if something is wrong, also what."""
    if p.closed:
        return "closed"
    if not p.started:
        return "not started"
    if p.failure:
        return f"failed: {p.failure}"
    if p.overdue >= FAULT_AFTER:
        return "unresponsive"
    wrong = sentence.wrong(findings)
    return f"running, but {wrong}" if wrong else "running"


def _age(at: float, now: float) -> float | None:
    return None if at == -math.inf else max(0.0, now - at)


def _partition(
    p: Picture, tp: TopicPartition, it: PartitionSeen, reason: Reason
) -> PartitionStatus:
    known_at = end_known_at(p, tp, it)
    asked = it.lag != 0 or reason.waiting_for not in _NOT_FETCHED
    lag = it.lag if is_lag_known(p, tp, it, known_at, asked=asked) else None
    return PartitionStatus(
        position=it.position,
        end=it.end,
        lag=lag,
        paused=it.paused,
        buffered_bytes=it.buffered - it.arrived,
        trouble=reason.text if reason.fault or not it.subscribed else "",
        waiting_for=reason.waiting_for,
        because=reason.text,
        waiting=_age(reason.since, p.now),
        lag_seconds=_behind(p, it, lag),
        end_age=_age(known_at, p.now),
        lag_at_least=it.lag,
    )


#: While a partition waits for one of these, no Fetch asks its leader for more of it: if all was
#: read, there may be more soon after.
_NOT_FETCHED: Final = frozenset({WaitingFor.APPLICATION, WaitingFor.BUFFER})


def _behind(p: Picture, it: PartitionSeen, lag: int | None) -> float | None:
    if lag == 0:
        return 0.0
    if lag is None or it.next_at < 0:
        return None
    return max(0.0, p.wall - it.next_at / 1000.0)


def _broker(one: BrokerNow, now: float) -> BrokerStatus:
    begun = one.failing_since if one.fails_at(now) else None
    return BrokerStatus(
        node=one.node,
        address=one.address,
        connected=one.connected,
        last_answer=_age(one.heard_at, now),
        failing=None if begun is None else _age(begun, now),
        attempts=0 if begun is None else one.attempts,
        error="" if begun is None else one.error,
    )


def _actor(actor: CooperativeActor) -> ActorStatus:
    return ActorStatus(
        name=actor.name,
        incarnation=actor.incarnation,
        dead_letters=actor.dead_letters,
        broker_version=actor.broker_version,
    )


def _or(value: int | None) -> str:
    return "unknown" if value is None else str(value)
