"""The options of `decode=protobuf`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ProtobufOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    """`descriptors` is a FileDescriptorSet, `origin` the option that it comes from, for errors, and
    `message` the name of a message in it. `registry` (the options `schemaRegistry.*`) is empty if
    values have no frame of Confluent's; it is kept out of `repr` for its secrets. `emits_defaults`:
    a field without presence that is not in a value has the default of its type, and not null."""

    descriptors: bytes = field(repr=False)
    origin: str = "binaryDescriptorSet"
    message: str
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    emits_defaults: bool = False
