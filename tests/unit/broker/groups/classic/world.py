"""A classic group with clients that keep what they are told; time is a number the test moves."""

from __future__ import annotations

import struct
from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from aktor.broker.codes import Code
from aktor.broker.groups.classic.group import ClassicGroup
from aktor.broker.groups.settings import GroupSettings
from tests.unit.broker.harness import Asked, World


class ClassicWorld(World):
    """One group, and the time."""

    def __init__(self, *, seed: int = 0, **settings: Any) -> None:
        super().__init__(seed)
        self.settings = GroupSettings(**settings)
        self.group = ClassicGroup(
            "g", rng=self.rng, settings=self.settings, journal=self.journal, now=self.now
        )

    @property
    def machine(self) -> ClassicGroup:
        return self.group

    def kept(self) -> Any:
        """What the journal has of the group."""
        return self.journal.value("classic-group", "g")

    def restart(self) -> None:
        """A new process: what was kept is all there is."""
        self.group = ClassicGroup.restore(
            self.kept(),
            group_id="g",
            rng=self.rng,
            settings=self.settings,
            journal=self.journal,
            now=self.now,
        )

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"),),
        protocol_type: str = "consumer",
        session: float = 10.0,
        rebalance: float = 60.0,
        version: int = 9,
        client_id: str = "client",
    ) -> Asked:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=int(session * 1000),
            rebalance_timeout_ms=int(rebalance * 1000),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols
            ],
        )
        return self.send(self.group.join, request, version, client_id)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 5,
        **details: Any,
    ) -> Asked:
        request = sync_request(member_id, generation, assignments, **details)
        return self.send(self.group.sync, request, version, "client")

    def heartbeat(self, member_id: str, generation: int, *, instance: str | None = None) -> Code:
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.send(self.group.heartbeat, request, 4, "client").code

    def leave(self, *who: tuple[str, str | None]) -> list[Code]:
        """Ask for (member id, instance id) pairs to leave; what became of each."""
        members = [
            LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance)
            for member_id, instance in who
        ]
        request = LeaveGroupRequest(group_id="g", members=members)
        answer = self.send(self.group.leave, request, 5, "client").answer
        assert answer.error_code == Code.NONE
        return [Code(member.error_code) for member in answer.members]

    def leave_alone(self, member_id: str, *, version: int = 2) -> Code:
        request = LeaveGroupRequest(group_id="g", member_id=member_id)
        return self.send(self.group.leave, request, version, "client").code

    # Whole stories.

    def enter(self, **details: Any) -> tuple[str, Asked]:
        """Join as a new dynamic member, with the detour over MEMBER_ID_REQUIRED."""
        first = self.join(**details)
        assert first.code is Code.MEMBER_ID_REQUIRED
        member_id: str = first.answer.member_id
        return member_id, self.join(member_id, **details)

    def settle(self) -> None:
        """All members sync, the leader last and with a share for each."""
        group = self.group
        assert group.state == "CompletingRebalance"
        leader = group.leader_id
        assert leader is not None
        named = group.protocol_name
        for member_id in [*(m for m in group.members if m != leader), leader]:
            shares = {m: b"share of " + m.encode() for m in group.members}
            self.sync(
                member_id,
                group.generation,
                shares if member_id == leader else None,
                protocol_name=named,
            )
        assert group.state == "Stable"

    def stable(self, count: int, **details: Any) -> list[str]:
        """Have a stable group of so many dynamic members; the first of them leads."""
        ids: list[str] = []
        for _ in range(count):
            ids.append(self.enter(**details)[0])
            for member_id in ids[:-1]:
                self.join(member_id, **details)
            self.settle()
        return ids

    def stable_static(self, *instances: str, **details: Any) -> dict[str, str]:
        """Have a stable group of static members: their ids by instance. The first leads."""
        ids: dict[str, str] = {}
        for instance in instances:
            asked = self.join(instance=instance, **details)
            for known, member_id in ids.items():
                self.join(member_id, instance=known, **details)
            ids[instance] = asked.answer.member_id
            self.settle()
        return ids


def sync_request(
    member_id: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> Any:
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=to, assignment=share)
            for to, share in (assignments or {}).items()
        ],
    )


def subscription(*topics: str, version: int = 3) -> bytes:
    """A consumer's metadata as far as the broker reads it, with a rest it does not."""
    encoded = [topic.encode() for topic in topics]
    names = b"".join(struct.pack(">h", len(topic)) + topic for topic in encoded)
    return struct.pack(">hi", version, len(topics)) + names + b"\xff\xff\xff\xff\x00\x00\x00\x00"
