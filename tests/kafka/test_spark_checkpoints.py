"""A checkpoint of Spark's own Kafka source is gone on with by ours, and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka.structs import TopicPartition

from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_support import NATIVE, OURS, SOURCES, Stream
from tests.kafka.support import numbered

BOTH_WAYS = pytest.mark.parametrize(
    ("first", "then"), [(NATIVE, OURS), (OURS, NATIVE)], ids=["to ours", "to Spark's own"]
)


def write(kafka: Cluster, topic: str, *counts: int) -> None:
    """So many more records into each partition."""
    for partition, count in enumerate(counts):
        topics.produce(kafka.bootstrap_servers, topic, numbered(count), partition=partition)


def all_places(*counts: int) -> list[tuple[int, int]]:
    """Each offset of each partition once."""
    return [(partition, at) for partition, count in enumerate(counts) for at in range(count)]


@pytest.mark.once("which Kafka it is makes no difference to a checkpoint")
@BOTH_WAYS
def test_a_checkpoint_is_gone_on_with(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path, first: str, then: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    write(kafka, topic, 20, 10)
    stream = Stream(spark, kafka, topic, tmp_path, maxOffsetsPerTrigger=12)
    stream.run(first)
    assert sorted(stream.batches) == [0, 1, 2]

    # In the middle of a backlog, with a batch that was planned and not finished.
    stream.unfinish(1)
    del stream.batches[2]
    assert stream.run(then) == [1, 2]
    assert stream.places() == all_places(20, 10)

    # A partition is added; then back again to the first one.
    topics.add_partitions(kafka.bootstrap_servers, topic, 3)
    write(kafka, topic, 0, 5, 7)
    stream.run(then)
    assert stream.places() == all_places(20, 15, 7)
    write(kafka, topic, 3, 0, 1)
    stream.run(first)
    assert stream.places() == all_places(23, 15, 8)

    # The first run after a change may make a batch without records: the two write their JSON with
    # other spaces, and Spark compares texts.
    stream.run(then)
    assert stream.places() == all_places(23, 15, 8)
    assert stream.run(then) == []


@pytest.mark.once("how a backlog is shared is tested without Spark")
def test_both_share_a_backlog_in_the_same_way(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=3)
    write(kafka, topic, 40, 1, 9)

    def ends(name: str) -> list[Any]:
        stream = Stream(spark, kafka, topic, tmp_path / name, maxOffsetsPerTrigger=17)
        return [stream.end_of(number) for number in stream.run(name)]

    assert ends(OURS) == ends(NATIVE)


@pytest.mark.once("it starts eight streams")
def test_a_query_that_began_at_latest_goes_back_once_its_second_batch_is_finished(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    write(kafka, topic, 10)
    stream = Stream(spark, kafka, topic, tmp_path, startingOffsets="latest")

    # The end of the first batch says where the query begins, by a key that Spark's own source
    # refuses. Nothing is lost: the query does not start.
    assert stream.run(OURS) == [0]
    assert stream.end_of(0) == {topic: {"0": 10}, "@start": {topic: {"0": 10}}}
    with pytest.raises(Exception, match="@start"):
        stream.run(NATIVE)

    write(kafka, topic, 2)
    assert stream.run(OURS) == [1]
    stream.unfinish()
    with pytest.raises(Exception, match="@start"):
        stream.run(NATIVE)

    assert stream.run(OURS) == [1]
    write(kafka, topic, 2)
    assert stream.run(NATIVE) == [2]
    assert stream.places() == [(0, 10), (0, 11), (0, 12), (0, 13)]


@pytest.mark.once("the guard is tested without Spark")
def test_a_first_batch_of_sparks_own_source_that_is_not_finished_is_no_silent_loss(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    write(kafka, topic, 3)
    stream = Stream(spark, kafka, topic, tmp_path, startingOffsets="latest")
    stream.run(NATIVE)
    stream.unfinish()
    write(kafka, topic, 5)

    with pytest.raises(Exception, match="let it finish the batch"):
        stream.run(OURS)
    stream.run(NATIVE)
    stream.run(OURS)
    assert stream.places() == [(0, at) for at in range(3, 8)]


@pytest.mark.once("the guard is tested without Spark")
@pytest.mark.parametrize("source", SOURCES)
def test_records_deleted_before_the_first_batch_is_run_again_end_the_query(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path, source: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    write(kafka, topic, 30)
    stream = Stream(spark, kafka, topic, tmp_path)
    stream.run(source)
    stream.unfinish()
    assert stream.end_of(0) == {topic: {"0": 30}}, "as Spark's own source writes it"
    with topics.admin(kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 12})

    with pytest.raises(Exception, match="failOnDataLoss"):
        stream.run(source)
    stream.batches.clear()
    stream.run(source, failOnDataLoss="false")
    assert stream.places() == [(0, at) for at in range(12, 30)]
