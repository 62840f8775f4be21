"""What all deserializers are, and how one makes an object of the user's class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:  # kafka-python says no types
    from abc import ABC as KafkaDeserializer
else:
    from kafka.serializer import Deserializer as KafkaDeserializer

__all__ = ["Deserializer", "Headers", "made"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

Headers = list[tuple[str, bytes | None]]


class Deserializer(KafkaDeserializer, Generic[T_co]):
    """Base of deserializers that say what they make: a `kafka.serializer.Deserializer` with types.

    An instance belongs to one consumer: it runs on the thread that calls `poll`, and `close` of the
    consumer closes it.
    """

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T_co:
        """What the application sees of a record's key or value.

        `data` is None for a missing key and for a tombstone. What this raises is the `__cause__` of
        the RecordDeserializationError that `poll` raises.
        """

    def close(self) -> None:
        """Called once, when the consumer is closed."""


def made(make: Callable[..., T], value: object) -> T:
    """The object that `make` makes of a value: the members of a mapping are keyword arguments."""
    if isinstance(value, Mapping):
        return make(**value)
    return make(value)
