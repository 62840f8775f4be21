"""Cuts what a socket delivers into Kafka's frames: four bytes of length, and as many of content.

What arrives goes into a scratch buffer; from there a small frame is copied out. A frame which is
longer than what has arrived gets a buffer of its own, and the rest is received straight into it:
no byte is copied more than once between the socket and the frame.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["SCRATCH_SIZE", "BadLength", "FrameCutter"]

#: Bytes read at once while no long frame is under way.
SCRATCH_SIZE: Final = 64 * 1024

#: What a frame gets before its bytes are there; from then on it doubles, so a peer that announces
#: much and sends little costs little.
FIRST_ALLOCATION: Final = 1024 * 1024

_LENGTH: Final = struct.Struct(">i")


class BadLength(ValueError):
    """A length that no answer has; `head` is what stood in its place."""

    def __init__(self, head: bytes, limit: int) -> None:
        self.head = head
        (length,) = _LENGTH.unpack(head)
        super().__init__(f"a frame of {length} bytes, where 0 to {limit} are allowed")


class FrameCutter:
    """Owns the frame that is arriving, and the complete `frames` until they are taken.

    `scratch` may be shared by all cutters of a thread: nothing stays in it between calls.
    """

    def __init__(self, limit: int, scratch: bytearray) -> None:
        self.frames: deque[memoryview] = deque()
        self._limit = limit
        self._scratch = memoryview(scratch)
        self._head = b""
        self._frame = bytearray()
        self._length = 0
        self._filled = 0
        self._heard_of = 0

    @property
    def mid_frame(self) -> bool:
        """True if some bytes of a frame have arrived, and not all."""
        return bool(self._head) or self._filled < self._length

    def has_heard(self) -> bool:
        """Whether a frame is under way, and more of it came since this was last asked."""
        before, self._heard_of = self._heard_of, self._filled
        return self.mid_frame and self._filled != before

    def receive(self, recv_into: Callable[[memoryview], int]) -> tuple[int, int]:
        """Receive once; returns how many bytes came and how many could have.

        Raises `BadLength`; what precedes the bad frame is in `frames`.
        """
        if self._filled < self._length:
            return self._receive_rest(recv_into)
        received = recv_into(self._scratch)
        self._cut(received)
        return received, len(self._scratch)

    def _receive_rest(self, recv_into: Callable[[memoryview], int]) -> tuple[int, int]:
        frame = self._frame
        if self._filled == len(frame):
            frame.extend(bytes(min(len(frame), self._length - len(frame))))
        with memoryview(frame) as whole, whole[self._filled :] as space:
            room = len(space)
            received = recv_into(space)
        self._filled += received
        if self._filled == self._length:
            self._finish(frame)
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
        self._frame = bytearray(max(min(length, FIRST_ALLOCATION), len(arrived)))
        self._frame[: len(arrived)] = arrived
        self._filled, self._length = len(arrived), length

    def _finish(self, frame: bytearray) -> None:
        self.frames.append(memoryview(frame).toreadonly())
        self._frame, self._filled, self._length = bytearray(), 0, 0
