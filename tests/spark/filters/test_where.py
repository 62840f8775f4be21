"""The option `where`: tasks give Spark only the rows for which it is true."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaProducer
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from aktor.broker import EmbeddedKafka
from aktor.errors import ConfigurationError
from aktor.spark.filters.where import read_where
from aktor.spark.tasks import worker
from tests.spark.harness import Query, a_source, made, read_batch


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
        ("true", [*[-1] * 4, *GOOD]),
        ("not true", []),
        ("value.country <> ';' and value.country <> '(' and value.id < 2;", [0, 1]),
        ("value.id < 3 and true", [0, 1, 2]),
        ("false or rawValue = 'nonsense' and partition = 1", [-1] * 4),
        ("value.country in ('it''s', 'F' 'R') and value.id < 9", [0, 4, 8]),
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
        ("value.contry = 'a'", "there is no column value.contry; did you mean value.country?"),
        ("timestamp > timestamp'2026-01-01 00:00:00+25:00'", "is no time here"),
        ("timestamp > timestamp'0001-01-01 00:00:00+01:00'", "is no time here"),
        ("value.id = null", "write is null"),
        ("value.country like 'a!b' escape '!'", "must stand before %, _ or itself"),
        ("value.country = 'a\\b'", "has a backslash"),
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
        made(source, reader, schema=a_schema(timestamp=TimestampType(), key=BinaryType()))


def test_false_reads_nothing_and_true_everything(kafka: EmbeddedKafka) -> None:
    for where, count in (("true", 40), ("false", 0), ("partition = 0 or false", 20)):
        reader = a_source(options(kafka, where, columns="offset")).reader(
            schema=StructType([StructField("offset", LongType())])
        )
        ranges = [span for task in reader.partitions() for span in task.ranges]  # type: ignore[attr-defined]
        assert sum(span.size for span in ranges) == count


#: Whose fields are those of all types that a condition may compare.
KINDS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": StructType(
        [
            StructField("id", LongType()),
            StructField("country", StringType()),
            StructField("paid", BooleanType()),
            StructField("day", DateType()),
            StructField("at", TimestampType()),
            StructField("local", TimestampNTZType()),
            StructField("items", ArrayType(StringType())),
        ]
    ),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
}
_OPERATORS = "expected is and, or, or a sign such as =, as partition = 1 and value.country = 'DE'"
_BESIDE = "expected is a column and a value beside it, as value.country = 'DE'"
_ZONE = "the zone of the session, by which Spark would go, is not known here: write"


@pytest.mark.parametrize(
    ("where", "place", "text"),
    [
        # nothing, and more than one condition
        ("", 0, "it has no condition: write one, as value.country = 'DE', or leave where out"),
        (" \n ", 0, "it has no condition"),
        ("-- value.paid", 0, "it has no condition"),
        ("offset = 1; offset = 2", 11, "; ends a statement, and where is one condition: join"),
        ("offset = 1, offset = 2", 11, ", is not expected here; a condition is a column, a sign"),
        ("where offset = 1", 1, "where begins a query, and where is the condition alone, as"),
        ("SELECT 1", 1, "SELECT begins a query"),
        ("drop table t", 6, "an operator is missing between drop and table"),
        ("offset = 1 ORDER BY offset", 12, "ORDER BY belongs to a query"),
        ("offset = 1 limit 5", 12, "limit belongs to a query"),
        # two expressions in a row, and words after the last one
        ("true true", 6, f"an operator is missing between true and true: {_OPERATORS}"),
        ("true foo", 6, f"an operator is missing between true and foo: {_OPERATORS}"),
        ("value.paid value.paid", 12, "an operator is missing between paid and value"),
        ("value.paid 'DE'", 12, "an operator is missing between paid and 'DE'"),
        ("offset = 1 offset = 2", 12, f"an operator is missing between 1 and offset: {_OPERATORS}"),
        ("not (offset = 1 offset = 2)", 17, "an operator is missing between 1 and offset"),
        ("value.paid and (true true)", 22, "an operator is missing between true and true"),
        ("contains(value.country 'DE')", 24, "as contains(value.note, 'sale')"),
        ("offset = 1 `offset`", 12, "an operator is missing between 1 and `offset`"),
        ("5 5", 3, "an operator is missing between 5 and 5"),
        ("(offset = 1) (partition = 1)", 14, "an operator is missing between ) and ("),
        ("offset in (1) (2)", 15, "an operator is missing between ) and ("),
        ("null (partition = 1)", 6, "an operator is missing between null and ("),
        ("value.day = date'2026-01-31' foo", 30, "an operator is missing between '2026-01-31' and"),
        ("value.country = 'D' 'E' 5", 25, "an operator is missing between 'E' and 5"),
        ("offset = 1 as x", 12, "as is not expected here; a condition is a column, a sign and a"),
        ("(offset = 1 as x)", 13, "as is not expected here; a condition is a column, a sign and a"),
        ("offset = 1 xor value.paid", 12, "xor is no operator of Spark's SQL: write <>, as value."),
        # an operator, and nothing beside it
        ("and", 1, "something is missing at and; expected is a condition on each side of and, as"),
        (
            "<",
            1,
            "something is missing at <; expected is a column and a value beside it, as value.",
        ),
        (
            "+",
            1,
            "something is missing at +; expected is a column and a value beside it, as value.",
        ),
        (
            "%",
            1,
            "something is missing at %; expected is a column and a value beside it, as value.",
        ),
        ("in", 1, f"something is missing at in; {_BESIDE}"),
        ("is", 1, f"something is missing at is; {_BESIDE}"),
        ("is null", 1, "something is missing at is; expected is a column and a value beside it"),
        (
            "value.paid is",
            12,
            "expected is null, not null, true or false, as value.country is null",
        ),
        ("value.paid is not", 15, "expected is null, in, between or like after not, as value."),
        ("offset not", 8, "expected is null, in, between or like after not, as value.country is"),
        ("else", 1, "something is missing at else; expected is a column and a value beside it"),
        ("5", 1, "5 is a value, and no condition: compare a column with it, as value.country"),
        ("*", 1, "* is not known here: known are = <>"),
        (",", 1, ", is not expected here; a condition is a column, a sign and a value"),
        (".", 1, ". is not expected here; a condition is a column, a sign and a value"),
        # quotes, parentheses, comments without an end
        ("value.country = 'DE", 17, "the text that ' begins has no end: a text stands in two, as"),
        ("value.country = DE'", 19, "the text that ' begins has no end"),
        ('value.country = "DE', 17, 'the text that " begins has no end'),
        ("`offset = 1", 1, "the name that ` begins has no end: write `the name`"),
        ("value.country = ‘DE’", 17, "‘ is no quote of SQL: a text is written as 'DE'"),
        ("value.country = 'it\\'s'", 20, "a ' in a text is written twice, as 'it''s'"),
        (
            "(offset = 1 and (partition = 1)",
            1,
            "this ( is not closed by a ): a condition in parentheses is (value.country = 'DE')",
        ),
        ("value.country = ')' and (offset = 1", 25, "this ( is not closed by a )"),
        ("offset = 1 (", 12, "this ( is not closed by a )"),
        ("offset = 1 [", 12, "this [ is not closed by a ]: fields are named with a dot, as value."),
        ("offset = 1 {", 12, "this { is not closed by a }: a condition in parentheses is ("),
        ("(offset = 1]", 12, "this ] closes no [ before it: fields are named with a dot, as"),
        (
            "offset = 1) and partition = 1",
            11,
            "this ) closes no ( before it: a condition in parentheses is (value.country = 'DE')",
        ),
        ("offset = 1 /* and", 12, "the comment has no end: write /* ... */"),
        # a part is missing
        ("offset =", 8, "something is missing at =; expected is a column and a value beside it"),
        ("= 1", 1, "something is missing at =; expected is a column and a value"),
        ("offset = 1 and", 12, "something is missing at and; expected is a condition on each side"),
        ("AND offset = 1", 1, "something is missing at AND; expected is a condition on each side"),
        ("not", 1, "expected is a condition after not, as not value.country = 'DE'"),
        ("offset between 1", 16, "expected is two values with and, as partition between 1 and 3"),
        ("value.country like", 15, "expected is a pattern, as value.country like 'D%'"),
        ("contains(value.country)", 23, "as contains(value.note, 'sale')"),
        ("offset in ()", 1, "in has no list of values after it: write it as partition in (1, 2)"),
        ("offset in 1", 1, "in has no list of values"),
        ("offset", 1, "offset is bigint, and no condition: compare it with a value, as"),
        ("value.country", 1, "value.country is string, and no condition: compare it"),
        ("value.id = 1 and 1 = 1", 18, "1 = 1 has no column: compare a column with a value"),
        # operators of other languages, and functions
        (
            "offset = 1 && partition = 1",
            12,
            "&& is no operator of Spark's SQL: write and, as partition = 1 and value.country",
        ),
        ("offset === 1", 8, "=== is no operator of Spark's SQL: write =, as value.country = 'DE'"),
        ("lower(value.country) = 'a'", 1, "lower(value.country) is not known here: known are"),
        ("offset = 1 or Foo(key) = 'a'", 15, "Foo(key) is not known here: known are = <>"),
        ("value.country rlike 'a.*'", 1, "value.country rlike 'a.*' is not known here: known are"),
        ("isnull(value.paid)", 1, "isnull(value.paid) is not known here: write is null"),
        ("cast(key as string) = 'a'", 1, "decode=string makes strings of keys and values"),
        ("partition % 2 = 0", 1, "partition % 2 is not known here: nothing is computed here"),
        ("timestamp > now()", 13, "write the time itself, as timestamp'2026-01-31 12:00:00Z'"),
        ("timestamp > current_timestamp() - interval 1 hour", 13, "write the time itself"),
        (
            "value.items[0] = 'a'",
            1,
            "value.items[0] is not known here: fields are named with a dot",
        ),
        ("offset = :p", 10, "write the value itself"),
        ("(partition, offset) = (0, 1)", 1, "compare the columns one by one, joined by and"),
        # names
        ("partiton = 1", 1, "there is no column partiton; did you mean partition?"),
        (
            "offset = 1 and country = 'DE'",
            16,
            "there is no column country; did you mean value.country?",
        ),
        ("contry = 'DE'", 1, "there is no column contry; did you mean value.country?"),
        ("value.contry = 'DE'", 1, "there is no column value.contry; did you mean value.country?"),
        ("vlaue.id = 1", 1, "there is no column vlaue.id; did you mean value.id?"),
        ("value.foo = 1", 1, "there is no column value.foo; value has id, country, paid, day"),
        (
            "value.country = DE",
            17,
            "there is no column DE; a text is written as 'DE'; there are key",
        ),
        ("offset.x = 1", 1, "offset is bigint, and offset.x would be a field of it"),
        # types
        (
            "offset > '5'",
            1,
            "offset is bigint, and is not compared here with the string '5': write a"
            " number without quotes, as 5",
        ),
        ("'5' < offset", 1, "with the string '5': write a number without quotes, as 5"),
        (
            "value.country = 1",
            1,
            "value.country is string, and is not compared here with 1: write a string, as '1'",
        ),
        ("value.paid = 'true'", 1, "write value.paid, not value.paid, or value.paid = true"),
        ("value.paid is 1", 1, "after is stands null, not null, true or false"),
        (
            "value = 'a'",
            1,
            "value is a struct, and is not compared here with the string 'a':"
            " compare a field of it, as value.id",
        ),
        ("key like 'a%'", 1, "key is binary, and like is for strings; decode=string makes"),
        ("value.country like 5", 20, "5 must be a string, as 'DE'"),
        ("offset > 5L", 10, "5L is not known here: write a number without letters"),
        ("key = 0x10", 7, "0x10 is not known here: write a string as 'DE', bytes as X'00ff'"),
        ("key = X'zz'", 7, "X'zz' is not made of hexadecimal digits, as X'00ff' is"),
        ("offset = null", 1, "nothing is equal to null: write is null, or is not null"),
        ("offset in (1, NULL)", 1, "nothing is equal to null"),
        ("offset = 1 and null", 16, "null is not known here: write is null, or is not null"),
        # dates and times, either side first
        (
            "value.day > timestamp'2026-01-31 12:00:00Z'",
            1,
            "value.day is date, and is not compared"
            f" here with the time 2026-01-31 12:00:00Z: {_ZONE} a date, as date'2026-01-31'",
        ),
        (
            "timestamp'2026-01-31 12:00:00Z' < value.day",
            1,
            "value.day is date, and is not compared"
            f" here with the time 2026-01-31 12:00:00Z: {_ZONE} a date, as date'2026-01-31'",
        ),
        (
            "value.at > date'2026-02-01'",
            1,
            "value.at is timestamp, and is not compared here with the"
            f" date 2026-02-01: {_ZONE} a time with its zone, as timestamp'2026-02-01 00:00:00Z'",
        ),
        (
            "date'2026-02-01' < value.at",
            1,
            "value.at is timestamp, and is not compared here with the"
            f" date 2026-02-01: {_ZONE} a time with its zone, as timestamp'2026-02-01 00:00:00Z'",
        ),
        ("value.at between date'2026-02-01' and date'2026-02-02'", 1, "with the date 2026-02-01"),
        (
            "value.local > date'2026-02-01'",
            1,
            "with the date 2026-02-01: write a time without a zone,"
            " as timestamp_ntz'2026-02-01 00:00:00'",
        ),
        ("value.local > timestamp'2026-02-01 12:00:00Z'", 1, f"{_ZONE} a time without a zone, as"),
        (
            "timestamp > '2026-02-01 12:00:00'",
            1,
            f"{_ZONE} a time with its zone, as timestamp'2026-02-01 12:00:00Z'",
        ),
        (
            "timestamp > timestamp'2026-02-01 12:00:00'",
            13,
            "would be in the session's zone, which is not known where rows are read: write it with"
            " its zone, as timestamp'2026-02-01 12:00:00Z'",
        ),
        ("timestamp > 1700000000000", 1, "write a time with its zone, as timestamp'2026-01-31"),
        (
            "value.day > value.at",
            1,
            "value.day is date, and value.at is timestamp: they are not compared here by >",
        ),
        (
            "value.at < value.day",
            1,
            "value.at is timestamp, and value.day is date: they are not compared here by <",
        ),
        ("value.day = date'2026-02-30'", 13, "date'2026-02-30' is no date here: write it as"),
        (
            "value.day = 'yesterday'",
            1,
            "with the string 'yesterday': write a date, as date'2026-01-31'",
        ),
    ],
)
def test_a_refusal_names_the_place_what_was_expected_and_an_example(
    where: str, place: int, text: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_where(where, KINDS)

    said = refused.value.args[0].removeprefix(f"where={where!r}: ")
    assert said.startswith(f"character {place}: " if place else text), said
    assert text in said


def test_without_sqlglot_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    for name in ("where", "where_text"):
        monkeypatch.delitem(sys.modules, f"aktor.spark.filters.{name}")
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", "decode": "json"}

    with pytest.raises(ConfigurationError, match="pip install sqlglot"):
        made(a_source(given | {"where": "true"}), "reader", a_schema())


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


#: Strings that are no UTF-8, and some that are: as `decode=string` makes them, with no check.
STRINGS = [
    b"\xff\xfe",
    b"a\xffb",
    b"ab",
    "é".encode(),
    b"\xff",
    None,
    b"x\xe6\x97",
    b"\xed\xa0\x80",
]
STRINGS += ["😀b".encode(), b"ab\xe6cd"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("value like '%'", [0, 1, 2, 3, 4, 6, 7, 8, 9]),
        ("value like 'a%b'", [1, 2]),
        ("value like 'a_b'", [1]),
        ("value not like 'a_b'", [0, 2, 3, 4, 6, 7, 8, 9]),
        ("value like 'x%_'", [6]),
        ("value like '_'", [3, 4, 7]),
        ("value like '__'", [0, 2, 6, 8]),
        ("value like '😀%b'", [8]),
        # Its optimizer counts characters by their first bytes: a, b, and three bytes.
        ("value like 'ab%cd'", []),
        ("startswith(value, 'a')", [1, 2, 9]),
        ("value < 'b'", [1, 2, 9]),
        ("value in ('é', 'ab')", [2, 3]),
    ],
)
def test_strings_that_are_no_utf_8_match_as_for_spark(where: str, expected: list[int]) -> None:
    """Spark 4.3 kept these rows. A surrogate is one character of Java's."""
    values = pa.array(STRINGS, pa.binary()).view(pa.string())

    found = read_where(where, {"value": StringType()}).of({"value": values}.__getitem__)

    assert [place for place, kept in enumerate(found.to_pylist()) if kept] == expected


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("value.at in ('2026-01-31 12:00:00Z')", "timestamp'2026-01-31 12:00:00Z'"),
        ("value.local in ('2026-01-31T12:00:00')", "timestamp_ntz'2026-01-31 12:00:00'"),
        ("value.id < 9223372036854775808", "outside of the range of bigint"),
        ("not value.id >= -9223372036854775808.5", "outside of the range of bigint"),
        ("value.country like '\ufffd%'", "not known in like"),
        ("value.at > '2026-01-30 12:00:00+18:30'", "is not compared here with"),
    ],
)
def test_what_spark_answers_by_its_settings_or_wrongly_is_refused(where: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        read_where(where, KINDS)


SOME_WORDS = """
    value.paid value.id value.country 5 'DE' = < <=> and or not in ( ) , between like is null
    true ! - + * / % ^ & | ~ ; . : :: ? @ # $ [ ] { } case when then else end cast as interval
    date'2026-01-31' timestamp x'00' X'0 `b` -- /* */ select from exists any escape '!' 1e5 .5
    5L over -> => || << != rlike div collate array map struct set show tables
"""


def test_every_text_is_a_condition_or_refused_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    choose = random.Random(44)
    refused = []
    texts = (
        " ".join(choose.choices(SOME_WORDS.split(), k=choose.randrange(1, 8))) for _ in range(3000)
    )
    for text in [*texts, "set x", "show tables", "else", "+", "()", "{}"]:
        try:
            read_where(text, KINDS)
        except ConfigurationError as error:
            refused.append(str(error))

    assert all(said.startswith("ConfigurationError: where=") for said in refused)
    assert not capfd.readouterr().err


@pytest.mark.parametrize("item", ["date'{day}'", "timestamp'{day} 00:00:00Z'", "X'{n:08x}'", "{n}"])
def test_the_work_for_a_list_grows_with_its_length_and_not_faster(item: str) -> None:
    column = {"d": "value.day", "t": "timestamp", "X": "key", "{": "offset"}[item[0]]

    def calls(count: int) -> int:
        days = (date.fromordinal(700_000 + n) for n in range(count))
        items = ", ".join(item.format(day=day, n=n) for n, day in enumerate(days))
        counted = Counter[str]()
        sys.setprofile(lambda _frame, event, _: counted.update((event,)))
        try:
            read_where(f"{column} in ({items})", KINDS)
        finally:
            sys.setprofile(None)
        return counted.total()

    calls(10)  # what is imported and cached at the first time
    assert calls(800) < 2.2 * calls(400)  # it was 4 times for dates
