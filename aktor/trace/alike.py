"""Whether two reasons are of one kind, though they are about other brokers or another time."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["without_numbers"]

#: Brokers, ports, offsets and times.
_NUMBERS: Final = re.compile(r"[0-9.]+")


def without_numbers(because: str | None) -> str:
    """What is the same in all reasons of one kind."""
    return _NUMBERS.sub("", because or "")
