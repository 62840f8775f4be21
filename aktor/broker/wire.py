"""Frames to requests, answers to frames; and the table of what the broker speaks.

The only module of the broker that knows how kafka-python reads and writes messages.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from kafka.protocol import admin, consumer, metadata, producer, sasl

from aktor.broker.codes import Code
from aktor.protocol import consumer_group

__all__ = ["APIS", "Api", "BadFrameError", "Incoming", "read_request", "write_response"]

#: The least and the greatest version of each API, as Apache Kafka 4.3 has them; and its module.
_RANGES: Final = (
    ("Produce", 0, 13, producer),
    ("Fetch", 4, 18, consumer),
    ("ListOffsets", 1, 11, consumer),
    ("Metadata", 0, 13, metadata),
    ("OffsetCommit", 2, 10, consumer),
    ("OffsetFetch", 1, 10, consumer),
    ("FindCoordinator", 0, 6, metadata),
    ("JoinGroup", 0, 9, consumer),
    ("Heartbeat", 0, 4, consumer),
    ("LeaveGroup", 0, 5, consumer),
    ("SyncGroup", 0, 5, consumer),
    ("DescribeGroups", 0, 6, admin),
    ("ListGroups", 0, 5, admin),
    ("SaslHandshake", 0, 1, sasl),
    ("ApiVersions", 0, 4, metadata),
    ("CreateTopics", 2, 7, admin),
    ("DeleteTopics", 1, 6, admin),
    ("DeleteRecords", 0, 2, admin),
    ("InitProducerId", 0, 5, producer),
    ("OffsetForLeaderEpoch", 2, 4, consumer),
    ("AddPartitionsToTxn", 0, 5, producer),
    ("AddOffsetsToTxn", 0, 4, producer),
    ("EndTxn", 0, 5, producer),
    ("TxnOffsetCommit", 0, 5, producer),
    ("WriteTxnMarkers", 1, 2, producer),
    ("DescribeAcls", 1, 3, admin),
    ("CreateAcls", 1, 3, admin),
    ("DeleteAcls", 1, 3, admin),
    ("DescribeConfigs", 1, 4, admin),
    ("AlterConfigs", 0, 2, admin),
    ("DescribeLogDirs", 1, 5, admin),
    ("SaslAuthenticate", 0, 2, sasl),
    ("CreatePartitions", 0, 3, admin),
    ("DeleteGroups", 0, 2, admin),
    ("ElectLeaders", 0, 2, admin),
    ("IncrementalAlterConfigs", 0, 1, admin),
    ("AlterPartitionReassignments", 0, 1, admin),
    ("ListPartitionReassignments", 0, 0, admin),
    ("OffsetDelete", 0, 0, consumer),
    ("DescribeClientQuotas", 0, 1, admin),
    ("DescribeUserScramCredentials", 0, 0, admin),
    ("DescribeCluster", 0, 2, admin),
    ("DescribeProducers", 0, 0, admin),
    ("DescribeTransactions", 0, 0, admin),
    ("ListTransactions", 0, 2, admin),
    ("ConsumerGroupHeartbeat", 0, 1, consumer_group),
    ("ConsumerGroupDescribe", 0, 1, consumer_group),
    ("ListConfigResources", 0, 1, admin),
    ("DescribeTopicPartitions", 0, 0, admin),
)

#: Produce is said to be spoken from version 0 on, since old librdkafka insists; it is not.
_LEAST_PRODUCE: Final = 3

_PRODUCE: Final = 0
_API_VERSIONS: Final = 18
#: Types whose values begin with a length, which below zero stands for null.
_HAVE_LENGTHS: Final = ("string", "bytes", "records")
#: API key, version, correlation id, length of the client id
_HEADER: Final = struct.Struct(">hhih")
#: Length, correlation id.
_RESPONSE_HEADER: Final = struct.Struct(">ii")
#: What ends a flexible header (KIP-482).
_NO_TAGS: Final = b"\0"


class BadFrameError(Exception):
    """No request of a known API and version: the connection is of no further use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API: its key, its versions, and kafka-python's classes for its two messages."""

    key: int
    name: str
    min_version: int
    max_version: int
    request: Any = field(repr=False)
    response: Any = field(repr=False)


def _table() -> dict[int, Api]:
    apis = (
        Api(
            key=getattr(module, f"{name}Request").API_KEY,
            name=name,
            min_version=least,
            max_version=greatest,
            request=getattr(module, f"{name}Request"),
            response=getattr(module, f"{name}Response"),
        )
        for name, least, greatest, module in _RANGES
    )
    return {api.key: api for api in sorted(apis, key=lambda api: api.key)}


#: All that the broker speaks, by API key, in the order of keys.
APIS: Final = _table()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request as it was read. `request` is None if ApiVersions was asked in an unknown version,
    which is answered in version 0 (KIP-511)."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    request: Any


def read_request(frame: memoryview) -> Incoming:
    """Read what follows the length of a frame. Raises BadFrameError for all that is no request."""
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
    except struct.error:
        raise BadFrameError(f"{len(frame)} bytes are too short for a request") from None
    api = APIS.get(key)
    if api is None:
        raise BadFrameError(f"there is no API with key {key}")
    client_id, position = _client_id(frame, length)
    least = _LEAST_PRODUCE if key == _PRODUCE else api.min_version
    if not least <= version <= api.max_version:
        if key != _API_VERSIONS:
            raise BadFrameError(
                f"{api.name} v{version} is not one of v{least} to v{api.max_version}"
            )
        return Incoming(
            api=api, version=0, correlation_id=correlation_id, client_id=client_id, request=None
        )
    try:
        request = _body(api, version, frame, position)
    except Exception as error:
        # The decoder was made for well-formed bytes: it raises whatever it trips over.
        raise BadFrameError(f"{api.name} v{version} cannot be read: {error!r}") from None
    return Incoming(
        api=api,
        version=version,
        correlation_id=correlation_id,
        client_id=client_id,
        request=request,
    )


def _client_id(frame: memoryview, length: int) -> tuple[str, int]:
    end = _HEADER.size + max(length, 0)
    if end > len(frame):
        raise BadFrameError(f"a client id of {length} bytes does not fit the request")
    try:
        return str(frame[_HEADER.size : end], "utf-8"), end
    except UnicodeDecodeError:
        raise BadFrameError("the client id is not UTF-8") from None


def _body(api: Api, version: int, frame: memoryview, position: int) -> Any:
    flexible = api.request.flexible_version_q(version)
    if flexible:
        position = _after_tags(frame, position)
    body = frame[position:]
    # `decode` would not say where it ended, which is how a cut-off string is noticed.
    decode = api.request._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=api.request
    )
    request, end = decode(body, 0)
    if end > len(body):
        raise BadFrameError(f"{end - len(body)} bytes are missing at its end")
    _check_nulls(request, _never_null(api.request, version))
    return request


@dataclass(frozen=True, slots=True)
class _NeverNull:
    """A field of a message. `itself`: it may not be null; `inside`: the fields of its items that
    may not be null."""

    name: str
    itself: bool
    array: bool
    inside: tuple[_NeverNull, ...]


@cache
def _never_null(message: Any, version: int) -> tuple[_NeverNull, ...]:
    found = []
    for name, field_ in message.fields.items():
        if not field_.for_version_q(version) or field_.tagged_field_q(version):
            continue
        array = field_.is_array() or field_.is_struct_array()
        inner = field_.is_struct() or field_.is_struct_array()
        inside = _never_null(field_.data_class, version) if inner else ()
        itself = not field_.nullable_for_version_q(version)
        if inside or (itself and (array or field_.type_str in _HAVE_LENGTHS)):
            found.append(_NeverNull(name, itself, array, inside))
    return tuple(found)


def _check_nulls(message: Any, fields: tuple[_NeverNull, ...]) -> None:
    """The decoder takes a length below zero for a null anywhere; Kafka does not."""
    for rule in fields:
        value = getattr(message, rule.name)
        if value is None:
            if rule.itself:
                raise BadFrameError(f"{rule.name} may not be null")
        elif not rule.array:
            _check_nulls(value, rule.inside)
        elif rule.inside:
            for item in value:
                _check_nulls(item, rule.inside)
        elif None in value:
            raise BadFrameError(f"nothing in {rule.name} may be null")


def _after_tags(frame: memoryview, position: int) -> int:
    """Where the tagged fields of a request header end (KIP-482); none is known, all are skipped."""
    count, position = _varint(frame, position)
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
    return position


def _varint(frame: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise BadFrameError("a length of more than five bytes")


def write_response(api: Api, version: int, correlation_id: int, response: Any) -> bytes:
    """The frame, with its length, that answers a request of this API in this version."""
    if api.key == _API_VERSIONS and response.error_code == Code.UNSUPPORTED_VERSION:
        version = 0  # the only version that every client can read (KIP-511)
    body: bytes = response.encode(version)
    # The header of ApiVersions has no tags in any version (KIP-511).
    flexible = api.response.flexible_version_q(version) and api.key != _API_VERSIONS
    tags = _NO_TAGS if flexible else b""
    head = _RESPONSE_HEADER.pack(4 + len(tags) + len(body), correlation_id)
    return b"".join((head, tags, body))
