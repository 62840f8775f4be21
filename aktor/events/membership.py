"""The membership conversation: who owns what, and how partitions change hands.

A step carries the number of its `rebalance`; an answer to an older one is dropped and traced.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Self, TypeAlias
from uuid import UUID

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.message import Message


class SubscriptionChanged(Message):
    """application ▶ membership: these topics from now on; the member joins at the next Poll.

    `regex` is a pattern that the brokers evaluate (RE2; KIP-848 only). `member_id` is the last one
    known to the application: a restarted membership manager rejoins with it. `leaving` are earlier
    member ids, for which it has yet to send LeaveGroup.
    """

    topics: frozenset[str]
    regex: str = ""
    member_id: str = ""
    leaving: frozenset[str] = frozenset()


class Loss(enum.Enum):
    """Why partitions are taken from the application."""

    REVOKED = "revoked"
    """By agreement: positions are committed first."""

    LOST = "lost"
    """Another member may own them already: nothing may be committed."""


class RevokePartitions(Message):
    """membership ▶ application: stop delivering these, drop what is buffered, answer."""

    rebalance: int
    partitions: frozenset[TopicPartition]
    loss: Loss
    because: str


class PartitionsReleased(Message):
    """application ▶ membership: no more records of these partitions are given out; they were
    consumed up to `positions`.

    `positions` is empty when the partitions were lost. The application still has the partitions:
    it drops them after RunRevokedCallback. `topic_ids`: as in `CommitOffsets`.
    """

    rebalance: int
    positions: Mapping[TopicPartition, OffsetAndMetadata]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)


class RunRevokedCallback(Message):
    """membership ▶ application: run `on_partitions_revoked` or `on_partitions_lost`, answer.

    The application drops the partitions from its assignment once the callback has returned.
    """

    rebalance: int
    partitions: frozenset[TopicPartition]
    loss: Loss


class AssignPartitions(Message):
    """membership ▶ application: `assigned` is all that is owned now, `added` what is new.

    The application applies it, runs `on_partitions_assigned(added)`, answers. With `must_succeed`
    no records of added partitions are given out if the callback raises.
    """

    rebalance: int
    assigned: frozenset[TopicPartition]
    added: frozenset[TopicPartition]
    generation: int
    must_succeed: bool = False


#: What the application does in a rebalance. It answers each step.
Step: TypeAlias = RevokePartitions | RunRevokedCallback | AssignPartitions


class CallbackFinished(Message):
    """application ▶ membership: the step is done; `error` is what the listener raised, if so.

    `assigned`: the step was AssignPartitions, else RunRevokedCallback. `seconds`: for how long the
    listener ran. May be said twice.
    """

    rebalance: int
    error: BaseException | None = None
    assigned: bool = False
    seconds: float = 0.0


class Operation(enum.Enum):
    """Whether the member leaves its group when a consumer is closed (KIP-1092)."""

    DEFAULT = "default"
    """A dynamic member leaves, a static one keeps its place for a while."""

    LEAVE_GROUP = "leave_group"
    """The member leaves, also a static one."""

    REMAIN_IN_GROUP = "remain_in_group"
    """The member's place is kept until its session ends."""

    @classmethod
    def named(cls, name: object) -> Self:
        """The operation of this name, in upper or lower case. Raises ValueError with all names."""
        try:
            return cls(str(name).lower())
        except ValueError:
            names = ", ".join(repr(member.value) for member in cls)
            raise ValueError(
                f"group_membership_operation is {name!r}, but must be one of {names}"
            ) from None

    def leaves_for_good(self, *, static: bool) -> bool:
        """Whether the group forgets the member at once. A static one (with `group_instance_id`)
        keeps its place until its session ends, unless it is told to leave (KIP-345)."""
        return self is Operation.LEAVE_GROUP if static else self is not Operation.REMAIN_IN_GROUP


class LeaveGroup(Message):
    """application ▶ membership: leave before `deadline`; Answered when left (or given up).

    The application has released its partitions and run its callbacks before it says this.
    `member_id` is the last one known to it: a restarted membership manager leaves with that.
    """

    ticket: int
    deadline: float
    because: str
    operation: Operation = Operation.DEFAULT
    member_id: str = ""


class MemberState(enum.Enum):
    """How far the member is, as other actors are told (kafka-python's three words)."""

    UNJOINED = "<unjoined>"
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"


class MemberChanged(Message):
    """membership ▶ commits, application: our member id, generation and state in the group now.

    `generation` is -1 and `member_id` "" outside of a group. `topic_ids` are those of the topics
    that a KIP-848 group has given us, by name: metadata may know a later topic of that name.
    `joins_as` is the id under which a classic member asks to join, if it has one already: the
    group may have a member of this id before we hear of it. `is_revoking`: the application has yet
    to give partitions up, and until then there is no next generation for us. `leaving` are earlier
    ids under which a classic member may still be in the group: their LeaveGroups have not been
    answered.
    """

    member_id: str
    generation: int
    state: MemberState
    protocol: str = "classic"
    assignor: str | None = None
    topic_ids: Mapping[str, Any] = field(default_factory=dict)
    joins_as: str = ""
    is_revoking: bool = False
    leaving: frozenset[str] = frozenset()


class SessionExtended(Message):
    """membership ▶ application: the group confirmed the member; records may be given out until
    `until`.

    `until` is past if the group has said that it does not know us, or may have gone on without us:
    nothing is given out before it confirms us again.
    """

    until: float


class ConfirmSession(Message):
    """commits, application ▶ membership: we may not be a member any more; heartbeat at once.

    The application asks when the session may be over, the commit manager when the group has
    refused a commit or a look-up of this member.
    """


class GroupFailed(Message):
    """membership ▶ application: the group cannot be used; raise this from `poll`."""

    error: Exception
