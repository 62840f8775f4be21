"""What programs and tools do around a consumer: they find the same with ours.

kafka-python's consumer is the control: each expression is evaluated on both.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import kafka as kafka_python
import pytest
from kafka.structs import TopicPartition

import aktor
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import numbered, wait_until

pytestmark = pytest.mark.ours("attributes, metrics and agents are of the client")

#: Expressions of which both consumers, `c`, have the same value. `tp` is a partition of `topic`.
SAME = (
    "isinstance(c, kafka.KafkaConsumer)",
    "c._closed",
    "sorted(c._client.cluster.brokers())",
    "c._client.cluster.cluster_id",
    "topic in c._client.cluster.topics()",
    "topic in c._client.cluster._topics",
    "c._client.cluster.partitions_for_topic(topic)",
    "c._client.cluster.available_partitions_for_topic(topic)",
    "c._client.cluster.leader_for_partition(tp)",
    "c._client.cluster.leader_epoch_for_partition(tp)",
    "c._client.cluster.topic_id(topic)",
    "c._client.cluster.partitions_for_topic('no such topic')",
    "c._client.cluster.topic_name_for_id(c._client.cluster.topic_id(topic))",
    "c._client.cluster.bootstrap_brokers()",
    "c._client.cluster.is_bootstrap('bootstrap-0')",
    "c._client.cluster.is_bootstrap(1)",
    "c._client.maybe_connect(1)",
    "c._client.check_version()",
    "c.config['api_version']",
    "c.bootstrap(timeout_ms=5000)",
    "c._client.ready(c._client.cluster.brokers()[0].node_id)",
    "type(c._client.in_flight_request_count())",
    "sorted(c._cluster.brokers())",
    "c._manager.cluster.cluster_id",
    "callable(c._net.wakeup)",
    "c._coordinator.coordinator_id",
    "c._coordinator.coordinator()",
    "c._coordinator.coordinator_unknown()",
    "c._coordinator.ensure_coordinator_ready()",
    "c._coordinator._generation.generation_id > 0",
    "c._coordinator._generation.has_member_id()",
    "c._coordinator._generation.protocol",
    "c._coordinator.generation_if_stable() == c._coordinator._generation",
    "c._coordinator.group_metadata() == c.group_metadata()",
    "c._coordinator.state is kafka.structs.MemberState.STABLE",
    "c._coordinator.need_rejoin()",
    "c._coordinator.heartbeat.last_send > 0",
    "c._coordinator.heartbeat.last_receive > 0",
    "c._coordinator.heartbeat.last_poll > 0",
    "c._coordinator.heartbeat.last_reset > 0",
    "bool(c._coordinator.heartbeat.heartbeat_failed)",
    "c._coordinator.time_to_next_heartbeat() <= 0.3",
    "c._coordinator.config['enable_auto_commit']",
    "c._coordinator.fetch_committed_offsets([tp])",
    "c._coordinator.commit_offsets_sync({})",
    "c._coordinator._subscription.is_assigned(tp)",
    "c._subscription.subscription",
    "sorted(c._subscription.assignment)",
    "c._subscription.assignment[tp].position.offset",
    "c._subscription.assignment[tp].highwater",
    "c._subscription.assignment[tp].paused",
    "c._subscription.assignment[tp].has_valid_position",
    "c._subscription.assignment[tp].awaiting_reset",
    "c._subscription.assignment[tp].is_fetchable()",
    "c._subscription.assigned_partitions()",
    "c._subscription.all_consumed_offsets()[tp].offset",
    "c._subscription.is_assigned(TopicPartition('no such topic', 0))",
    "c._subscription.is_paused(tp)",
    "c._subscription.is_fetchable(tp)",
    "c._subscription.subscribed_pattern",
    "c._subscription.partitions_auto_assigned()",
    "c._subscription._user_assignment",
    "c._subscription.paused_partitions()",
    "sorted(c._subscription.fetchable_partitions())",
    "c._subscription.has_all_fetch_positions()",
    "c._subscription.missing_fetch_positions()",
    "c._subscription.position(tp).offset",
    "c._subscription.group_subscription()",
    "c._subscription.rebalance_listener",
    "c._fetcher._subscriptions.is_assigned(tp)",
    "type(c._fetcher.in_flight_fetches())",
    "c._fetcher._client.cluster.cluster_id",
    "c._fetcher.end_offsets([tp])",
    "c._fetcher.config['max_partition_fetch_bytes']",
    "type(c._metrics)",
    "callable(c._metrics.add_metric)",
    "c._iterator",
    "type(c._consumer_timeout)",
    "c._set_consumer_timeout()",
    "c._refresh_committed_offsets()",
    "c.DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735",
    "c._validate_group_instance_id('x')",
    "callable(c._poll_once)",
    "callable(c._message_generator_v2)",
)


@pytest.fixture
def twenty(kafka: Cluster, topic: str) -> str:
    """A topic with twenty records in four partitions."""
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=4)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for number, value in enumerate(numbered(20)):
            producer.send(topic, value, partition=number % 4)
    return topic


def reading(make: Any, kafka: Cluster, topic: str, group: str, count: int) -> Any:
    """A consumer that has read so many records, and has sent a heartbeat."""
    consumer = make(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        client_id="me",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=300,
    )
    left = count
    while left > 0:
        left -= sum(map(len, consumer.poll(10_000).values()))
    heartbeat = consumer._coordinator.heartbeat
    wait_until(lambda: consumer.poll(50) or heartbeat.last_receive > 0, "no heartbeat was answered")
    return consumer


def test_internal_attributes_have_the_values_of_kafka_pythons(
    kafka: Cluster, twenty: str, unique: Callable[[str], str]
) -> None:
    found = []
    for make in (kafka_python.KafkaConsumer, aktor.KafkaConsumer):
        consumer = reading(make, kafka, twenty, unique("group"), 20)
        known = {
            "c": consumer,
            "kafka": kafka_python,
            "topic": twenty,
            "TopicPartition": TopicPartition,
            "tp": TopicPartition(twenty, 0),
        }
        found.append({expression: eval(expression, known) for expression in SAME})
        consumer.close()
        assert consumer._closed

    assert found[1] == found[0]


def names_of(metrics: dict[str, dict[str, float]]) -> set[tuple[str, str]]:
    """Group and name of all metrics but those of single nodes; and what each node has."""
    return {
        ("a node" if "-node-metrics." in group else group, name)
        for group, of_group in metrics.items()
        for name in of_group
    }


def test_metrics_have_all_of_kafka_pythons_names_and_values_of_the_same_size(
    kafka: Cluster, twenty: str, unique: Callable[[str], str]
) -> None:
    found = []
    for make in (kafka_python.KafkaConsumer, aktor.KafkaConsumer):
        consumer = reading(make, kafka, twenty, unique("group"), 20)
        consumer.commit()
        found.append(consumer.metrics())
        assert {"a node"} <= {group for group, _ in names_of(consumer.metrics())}
        raw = consumer.metrics(raw=True)
        assert {name.tags["client-id"] for name in raw} == {"me"}
        consumer.close()
    theirs, ours = found

    assert names_of(theirs) - names_of(ours) == set()
    for group in ("consumer-fetch-manager-metrics", "consumer-coordinator-metrics"):
        never = {name for name, value in theirs[group].items() if value and not ours[group][name]}
        assert never == set(), "kafka-python has measured these, and aktor has not"
    fetch = ours["consumer-fetch-manager-metrics"]
    assert fetch["records-consumed-rate"] == pytest.approx(
        theirs["consumer-fetch-manager-metrics"]["records-consumed-rate"], rel=0.5
    )
    assert ours["consumer-coordinator-metrics"]["rebalance-total"] == 1
    assert f"consumer-fetch-manager-metrics.{twenty}-0" in ours


@pytest.fixture
def _installed() -> Iterator[None]:
    with aktor.install():
        yield


@pytest.mark.usefixtures("_installed")
def test_an_agent_that_wraps_next_as_opentelemetry_does_sees_each_record(
    kafka: Cluster, twenty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, seen = kafka_python.KafkaConsumer.__next__, []

    def wrapped(self: Any) -> Any:
        record = own(self)
        seen.append((record.topic, record.partition, record.offset, self.config.get("client_id")))
        return record

    monkeypatch.setattr(kafka_python.KafkaConsumer, "__next__", wrapped)
    with kafka_python.KafkaConsumer(
        twenty,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=5000,
        client_id="me",
    ) as consumer:
        read = [next(iter(consumer)) for _ in range(10)]
        read += [record for record, _ in zip(consumer, range(10), strict=False)]

    assert len(read) == len(seen) == 20
    assert [(*record[:2], record.offset, "me") for record in read] == seen
    assert {client for *_, client in seen} == {"me"}


def test_kafka_pythons_own_benchmark_runs_with_ours_and_prints_its_line(
    kafka: Cluster, twenty: str
) -> None:
    program = (
        "import aktor, runpy, sys; aktor.install();"
        " runpy.run_module('kafka.benchmarks.consumer_performance', run_name='__main__')"
    )
    begun = time.monotonic()
    run = subprocess.run(
        [
            *(sys.executable, "-c", program),
            *("-b", *kafka.bootstrap_servers, "-t", twenty, "--num-records", "20"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == 0, run.stderr
    assert "Consumed 20 records" in run.stdout
    assert " records/sec (" in run.stdout
    assert " avg records/req" in run.stdout
    assert time.monotonic() - begun < 60
