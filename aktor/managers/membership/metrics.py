"""What a member measures of its rebalances, for `consumer.metrics()`: Java's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aktor.events.metric import COORDINATOR_METRICS, Kind, Metric
from aktor.sensor import Sensor

__all__ = ["METRICS", "RebalanceMetrics"]


def _metric(name: str, kind: Kind, description: str) -> Metric:
    return Metric(name=name, group=COORDINATOR_METRICS, kind=kind, description=description)


TOTAL: Final = _metric("rebalance-total", "total", "rebalances that were completed")
RATE: Final = _metric("rebalance-rate-per-hour", "rate", "rebalances per hour")
AVERAGE: Final = _metric("rebalance-latency-avg", "average", "ms that a rebalance took")
MAXIMUM: Final = _metric("rebalance-latency-max", "maximum", "ms that a rebalance took")
LATENCY_TOTAL: Final = _metric("rebalance-latency-total", "total", "ms that rebalances took")
FAILED: Final = _metric(
    "failed-rebalance-total",
    "total",
    "rebalances that began and were not completed: the membership was lost, or another one began",
)
LAST: Final = _metric(
    "last-rebalance-seconds-ago",
    "gauge",
    "seconds since a rebalance was completed; -1 if none was",
)

METRICS: Final = (TOTAL, RATE, AVERAGE, MAXIMUM, LATENCY_TOTAL, FAILED, LAST)


class RebalanceMetrics:
    """Owns what was measured of the rebalances of one incarnation of the membership manager."""

    __slots__ = ("_began_at", "_completed_at", "_failed", "_sensor", "_total_ms")

    def __init__(self, samples: int, window: float) -> None:
        self._sensor = Sensor(samples, window)
        #: When the rebalance under way began; None: none is under way.
        self._began_at: float | None = None
        self._completed_at: float | None = None
        self._failed = 0
        self._total_ms = 0.0

    def begun(self, now: float) -> None:
        """A rebalance begins."""
        self.failed()
        self._began_at = now

    def completed(self, now: float) -> None:
        """The member has its assignment."""
        if self._began_at is not None:
            ms = (now - self._began_at) * 1000.0
            self._sensor.record(ms, now)
            self._total_ms += ms
        self._began_at, self._completed_at = None, now

    def failed(self) -> None:
        """The membership is lost. If a rebalance is under way, it has failed."""
        if self._began_at is not None:
            self._failed += 1
        self._began_at = None

    def left(self) -> None:
        """The application has left the group: that is no failure."""
        self._began_at = None

    def measure(self, now: float) -> Mapping[Metric, float]:
        """The values as of now."""
        ended = self._completed_at
        return {
            TOTAL: self._sensor.count,
            RATE: self._sensor.frequency(now) * 3600.0,
            AVERAGE: self._sensor.average(now),
            MAXIMUM: self._sensor.maximum(now),
            LATENCY_TOTAL: self._total_ms,
            FAILED: self._failed,
            LAST: -1.0 if ended is None else now - ended,
        }
