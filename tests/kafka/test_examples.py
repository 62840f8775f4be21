"""Every program in examples/ does what it says, on both Kafkas."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaProducer

from aktor import TopicPartition
from aktor.processing import Processed
from examples import (
    bad_record,
    poll_and_commit,
    process_in_order,
    rebalance_listener,
    wait_for_kafka,
    watch_from_another_thread,
)
from tests.gate import all_but_the_first
from tests.kafka.embedded import EmbeddedCluster
from tests.kafka.real.ports import free_ports
from tests.kafka.real.topics import create_topic, produce
from tests.kafka.support import PROMPT_S, ROOT, SOON_S, quick

pytestmark = pytest.mark.ours("what they show of Kafka has its tests on both")

#: A busy machine may stand still before the first record, while the program joins its group.
PATIENT_MS = PROMPT_S * 1000


@pytest.mark.both("it is the first one")
def test_poll_and_commit_reads_everything_once(
    kafka: Any, topic: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=2)
    produce(kafka.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    bootstrap = ",".join(kafka.bootstrap_servers)

    assert poll_and_commit.main(bootstrap, topic, group, idle_ms=PATIENT_MS) == 100
    assert poll_and_commit.main(bootstrap, topic, group, idle_ms=1500) == 0
    assert capsys.readouterr().out.count(topic) == 100


@pytest.mark.both("a group rebalances")
def test_rebalance_listener_commits_what_it_finished(kafka: Any, topic: str, group: str) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=2)
    produce(kafka.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    bootstrap = ",".join(kafka.bootstrap_servers)

    assert rebalance_listener.main(bootstrap, topic, group, idle_ms=PATIENT_MS) == 100
    assert rebalance_listener.main(bootstrap, topic, group, idle_ms=1500) == 0


def test_bad_record_puts_it_aside_and_goes_on(kafka: Any, topic: str, group: str) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=1)
    produce(kafka.bootstrap_servers, topic, [b"1", b"not json", b"3"])

    good, bad = bad_record.main(",".join(kafka.bootstrap_servers), topic, group, idle_ms=PATIENT_MS)

    assert good == [1, 3]
    assert bad == [b"not json"]


def test_process_in_order_bills_what_it_can_and_puts_the_rest_aside(
    kafka: Any, topic: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (topic, f"{topic}-dead"):
        create_topic(kafka.bootstrap_servers, name, partitions=1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for amount in (b'{"amount": 1}', b"not json", b'{"amount": 3}'):
        producer.send(topic, key=b"alice", value=amount)
    producer.close()

    done = process_in_order.main(",".join(kafka.bootstrap_servers), topic, group, idle_ms=3000)

    assert done == Processed(finished=2, dead_lettered=1, retried=2)
    assert capsys.readouterr().out == "billed 1 to alice\nbilled 3 to alice\n"


def test_columns_are_summed_up_by_duckdb_and_by_polars(
    kafka: Any, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples import columns  # whose imports take as long as those of a hundred test modules

    create_topic(kafka.bootstrap_servers, topic, partitions=1)
    orders = [b'{"customer": "a", "amount": 1}', b"?", b'{"customer": "b", "amount": 2.5}']
    produce(kafka.bootstrap_servers, topic, [*orders, b'{"customer": "a", "amount": 3}'])

    assert columns.main(",".join(kafka.bootstrap_servers), topic) == [("a", 4.0), ("b", 2.5)]
    assert "offset 1 of partition 0: JSONDecodeError" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "stop", "in_hand"),
    all_but_the_first(
        2,
        [
            ("stop_on_sigterm", signal.SIGTERM, 0),
            # Its loop may not have come back from the last record.
            ("stop_from_another_thread", signal.SIGTERM, 1),
            ("stop_on_sigterm", signal.SIGINT, 0),
        ],
    ),
)
def test_a_program_that_is_stopped_commits_what_it_has_finished(
    kafka: Any, topic: str, group: str, name: str, stop: signal.Signals, in_hand: int
) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=1)
    produce(kafka.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    with program(name, ",".join(kafka.bootstrap_servers), topic, group) as child:
        assert line(child) == "reading"
        assert [line(child) for _ in range(100)] == [f"{n} {b'%d' % n!r}" for n in range(100)]

        child.send_signal(stop)

        assert line(child) == "stopped after 100 records"
        assert child.wait(SOON_S) == 0
    with quick(kafka, group_id=group) as consumer:
        assert 100 - in_hand <= consumer.committed(TopicPartition(topic, 0)) <= 100


def test_watching_from_another_thread_does_not_disturb_the_reading(
    kafka: Any, topic: str, group: str
) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=2)
    produce(kafka.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    told: list[str] = []

    read = watch_from_another_thread.main(
        ",".join(kafka.bootstrap_servers),
        topic,
        group,
        tell=told.append,
        idle_ms=PATIENT_MS,
        every_s=0.001,
    )

    assert read == 100
    assert told[-1] == "running: stable, read 100, lag 0"


def test_wait_for_kafka_begins_as_soon_as_the_cluster_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_for_kafka, "ATTEMPT_S", 1.0)
    with EmbeddedCluster() as kafka:
        create_topic(kafka.bootstrap_servers, "orders", partitions=1)
        (address,) = kafka.bootstrap_servers
        kafka.kill(1)
        starting = threading.Timer(2.5, kafka.restart, [1])
        starting.start()
        with wait_for_kafka.wait_for_kafka(2 * SOON_S, bootstrap_servers=address) as consumer:
            assert "orders" in consumer.topics()
        starting.join()
    assert f"no Kafka broker could be reached ({address}: " in capsys.readouterr().out


def test_wait_for_kafka_ends_in_time_with_the_server_that_did_not_answer() -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    with program("wait_for_kafka", address, "1", stderr=subprocess.PIPE) as child:
        _, errors = child.communicate(timeout=SOON_S)

    assert child.returncode == 1
    assert "BootstrapError: no Kafka broker could be reached" in errors
    assert address in errors


@contextmanager
def program(
    name: str, *arguments: str, stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """An example in a process of its own, which ends with the test."""
    command = [sys.executable, "-m", f"examples.{name}", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def line(child: subprocess.Popen[str]) -> str:
    """The next line that it prints; "" at its end."""
    assert child.stdout is not None
    return child.stdout.readline().rstrip("\n")
