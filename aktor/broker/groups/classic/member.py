"""One member of a classic group: its JoinGroup, its assignment, and the calls it waits for."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, replace
from typing import Any

from aktor.broker.call import Call

__all__ = ["Member", "Protocols", "protocols_of", "rebalance_timeout_ms_of", "subscribed_topics"]

#: Names and metadata of the protocols (assignors) of a member, in its order of preference.
Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class Member:
    """A member. `group_instance_id` is None for a dynamic one. Timeouts as the client sent them.

    `is_new` is true from its first JoinGroup until a generation begins: until then the member sends
    no heartbeats.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_call: Call | None = None
    sync_call: Call | None = None
    is_new: bool = False

    @property
    def session_timeout(self) -> float:
        """Seconds without a heartbeat after which the group removes the member."""
        return self.session_timeout_ms / 1000

    @property
    def keeps_session(self) -> bool:
        """Whether its session cannot end: it waits for our answer, and so sends no heartbeats.

        The session of a new member can end: the group cannot know whether its client still
        runs (KAFKA-7610).
        """
        return not self.is_new and (self.join_call is not None or self.sync_call is not None)

    def renamed(self, member_id: str) -> Member:
        """The same member with another member id, and without waiting calls."""
        return replace(self, member_id=member_id, join_call=None, sync_call=None, is_new=False)

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol; b"" if it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def supports(self, protocol: str) -> bool:
        """Whether the member supports this protocol."""
        return any(name == protocol for name, _ in self.protocols)

    def to_json(self, protocol: str | None) -> dict[str, Any]:
        """The member for the journal: only with the protocol that the group chose, as in Kafka."""
        return {
            "member_id": self.member_id,
            "group_instance_id": self.group_instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "session_timeout_ms": self.session_timeout_ms,
            "subscription": base64.b64encode(self.metadata(protocol)).decode(),
            "assignment": base64.b64encode(self.assignment).decode(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], protocol: str) -> Member:
        """The member from the journal."""
        return cls(
            member_id=value["member_id"],
            group_instance_id=value["group_instance_id"],
            client_id=value["client_id"],
            client_host=value["client_host"],
            rebalance_timeout_ms=value["rebalance_timeout_ms"],
            session_timeout_ms=value["session_timeout_ms"],
            protocols=((protocol, base64.b64decode(value["subscription"])),),
            assignment=base64.b64decode(value["assignment"]),
        )


def protocols_of(request: Any) -> Protocols:
    """The protocols of a JoinGroupRequest."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def rebalance_timeout_ms_of(call: Call) -> int:
    """The rebalance timeout of a JoinGroupRequest; v0 has only a session timeout."""
    request = call.request
    timeout: int = request.session_timeout_ms if call.version == 0 else request.rebalance_timeout_ms
    return timeout


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics of a ConsumerProtocolSubscription of any version. Raises ValueError if it is none.

    All versions begin as v0 does, with the version and the topics; the rest is not read.
    """
    try:
        _, count = struct.unpack_from(">hi", metadata)
        position, topics = 6, []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", metadata, position)
            position += 2 + size
            if size < 0 or position > len(metadata):
                raise ValueError("a topic's name does not fit the subscription")
            topics.append(metadata[position - size : position].decode())
    except struct.error as error:
        raise ValueError(f"no consumer subscription: {error}") from None
    return topics
