"""How messages become columns of Arrow: ptars reads the bytes, and what it gives is put into the
types and nulls of Spark's `from_protobuf`.

ptars is handed a description of its own making, which has only the fields that are wanted. In it a
field has presence, so that a field that is not in a value is null; an unsigned number is a signed
one with the same bits; an enum is a number; and no message has the name of one that ptars knows
(Timestamp, wrappers, ...), since Spark has other types for these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as compute
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from pyspark.sql.types import ArrayType, DataType, DayTimeIntervalType, MapType, StructType

from aktor.spark.decode.protobuf.descriptors import DescriptorError
from aktor.spark.decode.protobuf.types import is_map, time_of, value_type

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

__all__ = ["Reading"]

#: From an array of ptars to one in Spark's type.
_Read: TypeAlias = Callable[[pa.Array], pa.Array]

#: ptars keeps a table of all numbers up to the highest, 16 bytes each.
_HIGHEST: Final = 1_000_000

_OPTIONAL: Final = FieldDescriptorProto.LABEL_OPTIONAL
_REPEATED: Final = FieldDescriptorProto.LABEL_REPEATED

_SIGNED: Final = {
    FieldDescriptor.TYPE_UINT32: FieldDescriptor.TYPE_INT32,
    FieldDescriptor.TYPE_UINT64: FieldDescriptor.TYPE_INT64,
    FieldDescriptor.TYPE_FIXED32: FieldDescriptor.TYPE_SFIXED32,
    FieldDescriptor.TYPE_FIXED64: FieldDescriptor.TYPE_SFIXED64,
    FieldDescriptor.TYPE_ENUM: FieldDescriptor.TYPE_INT32,
}


class Reading:
    """Reads values of one message into a struct."""

    def __init__(self, message: Descriptor, wanted: DataType, *, emits_defaults: bool) -> None:
        """Raises DescriptorError if `wanted` is no part of the message."""
        from ptars import HandlerPool

        if not isinstance(wanted, StructType):
            raise DescriptorError(f"value is a struct, not {wanted.simpleString()}")
        self._emits_defaults = emits_defaults
        self._file = FileDescriptorProto(name="aktor.proto", package="aktor", syntax="proto3")
        name, self._struct = self._message(message, wanted, "value")
        pool = DescriptorPool()
        pool.Add(self._file)
        made = pool.FindMessageTypeByName(f"aktor.{name}")
        self._handler = HandlerPool([made.file]).get_for_message(made)

    def struct(self, values: pa.Array) -> pa.StructArray:
        """The values; a null is one. Raises ValueError if one of them cannot be read."""
        found = self._handler.array_to_record_batch(values)
        return self._struct(
            pa.StructArray.from_arrays(
                found.columns, fields=list(found.schema), mask=_nulls(values)
            )
        )

    def _message(self, message: Descriptor, wanted: StructType, path: str) -> tuple[str, _Read]:
        """Describe a message; its name, and how it is read."""
        if not wanted.fields:
            raise DescriptorError(f"{path} has no fields in the schema")
        made = self._file.message_type.add(name=f"M{len(self._file.message_type)}")
        fields = {field.name: field for field in message.fields}
        parts: list[tuple[str, _Read]] = []
        for one in wanted.fields:
            field = fields.get(one.name)
            if field is None:
                raise DescriptorError(f"{path} has no field {one.name} in {message.full_name}")
            if field.number > _HIGHEST:
                raise DescriptorError(f"{path}.{one.name} has a number above {_HIGHEST}")
            parts.append((f"f{field.number}", self._field(made, field, one.dataType, path)))
        kind = _arrow(wanted)

        def read(array: pa.StructArray) -> pa.StructArray:
            children = [part(array.field(name)) for name, part in parts]
            return pa.StructArray.from_arrays(children, fields=list(kind), mask=_nulls(array))

        return made.name, read

    def _field(
        self, made: DescriptorProto, field: FieldDescriptor, wanted: DataType, path: str
    ) -> _Read:
        path = f"{path}.{field.name}"
        label = _REPEATED if field.is_repeated else _OPTIONAL
        proto = made.field.add(name=f"f{field.number}", number=field.number, label=label)
        if is_map(field):
            return self._map(made, proto, field, wanted, path)
        if field.is_repeated:
            if not isinstance(wanted, ArrayType):
                raise _other_type(path, "an array", wanted)
            read = self._value(proto, field, wanted.elementType, f"{path}.element")
            kind = _arrow(wanted)
            return lambda array: pa.ListArray.from_arrays(
                array.offsets, read(array.values), type=kind
            )
        read = self._value(proto, field, wanted, path)
        if field.message_type is not None:
            return read
        proto.proto3_optional = True
        proto.oneof_index = len(made.oneof_decl)
        made.oneof_decl.add(name=f"_f{field.number}")
        presence = self._presence(field)
        return lambda array: read(presence(array))

    def _map(
        self,
        made: DescriptorProto,
        proto: FieldDescriptorProto,
        field: FieldDescriptor,
        wanted: DataType,
        path: str,
    ) -> _Read:
        if not isinstance(wanted, MapType):
            raise _other_type(path, "a map", wanted)
        entry = made.nested_type.add(name=f"F{field.number}Entry")
        entry.options.map_entry = True
        reads = []
        for name, kind in (("key", wanted.keyType), ("value", wanted.valueType)):
            part = field.message_type.fields_by_name[name]
            one = entry.field.add(name=name, number=part.number, label=_OPTIONAL)
            reads.append(self._value(one, part, kind, f"{path}.{name}"))
        proto.type = FieldDescriptorProto.TYPE_MESSAGE
        proto.type_name = f".aktor.{made.name}.{entry.name}"
        keys, items, arrow = *reads, _arrow(wanted)
        return lambda array: pa.MapArray.from_arrays(
            array.offsets, keys(array.keys), items(array.items), type=arrow
        )

    def _value(
        self, proto: FieldDescriptorProto, field: FieldDescriptor, wanted: DataType, path: str
    ) -> _Read:
        """Describe the type of a value, and say how such values are read."""
        if field.type == FieldDescriptor.TYPE_GROUP:
            raise DescriptorError(f"{path} is a group, and groups are not read")
        if field.message_type is not None and time_of(field.message_type) is None:
            if not isinstance(wanted, StructType):
                raise _other_type(path, "a struct", wanted)
            name, read = self._message(field.message_type, wanted, path)
        elif (there := value_type(field)) != wanted:
            assert there is not None, "messages are structs"
            raise _other_type(path, there.simpleString(), wanted)
        elif field.message_type is not None:
            name, read = self._time(field.message_type), _time_reader(wanted)
        else:
            proto.type = _SIGNED.get(field.type, field.type)
            return _same if field.enum_type is None else _enum_reader(field.enum_type)
        proto.type = FieldDescriptorProto.TYPE_MESSAGE
        proto.type_name = f".aktor.{name}"
        return read

    def _time(self, message: Descriptor) -> str:
        made = self._file.message_type.add(name=f"M{len(self._file.message_type)}")
        for field in message.fields:
            made.field.add(
                name=field.name,
                number=field.number,
                type=field.type,
                label=_OPTIONAL,
            )
        return str(made.name)

    def _presence(self, field: FieldDescriptor) -> _Read:
        """Which values are null. Without presence a default is taken for a field that is absent, as
        it is by Java."""
        if field.has_presence and not field.has_default_value:
            return _same
        default = field.default_value
        if field.has_presence or self._emits_defaults:
            return lambda array: array.fill_null(default) if array.null_count else array
        return _without_defaults


def _same(array: pa.Array) -> pa.Array:
    return array


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _without_defaults(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_boolean(kind):
        default = compute.invert(array)
    elif pa.types.is_floating(kind):  # -0.0 is none
        default = compute.equal(array.view(f"int{kind.bit_width}"), 0)
    elif pa.types.is_integer(kind):
        default = compute.equal(array, 0)
    else:
        default = compute.equal(compute.binary_length(array), 0)
    if not compute.any(default).as_py():
        return array
    return compute.if_else(default, pa.scalar(None, kind), array)


def _enum_reader(enum: Any) -> _Read:
    """The name of each number; one that is not known has the name that Java gives it."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    numbers = pa.array(names, pa.int32())
    texts = pa.array(names.values(), pa.string())

    def read(array: pa.Array) -> pa.Array:
        places = compute.index_in(array, numbers)
        found = texts.take(places)
        if found.null_count == array.null_count:
            return found
        unknown = f"UNKNOWN_ENUM_VALUE_{enum.name}_"
        made = compute.binary_join_element_wise(unknown, array.cast(pa.string()), "")
        return compute.coalesce(found, made)

    return read


def _time_reader(wanted: DataType) -> _Read:
    kind = pa.duration("us") if isinstance(wanted, DayTimeIntervalType) else _arrow(wanted)

    def read(array: pa.StructArray) -> pa.Array:
        seconds, nanos = array.flatten()
        whole = compute.multiply_checked(seconds, 1_000_000)
        micros = compute.divide(nanos, pa.scalar(1000, nanos.type)).cast(pa.int64())
        return compute.add_checked(whole, micros).cast(kind)

    return read


def _arrow(kind: DataType) -> Any:
    # pyspark gives no types for this function.
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


def _other_type(path: str, there: str, wanted: DataType) -> DescriptorError:
    return DescriptorError(
        f"{path} is {there} in the descriptor, not {wanted.simpleString()}: cast it after reading"
    )
