"""Filters that are handed to the source, and conditions of `where`, leave the rows that Spark's own
filter leaves."""

from __future__ import annotations

import decimal
import io
import json
from typing import Any

import fastavro
import pytest

from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_support import OURS, batch, rows
from tests.spark.session import connector

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SCHEMA = (
    "value struct<n: int, text: string>, valueError string, topic string, partition int,"
    " offset bigint, timestamp timestamp"
)
#: Filters, and whether the source alone applies them.
FILTERS = {
    "offset between 2 and 4 and partition = 1": True,
    "partition in (0, 1) and not offset in (1, 2)": True,
    "timestamp >= timestamp'1970-01-01 00:00:05Z' and offset < 9": False,
    "timestamp < timestamp'1970-01-01 00:00:05Z' or offset = 9": False,
    "value.n > 3 and value.text like 'a%'": False,
    "value.n is null or value.text = 'b'": False,
    "value is null and valueError is not null": False,
}


@pytest.fixture
def filled(kafka: Cluster, topic: str) -> str:
    """A topic of JSON whose times are out of order; some values are no JSON."""
    configs = {"retention.ms": "-1"}
    topics.create_topic(kafka.bootstrap_servers, topic, 2, configs=configs)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for number in range(20):
            value = json.dumps({"n": number, "text": "ab"[number % 2] * number}).encode()
            producer.send(
                topic,
                value=value if number % 7 else b"nonsense",
                partition=number % 2,
                timestamp_ms=1000 * (number * 7 % 10),
            )
        producer.flush()
    return topic


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_filters_that_are_handed_over_leave_the_rows_of_sparks_own_filter(
    spark: Any, kafka: Cluster, filled: str
) -> None:
    records = spark.read.format(OURS).option("kafka.bootstrap.servers", kafka.bootstrap_servers[0])
    records = records.option("subscribe", filled).option("decode", "json").schema(SCHEMA)
    every = rows(records.load().selectExpr("*", *FILTERS))
    spark.conf.set(PUSHDOWN, "true")
    try:
        for text, alone in FILTERS.items():
            frame = records.option("pushFilters", "true").load().where(text)
            place = len(frame.columns) + list(FILTERS).index(text)
            expected = [row[: len(frame.columns)] for row in every if row[place]]
            assert rows(frame) == expected != [], text
            plan = frame._jdf.queryExecution().executedPlan().toString()
            assert ("Filter (" not in plan) == alone, plan
            if alone:
                told = spark._jvm.PythonSQLUtils.explainString(
                    frame._jdf.queryExecution(), "formatted"
                )
                assert "PushedFilters: [" in told.replace("PushedFilters: []", ""), told
    finally:
        spark.conf.set(PUSHDOWN, "false")


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_filters_that_shall_be_taken_are_refused_where_sparks_setting_is_off(
    spark: Any, kafka: Cluster, filled: str
) -> None:
    frame = batch(spark, OURS, kafka, filled, pushFilters="true").where("partition = 1")

    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        frame.count()


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_a_filter_of_one_query_leaves_the_other_queries_of_the_frame_as_they_are(
    spark: Any, kafka: Cluster, filled: str
) -> None:
    frame = batch(spark, OURS, kafka, filled)
    spark.conf.set(PUSHDOWN, "true")
    try:
        one, two = frame.where("partition = 0"), frame.where("partition = 1")
        assert [one.count(), frame.count()] == [10, 20]
        assert {row["partition"] for row in one.union(two).collect()} == {0, 1}
    finally:
        spark.conf.set(PUSHDOWN, "false")


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_where_leaves_the_rows_of_sparks_own_filter_in_a_batch_and_in_a_stream(
    spark: Any, kafka: Cluster, filled: str
) -> None:
    text = "(offset > 4 or value like '%aa%') and timestamp >= timestamp'1970-01-01 00:00:02Z'"
    expected = batch(spark, OURS, kafka, filled, decode="string").where(text)

    assert rows(batch(spark, OURS, kafka, filled, decode="string", where=text)) == rows(expected)
    stream = spark.readStream.format(OURS).option("subscribe", filled).option("where", text)
    stream = stream.option("kafka.bootstrap.servers", kafka.bootstrap_servers[0])
    stream = stream.option("decode", "string").option("startingOffsets", "earliest").load()
    query = stream.writeStream.format("memory").queryName("filtered")
    query.trigger(availableNow=True).start().awaitTermination()
    assert rows(spark.table("filtered")) == rows(expected) != []


@pytest.mark.once("values are decoded in the same way, whoever sent them")
def test_avro_is_what_from_avro_of_spark_makes_of_it(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    if not connector():
        pytest.skip("there is no from_avro of Spark: neither its jar nor Maven")
    from pyspark.sql.avro.functions import from_avro

    schema = json.dumps(AVRO)
    to = io.BytesIO()
    values = []
    for number in range(20):
        to = io.BytesIO()
        fastavro.schemaless_writer(to, fastavro.parse_schema(AVRO), avro_value(number))
        values.append(to.getvalue() if number % 7 else b"\x02nonsense")
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, values)

    ours = batch(spark, OURS, kafka, topic, decode="avro", avroSchema=schema)
    theirs = batch(spark, OURS, kafka, topic)
    theirs = theirs.withColumn("value", from_avro("value", schema, {"mode": "PERMISSIVE"}))

    assert ours.schema == theirs.schema
    for number, (our, their) in enumerate(zip(rows(ours), rows(theirs), strict=True)):
        if number % 7:
            assert our == their
        else:  # Spark makes a struct of nulls of it
            assert (our[1], set(their[1])) == (None, {None})


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": ["null", "boolean"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "tags", "type": {"type": "array", "items": ["string", "null"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "either", "type": ["int", "string", "null"]},
        {"name": "wide", "type": ["int", "long"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        },
        {
            "name": "inner",
            "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "float"}]},
        },
    ],
}


def avro_value(number: int) -> dict[str, Any]:
    return {
        "id": number - 10,
        "paid": [None, True, False][number % 3],
        "state": ["NEW", "SENT"][number % 2],
        "tags": ["a", None, "größe"][: number % 4],
        "counts": {"k": number} if number % 2 else {},
        "either": [number, "x", None][number % 3],
        "wide": 2 ** (number * 3),
        "hash": bytes([number, 255]),
        "at": 1_700_000_000_123 - number * 10**11,
        "local": number * 10**9 + 1,
        "day": number * 1000 - 5000,
        "price": decimal.Decimal(number * 12345 - 100_000) / 1000,
        "inner": {"x": number / 3},
    }


@pytest.mark.once("what Spark makes of it does not depend on which Kafka it is")
def test_a_string_has_the_bytes_that_sparks_cast_leaves(
    spark: Any, kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    values = [b"", "größe 😀".encode(), b"\xff\xc3A", b"\x00a", b"\xed\xa0\x80"]
    topics.produce(kafka.bootstrap_servers, topic, values)

    ours = batch(spark, OURS, kafka, topic, decode="string").orderBy("offset")
    theirs = batch(spark, OURS, kafka, topic).orderBy("offset")
    found = [row.h for row in ours.selectExpr("hex(value) h").collect()]
    assert found == [row.h for row in theirs.selectExpr("hex(cast(value as string)) h").collect()]
    assert found == [value.hex().upper() for value in values]
