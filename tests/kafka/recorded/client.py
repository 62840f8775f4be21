"""A client without opinions: it sends what it is told, retries nothing, and shows every answer."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from tests.kafka.recorded.messages import request, response_class

__all__ = ["CLOSED", "SILENCE", "Later", "RawClient", "Said"]

ANSWER_TIMEOUT_S: Final = 20.0
SETTLE_TIMEOUT_S: Final = 20.0
_SETTLE_PAUSE_S: Final = 0.02

_SIZE: Final = struct.Struct(">i")

#: What a broker may say while it is still busy with something that was just created:
#: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_TOPIC_ID.
_UNSETTLED: Final = frozenset({3, 5, 6, 14, 15, 16, 100})


@dataclass(frozen=True, slots=True)
class Said:
    """Something other than an answer: `CLOSED` or `SILENCE`."""

    text: str


#: The broker hung up.
CLOSED: Final = Said("the connection was closed")

#: The broker said nothing for as long as one wanted to wait.
SILENCE: Final = Said("no answer")


class Later:
    """The answer to a request that was sent: `answer()` waits for it."""

    def __init__(self, connection: _Connection, read: Callable[[bytes], Any], number: int) -> None:
        self._connection = connection
        self._read = read
        self._number = number
        self._answer: Any = None

    def answer(self, timeout: float = ANSWER_TIMEOUT_S) -> Any:
        """The answer, `CLOSED`, or after `timeout` seconds `SILENCE`; later one may ask again."""
        if self._answer is None:
            frame = self._connection.receive(timeout)
            if isinstance(frame, Said):
                return frame
            (number,) = _SIZE.unpack_from(frame)
            assert number == self._number, f"answer {number} came for request {self._number}"
            self._answer = self._read(frame)
        return self._answer


class RawClient:
    """Talks to one broker over as many connections as there are names for them.

    A connection is opened when its name is first used, and again after it was closed. Brokers
    answer the requests of one connection in order: what should wait at once needs connections of
    its own. `client_id` stands in every request header.
    """

    def __init__(self, address: str, *, client_id: str = "reality") -> None:
        host, port = address.rsplit(":", 1)
        self._address = (host, int(port))
        self._client_id = client_id
        self._connections: dict[str, _Connection] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up on all connections."""
        for name in list(self._connections):
            self.hang_up(name)

    def hang_up(self, name: str = "main") -> None:
        """Close one connection."""
        self._connections.pop(name).close()

    def send(self, api: str, version: int, on: str = "main", **fields: Any) -> Later:
        """Send a request and don't wait. A Produce with acks=0 gets no answer."""
        message = request(api, **fields)
        message.API_VERSION = version
        number = next(self._numbers)
        message.with_header(correlation_id=number, client_id=self._client_id)
        connection = self._connection(on)
        connection.send(message.encode(version=version, header=True, framed=True))
        kind = response_class(api)

        def read(frame: bytes) -> Any:
            answer = kind.decode(frame, version=version, header=True)
            answer._version = version
            return answer

        return Later(connection, read, number)

    def ask(self, api: str, version: int, on: str = "main", **fields: Any) -> Any:
        """Send a request and wait for the answer: a message, `CLOSED` or `SILENCE`."""
        return self.send(api, version, on, **fields).answer()

    def send_bytes(self, frame: bytes, on: str = "main", *, size: int | None = None) -> None:
        """Send a frame of any bytes; `size` is what it says of its length, if not the truth."""
        self._connection(on).send(_SIZE.pack(len(frame) if size is None else size) + frame)

    def receive_bytes(self, on: str = "main", timeout: float = ANSWER_TIMEOUT_S) -> bytes | Said:
        """The next frame as it is."""
        return self._connection(on).receive(timeout)

    def settled(self, api: str, version: int, on: str = "main", **fields: Any) -> Any:
        """Ask until the answer is not one of those of a broker that is still busy.

        For topics just created and coordinators that load. Raises TimeoutError after 20 s.
        """
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            answer = self.ask(api, version, on, **fields)
            if not _UNSETTLED & set(_error_codes(answer)):
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(f"{api} was never settled: {answer}")
            time.sleep(_SETTLE_PAUSE_S)

    def _connection(self, name: str) -> _Connection:
        connection = self._connections.get(name)
        if connection is None or connection.closed:
            connection = self._connections[name] = _Connection(self._address)
        return connection


class _Connection:
    """Owns one socket and the bytes that came early."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = bytearray()
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def send(self, data: bytes) -> None:
        # A broker that hangs up in the middle says so by what is read next.
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def receive(self, timeout: float) -> bytes | Said:
        deadline = time.monotonic() + timeout
        while (frame := self._frame()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return SILENCE
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return SILENCE
            except ConnectionError:
                data = b""
            if not data:
                self.close()
                return CLOSED
            self._read += data
        return frame

    def _frame(self) -> bytes | None:
        if len(self._read) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._read)
        end = _SIZE.size + size
        if len(self._read) < end:
            return None
        frame = bytes(self._read[_SIZE.size : end])
        del self._read[:end]
        return frame


def _error_codes(answer: Any) -> list[int]:
    """All error codes in an answer, however deep."""
    if isinstance(answer, Said):
        return []
    codes = [answer.error_code] if "error_code" in answer._struct.fields else []
    for field in answer._struct.fields.values():
        if field.is_struct_array():
            for each in getattr(answer, field.name) or ():
                codes += _error_codes(each)
    return codes
