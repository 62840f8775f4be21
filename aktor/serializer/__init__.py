"""kafka-python's `kafka.serializer`: the base classes of deserializers, and two of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.serializer import DefaultSerializer, DeserializeWrapper, JsonSerializer, SerializeWrapper

__all__ = [
    "DefaultSerializer",
    "DeserializeWrapper",
    "Deserializer",
    "JsonSerializer",
    "SerializeWrapper",
    "Serializer",
]

if TYPE_CHECKING:
    from abc import ABC, abstractmethod
    from typing import Any

    class Serializer(ABC):
        """Makes the bytes of a key or a value: the base class of serializers."""

        @abstractmethod
        def serialize(self, topic: str, headers: Any, data: Any) -> bytes | None:
            """The bytes of this key or value; None: there is none."""

        def close(self) -> None:  # noqa: B027  # to be overridden if there is something to do
            """The producer is closed."""

    class Deserializer(ABC):
        """Makes a key or a value of its bytes: the base class of deserializers. What `deserialize`
        of a subclass is declared to return is the type of the consumer's keys or values."""

        @abstractmethod
        def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
            """The key or the value. `headers` are a list of names and bytes; `data` are bytes, or
            None: there is no key, or the value is a tombstone."""

        def close(self) -> None:  # noqa: B027  # to be overridden if there is something to do
            """The consumer is closed."""

else:
    from kafka.serializer import Deserializer, Serializer
