"""What `consumer.metrics()` returns: kafka-python's groups and names, over kafka.metrics.

Records and bytes are counted where they are decoded, per poll; the counters of the actors are read
when metrics are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.metrics import AnonMeasurable, KafkaMetric, MetricConfig, MetricName

from aktor.consumer.core.engine import Engine
from aktor.events.lifecycle import ActorStatus
from aktor.events.metric import CONSUMER_METRICS, COORDINATOR_METRICS, FETCH_METRICS, Metric

__all__ = ["ConsumerMetrics"]

COUNT: Final = Metric(
    name="count",
    group="kafka-metrics-count",
    description="metrics that there are",
)
RECORDS_CONSUMED: Final = Metric(
    name="records-consumed-total", group=FETCH_METRICS, description="records given out"
)
BYTES_CONSUMED: Final = Metric(
    name="bytes-consumed-total", group=FETCH_METRICS, description="bytes given out"
)
BUFFERED_BYTES: Final = Metric(
    name="buffered-bytes",
    group=FETCH_METRICS,
    description="bytes that are fetched and not given out yet",
)
LAG_MAX: Final = Metric(
    name="records-lag-max",
    group=FETCH_METRICS,
    description="records between the position and the end of the partition that is furthest behind",
)
ASSIGNED: Final = Metric(
    name="assigned-partitions",
    group=COORDINATOR_METRICS,
    description="partitions that this consumer has",
)


def restarts_of(actor: str) -> Metric:
    """How often the supervisor has restarted this actor."""
    return Metric(
        name=f"{actor}-restarts-total",
        group=CONSUMER_METRICS,
        description=f"restarts of the actor {actor} after a crash",
    )


class ConsumerMetrics:
    """Owns the metrics; the values are gauges over the latest snapshot.

    Several threads may take a snapshot at once, and a signal handler in the middle of another one:
    there is no lock, so entries are only added to the shared dicts and replaced, never removed.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = MetricConfig(tags={"client-id": config["client_id"]})
        self._values: dict[MetricName, float] = {}
        self._metrics: dict[MetricName, KafkaMetric] = {}
        self._set(COUNT, 1)

    def snapshot(self, engine: Engine, actors: tuple[ActorStatus, ...], *, raw: bool) -> Any:
        """The metrics as of now. From any thread."""
        self._set_from_application(engine)
        for actor in actors:
            for metric, value in actor.counters.items():
                self._set(metric, value)
            self._set(restarts_of(actor.name), actor.incarnation - 1)
        self._set(COUNT, len(self._metrics))
        if raw:
            return self._metrics.copy()
        grouped: dict[str, dict[str, float]] = {}
        for key, value in self._values.copy().items():
            grouped.setdefault(key.group, {})[key.name] = value
        return grouped

    def _set_from_application(self, engine: Engine) -> None:
        delivery = engine.delivery
        ends = [(state.log_ends, state.offset) for state in delivery.partitions.values()]
        lags = [end[0] - at for end, at in ends if end is not None and at is not None]
        self._set(RECORDS_CONSUMED, delivery.taken.records)
        self._set(BYTES_CONSUMED, delivery.taken.bytes)
        self._set(BUFFERED_BYTES, delivery.buffered_bytes)
        self._set(LAG_MAX, max(lags, default=0))
        self._set(ASSIGNED, len(delivery.partitions))

    def _set(self, metric: Metric, value: float) -> None:
        key = MetricName(metric.name, metric.group, metric.description, self._config.tags)
        self._values[key] = value
        if key not in self._metrics:
            gauge = AnonMeasurable(lambda _config, _now: self._values[key])
            self._metrics.setdefault(key, KafkaMetric(key, gauge, self._config))
