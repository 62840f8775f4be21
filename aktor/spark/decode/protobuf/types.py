"""Spark's types for those of Protocol Buffers, as `from_protobuf` has them; all nullable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor import FieldDescriptor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aktor.spark.decode.protobuf.descriptors import DescriptorError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

__all__ = ["is_map", "time_of", "type_of", "value_type"]

#: Unsigned numbers keep their bits: 2**64 - 1 is -1, as in Java.
_SCALARS: Final = {
    FieldDescriptor.TYPE_BOOL: BooleanType(),
    FieldDescriptor.TYPE_BYTES: BinaryType(),
    FieldDescriptor.TYPE_DOUBLE: DoubleType(),
    FieldDescriptor.TYPE_ENUM: StringType(),
    FieldDescriptor.TYPE_FIXED32: IntegerType(),
    FieldDescriptor.TYPE_FIXED64: LongType(),
    FieldDescriptor.TYPE_FLOAT: FloatType(),
    FieldDescriptor.TYPE_INT32: IntegerType(),
    FieldDescriptor.TYPE_INT64: LongType(),
    FieldDescriptor.TYPE_SFIXED32: IntegerType(),
    FieldDescriptor.TYPE_SFIXED64: LongType(),
    FieldDescriptor.TYPE_SINT32: IntegerType(),
    FieldDescriptor.TYPE_SINT64: LongType(),
    FieldDescriptor.TYPE_STRING: StringType(),
    FieldDescriptor.TYPE_UINT32: IntegerType(),
    FieldDescriptor.TYPE_UINT64: LongType(),
}
_TIMES: Final = {"Timestamp": TimestampType(), "Duration": DayTimeIntervalType()}


def type_of(message: Descriptor) -> StructType:
    """Raises DescriptorError for a message that Spark has no type for."""
    found = _struct(message, ())
    if not found.fields:
        raise DescriptorError(f"{message.full_name} has no fields")
    return found


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def time_of(message: Descriptor) -> DataType | None:
    """The type of a message that is a time, which is known by its name and its fields."""
    if [field.name for field in message.fields] == ["seconds", "nanos"]:
        return _TIMES.get(message.name)
    return None


def value_type(field: FieldDescriptor, inside: tuple[str, ...] = ()) -> DataType | None:
    """The type of a value of a field, which may be repeated. None: a message that has no fields, in
    place of which there is nothing. `inside`: the messages around it."""
    if field.message_type is None:
        return _SCALARS[field.type]
    time = time_of(field.message_type)
    if time is not None:
        return time
    found = _struct(field.message_type, inside)
    return found if found.fields else None


def _struct(message: Descriptor, inside: tuple[str, ...]) -> StructType:
    if message.full_name in inside:
        raise DescriptorError(
            f"{message.full_name} has itself in it, and Spark has no such type: name the fields"
            " that you need by .schema(...)"
        )
    inside = (*inside, message.full_name)
    made = []
    kind: DataType | None
    for field in message.fields:
        if is_map(field):
            key, item = (value_type(one, inside) for one in field.message_type.fields)
            kind = None if key is None or item is None else MapType(key, item)
        else:
            kind = value_type(field, inside)
            if kind is not None and field.is_repeated:
                kind = ArrayType(kind)
        if kind is not None:
            made.append(StructField(field.name, kind))
    return StructType(made)
