"""What goes wrong: faults drawn from the seed, each with a beginning and an end.

A fault's number, time, kind and duration are drawn in advance, its targets from a seed of its own
when it begins: so leaving one out (to shrink a failing history) changes the others as little as
possible.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aktor.broker.codes import Code
from aktor.consumer.configuration.checks import did_you_mean, nearest
from aktor.simulation.errors import SimulationError
from aktor.simulation.faults import brokers, groups, members, network, requests, topics
from aktor.simulation.faults.disturbed import Begin, Disturbed, End, nothing
from aktor.simulation.faults.refusals import REFUSALS

__all__ = [
    "COMPACTION_WEIGHTS",
    "CONSUMER_WEIGHTS",
    "HANDSHAKE_WEIGHTS",
    "KINDS",
    "LOSSY",
    "NAME_WEIGHTS",
    "STANDING",
    "SURVIVABLE",
    "WEIGHTS",
    "Chaos",
    "Fault",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong: `seconds` after its beginning it is over."""

    number: int
    at: float
    kind: str
    seconds: float


#: What begins each kind; it returns what ends it.
KINDS: Final[Mapping[str, Begin]] = {
    "broker_crash": brokers.broker_crash,
    "broker_moved": brokers.broker_moved,
    "broker_fenced": brokers.broker_fenced,
    "log_start_moved": topics.log_start_moved,
    "log_compacted": topics.log_compacted,
    "leader_move": brokers.leader_move,
    "coordinator_move": groups.coordinator_move,
    "link_cut": network.link_cut,
    "link_half_cut": network.link_half_cut,
    "torn_frames": network.torn_frames,
    "member_cut_off": network.member_cut_off,
    "connections_reset": network.connections_reset,
    "connection_half_open": network.connection_half_open,
    "loss": network.loss,
    "slow_network": network.slow_network,
    "requests_refused": requests.requests_refused,
    "answers_lost": requests.answers_lost,
    "answers_spoiled": requests.answers_spoiled,
    "handshakes_spoiled": requests.handshakes_spoiled,
    "versions_unknown": requests.versions_unknown,
    "partly_refused": requests.partly_refused,
    "rights_withdrawn": requests.rights_withdrawn,
    "coordinator_loading": requests.coordinator_loading,
    "records_corrupted": requests.records_corrupted,
    "broker_outdated": brokers.broker_outdated,
    "address_nowhere": network.address_nowhere,
    "address_lost": network.address_lost,
    "broker_slow": brokers.broker_slow,
    "clients_throttled": brokers.clients_throttled,
    "coordinator_silent": groups.coordinator_silent,
    "coordinator_refuses": groups.coordinator_refuses,
    "frozen_while_handing_back": groups.frozen_while_handing_back,
    "member_fenced": groups.member_fenced,
    "member_frozen": members.member_frozen,
    "member_suspended": members.member_suspended,
    "clock_jump": members.clock_jump,
    "member_killed": members.member_killed,
    "interrupted": members.interrupted,
    "killed_at_line": members.killed_at_line,
    "actor_crash": members.actor_crash,
    "busy_member": members.busy_member,
    "slow_listener": members.slow_listener,
    "session_expired": groups.session_expired,
    "topic_grown": topics.topic_grown,
    "topic_recreated": topics.topic_recreated,
    "follower_held": brokers.follower_held,
    "unclean_election": brokers.unclean_election,
    "seek": members.sought,
}


#: How often each kind is drawn, unless a simulation says otherwise.
WEIGHTS: Final[Mapping[str, float]] = {
    "broker_crash": 2,
    "leader_move": 3,
    "coordinator_move": 3,
    "link_cut": 2,
    "member_cut_off": 1,
    "connections_reset": 3,
    "connection_half_open": 2,
    "loss": 1,
    "slow_network": 1,
    "requests_refused": 4,
    "member_frozen": 3,
    "member_suspended": 1,
    "clock_jump": 1,
    "member_killed": 2,
    "interrupted": 4,
    "actor_crash": 3,
    "busy_member": 2,
    "slow_listener": 1,
    "session_expired": 2,
    "topic_grown": 0.5,
    "topic_recreated": 0.3,
    "follower_held": 1,
    "unclean_election": 0.5,
    "seek": 2,
    "broker_fenced": 1,
    "log_start_moved": 1,
    "link_half_cut": 1,
    "torn_frames": 1,
    "answers_spoiled": 3,
    "partly_refused": 2,
    "rights_withdrawn": 0.5,
    "coordinator_loading": 1,
    "records_corrupted": 1,
    "broker_outdated": 1,
    "address_nowhere": 0.5,
    "broker_moved": 1,
    "broker_slow": 1,
    "clients_throttled": 1,
}


#: The same where members speak the consumer protocol, or may come to speak it.
CONSUMER_WEIGHTS: Final[Mapping[str, float]] = {
    **WEIGHTS,
    "answers_lost": 3,
    "coordinator_silent": 1,
    "coordinator_refuses": 1,
    "frozen_while_handing_back": 2,
    "member_fenced": 2,
}


#: The same where connections begin with handshakes (`Network.with_handshakes`).
HANDSHAKE_WEIGHTS: Final[Mapping[str, float]] = {"handshakes_spoiled": 4, "versions_unknown": 2}


#: The same where records have keys that come again (`Topic.keys`).
COMPACTION_WEIGHTS: Final[Mapping[str, float]] = {"log_compacted": 4}


#: The same where the names of brokers have several addresses (`Names`).
NAME_WEIGHTS: Final[Mapping[str, float]] = {"address_lost": 4}


#: Faults that lose data by definition: of what is gone nobody can promise anything.
LOSSY: Final[Mapping[str, float]] = {
    kind: CONSUMER_WEIGHTS[kind] for kind in ("topic_recreated", "unclean_election")
}


#: Kinds that need error handling in the worker: `poll` raises an error of a record batch, perhaps
#: until a seek (records_corrupted), or a call raises the exception of the user's signal handler
#: (interrupted). Few workers have that.
STANDING: Final = frozenset({"records_corrupted", "interrupted"})


#: What a correct worker survives without losing a record, whichever protocol it speaks.
SURVIVABLE: Final[Mapping[str, float]] = {
    **{
        kind: weight
        for kind, weight in CONSUMER_WEIGHTS.items()
        if kind not in STANDING | LOSSY.keys()
    },
    "killed_at_line": 15,
}


def _check(rate: float, weights: Mapping[str, float]) -> None:
    if not rate > 0:
        raise ValueError(f"rate is {rate}, but must be a number of faults a second above 0")
    for kind, weight in weights.items():
        if kind not in KINDS:
            raise ValueError(f"there is no fault {kind!r}{did_you_mean(nearest(kind, KINDS))}")
        if weight < 0:
            raise ValueError(f"the weight of {kind} is {weight}, but must not be below 0")
    if not sum(weights.values()) > 0:
        raise ValueError("no kind of fault has a weight above 0")


class Chaos:
    """Owns the faults of a simulation: which there will be, and which are under way."""

    def __init__(self, simulation: Disturbed, without: Collection[int]) -> None:
        self.faults: list[Fault] = []
        #: What brokers may say, by API: see `REFUSALS`.
        self.refusals: Mapping[str, Sequence[Code]] = REFUSALS
        self._simulation = simulation
        self._without = without
        self._under_way: dict[int, End] = {}
        #: Whom the fault that begins hits, by kind; nobody: everybody.
        self._hit: dict[str, Any] = {}
        self._over = False

    def draw(self, rate: float, seconds: float, weights: Mapping[str, float]) -> None:
        """From now on, for so long, `rate` faults a second on average."""
        simulation = self._simulation
        _check(rate, weights)
        if not simulation.topics:
            raise SimulationError("chaos hits what is there: make a topic first")
        draw = random.Random(f"{simulation.seed} chaos {len(self.faults)}")
        kinds, odds = list(weights), list(weights.values())
        at = 0.0
        while (at := at + draw.expovariate(rate)) < seconds:
            fault = Fault(
                number=len(self.faults),
                at=at,
                kind=draw.choices(kinds, odds)[0],
                seconds=draw.choice([0.5, 2.0, 5.0, 15.0]),
            )
            self.faults.append(fault)
            if fault.number not in self._without:
                simulation.scheduler.after(at, lambda fault=fault: self._begin(fault))  # type: ignore[misc]

    def begin(self, kind: str, seconds: float) -> bool:
        """One fault of this kind, now, for so long; returns whether it has an end, as a move of a
        leader has none. It is not drawn, so loops do nothing besides reading (see `raging`)."""
        _check(1.0, {kind: 1.0})
        self._begin(Fault(number=0, at=self._simulation.now, kind=kind, seconds=seconds))
        return self._under_way[0] is not nothing

    def _begin(self, fault: Fault) -> None:
        if self._over:
            return
        simulation = self._simulation
        draw = random.Random(f"{simulation.seed} fault {fault.number}")
        simulation.history.note(
            "fault.began", number=fault.number, kind=fault.kind, seconds=fault.seconds
        )
        self._hit = {}
        self._under_way[fault.number] = KINDS[fault.kind](simulation, draw)
        if self._hit:
            simulation.history.note("fault.hits", number=fault.number, **self._hit)
        simulation.scheduler.after(fault.seconds, lambda: self._end(fault.number))

    def hit(self, what: str, which: str | int) -> None:
        """The fault that begins now concerns only these "members", "brokers", "topics" or
        "partitions"."""
        self._hit.setdefault(what, []).append(which)

    def _end(self, number: int) -> None:
        end = self._under_way.pop(number, None)
        if end is not None:
            self._simulation.history.note("fault.ended", number=number)
            end()

    @property
    def raging(self) -> bool:
        """Whether there are faults, and they are not all healed."""
        return bool(self.faults) and not self._over

    def heal(self) -> None:
        """All that is under way ends, and no more begins."""
        self._over = True
        for number in list(self._under_way):
            self._end(number)
