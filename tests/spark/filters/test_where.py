"""The option `where`: tasks give Spark only the rows for which it is true."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aktor.broker import EmbeddedKafka
from aktor.errors import ConfigurationError
from aktor.spark.tasks import worker
from tests.spark.harness import Query, a_source, read_batch


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    """A topic of JSON values, of which some are none."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", 2)
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
        for number in range(40):
            value = b'{"id": %d, "country": "%s"}' % (number, (b"DE", b"FR")[number % 4 == 0])
            value = b"nonsense" if number % 10 == 9 else value
            producer.send("orders", value, key=b"k%d" % (number % 3), partition=number % 2)
        producer.close()
        yield kafka
        worker._drop()


def options(kafka: EmbeddedKafka, where: str, **more: str) -> dict[str, str]:
    servers = kafka.bootstrap_servers
    return {"kafka.bootstrap.servers": servers, "subscribe": "orders", "where": where} | more


def a_schema(**more: Any) -> StructType:
    value = StructType([StructField("id", LongType()), StructField("country", StringType())])
    return StructType([StructField(name, kind) for name, kind in ({"value": value} | more).items()])


def ids(kafka: EmbeddedKafka, where: str) -> list[int]:
    rows, _ = read_batch(options(kafka, where, decode="json"), a_schema())
    return sorted(-1 if row["value"] is None else row["value"]["id"] for row in rows.to_pylist())


GOOD = [number for number in range(40) if number % 10 != 9]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("value.country = 'FR'", [n for n in GOOD if n % 4 == 0]),
        ("value.country <> 'FR'", [n for n in GOOD if n % 4]),
        ("value.id in (3, 4, 9) and value.country = 'DE'", [3]),
        ("not (value.id < 38)", [38]),
        ("value.id = 1 or valueError is not null", [-1, -1, -1, -1, 1]),
        ("rawValue = 'nonsense' and partition = 1", [-1, -1, -1, -1]),
        ("rawValue > X'0' and partition = 1", [-1, -1, -1, -1]),
        ("key = 'k2' and offset >= 19", [38]),
        ("value is not null", GOOD),
    ],
)
def test_only_rows_for_which_the_condition_is_true_leave_the_task(
    kafka: EmbeddedKafka, where: str, expected: list[int]
) -> None:
    assert ids(kafka, where) == expected


def test_a_stream_has_the_same_rows_and_goes_on_where_it_ended(kafka: EmbeddedKafka) -> None:
    given = options(kafka, "value.country = 'FR'", decode="json", startingOffsets="earliest")
    query = Query(given | {"maxOffsetsPerTrigger": "10"}, a_schema())

    assert query.run() == 4
    assert sorted(row["value"]["id"] for row in query.rows) == [n for n in GOOD if n % 4 == 0]
    assert query.offsets() == {"orders": {"0": 20, "1": 20}}


def test_a_condition_may_name_columns_that_are_not_read(kafka: EmbeddedKafka) -> None:
    rows, _ = read_batch(options(kafka, "key = 'k1' and offset < 2", columns="value"))

    assert rows.column_names == ["value"]
    assert sorted(row["value"][:8] for row in rows.to_pylist()) == [b'{"id": 1']


def test_keys_and_values_may_be_strings_and_filtered_as_such(kafka: EmbeddedKafka) -> None:
    where = "value like '%\"id\": 1_,%' and startswith(key, 'k1')"
    rows, _ = read_batch(options(kafka, where, decode="string", columns="key,value"))

    assert {row["key"] for row in rows.to_pylist()} == {"k1"}
    assert sorted(row["value"][:9] for row in rows.to_pylist()) == [
        '{"id": 10',
        '{"id": 13',
        '{"id": 16',
    ]


@pytest.mark.parametrize("reader", ["reader", "streamReader"])
@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("value.country = 1", "value.country is string, and cannot be compared here by = with 1"),
        ("value.contry = 'a'", "there is no value.contry; did you mean country"),
        ("lower(value.country) = 'a'", r"LOWER\(value.country\) is not known here"),
        ("timestamp > timestamp'2026-01-01 00:00:00'", "write it with its zone"),
        ("timestamp > timestamp'2026-01-01 00:00:00+25:00'", "is not known here"),
        ("timestamp > timestamp'0001-01-01 00:00:00+01:00'", "is not known here"),
        ("value.id = null", "write is null"),
        ("value.id =", "where='value.id =': "),
        ("value.country", "is string, and no condition"),
        ("value.country like 'a!b' escape '!'", "must stand before %, _ or itself"),
        ("value.country = 'a\\b'", "has a backslash"),
        ("value.id = 1; value.id = 2", "it is not one condition"),
        ("__import__('os').getpid() = 1", "is not known here"),
        ("(" * 5000 + "value.id = 1" + ")" * 5000, "nested too deeply"),
        ("offset = " + "1" * 5000, "no number with more than 38 digits"),
        ("offset = " + "1" * 39, "no number with more than 38 digits"),
        ("offset = 1e", "of a kind that is not known"),
        ("offset < -1e400", "no number as large as 1e400"),
    ],
)
def test_what_is_no_condition_is_refused_before_a_job_starts_and_named(
    reader: str, where: str, text: str
) -> None:
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", "decode": "json"}
    source = a_source(given | {"where": where})

    with pytest.raises(ConfigurationError, match=text):
        getattr(source, reader)(schema=a_schema(timestamp=TimestampType(), key=BinaryType()))


@pytest.mark.gate
def test_a_task_needs_no_parser_of_sql() -> None:
    """Executors may lack sqlglot, and its import takes a tenth of a second."""
    program = """
import pickle, sys
from tests.spark.harness import a_source, the_schema
given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "where": "key = 'a' and offset > 5"}
sent = pickle.dumps(a_source(given).reader(schema=the_schema(given)))
assert "sqlglot" in sys.modules
sys.stdout.buffer.write(sent)
"""
    sent = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    receiver = """
import pickle, sys
sys.modules["sqlglot"] = None
reader = pickle.load(sys.stdin.buffer)
from aktor.spark.tasks.columns import Layout
print(Layout(reader._schema, decode=None, where=reader._where).columns)
"""
    subprocess.run([sys.executable, "-c", receiver], input=sent, check=True)
