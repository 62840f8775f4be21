"""Questions to one broker: who is in the cluster, who coordinates a group, and does this one.

Asked over a plain socket, so that the answer is what this one broker knows: a client library would
ask whichever broker it likes, and log every connection that a starting broker refuses.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

METADATA, OFFSET_FETCH, FIND_COORDINATOR = 3, 9, 10
#: A broker that is down refuses at once; one that is up may stand still for seconds.
ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition as one broker sees it. `leader` is -1 while there is none."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What one broker knows: the brokers that are up, by id, and all partitions."""

    brokers: dict[int, str]
    partitions: tuple[Partition, ...]

    def of_topic(self, topic: str) -> list[Partition]:
        """The partitions of `topic` in order; empty if this broker doesn't know the topic."""
        return sorted((p for p in self.partitions if p.topic == topic), key=lambda p: p.index)


def ask_metadata(address: str) -> ClusterView:
    """What the broker at the PLAINTEXT `address` knows. Raises OSError if it doesn't answer."""
    # Version 1 is the oldest where -1 means all topics, and the simplest.
    answer = _ask(address, METADATA, 1, struct.pack(">i", -1))
    brokers = {}
    for _ in range(answer.int32()):
        node_id, host, port = answer.int32(), answer.string(), answer.int32()
        answer.string()  # rack
        brokers[node_id] = f"{host}:{port}"
    answer.int32()  # controller
    partitions: list[Partition] = []
    for _ in range(answer.int32()):
        answer.int16()  # error
        topic = answer.string()
        answer.int8()  # internal
        partitions.extend(_partition(answer, topic) for _ in range(answer.int32()))
    return ClusterView(brokers=brokers, partitions=tuple(partitions))


def ask_coordinator(address: str, group: str) -> int | None:
    """Node id of the coordinator of `group`; None while the cluster has none. Raises OSError."""
    name = group.encode()
    answer = _ask(address, FIND_COORDINATOR, 1, struct.pack(">h", len(name)) + name + b"\x00")
    answer.int32()  # throttle
    error = answer.int16()
    answer.string()  # error message
    return answer.int32() if error == 0 else None


def coordinates(address: str, group: str, timeout: float) -> bool:
    """Whether this broker is at work as the coordinator of `group`: it tells the group's commits.
    Raises OSError if it doesn't answer within `timeout` seconds."""
    name = group.encode()
    everything = struct.pack(">i", -1)
    body = struct.pack(">h", len(name)) + name + everything
    answer = _ask(address, OFFSET_FETCH, 2, body, timeout)
    answer.at = len(answer.data) - 2  # behind the offsets
    return answer.int16() == 0


def _partition(answer: _Answer, topic: str) -> Partition:
    answer.int16()  # error: no leader, or a replica is down; the fields below tell the same
    return Partition(
        topic=topic,
        index=answer.int32(),
        leader=answer.int32(),
        replicas=answer.int32s(),
        isr=answer.int32s(),
    )


def _ask(
    address: str, api_key: int, version: int, body: bytes, timeout: float = ANSWER_TIMEOUT_S
) -> _Answer:
    host, port = address.rsplit(":", 1)
    client = b"tests"
    header = struct.pack(">hhih", api_key, version, 1, len(client)) + client
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            expected = struct.unpack(">i", size)[0] if len(size) == 4 else 4
            answer = stream.read(expected)
    if len(answer) < expected:
        raise ConnectionError(f"{address} closed the connection instead of answering")
    return _Answer(answer, at=4)  # behind the correlation id


@dataclass(slots=True)
class _Answer:
    """A cursor over the fields of a response."""

    data: bytes
    at: int = field(kw_only=True)

    def int8(self) -> int:
        return self._number(1)

    def int16(self) -> int:
        return self._number(2)

    def int32(self) -> int:
        return self._number(4)

    def int32s(self) -> tuple[int, ...]:
        return tuple(self.int32() for _ in range(self.int32()))

    def string(self) -> str:
        length = max(self.int16(), 0)
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def _number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "big", signed=True)
