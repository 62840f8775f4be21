"""Spark's types for those of Avro, as `from_avro` has them (SchemaConverters); all nullable."""

from __future__ import annotations

import dataclasses

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from aktor.spark.decode.avro.schema import Kind, SchemaError, alone

__all__ = ["part_of", "type_of"]


def type_of(kind: Kind, inside: tuple[Kind, ...] = ()) -> DataType:
    """Raises SchemaError for what Spark has no type for."""
    if kind in inside:
        raise SchemaError(f"{kind} has itself in it, and Spark has no such type")
    inside = (*inside, kind)
    only = alone(kind)
    if only is None:
        others = [branch for branch in kind.branches if branch.type != "null"]
        return StructType(
            [
                StructField(f"member{number}", type_of(branch, inside))
                for number, branch in enumerate(others)
            ]
        )
    if only is not kind:
        return type_of(only, inside)
    if kind.logical == "decimal":
        if kind.precision > 38:
            raise SchemaError(f"a decimal of {kind.precision} digits: Spark has at most 38")
        return DecimalType(kind.precision, kind.scale)
    match kind.type:
        case "record":
            return StructType(
                [StructField(one.name, type_of(one.kind, inside)) for one in kind.fields]
            )
        case "array":
            assert kind.items is not None
            return ArrayType(type_of(kind.items, inside))
        case "map":
            assert kind.items is not None
            return MapType(StringType(), type_of(kind.items, inside))
        case "int" if kind.logical == "date":
            return DateType()
        case "long" if kind.logical is not None:
            return TimestampNTZType() if kind.logical.startswith("local") else TimestampType()
    return {
        "null": NullType(),
        "boolean": BooleanType(),
        "int": IntegerType(),
        "long": LongType(),
        "float": FloatType(),
        "double": DoubleType(),
        "string": StringType(),
        "enum": StringType(),
    }.get(kind.type, BinaryType())


def part_of(kind: Kind, wanted: DataType, path: str) -> Kind:
    """The schema with only the fields of records that are wanted. Raises SchemaError if the type is
    not that of the schema."""
    only = alone(kind)
    if only is not None and only.type == "record" and isinstance(wanted, StructType):
        fields = {one.name: one for one in only.fields}
        missing = [name for name in wanted.names if name not in fields]
        if missing:
            raise SchemaError(f"{path} has no field {missing[0]} in avroSchema")
        kept = [
            dataclasses.replace(
                fields[one.name],
                kind=part_of(fields[one.name].kind, one.dataType, f"{path}.{one.name}"),
            )
            for one in wanted.fields
        ]
        return _in_place(kind, only, dataclasses.replace(only, fields=kept))
    if only is not None and only.type == "array" and isinstance(wanted, ArrayType):
        assert only.items is not None
        items = part_of(only.items, wanted.elementType, f"{path}.element")
        return _in_place(kind, only, dataclasses.replace(only, items=items))
    if only is not None and only.type == "map" and isinstance(wanted, MapType):
        assert only.items is not None
        if wanted.keyType == StringType():
            items = part_of(only.items, wanted.valueType, f"{path}.value")
            return _in_place(kind, only, dataclasses.replace(only, items=items))
    there = type_of(kind)
    if there != wanted:
        raise SchemaError(
            f"{path} is {there.simpleString()} in avroSchema, not {wanted.simpleString()}: cast it"
            " after reading"
        )
    return kind


def _in_place(kind: Kind, old: Kind, new: Kind) -> Kind:
    if kind is old:
        return new
    branches = tuple(new if branch is old else branch for branch in kind.branches)
    return dataclasses.replace(kind, branches=branches)
