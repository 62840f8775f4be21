"""How many answers came and how long they took, for `consumer.metrics()`; in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final

__all__ = ["meter", "milliseconds"]

#: Answers whose time is metered, and what kafka-python calls the count and the time.
METERED: Final[Mapping[str, tuple[str, str]]] = {
    "Fetch": ("fetch-total", "fetch-latency"),
    "OffsetCommit": ("commit-total", "commit-latency"),
    "Heartbeat": ("heartbeat-total", "heartbeat-response-time"),
    "JoinGroup": ("join-total", "join-time"),
    "SyncGroup": ("sync-total", "sync-time"),
}


def meter(counters: MutableMapping[str, float], api: str, seconds: float) -> None:
    """Count an answer to a request of this API."""
    counters["response-total"] = counters.get("response-total", 0) + 1
    metered = METERED.get(api)
    if metered is None:
        return
    total, name = metered
    count = counters[total] = counters.get(total, 0) + 1
    ms = milliseconds(seconds)
    average = counters.get(f"{name}-avg", 0.0)
    counters[f"{name}-avg"] = average + (ms - average) / count
    counters[f"{name}-max"] = max(ms, counters.get(f"{name}-max", 0.0))


def milliseconds(seconds: float) -> float:
    """Milliseconds, as traces have them: exact to the microsecond."""
    return round(seconds * 1000.0, 3)
