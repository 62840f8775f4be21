"""One client's connection: bytes in, frames out of them; frames to send, bytes out."""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Final

__all__ = ["Connection", "FrameTooLargeError"]

_LENGTH: Final = struct.Struct(">i")
_CHUNK: Final = 256 * 1024
#: Stop reading when so much is here that is not handled yet.
_ENOUGH: Final = 1024 * 1024


class FrameTooLargeError(Exception):
    """A request claims to be larger than the broker takes, or smaller than nothing."""


class Connection:
    """Owns the socket. Requests are handled one at a time and in order, as Kafka does: `busy` while
    one waits for its answer, and what follows is not handled before that is sent: of answers, one
    at most is kept for a client that does not read.
    """

    def __init__(self, sock: socket.socket, *, number: int, node: int, host: str) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.number = number
        self.node = node
        self.host = host
        self.principal = "User:ANONYMOUS"
        self.busy = False
        self.open = True
        self.close_when_sent = False
        self.used_at = 0.0
        #: What the server's selector waits for here.
        self.watched = 0
        self._in = bytearray()
        self._out: deque[memoryview] = deque()

    def __repr__(self) -> str:
        return f"<Connection {self.number} of {self.host} to broker {self.node}>"

    @property
    def idle(self) -> bool:
        """Whether the next request may be handled."""
        return self.open and not (self.busy or self._out or self.close_when_sent)

    # -- in

    @property
    def hungry(self) -> bool:
        """Whether more may be read: not while plenty waits to be handled."""
        return self.idle or len(self._in) < _ENOUGH

    def receive(self) -> bool:
        """Read what is there; False when the other side has closed. Raises OSError."""
        try:
            data = self.sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return True
        self._in += data
        return bool(data)

    def next_frame(self, largest: int) -> bytes | None:
        """The next whole request without its length, None if there is none yet.

        Raises FrameTooLargeError before its bytes are waited for.
        """
        if len(self._in) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._in)
        if not 0 <= size <= largest:
            raise FrameTooLargeError(f"a request of {size} bytes; at most {largest} are taken")
        end = _LENGTH.size + size
        if len(self._in) < end:
            return None
        with memoryview(self._in) as view:
            frame = bytes(view[_LENGTH.size : end])
        del self._in[:end]
        return frame

    # -- out

    def send(self, frame: bytes) -> None:
        """Send it, or what of it can't be sent now, later. Raises OSError."""
        self._out.append(memoryview(frame))
        self.flush()

    def flush(self) -> None:
        """Send what is left to send. Raises OSError."""
        while self._out:
            try:
                sent = self.sock.send(self._out[0])
            except (BlockingIOError, InterruptedError):
                return
            if sent == len(self._out[0]):
                self._out.popleft()
            else:
                self._out[0] = self._out[0][sent:]

    @property
    def unsent(self) -> bool:
        """Whether something is left to send."""
        return bool(self._out)
