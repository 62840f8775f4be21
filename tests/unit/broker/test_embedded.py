"""A Kafka cluster inside this process, as its users see it."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

import aktor
from aktor.broker.codes import Code
from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.faults import Corrupt, Delay, Drop, FailWith, Fault, Swallow, Truncate
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.journal import DataFolder, DataFolderError
from aktor.broker.server import PortInUseError
from aktor.broker.settings import ClusterSettings
from aktor.consumer.configuration.bootstrap import addresses
from aktor.errors import AuthenticationError
from aktor.records import RecordReader
from tests.kafka.recorded.messages import request
from tests.unit.broker.clocks import StandingClock
from tests.unit.broker.log.building import a_batch
from tests.unit.broker.raw_client import (
    PATIENCE,
    RawClient,
    eventually,
    fetch_frame,
    frame_of,
    produce_frame,
    versions_frame,
    works,
)
from tests.unit.leftovers import open_things


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(topics=["orders"], seed=1) as running:
        yield running


def write(kafka: EmbeddedKafka, *values: bytes, topic: str = "orders") -> None:
    with RawClient(kafka.address(kafka.leader(topic))) as client:
        for value in values:
            client.send(produce_frame(value, topic=topic))
            answer = client.answer("Produce", 9)
            assert answer.responses[0].partition_responses[0].error_code == Code.NONE


def read(kafka: EmbeddedKafka, topic: str = "orders") -> list[bytes | None]:
    with RawClient(kafka.address(kafka.leader(topic))) as client:
        client.send(fetch_frame(topic=topic))
        (partition,) = client.answer("Fetch", 12).responses[0].partitions
    assert partition.error_code == Code.NONE
    reader = RecordReader(bytes(partition.records or b""), topic=topic, partition=0, fetch_offset=0)
    found: list[bytes | None] = []
    while not reader.exhausted:
        found += [record.value for record in reader.take(1000)]
    return found


# Start and stop.


def test_what_does_not_run_says_so() -> None:
    kafka = EmbeddedKafka()

    assert repr(kafka) == "<EmbeddedKafka stopped>"
    with pytest.raises(RuntimeError, match="not running"):
        assert kafka.bootstrap_servers
    kafka.stop()


def test_an_error_in_the_block_comes_out_and_the_cluster_is_gone() -> None:
    kafka = EmbeddedKafka()
    addresses = []

    def fail() -> None:
        with kafka:
            addresses.append(kafka.address(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(ConnectionRefusedError):
        RawClient(addresses[0])


def test_it_can_be_started_again_and_starting_twice_does_nothing() -> None:
    kafka = EmbeddedKafka(topics=["orders"])
    for _ in range(2):
        kafka.start()
        address = kafka.address(1)
        kafka.start()
        assert kafka.address(1) == address
        write(kafka, b"a")
        assert read(kafka) == [b"a"]
        kafka.stop()
        kafka.stop()


def test_after_stop_nothing_is_left(tmp_path: Path) -> None:
    before = open_things()

    for _ in range(3):
        with EmbeddedKafka(brokers=2, topics={"orders": 3}, data=tmp_path / "data") as kafka:
            write(kafka, b"a")

    assert open_things() - before == set()


def test_a_start_that_fails_leaves_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    with EmbeddedKafka(data=tmp_path / "data", topics=["orders"]) as first:
        write(first, b"a")
    before = open_things()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        kafka = EmbeddedKafka(data=tmp_path / "data", port=taken.getsockname()[1])
        with pytest.raises(PortInUseError):
            kafka.start()
    assert open_things() - before == set()

    with kafka:
        assert read(kafka) == [b"a"]


def test_brokers_are_at_ports_in_a_row() -> None:
    for port in range(21_970, 22_970, 20):  # below those that clients are given
        with contextlib.suppress(PortInUseError), EmbeddedKafka(brokers=2, port=port) as kafka:
            assert kafka.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
            return
    pytest.fail("all ports are taken")


def test_an_address_of_ipv6_is_given_as_clients_take_it() -> None:
    with EmbeddedKafka(advertised_host="::1") as kafka:
        (address,) = addresses(kafka.bootstrap_servers)

        assert address == ("::1", kafka.server.cluster.nodes[1].port)
        assert kafka.status()["brokers"][0]["address"] == kafka.bootstrap_servers


@pytest.mark.parametrize(
    "topics", [["no good"], {"orders": 0}, {"orders": -1}], ids=["name", "none", "fewer"]
)
def test_topics_that_cannot_be_are_refused_at_the_start(topics: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="INVALID"):
        EmbeddedKafka(topics=topics, data=tmp_path / "data").start()

    with EmbeddedKafka(data=tmp_path / "data") as kafka:
        assert kafka.status()["topics"] == {}


def test_there_is_one_broker_at_least() -> None:
    with pytest.raises(ValueError, match="at least one"):
        EmbeddedKafka(brokers=0)


def test_topics_of_their_own_have_as_many_partitions_as_said() -> None:
    with EmbeddedKafka(partitions=4, topics={"a": 2}) as kafka:
        kafka.create_topic("b")
        topics = kafka.status()["topics"]

    assert {name: len(topic["partitions"]) for name, topic in topics.items()} == {"a": 2, "b": 4}


# Commands.


@pytest.mark.parametrize(
    "act",
    [
        lambda kafka: kafka.create_topic("orders"),
        lambda kafka: kafka.create_topic("no good"),
        lambda kafka: kafka.create_topic("t", 0),
        lambda kafka: kafka.create_topic("t", replication_factor=2),
        lambda kafka: kafka.create_topic("t", replication_factor=0),
        lambda kafka: kafka.create_topic("t", configs={"retention.ms": "soon"}),
        lambda kafka: kafka.create_topic("t", configs={"nonsense": "1"}),
        lambda kafka: kafka.delete_topic("t"),
        lambda kafka: kafka.add_partitions("orders", 1),
        lambda kafka: kafka.add_partitions("t", 3),
        lambda kafka: kafka.leader("orders", 9),
        lambda kafka: kafka.end_offset("t"),
        lambda kafka: kafka.move_leader("orders", to=5),
        lambda kafka: kafka.hold_replica("orders", 0, 1),
        lambda kafka: kafka.stop_broker(2),
        lambda kafka: kafka.kill_broker(0),
        lambda kafka: kafka.start_broker(-1),
        lambda kafka: kafka.pause_broker(9),
        lambda kafka: kafka.resume_broker(9),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_breaks(
    kafka: EmbeddedKafka, act: Callable[[EmbeddedKafka], Any]
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        act(kafka)

    assert list(kafka.status()["topics"]) == ["orders"]
    assert works(kafka.address(1))


def test_configs_are_kept_in_kafkas_spelling(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("t", configs={"retention.ms": " 1000 ", "cleanup.policy": "compact"})

    configs = kafka.status()["topics"]["t"]["configs"]

    assert configs == {"retention.ms": "1000", "cleanup.policy": "compact"}


def test_a_topic_grows_and_goes(kafka: EmbeddedKafka) -> None:
    kafka.add_partitions("orders", 3)
    assert len(kafka.status()["topics"]["orders"]["partitions"]) == 3

    kafka.delete_topic("orders")
    assert kafka.status()["topics"] == {}


def test_who_waits_for_a_topic_is_told_at_once_that_it_was_deleted(kafka: EmbeddedKafka) -> None:
    with RawClient(kafka.address(1)) as client:
        client.send(fetch_frame(wait=30.0))
        assert client.silent

        kafka.delete_topic("orders")

        (partition,) = client.answer("Fetch", 12).responses[0].partitions
    assert partition.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_can_be_held_and_released() -> None:
    with EmbeddedKafka(brokers=2, topics=["orders"]) as kafka:
        kafka.hold_replica("orders", 0, 2)
        with RawClient(kafka.address(1)) as client:
            client.send(produce_frame(b"a"))
            assert client.silent
            assert kafka.end_offset("orders") == 0

            kafka.release_replica("orders", 0, 2)

            client.answer("Produce", 9)
        assert kafka.end_offset("orders") == 1


def test_coordinators_can_be_moved() -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        before = kafka.coordinator("g")

        after = kafka.move_coordinator("g")

        assert kafka.coordinator("g") == after != before
        assert kafka.move_coordinator("g", to=before) == before
        assert kafka.move_transaction_coordinator("t", to=2) == 2


# Logging in.


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(topics=["orders"], users={"alice": "wonder land"}, seed=1) as running:
        yield running


def login(mechanism: str, password: str = "wonder land", user: str = "alice") -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


MECHANISMS = pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])


@MECHANISMS
def test_kafka_python_logs_in_writes_and_reads(guarded: EmbeddedKafka, mechanism: str) -> None:
    producer = KafkaProducer(bootstrap_servers=guarded.bootstrap_servers, **login(mechanism))
    metadata = producer.send("orders", mechanism.encode()).get(PATIENCE)
    producer.close()

    consumer = KafkaConsumer(bootstrap_servers=guarded.bootstrap_servers, **login(mechanism))
    consumer.assign([TopicPartition("orders", 0)])
    consumer.seek(TopicPartition("orders", 0), metadata.offset)
    record = next(consumer)
    consumer.close()

    assert record.value == mechanism.encode()


@MECHANISMS
@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("mallory", "wonder land")])
def test_nobody_logs_in_with_a_wrong_name_or_password(
    guarded: EmbeddedKafka, mechanism: str, user: str, password: str
) -> None:
    with pytest.raises(AuthenticationError, match=mechanism) as refused:
        aktor.KafkaConsumer(
            bootstrap_servers=guarded.bootstrap_servers, **login(mechanism, password, user)
        )

    assert "wonder land" not in str(refused.value)
    assert works(guarded.address(1))


def test_before_the_login_nothing_else_may_be_asked(guarded: EmbeddedKafka) -> None:
    with RawClient(guarded.address(1)) as client:
        client.send(versions_frame(1))
        assert client.number() == 1

        client.send(frame_of(request("Metadata", topics=None), 9))
        assert client.closed


@pytest.mark.parametrize("sneaked_in", [[], [produce_frame(b"sneaked in")]])
def test_after_a_failed_login_the_connection_ends(
    guarded: EmbeddedKafka, sneaked_in: list[bytes]
) -> None:
    with RawClient(guarded.address(1)) as client:
        client.send(frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1))
        assert client.answer("SaslHandshake", 1).error_code == Code.NONE

        wrong = SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess")
        client.send(frame_of(wrong, 2), *sneaked_in)
        assert client.answer("SaslAuthenticate", 2).error_code == Code.SASL_AUTHENTICATION_FAILED
        assert client.closed


# Faults.


def test_fail_with_refuses_without_handling(kafka: EmbeddedKafka) -> None:
    kafka.inject(Fault(action=FailWith(Code.NOT_LEADER_OR_FOLLOWER), api="Produce"))
    with RawClient(kafka.address(1)) as client:
        client.send(produce_frame(b"refused"), produce_frame(b"taken"))

        first, second = client.answer("Produce", 9), client.answer("Produce", 9)

    codes = [one.responses[0].partition_responses[0].error_code for one in (first, second)]
    assert codes == [Code.NOT_LEADER_OR_FOLLOWER, Code.NONE]
    assert read(kafka) == [b"taken"]
    assert kafka.faults() == {}


def test_fail_with_hangs_up_on_who_wants_no_answer(kafka: EmbeddedKafka) -> None:
    kafka.inject(Fault(action=FailWith(Code.NOT_LEADER_OR_FOLLOWER), api="Produce"))
    with RawClient(kafka.address(1)) as client:
        client.send(produce_frame(b"refused", acks=0))

        assert client.closed


def test_delay_handles_at_once_and_answers_later() -> None:
    clock = StandingClock()
    with EmbeddedKafka(topics=["orders"], clock=clock) as kafka, RawClient(kafka.address(1)) as one:
        kafka.inject(Fault(action=Delay(3.0), api="Produce"))
        one.send(produce_frame(b"a"), versions_frame(2))
        assert eventually(lambda: kafka.end_offset("orders") == 1)
        clock.put_forward(2.9, kafka)
        assert one.silent

        clock.put_forward(0.2, kafka)
        one.answer("Produce", 9)
        assert one.number() == 2


@pytest.mark.parametrize(("before", "written"), [(True, 0), (False, 1)])
def test_drop_hangs_up_before_or_after_handling(
    kafka: EmbeddedKafka, before: bool, written: int
) -> None:
    kafka.inject(Fault(action=Drop(before=before), api="Produce"))
    with RawClient(kafka.address(1)) as client:
        client.send(produce_frame(b"a"))

        assert client.closed
    assert kafka.end_offset("orders") == written


@pytest.mark.parametrize("keep", [0, 3, 4, 9, 10_000])
def test_truncate_sends_the_beginning_and_hangs_up(kafka: EmbeddedKafka, keep: int) -> None:
    with RawClient(kafka.address(1)) as client:
        client.send(versions_frame())
        whole = client.receive()
        kafka.inject(Fault(action=Truncate(keep), api="ApiVersions"))

        client.send(versions_frame(), produce_frame(b"behind it"))
        came = bytearray()
        while piece := client.sock.recv(1 << 16):
            came += piece

    assert len(came) == min(keep, 4 + len(whole))
    assert kafka.end_offset("orders") == 0


def test_corrupt_changes_the_answer_and_the_connection_goes_on(kafka: EmbeddedKafka) -> None:
    with RawClient(kafka.address(1)) as client:
        client.send(versions_frame())
        whole = client.receive()
        kafka.inject(Fault(action=Corrupt(position=7), api="ApiVersions"))

        client.send(versions_frame(), versions_frame(3))
        changed = client.receive()
        assert client.number() == 3

    assert [index for index, byte in enumerate(whole) if changed[index] != byte] == [7]


def test_swallow_handles_and_never_answers(kafka: EmbeddedKafka) -> None:
    kafka.inject(Fault(action=Swallow(), api="Produce"))
    with RawClient(kafka.address(1)) as client:
        client.send(produce_frame(b"a"), versions_frame(2))

        assert eventually(lambda: kafka.end_offset("orders") == 1)
        assert client.silent
        client.close()
    assert works(kafka.address(1))


def test_a_fault_meets_only_those_it_is_meant_for() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.inject(
            Fault(action=Drop(), api="ApiVersions", node=2, client_id="victim", times=None)
        )
        victim = frame_of(request("ApiVersions"), 0, 5, client_id="victim")

        for node, frame, dropped in ((1, victim, False), (2, versions_frame(), False)):
            with RawClient(kafka.address(node)) as client:
                client.send(frame)
                assert client.closed == dropped
        for _ in range(2):
            with RawClient(kafka.address(2)) as client:
                client.send(victim)
                assert client.closed

        kafka.clear_faults()
        with RawClient(kafka.address(2)) as client:
            client.send(victim)
            assert client.number() == 5


def test_a_fault_can_be_taken_back_by_its_number(kafka: EmbeddedKafka) -> None:
    kafka.inject(Fault(action=Drop(), times=None))
    ((number, _),) = kafka.faults().items()

    assert kafka.remove_fault(number)
    assert not kafka.remove_fault(number)
    assert works(kafka.address(1))


def test_a_delayed_answer_to_who_has_gone_harms_nobody(kafka: EmbeddedKafka) -> None:
    kafka.inject(Fault(action=Delay(0.02), api="ApiVersions"))
    with RawClient(kafka.address(1)) as client:
        client.send(versions_frame())

    time.sleep(0.05)

    assert works(kafka.address(1))


# Data folders.


def test_a_folder_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with EmbeddedKafka(data=data, topics={"orders": 2}) as kafka:
        kafka.create_topic("gone")
        write(kafka, b"gone", topic="gone")
        kafka.delete_topic("gone")
        write(kafka, b"a", b"b")
        before = kafka.status()

    with EmbeddedKafka(data=data) as kafka:
        after = kafka.status()
        assert read(kafka) == [b"a", b"b"]

    for status in (before, after):
        for broker in status["brokers"]:
            del broker["address"]
        for partition in status["topics"]["orders"]["partitions"]:
            del partition["leader_epoch"]
    assert after == before


def test_the_records_of_a_deleted_topic_leave_the_disk(tmp_path: Path) -> None:
    def size() -> int:
        return sum(one.stat().st_size for one in (tmp_path / "logs").rglob("*.log"))

    with EmbeddedKafka(data=tmp_path, topics=["orders"]) as kafka:
        write(kafka, b"x" * 100_000)
        assert size() > 100_000

        kafka.delete_topic("orders")
        assert size() == 0

    with EmbeddedKafka(data=tmp_path):
        assert not list((tmp_path / "logs").iterdir())


def test_where_a_log_starts_is_kept_and_forgotten_with_its_topic(tmp_path: Path) -> None:
    def starts(kafka: EmbeddedKafka) -> Any:
        return kafka.status()["topics"]["orders"]["partitions"][0]["start_offset"]

    with EmbeddedKafka(data=tmp_path, topics=["orders"]) as kafka:
        write(kafka, b"a", b"b", b"c")
        with RawClient(kafka.address(1)) as client:
            partitions = [{"partition_index": 0, "offset": 2}]
            message = request(
                "DeleteRecords",
                timeout_ms=1000,
                topics=[{"name": "orders", "partitions": partitions}],
            )
            client.send(frame_of(message, 2))
            client.receive()
        assert starts(kafka) == 2

    with EmbeddedKafka(data=tmp_path) as kafka:
        assert starts(kafka) == 2
        kafka.delete_topic("orders")
        kafka.create_topic("orders")
        assert starts(kafka) == 0
    for _ in range(2):
        with EmbeddedKafka(data=tmp_path) as kafka:
            assert starts(kafka) == 0
    with DataFolder(tmp_path) as folder:
        assert not [key for kind, key in folder.values() if kind == "log-start"]


def test_a_folder_in_use_is_told(tmp_path: Path) -> None:
    with (
        EmbeddedKafka(data=tmp_path / "data"),
        pytest.raises(DataFolderError, match="in use"),
    ):
        EmbeddedKafka(data=tmp_path / "data").start()


def test_a_folder_of_three_brokers_can_be_read_by_one(tmp_path: Path) -> None:
    with EmbeddedKafka(brokers=3, data=tmp_path, topics={"a": 1, "b": 1, "c": 1}) as kafka:
        for topic in ("a", "b", "c"):
            write(kafka, topic.encode(), topic=topic)

    with EmbeddedKafka(brokers=1, data=tmp_path) as kafka:
        for topic in ("a", "b", "c"):
            assert read(kafka, topic) == [topic.encode()]
        assert works(kafka.address(1))


SERVER = textwrap.dedent("""
    import sys, time
    from aktor.broker.embedded import EmbeddedKafka
    kafka = EmbeddedKafka(data=sys.argv[1], topics={"orders": 2, "paid": 1}, seed=int(sys.argv[2]))
    kafka.start()
    print(kafka.bootstrap_servers, flush=True)
    time.sleep(600)
""")


def start_process(data: Path, seed: int) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(data), str(seed)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


class Writer(threading.Thread):
    """Writes numbers, each acknowledged before the next is sent; then commits its number as an
    offset, and every tenth in a transaction."""

    def __init__(self, address: str, first: int) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.next = first
        self.acknowledged: list[int] = []
        self.committed = -1
        self.paid: list[int] = []

    def run(self) -> None:
        try:
            with RawClient(self.address) as client:
                self.producer_id, self.epoch = self.init(client)
                while True:
                    self.write(client, self.next)
                    self.next += 1
        except (OSError, EOFError, ValueError):
            pass  # the server is dead

    def init(self, client: RawClient) -> tuple[int, int]:
        message = request("InitProducerId", transactional_id="t", transaction_timeout_ms=60_000)
        while True:
            answer = self.asked(client, "InitProducerId", message, 4)
            if answer.error_code == Code.NONE:
                self.sequence = 0
                return answer.producer_id, answer.producer_epoch
            time.sleep(0.01)

    def asked(self, client: RawClient, api: str, message: Any, version: int) -> Any:
        client.send(frame_of(message, version))
        return client.answer(api, version)

    def write(self, client: RawClient, number: int) -> None:
        client.send(produce_frame(b"%d" % number, partition=number % 2))
        answer = client.answer("Produce", 9).responses[0].partition_responses[0]
        assert answer.error_code == Code.NONE
        self.acknowledged.append(number)
        if number % 5 == 0:
            self.commit(client, number)
        if number % 10 == 0:
            self.pay(client, number)

    def commit(self, client: RawClient, number: int) -> None:
        partitions = [{"partition_index": 0, "committed_offset": number}]
        message = request(
            "OffsetCommit",
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[{"name": "orders", "partitions": partitions}],
        )
        answer = self.asked(client, "OffsetCommit", message, 8)
        assert answer.topics[0].partitions[0].error_code == Code.NONE
        self.committed = number

    def pay(self, client: RawClient, number: int) -> None:
        transaction = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        add = request(
            "AddPartitionsToTxn",
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": "paid", "partitions": [0]}],
        )
        added = Code.CONCURRENT_TRANSACTIONS
        while added == Code.CONCURRENT_TRANSACTIONS:
            (topic,) = self.asked(
                client, "AddPartitionsToTxn", add, 3
            ).results_by_topic_v3_and_below
            (result,) = topic.results_by_partition
            added = Code(result.partition_error_code)
        assert added is Code.NONE, added
        batch = a_batch(
            b"%d" % number,
            transactional=True,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        self.sequence += 1
        write = request(
            "Produce",
            transactional_id="t",
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"name": "paid", "partition_data": [{"index": 0, "records": batch}]}],
        )
        answer = self.asked(client, "Produce", write, 9).responses[0].partition_responses[0]
        assert answer.error_code == Code.NONE
        end = request("EndTxn", transactional_id="t", committed=True, **transaction)
        assert self.asked(client, "EndTxn", end, 3).error_code == Code.NONE
        self.paid.append(number)


def numbers_in(address: str, topic: str, partition: int) -> list[int]:
    """What a read_committed consumer of kafka-python reads."""
    consumer = KafkaConsumer(
        bootstrap_servers=address, isolation_level="read_committed", fetch_max_wait_ms=20
    )
    place = TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = consumer.end_offsets([place])[place]
    found: list[int] = []
    while (consumer.position(place) or 0) < end:  # None: it does not know it yet
        for records in consumer.poll(100).values():
            found += [int(record.value) for record in records]
    consumer.close()
    return found


def test_what_was_acknowledged_outlives_a_kill_minus_9(tmp_path: Path) -> None:
    data, number = tmp_path / "data", 0
    acknowledged: list[int] = []
    paid: list[int] = []

    for seed in range(2):
        process, address = start_process(data, seed)
        writer = Writer(address, number)
        writer.start()
        deadline = time.monotonic() + PATIENCE
        while len(writer.acknowledged) < 150 and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        writer.join(PATIENCE)
        assert len(writer.acknowledged) >= 150
        acknowledged += writer.acknowledged
        paid += writer.paid
        number = writer.next + 1  # the one that was under way may be there, or not

    with EmbeddedKafka(data=data) as kafka:
        address = kafka.bootstrap_servers
        for partition in range(2):
            there = numbers_in(address, "orders", partition)
            expected = [one for one in acknowledged if one % 2 == partition]
            assert there == sorted(set(there)), "in order, and nothing twice"
            assert set(there) >= set(expected)
            assert len(there) - len(expected) <= 2, "no more than what was under way"
        there = numbers_in(address, "paid", 0)
        assert there == sorted(set(there))
        assert set(there) >= set(paid)
        assert kafka.committed("g")["orders", 0] >= writer.committed
        assert kafka.status()["groups"]["g"]["state"] == "Empty"


def test_a_transaction_that_was_open_in_a_kill_is_aborted_by_the_next_producer(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    process, address = start_process(data, 1)
    producer = KafkaProducer(bootstrap_servers=address, transactional_id="t", linger_ms=0)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("paid", b"1").get(PATIENCE)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    producer.close(timeout=0)

    with EmbeddedKafka(data=data) as kafka:
        again = KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, transactional_id="t", linger_ms=0
        )
        again.init_transactions()
        again.begin_transaction()
        again.send("paid", b"2").get(PATIENCE)
        again.commit_transaction()
        again.close()

        assert numbers_in(kafka.bootstrap_servers, "paid", 0) == [2]


# Idle.


def test_idle_brokers_cost_next_to_nothing() -> None:
    settings = ClusterSettings(groups=GroupSettings())
    with EmbeddedKafka(brokers=3, topics={"orders": 30}, settings=settings) as kafka:
        clients = [RawClient(kafka.address(node)) for node in (1, 2, 3)]
        for client in clients:
            client.send(versions_frame())
            client.receive()
        busy, began = kafka.server.ask(lambda: (time.thread_time(), time.monotonic()))
        time.sleep(0.4)
        busy = kafka.server.ask(lambda: time.thread_time()) - busy
        share = busy / (time.monotonic() - began)  # it may have slept for longer
        for client in clients:
            client.close()
    assert share < 0.05
