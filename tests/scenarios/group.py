"""A classic consumer group, as Kafka's coordinator keeps it: joins, generations, sessions, offsets.

A model of `GroupMetadata` and `GroupCoordinator` for what one protocol type needs. Every method
answers through `reply`, at once or when the group has come so far; time comes from `Timeline`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka.errors import (
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    NoError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

Reply = Callable[[Any], None]


class Timeline(Protocol):
    """What the group needs of the world: the time, and to be called later."""

    now: float

    def after(self, delay: float, act: Callable[[], object]) -> None:
        """Call `act` when `delay` seconds have passed."""


@dataclass(slots=True)
class Member:
    """One member as the coordinator sees it; `joining` and `syncing` are parked requests."""

    member_id: str
    client_id: str
    session: float
    rebalance: float
    protocols: list[tuple[str, bytes]]
    heard: float = 0.0
    joining: Reply | None = None
    syncing: Reply | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class _Kept:
    """What survives the coordinator: the last generation that everybody synced, and offsets."""

    generation: int = 0
    protocol: str | None = None
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)


class Group:
    """Owns one group's members, generation and offsets.

    `state` is Kafka's: "Empty", "PreparingRebalance", "CompletingRebalance", "Stable".
    """

    def __init__(self, name: str, time: Timeline) -> None:
        self.name = name
        self.state = "Empty"
        self.generation = 0
        self.members: dict[str, Member] = {}
        self.offsets: dict[tuple[str, int], tuple[int, int, str]] = {}
        #: (time, member id, partition, offset) of every commit, for tests.
        self.commits: list[tuple[float, str, tuple[str, int], int]] = []
        #: How long the first member of an empty group is kept waiting for others.
        self.initial_delay = 0.05
        self._time = time
        self._named: dict[str, str] = {}
        self._count = 0
        self._leader = ""
        self._protocol: str | None = None
        self._round = 0
        self._delayed = False
        self._kept = _Kept()

    # -- joining

    def join(self, body: Any, client_id: str, reply: Reply) -> None:
        """JoinGroup: parked until everybody has joined, or the time for it is over."""
        protocols = [(one.name, bytes(one.metadata)) for one in body.protocols]
        if not body.member_id:
            self._count += 1
            member_id = f"{client_id}-{self._count}"
            self._named[member_id] = client_id
            reply(_refused_join(MemberIdRequiredError, member_id))
            return
        if not self._fits(protocols, body.member_id):
            reply(_refused_join(InconsistentGroupProtocolError))
            return
        if body.member_id in self._named:
            del self._named[body.member_id]
            self.members[body.member_id] = member = Member(
                body.member_id, client_id, body.session_timeout_ms / 1000, 0.0, []
            )
            member.heard = self._time.now
            self._watch(member)
            changed = True
        elif body.member_id in self.members:
            member = self.members[body.member_id]
            changed = member.protocols != protocols or body.member_id == self._leader
        else:
            reply(_refused_join(UnknownMemberIdError))
            return

        member.heard = self._time.now
        member.session = body.session_timeout_ms / 1000
        member.rebalance = body.rebalance_timeout_ms / 1000
        if not changed and self.state in ("Stable", "CompletingRebalance"):
            reply(self._joined(member))  # the last answer was lost
            return
        member.protocols = protocols
        member.joining = reply
        if self.state != "PreparingRebalance":
            self._prepare()
        self._maybe_complete()

    def _fits(self, protocols: list[tuple[str, bytes]], joining: str) -> bool:
        others = [one for one in self.members.values() if one.member_id != joining]
        names = {name for name, _ in protocols}
        return all(names & {name for name, _ in one.protocols} for one in others)

    def _prepare(self) -> None:
        """A new round: whoever waits for the old one is told to join again."""
        for member in self.members.values():
            if member.syncing is not None:
                _answer_sync(member, RebalanceInProgressError)
        self._delayed = self.state == "Empty"
        self.state = "PreparingRebalance"
        self._round += 1
        this = self._round
        timeout = max((one.rebalance for one in self.members.values()), default=0.0)
        self._time.after(timeout, lambda: self._time_is_up(this))
        if self._delayed:
            self._time.after(self.initial_delay, lambda: self._delay_is_over(this))

    def _delay_is_over(self, of_round: int) -> None:
        if of_round == self._round and self.state == "PreparingRebalance":
            self._delayed = False
            self._maybe_complete()

    def _time_is_up(self, of_round: int) -> None:
        if of_round != self._round or self.state != "PreparingRebalance":
            return
        for late in [one for one in self.members.values() if one.joining is None]:
            del self.members[late.member_id]
        self._complete()

    def _maybe_complete(self) -> None:
        if self.state != "PreparingRebalance" or self._delayed:
            return
        if all(one.joining is not None for one in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        self.generation += 1
        if not self.members:
            self.state = "Empty"
            self._keep()
            return
        self.state = "CompletingRebalance"
        if self._leader not in self.members:
            self._leader = next(iter(self.members))
        self._protocol = self._vote()
        for member in self.members.values():
            member.heard = self._time.now
            reply, member.joining = member.joining, None
            if reply is not None:
                reply(self._joined(member))

    def _vote(self) -> str:
        everybody = [[name for name, _ in one.protocols] for one in self.members.values()]
        common = [name for name in everybody[0] if all(name in one for one in everybody)]
        votes = [next(name for name in one if name in common) for one in everybody]
        return max(common, key=lambda name: (votes.count(name), -common.index(name)))

    def _joined(self, member: Member) -> Any:
        assert self._protocol is not None, "a generation has a protocol"
        leads = member.member_id == self._leader
        return JoinGroupResponse(
            throttle_time_ms=0,
            error_code=0,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=self._protocol,
            leader=self._leader,
            skip_assignment=False,
            member_id=member.member_id,
            members=[
                JoinGroupResponse.JoinGroupResponseMember(
                    member_id=one.member_id,
                    group_instance_id=None,
                    metadata=dict(one.protocols)[self._protocol],
                )
                for one in self.members.values()
                if leads
            ],
        )

    # -- syncing

    def sync(self, body: Any, reply: Reply) -> None:
        """SyncGroup: parked until the leader's has come."""
        error = self._objection(body.member_id, body.generation_id)
        if error is not None:
            reply(_synced(error))
            return
        member = self.members[body.member_id]
        member.heard = self._time.now
        if self.state == "PreparingRebalance":
            reply(_synced(RebalanceInProgressError))
        elif self.state == "Stable":
            reply(_synced(NoError, member.assignment))
        else:
            member.syncing = reply
            if body.member_id == self._leader:
                self._assign({one.member_id: bytes(one.assignment) for one in body.assignments})

    def _assign(self, assignments: dict[str, bytes]) -> None:
        self.state = "Stable"
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            member.heard = self._time.now
        self._keep()
        for member in self.members.values():
            _answer_sync(member, NoError)

    # -- sessions

    def heartbeat(self, body: Any, reply: Reply) -> None:
        """Heartbeat: the session goes on; or join again; or who are you?"""
        error = self._objection(body.member_id, body.generation_id)
        if error is None:
            self.members[body.member_id].heard = self._time.now
            error = NoError
            if self.state == "PreparingRebalance":
                error = RebalanceInProgressError
        reply(HeartbeatResponse(throttle_time_ms=0, error_code=error.errno))

    def _objection(self, member_id: str, generation: int) -> Any:
        if self.state == "Empty" or member_id not in self.members:
            return UnknownMemberIdError
        return None if generation == self.generation else IllegalGenerationError

    def _watch(self, member: Member) -> None:
        """Expire the member when its session is over; one that waits for us is alive."""
        if self.members.get(member.member_id) is not member:
            return
        if member.joining is not None or member.syncing is not None:
            member.heard = self._time.now
        left = member.heard + member.session - self._time.now
        if left <= 1e-9:
            self.remove(member.member_id)
        else:
            self._time.after(left, lambda: self._watch(member))

    def leave(self, body: Any, reply: Reply) -> None:
        """LeaveGroup: of each member that it names."""
        ids = [one.member_id for one in body.members]
        unknown = [one for one in ids if one not in self.members and one not in self._named]
        for one in ids:
            self._named.pop(one, None)
            self.remove(one)
        reply(
            LeaveGroupResponse(
                throttle_time_ms=0,
                error_code=0,
                members=[
                    LeaveGroupResponse.MemberResponse(
                        member_id=one,
                        group_instance_id=None,
                        error_code=UnknownMemberIdError.errno if one in unknown else 0,
                    )
                    for one in ids
                ],
            )
        )

    def remove(self, member_id: str) -> None:
        """The member is gone: the others share what it had."""
        gone = self.members.pop(member_id, None)
        if gone is None:
            return
        if gone.joining is not None:
            gone.joining(_refused_join(UnknownMemberIdError))
        _answer_sync(gone, UnknownMemberIdError)
        if self.state in ("Stable", "CompletingRebalance"):
            self._prepare()
        self._maybe_complete()

    # -- offsets

    def may_commit(self, member_id: str, generation: int) -> Any:
        """None, or the error that a commit ends in."""
        if generation < 0 and not member_id and self.state == "Empty":
            return None
        if self._objection(member_id, generation) is not None:
            return self._objection(member_id, generation)
        if self.state == "CompletingRebalance":
            return RebalanceInProgressError
        self.members[member_id].heard = self._time.now
        return None

    def commit(
        self, member_id: str, partition: tuple[str, int], value: tuple[int, int, str]
    ) -> None:
        """Store one offset: (offset, leader epoch, metadata)."""
        self.offsets[partition] = value
        self.commits.append((self._time.now, member_id, partition, value[0]))

    # -- another coordinator

    def _keep(self) -> None:
        members = {}
        for one in self.members.values():
            members[one.member_id] = kept = copy.copy(one)
            kept.joining = kept.syncing = None
        self._kept = _Kept(self.generation, self._protocol, self._leader, members)

    def load(self) -> None:
        """Another broker has read the group from its log: what waited here is refused."""
        for member in self.members.values():
            if member.joining is not None:
                member.joining(_refused_join(NotCoordinatorError))
            _answer_sync(member, NotCoordinatorError)
        kept = self._kept
        self._round += 1
        self._named.clear()
        self.generation, self._protocol = kept.generation, kept.protocol
        self._leader = kept.leader
        self.members = {name: copy.copy(one) for name, one in kept.members.items()}
        self.state = "Stable" if self.members else "Empty"
        for member in self.members.values():
            member.heard = self._time.now
            self._watch(member)


def _refused_join(error: Any, member_id: str = "") -> Any:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=error.errno,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=[],
    )


def _synced(error: Any, assignment: bytes = b"") -> Any:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=error.errno,
        protocol_type=None,
        protocol_name=None,
        assignment=assignment,
    )


def _answer_sync(member: Member, error: Any) -> None:
    reply, member.syncing = member.syncing, None
    if reply is not None:
        reply(_synced(error, member.assignment if error is NoError else b""))
