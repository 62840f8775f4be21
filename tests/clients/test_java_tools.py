"""Kafka's own console tools: what everybody reaches for first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.java import JavaTools, table
from tests.clients.members import all_read, confluent_settings
from tests.clients.support import PARTITIONS, SOON_S, numbered, produce, wait_until
from tests.gate import all_but_the_first

Names = Callable[[str], str]

TOPICS = "TopicCommand"
GROUPS = "consumer.group.ConsumerGroupCommand"
#: This one would give up after 5 s, while its JVM is still getting warm on a busy machine.
PATIENT = ("--timeout", "30000")
CONFIGS = "kafka.admin.ConfigCommand"
TRANSACTIONS = "TransactionsCommand"
OFFSETS = "GetOffsetShell"
REASSIGN = "reassign.ReassignPartitionsCommand"


def test_topics_are_created_listed_described_altered_and_deleted(
    java: JavaTools, unique: Names
) -> None:
    name = unique("tool")
    of_it = ("--topic", name)

    created = ("--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=60000")
    assert java.run(TOPICS, "--create", *of_it, *created) == f"Created topic {name}.\n"
    java.run(TOPICS, "--alter", *of_it, "--partitions", "5")
    assert name in java.run(TOPICS, "--list").splitlines()
    described = java.run(TOPICS, "--describe", *of_it)
    again = java.run(TOPICS, "--create", *of_it, status=1)
    java.run(TOPICS, "--delete", *of_it)

    assert "PartitionCount: 5\tReplicationFactor: 3" in described
    assert "retention.ms=60000" in described
    assert len(re.findall(r"Leader: [123]\tReplicas: [123],[123],[123]\tIsr: ", described)) == 5
    assert f"Topic '{name}' already exists." in again
    assert "does not exist as expected" in java.run(TOPICS, "--describe", *of_it, status=1)


@pytest.mark.parametrize("protocol", all_but_the_first(1, ["classic", "consumer"]))
def test_records_go_in_and_out_through_the_console_and_the_group_is_seen(
    java: JavaTools, topic: str, group: str, protocol: str
) -> None:
    of_it = ("--group", group)
    written = numbered("typed", 20)
    with java.consume(topic, group, group_protocol=protocol) as console:
        java.run("ConsoleProducer", "--topic", topic, typed="\n".join(written) + "\n")
        all_read([console], written)
        console.check()
        (member,) = table(
            java.run(GROUPS, *PATIENT, "--describe", *of_it, "--members", "--verbose")
        )
        (state,) = table(java.run(GROUPS, *PATIENT, "--describe", *of_it, "--state"))
    assert (member["CLIENT-ID"], member["#PARTITIONS"]) == ("console-consumer", "4")
    assert f"{topic}:0,1,2,3" in member.values()
    # The address of the coordinator and its id are two words.
    assert "Stable" in state.values()
    if protocol == "consumer":  # without members they are told alike; each look starts a Java
        return

    assert group in java.run(GROUPS, *PATIENT, "--list").splitlines()
    described = table(java.run(GROUPS, *PATIENT, "--describe", *of_it, "--offsets"))
    assert sum(int(row["CURRENT-OFFSET"]) for row in described) == 20
    assert {row["LAG"] for row in described} == {"0"}
    reset = ("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    assert {row["NEW-OFFSET"] for row in table(java.run(GROUPS, *PATIENT, *of_it, *reset))} == {"0"}
    assert "was successful" in java.run(GROUPS, *PATIENT, "--delete", *of_it)
    assert group not in java.run(GROUPS, *PATIENT, "--list").splitlines()


def test_transactions_are_written_listed_and_described(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, group: str, unique: Names
) -> None:
    name = unique("txn")
    java.java(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "200", "--record-size", "50"),
        *("--throughput", "-1", "--bootstrap-server", java.bootstrap_servers),
        *("--transactional-id", name, "--transaction-duration-ms", "5"),
    )
    producer = open_transaction(kafka, topic, unique("open"))

    listed = {row["TransactionalId"]: row for row in table(java.run(TRANSACTIONS, "list"))}
    (described,) = table(java.run(TRANSACTIONS, "describe", "--transactional-id", name))
    (writing,) = table(
        java.run(TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0")
    )[-1:]

    assert listed[name]["TransactionState"] == "CompleteCommit"
    assert described["TransactionState"] == "CompleteCommit"
    assert writing["CurrentTransactionStartOffset"].isdigit()
    with java.consume(topic, group, isolation_level="read_committed") as console:
        wait_until(lambda: len(console.records) >= 200, "what was committed")
        producer.abort_transaction(SOON_S)
        produce(kafka, topic, ["after"])
        wait_until(lambda: len(console.records) >= 201, "what comes after the transaction")
        console.check()
        assert "open" not in {one.value for one in console.records}


def open_transaction(kafka: EmbeddedKafka, topic: str, name: str) -> Any:
    """A producer with one unfinished record in partition 0."""
    producer = Producer(confluent_settings(kafka, transactional_id=name))
    producer.init_transactions(SOON_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(SOON_S) == 0
    return producer


def test_a_hanging_transaction_is_aborted_by_hand(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, unique: Names
) -> None:
    producer = open_transaction(kafka, topic, unique("open"))
    place = ("--topic", topic, "--partition", "0")

    java.run(TRANSACTIONS, "abort", *place, "--start-offset", "0")

    (state,) = table(java.run(TRANSACTIONS, "describe-producers", *place))
    assert state["CurrentTransactionStartOffset"] == "None"
    producer.abort_transaction(SOON_S)


def test_configs_are_described_and_altered(java: JavaTools, topic: str) -> None:
    of_it = ("--topic", topic)

    java.run(CONFIGS, "--alter", *of_it, "--add-config", "retention.ms=5000,segment.ms=7000")
    java.run(CONFIGS, "--alter", *of_it, "--delete-config", "segment.ms")
    described = java.run(CONFIGS, "--describe", *of_it)
    of_broker = java.run(CONFIGS, "--describe", "--broker", "2", "--all")
    refused = java.run(CONFIGS, "--alter", *of_it, "--add-config", "retention.ms=soon", status=1)

    assert "retention.ms=5000 " in described
    assert "segment.ms" not in described
    assert "num.partitions=1 " in of_broker
    assert "Invalid value soon for configuration retention.ms" in refused


def test_offsets_are_listed_and_records_deleted(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, tmp_path: Path
) -> None:
    produce(kafka, topic, numbered("value", 40))
    wanted = tmp_path / "delete.json"
    place = {"topic": topic, "partition": 1, "offset": 4}
    wanted.write_text(json.dumps({"version": 1, "partitions": [place]}))

    deleted = java.run("DeleteRecordsCommand", "--offset-json-file", str(wanted))

    assert f"partition: {topic}-1\tlow_watermark: 4" in deleted
    ends = java.run(OFFSETS, "--topic", topic).splitlines()
    assert ends == [f"{topic}:{partition}:10" for partition in PARTITIONS]
    starts = java.run(OFFSETS, "--topic", topic, "--time", "earliest").splitlines()
    assert starts[:2] == [f"{topic}:0:0", f"{topic}:1:4"]


def test_replicas_are_measured_moved_and_elected(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, tmp_path: Path
) -> None:
    produce(kafka, topic, numbered("value", 8))
    leader = kafka.leader(topic, 0)
    others = [node for node in kafka.node_ids if node != leader]
    plan = tmp_path / "plan.json"
    move = {"topic": topic, "partition": 0, "replicas": others}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))

    java.run(REASSIGN, "--reassignment-json-file", str(plan), "--execute")
    verified = java.run(REASSIGN, "--reassignment-json-file", str(plan), "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert kafka.leader(topic, 0) == others[0]

    kafka.move_leader(topic, 0, others[1])
    preferred = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Successfully completed" in java.run("LeaderElectionCommand", *preferred)
    assert kafka.leader(topic, 0) == others[0]

    sizes = java.run("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1]
    there = {
        one["broker"]: {it["partition"] for it in one["logDirs"][0]["partitions"]}
        for one in json.loads(sizes)["brokers"]
    }
    assert f"{topic}-0" not in there[leader]
    assert f"{topic}-0" in there[others[0]]
    produce(kafka, topic, numbered("more", 4))


def test_the_cluster_says_who_it_is(kafka: EmbeddedKafka, java: JavaTools) -> None:
    assert kafka.status()["cluster_id"] in java.java(
        "ClusterTool", "cluster-id", "--bootstrap-server", java.bootstrap_servers
    )
    features = java.run("FeatureCommand", "describe")
    assert re.search(r"transaction.version\s.*FinalizedVersionLevel: 2", features)
    assert "No Authorizer is configured" in java.run("AclCommand", "--list", status=1)
