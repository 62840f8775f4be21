"""The messages of the consumer rebalance protocol (KIP-848), which kafka-python does not have.

ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69), versions 0 and 1, as kafka-python's
`ApiMessage` classes: build, encode and decode them like its own.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

from aktor.kafka_python import quiet

__all__ = [
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "JOIN_GROUP_MEMBER_EPOCH",
    "LEAVE_GROUP_MEMBER_EPOCH",
    "LEAVE_GROUP_STATIC_MEMBER_EPOCH",
]

#: The member epochs that say something else than the epoch.
JOIN_GROUP_MEMBER_EPOCH: Final = 0
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2


def _message(name: str) -> Any:
    """The class of a message whose layout is in `schemas`, under its name."""
    make: Any = type(ApiMessage)
    body = {"__module__": __name__, "__qualname__": name}
    with quiet():
        return make(name, (ApiMessage,), body, load_json=f"{__package__}.schemas")


ConsumerGroupHeartbeatRequest: Any = _message("ConsumerGroupHeartbeatRequest")
ConsumerGroupHeartbeatResponse: Any = _message("ConsumerGroupHeartbeatResponse")
ConsumerGroupDescribeRequest: Any = _message("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse: Any = _message("ConsumerGroupDescribeResponse")
