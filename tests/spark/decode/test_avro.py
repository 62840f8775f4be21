"""`decode=avro`: equal to fastavro on generated values, and its errors stay in their rows."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import json
import math
import subprocess
import sys
import threading
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer
from pyspark.sql.types import DataType, IntegerType, StringType, StructField, StructType

from aktor.broker import EmbeddedKafka
from aktor.errors import ConfigurationError, SchemaLookUpError
from aktor.spark.decode import registry
from aktor.spark.decode.avro.values import AvroValues, value_type
from aktor.spark.options.avro import AvroOptions
from aktor.spark.options.source import read_options
from tests.spark.decode.decoding import decoded
from tests.spark.harness import read_batch

Schema = Any

#: Types and their values; none of the values is one that fastavro writes in two ways.
_LEAVES: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(max_size=12)),
    ("bytes", st.binary(max_size=12)),
    ("null", st.none()),
]


_NAMES = itertools.count()


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 3) -> tuple[Schema, st.SearchStrategy[Any]]:
    """A schema, and the values that it has."""
    kinds = ["leaf", "enum", "fixed"] + ["record", "array", "map", "null or"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    name = f"n{next(_NAMES)}"
    if kind == "leaf":
        return draw(st.sampled_from(_LEAVES))
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B"]}, st.sampled_from(["A", "B"])
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
    if kind == "record":
        parts = draw(st.lists(typed_values(depth - 1), min_size=1, max_size=4))
        fields = [{"name": f"f{n}", "type": schema} for n, (schema, _) in enumerate(parts)]
        made = {f"f{n}": values for n, (_, values) in enumerate(parts)}
        return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(made)
    schema, values = draw(typed_values(depth - 1))
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=3)
    if kind == "map":
        keys = st.text(max_size=5)
        return {"type": "map", "values": schema}, st.dictionaries(keys, values, max_size=3)
    if schema == "null" or isinstance(schema, list):
        return schema, values
    places = draw(st.permutations(["null", schema]))
    return places, st.none() | values


def written(schema: Schema, value: Any) -> bytes:
    to = io.BytesIO()
    fastavro.schemaless_writer(to, fastavro.parse_schema(schema), value)
    return to.getvalue()


def read_by_fastavro(data: bytes, schema: Schema, reader: Schema = None) -> Any:
    at = io.BytesIO(data)
    parsed = fastavro.parse_schema(schema)
    found = fastavro.schemaless_reader(
        at, parsed, None if reader is None else fastavro.parse_schema(reader)
    )
    assert not at.read(), "bytes are left"
    return found


def a_struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def decoder(schema: Schema, wanted: DataType | None = None, **registry_settings: str) -> AvroValues:
    options = AvroOptions(schema=json.dumps(schema), registry=registry_settings)
    kind = value_type(options) if wanted is None else wanted
    return AvroValues(StructType([StructField("value", kind)]), options)


def plain(value: Any) -> Any:
    """Arrow gives maps as lists of pairs; the types tell the two apart for nobody here."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return {name: plain(one) for name, one in value}
    return [plain(one) for one in value] if isinstance(value, list) else value


def same(one: Any, other: Any) -> bool:
    """An empty map of Arrow's is an empty list."""
    one, other = plain(one), plain(other)
    if one in ([], {}) and other in ([], {}):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_values_are_those_that_were_written_and_a_broken_one_spoils_no_other(
    data: st.DataObject,
) -> None:
    schema, values = data.draw(typed_values())
    given_values = data.draw(st.lists(values, min_size=2, max_size=6))
    sound: list[bytes | None] = [written(schema, value) for value in given_values]
    broken = data.draw(st.binary(max_size=20))
    place = data.draw(st.integers(0, len(sound)))

    rows = [*sound[:place], broken, None, *sound[place:]]
    values_read = decoder(schema)
    found, errors, raws = decoded(rows, values_read)
    # Nothing is left of a batch for the next one; in that one, several are broken.
    again, *beside = decoded(rows * 4, values_read)
    assert same(again, found * 4)
    assert beside == [errors * 4, raws * 4]

    assert same(found[:place] + found[place + 2 :], given_values)
    assert not any(errors[:place] + errors[place + 1 :])
    assert (found[place + 1], errors[place + 1], raws[place + 1]) == (None, None, None)
    if errors[place] is None:
        assert same(found[place], read_by_fastavro(broken, schema))
    else:
        assert (found[place], raws[place]) == (None, broken)


def a_record(*fields: Any, **more: Any) -> Schema:
    made = [one if isinstance(one, dict) else {"name": one[0], "type": one[1]} for one in fields]
    return {"type": "record", "name": "R", "fields": made, **more}


_BIG = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
_LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


def test_a_value_that_ends_anywhere_leaves_nothing_in_any_column() -> None:
    inner = a_record(("a", "int"), ("b", ["null", "string"]), ("c", ["null", "boolean"]), name="I")
    schema = a_record(
        ("r", inner),
        ("n", ["null", "long"]),
        ("s", "string"),
        ("l", {"type": "array", "items": {"type": "array", "items": "I"}}),
        ("m", {"type": "map", "values": "I"}),
        ("u", ["string", "I", "double"]),
        ("d", "double"),
    )
    part = {"a": 300, "b": "é", "c": None}
    value = {"n": None, "s": "text", "l": [[part, part], [], [part]], "m": {"k": part, "": part}}
    value |= {"u": part, "r": part | {"b": None, "c": True}, "d": 2.5}
    whole = written(schema, value)
    rows: list[bytes | None] = []
    for size in range(len(whole)):
        rows += [whole, whole[:size]]

    found, errors, _ = decoded(rows, decoder(schema))

    assert found[1::2] == [None] * len(whole)
    assert set(errors[1::2]) == {"the value ends too early"}
    [same_value] = {str(one) for one in found[::2]}
    assert same_value == str(decoded([whole], decoder(schema))[0][0])
    assert errors[::2] == [None] * len(whole)


@pytest.mark.parametrize(
    ("writer", "value", "reader"),
    [
        ("int", -5, "long"),
        ("int", 5, "double"),
        ("long", 2**40, "float"),
        ("float", 1.5, "double"),
        ("string", "é", "bytes"),
        ("bytes", b"ab", "string"),
        (["null", "int"], 3, "long"),
        (["int", "string"], 3, "int"),
        ("int", 3, ["null", "long"]),
        (["null", "string"], None, ["string", "null"]),
        (_BIG, "C", {**_BIG, "symbols": ["B", "A"], "default": "A"}),
        ({"type": "array", "items": "int"}, [1, 2], {"type": "array", "items": ["null", "long"]}),
        (a_record(("a", "int"), ("b", "string")), {"a": 1, "b": "x"}, a_record(("b", "string"))),
        (
            a_record(("a", "int")),
            {"a": 1},
            a_record({"name": "c", "type": ["null", "string"], "default": None}, ("a", "long")),
        ),
        (
            a_record(("a", "int")),
            {"a": 1},
            a_record(
                {"name": "m", "type": {"type": "map", "values": "int"}, "default": {"k": -70}},
                {"name": "l", "type": {"type": "array", "items": "string"}, "default": ["é"]},
                {"name": "d", "type": "double", "default": 2},
                {"name": "r", "type": a_record(("z", "boolean"), name="Z"), "default": {"z": True}},
            ),
        ),
        (
            a_record(("old", "int")),
            {"old": 1},
            a_record({"name": "new", "type": "int", "aliases": ["old"]}),
        ),
        (
            a_record(("skipped", _LIST), ("a", "int")),
            {"skipped": {"next": {"next": {"next": None}}}, "a": 7},
            a_record(("a", "int")),
        ),
        (
            a_record(
                ("m", {"type": "map", "values": [_BIG, "float"]}),
                ("l", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 2}}),
                *(("n", "null"), ("b", "boolean"), ("d", "double"), ("s", "bytes"), ("a", "int")),
            ),
            {"m": {"x": "B", "y": 1.0}, "l": [b"ab"], "n": None, "b": True, "d": 1.0}
            | {"s": b"", "a": 7},
            a_record(("a", "int")),
        ),
    ],
)  # fmt: skip
def test_another_schema_is_resolved_as_fastavro_does(
    writer: Schema, value: Any, reader: Schema, a_registry: Any
) -> None:
    settings = a_registry({7: writer})

    [found], [error], _ = decoded([framed(7, written(writer, value))], decoder(reader, **settings))

    assert error is None
    assert same(found, read_by_fastavro(written(writer, value), writer, reader))


@pytest.mark.parametrize(
    ("writer", "value", "reader", "said"),
    [
        ("string", "x", "int", "written as string, and cannot be read as int"),
        ("double", 1.0, "float", "written as double, and cannot be read as float"),
        (["int", "string"], "x", "int", "written as string, and cannot be read as int"),
        (["null", "int"], None, "int", "written as null"),
        (a_record(("a", "int")), {"a": 1}, a_record(("b", "int")), "it has no field b"),
        (a_record(("a", "string")), {"a": ""}, a_record(("a", "int")), "a: it was written as str"),
        (_BIG, "C", {**_BIG, "symbols": ["A", "B"]}, "the enum has no symbol 2 where it is read"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            decimal.Decimal("1.5"),
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "written with 1 digits after the point",
        ),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit_is_an_error_of_its_values(
    writer: Schema, value: Any, reader: Schema, said: str, a_registry: Any
) -> None:
    settings = a_registry({7: writer, 8: reader})
    good: Any = {"b": 2} if said == "it has no field b" else None

    values = [framed(7, written(writer, value))]
    if good is not None:
        values.append(framed(8, written(reader, good)))
    found, errors, raws = decoded(values, decoder(reader, **settings))

    assert errors[0] is not None
    assert errors[0].startswith("schema 7: ")
    assert said in errors[0]
    assert (found[0], raws[0]) == (None, values[0])
    assert found[1:] == [good][: len(values) - 1]


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, datetime.date(2026, 1, 31), None),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime.datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=UTC),
            None,
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            datetime.datetime(1931, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
            None,
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            datetime.datetime(2026, 1, 31, 12, 0, 0, 5),
            None,
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3},
            decimal.Decimal("-" + "9" * 35 + ".999"),
            None,
        ),
        (
            {"type": "fixed", "size": 20, "name": "D"}
            | {"logicalType": "decimal", "precision": 5, "scale": 2},
            decimal.Decimal("-123.45"),
            None,
        ),
        ({"type": "string", "logicalType": "uuid"}, "b0c5c1b2-0000-4000-8000-000000000000", None),
        (["int", "long"], 2**40, None),
        (["float", "null", "double"], math.inf, None),
        (["null", "string", "boolean"], "x", {"member0": "x", "member1": None}),
        (["null", "string", "boolean"], True, {"member0": None, "member1": True}),
        (["null", "string", "boolean"], None, "null"),
    ],
)  # fmt: skip
def test_logical_types_and_unions_have_the_types_of_from_avro(
    schema: Schema, value: Any, expected: Any
) -> None:
    expected = (
        {None: value, "null": None}.get(expected, expected)
        if not isinstance(expected, dict)
        else expected
    )
    [found], [error], _ = decoded([written(schema, value)], decoder(schema))

    assert error is None
    assert found == expected


@pytest.mark.parametrize(
    ("schema", "data", "said"),
    [
        ("int", b"\xff\xff\xff\xff\x7f", "an int is"),
        ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("long", b"\x80", "ends too early"),
        ("string", b"\x02\xff", "no UTF-8"),
        ("string", b"\x01", "a length is negative"),
        ("boolean", b"\x02", "a boolean is 2"),
        ("int", b"\x02\x02", "1 bytes are left"),
        (["null", "int"], b"\x04", "a union of 2 types has no type 2"),
        (_BIG, b"\x06", "no symbol 3"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\x7f\0", "more items than"),
        ({"type": "array", "items": a_record()}, b"\xd0\x0f" * 3 + b"\0", "more items than"),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01\0\0", "a length is negative"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            b"\xfe" + b"\xff" * 8 + b"\x01",
            "does not fit into microseconds",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            b"\x02\x64",
            "more digits than its type",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38},
            b"\x22" + b"\x01" * 17,
            "more digits than its type",
        ),
    ],
)
def test_what_is_no_avro_of_the_schema_is_named(schema: Schema, data: bytes, said: str) -> None:
    _, [error], [raw] = decoded([data], decoder(schema))

    assert error is not None
    assert said in error
    assert raw == data


def test_a_schema_that_has_itself_in_it_is_skipped_only_so_deep(a_registry: Any) -> None:
    writer = a_record(("skipped", _LIST), ("a", "int"))
    settings = a_registry({7: writer})
    values = [framed(7, b"\x02" * depth + b"\0\x0e") for depth in (400, 10**6)]

    found, errors, _ = decoded(values, decoder(a_record(("a", "int")), **settings))

    assert found == [{"a": 7}, None]
    assert errors == [None, "schema 7: it is nested too deeply"]


def test_bytes_have_a_letter_for_each_byte_in_a_default(a_registry: Any) -> None:
    settings = a_registry({7: a_record(("a", "int"))})
    reader = a_record({"name": "b", "type": "bytes", "default": "a\u00ff"})

    found, _, _ = decoded([framed(7, b"\2")], decoder(reader, **settings))

    assert found == [{"b": b"a\xff"}]


def test_only_the_fields_that_are_wanted_are_columns() -> None:
    inner = a_record(("x", "int"), ("y", "string"), name="I")
    schema = a_record(("a", "int"), ("b", ["null", inner]), ("c", "string"))
    value = {"a": 1, "b": {"x": 2, "y": "z"}, "c": "d"}

    wanted = a_struct(c=StringType(), b=a_struct(y=StringType()))
    [found], _, _ = decoded([written(schema, value)], decoder(schema, wanted))

    assert found == {"c": "d", "b": {"y": "z"}}


# -- a registry


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def test_each_record_has_its_own_schema_and_each_is_looked_up_once(a_registry: Any) -> None:
    reader = a_record(("a", "long"), {"name": "b", "type": "string", "default": "-"})
    one, two = a_record(("a", "int")), a_record(("b", "string"), ("a", "long"))
    settings = a_registry({1: one, 2: two})
    values = [
        framed(1, written(one, {"a": 1})),
        framed(2, written(two, {"a": 2, "b": "x"})),
        b"",
        b"\1\0\0\0\1\2",
        framed(9, b"\2"),
        framed(1, written(one, {"a": 3})),
    ]

    for _ in range(2):  # two tasks of a worker
        found, errors, _ = decoded(values, decoder(reader, **settings))

    rows = [{"a": 1, "b": "-"}, {"a": 2, "b": "x"}, None, None, None, {"a": 3, "b": "-"}]
    assert found == rows
    assert [bool(error) for error in errors] == [False, False, True, True, True, False]
    assert errors[2] == errors[3] == "it does not begin with a zero byte and the id of a schema"
    assert errors[4] == f"schema 9: the registry {settings['url']} does not have it"
    assert sorted(a_registry.asked) == ["/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/9"]


def test_a_schema_may_name_types_of_another_one(a_registry: Any) -> None:
    named = a_record(("x", "int"), name="Named", namespace="shop")
    writer = a_record(("a", "shop.Named"))
    reference = {"name": "shop.Named", "subject": "named", "version": 1}
    settings = a_registry({1: writer}, (reference, json.dumps(named)))

    found, _, _ = decoded([framed(1, b"\x0a")], decoder(a_record(("a", named)), **settings))

    assert found == [{"a": {"x": 5}}]


@pytest.mark.parametrize("status", [401, 500, None])
def test_a_registry_that_does_not_answer_ends_the_task_and_names_the_record(
    a_registry: Any, status: int | None
) -> None:
    settings = a_registry({1: "int", 2: status})
    address = settings["url"]
    if status is None:
        address = "http://127.0.0.1:9"
    secret = {**settings, "url": address.replace("//", "//user:secret@")}
    values = [framed(2 if status else 1, b"\2")]
    if status:
        values.insert(0, framed(1, b"\2"))

    with pytest.raises(SchemaLookUpError) as refused:
        decoded(values, decode := decoder("int", **secret))

    error = refused.value
    assert (error.topic, error.partition, error.schema_id) == ("orders", 3, 2 if status else 1)
    assert error.offset == (101 if status else 100)
    assert error.registry == address
    assert "secret" not in f"{error}{error.__context__}"
    if status:  # what was read before it has left nothing
        assert decoded(values[:1], decode)[0] == [1]


def test_a_registry_is_waited_for_until_a_deadline(
    a_registry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "DEADLINE", 0.2)
    never = threading.Event()
    settings = a_registry({1: "int"}, hold=never)

    with pytest.raises(SchemaLookUpError, match="no answer within"):
        decoded([framed(1, b"\2")], decoder("int", **settings))
    never.set()


# -- the options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "decode=avro needs avroSchema"),
        ({"avroSchema": "{"}, "avroSchema: it is no JSON"),
        ({"avroSchema": '{"type": "recrd"}'}, "avroSchema: the type recrd is not known"),
        ({"avroSchema": json.dumps(_LIST)}, "L has itself in it"),
        ({"avroSchema": '"int"', "schemaRegistry.urls": "x"}, "did you mean schemaRegistry.url?"),
        ({"avroSchema": '"int"', "schemaRegistry.timeout": "1"}, "schemaRegistry.url is missing"),
        (
            {
                "avroSchema": '"int"',
                "schemaRegistry.url": "http://x",
                "schemaRegistry.timeout": "soon",
            },
            "schemaRegistry.timeout must be a number",
        ),
        ({"avroSchema": '"int"', "decode": "json"}, "avroSchema is for decode=avro"),
        ({"avroSchema": '"int"', "columns": "values"}, "did you mean columns=value?"),
        (
            {"avroSchema": json.dumps({"type": "record", "name": "R", "fields": [{"name": "a"}]})},
            "has no type",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], said: str) -> None:
    source = {"kafka.bootstrap.servers": "h:1", "subscribe": "orders", "decode": "avro"}

    with pytest.raises(ConfigurationError) as refused:
        read_batch(source | options)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (a_struct(a=StringType()), "value.a is int in avroSchema, not string"),
        (a_struct(z=IntegerType()), "value has no field z in avroSchema"),
        (StringType(), "value is struct<a:int> in avroSchema, not string"),
    ],
)
def test_a_schema_of_spark_that_is_no_part_of_the_avro_is_refused(
    wanted: DataType, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        decoder(a_record(("a", "int")), wanted)


def with_registry(**settings: str) -> dict[str, str]:
    found = {f"schemaRegistry.{name}": text for name, text in settings.items()}
    source = {"kafka.bootstrap.servers": "h:1", "subscribe": "orders"}
    return {**source, "decode": "avro", "avroSchema": '"int"', **found}


def test_secrets_of_the_registry_are_in_no_text_of_the_options() -> None:
    options = read_options(
        with_registry(
            **{
                "url": "http://user:${env:NAME}@h",
                "basic.auth.user.info": "user:${env:NAME}",
                "ssl.key.password": "a-secret",
            }
        ),
        stream=False,
    )

    assert "a-secret" not in repr(options)


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://user:a-secret@h"},
        {"url": "http://h", "proxy": "http://user:a-secret@p"},
        {"url": "http://h", "basic.auth.user.info": "user:a-secret"},
    ],
)
def test_a_secret_that_spark_would_show_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="write a reference") as refused:
        read_options(with_registry(**settings), stream=False)

    assert "a-secret" not in str(refused.value)


def test_a_query_reads_avro(embedded_kafka: EmbeddedKafka) -> None:
    schema = a_record(("id", "int"), ("country", ["null", "string"]))
    embedded_kafka.create_topic("orders", 1)
    producer = KafkaProducer(bootstrap_servers=embedded_kafka.bootstrap_servers)
    for number in range(4):
        country = [None, "DE", "FR", "DE"][number]
        producer.send("orders", written(schema, {"id": number, "country": country}))
    producer.send("orders", b"broken")
    producer.close()
    options = {
        "kafka.bootstrap.servers": embedded_kafka.bootstrap_servers,
        "subscribe": "orders",
        "decode": "avro",
        "avroSchema": json.dumps(schema),
    }

    everything, _ = read_batch(options | {"columns": "value,offset,valueError"})
    some, _ = read_batch(options | {"where": "value.country = 'DE' and value.id > 1"})
    without, _ = read_batch(options | {"columns": "offset", "where": "valueError is not null"})

    assert everything["value"].to_pylist() == [
        {"id": 0, "country": None},
        {"id": 1, "country": "DE"},
        {"id": 2, "country": "FR"},
        {"id": 3, "country": "DE"},
        None,
    ]
    assert everything["valueError"].null_count == 4
    assert some["value"].to_pylist() == [{"id": 3, "country": "DE"}]
    assert without["offset"].to_pylist() == [4]


def test_without_a_compiler_avro_is_refused_before_a_job_starts() -> None:
    hidden = "import sys; sys.modules['aktor.spark.decode.avro.kernel'] = None; "
    program = hidden + (
        "from aktor.errors import ConfigurationError\n"
        "from aktor.spark.decode.avro.values import value_type\n"
        "from aktor.spark.options.avro import AvroOptions\n"
        "try: value_type(AvroOptions(schema='\"int\"'))\n"
        "except ConfigurationError as error: print(error)\n"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "decode=avro needs the compiled modules of aktor" in said.stdout, said.stderr
