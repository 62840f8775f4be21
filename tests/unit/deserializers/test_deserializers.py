"""Each deserializer makes what its type says, and takes None for None."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from kafka.serializer import Deserializer as KafkaDeserializer

from aktor.consumer.deserializers import wrap
from aktor.deserializers import (
    AvroDeserializer,
    Deserializer,
    JsonDeserializer,
    MsgspecDeserializer,
    PydanticDeserializer,
    TextDeserializer,
)


@dataclasses.dataclass
class Order:
    id: int
    total: float


class Item(NamedTuple):
    name: str


class Fields(TypedDict):
    name: str


def read(deserializer: Deserializer[object], data: bytes | None) -> object:
    return deserializer.deserialize("orders", [("trace", b"1")], data)


def test_json_is_read_as_it_is() -> None:
    assert read(JsonDeserializer(), b'{"a": [1, null, "x"]}') == {"a": [1, None, "x"]}
    assert read(JsonDeserializer(), None) is None


def test_the_members_of_a_json_object_are_keyword_arguments() -> None:
    assert read(JsonDeserializer(Order), b'{"id": 1, "total": 2.5}') == Order(1, 2.5)
    assert read(JsonDeserializer(Item), b'{"name": "x"}') == Item("x")
    assert read(JsonDeserializer(Fields), b'{"name": "x"}') == {"name": "x"}


def test_another_json_value_is_the_one_argument() -> None:
    assert read(JsonDeserializer(float), b"1") == 1.0
    assert read(JsonDeserializer(tuple), b"[1, 2]") == (1, 2)
    assert read(JsonDeserializer(lambda value: [value]), b"null") == [None]


def test_what_is_no_json_or_has_other_members_is_refused() -> None:
    with pytest.raises(json.JSONDecodeError):
        read(JsonDeserializer(Order), b"{")
    with pytest.raises(TypeError, match="price"):
        read(JsonDeserializer(Order), b'{"id": 1, "price": 2.5}')


def test_text_is_decoded() -> None:
    assert read(TextDeserializer(), "é".encode()) == "é"
    assert read(TextDeserializer("latin-1"), b"\xe9") == "é"
    with pytest.raises(UnicodeDecodeError):
        read(TextDeserializer(), b"\xe9")


def test_pydantic_makes_and_checks() -> None:
    deserializer = PydanticDeserializer(Order)

    assert read(deserializer, b'{"id": 1, "total": 2.5}') == Order(1, 2.5)
    with pytest.raises(pydantic.ValidationError):
        read(deserializer, b'{"id": "x", "total": 2.5}')


def test_msgspec_makes_and_checks_json_and_message_pack() -> None:
    deserializer = MsgspecDeserializer(Order)
    packed = msgspec.msgpack.encode(Order(1, 2.5))

    assert read(deserializer, b'{"id": 1, "total": 2.5}') == Order(1, 2.5)
    assert read(MsgspecDeserializer(Order, format="msgpack"), packed) == Order(1, 2.5)
    with pytest.raises(msgspec.ValidationError):
        read(deserializer, b'{"id": "x", "total": 2.5}')


SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "int"}, {"name": "total", "type": "double"}],
    }
)


def a_registry() -> Any:
    """A schema registry in memory, of confluent-kafka's (which is slow to import)."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient.new_client({"url": "mock://"})


def serialized(registry: Any, schema: str, value: object, *, is_key: bool) -> Any:
    """A key or a value of the topic `orders`, as confluent-kafka writes it."""
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    field = MessageField.KEY if is_key else MessageField.VALUE
    return AvroSerializer(registry, schema)(value, SerializationContext("orders", field))


def test_avro_is_read_by_the_schema_that_the_registry_has() -> None:
    registry = a_registry()
    written = serialized(registry, SCHEMA, {"id": 1, "total": 2.5}, is_key=False)
    key = serialized(registry, '"string"', "alice", is_key=True)

    assert read(AvroDeserializer(registry), written) == {"id": 1, "total": 2.5}
    assert read(AvroDeserializer(registry, Order), written) == Order(1, 2.5)
    assert read(AvroDeserializer(registry, str, is_key=True), key) == "alice"
    with pytest.raises(Exception, match=r"(?i)magic|schema"):
        read(AvroDeserializer(registry), b"not one of these")


def test_avro_is_read_as_the_schema_that_is_given() -> None:
    registry = a_registry()
    written = serialized(registry, SCHEMA, {"id": 1, "total": 2.5}, is_key=False)
    schema = json.loads(SCHEMA)
    schema["fields"] = [schema["fields"][0], {"name": "note", "type": "string", "default": "-"}]

    assert read(AvroDeserializer(registry, schema=json.dumps(schema)), written) == {
        "id": 1,
        "note": "-",
    }


@pytest.mark.parametrize(("is_key", "subject"), [(True, "orders-key"), (False, "orders-value")])
def test_the_registry_is_asked_about_keys_or_about_values(
    monkeypatch: pytest.MonkeyPatch, is_key: bool, subject: str
) -> None:
    registry, asked = a_registry(), []
    written = serialized(registry, '"string"', "alice", is_key=is_key)
    has = registry.get_schema

    def get_schema(schema_id: int, subject_name: str, *rest: Any, **named: Any) -> Any:
        asked.append(subject_name)
        return has(schema_id, subject_name, *rest, **named)

    monkeypatch.setattr(registry, "get_schema", get_schema)

    assert read(AvroDeserializer(registry, is_key=is_key), written) == "alice"
    assert set(asked) == {subject}


@pytest.mark.parametrize("registry", ["http://localhost:1", {"url": "http://localhost:1"}])
def test_connections_to_a_registry_are_closed_unless_they_are_the_users(
    monkeypatch: pytest.MonkeyPatch, registry: Any
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    closed: list[SchemaRegistryClient] = []
    monkeypatch.setattr(SchemaRegistryClient, "close", lambda self: closed.append(self))
    of_the_user = SchemaRegistryClient({"url": "http://localhost:1"})

    AvroDeserializer(of_the_user).close()
    assert closed == []

    AvroDeserializer(registry).close()
    assert len(closed) == 1


class OfTheUser(Deserializer[int]):
    """A deserializer that a user has made of ours."""

    def deserialize(
        self, topic: str, headers: list[tuple[str, bytes | None]], data: bytes | None
    ) -> int:
        return len(data or b"")


#: One of each kind that can be made without another library.
MADE = [TextDeserializer(), JsonDeserializer(), JsonDeserializer(Order), OfTheUser()]


@pytest.mark.parametrize("deserializer", MADE, ids=lambda one: type(one).__name__)
def test_a_consumer_takes_it_without_a_warning(deserializer: Deserializer[object]) -> None:
    assert isinstance(deserializer, KafkaDeserializer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wrap(deserializer, "value_deserializer") is not None
    deserializer.close()


@pytest.mark.parametrize(
    "make",
    [
        TextDeserializer,
        JsonDeserializer,
        lambda: JsonDeserializer(Order),
        lambda: PydanticDeserializer(Order),
        lambda: MsgspecDeserializer(Order),
        lambda: AvroDeserializer(a_registry(), Order),
    ],
)
def test_a_tombstone_is_none(make: Callable[[], Deserializer[object]]) -> None:
    assert read(make(), None) is None


def test_a_format_that_msgspec_does_not_have_here_is_refused() -> None:
    with pytest.raises(ValueError, match="must be 'json' or 'msgpack', not 'yaml'"):
        MsgspecDeserializer(Order, format="yaml")  # type: ignore[arg-type]


def test_a_library_that_is_missing_is_named_with_what_installs_it() -> None:
    program = """
import sys
for name in ("pydantic", "msgspec", "confluent_kafka"):
    sys.modules[name] = None
from aktor.deserializers import AvroDeserializer, MsgspecDeserializer, PydanticDeserializer
for make in (PydanticDeserializer, MsgspecDeserializer, AvroDeserializer):
    try:
        make(str)
    except ImportError as error:
        print(str(error).partition(" (")[0])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert ran.stdout.splitlines() == [
        "PydanticDeserializer needs pydantic 2: pip install 'pydantic>=2'",
        "MsgspecDeserializer needs msgspec: pip install msgspec",
        "AvroDeserializer needs confluent-kafka: pip install"
        " 'confluent-kafka[avro,schemaregistry]'",
    ], ran.stderr


def test_the_libraries_are_imported_only_with_their_deserializer() -> None:
    program = """
import sys
from aktor import KafkaConsumer
print("aktor.deserializers" in sys.modules)
import aktor.deserializers
print({"pydantic", "msgspec", "confluent_kafka"} & set(sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert ran.stdout == "False\nset()\n", ran.stderr
