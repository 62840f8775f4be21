"""Avro whose schemas are in a schema registry, by confluent-kafka: `pip install 'aktor[avro]'`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from aktor.deserializers.base import Deserializer, Headers, made

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

__all__ = ["AvroDeserializer"]

T = TypeVar("T")
Made = TypeVar("Made")


class AvroDeserializer(Deserializer[T], Generic[T]):
    """Makes what the Avro says, or calls `make` with it, as `JsonDeserializer` does.

    The bytes begin with the id of the schema that they were written with, as Confluent's
    serializers write them. `poll` waits for the registry when an id comes for the first time; if
    the registry cannot be reached, the record is refused, and the next `poll` asks again.

    Args:
        registry: the registry's URL, confluent-kafka's settings for it ("url",
            "basic.auth.user.info", ...), or a `SchemaRegistryClient` of your own.
        make: a class or a function; the fields of an Avro record are its keyword arguments, any
            other value is its one argument.
        schema: the schema to read as, in JSON; default: the one that the record was written with.
        is_key: it is for keys; by default it is for values.

    Raises:
        ImportError: confluent-kafka, or what it needs for Avro, is missing.
        confluent_kafka.serialization.SerializationError: these are not bytes of such a serializer.
    """

    @overload
    def __init__(
        self: AvroDeserializer[object],
        registry: str | Mapping[str, object] | SchemaRegistryClient,
        *,
        schema: str | None = None,
        is_key: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self: AvroDeserializer[Made | None],
        registry: str | Mapping[str, object] | SchemaRegistryClient,
        make: Callable[..., Made],
        *,
        schema: str | None = None,
        is_key: bool = False,
    ) -> None: ...
    def __init__(
        self,
        registry: str | Mapping[str, object] | SchemaRegistryClient,
        make: Callable[..., Any] | None = None,
        *,
        schema: str | None = None,
        is_key: bool = False,
    ) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.avro import AvroDeserializer as Confluent
            from confluent_kafka.serialization import MessageField, SerializationContext
        except ImportError as error:
            raise ImportError(
                "AvroDeserializer needs confluent-kafka: pip install"
                f" 'confluent-kafka[avro,schemaregistry]' ({error})"
            ) from None
        if isinstance(registry, str):
            registry = {"url": registry}
        #: Closed with the consumer, unless it is the user's.
        self._client: SchemaRegistryClient | None = None
        if isinstance(registry, Mapping):
            registry = self._client = SchemaRegistryClient(dict(registry))
        self._decode: Callable[[bytes, Any], object] = Confluent(registry, schema)
        self._context = SerializationContext
        self._field = MessageField.KEY if is_key else MessageField.VALUE
        self._make = make

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T:
        """The value; None for a tombstone."""
        value: Any = None
        if data is not None:
            value = self._decode(data, self._context(topic, self._field, [*headers]))
            if self._make is not None:
                value = made(self._make, value)
        result: T = value
        return result

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._client is not None:
            self._client.close()
