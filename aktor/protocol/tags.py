"""Tagged fields at the end of a header or a structure, which a reader may skip (KIP-482)."""

from __future__ import annotations

__all__ = ["read_varint", "skip_tags"]


def skip_tags(data: bytes | memoryview, at: int) -> int:
    """Where the tagged fields that begin at `at` end.

    That may be after the end of `data`. Raises IndexError if it ends within a number, ValueError if
    a number is not sound.
    """
    count, at = read_varint(data, at)
    for _ in range(count):
        _, at = read_varint(data, at)
        size, at = read_varint(data, at)
        at += size
    return at


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The unsigned number of one to five bytes at `at`, and where it ends. Raises as `skip_tags`
    does."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a varint of more than five bytes")
