"""What `metrics()` returns: kafka-python's groups and names, over what was measured."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.metrics import AnonMeasurable, KafkaMetric, MetricName
from kafka.metrics.metrics_reporter import AbstractMetricsReporter
from kafka.structs import TopicPartition

from aktor.actors.network.metrics import METRICS, NetworkMetrics
from aktor.consumer.configuration.configuration import DEFAULT_CONFIG
from aktor.consumer.metrics import FRESH, OF_ENGINE, ConsumerMetrics
from aktor.events.lifecycle import ActorStatus
from aktor.events.positions import EndsListed, LogEnd
from aktor.managers.fetch.metrics import METRICS as OF_FETCHES
from aktor.managers.fetch.metrics import FetchMetrics
from aktor.managers.fetch.session import FetchSession
from aktor.managers.membership.metrics import RebalanceMetrics
from aktor.trace import recording
from aktor.values import replace
from tests.unit.consumer.core.builders import EngineHarness, a_consumer
from tests.unit.consumer.core.builders_chunks import OVERHEAD, A, B, a_chunk

FETCH = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
CONSUMER = "consumer-metrics"
NODE = "consumer-node-metrics.node-"

#: The groups and names of kafka-python 3.0, but for those of each node, which are `OF_A_NODE`.
OF_KAFKA_PYTHON: dict[str, set[str]] = {
    "kafka-metrics-count": {"count"},
    CONSUMER: {
        *("connection-close-rate", "connection-count", "connection-creation-rate"),
        *("incoming-byte-rate", "network-io-rate", "outgoing-byte-rate", "request-latency-avg"),
        *("request-latency-max", "request-rate", "request-size-avg", "request-size-max"),
        *("response-rate", "throttle-time-avg", "throttle-time-max"),
    },
    COORDINATOR: {
        *("assigned-partitions", "commit-latency-avg", "commit-latency-max", "commit-rate"),
        *("heartbeat-rate", "heartbeat-response-time-max", "join-rate", "join-time-avg"),
        *("join-time-max", "last-heartbeat-seconds-ago", "sync-rate", "sync-time-avg"),
        "sync-time-max",
    },
    FETCH: {
        *("bytes-consumed-rate", "fetch-latency-avg", "fetch-latency-max", "fetch-rate"),
        *("fetch-size-avg", "fetch-size-max", "records-consumed-rate", "records-lag-max"),
        "records-per-request-avg",
    },
}
OF_A_NODE = {
    *("incoming-byte-rate", "outgoing-byte-rate", "request-latency-avg", "request-latency-max"),
    *("request-rate", "request-size-avg", "request-size-max", "response-rate"),
    *("throttle-time-avg", "throttle-time-max"),
}


def an_actor(name: str, *, incarnation: int = 1, **counters: float) -> ActorStatus:
    declared = {metric.name: metric for metric in (*METRICS, *OF_FETCHES)}
    counted = {declared[one]: value for one, value in counters.items()}
    return ActorStatus(name=name, incarnation=incarnation, dead_letters=0, counters=counted)


class Measured:
    """A consumer's metrics, measured of an engine and of what actors say they have measured."""

    def __init__(self, harness: EngineHarness, *actors: ActorStatus, **configs: Any) -> None:
        self.harness = harness
        self.actors: tuple[ActorStatus, ...] = actors
        self.measured = 0
        self.metrics = ConsumerMetrics({**DEFAULT_CONFIG, "client_id": "app", **configs}, OF_ENGINE)
        self.metrics.begin(self.measure, harness.clock)

    def measure(self) -> None:
        self.measured += 1
        self.metrics.update(self.harness.engine, self.actors)

    def grouped(self) -> dict[str, dict[str, float]]:
        self.measure()
        return self.metrics.grouped()


def metrics_of(harness: EngineHarness, *actors: ActorStatus, **configs: Any) -> Any:
    return Measured(harness, *actors, **configs).grouped()


class Reporter(AbstractMetricsReporter):  # type: ignore[misc]  # kafka-python is untyped
    """A reporter, as an exporter for some monitoring is one."""

    made: list[Reporter] = []  # noqa: RUF012

    def __init__(self) -> None:
        Reporter.made.append(self)
        self.metrics: dict[MetricName, KafkaMetric] = {}
        self.is_closed = False

    def init(self, metrics: Iterable[KafkaMetric]) -> None:
        assert list(metrics) == []

    def metric_change(self, metric: KafkaMetric) -> None:
        self.metrics[metric.metric_name] = metric

    def metric_removal(self, metric: KafkaMetric) -> None:
        del self.metrics[metric.metric_name]

    def configure(self, configs: object) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    def value(self, name: str) -> float:
        (found,) = [one for key, one in self.metrics.items() if key.name == name]
        value: float = found.value()
        return value


def a_reporter() -> Reporter:
    return Reporter.made[-1]


def test_every_metric_of_kafka_python_is_there_before_anything_was_measured() -> None:
    said = metrics_of(a_consumer())

    for group, names in OF_KAFKA_PYTHON.items():
        assert names - said[group].keys() == set()


def test_a_node_has_kafka_pythons_metrics_in_a_group_of_its_own() -> None:
    network = NetworkMetrics(2, 30.0)
    for link in ("1", "1-fetch", "coordinator-1", "join-1", "bootstrap-0"):
        network.sent(link, "Metadata", 10.0)
        network.answered(link, "Metadata", 10.5, seconds=0.5, sizes=(30, 70), throttle=0.0)
    counters = network.measure(11.0, connections=3, in_flight=0)

    actor = ActorStatus(name="network", incarnation=1, dead_letters=0, counters=counters)
    said = metrics_of(a_consumer(), actor)

    for node, requests in (("1", 2), ("coordinator-1", 2), ("bootstrap-0", 1)):
        assert said[NODE + node].keys() == OF_A_NODE
        assert said[NODE + node]["request-latency-avg"] == 500.0
        assert said[NODE + node]["request-size-max"] == 30.0
        assert said[NODE + node]["request-rate"] == pytest.approx(requests / 31.0)
    assert said[CONSUMER]["incoming-byte-rate"] == pytest.approx(5 * 70 / 30.5)


def test_records_and_bytes_are_counted_as_they_are_given_out() -> None:
    harness = a_consumer()
    harness.fetched(first := a_chunk(count=3), second := a_chunk(offset=3, count=3))
    harness.poll(limit=4)

    fetch = metrics_of(harness)[FETCH]

    assert fetch["records-consumed-total"] == 4
    assert fetch["bytes-consumed-total"] == first.size - OVERHEAD
    assert fetch["buffered-bytes"] == second.size


def test_rates_are_over_the_windows_and_pass_with_them() -> None:
    harness = a_consumer(metrics_sample_window=10.0)
    harness.fetched(chunk := a_chunk(count=3))
    harness.poll()
    harness.clock.now += 5.0

    fetch = metrics_of(harness)[FETCH]
    harness.clock.now += 15.0
    later = metrics_of(harness)[FETCH]

    assert fetch["records-consumed-rate"] == pytest.approx(3 / 15.0)  # one whole window, and a half
    assert fetch["bytes-consumed-rate"] == pytest.approx((chunk.size - OVERHEAD) / 15.0)
    assert later["records-consumed-rate"] == later["bytes-consumed-rate"] == 0.0


def test_a_topic_has_its_own_rates() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, count=3, epoch=1), a_chunk(B, 0, count=2, epoch=2))
    harness.poll()

    said = metrics_of(harness)

    assert A.topic == B.topic
    assert said[f"{FETCH}.{A.topic}"]["records-consumed-rate"] == pytest.approx(5 / 30.0)


def test_a_topic_of_which_nothing_was_read_lately_is_forgotten_when_another_one_comes() -> None:
    other = TopicPartition("others", 0)
    harness = a_consumer(A, other, metrics_sample_window=10.0)
    harness.fetched(a_chunk(A, count=3, epoch=1))
    harness.poll()
    measured = Measured(harness)
    measured.measure()
    harness.clock.now += 20.0
    harness.fetched(a_chunk(other, count=3, epoch=2))
    harness.poll()

    said = measured.grouped()

    assert f"{FETCH}.{A.topic}" not in said
    assert said[f"{FETCH}.others"]["records-consumed-rate"] == pytest.approx(3 / 10.0)


def test_the_sizes_of_fetches_are_measured_in_all_and_by_topic() -> None:
    fetches, session = FetchMetrics(2, 10.0), FetchSession()
    for now, sizes in ((1.0, {"a": 10, "b": 20}), (2.0, {"a": 30}), (3.0, {})):
        partitions = [
            SimpleNamespace(topic=topic, records=bytes(size)) for topic, size in sizes.items()
        ]
        fetches.answered(cast(Any, partitions), sum(sizes.values()), now, session=session)
    fetches.answered([], 0, 21.5, session=session)

    def found(now: float) -> dict[tuple[str, Any], float]:
        values = fetches.measure(now)
        return {(one.name, dict(one.tags).get("topic")): value for one, value in values.items()}

    assert found(4.0)["fetch-size-avg", None] == 30.0
    assert found(4.0)["fetch-size-max", None] == 30.0
    assert found(4.0)["fetch-size-avg", "a"] == 20.0
    assert found(4.0)["fetch-size-max", "b"] == 20.0
    assert found(30.0)["fetch-size-avg", None] == 0.0


def test_records_per_request_are_those_in_an_average_fetch() -> None:
    harness = a_consumer()
    harness.fetched(chunk := a_chunk(count=3))
    harness.poll()
    size = chunk.size - OVERHEAD

    fetch = metrics_of(harness, an_actor("fetch", **{"fetch-size-avg": 10 * size}))[FETCH]

    assert fetch["records-per-request-avg"] == pytest.approx(30.0)


def test_the_largest_lag_counts_from_the_position_to_the_end() -> None:
    harness = a_consumer(A, B)
    harness.fetched(
        a_chunk(A, count=3, epoch=1, high_watermark=10),
        a_chunk(B, 0, count=3, epoch=2, high_watermark=4),
    )
    harness.poll()

    said = metrics_of(harness)

    assert said[FETCH]["records-lag-max"] == 7
    assert said[FETCH]["records-lag-avg"] == 4
    assert said[COORDINATOR]["assigned-partitions"] == 2
    assert said[f"{FETCH}.{A.topic}-{A.partition}"]["records-lag"] == 7
    assert said[f"{FETCH}.{B.topic}-{B.partition}"]["records-lag"] == 1


def test_the_lag_of_a_partition_that_is_paused_is_left_out_and_not_one_of_long_ago() -> None:
    harness = a_consumer(A, B)
    harness.fetched(
        a_chunk(A, count=3, epoch=1, high_watermark=10),
        a_chunk(B, 0, count=3, epoch=2, high_watermark=4),
    )
    harness.poll()
    harness.clock.now += 60.0
    harness.engine.pause([A], paused=True)
    harness.clock.now += 1.9
    assert metrics_of(harness)[f"{FETCH}.{A.topic}-{A.partition}"]["records-lag"] == 7
    harness.clock.now += 0.2

    said = metrics_of(harness)

    assert "records-lag" not in said.get(f"{FETCH}.{A.topic}-{A.partition}", {})
    assert said[f"{FETCH}.{B.topic}-{B.partition}"]["records-lag"] == 1
    assert said[FETCH]["records-lag-max"] == 7  # as told last

    end = LogEnd(offset=13, at=harness.clock.now - 0.5)
    harness.port.handle(EndsListed(ends={A: end, B: replace(end, at=harness.clock.now - 90.0)}))
    said = metrics_of(harness)

    assert said[f"{FETCH}.{A.topic}-{A.partition}"]["records-lag"] == 10
    assert said[f"{FETCH}.{B.topic}-{B.partition}"]["records-lag"] == 1  # a Fetch has told it since
    assert said[FETCH]["records-lag-max"] == 10


def test_the_largest_lag_is_that_of_the_windows_also_when_the_rest_was_read_since() -> None:
    harness = a_consumer(metrics_sample_window=10.0)
    harness.fetched(a_chunk(count=9, high_watermark=9))
    harness.poll(limit=2)
    harness.poll()

    fetch = metrics_of(harness)[FETCH]
    harness.clock.now += 20.0
    later = metrics_of(harness)[FETCH]

    assert fetch["records-lag-max"] == 7
    assert later["records-lag-max"] == 0


def test_the_lead_counts_from_the_beginning_of_the_log_to_the_position() -> None:
    harness = a_consumer()
    harness.fetched(replace(a_chunk(count=3), log_start_offset=0))
    harness.poll()

    said = metrics_of(harness)

    assert said[f"{FETCH}.{A.topic}-{A.partition}"]["records-lead"] == 3
    assert said[FETCH]["records-lead-min"] == 3


def test_nothing_fetched_is_no_lag() -> None:
    fetch = metrics_of(a_consumer())[FETCH]

    assert fetch["records-lag-max"] == fetch["records-lag-avg"] == 0
    assert fetch["records-lead-min"] == -1


def test_a_partition_that_has_left_has_no_metrics_any_more() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, count=3, epoch=1, high_watermark=10))
    harness.poll()
    measured = Measured(harness, metric_reporters=[Reporter])
    measured.measure()
    assert a_reporter().value("records-lag") == 7

    harness.assign([B])
    measured.measure()

    assert "records-lag" not in {name.name for name in a_reporter().metrics}
    assert f"{FETCH}.{A.topic}-{A.partition}" not in measured.grouped()


def test_what_is_counted_stands_in_the_group_that_kafka_python_has_for_it() -> None:
    counted = {
        "fetch-latency-avg": 1.0,
        "commit-latency-max": 2.0,
        "heartbeat-total": 3.0,
        "request-total": 4.0,
    }
    said = metrics_of(a_consumer(), an_actor("network", **counted))

    assert said[FETCH]["fetch-latency-avg"] == 1.0
    assert said[COORDINATOR]["commit-latency-max"] == 2.0
    assert said[COORDINATOR]["heartbeat-total"] == 3.0
    assert said[CONSUMER]["request-total"] == 4.0


def test_the_prefix_of_the_groups_is_a_setting() -> None:
    said = metrics_of(a_consumer(), metric_group_prefix="billing")

    assert {group for group in said if group.startswith("consumer")} == set()
    assert "assigned-partitions" in said["billing-coordinator-metrics"]


def test_restarts_are_counted_for_each_actor() -> None:
    said = metrics_of(a_consumer(), an_actor("fetch"), an_actor("commits", incarnation=3))

    assert said[CONSUMER]["fetch-restarts-total"] == 0
    assert said[CONSUMER]["commits-restarts-total"] == 2


def test_a_later_snapshot_has_the_later_values() -> None:
    measured = Measured(a_consumer(), an_actor("fetch", **{"fetch-total": 1}))
    measured.measure()
    measured.harness.fetched(a_chunk(count=3))
    measured.harness.poll()
    measured.actors = (an_actor("fetch", **{"fetch-total": 5}),)

    said = measured.grouped()

    assert said[FETCH]["fetch-total"] == 5
    assert said[FETCH]["records-consumed-total"] == 3


def test_what_the_actors_said_last_stays_when_they_do_not_answer() -> None:
    measured = Measured(a_consumer(), an_actor("fetch", **{"fetch-total": 5}))
    measured.measure()
    measured.actors = ()

    assert measured.grouped()[FETCH]["fetch-total"] == 5


def test_raw_metrics_are_kafka_pythons_objects_tagged_with_the_client() -> None:
    measured = Measured(a_consumer())
    measured.measure()

    raw = measured.metrics.raw()

    assert raw
    assert all(isinstance(one, KafkaMetric) for one in raw.values())
    assert {name.tags["client-id"] for name in raw} == {"app"}
    assert all(name.description for name in raw)
    values = {name.name: metric.value() for name, metric in raw.items()}
    assert values["assigned-partitions"] == 1


def test_metrics_of_the_users_own_are_shown_with_ours() -> None:
    measured = Measured(a_consumer())
    registry = measured.metrics.registry
    registry.add_metric(registry.metric_name("orders", "shop"), AnonMeasurable(lambda _c, _n: 7))

    assert measured.grouped()["shop"] == {"orders": 7}


def test_a_reporter_reads_values_that_are_measured_anew_and_not_for_each_metric() -> None:
    measured = Measured(a_consumer(), metric_reporters=[Reporter])
    assert a_reporter().value("assigned-partitions") == 1

    measured.harness.assign([A, B])
    assert a_reporter().value("assigned-partitions") == 1
    measured.harness.clock.now += 2 * FRESH
    assert a_reporter().value("assigned-partitions") == 2
    assert [one.value() for one in a_reporter().metrics.values()]

    assert measured.measured == 2


def test_a_reporter_is_told_of_each_metric_from_the_start() -> None:
    metrics = ConsumerMetrics({**DEFAULT_CONFIG, "metric_reporters": [Reporter]}, OF_ENGINE)

    told = {name.name for name in a_reporter().metrics}
    assert told >= {name for names in OF_KAFKA_PYTHON.values() for name in names}
    assert a_reporter().value("fetch-latency-max") == -math.inf
    assert metrics.grouped()[FETCH]["fetch-latency-max"] == -math.inf


def test_reporters_are_closed_with_the_consumer_also_those_after_one_that_fails() -> None:
    class Failing(Reporter):
        def close(self) -> None:
            raise ZeroDivisionError

    metrics = ConsumerMetrics(
        {**DEFAULT_CONFIG, "metric_reporters": [Reporter, Failing]}, OF_ENGINE
    )
    log, events = recording()
    metrics.close(log)
    metrics.close(log)

    assert [reporter.is_closed for reporter in Reporter.made[-2:]] == [True, False]
    assert [event["event"] for event in events] == ["close.failed"]


@pytest.mark.parametrize(
    ("lived", "total", "failed", "last"),
    [
        ("begun completed", 1, 0, 5.0),
        ("begun begun completed", 1, 1, 5.0),
        ("begun failed", 0, 1, -1.0),
        ("begun left begun completed", 1, 0, 5.0),
        ("begun completed failed", 1, 0, 5.0),
    ],
)
def test_a_rebalance_is_completed_or_has_failed(
    lived: str, total: int, failed: int, last: float
) -> None:
    rebalances = RebalanceMetrics(2, 30.0)
    for step in lived.split():
        act = getattr(rebalances, step)
        act({"begun": 10.0, "completed": 10.25}[step]) if step in ("begun", "completed") else act()

    found = {metric.name: value for metric, value in rebalances.measure(15.25).items()}

    assert found["rebalance-total"] == total
    assert found["failed-rebalance-total"] == failed
    assert found["last-rebalance-seconds-ago"] == last
    assert found["rebalance-latency-avg"] == found["rebalance-latency-total"] == 250.0 * total


def test_a_signal_handler_may_look_in_the_middle_of_a_look() -> None:
    """Whatever it hits, and although it may be the first that sees an actor's counters."""
    harness = a_consumer()
    actors = (an_actor("fetch", **{"fetch-total": 5}), an_actor("network", **{"request-total": 4}))
    source = ConsumerMetrics.update.__code__.co_filename
    lines: list[int] = []
    expected = metrics_of(harness, *actors)

    def look(at: int) -> Any:
        measured, count = Measured(harness, *actors), 0

        def on_line(frame: Any, event: str, _arg: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename != source:
                return None
            if event == "line":
                count += 1
                if count == at:  # (nothing is traced while a tracer runs)
                    assert measured.grouped() == expected
            return on_line

        sys.settrace(on_line)
        try:
            said = measured.grouped()
        finally:
            sys.settrace(None)
        lines.append(count)
        return said

    assert look(0) == expected
    for at in range(1, lines[0] + 1, max(1, lines[0] // 150)):
        assert look(at) == expected
