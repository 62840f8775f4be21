"""The fields of a schema of Spark, and those inside of them."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from aktor.errors import ConfigurationError

__all__ = ["check_nullable", "children"]


def check_nullable(field: StructField, path: str) -> None:
    """Refuse `not null`: any field may be missing in a value, and a value may be one that cannot be
    read. Spark believes the schema. Its JVM would end the task with an IllegalStateException, which
    names neither the field nor the record; or it would read 0, false or nothing for the null, if
    Arrow's checks are off, as docs/spark.md recommends.
    """
    if not field.nullable:
        raise ConfigurationError(
            f"{path} is not null in the schema, and a record may have none: write"
            f" '{field.name} {field.dataType.simpleString()}' (nullable), and filter the rows"
        )
    for child in children(field.dataType):
        check_nullable(child, f"{path}.{child.name}")


def children(kind: DataType) -> Iterable[StructField]:
    """The fields of a struct; the element of an array; the key and the value of a map."""
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ArrayType):
        return [StructField("element", kind.elementType, kind.containsNull)]
    if isinstance(kind, MapType):
        # A key is never null.
        key = StructField("key", kind.keyType)
        return [key, StructField("value", kind.valueType, kind.valueContainsNull)]
    return ()
