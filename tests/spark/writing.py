"""What Spark does with a Python data source that it writes to, without its JVM.

(After `write_into_data_source.py` of PySpark.)
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aktor.spark.sink.writer import Written
from tests.spark.harness import a_source, sent

QUERY = "3f0f2a6e-stream"
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_SWAPPED = StructType([StructField("value", BinaryType()), StructField("key", StringType())])
_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(_HEADER),
    "swapped": ArrayType(_SWAPPED),
    "map": MapType(StringType(), BinaryType()),
}


def a_schema(text: str) -> StructType:
    """The columns of a text such as "key string, value binary" (DDL needs a JVM)."""
    pairs = [one.split() for one in text.split(",")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


def a_writer(options: Mapping[str, str], schema: str, *, stream: bool = False) -> Any:
    """The writer of a query, made in the driver."""
    source = a_source(options)
    columns = a_schema(schema)
    if stream:
        return sent(source.streamWriter(schema=columns, overwrite=False))
    return sent(source.writer(schema=columns, overwrite=False))


def batches_of(schema: str, rows: Sequence[tuple[Any, ...]], size: int = 10_000) -> Any:
    """Rows as Spark hands them over."""
    columns = a_schema(schema)
    arrow = to_arrow_schema(columns, timezone="UTC")
    named = [dict(zip(columns.names, row, strict=True)) for row in rows]
    for start in range(0, max(1, len(named)), size):
        yield pa.RecordBatch.from_pylist(named[start : start + size], arrow)


@contextmanager
def a_task(partition: int = 0, *, stream: bool = False) -> Iterator[None]:
    """As in a task of Spark."""
    properties = {"sql.streaming.queryId": QUERY} if stream else {}
    TaskContext._setTaskContext(TaskContext(partitionId=partition, localProperties=properties))
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def run_task(
    writer: Any, batches: Iterable[Any], partition: int = 0, *, stream: bool = False
) -> int:
    """What a Python worker of Spark does in a task; how many rows were written."""
    with a_task(partition, stream=stream):
        message = pickle.loads(pickle.dumps(sent(writer).write(iter(batches))))
    assert isinstance(message, Written)
    return message.rows


def write(options: Mapping[str, str], schema: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """A batch query with one task."""
    return run_task(a_writer(options, schema), batches_of(schema, rows))
