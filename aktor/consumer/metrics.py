"""What `consumer.metrics()` returns: kafka-python's groups and names, over `kafka.metrics`.

Records and bytes are measured where they are decoded, chunk by chunk; what the actors have measured
is read when metrics are asked for. Rates, averages and maxima are over kafka-python's windows.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar

from kafka.metrics import AnonMeasurable, MetricConfig, MetricName, Metrics

from aktor.actors.network.metrics import METRICS as OF_NETWORK
from aktor.consumer.core.engine import Engine
from aktor.events.lifecycle import ActorStatus
from aktor.events.metric import CONSUMER_METRICS, COORDINATOR_METRICS, FETCH_METRICS, Kind, Metric
from aktor.managers.coordinator import NODE
from aktor.managers.fetch.metrics import METRICS as OF_FETCHES
from aktor.managers.fetch.metrics import sizes
from aktor.managers.membership.metrics import METRICS as OF_REBALANCES
from aktor.managers.positions.ends import EVERY
from aktor.trace import Trace
from aktor.values import Value

__all__ = ["FRESH", "OF_ENGINE", "ConsumerMetrics", "Counted"]

#: The application's half of a kind of consumer.
H = TypeVar("H")

#: How old a value may be that a reporter reads, in seconds. Reporters read all of them in a row.
FRESH: Final = 0.1

#: For how long, in seconds, the lag of a partition is known that is not fetched any more.
KNOWN_FOR: Final = EVERY + 1.0

#: The values of metrics before anything was measured.
_NONE_YET: Final[Mapping[Kind, float]] = {
    **dict.fromkeys(("total", "average", "rate", "gauge"), 0.0),
    "maximum": -math.inf,
}

_Tags = tuple[tuple[str, str], ...]


def _metric(
    name: str, kind: Kind, description: str, *, group: str = FETCH_METRICS, tags: _Tags = ()
) -> Metric:
    return Metric(name=name, group=group, kind=kind, description=description, tags=tags)


RECORDS_CONSUMED: Final = _metric("records-consumed-total", "total", "records given out")
BYTES_CONSUMED: Final = _metric("bytes-consumed-total", "total", "bytes given out")
BUFFERED_BYTES: Final = _metric(
    "buffered-bytes", "gauge", "bytes that are fetched and not given out yet"
)
LAG_MAX: Final = _metric(
    "records-lag-max",
    "maximum",
    "records between the position and the end, as told last, of the partition that is furthest"
    " behind",
)
LAG_AVERAGE: Final = _metric(
    "records-lag-avg", "average", "records behind a partition's position, as it was read"
)
LEAD_MIN: Final = _metric(
    "records-lead-min",
    "gauge",
    "records between the beginning of a log and the position, where these are fewest; -1: unknown",
)
ASSIGNED: Final = _metric(
    "assigned-partitions", "gauge", "partitions that this consumer has", group=COORDINATOR_METRICS
)


def _consumption(tags: _Tags = ()) -> tuple[Metric, Metric, Metric]:
    of = f" of {tags[0][1]}" if tags else ""
    return (
        _metric("records-consumed-rate", "rate", f"records{of} given out, per second", tags=tags),
        _metric("bytes-consumed-rate", "rate", f"bytes{of} given out, per second", tags=tags),
        _metric("records-per-request-avg", "average", f"records{of} in a Fetch", tags=tags),
    )


CONSUMPTION: Final = _consumption()

#: What is there from the start, so that reporters hear of it.
DECLARED: Final = (
    *(RECORDS_CONSUMED, BYTES_CONSUMED, BUFFERED_BYTES),
    *(LAG_MAX, LAG_AVERAGE, LEAD_MIN, ASSIGNED, NODE),
    *CONSUMPTION,
    *OF_NETWORK,
    *OF_FETCHES,
    *OF_REBALANCES,
)


def restarts_of(actor: str) -> Metric:
    """How often the supervisor has restarted this actor."""
    return _metric(
        f"{actor}-restarts-total",
        "total",
        f"restarts of the actor {actor} after a crash",
        group=CONSUMER_METRICS,
    )


class Counted(Value, Generic[H]):
    """What is measured of a kind of consumer, besides what each of its actors counts.

    `declared` are the metrics that are there from the start, those of its actors among them.
    `measure` is given the application's half, the values of the actors, and the time.
    """

    declared: tuple[Metric, ...]
    measure: Callable[[H, Mapping[Metric, float], float], Iterable[tuple[Metric, float]]]


class ConsumerMetrics:
    """Owns the latest values, and kafka-python's registry of them (`registry`).

    A reporter may read a metric at any time, from any thread: if the values are older than `FRESH`,
    they are measured anew.

    Several threads may measure at once, and a signal handler in the middle of another one: there is
    no lock of ours. The values are replaced as a whole.
    """

    def __init__(self, config: Mapping[str, Any], counted: Counted[Any]) -> None:
        self._counted = counted
        self._nothing_yet = {metric: _NONE_YET[metric.kind] for metric in counted.declared}
        self._prefix = config["metric_group_prefix"]
        self._measure: Callable[[], Callable[[], object] | None] = lambda: None
        self._clock: Callable[[], float] = lambda: 0.0
        self._measured_at = -math.inf
        self._values: Mapping[Metric, float] = {}
        #: What the actors have said last.
        self._of_actors: Mapping[Metric, float] = {}
        self._names: dict[Metric, MetricName] = {}
        self._ours: dict[MetricName, Metric] = {}
        self._reporters = [make() for make in config["metric_reporters"]]
        self.registry = Metrics(
            MetricConfig(
                samples=config["metrics_num_samples"],
                time_window_ms=config["metrics_sample_window_ms"],
                tags={"client-id": config["client_id"]},
            ),
            self._reporters,
        )
        self._show(self._nothing_yet)

    def begin(self, measure: Callable[[], object], clock: Callable[[], float]) -> None:
        """From now on there is something to measure. `measure` is a bound method, which calls
        `update`; its object is not kept alive."""
        self._measure = weakref.WeakMethod(measure)
        self._clock = clock

    def update(self, half: Any, actors: tuple[ActorStatus, ...]) -> None:
        """Take the values of this half of a consumer, as of now. From any thread. Without `actors`
        (the background does not answer, or is gone) their values stay."""
        now = self._clock()
        if actors:
            self._of_actors = {
                metric: value for actor in actors for metric, value in _of_actor(actor)
            }
        of_application = self._counted.measure(half, self._of_actors, now)
        self._show({**self._nothing_yet, **self._of_actors, **dict(of_application)})
        self._measured_at = now

    def grouped(self) -> dict[str, dict[str, float]]:
        """`{group: {name: value}}`; the groups of single topics and partitions end in their names,
        as "consumer-fetch-manager-metrics.orders-0"."""
        values, found = self._values, dict[str, dict[str, float]]()
        for name, metric in self.registry.metrics.copy().items():
            ours = self._ours.get(name)
            group = name.group
            if ours is not None and ours.tags:
                group = f"{group}.{'-'.join(value for _, value in ours.tags)}"
            value = metric.value() if ours is None else values.get(ours)
            if value is not None:
                found.setdefault(group, {})[name.name] = value
        return found

    def raw(self) -> dict[MetricName, Any]:
        """kafka-python's objects, which measure anew when they are read."""
        metrics: dict[MetricName, Any] = self.registry.metrics.copy()
        return metrics

    def close(self, log: Trace) -> None:
        """Close the reporters, all of them, even if some raise. The last values stay."""
        while self._reporters:
            try:
                self._reporters.pop().close()
            except Exception as error:
                log.warning("close.failed", because=error)

    def _show(self, values: Mapping[Metric, float]) -> None:
        """Show these values, and no others; reporters are told which metrics are new or gone."""
        self._values = values
        for metric in values:
            if metric not in self._names:
                self._add(metric)
        for metric in self._names.keys() - values.keys():
            name = self._names.pop(metric, None)
            if name is not None:
                self._ours.pop(name, None)
                self._tell(partial(self.registry.remove_metric, name))

    def _add(self, metric: Metric) -> None:
        group = metric.group.replace("consumer", self._prefix, 1)
        tags = {name: value.replace(".", "_") for name, value in metric.tags}
        name = self.registry.metric_name(metric.name, group, metric.description, tags)
        self._ours[name] = metric
        gauge = AnonMeasurable(lambda _config, _now: self._read(metric))
        self._tell(partial(self.registry.add_metric, name, gauge))
        self._names[metric] = name

    def _tell(self, change: Callable[[], object]) -> None:
        # ValueError: it was added by another thread, or by a signal handler, in between.
        with contextlib.suppress(ValueError):
            change()

    def _read(self, metric: Metric) -> float:
        """The value for a reporter."""
        if self._clock() - self._measured_at > FRESH:
            measure = self._measure()
            if measure is not None:
                measure()
        return self._values.get(metric, _NONE_YET[metric.kind])


def _of_actor(actor: ActorStatus) -> Iterable[tuple[Metric, float]]:
    yield from actor.counters.items()
    yield restarts_of(actor.name), actor.incarnation - 1


def _of_engine(
    engine: Engine, of_actors: Mapping[Metric, float], now: float
) -> Iterable[tuple[Metric, float]]:
    delivery, consumption = engine.delivery, engine.delivery.consumption
    yield RECORDS_CONSUMED, consumption.records
    yield BYTES_CONSUMED, consumption.bytes
    yield BUFFERED_BYTES, delivery.buffered_bytes
    yield ASSIGNED, len(delivery.partitions)
    for topic, (records, size) in {"": consumption.recent, **consumption.by_topic}.items():
        tags: _Tags = (("topic", topic),) if topic else ()
        count_rate, byte_rate, per_request = _consumption(tags) if tags else CONSUMPTION
        yield count_rate, records.rate(now)
        yield byte_rate, size.rate(now)
        # A Fetch has so many records as there are, on average, in so many bytes.
        average, bytes_read = _fetch_size(tags, of_actors), size.rate(now)
        yield per_request, average * records.rate(now) / bytes_read if bytes_read else 0.0
    lags, leads, listed = [], [], engine.core.port.ends
    for partition, state in delivery.partitions.items():
        position, ends, start = engine.iteration.offset_of(state), state.log_ends, state.log_start
        tags = (("topic", partition.topic), ("partition", str(partition.partition)))
        end, told_at = None if ends is None else ends[0], state.log_ends_at
        if (of_leader := listed.get(partition)) is not None and of_leader.at > told_at:
            end, told_at = of_leader.offset, of_leader.at
        if position is not None and end is not None:
            lags.append(max(0, end - position))
            # (Of one that is paused nobody may have asked. The maximum is one of at least.)
            if not state.paused or now - max(state.paused_at, told_at) < KNOWN_FOR:
                yield (
                    _metric("records-lag", "gauge", "records behind the position", tags=tags),
                    lags[-1],
                )
        if position is not None and start is not None:
            leads.append(position - start)
            text = "records from the beginning of the log to the position"
            yield _metric("records-lead", "gauge", text, tags=tags), leads[-1]
    yield LAG_MAX, max(0, *lags, consumption.lags.maximum(now))
    yield LAG_AVERAGE, consumption.lags.average(now)
    yield LEAD_MIN, min(leads, default=-1)


def _fetch_size(tags: _Tags, of_actors: Mapping[Metric, float]) -> float:
    """The average bytes of a Fetch (of this topic), as the fetch manager has measured."""
    average, _ = sizes(tags)
    return of_actors.get(average, 0.0)


#: Those of a `KafkaConsumer`.
OF_ENGINE: Final = Counted(declared=DECLARED, measure=_of_engine)
