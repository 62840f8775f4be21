"""The answer to ApiVersions: which versions of each request a broker speaks (KIP-35, KIP-511).

kafka-python's own decoder reads the tagged fields of this answer by a statement inside an `assert`,
which `python -O` leaves out: without it no answer of version 3 or later can be read. It also fails
if a newer broker adds tagged fields to the features. Here everything but the versions is skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from aktor.protocol.tags import read_varint, skip_tags
from aktor.values import Value

__all__ = ["ApiVersions", "parse_api_versions"]

#: Compact lengths and tagged fields (KIP-482).
_FLEXIBLE: Final = 3
_UNSUPPORTED_VERSION: Final = 35

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
#: API key, lowest version, highest version
_API = struct.Struct(">hhh")


class ApiVersions(Value):
    """What the broker says. `spoken` is {API key: (lowest version, highest version)}."""

    error_code: int
    spoken: Mapping[int, tuple[int, int]]


def parse_api_versions(body: bytes | memoryview, version: int) -> ApiVersions:
    """Read the body of an ApiVersions response, what follows its correlation id (its header has no
    tagged fields in any version).

    A broker that does not know `version` answers in version 0, and says there which versions it
    knows (KIP-511); with any other error it says nothing. Raises ValueError if the body is cut off.
    """
    try:
        (error_code,) = _INT16.unpack_from(body)
        if error_code not in (0, _UNSUPPORTED_VERSION):
            return ApiVersions(error_code=error_code, spoken={})
        flexible = version >= _FLEXIBLE and error_code != _UNSUPPORTED_VERSION
        if flexible:
            size, at = read_varint(body, 2)
            count = size - 1
        else:
            (count,) = _INT32.unpack_from(body, 2)
            at = 6
        spoken = {}
        for _ in range(count):
            key, low, high = _API.unpack_from(body, at)
            at += _API.size
            if flexible:
                at = skip_tags(body, at)
            spoken[key] = low, high
    except (struct.error, IndexError):
        text = f"an ApiVersions v{version} response of {len(body)} bytes is cut off"
        raise ValueError(text) from None
    return ApiVersions(error_code=error_code, spoken=spoken)
