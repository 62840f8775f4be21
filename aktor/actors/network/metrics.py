"""What the network actor measures, for `consumer.metrics()`: kafka-python's groups and names.

Times are in milliseconds. Rates, averages and maxima are over the last windows (`aktor.sensor`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from aktor.events.metric import (
    CONSUMER_METRICS,
    COORDINATOR_METRICS,
    FETCH_METRICS,
    NODE_METRICS,
    Kind,
    Metric,
)
from aktor.sensor import Sensor
from aktor.values import Value

__all__ = ["METRICS", "NetworkMetrics", "milliseconds"]


def _metric(name: str, group: str, kind: Kind, description: str) -> Metric:
    return Metric(name=name, group=group, kind=kind, description=description)


class _Metered(Value):
    """The metrics of the answers to one kind of request: how many came, how often, their time."""

    total: Metric
    rate: Metric
    average: Metric
    maximum: Metric


def _metered(group: str, what: str, time: str, of: str) -> _Metered:
    """`what` and `time` are kafka-python's names."""
    return _Metered(
        total=_metric(f"{what}-total", group, "total", f"answers to {of}"),
        rate=_metric(f"{what}-rate", group, "rate", f"answers to {of} per second"),
        average=_metric(f"{time}-avg", group, "average", f"ms until an answer to {of}"),
        maximum=_metric(f"{time}-max", group, "maximum", f"ms until an answer to {of}"),
    )


_HEARTBEATS: Final = _metered(
    COORDINATOR_METRICS,
    "heartbeat",
    "heartbeat-response-time",
    "Heartbeat (or ConsumerGroupHeartbeat)",
)

#: By the API of the request.
METERED: Final[Mapping[str, _Metered]] = {
    "Fetch": _metered(FETCH_METRICS, "fetch", "fetch-latency", "Fetch"),
    "OffsetCommit": _metered(COORDINATOR_METRICS, "commit", "commit-latency", "OffsetCommit"),
    "Heartbeat": _HEARTBEATS,
    "ConsumerGroupHeartbeat": _HEARTBEATS,
    "JoinGroup": _metered(COORDINATOR_METRICS, "join", "join-time", "JoinGroup"),
    "SyncGroup": _metered(COORDINATOR_METRICS, "sync", "sync-time", "SyncGroup"),
}

_APIS: Final = {metered.total.name: metered for metered in METERED.values()}

LAST_HEARTBEAT: Final = _metric(
    "last-heartbeat-seconds-ago",
    COORDINATOR_METRICS,
    "gauge",
    "seconds since the last heartbeat was sent; inf if there was none",
)
LAST_HEARTBEAT_ANSWER: Final = _metric(
    "last-heartbeat-response-seconds-ago",
    COORDINATOR_METRICS,
    "gauge",
    "seconds since a heartbeat was answered; inf if none was",
)
REQUESTS: Final = _metric("request-total", CONSUMER_METRICS, "total", "requests that were sent")
RESPONSES: Final = _metric("response-total", CONSUMER_METRICS, "total", "answers that came")
IN_FLIGHT: Final = _metric(
    "requests-in-flight", CONSUMER_METRICS, "gauge", "requests that are sent and not answered"
)
CONNECTIONS: Final = _metric("connection-count", CONSUMER_METRICS, "gauge", "open connections")
OPENED: Final = _metric(
    "connection-creation-rate", CONSUMER_METRICS, "rate", "connections that were opened, per second"
)
CLOSED: Final = _metric(
    "connection-close-rate", CONSUMER_METRICS, "rate", "connections that were closed, per second"
)
NETWORK_IO: Final = _metric(
    "network-io-rate", CONSUMER_METRICS, "rate", "requests and answers, per second"
)


class _Traffic:
    """Owns what was measured of the requests to one broker, or to all."""

    __slots__ = ("latency", "received", "sent", "sizes", "throttled")

    def __init__(self, new: Callable[[], Sensor]) -> None:
        #: Requests as they are sent.
        self.sent = new()
        #: The sizes of requests, and of their answers, once they are answered; in bytes.
        self.sizes = new()
        self.received = new()
        self.latency = new()
        self.throttled = new()

    def answered(
        self, now: float, *, ms: float, sizes: tuple[int, int], throttle_ms: float
    ) -> None:
        """An answer has come."""
        size, received = sizes
        self.sizes.record(size, now)
        self.received.record(received, now)
        self.latency.record(ms, now)
        self.throttled.record(throttle_ms, now)

    def measure(self, declared: Mapping[str, Metric], now: float) -> dict[Metric, float]:
        """The values as of now."""
        return {
            declared["request-rate"]: self.sent.frequency(now),
            declared["request-size-avg"]: self.sizes.average(now),
            declared["request-size-max"]: self.sizes.maximum(now),
            declared["outgoing-byte-rate"]: self.sizes.rate(now),
            declared["incoming-byte-rate"]: self.received.rate(now),
            declared["response-rate"]: self.received.frequency(now),
            declared["request-latency-avg"]: self.latency.average(now),
            declared["request-latency-max"]: self.latency.maximum(now),
            declared["throttle-time-avg"]: self.throttled.average(now),
            declared["throttle-time-max"]: self.throttled.maximum(now),
        }


def _traffic(group: str) -> Mapping[str, Metric]:
    """The metrics of `_Traffic`, in this group."""
    declared = (
        _metric("request-rate", group, "rate", "requests that were sent, per second"),
        _metric("request-size-avg", group, "average", "bytes of an answered request"),
        _metric("request-size-max", group, "maximum", "bytes of an answered request"),
        _metric("outgoing-byte-rate", group, "rate", "bytes of answered requests, per second"),
        _metric("incoming-byte-rate", group, "rate", "bytes of answers, per second"),
        _metric("response-rate", group, "rate", "answers, per second"),
        _metric("request-latency-avg", group, "average", "ms until an answer"),
        _metric("request-latency-max", group, "maximum", "ms until an answer"),
        _metric("throttle-time-avg", group, "average", "ms of throttling that an answer asks for"),
        _metric("throttle-time-max", group, "maximum", "ms of throttling that an answer asks for"),
    )
    return {metric.name: metric for metric in declared}


_OF_ALL: Final = _traffic(CONSUMER_METRICS)

#: All metrics of the network actor but those of each node.
METRICS: Final = (
    *(REQUESTS, RESPONSES, IN_FLIGHT, CONNECTIONS, OPENED, CLOSED, NETWORK_IO),
    *_OF_ALL.values(),
    *(LAST_HEARTBEAT, LAST_HEARTBEAT_ANSWER),
    *(
        metric
        for one in _APIS.values()
        for metric in (one.total, one.rate, one.average, one.maximum)
    ),
)


class NetworkMetrics:
    """Owns what the network actor has counted. Nodes have kafka-python's names: "1",
    "coordinator-1", "bootstrap-0"."""

    def __init__(self, samples: int, window: float) -> None:
        def new() -> Sensor:
            return Sensor(samples, window)

        self._new = new
        self._all = _Traffic(new)
        self._nodes: dict[str, tuple[_Traffic, Mapping[str, Metric]]] = {}
        self._apis = {name: new() for name in _APIS}
        self._opened, self._closed = new(), new()
        self._heartbeat_sent = self._heartbeat_answered = -math.inf

    def opened(self, now: float) -> None:
        """A connection was opened."""
        self._opened.record(1.0, now)

    def closed(self, now: float) -> None:
        """A connection was closed, by either side."""
        self._closed.record(1.0, now)

    def sent(self, link: str, api: str, now: float) -> None:
        """A request of this API is sent on the link of this name."""
        self._all.sent.record(1.0, now)
        self._node(link).sent.record(1.0, now)
        if METERED.get(api) is _HEARTBEATS:
            self._heartbeat_sent = now

    def answered(
        self,
        link: str,
        api: str,
        now: float,
        *,
        seconds: float,
        sizes: tuple[int, int],
        throttle: float,
    ) -> None:
        """A request was answered after `seconds`. `sizes`: of the request and of the answer."""
        ms, throttle_ms = seconds * 1000.0, throttle * 1000.0
        for traffic in (self._all, self._node(link)):
            traffic.answered(now, ms=ms, sizes=sizes, throttle_ms=throttle_ms)
        metered = METERED.get(api)
        if metered is not None:
            self._apis[metered.total.name].record(ms, now)
            if metered is _HEARTBEATS:
                self._heartbeat_answered = now

    def _node(self, link: str) -> _Traffic:
        found = self._nodes.get(link)
        if found is None:
            name = link.removesuffix("-fetch")
            if name.startswith("join-"):
                name = f"coordinator-{name.removeprefix('join-')}"
            found = self._nodes.get(name) or (
                _Traffic(self._new),
                _traffic(f"{NODE_METRICS}.node-{name}"),
            )
            self._nodes[name] = self._nodes[link] = found
        return found[0]

    def measure(self, now: float, *, connections: int, in_flight: int) -> dict[Metric, float]:
        """The values as of now."""
        received = self._all.received
        found = {
            REQUESTS: self._all.sent.count,
            RESPONSES: received.count,
            IN_FLIGHT: in_flight,
            CONNECTIONS: connections,
            OPENED: self._opened.frequency(now),
            CLOSED: self._closed.frequency(now),
            NETWORK_IO: self._all.sent.frequency(now) + received.frequency(now),
            LAST_HEARTBEAT: now - self._heartbeat_sent,
            LAST_HEARTBEAT_ANSWER: now - self._heartbeat_answered,
            **self._all.measure(_OF_ALL, now),
        }
        for name, metered in _APIS.items():
            sensor = self._apis[name]
            found[metered.total] = sensor.count
            found[metered.rate] = sensor.frequency(now)
            found[metered.average] = sensor.average(now)
            found[metered.maximum] = sensor.maximum(now)
        for traffic, declared in self._nodes.values():
            found.update(traffic.measure(declared, now))
        return found


def milliseconds(seconds: float) -> float:
    """Milliseconds, as traces have them: exact to the microsecond."""
    return round(seconds * 1000.0, 3)
