"""The examples of Spark do what they say."""

from __future__ import annotations

import datetime
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aktor import KafkaConsumer
from aktor.broker import EmbeddedKafka, sample_records
from examples import spark_batch, spark_filter, spark_protobuf, spark_sink, spark_stream
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_support import filled
from tests.kafka.support import ROOT
from tests.spark.decode.a_message import an_order, descriptors


@pytest.mark.once("an example that Spark runs, whichever Kafka it is")
def test_the_batch_example_counts_records(spark: Any, kafka: Cluster, topic: str) -> None:
    filled(kafka, topic, partitions=2, count=30)
    bootstrap = ",".join(kafka.bootstrap_servers)

    found = spark_batch.records_per_partition(spark, bootstrap, topic, "-1h")

    assert found == {0: 15, 1: 15}


@pytest.mark.once("an example that Spark runs, whichever Kafka it is")
def test_the_filter_example_counts_what_it_keeps(spark: Any, kafka: Cluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    orders = [("alice", "DE", 150), ("alice", "DE", 101.5), ("bob", "FR", 900), ("eve", "DE", 50)]
    values = [
        b'{"customer": "%s", "country": "%s", "amount": %a}' % (who.encode(), where.encode(), much)
        for who, where, much in orders
    ]
    topics.produce(kafka.bootstrap_servers, topic, [*values, b"no order"])

    found = spark_filter.turnover(spark, ",".join(kafka.bootstrap_servers), topic, "DE")

    assert found == {"alice": 251.5}


@pytest.mark.embedded("the records of `aktor broker --records`")
def test_the_filter_example_finds_orders_in_the_records_that_aktor_broker_writes(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    with EmbeddedKafka() as broker:
        broker.create_topic(topic, 4)
        sample_records.write(broker, topic, 1000)

        found = spark_filter.turnover(spark, broker.bootstrap_servers, topic, "DE")

    # 20 customers with 50 orders each; five amounts come again and again for each of them.
    assert sorted(found) == sorted(f"customer-{who}" for who in range(0, 20, 3))
    assert found["customer-3"] == pytest.approx(10 * (63.99 + 83.99))


@pytest.mark.gate
@pytest.mark.timeout(600)  # Spark starts
@pytest.mark.once("an example that Spark runs, whichever Kafka it is")
def test_the_stream_example_says_what_it_has_appended_and_ends_with_ctrl_c(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    """`spark` is not used: it says whether there is a Java."""
    filled(kafka, topic, partitions=2, count=30)
    bootstrap = ",".join(kafka.bootstrap_servers)
    program = [sys.executable, "-m", "examples.spark_stream", bootstrap, topic, str(tmp_path)]
    said = tmp_path / "said"
    with (
        said.open("w") as errors,
        subprocess.Popen(
            program, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
        ) as running,
    ):
        assert running.stdout is not None
        assert next(iter(running.stdout)) == f"batch 0: 30 records to {tmp_path}\n"
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=300)

    assert (running.returncode, rest) == (0, "")
    assert "ERROR:root" not in said.read_text()  # py4j's tracebacks


@pytest.mark.gate
@pytest.mark.timeout(600)  # Spark starts
@pytest.mark.once("an example that Spark runs, whichever Kafka it is")
def test_the_sink_example_is_run_by_its_command(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    """`spark` is not used. For a writer of the format Spark looks at the session of the thread."""
    into = f"{topic}-clean"
    for name in (topic, into):
        topics.create_topic(kafka.bootstrap_servers, name)
    topics.produce(kafka.bootstrap_servers, topic, [b'{"customer": "alice"}', b"no order"])
    bootstrap = ",".join(kafka.bootstrap_servers)
    program = [sys.executable, "-m", "examples.spark_sink", bootstrap, topic, into, str(tmp_path)]

    subprocess.run(program, cwd=ROOT, check=True, timeout=300)

    with KafkaConsumer(
        into,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=10_000,
    ) as consumer:
        assert next(consumer).key == b"alice"


#: An example, in the middle of its start, and of a call of the JVM.
_CALLS = """
import signal, threading, time
from examples.spark_session import new_session

def tell_of_start():
    while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        time.sleep(0.01)
    print("starts", flush=True)

threading.Thread(target=tell_of_start, daemon=True).start()
spark = new_session()
print("calls", flush=True)
spark.sparkContext._jvm.java.lang.Thread.sleep(300_000)
"""


@pytest.mark.gate
@pytest.mark.timeout(600)  # Spark starts
@pytest.mark.parametrize("stage", ["starts", "calls"])
def test_ctrl_c_ends_an_example_without_a_traceback(spark: Any, stage: str) -> None:
    """`spark` is not used: it says whether there is a Java."""
    said, code = _interrupted([sys.executable, "-c", _CALLS], lambda line: line == f"{stage}\n")

    assert code == 130
    assert "Traceback" not in said
    assert "ERROR" not in said


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/spark_*.py")), ids=lambda p: p.stem)
def test_each_example_of_spark_makes_its_session_so(example: Path) -> None:
    text = example.read_text()

    assert ".getOrCreate" not in text or example.stem == "spark_session"
    assert "new_session" in text


@pytest.mark.gate
@pytest.mark.timeout(600)  # Spark starts
@pytest.mark.parametrize("stage", ["Spark starts", "the query begins", "batch  0"])
def test_ctrl_c_ends_the_demo_without_a_traceback(spark: Any, stage: str, tmp_path: Path) -> None:
    """`spark` is not used: it says whether there is a Java."""
    program = [sys.executable, "-m", "examples.spark_demo", "--out", str(tmp_path)]

    said, code = _interrupted(program, lambda line: stage in line)

    assert code == 130
    assert said.splitlines()[-1] == "interrupted"
    assert "Traceback" not in said
    assert "ERROR" not in said


def _interrupted(program: list[str], when: Callable[[str], bool]) -> tuple[str, int]:
    """What the program says and its exit status, if it gets SIGINT after this line."""
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as running:
        assert running.stdout is not None
        lines = []
        for line in running.stdout:
            lines.append(line)
            if when(line):
                break
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=300)
    return "".join(lines) + rest, running.returncode


@pytest.mark.gate
@pytest.mark.once("an example that Spark runs, whichever Kafka it is")
def test_the_protobuf_example_gives_spark_each_message(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, [an_order().SerializeToString(), b"\xff"])
    (tmp_path / "orders.desc").write_bytes(descriptors().SerializeToString())

    found = spark_protobuf.messages(
        spark, ",".join(kafka.bootstrap_servers), topic, str(tmp_path / "orders.desc"), "Order"
    )

    good, bad = found.orderBy("offset").collect()
    assert good.value.asDict(recursive=True) == {
        "id": -5,
        "note": None,
        "at": datetime.datetime(2026, 1, 31, 12),
        "took": datetime.timedelta(seconds=90),
        "states": {"a": "SENT"},
        "lines": [{"name": "x", "count": 2}, {"name": None, "count": None}],
    }
    assert (bad.value, bad.valueError) == (None, "unexpected EOF in varint")
    assert found.where("valueError is null").select("value.*").columns == list(good.value.asDict())


@pytest.mark.once("an example that Spark runs, whichever Kafka it is")
def test_the_stream_example_appends_what_is_new_and_shows_its_progress_as_a_group(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    bootstrap = ",".join(kafka.bootstrap_servers)
    for run in range(2):
        filled(kafka, topic, partitions=2, count=30, create=not run)
        query = spark_stream.append(
            spark, bootstrap, topic, str(tmp_path), trigger={"availableNow": True}
        )
        query.awaitTermination()

    rows = spark.read.parquet(f"{tmp_path}/data").select("partition", "offset").collect()
    assert sorted(map(tuple, rows)) == [(one, at) for one in (0, 1) for at in range(30)]
    assert committed(kafka, f"{topic}-to-parquet", topic) == {0: 30, 1: 30}


@pytest.mark.once("an example that Spark runs, whichever Kafka it is")
def test_the_sink_example_writes_what_is_clean_once(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    bootstrap, into = ",".join(kafka.bootstrap_servers), f"{topic}-clean"
    for name in (topic, into):
        topics.create_topic(kafka.bootstrap_servers, name)
    for amount in (1, 2):
        order = b'{"customer": "alice", "amount": %d}' % amount
        topics.produce(kafka.bootstrap_servers, topic, [order, b"no order"])
        query = spark_sink.clean(spark, bootstrap, topic, into, str(tmp_path))
        assert query.awaitTermination(300)

    written = spark.read.format("aktor").option("kafka.bootstrap.servers", bootstrap)
    written = written.option("subscribe", into).option("kafka.isolation.level", "read_committed")
    rows = written.option("includeHeaders", "true").load().orderBy("offset").collect()
    assert [(bytes(one.key), bytes(one.headers[0].value).decode()) for one in rows] == [
        (b"alice", f"{topic}-0@0"),
        (b"alice", f"{topic}-0@2"),
    ]


def committed(kafka: Cluster, group: str, topic: str) -> dict[int, int | None]:
    from kafka.structs import TopicPartition

    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group) as consumer:
        return {one: consumer.committed(TopicPartition(topic, one)) for one in (0, 1)}


@pytest.mark.timeout(600)
def test_the_demo_ends_with_the_right_sums(spark: Any) -> None:
    """`spark` is not used: it says whether there is a Java."""
    command = [sys.executable, "-m", "examples.spark_demo", "--seconds", "4"]

    run = subprocess.run(command, capture_output=True, text=True, timeout=340)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "every sum is right, over one restart" in run.stdout
