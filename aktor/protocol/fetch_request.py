"""A Fetch request in bytes, versions 4 to 18.

kafka-python would generate the code for it when it is first used (2.5 ms, before the first record
of a process), and needs twice as long for each request, of which an idle consumer sends two a
second.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from aktor.protocol.fetch import MAX_BY_NAME, MAX_VERSION, MIN_VERSION

__all__ = ["write_fetch_request"]

#: Replica id, how long to wait, least and most bytes, isolation level; since v7 the session, too.
_TOP_V4: Final = struct.Struct(">iiiib")
_TOP: Final = struct.Struct(">iiiibii")
#: Since v15 a follower says in a tagged field who it is (KIP-903).
_TOP_V15: Final = struct.Struct(">iiibii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

#: What is asked of one partition: its number, offsets and epochs, most bytes. By version.
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")

_SESSIONS, _LEADER_EPOCHS, _RACKS, _FLEXIBLE, _REPLICA_STATE = 7, 9, 11, 12, 15

#: No tagged fields follow (KIP-482): all that there are for followers alone (ReplicaState, v15;
#: ReplicaDirectoryId, v17; HighWatermark, v18).
_NO_TAGS: Final = b"\0"


def write_fetch_request(body: Any, version: int) -> bytes:
    """The body of a consumer's Fetch request: `body` is kafka-python's, of which nothing else is
    used. From v13 on topics are named by their ids, which must all be there (KIP-516)."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ValueError(f"Fetch v{version} is not one of v{MIN_VERSION} to v{MAX_VERSION}")
    flexible = version >= _FLEXIBLE
    tags = _NO_TAGS if flexible else b""
    parts = [_top(body, version), _count(body.topics, flexible)]
    for topic in body.topics:
        parts += (_name(topic, version), _count(topic.partitions, flexible))
        parts += [_partition(partition, version) + tags for partition in topic.partitions]
        parts.append(tags)
    if version >= _SESSIONS:
        parts.append(_count(body.forgotten_topics_data, flexible))
        for topic in body.forgotten_topics_data:
            numbers = topic.partitions
            parts += (_name(topic, version), _count(numbers, flexible))
            parts += (struct.pack(f">{len(numbers)}i", *numbers), tags)
    if version >= _RACKS:
        parts.append(_string(body.rack_id, flexible))
    parts.append(tags)
    return b"".join(parts)


def _top(body: Any, version: int) -> bytes:
    fixed = (body.replica_id, body.max_wait_ms, body.min_bytes, body.max_bytes)
    if version < _SESSIONS:
        return _TOP_V4.pack(*fixed, body.isolation_level)
    session = (body.isolation_level, body.session_id, body.session_epoch)
    if version >= _REPLICA_STATE:
        return _TOP_V15.pack(*fixed[1:], *session)
    return _TOP.pack(*fixed, *session)


def _name(topic: Any, version: int) -> bytes:
    if version > MAX_BY_NAME:
        return bytes(topic.topic_id.bytes)
    return _string(topic.topic, version >= _FLEXIBLE)


def _partition(wanted: Any, version: int) -> bytes:
    start, most = wanted.log_start_offset, wanted.partition_max_bytes
    if version >= _FLEXIBLE:
        epochs = wanted.current_leader_epoch, wanted.last_fetched_epoch
        return _PARTITION_V12.pack(
            wanted.partition, epochs[0], wanted.fetch_offset, epochs[1], start, most
        )
    if version >= _LEADER_EPOCHS:
        epoch = wanted.current_leader_epoch
        return _PARTITION_V9.pack(wanted.partition, epoch, wanted.fetch_offset, start, most)
    if version > MIN_VERSION:
        return _PARTITION_V5.pack(wanted.partition, wanted.fetch_offset, start, most)
    return _PARTITION_V4.pack(wanted.partition, wanted.fetch_offset, most)


def _count(elements: Sequence[Any], flexible: bool) -> bytes:
    return _varint(len(elements) + 1) if flexible else _INT32.pack(len(elements))


def _string(text: str, flexible: bool) -> bytes:
    data = text.encode()
    return (_varint(len(data) + 1) if flexible else _INT16.pack(len(data))) + data


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
