"""A member of a consumer group, and how it comes from what it owns to what it shall own (KIP-848).

A member first gives up what it shall not keep, then gets the epoch of the target assignment and
whatever of it is free, then waits for the rest:

STABLE ──▶ UNREVOKED_PARTITIONS ──▶ UNRELEASED_PARTITIONS ──▶ STABLE
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias
from uuid import UUID

from aktor.broker.groups.classic.member import Protocols
from aktor.broker.groups.consumer.assignors import MemberAssignment
from aktor.protocol.consumer_group import LEAVE_GROUP_STATIC_MEMBER_EPOCH

__all__ = ["Classic", "Member", "MemberState", "Owned", "Reported", "Target", "reconcile"]

#: Partitions by topic, each with the epoch in which the member got it (KIP-1251).
Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]

#: What a member says it owns: (topic id, partition).
Reported: TypeAlias = frozenset[tuple[UUID, int]]


class MemberState(StrEnum):
    """How far a member is on its way to the target assignment.

    STABLE: it has the target's part, or the target is newer than the member's epoch.
    UNREVOKED_PARTITIONS: it still has to report that it gave up some; its epoch stays.
    UNRELEASED_PARTITIONS: it has the target's epoch; others have not yet given up some of its part.
    """

    STABLE = "stable"
    UNREVOKED_PARTITIONS = "unrevoked"
    UNRELEASED_PARTITIONS = "unreleased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classic:
    """What a member said of itself that speaks the classic protocol, as in its JoinGroup."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol_name(self) -> str:
        """The one it is told that the group has: a broker assigns alike under all names."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """What it subscribes to, which is the same under all names."""
        return self.protocols[0][1]

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes it from again."""
        return {
            "session_timeout_ms": self.session_timeout_ms,
            "protocols": [[n, base64.b64encode(data).decode()] for n, data in self.protocols],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Classic:
        """What `to_json` described."""
        return cls(
            session_timeout_ms=value["session_timeout_ms"],
            protocols=tuple((name, base64.b64decode(data)) for name, data in value["protocols"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What the coordinator knows of one member.

    epoch: -2 while a static member is away for a restart.
    regex: "" if it subscribes by name only.
    assignor: the one it votes for, None if it leaves that to the others.
    assigned: what it may own now; `pending` is what it must give up and still owns.
    classic: None if it speaks the consumer protocol.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    pending: Owned = field(default_factory=dict)
    classic: Classic | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has its part of the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch in which it got a partition that it owns; None if it does not own it."""
        for owned in (self.assigned, self.pending):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def partitions(self) -> list[tuple[UUID, int]]:
        """All it owns, with what it has still to give up."""
        return [
            (topic_id, partition)
            for owned in (self.assigned, self.pending)
            for topic_id, epochs in owned.items()
            for partition in epochs
        ]

    def told(self, request: Any, *, client_id: str, client_host: str) -> Member:
        """The member with what its heartbeat says of it; null and -1 say: as before."""
        said: dict[str, Any] = {"client_id": client_id, "client_host": client_host, "classic": None}
        if request.instance_id is not None:
            said["instance_id"] = request.instance_id
        if request.rack_id is not None:
            said["rack_id"] = request.rack_id
        if request.rebalance_timeout_ms != -1:
            said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.server_assignor is not None:
            said["assignor"] = request.server_assignor
        if request.subscribed_topic_names is not None:
            said["topics"] = frozenset(request.subscribed_topic_names)
        if request.subscribed_topic_regex is not None:
            said["regex"] = request.subscribed_topic_regex
        return replace(self, **said)

    def away(self) -> Member:
        """A static member that left for a while: it keeps its assignment until it is back."""
        return replace(
            self,
            epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH,
            assigned={t: dict.fromkeys(epochs, 0) for t, epochs in self.assigned.items()},
            pending={},
        )

    def named(self, member_id: str) -> Member:
        """A static member that is back under another id, and has everything before it."""
        return replace(self, member_id=member_id, epoch=0, previous_epoch=0)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes the member from again."""
        return {
            "member_id": self.member_id,
            "epoch": self.epoch,
            "previous_epoch": self.previous_epoch,
            "state": self.state.value,
            "instance_id": self.instance_id,
            "rack_id": self.rack_id,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "topics": sorted(self.topics),
            "regex": self.regex,
            "assignor": self.assignor,
            "assigned": _owned_to_json(self.assigned),
            "pending": _owned_to_json(self.pending),
            "classic": None if self.classic is None else self.classic.to_json(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Member:
        """The member that `to_json` described."""
        classic = value["classic"]
        return cls(
            **{
                **value,
                "state": MemberState(value["state"]),
                "topics": frozenset(value["topics"]),
                "assigned": _owned_from_json(value["assigned"]),
                "pending": _owned_from_json(value["pending"]),
                "classic": None if classic is None else Classic.from_json(classic),
            }
        )


def _owned_to_json(owned: Owned) -> dict[str, list[list[int]]]:
    return {t.hex: [[p, epoch] for p, epoch in epochs.items()] for t, epochs in owned.items()}


def _owned_from_json(value: dict[str, list[list[int]]]) -> Owned:
    return {UUID(hex=t): {pair[0]: pair[1] for pair in pairs} for t, pairs in value.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a member shall own, and the epoch of the target assignment that says so."""

    epoch: int
    assignment: MemberAssignment


def reconcile(
    member: Member,
    target: Target,
    *,
    subscribed: Collection[UUID],
    reported: Reported | None,
    is_free: Callable[[UUID, int], bool],
    subscription_changed: bool,
) -> Member:
    """The member one step nearer to its target, or as it is (Kafka's CurrentAssignmentBuilder).

    subscribed: the topics it subscribes to; what it has of others is to be given up at once.
    reported: what the member says it owns, None if it does not say.
    is_free: whether no member owns a partition.
    """
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if not _still_owns(member.pending, reported):
            return _advance(member, target, subscribed, reported, is_free)
    elif member.state is MemberState.UNRELEASED_PARTITIONS or member.epoch != target.epoch:
        return _advance(member, target, subscribed, reported, is_free)
    if subscription_changed:
        return _strip_unsubscribed(member, subscribed, reported)
    return member


def _still_owns(revoked: Owned, reported: Reported | None) -> bool:
    """Whether the member has some of these, or does not say."""
    if reported is None:
        return True
    return any((t, p) in reported for t, epochs in revoked.items() for p in epochs)


def _advance(
    member: Member,
    target: Target,
    subscribed: Collection[UUID],
    reported: Reported | None,
    is_free: Callable[[UUID, int], bool],
) -> Member:
    keep: dict[UUID, dict[int, int]] = {}
    revoke: dict[UUID, dict[int, int]] = {}
    get: dict[UUID, dict[int, int]] = {}
    unreleased = False
    for topic_id in dict.fromkeys((*target.assignment, *member.assigned)):
        wanted = target.assignment.get(topic_id, ()) if topic_id in subscribed else ()
        has = member.assigned.get(topic_id, {})
        keep[topic_id] = {p: has[p] for p in wanted if p in has}
        revoke[topic_id] = {p: epoch for p, epoch in has.items() if p not in keep[topic_id]}
        missing = [p for p in wanted if p not in has]
        # What it has just given up is its own until now, and free for it.
        own = member.pending.get(topic_id, {})
        free = [p for p in missing if p in own or is_free(topic_id, p)]
        unreleased = unreleased or len(free) < len(missing)
        get[topic_id] = dict.fromkeys(free, target.epoch)

    revoke = _without_empty(revoke)
    if revoke and _still_owns(revoke, reported):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=_without_empty(keep),
            pending=revoke,
        )
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        epoch=target.epoch,
        previous_epoch=member.epoch,
        assigned=_without_empty({t: {**keep[t], **get[t]} for t in keep}),
        pending={},
    )


def _without_empty(owned: dict[UUID, dict[int, int]]) -> dict[UUID, dict[int, int]]:
    return {topic_id: epochs for topic_id, epochs in owned.items() if epochs}


def _strip_unsubscribed(
    member: Member, subscribed: Collection[UUID], reported: Reported | None
) -> Member:
    """The member without the topics that it has just unsubscribed from; its epoch stays."""
    gone = {t: epochs for t, epochs in member.assigned.items() if t not in subscribed}
    if not gone:
        return member
    assigned = {t: epochs for t, epochs in member.assigned.items() if t in subscribed}
    pending = {
        t: {**member.pending.get(t, {}), **gone.get(t, {})}
        for t in dict.fromkeys((*member.pending, *gone))
    }
    if _still_owns(pending, reported):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            pending=pending,
        )
    return replace(member, previous_epoch=member.epoch, assigned=assigned)
