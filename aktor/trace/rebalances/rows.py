"""The tables that are made of traces: what one row of each holds.

Times (`At`) are seconds since 1970 by the clock of the host that wrote the event; durations are in
milliseconds. None: the trace does not say it.

A consumer is told by its client id and its host. Who comes while another one of this name was not
closed has its process in its name, too ("app (pid 4711)"), or its trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

__all__ = ["At", "Downtime", "MemberPart", "Rebalance", "RefusedCommit", "Reset", "Row", "Silence"]
__all__ += ["MemberTotal", "OwnedPartition", "Refusal", "Span", "Storm"]

#: A point in time: seconds since 1970.
At = NewType("At", float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of any table."""

    #: Empty: of consumers without a group, all of which are taken together.
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance(Row):
    """A rebalance of a group: what its members tell of it, put together."""

    #: The same in the rows of its members.
    rebalance: str
    protocol: str | None
    began: At
    ended: At
    duration_ms: float
    #: The generations, or the epochs, that it led to; None if the traces begin or end within it.
    first_generation: int | None
    last_generation: int | None
    generations: int
    #: A value of `Cause`, and the words of the trace.
    trigger: str
    because: str | None
    #: The client id and the host of the member that began it; None if no trace says it. (The
    #: sentence has also those that came into it.)
    initiator: str | None
    initiator_host: str | None
    #: Members that took part by their traces, and how many the leader counted beyond these.
    members: int
    members_unseen: int
    #: The longest that a member was in each phase. Classic: prepare (the partitions are revoked
    #: before the member joins), join, sync, revoke, assign. Consumer: join, reconcile, acknowledge.
    prepare_ms: float | None
    join_ms: float | None
    sync_ms: float | None
    revoke_ms: float | None
    assign_ms: float | None
    reconcile_ms: float | None
    acknowledge_ms: float | None
    #: The longest that a member's rebalance listener took.
    revoked_callback_ms: float | None
    assigned_callback_ms: float | None
    lost_callback_ms: float | None
    #: The member that was done last, and the phase it was longest in.
    slowest: str | None
    slowest_host: str | None
    slowest_phase: str | None
    #: What it waited for longest, if that is a fifth of it or more: the member, and "poll" (its
    #: application did not poll), "commit", one of the callbacks, or "coordinator" (then it is the
    #: member that waited for the coordinator).
    held_by: str | None
    held_by_host: str | None
    held_in: str | None
    held_ms: float | None
    #: Partitions that members own at the end, that were given to another member, and that nobody
    #: had been seen with before.
    partitions: int
    moved: int
    first_assigned: int
    #: The fewest moves that balance the group; and how many there were beyond these.
    least_moves: int | None
    moved_needlessly: int | None
    #: Gaps in the delivery of a partition that had ended when this row was made, and the longest.
    #: (A partition that is handed over twice within a rebalance has two.)
    resumed: int
    longest_downtime_ms: float | None
    #: Members whose part did not come to its end: lost, left, or their trace ends.
    incomplete: int
    #: Whether the traces end within it: then `ended` is the time of the last event of any of them.
    goes_on: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPart(Row):
    """A member's part in a rebalance, from its trigger until it owns its partitions."""

    rebalance: str
    consumer: str | None
    host: str | None
    member: str | None
    trigger: str
    because: str | None
    began: At
    ended: At
    duration_ms: float
    #: completed, lost (the member was no member any more), left, or unfinished (the trace ends).
    outcome: str
    generation: int | None
    attempts: int
    delayed: int
    prepare_ms: float | None
    join_ms: float | None
    sync_ms: float | None
    revoke_ms: float | None
    assign_ms: float | None
    reconcile_ms: float | None
    acknowledge_ms: float | None
    revoked_callback_ms: float | None
    assigned_callback_ms: float | None
    lost_callback_ms: float | None
    added: int
    revoked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Downtime(Row):
    """A partition on its way from one owner to the next: how long nothing was delivered."""

    partition: str
    from_consumer: str | None
    from_host: str | None
    to_consumer: str | None
    to_host: str | None
    #: Whether the owner is another one.
    moved: bool
    #: By the old owner; if it delivered nothing, by those before it.
    last_delivered: At | None
    released: At | None
    assigned: At
    first_delivered: At | None
    #: From the last delivery to the first one by the new owner; None if it delivered nothing. Then
    #: the row of the next owner has all of the pause. A partition without new records has a long
    #: one.
    downtime_ms: float | None
    #: How long the partition had no owner between these two.
    unowned_ms: float | None
    #: The offset after the last one delivered, and the first one delivered by the new owner.
    expected_offset: int | None
    first_offset: int | None
    #: Records that were delivered a second time (below zero: that were passed over).
    repeated: int | None
    #: Whether the old owner delivered after the new one had begun: it did not know that it was
    #: fenced, or the clocks of their hosts differ. Then nothing is said of the gap.
    overlap: bool
    #: Whether a member without a trace may have had it between the two, and read it: the group had
    #: given it to somebody else, and had such a member, or offsets were passed over.
    unseen_owner: bool
    #: Whether both times are by the clock of one host; None if a host is not known.
    same_host: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence(Row):
    """A partition of which its owner was given nothing, although there were records."""

    partition: str
    consumer: str | None
    host: str | None
    began: At
    #: None: it goes on at the end of the traces.
    ended: At | None
    duration_ms: float | None
    #: What the next record waited for longest (`waiting_for` of `status()`), "paused", "trace
    #: ended" (the owner's trace ends, and those of others go on), or "rebalance" (it was taken from
    #: the owner, and no other member has it; whether it has records nobody can say). And in words,
    #: with who it was.
    reason: str | None
    because: str | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Row):
    """What brokers refused to a member, or that it could not reach any: it may never have got into
    its group. Or that its coordinator did not answer it."""

    #: The first time and the last one.
    began: At
    ended: At
    consumer: str | None
    host: str | None
    #: "login", "group", "topic"; "brokers": none could be reached; or "coordinator": it did not
    #: answer from the first time to the last, and was lost so many times.
    refused: str
    times: int
    because: str | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Row):
    """What a member did, or waited for, and from when to when. Spans of different kinds overlap."""

    #: Tells members apart that have the same client id and host.
    trace: str
    consumer: str | None
    host: str | None
    member: str | None
    #: "state" (of the membership), "callback" (of the rebalance listener), "wait" (as `held_in` of
    #: a rebalance), or "away" (the member was taken out of the group and told nothing meanwhile).
    kind: str
    #: A state of `membership.moved`; "revoked_callback" and so on; "poll", "commit", "coordinator";
    #: "away".
    what: str
    because: str | None
    began: At
    ended: At
    duration_ms: float
    #: Its trace ends within it: then `ended` is the time of the last event.
    unfinished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartition(Row):
    """A partition, for as long as it had one owner."""

    partition: str
    #: As of a span.
    trace: str
    consumer: str | None
    host: str | None
    assigned: At
    #: None: the owner never said so. It was killed, or it has the partition at the end.
    released: At | None
    #: None: it delivered nothing (or, of the last delivery, the next owner delivered beside it).
    first_delivered: At | None
    last_delivered: At | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCommit(Row):
    """A commit that ended in an error."""

    at: At
    consumer: str | None
    host: str | None
    member: str | None
    kind: str | None
    because: str | None
    retriable: bool | None
    partitions: int
    #: Whether the member was in a rebalance.
    rebalancing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(Row):
    """A position that was set by the reset policy, or because the application asked for it."""

    at: At
    consumer: str | None
    host: str | None
    partition: str
    strategy: str | None
    because: str | None
    from_offset: int | None
    to_offset: int | None
    #: How many offsets were passed over (below zero: are read again).
    skipped: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm(Row):
    """Rebalances of a group that follow each other closely."""

    began: At
    ended: At
    duration_ms: float
    rebalances: int
    generations: int
    moved: int
    moved_needlessly: int | None
    #: What triggered most of them, and how many; and who began most of those whose initiator is
    #: known.
    trigger: str
    triggered: int
    initiator: str | None
    initiated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTotal(Row):
    """All that a client id on a host did in a group: the worst members are found by it."""

    consumer: str | None
    host: str | None
    #: How many consumers had this name, one after the other.
    lives: int
    #: Those that it was in, began or came into, and was the last one to be done with; how long in
    #: all, each from the beginning of its first part to the end of its last one.
    rebalances: int
    initiated: int
    slowest: int
    rebalancing_ms: float
    longest_callback_ms: float
    lost: int
    late_polls: int
    refused_commits: int
    resets: int
