"""The note that a commit carries: how many partitions its topic had when a member of the group
began to follow it. Those with higher numbers are new to the group.

Kafka keeps a text beside each committed offset and does not read it (`metadata` of
`OffsetAndMetadata`). The note is written where the application gives no text of its own, and the
application never sees it.
"""

from __future__ import annotations

import re
from typing import Final

from kafka.structs import OffsetAndMetadata

__all__ = ["count_in", "has_room", "note_of", "without_note"]

_NOTE: Final = re.compile(r"aktor:partitions=([0-9]{1,9})")


def note_of(count: int) -> str:
    """The metadata of a committed offset whose topic had so many partitions."""
    return f"aktor:partitions={count}"


def count_in(metadata: str) -> int | None:
    """The count in this metadata; None if it is no note of ours."""
    found = _NOTE.fullmatch(metadata)
    return int(found[1]) if found else None


def has_room(value: OffsetAndMetadata) -> bool:
    """Whether the application gives no metadata of its own."""
    return not value.metadata or count_in(value.metadata) is not None


def without_note(value: OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    """As the application sees it."""
    if value is None or count_in(value.metadata) is None:
        return value
    return OffsetAndMetadata(value.offset, "", value.leader_epoch)
