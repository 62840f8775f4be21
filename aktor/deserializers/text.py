"""Text: the bytes are decoded, nothing else."""

from __future__ import annotations

from aktor.deserializers.base import Deserializer, Headers

__all__ = ["TextDeserializer"]


class TextDeserializer(Deserializer[str | None]):
    """Makes str. UnicodeDecodeError: the bytes are not in this encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> str | None:
        """The text; None for None."""
        return None if data is None else data.decode(self._encoding)
