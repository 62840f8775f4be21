"""All members of one consumer group, and whose each partition is."""

from __future__ import annotations

from collections.abc import ItemsView, ValuesView
from typing import Any
from uuid import UUID

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.member import Member

__all__ = ["Members"]


class Members:
    """Owns the members, in the order in which they joined, and what follows from them."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._members: dict[str, Member] = {}
        self._of_instance: dict[str, str] = {}
        self._owner: dict[tuple[UUID, int], str] = {}
        self._regex_users: dict[str, int] = {}
        #: Counts what was put and removed.
        self.changes = 0

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> Member | None:
        """The member, None if there is none."""
        return self._members.get(member_id)

    def known(self, member_id: str) -> Member:
        """The member; raises Refused(UNKNOWN_MEMBER_ID)."""
        member = self._members.get(member_id)
        if member is None:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self._group_id}.",
            )
        return member

    def static(self, instance_id: str) -> Member | None:
        """The static member of this name."""
        member_id = self._of_instance.get(instance_id)
        return None if member_id is None else self._members[member_id]

    def known_static(self, instance_id: str, member_id: str) -> Member:
        """The static member; raises Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)."""
        member = self.static(instance_id)
        if member is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise Refused(
                Code.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{member.member_id}.",
            )
        return member

    def values(self) -> ValuesView[Member]:
        """All members."""
        return self._members.values()

    def items(self) -> ItemsView[str, Member]:
        """All members by id."""
        return self._members.items()

    @property
    def regexes(self) -> dict[str, int]:
        """The patterns that members subscribe to, and how many do."""
        return self._regex_users

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        """Whether the partition has no owner."""
        return (topic_id, partition) not in self._owner

    def put(self, member: Member) -> None:
        """Add a member, or change the one that has its id."""
        before = self._members.get(member.member_id)
        if before == member:
            return
        self.changes += 1
        if before is None:
            self._enter(member)
            return
        if before.regex != member.regex:
            self._count_regex(before.regex, -1)
            self._count_regex(member.regex, 1)
        if before.instance_id != member.instance_id:
            self._drop_instance(before)
            self._name_instance(member)
        if _ownership(before) != _ownership(member):
            self._release(before)
            self._own(member)
        self._members[member.member_id] = member

    def remove(self, member_id: str) -> Member:
        """Take a member out; its partitions are free."""
        self.changes += 1
        member = self._members.pop(member_id)
        self._release(member)
        self._count_regex(member.regex, -1)
        self._drop_instance(member)
        return member

    def _enter(self, member: Member) -> None:
        self._members[member.member_id] = member
        self._own(member)
        self._count_regex(member.regex, 1)
        self._name_instance(member)

    def _own(self, member: Member) -> None:
        for place in member.partitions():
            self._owner[place] = member.member_id

    def _release(self, member: Member) -> None:
        for place in member.partitions():
            if self._owner.get(place) == member.member_id:
                del self._owner[place]

    def _name_instance(self, member: Member) -> None:
        if member.instance_id is not None:
            self._of_instance[member.instance_id] = member.member_id

    def _drop_instance(self, member: Member) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self._of_instance.get(instance_id) == member.member_id:
            del self._of_instance[instance_id]

    def _count_regex(self, regex: str, change: int) -> None:
        if not regex:
            return
        count = self._regex_users.get(regex, 0) + change
        if count:
            self._regex_users[regex] = count
        else:
            del self._regex_users[regex]


def _ownership(member: Member) -> tuple[Any, Any]:
    return member.assigned, member.pending
