"""Makes kafka-python generate the encoders and decoders of messages before their first use.

Otherwise kafka-python generates the code of a message at its first use, which takes 1 to 2 ms for
an encoder and as long for a decoder. The code that a consumer needs before its first record is
generated while the consumer waits for the answers to its first requests. The rest is generated when
nothing has happened for a while, so that a member does not generate it between two steps of a
rebalance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from aktor.protocol.group_protocols import joins
from aktor.settings import Settings

__all__ = ["Codecs"]

#: Messages, each with the newest version that a consumer uses.
_Used: TypeAlias = tuple[tuple[Any, int], ...]


class Codecs:
    """Owns the list of the encoders and decoders that are not generated yet: `soon`, whenever there
    is nothing else to do; `later`, only when nothing has happened for a while. One call generates
    one of them."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()
        self.later: deque[Callable[[], None]] = deque()

    def plan(self, versions: BrokerVersionData, settings: Settings) -> None:
        """Plan the code that a consumer of these settings needs for a broker of these versions."""
        self.soon = _calls(needed_soon(settings), versions)
        self.later = _calls(needed_later(settings), versions)

    def write_soon(self) -> None:
        """Write the next part of what is needed soon."""
        self.soon.popleft()()

    def write_all(self) -> None:
        """Write all that is not written yet."""
        while self.soon:
            self.write_soon()
        while self.later:
            self.write_later()

    def write_later(self) -> None:
        """Write the next part of the rest."""
        self.later.popleft()()


def needed_soon(settings: Settings) -> _Used:
    """The requests that are sent before the first record, in this order."""
    metadata = (MetadataRequest, MetadataRequest.max_version)
    # ListOffsets only if there is no committed offset. (Fetch needs no code: see protocol/fetch*.)
    offsets = (ListOffsetsRequest, 11)
    if settings.group_id is None:
        return (metadata, offsets)
    joining: _Used
    if joins(settings.group_protocol):
        joining = ((JoinGroupRequest, 9), (SyncGroupRequest, 5), (OffsetFetchRequest, 10))
    else:
        from aktor.protocol.consumer_group import ConsumerGroupHeartbeatRequest

        joining = ((ConsumerGroupHeartbeatRequest, 1), (OffsetFetchRequest, 10))
    return ((FindCoordinatorRequest, 6), metadata, *joining, offsets)


def needed_later(settings: Settings) -> _Used:
    """The requests that a member sends after its first record."""
    if settings.group_id is None:
        return ()
    if joins(settings.group_protocol):
        return ((HeartbeatRequest, 4), (OffsetCommitRequest, 10), (LeaveGroupRequest, 5))
    return ((OffsetCommitRequest, 10),)


def _calls(used: _Used, versions: BrokerVersionData) -> deque[Callable[[], None]]:
    calls: deque[Callable[[], None]] = deque()
    for request, newest in used:
        try:
            version = min(versions.api_version(request), newest)
        except IncompatibleBrokerVersion:
            continue
        calls.append(partial(_write_encoder, request, version))
        calls.append(partial(_write_decoder, request, version))
    return calls


def _write_encoder(request: Any, version: int) -> None:
    flexible = request.flexible_version_q(version)
    request._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)


def _write_decoder(request: Any, version: int) -> None:
    flexible = request.flexible_version_q(version)
    response: Any = ResponseClassRegistry._response_class_registry.get(request.API_KEY)
    response._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=response[None]
    )
