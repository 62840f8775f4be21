"""`decode=protobuf`: what Google's library reads, in the types and nulls of Spark's `from_protobuf`
(as its ProtobufDeserializer and SchemaConverters say), and errors stay in their rows.
"""

from __future__ import annotations

import base64
import datetime
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

import aktor.spark
from aktor.broker import EmbeddedKafka
from aktor.errors import ConfigurationError, SchemaLookUpError
from aktor.spark.decode.protobuf.values import ProtobufValues, value_type
from aktor.spark.options.protobuf import ProtobufOptions
from aktor.spark.options.registry import client_settings
from aktor.spark.options.source import read_options
from tests.spark.decode.decoding import decoded
from tests.spark.harness import a_source, read_batch

F = descriptor_pb2.FieldDescriptorProto
KNOWN = (timestamp_pb2, duration_pb2, wrappers_pb2)


def a_file(syntax: str = "proto3", **more: Any) -> Any:
    return descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax=syntax, **more)


def a_field(name: str, number: int, kind: int, label: int = F.LABEL_OPTIONAL, **more: Any) -> Any:
    return F(name=name, number=number, type=kind, label=label, **more)  # type: ignore[arg-type]


def optional(message: Any, field: Any) -> None:
    """Give a field of proto3 presence."""
    field.proto3_optional = True
    field.oneof_index = len(message.oneof_decl)
    message.oneof_decl.add(name=f"_{field.name}")


def a_set(*files: Any) -> bytes:
    known = []
    for module in KNOWN:
        known.append(descriptor_pb2.FileDescriptorProto())
        module.DESCRIPTOR.CopyToProto(known[-1])
    return descriptor_pb2.FileDescriptorSet(file=[*known, *files]).SerializeToString()


def a_class(descriptors: bytes, name: str = "t.M") -> Any:
    pool = DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def decoder(
    descriptors: bytes, wanted: DataType | None = None, message: str = "M", **more: Any
) -> ProtobufValues:
    options = ProtobufOptions(descriptors=descriptors, message=message, **more)
    kind = value_type(options) if wanted is None else wanted
    return ProtobufValues(StructType([StructField("value", kind)]), options)


# -- what from_protobuf makes of a message


def expected(message: Any, emits: bool) -> dict[str, Any]:
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            of, one = (kind.fields_by_name[name] for name in ("key", "value"))
            found[field.name] = {
                single(of, key, emits): single(one, value[key], emits) for key in value
            }
        elif field.is_repeated:
            found[field.name] = [single(field, item, emits) for item in value]
        elif field.has_presence:
            there = message.HasField(field.name) or field.has_default_value
            found[field.name] = single(field, value, emits) if there else None
        else:
            is_default = value == field.default_value and str(value) != "-0.0"
            found[field.name] = None if is_default and not emits else single(field, value, emits)
    return found


def single(field: Any, value: Any, emits: bool) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_ENUM:
            names = {one.number: one.name for one in reversed(field.enum_type.values)}
            return names.get(value, f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{value}")
        case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_FIXED32:
            return struct.unpack("i", struct.pack("I", value))[0]
        case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_FIXED64:
            return struct.unpack("q", struct.pack("Q", value))[0]
        case FieldDescriptor.TYPE_MESSAGE if field.message_type.name == "Timestamp":
            start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return start + datetime.timedelta(seconds=value.seconds) + micros(value.nanos)
        case FieldDescriptor.TYPE_MESSAGE if field.message_type.name == "Duration":
            return datetime.timedelta(seconds=value.seconds) + micros(value.nanos)
        case FieldDescriptor.TYPE_MESSAGE:
            return expected(value, emits)
    return value


def micros(nanos: int) -> datetime.timedelta:
    return datetime.timedelta(microseconds=int(nanos / 1000))


def same(one: Any, other: Any) -> bool:
    """Arrow gives maps as lists of pairs."""
    if isinstance(other, dict) and isinstance(one, list):
        one = dict(one)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


# -- generated messages

_INT32, _INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_LEAVES: dict[int, st.SearchStrategy[Any]] = {
    F.TYPE_BOOL: st.booleans(),
    F.TYPE_BYTES: st.binary(max_size=9),
    F.TYPE_DOUBLE: st.floats(),
    F.TYPE_ENUM: st.sampled_from([0, 1, 5, 7]),
    F.TYPE_FIXED32: st.integers(0, 2**32 - 1),
    F.TYPE_FIXED64: st.integers(0, 2**64 - 1),
    F.TYPE_FLOAT: st.floats(width=32),
    F.TYPE_INT32: _INT32,
    F.TYPE_INT64: _INT64,
    F.TYPE_SFIXED32: _INT32,
    F.TYPE_SFIXED64: _INT64,
    F.TYPE_SINT32: _INT32,
    F.TYPE_SINT64: _INT64,
    F.TYPE_STRING: st.text(max_size=9),
    F.TYPE_UINT32: st.integers(0, 2**32 - 1),
    F.TYPE_UINT64: st.integers(0, 2**64 - 1),
}
_KEYS = (F.TYPE_BOOL, F.TYPE_FIXED64, F.TYPE_INT32, F.TYPE_SINT64, F.TYPE_STRING, F.TYPE_UINT32)
_NAMED = ("Timestamp", "Duration", "Int64Value", "StringValue")
ENUM = descriptor_pb2.EnumDescriptorProto(
    name="E", value=[{"name": f"E{number}", "number": number} for number in (0, 1, 5)]
)


@st.composite
def files(draw: st.DrawFn) -> Any:
    """A file with messages M, M1, M2, ..., each of which may have those after it."""
    file = a_file(enum_type=[ENUM])
    file.dependency.extend(module.DESCRIPTOR.name for module in KNOWN)
    count = draw(st.integers(1, 3))
    for place in range(count):
        message = file.message_type.add(name=f"M{place}" if place else "M")
        numbers = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True))
        for number in numbers:
            kinds = ["leaf", "optional", "oneof", "repeated", "map", "named"]
            form = draw(st.sampled_from([*kinds, *["message"] * (place + 1 < count)]))
            below = [f".t.M{one}" for one in range(place + 1, count)]
            _draw_field(draw, message, number, form, below)
    return file


def _draw_field(draw: st.DrawFn, message: Any, number: int, form: str, below: list[str]) -> None:
    field = message.field.add(name=f"f{number}", number=number, label=F.LABEL_OPTIONAL)
    inside = draw(st.sampled_from(["leaf", "named", *["message"] * bool(below)]))
    match form if form in ("leaf", "named", "message") else inside:
        case "leaf":
            _set_type(field, draw(st.sampled_from(sorted(_LEAVES))))
        case "named":
            name = f".google.protobuf.{draw(st.sampled_from(_NAMED))}"
            field.type, field.type_name = F.TYPE_MESSAGE, name
        case "message":
            field.type, field.type_name = F.TYPE_MESSAGE, draw(st.sampled_from(below))
    if form == "repeated":
        field.label = F.LABEL_REPEATED
    elif form == "map":
        entry = message.nested_type.add(name=f"F{number}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=F.LABEL_OPTIONAL)
        _set_type(entry.field[0], draw(st.sampled_from(_KEYS)))
        entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL, type=field.type)
        if field.type_name:
            entry.field[1].type_name = field.type_name
        field.label, field.type = F.LABEL_REPEATED, F.TYPE_MESSAGE
        field.type_name = f".t.{message.name}.F{number}Entry"
    elif form in ("optional", "oneof") and field.type != F.TYPE_MESSAGE:
        optional(message, field)


def _set_type(field: Any, kind: int) -> None:
    field.type = kind
    if kind == F.TYPE_ENUM:
        field.type_name = ".t.E"


def _fill(draw: st.DrawFn, message: Any) -> Any:
    """Give values to some of the fields."""
    if message.DESCRIPTOR.name in ("Timestamp", "Duration"):
        message.seconds = draw(st.integers(-(10**9), 10**9))
        message.nanos = draw(st.integers(-999_999_999, 999_999_999))
        return message
    for field in message.DESCRIPTOR.fields:
        if not draw(st.integers(0, 3)):
            continue
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            key, item = (kind.fields_by_name[name] for name in ("key", "value"))
            for one in draw(st.lists(_LEAVES[key.type], max_size=2)):
                if item.message_type is not None:
                    _fill(draw, getattr(message, field.name)[one])
                else:
                    getattr(message, field.name)[one] = draw(_LEAVES[item.type])
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 3))):
                if kind is not None:
                    _fill(draw, getattr(message, field.name).add())
                else:
                    getattr(message, field.name).append(draw(_LEAVES[field.type]))
        elif kind is not None:
            getattr(message, field.name).SetInParent()
            _fill(draw, getattr(message, field.name))
        else:
            setattr(message, field.name, draw(_LEAVES[field.type]))
    return message


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_messages_are_read_as_from_protobuf_does_and_a_broken_one_spoils_no_other(
    data: st.DataObject,
) -> None:
    descriptors = a_set(data.draw(files()))
    made = a_class(descriptors)
    emits = data.draw(st.booleans())
    count = data.draw(st.integers(1, 4))
    messages = [_fill(data.draw, made()) for _ in range(count)]
    values: list[bytes | None] = [message.SerializeToString() for message in messages]
    broken = data.draw(st.sampled_from([b"\xff", b"\0\1", b"\x0a\x7f", b"\x0f"]))
    place = data.draw(st.integers(0, count))

    found, errors, raws = decoded(
        [*values[:place], broken, None, *values[place:]], decoder(descriptors, emits_defaults=emits)
    )

    for one, message in zip(found[:place] + found[place + 2 :], messages, strict=True):
        assert same(one, expected(message, emits)), message
    assert [bool(error) for error in errors] == [row == place for row in range(count + 2)]
    assert raws == [broken if row == place else None for row in range(count + 2)]
    assert found[place : place + 2] == [None, None]


def test_types_are_those_of_from_protobuf() -> None:
    file = a_file(enum_type=[ENUM])
    file.dependency.extend(module.DESCRIPTOR.name for module in KNOWN)
    message = file.message_type.add(name="M")
    for number, kind in enumerate(sorted(_LEAVES), 1):
        field = message.field.add(name=F.Type.Name(kind)[5:].lower(), number=number, label=1)
        _set_type(field, kind)
    for number, name in enumerate(_NAMED, 30):
        message.field.add(name=name, number=number, label=F.LABEL_REPEATED, type=F.TYPE_MESSAGE)
        message.field[-1].type_name = f".google.protobuf.{name}"
    empty = message.field.add(name="empty", number=50, label=1, type=F.TYPE_MESSAGE)
    empty.type_name = ".t.Empty"
    file.message_type.add(name="Empty")

    found = value_type(ProtobufOptions(descriptors=a_set(file), message="t.M"))

    assert found.simpleString() == (
        "struct<double:double,float:float,int64:bigint,uint64:bigint,int32:int,fixed64:bigint,"
        "fixed32:int,bool:boolean,string:string,bytes:binary,uint32:int,enum:string,sfixed32:int,"
        "sfixed64:bigint,sint32:int,sint64:bigint,Timestamp:array<timestamp>,"
        "Duration:array<interval day to second>,Int64Value:array<struct<value:bigint>>,"
        "StringValue:array<struct<value:string>>>"
    )


@pytest.mark.parametrize("emits", [False, True])
def test_a_default_that_proto2_names_stands_for_a_field_that_is_absent(emits: bool) -> None:
    file = a_file("proto2", enum_type=[ENUM])
    message = file.message_type.add(name="M")
    message.field.append(a_field("a", 1, F.TYPE_INT32, default_value="7"))
    message.field.append(a_field("b", 2, F.TYPE_STRING, default_value="x"))
    message.field.append(a_field("c", 3, F.TYPE_ENUM, type_name=".t.E", default_value="E5"))
    message.field.append(a_field("d", 4, F.TYPE_BYTES))
    message.field.append(a_field("e", 5, F.TYPE_ENUM, type_name=".t.E"))

    found, _, _ = decoded([b"", b"\x08\0\x22\0"], decoder(a_set(file), emits_defaults=emits))

    assert found[0] == {"a": 7, "b": "x", "c": "E5", "d": None, "e": None}
    assert found[1] == {"a": 0, "b": "x", "c": "E5", "d": b"", "e": None}


def test_a_time_that_does_not_fit_is_an_error_of_its_value() -> None:
    file = a_file()
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    file.message_type.add(name="M").field.append(
        a_field("at", 1, F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    )
    made = a_class(a_set(file))
    values = [made(at={"seconds": n}).SerializeToString() for n in (1, 2**62, -(2**62), 2)]

    found, errors, _ = decoded(values, decoder(a_set(file)))

    assert [error is None for error in errors] == [True, False, False, True]
    assert [row is None for row in found] == [False, True, True, False]


def people() -> Any:
    """A file with a message that has itself in it, and one that is nested."""
    file = a_file()
    person = file.message_type.add(name="Person")
    person.field.append(a_field("name", 1, F.TYPE_STRING))
    person.field.append(a_field("boss", 2, F.TYPE_MESSAGE, type_name=".t.Person"))
    person.nested_type.add(name="Dog").field.append(a_field("age", 3, F.TYPE_INT32))
    return file


def a_struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def test_a_message_that_has_itself_in_it_is_read_as_deep_as_the_schema_says() -> None:
    wanted = a_struct(boss=a_struct(name=StringType()))
    made = a_class(a_set(people()), "t.Person")
    value = made(name="a", boss=made(name="b", boss=made(name="c"))).SerializeToString()

    found, _, _ = decoded([value], decoder(a_set(people()), wanted, message="Person"))

    assert found == [{"boss": {"name": "b"}}]
    with pytest.raises(ConfigurationError, match=r"t\.Person has itself in it"):
        decoder(a_set(people()), message="Person")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (a_struct(name=IntegerType()), "value.name is string in the descriptor, not int"),
        (a_struct(nam=StringType()), "value has no field nam in t.Person"),
        (a_struct(boss=StringType()), "value.boss is a struct in the descriptor, not string"),
        (a_struct(boss=a_struct(name=LongType())), "value.boss.name is string"),
        (StringType(), "value is a struct, not string"),
    ],
)
def test_a_schema_of_spark_that_is_no_part_of_the_message_is_refused(
    wanted: DataType, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        decoder(a_set(people()), wanted, message="t.Person")


# -- a registry


def framed(schema_id: int, places: bytes, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + places + data


def registered(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_values_with_a_frame_are_those_of_the_message_that_it_names(a_registry: Any) -> None:
    other = people()
    other.message_type[0].name = "Renamed"
    other.message_type[0].field[1].type_name = ".t.Renamed"
    changed = people()
    changed.message_type[0].field[0].type = F.TYPE_INT64
    deep = people()
    deep.message_type.insert(0, descriptor_pb2.DescriptorProto(name="First"))
    ids = {1: people(), 2: other, 3: changed, 4: deep}
    registry = a_registry({n: registered(one) for n, one in ids.items()}, kind="PROTOBUF")
    wanted = a_struct(name=StringType())
    decode = decoder(a_set(people()), wanted, message="Person", registry=registry)
    values = [
        framed(1, b"\0", b"\x0a\1a"),
        framed(1, b"\2\0", b"\x0a\1b"),
        framed(4, b"\2\2", b"\x0a\1c"),
        None,
        framed(1, b"\4\0\0", b"\x18\5"),
        framed(2, b"\0", b""),
        framed(3, b"\0", b"\x08\1"),
        framed(1, b"\2\x80\1", b""),
        framed(9, b"\0", b""),
        b"\x0a\1d",
        b"\0\0\0\0\1\4",
        b"",
        framed(1, b"\0", b"\x0a\2d"),
    ]

    for _ in range(2):
        found, errors, raws = decoded(values, decode)

    assert [row and row["name"] for row in found] == ["a", "b", "c", *[None] * 10]
    assert errors[:4] == [None] * 4
    assert errors[4] == "schema 1: it is the message t.Person.Dog, not t.Person"
    assert errors[5] == "schema 2: it is the message t.Renamed, not t.Person"
    assert errors[6] == "schema 3: field 1 was written as name of another type than name has"
    assert errors[7] == "schema 1: it has no message [64]"
    assert errors[8] == f"schema 9: the registry {registry['url']} does not have it"
    assert {str(error)[:37] for error in errors[9:12]} == {"it does not begin with a zero byte, t"}
    assert errors[12] == "unexpected EOF"
    assert raws == [None] * 4 + values[4:]
    paths = [f"/schemas/ids/{n}?format=serialized" for n in (1, 2, 3, 4, 9)]
    assert sorted(a_registry.asked) == paths


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_a_batch_of_values_with_frames_may_have_any_number_of_rows(
    rows: int, a_registry: Any
) -> None:
    registry = a_registry({1: registered(people())}, kind="PROTOBUF")
    wanted = a_struct(name=StringType())
    decode = decoder(a_set(people()), wanted, message="Person", registry=registry)

    found, errors, _ = decoded([framed(1, b"\0", b"\x0a\1a")] * rows, decode)

    assert (found, errors) == ([{"name": "a"}] * rows, [None] * rows)


def test_a_schema_may_import_another_one_and_be_that_of_the_query(a_registry: Any) -> None:
    shared = descriptor_pb2.FileDescriptorProto(name="x", package="shared", syntax="proto3")
    shared.message_type.add(name="Money").field.append(a_field("cents", 1, F.TYPE_INT64))
    file = a_file()
    file.dependency.extend(["shared/money.proto", "google/protobuf/timestamp.proto"])
    message = file.message_type.add(name="M")
    message.field.append(a_field("price", 1, F.TYPE_MESSAGE, type_name=".shared.Money"))
    reference = {"name": "shared/money.proto", "subject": "money", "version": 1}
    registry = a_registry({1: registered(file)}, (reference, registered(shared)), kind="PROTOBUF")

    text = aktor.spark.descriptor_set(registry=registry, subject="orders-value")
    decode = decoder(base64.b64decode(text), registry=registry)
    found, errors, _ = decoded([framed(1, b"\0", b"\x0a\2\x08\5")], decode)

    assert (found, errors) == ([{"price": {"cents": 5}}], [None])


def test_the_newest_schema_is_of_the_kind_that_is_asked_for(a_registry: Any) -> None:
    of_protobuf = a_registry({1: registered(people())}, kind="PROTOBUF")
    of_avro = a_registry({1: {"type": "string"}})

    with pytest.raises(ConfigurationError, match="it is of type PROTOBUF, not AVRO"):
        aktor.spark.avro_schema(of_protobuf, "orders-value")
    with pytest.raises(ConfigurationError, match="it is of type AVRO, not PROTOBUF"):
        aktor.spark.descriptor_set(registry=of_avro, subject="orders-value")


def test_a_registry_that_does_not_answer_ends_the_task_and_names_the_record(
    a_registry: Any,
) -> None:
    registry = a_registry({1: registered(people()), 2: 500}, kind="PROTOBUF")
    wanted = a_struct(name=StringType())
    decode = decoder(a_set(people()), wanted, message="Person", registry=registry)

    with pytest.raises(SchemaLookUpError) as refused:
        decoded([framed(1, b"\0", b""), framed(2, b"\0", b"")], decode)

    error = refused.value
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 101)
    assert (error.schema_id, error.registry) == (2, registry["url"])


# -- the options


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "decode=protobuf needs messageName, and one of descFilePath"),
        ({"messageName": "M"}, "decode=protobuf needs messageName, and one of descFilePath"),
        ({"messageName": "M", "descFilePath": "/no/such.desc"}, "descFilePath: "),
        ({"messageName": "M", "binaryDescriptorSet": "%"}, "binaryDescriptorSet is no base64"),
        (
            {"messageName": "M", "binaryDescriptorSet": "/w=="},
            "ConfigurationError: binaryDescriptorSet: it is no FileDescriptorSet",
        ),
        (
            {"messageName": "M", "descFilePath": __file__},
            f"ConfigurationError: descFilePath={__file__}: it is no FileDescriptorSet",
        ),
        ({"messageName": "M", "binaryDescriptorSet": ""}, "binaryDescriptorSet: it has no message"),
        ({"messageName": "N", "binaryDescriptorSet": in_base64(a_set(people()))}, "no message N"),
        ({"messageName": "M", "decode": "json"}, "messageName is for decode=protobuf"),
        ({"emit.default.values": "true", "decode": "avro"}, "is for decode=protobuf"),
        ({"schemaRegistry.url": "http://h", "decode": "json"}, "for decode=avro and decode=prot"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], said: str) -> None:
    source = {"kafka.bootstrap.servers": "h:1", "subscribe": "orders", "decode": "protobuf"}

    with pytest.raises(ConfigurationError) as refused:
        read_batch(source | options)

    assert said in str(refused.value)


def test_a_file_that_is_imported_and_not_in_the_set_is_named() -> None:
    file = a_file()
    file.dependency.append("shared/money.proto")
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()

    with pytest.raises(ConfigurationError, match=r"shared/money\.proto is imported and missing"):
        decoder(descriptors)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", ", not 'nonsense'"),
        ("", ", not ''"),
        ("registry:8081", ", not 'registry:8081'"),
        ("http://a:1,b:2", ", not 'b:2'"),
        ("http://a:port", ", not 'http://a:port'"),
        ("http://[a", ", not 'http://[a'"),
        ("http://", ", not 'http://'"),
        ("ftp://a", ", not 'ftp://a'"),
    ],
)
def test_what_is_no_address_of_a_registry_is_refused_at_once(url: str, said: str) -> None:
    options = {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "orders",
        "decode": "avro",
        "avroSchema": '"long"',
        "schemaRegistry.url": url,
    }

    with pytest.raises(ConfigurationError) as refused:
        read_options(options, stream=False)

    text = str(refused.value)
    assert "schemaRegistry.url must be the address of a schema registry, as http://reg" in text
    assert text.endswith(said)


def test_addresses_of_registries_may_have_commas_between() -> None:
    found = client_settings({"url": "http://a:8081, https://b"})

    assert found == {"url": "http://a:8081, https://b"}


def test_an_address_with_a_password_that_is_none_is_not_in_the_error() -> None:
    """A reference gave it: the options have none."""
    with pytest.raises(ConfigurationError, match=r"^ConfigurationError: schemaRegistry\.url") as no:
        client_settings({"url": "user:a-secret@registry"})

    assert "a-secret" not in str(no.value)


@pytest.mark.parametrize("given", [{}, {"registry": "http://h"}, {"subject": "orders-value"}])
def test_a_descriptor_set_is_one_of_a_class_or_of_a_subject(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"needs a generated class, .* registry and"):
        aktor.spark.descriptor_set(**given)


WITHOUT = """
import sys
sys.modules["google.protobuf"] = None
from tests.spark.harness import read_batch
from aktor.errors import ConfigurationError
import aktor.spark
options = {"kafka.bootstrap.servers": "h:1", "subscribe": "orders", "decode": "protobuf",
           "messageName": "a.B", "binaryDescriptorSet": "AAAA"}
for ask in (
    lambda: read_batch(options),
    lambda: aktor.spark.descriptor_set(registry="http://127.0.0.1:9", subject="a"),
):
    try:
        ask()
    except ConfigurationError as error:
        print(error)
"""


def test_packages_that_are_missing_are_named_with_how_to_install_them() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, timeout=120)

    assert ran.stderr.decode() == ""
    lines = ran.stdout.decode().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "on driver and executors: pip install ptars protobuf (" in line


def test_a_secret_that_spark_would_show_is_refused() -> None:
    options = {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "orders",
        "decode": "protobuf",
        "messageName": "Person",
        "binaryDescriptorSet": in_base64(a_set(people())),
        "schemaRegistry.url": "http://user:a-secret@h",
    }

    with pytest.raises(ConfigurationError, match="write a reference") as refused:
        read_options(options, stream=False)

    assert "a-secret" not in str(refused.value)


def test_a_field_cannot_be_not_null() -> None:
    """A value may lack it, or be none that can be read."""
    made: Callable[..., Any] = a_class(a_set(people()), "t.Person.Dog")
    source = a_source(
        {
            "kafka.bootstrap.servers": "no:1",
            "subscribe": "dogs",
            "decode": "protobuf",
            "messageName": "Dog",
            "binaryDescriptorSet": aktor.spark.descriptor_set(made),
        }
    )
    value = StructType([StructField("age", IntegerType(), nullable=False)])

    with pytest.raises(ConfigurationError, match=r"value\.age is not null in the schema"):
        source.reader(StructType([StructField("value", value)]))


def test_a_query_reads_protobuf(embedded_kafka: EmbeddedKafka, tmp_path: Any) -> None:
    file = people()
    made: Callable[..., Any] = a_class(a_set(file), "t.Person.Dog")
    (tmp_path / "people.desc").write_bytes(a_set(file))
    embedded_kafka.create_topic("dogs", 1)
    producer = KafkaProducer(bootstrap_servers=embedded_kafka.bootstrap_servers)
    for age in range(4):
        producer.send("dogs", made(age=age).SerializeToString())
    producer.send("dogs", b"\xff")
    producer.close()
    options = {
        "kafka.bootstrap.servers": embedded_kafka.bootstrap_servers,
        "subscribe": "dogs",
        "decode": "protobuf",
        "messageName": "Dog",
        "descFilePath": str(tmp_path / "people.desc"),
    }
    of_class = options | {"binaryDescriptorSet": aktor.spark.descriptor_set(made)}
    del of_class["descFilePath"]

    everything, _ = read_batch(options | {"columns": "value,offset,valueError"})
    some, _ = read_batch(of_class | {"where": "value.age > 1", "emit.default.values": "true"})
    bad, _ = read_batch(options | {"columns": "rawValue", "where": "valueError is not null"})

    assert everything["value"].to_pylist() == [
        *({"age": None}, {"age": 1}, {"age": 2}, {"age": 3}),
        None,
    ]
    assert everything["valueError"].null_count == 4
    assert some["value"].to_pylist() == [{"age": 2}, {"age": 3}]
    assert bad["rawValue"].to_pylist() == [b"\xff"]
