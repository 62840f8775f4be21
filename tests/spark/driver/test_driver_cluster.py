"""The requests of the driver that fail: which of them are sent again, and what the user is told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from kafka.structs import TopicPartition

from aktor.broker import EmbeddedKafka
from aktor.broker.codes import Code
from aktor.broker.faults import FailWith, Fault
from aktor.errors import AuthenticationError, BootstrapError, ConfigurationError
from aktor.spark.driver.cluster import DriverCluster
from aktor.spark.options.source import read_options

A = TopicPartition("orders", 0)


@contextmanager
def a_cluster(servers: str, **given: Any) -> Iterator[tuple[DriverCluster, list[float]]]:
    """The driver's cluster, and the waits between its attempts, which take no time here."""
    named = {name.replace("__", "."): str(value) for name, value in given.items()}
    options = read_options(
        {"kafka.bootstrap.servers": servers, "subscribe": "orders"} | named, stream=True
    )
    waits: list[float] = []
    cluster = DriverCluster(options, sleep=waits.append)
    try:
        yield cluster, waits
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(topics={"orders": 2}) as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def _no_faults(kafka: EmbeddedKafka) -> Iterator[None]:
    yield
    kafka.clear_faults()


def test_a_sample_at_records_that_were_deleted_is_taken_behind_them() -> None:
    with EmbeddedKafka(topics={"orders": 1}) as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        for number in range(1000):
            producer.send("orders", b"%0100d" % number)
        producer.close()
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        admin.delete_records({A: 990})
        admin.close()
        with a_cluster(kafka.bootstrap_servers) as (cluster, _):
            size = cluster.bytes_per_offset(A, 0)

    assert size is not None
    assert 100 <= size < 150


def test_offsets_are_looked_up_again_without_asking_who_leads_the_partitions(
    kafka: EmbeddedKafka,
) -> None:
    """An idle query asks several times a second."""
    with a_cluster(kafka.bootstrap_servers, kafka__default__api__timeout__ms=5000) as (cluster, _):
        there, _ = cluster.partitions()
        before = cluster.end_offsets(there)
        kafka.inject(Fault(api="Metadata", action=FailWith(Code.LEADER_NOT_AVAILABLE), times=None))

        assert cluster.end_offsets(there) == before
        assert cluster.beginning_offsets(there).keys() == set(there)


def test_partitions_that_are_added_and_topics_that_are_created_anew_are_looked_up_at_once() -> None:
    with (
        EmbeddedKafka(topics={"orders": 2}) as kafka,
        a_cluster(kafka.bootstrap_servers) as (cluster, waits),
    ):
        there, before = cluster.partitions()
        assert len(cluster.end_offsets(there)) == 2
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        admin.create_partitions({"orders": NewPartitions(3)})

        there, _ = cluster.partitions()
        assert len(cluster.end_offsets(there)) == 3

        admin.delete_topics(["orders"])
        admin.create_topics([NewTopic("orders", 4, 1)])
        admin.close()
        there, anew = cluster.partitions()
        assert len(cluster.end_offsets(there)) == 4

    assert anew != before
    assert waits == []


# -- a query that is idle waits for a record


def a_record(kafka: EmbeddedKafka, partition: int) -> None:
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)) as producer:
        producer.send("orders", b"1", partition=partition).get()


def test_who_waits_for_a_record_hears_of_it_and_of_the_next_one() -> None:
    with (
        EmbeddedKafka(topics={"orders": 2}) as kafka,
        a_cluster(kafka.bootstrap_servers) as (cluster, _),
    ):
        there, _ = cluster.partitions()
        for partition in (0, 1, 1, 0):
            ends = cluster.end_offsets(there)
            coming = threading.Timer(0.3, a_record, (kafka, partition))
            coming.start()
            began = time.monotonic()

            cluster.await_record(ends, 120)

            assert time.monotonic() - began < 60
            coming.join()
            ends[TopicPartition("orders", partition)] += 1
            assert cluster.end_offsets(there) == ends


def test_after_a_record_nothing_is_fetched_ahead_and_a_wait_may_end_without_one() -> None:
    with (
        EmbeddedKafka(topics={"orders": 2}) as kafka,
        a_cluster(kafka.bootstrap_servers) as (cluster, _),
    ):
        there, _ = cluster.partitions()
        ends = cluster.end_offsets(there)

        cluster.await_record(ends, 0.01)
        assert cluster._kafka().paused() == set()
        a_record(kafka, 0)
        cluster.await_record(ends, 120)
        assert cluster._kafka().paused() == set(there)

        cluster.await_record(cluster.end_offsets(there), 0.01)
        assert cluster._kafka().paused() == set()
        assert cluster.bytes_per_offset(A, 0) is not None


@pytest.mark.parametrize("code", [Code.TOPIC_AUTHORIZATION_FAILED, Code.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_wait_in_which_nobody_may_read_ends_without_an_error(
    kafka: EmbeddedKafka, code: Code
) -> None:
    """The look-up of the ends, which comes next, tells of what does not pass."""
    with a_cluster(kafka.bootstrap_servers) as (cluster, _):
        there, _ = cluster.partitions()
        ends = cluster.end_offsets(there)
        kafka.inject(Fault(api="Fetch", action=FailWith(code), times=None))

        cluster.await_record(ends, 1)

        assert cluster.end_offsets(there) == ends


# -- no answer in all the time that a request has


def test_brokers_that_never_answer_are_waited_for_once_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            a_cluster(address, kafka__default__api__timeout__ms=3000) as (cluster, waits),
            pytest.raises(KafkaTimeoutError, match=rf"\(kafka\.bootstrap\.servers: {address}"),
        ):
            cluster.partitions()

    assert waits == []


def test_a_broker_that_names_no_brokers_is_waited_for_once_and_named(kafka: EmbeddedKafka) -> None:
    kafka.inject(Fault(api="Metadata", action=FailWith(Code.LEADER_NOT_AVAILABLE), times=None))
    servers = kafka.bootstrap_servers
    with (
        a_cluster(servers, kafka__default__api__timeout__ms=1000) as (cluster, waits),
        pytest.raises(KafkaTimeoutError, match=f"names no broker.*{servers}"),
    ):
        cluster.partitions()

    assert waits == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda cluster: cluster.beginning_offsets([A]),
        lambda cluster: cluster.end_offsets([A]),
        lambda cluster: cluster.offsets_for_times({A: 5}),
    ],
)
def test_offsets_are_asked_for_as_long_as_one_call_may_take(
    kafka: EmbeddedKafka, ask: Callable[[DriverCluster], Any]
) -> None:
    refused = FailWith(Code.NOT_LEADER_OR_FOLLOWER)
    kafka.inject(Fault(api="ListOffsets", action=refused, times=None))
    with a_cluster(kafka.bootstrap_servers, kafka__default__api__timeout__ms=1000) as found:
        cluster, waits = found
        with pytest.raises(KafkaTimeoutError, match=r"within 1\.0 s for orders-0"):
            ask(cluster)

    assert waits == []


def test_servers_that_refuse_the_connection_are_tried_again_as_the_options_say() -> None:
    with a_cluster(
        "127.0.0.1:1", fetchOffset__numRetries=1, fetchOffset__retryIntervalMs=700
    ) as found:
        cluster, waits = found
        with pytest.raises(BootstrapError, match=r"127\.0\.0\.1:1: Connection refused") as error:
            cluster.partitions()

    assert waits == [0.7]
    assert "Check kafka.bootstrap.servers, the port and kafka.security.protocol" in str(error.value)


# -- errors that do not pass


def test_a_refusal_is_raised_at_once(kafka: EmbeddedKafka) -> None:
    for api, code in (
        ("ListOffsets", Code.TOPIC_AUTHORIZATION_FAILED),
        ("OffsetFetch", Code.GROUP_AUTHORIZATION_FAILED),
    ):
        kafka.inject(Fault(api=api, action=FailWith(code)))
    with a_cluster(kafka.bootstrap_servers, kafka__group__id="g") as (cluster, waits):
        with pytest.raises(TopicAuthorizationFailedError, match="orders"):
            cluster.end_offsets([A])
        with pytest.raises(GroupAuthorizationFailedError, match="g"):
            cluster.committed([A])

        assert waits == []
        assert cluster.end_offsets([A]) == {A: 0}, "the fault was for one request"


def test_a_wrong_password_is_raised_at_once() -> None:
    login = {
        "kafka__security__protocol": "SASL_PLAINTEXT",
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__sasl__username": "alice",
        "kafka__sasl__password": "wrong",
    }
    with (
        EmbeddedKafka(users={"alice": "right"}) as kafka,
        a_cluster(kafka.bootstrap_servers, **login) as (cluster, waits),
        pytest.raises(AuthenticationError, match=kafka.bootstrap_servers),
    ):
        cluster.partitions()

    assert waits == []


def test_a_reference_that_stands_for_nothing_is_raised_at_once() -> None:
    with (
        a_cluster("127.0.0.1:1", kafka__client__rack="${env:NOT_SET_ANYWHERE}") as (cluster, waits),
        pytest.raises(ConfigurationError, match="stands for nothing in this process"),
    ):
        cluster.partitions()

    assert waits == []
