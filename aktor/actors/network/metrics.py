"""How many answers came and how long they took, for `consumer.metrics()`; in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final

from aktor.events.metric import CONSUMER_METRICS, COORDINATOR_METRICS, FETCH_METRICS, Metric
from aktor.values import Value

__all__ = ["METRICS", "REQUESTS", "meter", "milliseconds"]

REQUESTS: Final = Metric(
    name="request-total", group=CONSUMER_METRICS, description="requests that were sent"
)
RESPONSES: Final = Metric(
    name="response-total", group=CONSUMER_METRICS, description="answers that came"
)


class Metered(Value):
    """The metrics of the answers to one kind of request: how many came, and their time."""

    total: Metric
    average: Metric
    maximum: Metric


def _metered(group: str, total: str, time: str, of: str) -> Metered:
    """`total` and `time` are kafka-python's names."""
    return Metered(
        total=Metric(name=total, group=group, description=f"answers to {of}"),
        average=Metric(name=f"{time}-avg", group=group, description=f"ms until one to {of}"),
        maximum=Metric(name=f"{time}-max", group=group, description=f"ms until one to {of}"),
    )


#: By the API of the request.
METERED: Final[Mapping[str, Metered]] = {
    "Fetch": _metered(FETCH_METRICS, "fetch-total", "fetch-latency", "Fetch"),
    "OffsetCommit": _metered(COORDINATOR_METRICS, "commit-total", "commit-latency", "OffsetCommit"),
    "Heartbeat": _metered(
        COORDINATOR_METRICS, "heartbeat-total", "heartbeat-response-time", "Heartbeat"
    ),
    "JoinGroup": _metered(COORDINATOR_METRICS, "join-total", "join-time", "JoinGroup"),
    "SyncGroup": _metered(COORDINATOR_METRICS, "sync-total", "sync-time", "SyncGroup"),
}

#: All metrics of the network actor.
METRICS: Final = (
    REQUESTS,
    RESPONSES,
    *(metric for one in METERED.values() for metric in (one.total, one.average, one.maximum)),
)


def meter(counters: MutableMapping[str, float], api: str, seconds: float) -> None:
    """Count an answer to a request of this API. `counters` are by the names of the metrics."""
    counters[RESPONSES.name] = counters.get(RESPONSES.name, 0) + 1
    metered = METERED.get(api)
    if metered is None:
        return
    total, average, maximum = metered.total.name, metered.average.name, metered.maximum.name
    count = counters[total] = counters.get(total, 0) + 1
    ms = milliseconds(seconds)
    before = counters.get(average, 0.0)
    counters[average] = before + (ms - before) / count
    counters[maximum] = max(ms, counters.get(maximum, 0.0))


def milliseconds(seconds: float) -> float:
    """Milliseconds, as traces have them: exact to the microsecond."""
    return round(seconds * 1000.0, 3)
