"""Spark runs a second copy of a slow task, and kills the slow one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_standalone import SparkStandalone
from tests.kafka.support import Child

PARTITIONS = 4
COUNT = 500

#: The first attempt of the task of partition 0 never ends by itself.
_PROGRAM = """
from types import SimpleNamespace
import pyarrow as pa
from pyspark import TaskContext
from tests.kafka.spark_support import OURS, batch
from tests.spark.session import a_session

given = json.loads({given!r})

def stall(batches):
    context = TaskContext.get()
    for rows in batches:
        if 0 in rows.column(0).to_pylist() and context.attemptNumber() == 0:
            time.sleep(3600)
        attempt = pa.array([context.attemptNumber()] * rows.num_rows, pa.int32())
        names = ["partition", "offset", "attempt"]
        yield pa.RecordBatch.from_arrays([*rows.columns, attempt], names)

spark = a_session(given["master"], **given["settings"])
kafka = SimpleNamespace(bootstrap_servers=servers)
rows = batch(spark, OURS, kafka, topic).select("partition", "offset")
rows.mapInArrow(stall, "partition int, offset long, attempt int").write.parquet(given["rows"])
say("ended")
spark.stop()
"""


@pytest.mark.timeout(600)
@pytest.mark.once("a cluster of executors takes 30 s")
def test_a_speculative_copy_of_a_task_reads_its_records_once(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        topics.produce(kafka.bootstrap_servers, topic, [b"v"] * COUNT, partition=partition)
    settings = {
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.interval": "100ms",
        "spark.executor.memory": "512m",
    }

    with SparkStandalone(tmp_path, workers=2) as cluster:
        given = {"master": cluster.master, "settings": settings, "rows": str(tmp_path / "rows")}
        with Child(kafka, topic, "", _PROGRAM.format(given=json.dumps(given))) as driver:
            assert driver.hear(300) == "ended"

    found = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted((row.partition, row.offset) for row in found) == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(COUNT)
    ]
    assert {row.attempt for row in found if row.partition == 0} == {1}
    assert {row.attempt for row in found if row.partition != 0} == {0}
