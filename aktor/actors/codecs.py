"""kafka-python writes the code of a message at its first use; here it is asked to do so in advance.

Writing it takes 2 to 5 ms a message, which a member that joins would pay between two steps of a
rebalance, while nobody reads the partitions on their way to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

__all__ = ["codecs_to_write"]

#: In the order in which a member needs them, with the newest version that it uses.
USED: Final[tuple[tuple[Any, int], ...]] = (
    (JoinGroupRequest, 9),
    (SyncGroupRequest, 5),
    (OffsetFetchRequest, 8),
    (ListOffsetsRequest, 11),
    (FetchRequest, 12),
    (HeartbeatRequest, 4),
    (OffsetCommitRequest, 8),
    (LeaveGroupRequest, 5),
)


def codecs_to_write(versions: BrokerVersionData) -> deque[Callable[[], None]]:
    """One call for each message that a broker of these versions will be sent."""
    calls: deque[Callable[[], None]] = deque()
    for request, newest in USED:
        try:
            version = min(versions.api_version(request), newest)
        except IncompatibleBrokerVersion:
            continue
        calls.append(partial(_write, request, version))
    return calls


def _write(request: Any, version: int) -> None:
    flexible = request.flexible_version_q(version)
    request._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
    response: Any = ResponseClassRegistry._response_class_registry.get(request.API_KEY)
    if request is not FetchRequest:  # its answers are parsed in place, by our own code
        response._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=response[None]
        )
