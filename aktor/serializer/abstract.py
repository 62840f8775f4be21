"""kafka-python's `kafka.serializer.abstract`."""

from __future__ import annotations

from aktor.serializer import Deserializer, Serializer

__all__ = ["Deserializer", "Serializer"]
