"""Rows of JSON that a condition may keep, found by a search for its text before they are decoded.

`value.country = 'DE'` can be true only in JSON that has the bytes DE: a string of JSON has its
letters as they are, or, if one is escaped, a backslash. The search reads a batch in a tenth of the
time that decoding takes. It may find rows too many; the condition itself is evaluated after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import pyarrow as pa

from aktor.spark.filters.conditions import Any_, Column, Compare, Condition, Matches, OneOf

__all__ = ["RawSearch"]


class RawSearch:
    """Owns the texts that are searched for. It ends for good when it finds too many rows."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        """All of the conditions must be true."""
        found = [texts for texts in map(_texts_of, conditions) if texts]
        #: One of these stands in each row that is kept: those of the condition with the longest.
        self._texts: tuple[bytes, ...] = max(
            found, key=lambda some: len(min(some, key=len)), default=()
        )

        #: Kept, since memory that is new for each batch takes time.
        self._scratch = bytearray()

    def rows(self, values: pa.Array) -> pa.Array | None:
        """The rows that may be kept, in order; None: any may."""
        if not self._texts or not len(values):
            return None
        _, offsets, data = values.buffers()
        ends = memoryview(offsets).cast("i")[values.offset : values.offset + len(values) + 1]
        if data is None or ends[0] == ends[-1]:
            return None
        block = self._scratch
        block[:] = memoryview(data)[ends[0] : ends[-1]]
        if b"\\" in block:
            return None
        found: set[int] = set()
        for text in self._texts:
            at = block.find(text)
            while at >= 0:
                row = bisect_right(ends, ends[0] + at) - 1
                found.add(row)
                at = block.find(text, ends[row + 1] - ends[0])
            if len(found) > len(values) // 4:
                self._texts = ()
                return None
        return pa.array(sorted(found), pa.int32())


def _texts_of(condition: Condition) -> tuple[bytes, ...]:
    """Texts of which the value has one if the condition is true; none if that is not known."""
    match condition:
        case Compare(column=column, sign="=", value=str(text)):
            texts = [text]
        case OneOf(column=column, values=some):
            texts = [text for text in some if isinstance(text, str)]
            if len(texts) < len(some):
                return ()
        case Matches(column=column, how="starts_with" | "ends_with" | "match_substring"):
            texts = [condition.pattern]
        case Any_(parts=parts):
            each = [_texts_of(part) for part in parts]
            return tuple(text for some in each for text in some) if all(each) else ()
        case _:
            return ()
    return tuple(text.encode() for text in texts) if _is_string(column) and all(texts) else ()


def _is_string(column: Column) -> bool:
    return column.name == "value" and bool(column.places) and column.kind == pa.string()
