"""JSON by Python's own module: as it is read, or as objects of a class."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar, overload

from aktor.deserializers.base import Deserializer, Headers, made

__all__ = ["Json", "JsonDeserializer"]

T = TypeVar("T")
Made = TypeVar("Made")

#: What `json.loads` returns.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class JsonDeserializer(Deserializer[T], Generic[T]):
    """Makes what the JSON says, or calls `make` with it.

    `make` is a class or a function. The members of a JSON object are its keyword arguments, any
    other JSON value is its one argument: so a dataclass, a NamedTuple or a TypedDict works if its
    members are plain ones. The types of members are not checked, and objects in objects stay dicts:
    for both take pydantic or msgspec.

    Raises:
        json.JSONDecodeError: the bytes are not JSON.
        TypeError: `make` does not take these members.
    """

    @overload
    def __init__(self: JsonDeserializer[Json]) -> None: ...
    @overload
    def __init__(self: JsonDeserializer[Made | None], make: Callable[..., Made]) -> None: ...
    def __init__(self, make: Callable[..., Any] | None = None) -> None:
        self._make = make

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T:
        """The value; None for a tombstone."""
        value: Any = None if data is None else json.loads(data)
        if data is not None and self._make is not None:
            value = made(self._make, value)
        result: T = value
        return result
