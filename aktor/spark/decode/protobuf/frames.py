"""The frame of Confluent's serializers: a zero byte, the id of the schema in four bytes, and the
places that lead to the message in it (a count and so many numbers in zigzag form; a single zero
stands for the first message).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as compute

__all__ = ["Frame", "frames", "without_frames"]


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands before a value. `size`: its bytes."""

    schema_id: int
    places: tuple[int, ...]
    size: int


#: More bytes than the frame of any message that is nested less than twenty deep.
_LONGEST = 64
#: Arrow multiplies the longest slice by the number of rows: without an end that is beyond 64 bits,
#: and for an even number of rows below zero.
_END = 2**31 - 1


def frames(values: pa.Array) -> Iterator[tuple[Frame | None, pa.Array]]:
    """The frames that there are, each with the rows that have it; None: rows that have none.

    A batch has one frame or a few, so the bytes are compared by Arrow.
    """
    rows = compute.indices_nonzero(values.is_valid())
    for size in range(6, _LONGEST):
        if not len(rows):
            return
        heads = compute.binary_slice(values.take(rows), 0, size).dictionary_encode()
        unfinished = pa.array([], rows.type)
        for place, head in enumerate(heads.dictionary.to_pylist()):
            some = rows.filter(compute.equal(heads.indices, place))
            found = _frame(head) if len(head) == size and head[0] == 0 else None
            if found == "unfinished":
                unfinished = pa.concat_arrays([unfinished, some])
            else:
                assert found is None or isinstance(found, Frame)
                yield found, some
        rows = unfinished
    yield None, rows


def without_frames(values: pa.Array, sizes: pa.Array) -> pa.Array:
    """The values without so many bytes at their beginnings; null: the value is null."""
    there = compute.unique(sizes.drop_null()).to_pylist()
    found = pa.nulls(len(values), pa.binary())
    for size in there:
        rest = compute.binary_slice(values, size, _END)
        if len(there) == 1 and not sizes.null_count:
            return rest
        found = compute.if_else(compute.equal(sizes, size), rest, found)
    return found


def _frame(head: bytes) -> Frame | str | None:
    """The frame at the beginning of these bytes, or "unfinished" if it is longer."""
    numbers: list[int] = []
    at = 5
    while not numbers or len(numbers) <= numbers[0]:
        number = shift = 0
        while True:
            if at == len(head):
                return "unfinished"
            byte = head[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append(number >> 1 ^ -(number & 1))
        if numbers[0] < 0:
            return None
    return Frame(int.from_bytes(head[1:5], "big"), tuple(numbers[1:]) or (0,), at)
