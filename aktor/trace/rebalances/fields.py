"""What an event of a trace says under a key, if it is of the kind that it should be; else None.

A trace is read from files: anything may be under any key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aktor.trace.rebalances.lines import Event

__all__ = ["keys", "names", "number", "offsets", "partition", "real", "text", "texts"]

_MS_END: Final = 1e12


def text(event: Event, key: str) -> str | None:
    """The text under this key."""
    value = event.get(key)
    return value if isinstance(value, str) else None


def number(event: Mapping[str, Any], key: str) -> int | None:
    """The whole number under this key."""
    value = event.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def real(event: Event, key: str) -> float | None:
    """The milliseconds under this key; None if there are none or they are more than 30 years. (A
    rebalance that began so long before would have a time that no table can hold.)"""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _MS_END else None


def keys(event: Event) -> list[str]:
    """The partitions that are told with their positions or their epochs."""
    found = event.get("partitions")
    return list(found) if isinstance(found, Mapping) else []


def texts(event: Event, key: str) -> list[str]:
    """The texts under this key."""
    found = event.get(key)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def names(event: Event) -> list[str]:
    """The partitions that are told as a list, or with their positions."""
    found = event.get("partitions")
    if not isinstance(found, Mapping | list):
        return []
    return [name for name in found if isinstance(name, str)]


def partition(event: Event) -> str | None:
    """The one partition of an event: as "orders-0", or its topic and its number."""
    topic, of_topic = text(event, "topic"), number(event, "partition")
    if topic is not None and of_topic is not None:
        return f"{topic}-{of_topic}"
    return text(event, "partition")


def offsets(event: Event) -> tuple[int | None, int | None]:
    """The first offset of the runs that were delivered, and the one after the last."""
    runs = event.get("offsets")
    try:
        return int(runs[0][0]), int(runs[-1][1]) + 1  # type: ignore[index]
    except (IndexError, KeyError, TypeError, ValueError):
        return None, None
