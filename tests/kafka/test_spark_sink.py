"""The sink in sessions of Spark: what a batch, a stream and a task that is tried again write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aktor import KafkaConsumer, TopicPartition
from aktor.broker import EmbeddedKafka
from aktor.errors import ConfigurationError
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_support import read
from tests.kafka.support import ROOT

CANARY = "c4nary-s3cret"
LITERAL = "l1teral-c4nary"
LIBRARIES = ("confluent", "kafka-python")


def bootstrap(kafka: Cluster) -> str:
    return ",".join(kafka.bootstrap_servers)


def content(kafka: Cluster, topic: str) -> list[tuple[Any, ...]]:
    """All of each record that a producer decides."""
    return [(one.partition, one.key, one.value, one.headers) for one in read(kafka, topic)]


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_batch_is_written_as_by_sparks_own_sink(
    spark: Any, kafka: Cluster, topic: str, library: str
) -> None:
    for name in (topic, f"{topic}-theirs"):
        topics.create_topic(kafka.bootstrap_servers, name, partitions=3)
    frame = spark.range(1000).selectExpr(
        "IF(id % 3 = 0 AND id % 5 <> 4, NULL, CONCAT('key-', id % 100)) AS key",
        "CASE id % 5 WHEN 0 THEN '' WHEN 4 THEN NULL ELSE CONCAT('größer-', id) END AS value",
        "IF(id % 2 = 0 OR id % 3 = 0, CAST(id % 3 AS INT), NULL) AS partition",
        "IF(id % 4 = 0, NULL, TRANSFORM(SEQUENCE(1, CAST(id % 4 AS INT)), n ->"
        " NAMED_STRUCT('key', CONCAT('h', n), 'value', CAST(CAST(id AS STRING) AS BINARY))))"
        " AS headers",
    )

    def written(form: str, name: str) -> list[tuple[Any, ...]]:
        writer = frame.write.format(form).mode("append").option("topic", name)
        writer = writer.option("kafka.bootstrap.servers", bootstrap(kafka))
        if form == "aktor":
            writer = writer.option("producer", library)
        writer.save()
        return sorted(content(kafka, name), key=repr)

    ours = written("aktor", topic)

    assert len(ours) == 1000
    assert ours == written("kafka", f"{topic}-theirs")


@pytest.mark.once("what docs/spark_sink.md says of threads is true of Spark, whichever Kafka it is")
def test_a_batch_is_written_from_a_thread_whose_session_is_active(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    writer = spark.range(3).selectExpr("'a' AS value").write.format("aktor").mode("append")
    writer = writer.options(**{"kafka.bootstrap.servers": bootstrap(kafka), "topic": topic})

    def write() -> None:
        spark.createDataFrame([(1,)], "a int")
        writer.save()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(write).result(120)

    assert len(content(kafka, topic)) == 3


@pytest.mark.once("it is said before a broker is asked")
def test_what_is_wrong_is_said_before_a_job_starts(spark: Any, kafka: Cluster, topic: str) -> None:
    frame = spark.range(1).selectExpr("'a' AS value")
    given = {"kafka.bootstrap.servers": bootstrap(kafka), "topic": topic}

    def said(frame: Any, mode: str = "append", **more: str) -> str:
        with pytest.raises(Exception) as refused:
            frame.write.format("aktor").mode(mode).options(**given, **more).save()
        return str(refused.value)

    assert "did you mean transactional?" in said(frame, transactionl="true")
    assert "a topic cannot be overwritten" in said(frame, mode="overwrite")
    assert "the column value is bigint" in said(spark.range(1).selectExpr("id AS value"))
    assert ConfigurationError.__name__ in said(frame, producer="java")
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_stream_goes_on_after_a_restart(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    source, sink = f"{topic}-in", f"{topic}-out"
    for name in (source, sink):
        topics.create_topic(kafka.bootstrap_servers, name, partitions=2)

    def run() -> None:
        frame = spark.readStream.format("aktor").option("subscribe", source)
        frame = frame.option("kafka.bootstrap.servers", bootstrap(kafka))
        frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "40")
        query = (
            frame.load()
            .selectExpr("key", "CONCAT('seen ', CAST(value AS STRING)) AS value", "partition")
            .writeStream.format("aktor")
            .option("kafka.bootstrap.servers", bootstrap(kafka))
            .option("topic", sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)

    topics.produce(kafka.bootstrap_servers, source, [b"%03d" % n for n in range(100)])
    run()
    topics.produce(kafka.bootstrap_servers, source, [b"%03d" % n for n in range(100, 120)])
    run()

    found = sorted(one.value for one in read(kafka, sink))
    assert found == [b"seen %03d" % n for n in range(120)]


# -- what needs a session of its own: tasks that are tried again, and a log of everything


@dataclass(frozen=True)
class Ran:
    """What `retries` and `secrets` have done, and said, in a session of their own."""

    kafka: EmbeddedKafka
    locked: EmbeddedKafka
    output: str
    folder: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Both run in one session: to start one takes longer than what they do."""
    folder = tmp_path_factory.mktemp("session")
    users = {"alice": CANARY, "bob": LITERAL}
    with (
        EmbeddedKafka(topics=["plain", "transactional"], partitions=2) as kafka,
        EmbeddedKafka(users=users, topics=["orders"], partitions=1) as locked,
    ):
        addresses = [one.bootstrap_servers for one in (kafka, locked)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.kafka.test_spark_sink", *addresses, str(folder)],
            cwd=ROOT,
            env=os.environ | {"SINK_PASSWORD": CANARY},
            capture_output=True,
            text=True,
            timeout=340,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        yield Ran(kafka, locked, output, folder)


@pytest.mark.timeout(600)
@pytest.mark.embedded("takes a session of its own")
def test_a_task_that_is_tried_again_leaves_no_hole(spark: Any, ran: Ran) -> None:
    expected = [b"%04d" % n for n in range(2000)]
    plain = [one.value[:4] for one in read(ran.kafka, "plain")]
    assert sorted(set(plain)) == expected, "nothing is missing"
    assert len(plain) > 2000, "and the failed attempt had written some"
    committed = [one.value[:4] for one in read(ran.kafka, "transactional")]
    assert sorted(committed) == expected, "each is there once"
    seen = read(ran.kafka, "transactional", "read_uncommitted")
    assert len(seen) > 2000, "who reads uncommitted sees those of the failed attempt"


@pytest.mark.timeout(600)
@pytest.mark.embedded("its users have passwords")
def test_a_secret_is_in_no_plan_and_no_log(spark: Any, ran: Ran) -> None:
    assert ran.locked.end_offset("orders") == 20

    logged = "".join(
        one.read_text(errors="replace") for one in ran.folder.rglob("*") if one.is_file()
    )
    assert "SparkListenerSQLExecutionStart" in logged, "the log of events is there"
    assert "WriteToMicroBatchDataSource aktor" in ran.output, "as is the plan"
    assert "unknown option kafka.topik" in ran.output, "as are errors"
    for secret in (CANARY, LITERAL):
        assert secret not in ran.output
        assert secret not in logged


def in_a_session(servers: str, locked: str, folder: str) -> None:
    """The program of `ran`: every log is at INFO, and a task is tried four times."""
    from tests.spark.session import a_session

    spark = a_session(
        "local[2,4]",
        **{
            "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
            "spark.python.unix.domain.socket.enabled": "false",
            "spark.log.level": "INFO",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": folder,
            "spark.eventLog.compress": "false",
        },
    )
    retries(spark, servers, folder)
    secrets(spark, locked, folder)
    spark.stop()


def wait_for_records(servers: str, topic: str) -> None:
    """Until partition 0 has some, be they committed or not: the task that fails writes to it."""
    until = time.monotonic() + 60
    with KafkaConsumer(bootstrap_servers=servers) as consumer:
        while not consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]:
            assert time.monotonic() < until, "nothing arrived"
            time.sleep(0.05)


def retries(spark: Any, servers: str, folder: str) -> None:
    """Write 2,000 rows twice; a task of each write fails in the middle of its first attempt."""
    for name, more in (("plain", {}), ("transactional", {"transactional": "true"})):
        mark = f"{folder}/{name}"

        def numbers(ids: Any, mark: str = mark, name: str = name) -> Any:
            """Fail once, when some of what was written so far has arrived."""
            for one in ids:
                if one == 700 and not os.path.exists(mark):
                    Path(mark).touch()
                    wait_for_records(servers, name)
                    raise ZeroDivisionError
                # Enough to get through the buffers between the JVM and the workers.
                yield f"{one:04}" + "x" * 5_000, one // 1000

        rows = spark.sparkContext.parallelize(range(2000), 2).mapPartitions(numbers)
        frame = spark.createDataFrame(rows, "value string, partition int")
        writer = frame.write.format("aktor").mode("append").option("topic", name)
        writer.option("kafka.bootstrap.servers", servers).options(**more).save()
        assert os.path.exists(mark)


def secrets(spark: Any, servers: str, folder: str) -> None:
    """Log in by a reference; print plans and errors."""
    given = {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "${env:SINK_PASSWORD}",
        "topic": "orders",
    }
    frame = spark.range(5).selectExpr("CAST(id AS STRING) AS value")
    for library in LIBRARIES:
        frame.write.format("aktor").mode("append").options(**given, producer=library).save()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "5").load()
    query = (
        stream.selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("aktor")
        .options(**given, checkpointLocation=f"{folder}/checkpoint")
        .trigger(once=True)
        .start()
    )
    assert query.awaitTermination(300)
    print(json.dumps(query.lastProgress, default=str))
    query.explain(True)
    del given["kafka.sasl.username"], given["kafka.sasl.password"]
    given["kafka.sasl.jaas.config"] = (
        "org.apache.kafka.common.security.plain.PlainLoginModule"
        f' required username="bob" password="{LITERAL}";'
    )
    for wrong in ({"kafka.topik": "unknown"}, {"topic": "no topic"}):
        try:
            frame.write.format("aktor").mode("append").options(**given | wrong).save()
        except Exception as error:
            print(error)
    frame.write.format("aktor").mode("append").options(**given).save()


if __name__ == "__main__":
    in_a_session(*sys.argv[1:])
