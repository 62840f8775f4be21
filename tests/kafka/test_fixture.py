"""The cluster the other tests stand on: what it promises, checked with kafka-python alone."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from tests.kafka.real import KafkaCluster, KafkaClusterError, topics
from tests.kafka.real.security import MECHANISMS, USERS, UnsecuredToken

pytestmark = pytest.mark.real("it is about the real cluster itself")

ROOT = Path(__file__).parents[2]


def read_all(kafka: KafkaCluster, topic: str, **settings: Any) -> list[bytes]:
    """The values of partition 0 from its start to the end it has now."""
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, enable_auto_commit=False, **settings
    )
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        values: list[bytes] = []
        deadline = time.monotonic() + 30
        while consumer.position(partition) < end:
            assert time.monotonic() < deadline, f"only {values} after 30 s"
            records = consumer.poll(timeout_ms=1000).get(partition, [])
            values.extend(record.value for record in records)
        return values
    finally:
        consumer.close()


def login(mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, Any]:
    """kafka-python's settings to log in as `user`."""
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": UnsecuredToken(user)}
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password or USERS[user],
    }


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_is_produced_can_be_read_back(kafka: KafkaCluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)

    written = topics.produce(kafka.bootstrap_servers, topic, ["a", "b"], compression="gzip")

    assert [record.offset for record in written] == [0, 1]
    assert read_all(kafka, topic) == [b"a", b"b"]


def test_a_committed_reader_sees_what_was_committed_and_nothing_of_what_was_aborted(
    kafka: KafkaCluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)

    with topics.Transaction(kafka.bootstrap_servers) as kept:
        kept.produce(topic, ["kept"])
        kept.commit()
    with topics.Transaction(kafka.bootstrap_servers) as dropped:
        dropped.produce(topic, ["dropped"])
    topics.wait_for_markers(kafka.bootstrap_servers, topic)

    assert read_all(kafka, topic) == [b"kept", b"dropped"]
    assert read_all(kafka, topic, isolation_level="read_committed") == [b"kept"]


def test_partitions_can_be_added_and_a_topic_deleted(kafka: KafkaCluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)

    topics.add_partitions(kafka.bootstrap_servers, topic, 5)
    assert len(kafka.view(1).of_topic(topic)) == 5

    topics.delete_topic(kafka.bootstrap_servers, topic)
    assert kafka.view(1).of_topic(topic) == []


def test_a_killed_broker_comes_back_with_its_data_which_is_deleted_in_the_end(topic: str) -> None:
    with KafkaCluster() as kafka:
        address = kafka.bootstrap_servers
        topics.create_topic(address, topic)
        topics.produce(address, topic, ["before"])

        kafka.kill(1)
        assert kafka.running == set()
        kafka.restart(1)
        topics.produce(address, topic, ["after"])

        assert read_all(kafka, topic) == [b"before", b"after"]
        broker = kafka.pid(1)
        assert broker is not None
        folder = Path(os.readlink(f"/proc/{broker}/fd/1")).parents[1]
        assert folder.is_dir()

    assert not folder.exists()
    assert not is_alive(broker)


def test_a_broker_that_dies_at_the_start_is_reported_with_its_own_words() -> None:
    with pytest.raises(KafkaClusterError, match=r"num\.network\.threads"):
        KafkaCluster(settings={"num.network.threads": "no number"}).start()


def test_leadership_moves_where_it_is_told(kafka3: KafkaCluster, topic: str) -> None:
    topics.create_topic(kafka3.bootstrap_servers, topic, replication=3)

    for node_id in kafka3.node_ids:
        kafka3.move_leader(topic, 0, node_id)

        assert topics.leader_of(kafka3.bootstrap_servers, topic, 0) == node_id


def test_a_topic_survives_the_loss_of_its_leader(kafka3: KafkaCluster, topic: str) -> None:
    topics.create_topic(kafka3.bootstrap_servers, topic, replication=3)
    topics.produce(kafka3.bootstrap_servers, topic, ["before"])
    lost = topics.leader_of(kafka3.bootstrap_servers, topic, 0)

    kafka3.kill(lost)
    others = [kafka3.address("PLAINTEXT", node_id) for node_id in kafka3.running]
    topics.wait_for_leader(others, topic, 0, other_than=lost)
    topics.produce(others, topic, ["after"])

    kafka3.heal()
    assert read_all(kafka3, topic) == [b"before", b"after"]


def test_every_broker_names_the_same_coordinator(kafka3: KafkaCluster, group: str) -> None:
    coordinator = topics.coordinator_of(kafka3.bootstrap_servers, group)

    answers = {topics.coordinator_of([address], group) for address in kafka3.bootstrap_servers}

    assert coordinator in kafka3.node_ids
    assert answers == {coordinator}


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_alice_can_log_in_by_every_mechanism(
    secure_kafka: KafkaCluster, topic: str, listener: str, mechanism: str
) -> None:
    topics.create_topic(secure_kafka.bootstrap_servers, topic)
    door = {"security_protocol": listener, "ssl_cafile": secure_kafka.ca_file, **login(mechanism)}

    with topics.producer([secure_kafka.address(listener)], **door) as producer:
        producer.send(topic, b"from alice").get(timeout=30)

    assert read_all(secure_kafka, topic) == [b"from alice"]


def test_a_wrong_password_is_refused(secure_kafka: KafkaCluster) -> None:
    door = {
        "security_protocol": "SASL_PLAINTEXT",
        "bootstrap_timeout_ms": 2000,
        **login("PLAIN", password="guessed"),
    }

    with (
        pytest.raises(KafkaError),
        topics.admin([secure_kafka.address("SASL_PLAINTEXT")], **door) as admin,
    ):
        admin.describe_cluster()


@pytest.mark.parametrize("user", [None, "alice"])
def test_tls_works_with_and_without_a_certificate_of_the_client(
    secure_kafka: KafkaCluster, user: str | None
) -> None:
    files = secure_kafka.certificates
    mutual = {"ssl_certfile": str(files.alice_cert_file), "ssl_keyfile": str(files.alice_key_file)}
    door = {"security_protocol": "SSL", "ssl_cafile": secure_kafka.ca_file}

    with topics.admin([secure_kafka.address("SSL")], **door, **(mutual if user else {})) as admin:
        assert len(admin.describe_cluster()["brokers"]) == 1


def test_the_certificate_is_refused_by_who_does_not_know_the_authority(
    secure_kafka: KafkaCluster,
) -> None:
    host, port = secure_kafka.address("SSL").split(":")

    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.get_server_certificate(
            (host, int(port)), ca_certs=ssl.get_default_verify_paths().cafile
        )


def test_bob_may_do_what_acls_allow_and_no_more(
    secure_kafka: KafkaCluster, unique: Callable[[str], str]
) -> None:
    allowed, forbidden = unique("allowed"), unique("forbidden")
    for name in (allowed, forbidden):
        topics.create_topic(secure_kafka.bootstrap_servers, name)
    rule = ACL(
        principal="User:bob",
        host="*",
        operation=ACLOperation.WRITE,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType.TOPIC, allowed),
    )
    topics.grant(secure_kafka.bootstrap_servers, [rule])

    door = {"security_protocol": "SASL_PLAINTEXT", **login("SCRAM-SHA-256", "bob")}
    with topics.producer(
        [secure_kafka.address("SASL_PLAINTEXT")], **door, enable_idempotence=False
    ) as producer:
        producer.send(allowed, b"from bob").get(timeout=30)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send(forbidden, b"from bob").get(timeout=30)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a death signal")
def test_brokers_die_with_a_process_that_is_killed() -> None:
    program = (
        "import sys, time\n"
        "from tests.kafka.real import KafkaCluster\n"
        "kafka = KafkaCluster()\n"
        "kafka.start()\n"
        "kafka.pause(1)\n"
        "print(kafka.pid(1), flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    broker = int(process.stdout.readline())
    assert is_alive(broker)

    process.send_signal(signal.SIGKILL)
    process.communicate()

    deadline = time.monotonic() + 30
    while is_alive(broker):
        assert time.monotonic() < deadline, f"broker process {broker} outlived its owner"
        time.sleep(0.02)
