"""Kafka through aktor in PySpark: `spark.read.format("aktor")`, streams, and a sink.

Needs PySpark 4.2 or newer: `pip install 'aktor[spark]'`. See docs/spark.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aktor.errors import DataLossError
from aktor.spark.source import KafkaDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DataLossError", "KafkaDataSource", "register"]


def register(spark: SparkSession) -> None:
    """Make the format `aktor` known to this session, where it was not found by itself."""
    spark.dataSource.register(KafkaDataSource)
