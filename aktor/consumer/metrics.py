"""What `consumer.metrics()` returns: kafka-python's groups and names, over kafka.metrics.

Records and bytes are counted where they are given out, per poll; what the background counts is
read from the actors when metrics are asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from kafka.metrics import AnonMeasurable, MetricConfig, Metrics

from aktor.consumer.engine import Engine
from aktor.events.lifecycle import ActorStatus

__all__ = ["ConsumerMetrics"]

FETCH: Final = "consumer-fetch-manager-metrics"
COORDINATOR: Final = "consumer-coordinator-metrics"
CONSUMER: Final = "consumer-metrics"


class ConsumerMetrics:
    """Owns the registry of metrics; the values are gauges over the latest snapshot."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._registry = Metrics(MetricConfig(tags={"client-id": config["client_id"]}))
        self._values: dict[tuple[str, str], float] = {}
        # Several threads may look at once.
        self._lock = threading.Lock()

    def snapshot(self, engine: Engine, actors: tuple[ActorStatus, ...], *, raw: bool) -> Any:
        """The metrics as of now. From any thread."""
        with self._lock:
            return self._snapshot(engine, actors, raw=raw)

    def _snapshot(self, engine: Engine, actors: tuple[ActorStatus, ...], *, raw: bool) -> Any:
        self._set_from_application(engine)
        for actor in actors:
            for name, value in actor.counters.items():
                self._set(_group_of(name), name, value)
            self._set(CONSUMER, f"{actor.name}-restarts-total", actor.incarnation - 1)
        if raw:
            return dict(self._registry.metrics)
        grouped: dict[str, dict[str, float]] = {}
        for name, metric in self._registry.metrics.items():
            grouped.setdefault(name.group, {})[name.name] = metric.value()
        return grouped

    def _set_from_application(self, engine: Engine) -> None:
        delivery = engine.delivery
        ends = [(one.high_watermark, one.offset) for one in delivery.partitions.values()]
        lags = [end - at for end, at in ends if end is not None and at is not None]
        self._set(FETCH, "records-consumed-total", delivery.records_taken)
        self._set(FETCH, "bytes-consumed-total", delivery.bytes_taken)
        self._set(FETCH, "buffered-bytes", delivery.buffered_bytes)
        self._set(FETCH, "records-lag-max", max(lags, default=0))
        self._set(COORDINATOR, "assigned-partitions", len(delivery.partitions))

    def _set(self, group: str, name: str, value: float) -> None:
        key = (group, name)
        if key not in self._values:
            metric = self._registry.metric_name(name, group)
            self._registry.add_metric(
                metric, AnonMeasurable(lambda _config, _now, key=key: self._values[key])
            )
        self._values[key] = value

    def close(self) -> None:
        """Free the registry."""
        self._registry.close()


def _group_of(name: str) -> str:
    subject = name.partition("-")[0]
    if subject == "fetch":
        return FETCH
    return COORDINATOR if subject in ("commit", "heartbeat", "join", "sync") else CONSUMER
