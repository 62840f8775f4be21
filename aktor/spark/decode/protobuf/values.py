"""The columns of `decode=protobuf`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.types import DataType, StructType

from aktor.errors import ConfigurationError
from aktor.spark.decode import bad_values
from aktor.spark.decode.protobuf.descriptors import (
    PROTOBUF,
    DescriptorError,
    NoSetError,
    Written,
    message_of,
    not_installed,
)
from aktor.spark.decode.protobuf.frames import Frame, frames, without_frames
from aktor.spark.decode.registry import RegistryUnavailable, registry_with
from aktor.spark.options.protobuf import ProtobufOptions

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from aktor.spark.decode.registry import Registry

__all__ = ["ProtobufValues", "value_type"]

_NO_FRAME: Final = (
    "it does not begin with a zero byte, the id of a schema and the place of a message"
)


def value_type(options: ProtobufOptions) -> DataType:
    """Spark's type of the values."""
    try:
        message = message_of(options.descriptors, options.message)
        # Only now: it imports protobuf, and its absence is told by what is above.
        from aktor.spark.decode.protobuf.types import type_of

        return type_of(message)
    except DescriptorError as error:
        raise _refused(options, error) from None


class ProtobufValues:
    """Makes the columns value, valueError and rawValue. A value that is no message, or one of
    another type, becomes null; the other two then have the reason and the bytes. Its neighbours are
    as if it were not there."""

    def __init__(self, schema: StructType, options: ProtobufOptions) -> None:
        try:
            self._message = message_of(options.descriptors, options.message)
            from aktor.spark.decode.protobuf.reading import Reading
            from aktor.spark.decode.protobuf.types import type_of

            in_schema = "value" in schema.names
            kind = schema["value"].dataType if in_schema else type_of(self._message)
            self._reading = Reading(self._message, kind, emits_defaults=options.emits_defaults)
        except DescriptorError as error:
            raise _refused(options, error) from None
        except ImportError as error:
            raise not_installed(error) from None
        self._options = options
        self._registry: Registry | None = None
        #: Why values with this frame cannot be read; an empty text: they can.
        self._checked: dict[tuple[int, tuple[int, ...]], str] = {}

    def columns(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        values = rows.column("value")
        bad: dict[int, str] = {}
        messages = self._unframed(rows, bad) if self._options.registry else values
        try:
            value = self._reading.struct(messages)
        except ValueError:
            found = self._errors(messages)
            bad |= found
            good = pa.array([row not in found for row in range(len(values))], pa.bool_())
            value = self._reading.struct(
                compute.if_else(good, messages, pa.scalar(None, pa.binary()))
            )
        return {"value": value, **bad_values.columns_of(values, bad)}

    def _errors(self, values: pa.Array) -> dict[int, str]:
        """The values that cannot be read. An error is one of a whole batch, so it is halved until
        there is one value."""
        found = {}
        left = [(0, len(values))]
        while left:
            start, stop = left.pop()
            try:
                self._reading.struct(values[start:stop])
            except ValueError as error:
                if stop - start == 1:
                    found[start] = str(error).removeprefix("failed to decode Protobuf message: ")
                else:
                    middle = (start + stop) // 2
                    left += [(start, middle), (middle, stop)]
        return found

    # -- a registry

    def _unframed(self, rows: pa.RecordBatch, bad: dict[int, str]) -> pa.Array:
        """The messages without their frames; null for those that are refused."""
        values = rows.column("value")
        sizes: list[int | None] = [None] * len(values)
        for frame, some in frames(values):
            found = some.to_pylist()
            refused = _NO_FRAME if frame is None else self._refusal(frame, rows, found[0])
            if refused:
                bad |= dict.fromkeys(found, refused)
                continue
            assert frame is not None, "it is refused"
            for row in found:
                sizes[row] = frame.size
        return without_frames(values, pa.array(sizes, pa.int32()))

    def _refusal(self, frame: Frame, rows: pa.RecordBatch, row: int) -> str:
        key = frame.schema_id, frame.places
        there = self._checked.get(key)
        if there is not None:
            return there
        if self._registry is None:
            self._registry = registry_with(self._options.registry, PROTOBUF)
        try:
            found = self._registry.schema(frame.schema_id)
        except RegistryUnavailable as error:
            raise self._registry.not_looked_up(frame.schema_id, rows, row, error) from None
        if isinstance(found, str):  # the registry may have it later
            return f"schema {frame.schema_id}: {found}"
        text = _why_not(found, frame, self._message)
        self._checked[key] = f"schema {frame.schema_id}: {text}" if text else ""
        return self._checked[key]


def _why_not(written: Written, frame: Frame, read: Descriptor) -> str:
    try:
        message = written.message(frame.places)
    except DescriptorError as error:
        return str(error)
    if message.full_name != read.full_name:
        return f"it is the message {message.full_name}, not {read.full_name}"
    return _other_field(message, read)


def _other_field(written: Descriptor, read: Descriptor) -> str:
    """A field whose bytes mean something else where they are read: they would be taken for none."""
    for field in read.fields:
        other: Any = written.fields_by_number.get(field.number)
        if other is not None and _FORMS[other.type] != _FORMS[field.type]:
            return (
                f"field {field.number} was written as {other.name} of another type than"
                f" {field.name} has"
            )
    return ""


#: How values of each type (by its number in descriptor.proto) are written.
_FORMS: Final = {
    **dict.fromkeys((3, 4, 5, 8, 13, 14), "varint"),  # int, uint, bool, enum
    **dict.fromkeys((17, 18), "zigzag"),
    **dict.fromkeys((6, 16), "8 bytes"),
    **dict.fromkeys((7, 15), "4 bytes"),
    **dict.fromkeys((9, 12), "bytes"),
    1: "double",
    2: "float",
    10: "group",
    11: "message",
}


def _refused(options: ProtobufOptions, error: DescriptorError) -> ConfigurationError:
    if isinstance(error, NoSetError):
        return ConfigurationError(f"{options.origin}: {error}")
    return ConfigurationError(f"messageName={options.message}: {error}")
