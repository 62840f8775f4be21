"""The reader of a stream whose options are refused. Spark calls the reader, and the error comes
from there: an error of `streamReader` itself has one of PySpark's below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructType

from aktor.errors import ConfigurationError
from aktor.spark.tasks.input_partition import RangesPartition
from tests.spark.harness import a_source, the_schema

GIVEN = {"kafka.bootstrap.servers": "no:1", "subscribe": "orders"}
OFFSETS = StructType().add("offset", LongType())
JSON = StructType().add("value", StructType().add("id", LongType()))

#: How each kind of refusal comes about, and what it says.
REFUSED: list[tuple[dict[str, str], StructType | None, str]] = [
    ({"endingOffsets": "latest"}, None, "a stream has no end"),
    ({"pushFilters": "true"}, None, "pushFilters is for batch queries"),
    ({"where": "offset = 'a'"}, None, "write a number without quotes"),
    ({"decode": "json"}, OFFSETS.add("key", LongType()), "the column key is binary"),
    ({"columns": "key"}, OFFSETS, r"columns=key, and \.schema\(\.\.\.\) has offset"),
    ({"nonsense": "1"}, OFFSETS, "unknown option nonsense"),
    ({"subscribe": "a b"}, OFFSETS, "cannot be a topic's name"),
    ({"startingOffsets": "never"}, OFFSETS, "startingOffsets must be"),
    ({"kafka.sasl.mechanism": "NONE"}, OFFSETS, "sasl.mechanism"),
    ({"decode": "json", "where": "value.no = 1"}, JSON, "there is no column value.no"),
]


@pytest.mark.parametrize(("options", "schema", "said"), REFUSED)
def test_the_first_call_of_spark_raises_what_is_wrong_with_the_options(
    options: dict[str, str], schema: StructType | None, said: str
) -> None:
    given = GIVEN | options
    reader = a_source(given).streamReader(the_schema(given, schema))

    calls: list[Callable[[], Any]] = [
        reader.prepareForTriggerAvailableNow,
        reader.getDefaultReadLimit,
        reader.initialOffset,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        reader.reportLatestOffset,
        lambda: reader.partitions({}, {}),
        lambda: reader.commit({}),
        lambda: reader.read(RangesPartition(())),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=said):
            call()
    reader.stop()
