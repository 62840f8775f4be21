"""A client that sends the bytes it is told to, and shows what comes back."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from aktor.broker.wire import APIS
from tests.kafka.recorded.messages import request
from tests.unit.broker.log.building import a_batch

#: Longer than anything here takes; whoever waits so long has waited for nothing.
PATIENCE = 30.0


def frame_of(message: Any, version: int, number: int = 1, *, client_id: str = "app") -> bytes:
    """A request as it goes over the wire, with its length."""
    message.API_VERSION = version
    message.with_header(number, client_id=client_id)
    return bytes(message.encode(header=True, framed=True))


def versions_frame(number: int = 1) -> bytes:
    return frame_of(request("ApiVersions"), 0, number)


def produce_frame(
    *values: bytes, topic: str = "orders", acks: int = -1, number: int = 1, partition: int = 0
) -> bytes:
    data = [{"index": partition, "records": a_batch(*values)}]
    message = request(
        "Produce",
        acks=acks,
        timeout_ms=5000,
        topic_data=[{"name": topic, "partition_data": data}],
    )
    return frame_of(message, 9, number)


def fetch_frame(
    offset: int = 0, *, wait: float = 0.0, topic: str = "orders", number: int = 1
) -> bytes:
    message = request(
        "Fetch",
        max_wait_ms=int(wait * 1000),
        min_bytes=1,
        max_bytes=1 << 24,
        session_epoch=-1,
        topics=[
            {
                "topic": topic,
                "topic_id": UUID(int=0),
                "partitions": [
                    {
                        "partition": 0,
                        "fetch_offset": offset,
                        "partition_max_bytes": 1 << 24,
                        "current_leader_epoch": -1,
                        "last_fetched_epoch": -1,
                    }
                ],
            }
        ],
    )
    return frame_of(message, 12, number)


class RawClient:
    """One connection to an address "host:port"."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, *frames: bytes) -> None:
        self.sock.sendall(b"".join(frames))

    def receive(self) -> bytes:
        """The next answer without its length; empty if the connection was closed."""
        head = self._take(4)
        if len(head) < 4:
            return b""
        (size,) = struct.unpack(">i", head)
        frame = self._take(size)
        return frame if len(frame) == size else b""

    def number(self) -> int:
        """Which request the next answer is for."""
        (number,) = struct.unpack_from(">i", self.receive())
        return int(number)

    def answer(self, api: str, version: int) -> Any:
        """The next answer, read as one of this API. Raises EOFError if there will be none."""
        found = next(one for one in APIS.values() if one.name == api)
        frame = self.receive()
        if not frame:
            raise EOFError("the connection was closed")
        return found.response.decode(frame, version=version, header=True)

    @property
    def closed(self) -> bool:
        """Waits for the next byte: whether the other side has closed instead."""
        return not self._take(1)

    @property
    def silent(self) -> bool:
        """Whether nothing comes for a short while."""
        self.sock.settimeout(0.05)
        try:
            return not self.sock.recv(1, socket.MSG_PEEK) and False
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(PATIENCE)

    def _take(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.sock.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                break
            if not piece:
                break
            data += piece
        return bytes(data)


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def works(address: str) -> bool:
    """Whether a broker answers a new connection."""
    with RawClient(address) as client:
        client.send(versions_frame(7))
        return client.number() == 7
