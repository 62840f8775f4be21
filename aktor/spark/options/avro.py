"""The options of `decode=avro`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["AvroOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroOptions:
    """`schema` is the text of the schema as which values are read. `registry` (the options
    `schemaRegistry.*`) is empty if values have no frame of Confluent's; it is kept out of `repr`
    for its secrets."""

    schema: str
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
