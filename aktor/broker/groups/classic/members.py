"""All members of a classic group: the leader, static members, the protocol they agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.member import Member

__all__ = ["Members"]


class Members:
    """Owns the members in the order in which they joined, the leader's id, and pending member ids.

    `pending` are ids that were given out with MEMBER_ID_REQUIRED and have not joined yet (KIP-394).
    """

    def __init__(self) -> None:
        self.by_id: dict[str, Member] = {}
        self.leader_id: str | None = None
        self.pending: set[str] = set()
        self._static: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.by_id

    def __getitem__(self, member_id: str) -> Member:
        return self.by_id[member_id]

    def add(self, member: Member) -> None:
        """Add a member; the first one is the leader."""
        self.by_id[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member, pending or not. If it led, the member that joined first leads now."""
        self.pending.discard(member_id)
        member = self.by_id.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            del self._static[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.by_id), None)

    def replace(self, old_id: str, member: Member) -> None:
        """Replace a static member by its new self, which is the leader if the old one was."""
        del self.by_id[old_id]
        self.by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader_id == old_id:
            self.leader_id = member.member_id

    def static_id(self, group_instance_id: str) -> str | None:
        """The member id of the static member with this group.instance.id."""
        return self._static.get(group_instance_id)

    def check(self, member_id: str, group_instance_id: str | None) -> None:
        """Raise Refused if this is not a member, or another has its group.instance.id."""
        if group_instance_id is not None:
            owner = self._static.get(group_instance_id)
            if owner is None:
                raise Refused(Code.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise Refused(Code.FENCED_INSTANCE_ID)
        if member_id not in self.by_id:
            raise Refused(Code.UNKNOWN_MEMBER_ID)

    def joining(self) -> int:
        """How many members have a JoinGroup waiting."""
        return sum(member.join_call is not None for member in self)

    def all_joined(self) -> bool:
        """Whether all members have joined, and no id is pending."""
        return not self.pending and all(member.join_call is not None for member in self)

    def elect(self) -> bool:
        """If the leader has not joined, make one that has the leader; False if none has."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].join_call is None:
            joined = next((member for member in self if member.join_call is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def rebalance_timeout(self) -> float:
        """The longest rebalance timeout of all members, in seconds; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self), default=0) / 1000

    def support_any(self, names: Iterable[str]) -> bool:
        """Whether every member supports one of these protocols."""
        return any(all(member.supports(name) for member in self) for name in names)

    def choose_protocol(self) -> str:
        """The protocol with the most votes. A member votes for the first of its protocols that all
        members support."""
        shared = Counter(name for member in self for name in dict(member.protocols))
        votes = Counter(
            next(name for name, _ in member.protocols if shared[name] == len(self))
            for member in self
        )
        # With equal votes the choice of the first member wins; in Kafka the order of a hash map.
        return votes.most_common(1)[0][0]
