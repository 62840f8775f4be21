"""The metadata of consumers in JoinGroup and SyncGroup: ConsumerProtocolSubscription and
ConsumerProtocolAssignment.

The broker of a classic group passes it on, and reads only its topics. A broker that takes classic
members into a consumer group (KIP-848) must read all of it. Later versions only add fields at the
end, so that an unknown version is read like the latest known one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aktor.broker.groups.consumer.assignors import MemberAssignment
from aktor.broker.groups.topics_view import TopicsView

__all__ = [
    "Given",
    "Subscription",
    "read_assignment",
    "read_subscription",
    "version_of",
    "write_assignment",
]

_LAST_VERSION: Final = 3
#: The versions from which on a subscription has these.
_WITH_OWNED: Final = 1
_WITH_GENERATION: Final = 2
_WITH_RACK: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants and has, topics by name. `rack_id` is None if it does not say."""

    topics: tuple[str, ...]
    owned: Mapping[str, tuple[int, ...]]
    rack_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the leader gave to a member. `user_data` is the assignor's own, b"" without."""

    partitions: Mapping[str, tuple[int, ...]]
    user_data: bytes


def read_subscription(data: bytes) -> Subscription:
    """A ConsumerProtocolSubscription of any version. Raises ValueError if it is none."""
    reader = _Reader(data)
    version = reader.version()
    topics = tuple(reader.text() for _ in range(reader.count()))
    reader.nullable_bytes()
    owned = reader.partitions() if version >= _WITH_OWNED else {}
    if version >= _WITH_GENERATION:
        reader.take(4)
    rack_id = reader.nullable_text() if version >= _WITH_RACK else None
    return Subscription(topics=topics, owned=owned, rack_id=rack_id or None)


def version_of(subscription: bytes) -> int:
    """The version in which its sender understands assignments; 0 if it does not say."""
    try:
        return _Reader(subscription).version()
    except ValueError:
        return 0


def read_assignment(data: bytes) -> Given:
    """A ConsumerProtocolAssignment of any version. Raises ValueError if it is none."""
    reader = _Reader(data)
    reader.version()
    return Given(partitions=reader.partitions(), user_data=reader.nullable_bytes() or b"")


def write_assignment(assignment: MemberAssignment, topics: TopicsView, *, version: int) -> bytes:
    """A ConsumerProtocolAssignment of those topics that are there."""
    named = {
        name: partitions
        for topic_id, partitions in assignment.items()
        if (name := topics.name(topic_id)) is not None
    }
    written = struct.pack(">hi", version, len(named))
    for topic, partitions in named.items():
        encoded = topic.encode()
        written += struct.pack(">h", len(encoded)) + encoded
        written += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return written + struct.pack(">i", -1)


class _Reader:
    """Takes one field after the other off the bytes. Raises ValueError where they end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        begin, end = self._position, self._position + size
        if size < 0 or end > len(self._data):
            raise ValueError(f"a field of {size} bytes at {begin} does not fit {len(self._data)}")
        self._position = end
        return self._data[begin:end]

    def _int16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def _int32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def version(self) -> int:
        version = self._int16()
        if version < 0:
            raise ValueError(f"version {version}")
        return min(version, _LAST_VERSION)

    def count(self) -> int:
        count = self._int32()
        if not 0 <= count <= len(self._data):
            raise ValueError(f"an array of {count}")
        return count

    def text(self) -> str:
        return self.take(self._int16()).decode()

    def nullable_text(self) -> str | None:
        size = self._int16()
        return None if size == -1 else self.take(size).decode()

    def nullable_bytes(self) -> bytes | None:
        size = self._int32()
        return None if size == -1 else self.take(size)

    def partitions(self) -> dict[str, tuple[int, ...]]:
        return {
            self.text(): tuple(self._int32() for _ in range(self.count()))
            for _ in range(self.count())
        }
