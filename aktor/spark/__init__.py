"""Kafka through aktor in PySpark: `spark.read.format("aktor")`, streams, and a sink.

Needs PySpark 4.2 or newer: the extra `spark`. See docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
from aktor.errors import ConfigurationError, DataLossError
from aktor.spark.driver.progress import offsets_behind
from aktor.spark.log import show_warnings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aktor.spark.source import KafkaDataSource

__all__ = [
    "DataLossError",
    "KafkaDataSource",
    "avro_schema",
    "descriptor_set",
    "offsets_behind",
    "register",
]

show_warnings()


def register(spark: SparkSession) -> None:
    """Make the format `aktor` known to this session, where it was not found by itself."""
    from aktor.spark.source import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)


def avro_schema(registry: str | Mapping[str, str], subject: str) -> str:
    """The newest schema of a subject in a schema registry, for the option `avroSchema`.

    Args:
        registry: the registry's URL, or confluent-kafka's settings for it ("url",
            "basic.auth.user.info", ...).
        subject: such as "orders-value".

    Raises:
        ConfigurationError: there is none, or the registry does not answer.
    """
    from aktor.spark.decode.avro.values import newest_schema

    return newest_schema({"url": registry} if isinstance(registry, str) else registry, subject)


def descriptor_set(
    message: Any = None, *, registry: str | Mapping[str, str] = "", subject: str = ""
) -> str:
    """A descriptor set for the option `binaryDescriptorSet`: of a generated class, or of the newest
    schema of a subject in a schema registry.

    Args:
        message: a class that protoc made, such as `orders_pb2.Order`.
        registry: the registry's URL, or confluent-kafka's settings for it.
        subject: such as "orders-value".

    Raises:
        ConfigurationError: there is no such subject, the registry does not answer, or there is
            neither a class nor a registry and a subject.
    """
    from aktor.spark.decode.protobuf import descriptors

    if message is not None:
        return descriptors.set_of(message)
    if not registry or not subject:
        raise ConfigurationError(
            "descriptor_set needs a generated class, descriptor_set(orders_pb2.Order), or registry"
            " and subject, descriptor_set(registry='http://registry:8081', subject='orders-value')"
        )
    settings = {"url": registry} if isinstance(registry, str) else registry
    return descriptors.newest_set(settings, subject)


def __getattr__(name: str) -> Any:
    # The source imports pyarrow. `aktor.spark.daemon` must not: see there.
    if name != "KafkaDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aktor.spark.source import KafkaDataSource

    globals()[name] = KafkaDataSource
    return KafkaDataSource
