"""Strings whose bytes may be no UTF-8, as Spark reads them. Spark does not check the bytes of a
string, and so `decode=string` does not either.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

__all__ = ["REPLACEMENT", "lengths", "readable"]

#: What Java reads for bytes that are no UTF-8.
REPLACEMENT: Final = "\ufffd"

#: Java reads a surrogate, or two bytes of one, as one letter that is wrong, and Python each byte.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
#: So many bytes Spark takes for one character: by the first one, without a look at the others.
_CHARACTER: Final = re.compile(rb"[\xc2-\xdf].?|[\xe0-\xef].{0,2}|[\xf0-\xf4].{0,3}|.", re.DOTALL)


def readable(values: pa.Array) -> pa.Array:
    """The strings, with U+FFFD for what is no UTF-8, as Java makes them of bytes."""
    if _are_utf8(values):
        return values
    wrong = REPLACEMENT.encode()
    return pa.array(
        [
            None if text is None else _SURROGATE.sub(wrong, text).decode(errors="replace")
            for text in values.cast(pa.binary()).to_pylist()
        ],
        values.type,
    )


def lengths(values: pa.Array) -> pa.Array:
    """The number of characters of each string, as Spark counts them."""
    import pyarrow.compute as compute

    if _are_utf8(values):
        return compute.utf8_length(values)
    return pa.array(
        [
            None if text is None else len(_CHARACTER.findall(text))
            for text in values.cast(pa.binary()).to_pylist()
        ],
        pa.int32(),
    )


def _are_utf8(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
