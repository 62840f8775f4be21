"""How far the sources of a stream are behind, from Spark's progress of the query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["offsets_behind"]


def offsets_behind(progress: Mapping[str, Any] | None) -> list[dict[str, float]]:
    """For each source that knows where its partitions end: how many offsets they are behind.

    `progress`: `query.lastProgress`, or `event.progress.json` of a listener, read. The names are
    those of the metrics of Spark's own source (`minOffsetsBehindLatest`, `maxOffsetsBehindLatest`,
    `avgOffsetsBehindLatest`). A source in Python cannot report metrics itself.
    """
    found = []
    for source in (progress or {}).get("sources", ()):
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        behind = [max(0, at - end.get(place, 0)) for place, at in latest.items()]
        if behind:
            found.append(
                {
                    "minOffsetsBehindLatest": min(behind),
                    "maxOffsetsBehindLatest": max(behind),
                    "avgOffsetsBehindLatest": sum(behind) / len(behind),
                }
            )
    return found


def _offsets(text: Any) -> dict[tuple[str, str], int]:
    """By topic and partition. Spark has them as JSON, or as what it has read of it."""
    read = json.loads(text) if isinstance(text, str) else text
    return {
        (topic, partition): offset
        for topic, partitions in (read or {}).items()
        if topic != "@start"
        for partition, offset in partitions.items()
    }
