"""Cuts what a socket delivers into Kafka's frames: four bytes of length, and as many of content.

What arrives goes into a scratch buffer; from there a small frame is copied out. A frame which is
longer than what has arrived gets memory of its own, and the rest is received straight into it:
no byte is copied more than once between the socket and the frame. That memory is `FrameMemory`,
which is compiled, or its twin here.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aktor import compiled

__all__ = ["SCRATCH_SIZE", "BadLength", "FrameCutter", "GrowingFrame"]

#: Bytes read at once while no long frame is under way.
SCRATCH_SIZE: Final = 64 * 1024

#: What a `GrowingFrame` gets before its bytes are there; from then on it doubles, so a peer that
#: announces much and sends little costs little.
FIRST_ALLOCATION: Final = 1024 * 1024

_LENGTH: Final = struct.Struct(">i")


class BadLength(ValueError):
    """A length that no answer can have; `head` are the four bytes that were read as the length."""

    def __init__(self, head: bytes, limit: int) -> None:
        self.head = head
        (length,) = _LENGTH.unpack(head)
        super().__init__(f"a frame of {length} bytes, where 0 to {limit} are allowed")


class GrowingFrame:
    """Owns the bytes of one frame of `length` bytes, of which those in `arrived` are here."""

    def __init__(self, length: int, arrived: memoryview) -> None:
        self.length = length
        self.filled = len(arrived)
        self._bytes = bytearray(max(min(length, FIRST_ALLOCATION), len(arrived)))
        self._bytes[: len(arrived)] = arrived

    def receive(self, recv_into: Callable[[memoryview], int]) -> tuple[int, int]:
        """Receive once; returns how many bytes came and how many could have."""
        frame = self._bytes
        if self.filled == len(frame):
            frame.extend(bytes(min(len(frame), self.length - len(frame))))
        with memoryview(frame) as whole, whole[self.filled :] as space:
            room = len(space)
            received = recv_into(space)
        self.filled += received
        return received, room

    def content(self) -> memoryview:
        """The frame, once it is complete."""
        return memoryview(self._bytes).toreadonly()


if TYPE_CHECKING:
    from aktor.actors.sockets.frame_memory import FrameMemory

_made: type[GrowingFrame | FrameMemory] = GrowingFrame
if compiled.is_wanted():
    with contextlib.suppress(ImportError):
        from aktor.actors.sockets.frame_memory import FrameMemory

        _made = FrameMemory


class FrameCutter:
    """Owns the frame that is arriving, and the complete `frames` until they are taken.

    `scratch` may be shared by all cutters of a thread: nothing stays in it between calls.
    """

    def __init__(self, limit: int, scratch: bytearray) -> None:
        self.frames: deque[memoryview] = deque()
        self._limit = limit
        self._scratch = memoryview(scratch)
        self._head = b""
        #: The frame that is arriving.
        self._frame: GrowingFrame | FrameMemory | None = None
        #: How many bytes have come, and how many had come at the last call of `has_heard`.
        self._received = self._heard_of = 0

    @property
    def mid_frame(self) -> bool:
        """True if some bytes of a frame have arrived, and not all."""
        return bool(self._head) or self._frame is not None

    def next_frame(self) -> memoryview:
        """Take the oldest of the complete frames."""
        return self.frames.popleft()

    def has_heard(self) -> bool:
        """Whether a frame is under way, and more of it came since this was last asked."""
        before, self._heard_of = self._heard_of, self._received
        return self.mid_frame and self._received != before

    def receive(
        self, recv_into: Callable[[memoryview], int], plain: int | None = None
    ) -> tuple[int, int]:
        """Receive once; returns how many bytes came and how many could have.

        `plain`: the descriptor, if `recv_into` is that of a socket without TLS. Raises `BadLength`;
        then `frames` has the frames before the bad one.
        """
        if self._frame is not None:
            received, room = self._receive_rest(self._frame, recv_into, plain)
        else:
            received, room = recv_into(self._scratch), len(self._scratch)
            self._cut(received)
        self._received += received
        return received, room

    def _receive_rest(
        self,
        frame: GrowingFrame | FrameMemory,
        recv_into: Callable[[memoryview], int],
        plain: int | None,
    ) -> tuple[int, int]:
        if plain is None or isinstance(frame, GrowingFrame):
            received, room = frame.receive(recv_into)
        else:
            received, room = frame.fill(plain)
        if frame.filled == frame.length:
            self.frames.append(frame.content())
            self._frame = None
        return received, room

    def _cut(self, end: int) -> None:
        at = 0
        while at < end:
            start = at + 4 - len(self._head)
            if start > end:
                self._head += bytes(self._scratch[at:end])
                return
            head, self._head = self._head + bytes(self._scratch[at:start]), b""
            (length,) = _LENGTH.unpack(head)
            if not 0 <= length <= self._limit:
                raise BadLength(head, self._limit)
            at = min(start + length, end)
            self._begin(length, self._scratch[start:at])

    def _begin(self, length: int, arrived: memoryview) -> None:
        if len(arrived) == length:
            self.frames.append(memoryview(bytes(arrived)))
            return
        self._frame = _made(length, arrived)
