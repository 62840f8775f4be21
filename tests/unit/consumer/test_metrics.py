"""What `metrics()` returns: kafka-python's groups, over what was counted."""

from __future__ import annotations

import sys
from typing import Any

from kafka.metrics import KafkaMetric

from aktor.actors.network.metrics import METRICS
from aktor.consumer.metrics import ConsumerMetrics
from aktor.events.lifecycle import ActorStatus
from tests.unit.consumer.core.builders import EngineHarness, a_consumer
from tests.unit.consumer.core.builders_chunks import OVERHEAD, A, B, a_chunk

FETCH = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
CONSUMER = "consumer-metrics"


def an_actor(name: str, *, incarnation: int = 1, **counters: float) -> ActorStatus:
    declared = {metric.name: metric for metric in METRICS}
    counted = {declared[one]: value for one, value in counters.items()}
    return ActorStatus(name=name, incarnation=incarnation, dead_letters=0, counters=counted)


def metrics_of(harness: EngineHarness, *actors: ActorStatus) -> Any:
    return ConsumerMetrics({"client_id": "app"}).snapshot(harness.engine, actors, raw=False)


def test_records_and_bytes_are_counted_as_they_are_given_out() -> None:
    harness = a_consumer()
    harness.fetched(first := a_chunk(count=3), second := a_chunk(offset=3, count=3))
    harness.poll(limit=4)

    fetch = metrics_of(harness)[FETCH]

    assert fetch["records-consumed-total"] == 4
    assert fetch["bytes-consumed-total"] == first.size - OVERHEAD
    assert fetch["buffered-bytes"] == second.size


def test_the_largest_lag_counts_from_the_position_to_the_end() -> None:
    harness = a_consumer(A, B)
    harness.fetched(
        a_chunk(A, count=3, epoch=1, high_watermark=10),
        a_chunk(B, 0, count=3, epoch=2, high_watermark=4),
    )
    harness.poll()

    assert metrics_of(harness)[FETCH]["records-lag-max"] == 7
    assert metrics_of(harness)[COORDINATOR]["assigned-partitions"] == 2


def test_nothing_fetched_is_no_lag() -> None:
    assert metrics_of(a_consumer())[FETCH]["records-lag-max"] == 0


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


def test_restarts_are_counted_for_each_actor() -> None:
    said = metrics_of(a_consumer(), an_actor("fetch"), an_actor("commits", incarnation=3))

    assert said[CONSUMER]["fetch-restarts-total"] == 0
    assert said[CONSUMER]["commits-restarts-total"] == 2


def test_a_later_snapshot_has_the_later_values() -> None:
    harness, metrics = a_consumer(), ConsumerMetrics({"client_id": "app"})
    metrics.snapshot(harness.engine, (an_actor("fetch", **{"fetch-total": 1}),), raw=False)
    harness.fetched(a_chunk(count=3))
    harness.poll()

    said = metrics.snapshot(harness.engine, (an_actor("fetch", **{"fetch-total": 5}),), raw=False)

    assert said[FETCH]["fetch-total"] == 5
    assert said[FETCH]["records-consumed-total"] == 3


def test_raw_metrics_are_kafka_pythons_objects_tagged_with_the_client() -> None:
    metrics = ConsumerMetrics({"client_id": "app"})

    raw = metrics.snapshot(a_consumer().engine, (), raw=True)

    assert raw
    assert all(isinstance(one, KafkaMetric) for one in raw.values())
    assert {name.tags["client-id"] for name in raw} == {"app"}
    assert all(name.description for name in raw)
    values = {name.name: metric.value() for name, metric in raw.items()}
    assert values["assigned-partitions"] == 1


def test_a_signal_handler_may_look_in_the_middle_of_a_look() -> None:
    """Whatever it hits, and although it may be the first that sees an actor's counters."""
    engine = a_consumer().engine
    actors = (an_actor("fetch", **{"fetch-total": 5}), an_actor("network", **{"request-total": 4}))
    source = ConsumerMetrics.snapshot.__code__.co_filename
    lines: list[int] = []
    expected = ConsumerMetrics({"client_id": "app"}).snapshot(engine, actors, raw=False)

    def look(at: int) -> Any:
        metrics, count = ConsumerMetrics({"client_id": "app"}), 0

        def on_line(frame: Any, event: str, _arg: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename != source:
                return None
            if event == "line":
                count += 1
                if count == at:  # (nothing is traced while a tracer runs)
                    assert metrics.snapshot(engine, actors, raw=False) == expected
            return on_line

        sys.settrace(on_line)
        try:
            said = metrics.snapshot(engine, actors, raw=False)
        finally:
            sys.settrace(None)
        lines.append(count)
        return said

    assert look(0) == expected
    for at in range(1, lines[0] + 1):
        assert look(at) == expected
