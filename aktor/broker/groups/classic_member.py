"""One member of a classic group: what it said when joining, what it got, what it waits for."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, replace
from typing import Any

from aktor.broker.call import Call

__all__ = ["Member", "Protocols", "protocols_of", "rebalance_timeout_ms_of", "subscribed_topics"]

#: Names and metadata of what a member can do, the dearest first.
Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class Member:
    """A member. `group_instance_id` is None for a dynamic one. Timeouts as the client sent them.

    `is_new` from its first join until a generation begins: as long, it cannot send heartbeats.
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
        """Seconds without a sign of life after which it is gone."""
        return self.session_timeout_ms / 1000

    @property
    def keeps_session(self) -> bool:
        """Whether it lives without heartbeats, as it waits for an answer of ours.

        A new one does not: whether its client is still there can't be seen (KAFKA-7610).
        """
        return not self.is_new and (self.join_call is not None or self.sync_call is not None)

    def renamed(self, member_id: str) -> Member:
        """The same member under another id, waiting for nothing."""
        return replace(self, member_id=member_id, join_call=None, sync_call=None, is_new=False)

    def metadata(self, protocol: str | None) -> bytes:
        """What it said about itself in terms of a protocol; b"" if it does not know it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def supports(self, protocol: str) -> bool:
        """Whether it can take part in a group with this protocol."""
        return any(name == protocol for name, _ in self.protocols)

    def to_json(self, protocol: str | None) -> dict[str, Any]:
        """What is kept of it: of its protocols only the one the group has chosen, as in Kafka."""
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
        """The member as it was kept."""
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
    """How long to wait for the sender of a JoinGroupRequest; v0 has but a session timeout."""
    request = call.request
    timeout: int = request.session_timeout_ms if call.version == 0 else request.rebalance_timeout_ms
    return timeout


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics of a ConsumerProtocolSubscription, any version. Raises ValueError if it is none.

    All versions begin as v0 does: the version, then the topics; the rest is of no concern.
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
