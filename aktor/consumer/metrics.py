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

__all__ = ["ConsumerMetrics"]

FETCH: Final = "consumer-fetch-manager-metrics"
COORDINATOR: Final = "consumer-coordinator-metrics"
CONSUMER: Final = "consumer-metrics"
COUNT: Final = "kafka-metrics-count"


class ConsumerMetrics:
    """Owns the metrics; the values are gauges over the latest snapshot.

    Several threads may take a snapshot at once, and a signal handler in the middle of another one:
    there is no lock, so entries are only added to the shared dicts and replaced, never removed.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = MetricConfig(tags={"client-id": config["client_id"]})
        self._values: dict[MetricName, float] = {}
        self._metrics: dict[MetricName, KafkaMetric] = {}
        self._set(COUNT, "count", 1)

    def snapshot(self, engine: Engine, actors: tuple[ActorStatus, ...], *, raw: bool) -> Any:
        """The metrics as of now. From any thread."""
        self._set_from_application(engine)
        for actor in actors:
            for name, value in actor.counters.items():
                self._set(_group_of(name), name, value)
            self._set(CONSUMER, f"{actor.name}-restarts-total", actor.incarnation - 1)
        self._set(COUNT, "count", len(self._metrics))
        if raw:
            return self._metrics.copy()
        grouped: dict[str, dict[str, float]] = {}
        for metric, value in self._values.copy().items():
            grouped.setdefault(metric.group, {})[metric.name] = value
        return grouped

    def _set_from_application(self, engine: Engine) -> None:
        delivery = engine.delivery
        ends = [(state.log_ends, state.offset) for state in delivery.partitions.values()]
        lags = [end[0] - at for end, at in ends if end is not None and at is not None]
        self._set(FETCH, "records-consumed-total", delivery.taken.records)
        self._set(FETCH, "bytes-consumed-total", delivery.taken.bytes)
        self._set(FETCH, "buffered-bytes", delivery.buffered_bytes)
        self._set(FETCH, "records-lag-max", max(lags, default=0))
        self._set(COORDINATOR, "assigned-partitions", len(delivery.partitions))

    def _set(self, group: str, name: str, value: float) -> None:
        key = MetricName(name, group, "", self._config.tags)
        self._values[key] = value
        if key not in self._metrics:
            gauge = AnonMeasurable(lambda _config, _now: self._values[key])
            self._metrics.setdefault(key, KafkaMetric(key, gauge, self._config))


def _group_of(name: str) -> str:
    subject = name.partition("-")[0]
    if subject == "fetch":
        return FETCH
    return COORDINATOR if subject in ("commit", "heartbeat", "join", "sync") else CONSUMER
