"""JSON by pydantic, which checks the types: `pip install 'aktor[pydantic]'`."""

from __future__ import annotations

from typing import TypeVar

from aktor.deserializers.base import Deserializer, Headers

__all__ = ["PydanticDeserializer"]

T = TypeVar("T")


class PydanticDeserializer(Deserializer[T | None]):
    """Makes models, or whatever else pydantic validates (dataclasses, TypedDicts, lists of them).

    Raises:
        ImportError: pydantic 2 is missing.
        pydantic.ValidationError: the JSON is not that of a `kind`.
    """

    def __init__(self, kind: type[T]) -> None:
        try:
            from pydantic import TypeAdapter
        except ImportError as error:
            raise ImportError(
                f"PydanticDeserializer needs pydantic 2: pip install 'pydantic>=2' ({error})"
            ) from None
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T | None:
        """The object; None for a tombstone."""
        return None if data is None else self._adapter.validate_json(data)
