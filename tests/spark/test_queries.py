"""Whole queries on an embedded Kafka, through everything that Spark does but its JVM."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimeType,
    VariantType,
    YearMonthIntervalType,
)

from aktor import KafkaConsumer
from aktor.broker import EmbeddedKafka
from aktor.broker.codes import Code
from aktor.broker.faults import CorruptRecords, Delay, FailWith, Fault
from aktor.errors import ConfigurationError, CorruptBatchError, DataLossError
from aktor.spark.driver.cluster import DriverCluster
from aktor.spark.options import client_settings
from aktor.spark.options.source import read_options
from aktor.spark.tasks import worker
from aktor.spark.tasks.columns import Layout
from tests.spark.harness import (
    Query,
    Run,
    a_source,
    made,
    read_batch,
    run_task,
    sent,
    the_schema,
)


@pytest.fixture(scope="module")
def _kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
def kafka(_kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """A broker with an empty topic "orders" of two partitions."""
    _kafka.create_topic("orders", 2)
    yield _kafka
    worker._drop()
    _kafka.clear_faults()
    _kafka.delete_topic("orders")


def options(kafka: EmbeddedKafka, **given: Any) -> dict[str, str]:
    """The options of a query of "orders"; `__` stands for a dot."""
    named = {name.replace("__", "."): str(value) for name, value in given.items()}
    what = {} if {"assign", "subscribePattern"} & named.keys() else {"subscribe": "orders"}
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers} | what | named


def write(kafka: EmbeddedKafka, *values: bytes | None, partition: int = 0, **more: Any) -> None:
    """Write records to a partition of "orders", in one batch."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
    for value in values:
        producer.send("orders", value, partition=partition, **({"key": b"k"} | more))
    producer.close()


def a_schema(**types: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def values(table: pa.Table) -> list[Any]:
    found: list[Any] = table.column("value").to_pylist()
    return found


def numbers(*range_: int) -> list[bytes]:
    return [b"%d" % number for number in range(*range_)]


# -- columns


def test_a_row_has_what_the_record_has(kafka: EmbeddedKafka) -> None:
    write(kafka, b"", None, key=b"k", timestamp_ms=1_700_000_000_123)
    write(kafka, b"v", key=None, headers=[("a", b"1"), ("a", b"")], timestamp_ms=5, partition=1)

    table, tasks = read_batch(options(kafka, includeHeaders="true"))

    assert tasks == 2
    rows = table.to_pylist()
    assert [row["value"] for row in rows] == [b"", None, b"v"]
    assert [row["key"] for row in rows] == [b"k", b"k", None]
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("orders", 0, 0),
        ("orders", 0, 1),
        ("orders", 1, 0),
    ]
    assert [row["timestamp"].timestamp() for row in rows] == [1_700_000_000.123] * 2 + [0.005]
    assert [row["timestampType"] for row in rows] == [0, 0, 0]
    assert [row["headers"] for row in rows] == [
        None,
        None,
        [{"key": "a", "value": b"1"}, {"key": "a", "value": b""}],
    ]


@pytest.mark.parametrize("how", ["option", "schema"])
def test_only_the_columns_that_are_asked_for_are_read(kafka: EmbeddedKafka, how: str) -> None:
    write(kafka, b"v")

    if how == "option":
        table, _ = read_batch(options(kafka, columns="offset,value"))
    else:
        table, _ = read_batch(options(kafka), a_schema(offset=LongType(), value=BinaryType()))

    assert table.to_pylist() == [{"offset": 0, "value": b"v"}]


@pytest.mark.parametrize("stream", [False, True])
def test_columns_that_are_named_twice_must_be_the_same(kafka: EmbeddedKafka, stream: bool) -> None:
    source = a_source(options(kafka, columns="value,offset"))
    reader = "streamReader" if stream else "reader"

    made(source, reader, a_schema(offset=LongType(), value=BinaryType()))
    with pytest.raises(
        ConfigurationError, match=r"columns=value,offset, and \.schema\(\.\.\.\) has"
    ):
        made(source, reader, a_schema(offset=LongType(), key=BinaryType()))


def test_an_unknown_column_and_a_wrong_type_are_refused(kafka: EmbeddedKafka) -> None:
    with pytest.raises(ConfigurationError, match="did you mean columns=offset"):
        read_batch(options(kafka, columns="offsets"))
    with pytest.raises(ConfigurationError, match="unknown column offsets; did you mean offset"):
        read_batch(options(kafka), a_schema(offsets=LongType()))
    with pytest.raises(ConfigurationError, match="unknown column OFFSET; did you mean offset"):
        read_batch(options(kafka), a_schema(OFFSET=LongType()))
    with pytest.raises(ConfigurationError, match="key is binary, not string: cast it after readi"):
        read_batch(options(kafka), a_schema(key=StringType()))


A_STRUCT = {"value": StructType([StructField("id", LongType())])}


@pytest.mark.parametrize(
    ("given", "schema", "said"),
    [
        (
            {},
            {"value": StringType()},
            "value is binary, not string: set decode=string, or cast it after",
        ),
        ({}, A_STRUCT, r"not struct<id:bigint>: set decode=json, avro or proto"),
        ({"decode": "string"}, A_STRUCT, "set decode=json, avro or protobuf"),
        ({"decode": "string"}, {"value": LongType()}, "value is string, not bigint: cast it after"),
        ({}, {"valueError": StringType()}, "column valueError is there only with decode=json"),
        ({"columns": "value,VALUEERROR"}, None, "column valueError is there only with decode=json"),
        (
            {"columns": "rawValue", "decode": "string"},
            None,
            "column rawValue is there only with decode=json, avro or protobuf: set one",
        ),
    ],
)
def test_a_column_that_needs_a_decoder_is_refused_with_the_option_that_makes_it(
    given: dict[str, str], schema: dict[str, Any] | None, said: str
) -> None:
    source = {"kafka.bootstrap.servers": "no:1", "subscribe": "a", **given}

    with pytest.raises(ConfigurationError, match=said):
        read_batch(source, None if schema is None else a_schema(**schema))


def test_json_values_become_typed_columns_and_bad_ones_stand_beside(kafka: EmbeddedKafka) -> None:
    write(kafka, b'{"id": 7, "name": "a"}', b"nonsense", None, b'{"id": "x"}', b'{"id": 8}')
    schema = a_schema(
        value=a_schema(id=LongType(), name=StringType()),
        valueError=StringType(),
        rawValue=BinaryType(),
        offset=LongType(),
    )

    table, _ = read_batch(options(kafka, decode="json"), schema)

    rows = table.to_pylist()
    assert [row["value"] for row in rows] == [
        {"id": 7, "name": "a"},
        None,
        None,
        None,
        {"id": 8, "name": None},
    ]
    assert [row["rawValue"] for row in rows] == [None, b"nonsense", None, b'{"id": "x"}', None]
    assert [row["valueError"] is None for row in rows] == [True, False, True, False, True]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4]


def test_json_needs_a_schema_of_the_values(kafka: EmbeddedKafka) -> None:
    with pytest.raises(ConfigurationError, match="decode=json needs the values' schema"):
        read_batch(options(kafka, decode="json"))


@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_json_values_without_a_field_are_refused(reader: str) -> None:
    """Arrow would make a column without a row of them, and all records would be left out."""
    source = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a", "decode": "json"})

    with pytest.raises(ConfigurationError, match="value is a struct without a field"):
        made(source, reader, a_schema(value=StructType([])))


ID = StructType([StructField("id", LongType(), nullable=False)])
TWICE = StructType([StructField("a", LongType())] * 2)
A_VALUE = StructField("value", a_schema(id=LongType()))


@pytest.mark.parametrize(
    ("fields", "named", "advice"),
    [
        ([StructField("value", ID)], "value.id", "id bigint"),
        ([StructField("value", a_schema(a=ID))], "value.a.id", "id bigint"),
        ([StructField("value", a_schema(a=ArrayType(ID)))], "value.a.element.id", "id bigint"),
        ([StructField("value", a_schema(a=MapType(StringType(), ID)))], "value.a.value.id", "id"),
        (
            [StructField("value", a_schema(a=ArrayType(LongType(), containsNull=False)))],
            "value.a.element",
            "element bigint",
        ),
        (
            [StructField("value", a_schema(id=LongType()), nullable=False)],
            "value",
            "value struct<id:bigint>",
        ),
        ([A_VALUE, StructField("rawValue", BinaryType(), False)], "rawValue", "rawValue binary"),
    ],
)
@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_json_fields_that_may_not_be_null_are_refused(
    fields: list[StructField], named: str, advice: str, reader: str
) -> None:
    """At the first row without one, Spark's JVM would end with an IllegalStateException."""
    source = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a", "decode": "json"})

    with pytest.raises(ConfigurationError) as found:
        made(source, reader, StructType(fields))

    assert f"{named} is not null in the schema" in str(found.value)
    assert f"write '{advice}" in str(found.value)


AVRO = (
    '{"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", "long"]},'
    ' {"name": "all", "type": {"type": "array", "items": "long"}}]}'
)


@pytest.mark.parametrize(
    ("options", "field", "named"),
    [
        ({"decode": "avro", "avroSchema": AVRO}, StructField("value", ID), "value.id"),
        (
            {"decode": "avro", "avroSchema": AVRO},
            StructField("value", a_schema(all=ArrayType(LongType(), containsNull=False))),
            "value.all.element",
        ),
        (
            {"decode": "avro", "avroSchema": AVRO},
            StructField("value", a_schema(id=LongType()), False),
            "value",
        ),
        ({"decode": "string"}, StructField("key", StringType(), False), "key"),
        ({}, StructField("value", BinaryType(), False), "value"),
    ],
)
@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_columns_that_a_record_may_not_have_cannot_be_not_null(
    options: dict[str, str], field: StructField, named: str, reader: str
) -> None:
    """Spark would not look for the null, and read what is in its place: 0, false or nothing."""
    source = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a", **options})

    with pytest.raises(ConfigurationError, match=f"{named} is not null in the schema"):
        made(source, reader, StructType([field]))


def test_columns_that_each_record_has_may_be_not_null() -> None:
    """Nothing is lost by it."""
    source = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a"})

    source.reader(StructType([StructField("offset", LongType(), nullable=False)]))


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (TimeType(), "value.a is of type time"),
        (ArrayType(DayTimeIntervalType()), "value.a.element is of type interval day to second"),
        (a_schema(b=YearMonthIntervalType()), "value.a.b is of type interval year to month"),
        (MapType(StringType(), VariantType()), "value.a.value is of type variant"),
        (NullType(), "value.a is of type void"),
    ],
)
@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_json_fields_of_types_that_are_not_read_are_refused(
    kind: DataType, named: str, reader: str
) -> None:
    """Each task would stumble over the first value, also over a good one."""
    source = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a", "decode": "json"})

    with pytest.raises(ConfigurationError, match=f"{named}.*, which decode=json does not") as found:
        made(source, reader, a_schema(value=a_schema(a=kind)))

    assert "cast it in the query" in str(found.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([("offset", LongType()), ("offset", LongType())], "names a column twice: offset"),
        ([("value", a_schema(a=LongType()))] * 2, "names a column twice: value"),
        ([("value", TWICE)], "the struct value names a field twice: a"),
        ([("value", a_schema(b=ArrayType(TWICE)))], r"the struct value\.b\.element names a field"),
    ],
)
@pytest.mark.parametrize("reader", ["reader", "streamReader"])
def test_a_name_that_is_there_twice_is_refused_before_the_job(
    fields: list[tuple[str, DataType]], said: str, reader: str
) -> None:
    source = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a"})
    decoding = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a", "decode": "json"})

    with pytest.raises(ConfigurationError, match=said):
        made(
            source if fields[0][0] == "offset" else decoding,
            reader,
            StructType([StructField(name, kind) for name, kind in fields]),
        )


@pytest.mark.parametrize("name", ["valueError", "rawValue"])
def test_what_stands_beside_bad_json_has_its_type(name: str) -> None:
    source = a_source({"kafka.bootstrap.servers": "no:1", "subscribe": "a", "decode": "json"})

    with pytest.raises(ConfigurationError, match=f"the column {name} is .*, not bigint"):
        source.reader(StructType([A_VALUE, StructField(name, LongType())]))


def test_settings_of_javas_client_are_named_once_and_in_the_driver(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_settings, "_WARNED", set())
    write(kafka, b"v")
    given = options(kafka, kafka__metric__reporters="x", startingOffsets="earliest")

    table, _ = read_batch(given)
    query = Query(given)
    query.run()

    assert values(table) == [b"v"]
    assert len(query.rows) == 1
    said = [one.message for one in caplog.records if "without effect" in one.message]
    assert said == ["kafka.metric.reporters: of Java's client, without effect here"]


# -- ranges


def test_a_batch_reads_from_its_start_to_its_end(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    write(kafka, *numbers(10, 20), partition=1)

    table, _ = read_batch(
        options(
            kafka,
            startingOffsets='{"orders": {"0": 3, "1": -2}}',
            endingOffsets='{"orders": {"0": 6}}',
            endingOffsetsDefault="latest",
        )
    )
    assert values(table) == [*numbers(3, 6), *numbers(10, 20)]


def test_a_batch_does_not_wait_for_records_that_are_not_written_yet(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    given = options(kafka, endingOffsets='{"orders": {"0": 12}}', endingOffsetsDefault="latest")

    with pytest.raises(DataLossError, match="orders-0 was to be read from offset 0 to 12"):
        read_batch(given)
    table, _ = read_batch(given | {"failOnDataLoss": "false"})
    assert values(table) == numbers(10)


def test_one_task_reads_many_ranges(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    write(kafka, *numbers(10, 20), partition=1)

    table, tasks = read_batch(options(kafka, maxRecordsPerPartition=3, maxPartitions=1))

    assert tasks == 1
    assert sorted(values(table)) == sorted(numbers(20))


def test_a_range_ends_behind_the_records_of_an_aborted_transaction(kafka: EmbeddedKafka) -> None:
    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="t", acks="all"
    )
    producer.init_transactions()
    for number, commits in enumerate([True, False]):
        producer.begin_transaction()
        for _ in range(3):
            producer.send("orders", b"%d" % number, partition=0)
        producer.flush()
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()

    committed, _ = read_batch(options(kafka, kafka__isolation__level="read_committed"))
    everything, _ = read_batch(options(kafka))

    assert values(committed) == [b"0"] * 3
    assert values(everything) == [b"0"] * 3 + [b"1"] * 3


def test_a_worker_keeps_its_consumer_and_what_it_fetched_ahead(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(1000))
    query = Query(options(kafka, startingOffsets="earliest", maxOffsetsPerTrigger=100))
    query.run(batches=1)
    kept = worker._kept
    assert kept is not None
    fetched = kept[2].metrics()["consumer-fetch-manager-metrics"]["fetch-total"]

    query.run()

    assert worker._kept is kept
    assert [row["value"] for row in query.rows] == numbers(1000)
    assert kept[2].metrics()["consumer-fetch-manager-metrics"]["fetch-total"] - fetched <= 2


def test_a_broker_that_comes_back_is_found_as_soon_as_by_sparks_own_source(
    kafka: EmbeddedKafka,
) -> None:
    """kafka-python waits up to 30 s between two attempts to connect, Java's client 1 s."""
    write(kafka, b"v")

    for given, wait in (
        ({}, 1_000),
        ({"kafka__reconnect__backoff__max__ms": "7000"}, 7_000),
        ({"kafka__reconnect__backoff__ms": "40000"}, 40_000),
    ):
        wanted = options(kafka, **given)
        read_batch(wanted)
        assert worker._kept is not None
        assert worker._kept[2].config["reconnect_backoff_max_ms"] == wait
        driver = DriverCluster(read_options(wanted, stream=False))
        try:
            assert driver._kafka().config["reconnect_backoff_max_ms"] == wait
        finally:
            driver.close()


def test_other_settings_make_another_consumer(kafka: EmbeddedKafka) -> None:
    write(kafka, b"v")
    read_batch(options(kafka))
    first = worker._kept

    read_batch(options(kafka, kafka__client__id="other"))

    assert first is not None
    assert worker._kept is not None
    assert worker._kept[2].config["client_id"] == "other"
    assert first[2].status().state == "closed"


def test_a_task_that_spark_stops_early_leaves_a_worker_that_reads_on(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(100))
    given = options(kafka, columns="value")
    reader = sent(a_source(given)).reader(schema=the_schema(given))
    task = reader.partitions()[0]

    batches = reader.read(task)
    next(batches)
    batches.close()

    rows = [row for batch in run_task(reader, task, the_schema(given)) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == numbers(100)


# -- streams


def test_a_stream_reads_everything_once_over_several_runs(kafka: EmbeddedKafka) -> None:
    query = Query(options(kafka, startingOffsets="earliest", maxOffsetsPerTrigger=7))
    write(kafka, *numbers(20))
    query.run()
    write(kafka, *numbers(20, 30), partition=1)
    query.run()

    assert sorted(row["value"] for row in query.rows) == sorted(numbers(30))
    assert query.offsets() == {"orders": {"0": 20, "1": 10}}
    assert query.reported == {"orders": {"0": 20, "1": 10}}


def test_trigger_once_reads_everything_in_one_batch(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(20))
    query = Query(options(kafka, startingOffsets="earliest", maxOffsetsPerTrigger=5))

    assert query.run(once=True) == 1
    assert [row["value"] for row in query.rows] == numbers(20)


def test_a_batch_that_was_not_finished_is_the_same_when_it_is_run_again(
    kafka: EmbeddedKafka,
) -> None:
    query = Query(options(kafka, startingOffsets="earliest"))
    write(kafka, *numbers(10))
    killed = Run(query)
    killed.one_batch(fail=True)
    first, query.rows = query.rows, []
    write(kafka, *numbers(10, 20))

    query.run(batches=1)
    assert query.rows == first
    query.run()
    assert [row["value"] for row in query.rows] == numbers(20)
    killed.stop()


def test_a_checkpoint_in_the_format_of_sparks_own_source_is_gone_on_with(
    kafka: EmbeddedKafka,
) -> None:
    write(kafka, *numbers(10))
    query = Query(options(kafka))
    query.log, query.finished = ['{"orders":{"0":4,"1":0}}'], 1

    query.run()

    assert [row["value"] for row in query.rows] == numbers(4, 10)


def test_partitions_that_are_added_are_read_in_the_next_run(kafka: EmbeddedKafka) -> None:
    write(kafka, b"old")
    query = Query(options(kafka, startingOffsets="earliest"))
    query.run()
    kafka.add_partitions("orders", 3)
    write(kafka, b"new", partition=2)

    query.run()

    assert [row["value"] for row in query.rows] == [b"old", b"new"]


def test_a_partition_is_added_before_a_restart_and_starting_offsets_do_not_name_it(
    kafka: EmbeddedKafka,
) -> None:
    write(kafka, *numbers(3))
    query = Query(options(kafka, startingOffsets='{"orders": {"0": 1, "1": 0}}'))
    Run(query).one_batch(fail=True)
    kafka.add_partitions("orders", 3)
    write(kafka, b"added", partition=2)
    query.rows.clear()

    query.run()

    assert [row["value"] for row in query.rows] == [b"1", b"2", b"added"]


def test_starting_offsets_that_lack_a_partition_are_refused_before_anything_is_read_or_committed(
    kafka: EmbeddedKafka,
) -> None:
    write(kafka, *numbers(3))
    lacking = options(kafka, startingOffsets='{"orders": {"0": 1}}', commitOffsets="true")
    query = Query(lacking | {"kafka.group.id": "refused-start"})

    with pytest.raises(ConfigurationError, match="it lacks orders-1"):
        query.run()

    assert (query.log, query.rows) == ([], [])
    assert kafka.committed("refused-start") == {}


def test_a_pattern_finds_topics_and_no_internal_ones(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("order-lines")
    write(kafka, b"v")
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="g")
    consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(0, "", -1)})
    consumer.close()
    query = Query(options(kafka, subscribePattern="er|consumer", startingOffsets="earliest"))

    query.run()

    kafka.delete_topic("order-lines")
    assert query.offsets() == {"order-lines": {"0": 0}, "orders": {"0": 1, "1": 0}}


@pytest.mark.parametrize("stream", [False, True])
def test_a_pattern_to_which_no_topic_fits_is_told_once(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    given = options(kafka, subscribePattern="^no-such$")
    with caplog.at_level(logging.WARNING, logger="aktor.spark"):
        if stream:
            run = Run(Query(given), available_now=False)
            for _ in range(3):
                run.one_batch()
        else:
            assert read_batch(given)[0].num_rows == 0

    told = [record.getMessage() for record in caplog.records]
    assert told == ["subscribePattern=^no-such$: no topic fits now, so there is nothing to read"]


# -- the group


def test_progress_is_mirrored_into_a_group_without_lag_at_the_end(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(20))
    query = Query(
        options(
            kafka,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=8,
            commitOffsets="true",
            kafka__group__id="mirror",
        )
    )

    query.run()

    assert kafka.committed("mirror") == {("orders", 0): 20, ("orders", 1): 0}
    assert kafka.members("mirror") == []


def test_a_group_with_members_does_not_stop_the_query(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    write(kafka, b"v")
    member = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="taken")
    while not member.assignment():
        member.poll(timeout_ms=100)
    query = Query(
        options(kafka, startingOffsets="earliest", commitOffsets="true", kafka__group__id="taken")
    )

    with caplog.at_level(logging.WARNING, "aktor.spark"):
        query.run()

    member.close()
    assert [row["value"] for row in query.rows] == [b"v"]
    assert "group 'taken' has members" in caplog.text


def test_a_query_begins_where_a_group_has_got_to(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    write(kafka, b"other", partition=1)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="billing")
    consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(6, "", -1)})
    consumer.close()

    query = Query(options(kafka, startingOffsets="group", kafka__group__id="billing"))
    query.run()

    assert [row["value"] for row in query.rows] == [*numbers(6, 10), b"other"]


# -- what is gone


def deleted_up_to(kafka: EmbeddedKafka, offset: int) -> None:
    """Retention deletes the beginning of orders-0."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.delete_records({TopicPartition("orders", 0): offset})
    admin.close()


def test_records_that_are_deleted_before_they_are_read_are_a_loss(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    given = options(kafka, startingOffsets='{"orders": {"0": 2, "1": 0}}', subscribe="orders")
    for strict in (True, False):
        query = Query(given | {"failOnDataLoss": str(strict)})
        run = Run(query)
        run.one_batch(fail=True)
        if strict:
            deleted_up_to(kafka, 5)
        query.rows = []
        if strict:
            with pytest.raises(DataLossError, match="orders-0 was to be read from offset 2 to 10"):
                run.one_batch()
        else:
            run.one_batch()
            assert [row["value"] for row in query.rows] == numbers(5, 10)
        run.stop()


def test_a_batch_query_says_what_is_not_there_any_more(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    deleted_up_to(kafka, 5)
    given = options(kafka, startingOffsets='{"orders": {"0": 2, "1": 0}}')

    with pytest.raises(DataLossError, match="from offset 2 to 10, and has those from 5 to 10"):
        read_batch(given)
    table, _ = read_batch(given | {"failOnDataLoss": "false"})
    assert values(table) == numbers(5, 10)


@pytest.mark.parametrize("strict", [True, False])
def test_a_topic_created_anew_between_plan_and_task_is_a_loss(
    kafka: EmbeddedKafka, strict: bool
) -> None:
    write(kafka, *numbers(10))
    given = options(kafka, failOnDataLoss=str(strict))
    schema = the_schema(given)
    reader = sent(a_source(given)).reader(schema=schema)
    task = reader.partitions()[0]
    kafka.delete_topic("orders")
    kafka.create_topic("orders", 2)
    write(kafka, *numbers(100, 130))

    if strict:
        with pytest.raises(DataLossError, match="topic orders was deleted and created anew"):
            run_task(reader, task, schema)
    else:
        assert run_task(reader, task, schema) == []


@pytest.mark.parametrize("new", [5, 30])
def test_a_stream_reads_a_topic_that_was_created_anew_from_its_beginning(
    kafka: EmbeddedKafka, new: int
) -> None:
    write(kafka, *numbers(10))
    query = Query(options(kafka, startingOffsets="earliest", failOnDataLoss="false"))
    run = Run(query, available_now=False)
    run.one_batch()
    kafka.delete_topic("orders")
    kafka.create_topic("orders", 2)
    write(kafka, *numbers(100, 100 + new))

    run.one_batch()
    run.stop()

    assert [row["value"] for row in query.rows] == [*numbers(10), *numbers(100, 100 + new)]


def test_a_worker_that_has_not_heard_of_the_new_topic_yet_does_not_skip_it(
    kafka: EmbeddedKafka,
) -> None:
    write(kafka, *numbers(10))
    query = Query(options(kafka, startingOffsets="earliest", failOnDataLoss="false"))
    run = Run(query, available_now=False)
    run.one_batch()
    slow = Fault(
        api="Metadata", client_id=f"aktor-spark-{os.getpid()}", action=Delay(0.5), times=None
    )
    kafka.inject(slow)
    kafka.delete_topic("orders")
    kafka.create_topic("orders", 2)
    write(kafka, *numbers(100, 105))

    run.one_batch()
    run.stop()

    assert [row["value"] for row in query.rows] == [*numbers(10), *numbers(100, 105)]


def test_a_topic_that_is_deleted_is_a_loss_for_the_tasks_under_way(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    given = options(kafka)
    schema = the_schema(given)
    reader = sent(a_source(given)).reader(schema=schema)
    task = reader.partitions()[0]
    kafka.delete_topic("orders")

    try:
        with pytest.raises(DataLossError, match="orders-0 does not exist any more"):
            run_task(reader, task, schema)
    finally:
        kafka.create_topic("orders", 2)


def test_a_deleted_topic_keeps_none_of_the_tasks_of_a_worker_waiting(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    given = options(
        kafka,
        failOnDataLoss="false",
        maxRecordsPerPartition=3,
        kafkaConsumer__pollTimeoutMs=20_000,
    )
    schema = the_schema(given)
    reader = sent(a_source(given)).reader(schema=schema)
    tasks = reader.partitions()
    assert len(tasks) == 4
    kafka.delete_topic("orders")

    try:
        for task in tasks[:3]:
            # The second one raised KafkaTimeoutError.
            assert run_task(reader, task, schema) == []
    finally:
        kafka.create_topic("orders", 2)


def test_a_topic_that_never_was_is_a_mistake(kafka: EmbeddedKafka) -> None:
    with pytest.raises(ConfigurationError, match="there is no such topic"):
        read_batch(options(kafka, subscribe="order"))
    with pytest.raises(ConfigurationError, match="assign names orders-7"):
        read_batch(options(kafka, assign='{"orders": [7]}'))


def test_a_task_to_which_nothing_comes_says_so(kafka: EmbeddedKafka) -> None:
    write(kafka, b"v")
    given = options(kafka, kafkaConsumer__pollTimeoutMs=300)
    schema = the_schema(given)
    reader = sent(a_source(given)).reader(schema=schema)
    task = reader.partitions()[0]
    kafka.pause_broker(1)
    try:
        with pytest.raises(KafkaTimeoutError, match="of orders-0 at 0"):
            run_task(reader, task, schema)
    finally:
        kafka.resume_broker(1)
    assert worker._kept is None


def test_every_row_has_its_topic_although_the_last_topics_array_is_used_again() -> None:
    layout = Layout(a_schema(topic=StringType()), decode=None)

    for topics in (["a", "a"], ["a"], ["b", "b", "b"], ["a", "b"], [], ["b"] * 5, ["a"]):
        rows = pa.RecordBatch.from_arrays(
            [pa.array(topics, pa.string()).dictionary_encode()], names=["topic"]
        )
        assert layout.batch(rows).column("topic").to_pylist() == topics


def test_a_corrupt_batch_ends_the_task_and_the_next_one_has_a_new_consumer(
    kafka: EmbeddedKafka,
) -> None:
    write(kafka, *numbers(10))
    kafka.inject(Fault(api="Fetch", action=CorruptRecords(), times=None))

    with pytest.raises(CorruptBatchError, match="orders-0 at offset 0"):
        read_batch(options(kafka))
    assert worker._kept is None

    kafka.clear_faults()
    table, _ = read_batch(options(kafka))
    assert values(table) == numbers(10)


def test_a_group_that_refuses_commits_does_not_stop_the_query(kafka: EmbeddedKafka) -> None:
    write(kafka, *numbers(10))
    refused = FailWith(Code.GROUP_AUTHORIZATION_FAILED)
    kafka.inject(Fault(api="OffsetCommit", action=refused, times=None))
    query = Query(
        options(kafka, startingOffsets="earliest", commitOffsets="true", kafka__group__id="refused")
    )

    query.run()

    assert [row["value"] for row in query.rows] == numbers(10)


# -- secrets


def test_what_is_sent_to_tasks_and_shown_has_no_secret(kafka: EmbeddedKafka) -> None:
    write(kafka, b"v")
    given = options(kafka, kafka__ssl__key__password="canary-4711")
    source = a_source(given)
    reader = source.reader(schema=the_schema(given))
    task = reader.partitions()[0]

    for shown in (repr(source), repr(reader), repr(task), str(pickle.dumps(task))):
        assert "canary-4711" not in shown
    assert "canary-4711" not in repr(read_options(given, stream=True))
