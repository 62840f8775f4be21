"""Options in a session of Spark: the format is found by itself, mistakes are refused before a job
starts, and secrets are shown nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aktor.spark
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_support import OURS, batch, reader, rows
from tests.kafka.support import ROOT, numbered

#: Two canaries, which no output or file may have: one is given in the options themselves, the
#: other stands in the environment, and the options refer to it. Each secret is made of both.
LITERAL = "c4n4ry-1n-th3-0pt10ns"
REFERRED = "c4n4ry-1n-th3-3nv1r0nm3nt"

#: Arguments: address, topic, folder, secret. All that Spark shows of a query goes to the output.
_PROGRAM = """
import json, sys, traceback
from pathlib import Path
from types import SimpleNamespace
from tests.kafka.spark_support import OURS, batch, reader
from tests.spark.session import a_session, command

address, topic, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
kafka = SimpleNamespace(bootstrap_servers=[address])
(folder / "events").mkdir()
spark = a_session(python=command(folder), **{
    "spark.log.level": "INFO",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": str(folder / "events"),
    "spark.eventLog.compress": "false",
})
login = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.request.timeout.ms": "2000",
    "fetchOffset.numRetries": "0",
}

def stream(name, options):
    options = {"subscribe": topic, "startingOffsets": "earliest", **options}
    query = (
        reader(spark.readStream, OURS, kafka, options).load().writeStream.format("noop")
        .option("checkpointLocation", str(folder / name))
        .trigger(availableNow=True).start()
    )
    try:
        query.awaitTermination(300)
        query.explain(True)
        print(json.dumps(query.lastProgress, default=str), query.status)
    except Exception as error:
        print("failed:", error, query.exception())

def failing(options):
    try:
        print(batch(spark, OURS, kafka, topic, **options).collect())
    except Exception:
        traceback.print_exc(file=sys.stdout)

secret = sys.argv[4]
user = f'username="me" password="{secret}"'
secrets = {
    "kafka.sasl.jaas.config": f"security.plain.PlainLoginModule required {user};",
    "kafka.sasl.password": secret,
    "kafka.ssl.key.password": secret,
    "kafka.ssl.keystore.password": secret,
    "kafka.ssl.truststore.password": secret,
    "decode": "avro",
    "avroSchema": '"int"',
    "schemaRegistry.url": "http://me:${env:CANARY}@127.0.0.1:9",
    "schemaRegistry.basic.auth.user.info": "me:${env:CANARY}",
    "schemaRegistry.ssl.key.password": secret,
}
frame = batch(spark, OURS, kafka, topic, **secrets)
for mode in ("extended", "formatted", "codegen", "cost"):
    frame.explain(mode)
print(frame._jdf.queryExecution().toString(), frame.count())
frame.createOrReplaceTempView("records")
spark.sql("SELECT count(*) FROM records").show()
stream("good", secrets)
failing(secrets | login)
stream("bad", secrets | login)
failing(secrets | {"kafka.sasl.jaas.config": secret})
failing(secrets | {"kafka.sasl.pasword": secret})
failing(secrets | {"startingOffsets": json.dumps({topic: {"0": 99, "1": 0}})})
spark.stop()
"""


@pytest.fixture
def group_of_jobs(spark: Any) -> Iterator[str]:
    """The jobs that are started meanwhile are in this group."""
    spark.sparkContext.setJobGroup("refused", "")
    yield "refused"
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_the_format_is_found_by_itself_and_may_be_registered(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(3))

    found = rows(batch(spark, OURS, kafka, topic))
    aktor.spark.register(spark)

    assert len(found) == 3
    assert rows(batch(spark, OURS, kafka, topic)) == found


@pytest.mark.embedded("no query gets as far as Kafka")
def test_a_mistake_is_refused_before_a_job_starts(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path, group_of_jobs: str
) -> None:
    for options, message in (
        ({"subscirbe": topic}, "unknown option subscirbe; did you mean subscribe"),
        ({"kafka.fetch.max.byte": "1"}, "did you mean kafka.fetch.max.bytes"),
        ({"assign": {topic: [0]}}, "exactly one of assign, subscribe and subscribePattern"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than"),
    ):
        with pytest.raises(Exception, match=message):
            batch(spark, OURS, kafka, topic, **options)
    for options, schema, message in (
        ({"endingOffsets": "latest"}, None, "endingOffsets is for batch queries"),
        # Spark does not ask for a schema that is there, and so hears of it later.
        ({"failOnDataLoss": "no"}, "value binary", "failOnDataLoss must be true or false"),
    ):
        frame = reader(spark.readStream, OURS, kafka, {"subscribe": topic, **options})
        frame = (frame if schema is None else frame.schema(schema)).load()
        stream = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        with pytest.raises(Exception, match=message) as refused:
            stream.start().awaitTermination(300)
        # PySpark's own error is below ours if `streamReader` raises it.
        assert "UnboundLocalError" not in str(refused.value)

    assert spark.sparkContext.statusTracker().getJobIdsForGroup(group_of_jobs) == []


@pytest.mark.timeout(600)  # 105 s were seen on a machine with a load of 13
@pytest.mark.once("a driver of its own takes 20 s")
def test_secrets_are_in_no_plan_log_error_progress_event_or_checkpoint(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    topics.produce(kafka.bootstrap_servers, topic, numbered(3), partition=0)
    secret = LITERAL + "${env:CANARY}"
    arguments = [kafka.bootstrap_servers[0], topic, str(tmp_path), secret]
    trace = {"AKTOR_TRACE": str(tmp_path / "trace.jsonl"), "CANARY": REFERRED}
    with (tmp_path / "said").open("wb") as said:
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, *arguments],
            cwd=ROOT,
            env=os.environ | trace,
            stdout=said,
            stderr=subprocess.STDOUT,
            check=True,
        )

    files = {file: file.read_text(errors="replace") for file in _files(tmp_path)}
    # Everything is there that might have had them.
    text = "\n".join(files.values())
    for sign in ("SQLExecutionStart", "numInputRows", "begin with offset 99", "BatchScan"):
        assert sign in text, sign
    assert {"offsets", "events", "trace.jsonl"} <= {
        part for file in files for part in file.relative_to(tmp_path).parts
    }
    for canary in (LITERAL, REFERRED):
        assert [file for file, content in files.items() if canary in content] == []


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]
