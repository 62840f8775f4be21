"""All members of a classic group: the leader, static members, the protocol they agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic_member import Member

__all__ = ["Members"]


class Members:
    """Owns the members in the order they came, the leader's id, and who is about to come.

    `pending` are ids that were handed out by MEMBER_ID_REQUIRED and have not joined yet (KIP-394).
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
        """Let one in; the first is the leader."""
        self.by_id[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Let one go, pending or not; the eldest of the others leads if it was the leader."""
        self.pending.discard(member_id)
        member = self.by_id.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            del self._static[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.by_id), None)

    def replace(self, old_id: str, member: Member) -> None:
        """Put a static member's new incarnation in its place, leader if the old one was."""
        del self.by_id[old_id]
        self.by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader_id == old_id:
            self.leader_id = member.member_id

    def static_id(self, group_instance_id: str) -> str | None:
        """The member id of the static member of this name."""
        return self._static.get(group_instance_id)

    def check(self, member_id: str, group_instance_id: str | None) -> None:
        """Raise Refused if this is no member, or another has taken its group instance id."""
        if group_instance_id is not None:
            owner = self._static.get(group_instance_id)
            if owner is None:
                raise Refused(Code.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise Refused(Code.FENCED_INSTANCE_ID)
        if member_id not in self.by_id:
            raise Refused(Code.UNKNOWN_MEMBER_ID)

    def joining(self) -> int:
        """How many wait for the rebalance to end."""
        return sum(member.join_call is not None for member in self)

    def all_joined(self) -> bool:
        """Whether all members have joined."""
        return not self.pending and all(member.join_call is not None for member in self)

    def elect(self) -> bool:
        """Make sure that the leader has joined; False if no member has."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].join_call is None:
            joined = next((member for member in self if member.join_call is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def rebalance_timeout(self) -> float:
        """Seconds a rebalance may take: as long as the most patient member's; 0 without any."""
        return max((member.rebalance_timeout_ms for member in self), default=0) / 1000

    def support_any(self, names: Iterable[str]) -> bool:
        """Whether there is one among these protocols that every member supports."""
        return any(all(member.supports(name) for member in self) for name in names)

    def choose_protocol(self) -> str:
        """The protocol with the most votes: each votes for the first it has that all support."""
        shared = Counter(name for member in self for name in dict(member.protocols))
        votes = Counter(
            next(name for name, _ in member.protocols if shared[name] == len(self))
            for member in self
        )
        # Of equals the one named first by the eldest; in Kafka the order of a hash map decides.
        return votes.most_common(1)[0][0]
