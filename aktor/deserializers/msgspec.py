"""JSON and MessagePack by msgspec, which checks the types: `pip install 'aktor[msgspec]'`."""

from __future__ import annotations

from typing import Literal, TypeVar

from aktor.deserializers.base import Deserializer, Headers

__all__ = ["MsgspecDeserializer"]

T = TypeVar("T")


class MsgspecDeserializer(Deserializer[T | None]):
    """Makes Structs, or whatever else msgspec decodes (dataclasses, TypedDicts, lists of them).

    Raises:
        ImportError: msgspec is missing.
        msgspec.ValidationError: the data is not that of a `kind`.
        msgspec.DecodeError: it is not in this format.
    """

    def __init__(self, kind: type[T], *, format: Literal["json", "msgpack"] = "json") -> None:
        try:
            import msgspec
        except ImportError as error:
            raise ImportError(
                f"MsgspecDeserializer needs msgspec: pip install msgspec ({error})"
            ) from None
        if format not in ("json", "msgpack"):
            raise ValueError(f"format must be 'json' or 'msgpack', not {format!r}")
        self._decoder: msgspec.json.Decoder[T] | msgspec.msgpack.Decoder[T]
        if format == "json":
            self._decoder = msgspec.json.Decoder(kind)
        else:
            self._decoder = msgspec.msgpack.Decoder(kind)

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T | None:
        """The object; None for a tombstone."""
        return None if data is None else self._decoder.decode(data)
