"""The answer to a Fetch, read in place: the records stay where the socket put them.

kafka-python's own parser copies them, twice; here a partition's records are a view of the
response. Up to version 12 topics are named by name, from 13 on by id (KIP-516).
"""

from __future__ import annotations

import struct
from dataclasses import field
from typing import Final

from aktor.values import Value

__all__ = ["FetchResponse", "FetchedPartition", "NodeEndpoint", "parse_fetch_response"]

#: The versions that know isolation levels.
MIN_VERSION: Final = 4
MAX_VERSION: Final = 18

#: The last version that names topics by name.
MAX_BY_NAME: Final = 12

#: Compact lengths and tagged fields (KIP-482).
_FLEXIBLE: Final = 12

#: The bytes of a topic id.
_ID: Final = 16

#: From this version on the answer may say where the leaders are that its partitions name (KIP-951),
#: in a tagged field.
_NAMES_LEADERS: Final = 16
_NODE_ENDPOINTS: Final = 0

#: Tags of a partition (v12): what is known of diverging logs, leaders and snapshots.
_DIVERGING_EPOCH: Final = 0
_CURRENT_LEADER: Final = 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
#: throttle time; from v7 also error code and session id (KIP-227)
_THROTTLE = _INT32
_TOP = struct.Struct(">ihi")
#: partition, error code, high watermark, last stable offset; from v5 also log start offset
_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION = struct.Struct(">ihqqq")
#: producer id, first offset
_ABORTED = struct.Struct(">qq")
_EPOCH_AND_END = struct.Struct(">iq")
_LEADER_AND_EPOCH = struct.Struct(">ii")


class FetchedPartition(Value):
    """What the broker says of one partition.

    `topic` is its name, or from v13 on the 16 bytes of its id.
    `records` is a view of the response: whole record batches, the last one maybe cut off.
    `aborted` is ((producer id, first offset), ...). `diverging_epoch` is (epoch, its end offset)
    and `current_leader` (leader id, leader epoch), None where the broker does not say (KIP-595,
    KIP-951). Offsets and `preferred_read_replica` are -1 where it does not.
    """

    topic: str | bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    diverging_epoch: tuple[int, int] | None
    current_leader: tuple[int, int] | None
    preferred_read_replica: int
    records: memoryview = field(repr=False)


class NodeEndpoint(Value):
    """Where a broker is reached (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class FetchResponse(Value):
    """A whole answer; `error_code` and `session_id` are 0 before v7.

    `node_endpoints` are those of the leaders that partitions name as theirs (v16, KIP-951).
    """

    throttle_time_ms: int
    error_code: int
    session_id: int
    partitions: tuple[FetchedPartition, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def parse_fetch_response(body: memoryview, version: int) -> FetchResponse:
    """Read the body of a Fetch response, what follows its header.

    Raises ValueError if it is not a sound response of this version: cut off, longer than it
    says, or with a length that cannot be. Nothing is allocated on the word of such a length.
    """
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ValueError(f"Fetch v{version} is not one of v{MIN_VERSION} to v{MAX_VERSION}")
    try:
        return _Parser(memoryview(body), version).response()
    except (struct.error, IndexError):
        raise ValueError(f"a Fetch v{version} response of {len(body)} bytes is cut off") from None


class _Parser:
    """Owns how far the body has been read."""

    __slots__ = ("at", "body", "by_id", "flexible", "size", "version")

    def __init__(self, body: memoryview, version: int) -> None:
        self.body = body
        self.size = len(body)
        self.at = 0
        self.version = version
        self.flexible = version >= _FLEXIBLE
        self.by_id = version > MAX_BY_NAME

    def response(self) -> FetchResponse:
        error_code = session_id = 0
        if self.version >= 7:
            throttle, error_code, session_id = _TOP.unpack_from(self.body, 0)
            self.at = _TOP.size
        else:
            (throttle,) = _THROTTLE.unpack_from(self.body, 0)
            self.at = _THROTTLE.size
        partitions: list[FetchedPartition] = []
        smallest = 3 if self.flexible else 6  # an empty name, no partitions, no tags
        if self.by_id:
            smallest = _ID + 2
        for _ in range(self._count(smallest)):
            self._topic(partitions)
        endpoints = self._response_tags() if self.flexible else ()
        if self.at != self.size:
            raise ValueError(f"{self.size - self.at} bytes after the end of a Fetch response")
        return FetchResponse(
            throttle_time_ms=throttle,
            error_code=error_code,
            session_id=session_id,
            partitions=tuple(partitions),
            node_endpoints=endpoints,
        )

    def _topic(self, partitions: list[FetchedPartition]) -> None:
        topic: str | bytes
        if self.by_id:
            topic = bytes(self._bytes(_ID))
        else:
            topic = str(self._bytes(self._length(_INT16)), "utf-8")
        # Fixed fields, then two lengths (aborted, records), and what the version adds.
        smallest = 30 if self.version == 4 else 38
        if self.flexible:
            smallest = 37
        elif self.version == 11:
            smallest = 42
        for _ in range(self._count(smallest)):
            partitions.append(self._partition(topic))
        if self.flexible:
            self._skip_tags()

    def _partition(self, topic: str | bytes) -> FetchedPartition:
        log_start = -1
        if self.version >= 5:
            fixed = _PARTITION.unpack_from(self.body, self.at)
            index, error_code, high_watermark, last_stable, log_start = fixed
            self.at += _PARTITION.size
        else:
            fixed = _PARTITION_V4.unpack_from(self.body, self.at)
            index, error_code, high_watermark, last_stable = fixed
            self.at += _PARTITION_V4.size
        aborted = self._aborted()
        replica = -1
        if self.version >= 11:
            (replica,) = _INT32.unpack_from(self.body, self.at)
            self.at += _INT32.size
        records = self._bytes(self._length(_INT32, nullable=True))
        diverging, leader = self._partition_tags() if self.flexible else (None, None)
        return FetchedPartition(
            topic=topic,
            partition=index,
            error_code=error_code,
            high_watermark=high_watermark,
            last_stable_offset=last_stable,
            log_start_offset=log_start,
            aborted=aborted,
            diverging_epoch=diverging,
            current_leader=leader,
            preferred_read_replica=replica,
            records=records,
        )

    def _aborted(self) -> tuple[tuple[int, int], ...]:
        count = self._count(_ABORTED.size + self.flexible, nullable=True)
        if not count:
            return ()
        aborted = []
        for _ in range(count):
            aborted.append(_ABORTED.unpack_from(self.body, self.at))
            self.at += _ABORTED.size
            if self.flexible:
                self._skip_tags()
        return tuple(aborted)

    def _partition_tags(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        diverging = leader = None
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            value = self._bytes(size)
            # A later version of the protocol may append to these: what follows is not read.
            if tag == _DIVERGING_EPOCH:
                diverging = _EPOCH_AND_END.unpack_from(value)
            elif tag == _CURRENT_LEADER:
                leader = _LEADER_AND_EPOCH.unpack_from(value)
        return diverging, leader

    def _response_tags(self) -> tuple[NodeEndpoint, ...]:
        endpoints: tuple[NodeEndpoint, ...] = ()
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            if tag != _NODE_ENDPOINTS or self.version < _NAMES_LEADERS:
                self._bytes(size)
                continue
            end = self.at + size
            endpoints = self._node_endpoints()
            if self.at > end:
                raise ValueError(f"a tagged field of {size} bytes has {self.at - end} more")
            self.at = end  # what a later version of the protocol appends is not read
        return endpoints

    def _node_endpoints(self) -> tuple[NodeEndpoint, ...]:
        endpoints = []
        for _ in range(self._count(11)):  # id, an empty host, port, no rack, no tags
            (node_id,) = _INT32.unpack_from(self.body, self.at)
            self.at += _INT32.size
            host = self._text()
            (port,) = _INT32.unpack_from(self.body, self.at)
            self.at += _INT32.size
            rack = self._text(nullable=True) or None
            self._skip_tags()
            endpoints.append(NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack))
        return tuple(endpoints)

    def _skip_tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            self._bytes(self._varint())

    # -- lengths

    def _count(self, smallest: int, *, nullable: bool = False) -> int:
        """How many elements an array has; at least `smallest` bytes each must be there."""
        count = self._length(_INT32, nullable=nullable)
        if count * smallest > self.size - self.at:
            raise ValueError(f"{count} elements in {self.size - self.at} bytes")
        return count

    def _length(self, plain: struct.Struct, *, nullable: bool = False) -> int:
        """A length, compact or of the `plain` kind; null counts as 0 where it may be null."""
        if self.flexible:
            length = self._varint() - 1
        else:
            (length,) = plain.unpack_from(self.body, self.at)
            self.at += plain.size
        if length >= 0:
            return length
        if length == -1 and nullable:
            return 0
        raise ValueError(f"a length of {length} at byte {self.at}")

    def _varint(self) -> int:
        """An unsigned variable-length integer, of 32 bits and five bytes at most."""
        body, at = self.body, self.at
        byte = body[at]
        at += 1
        value = byte & 0x7F
        shift = 7
        while byte & 0x80:
            if shift > 28:
                raise ValueError(f"a length of more than five bytes at byte {at}")
            byte = body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        self.at = at
        return value

    def _text(self, *, nullable: bool = False) -> str:
        return str(self._bytes(self._length(_INT16, nullable=nullable)), "utf-8")

    def _bytes(self, length: int) -> memoryview:
        start = self.at
        if length > self.size - start:
            raise ValueError(f"{length} bytes announced, {self.size - start} left")
        self.at = start + length
        return self.body[start : self.at]
