"""A client's socket, as the wire of a connection: what can't be sent now is sent later."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["Stream"]

_CHUNK: Final = 256 * 1024


class Stream:
    """Owns the socket, and what is left to send (a `connection.Wire`).

    `on_close` is called before the socket is closed.
    """

    def __init__(self, sock: socket.socket, on_close: Callable[[Stream], None]) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        #: What the server's selector waits for here.
        self.watched = 0
        self._on_close = on_close
        self._out: deque[memoryview] = deque()

    def receive(self) -> bytes | None:
        """What is there; None if nothing is, and no bytes when the other side has closed.

        Raises OSError.
        """
        try:
            return self.sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return None

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

    def close(self) -> None:
        """Close the socket."""
        self._on_close(self)
        self.sock.close()
