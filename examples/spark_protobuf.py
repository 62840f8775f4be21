"""A batch query of messages of Protocol Buffers: the good ones, and what is wrong with the others.

    protoc --include_imports --descriptor_set_out=orders.desc orders.proto
    python -m examples.spark_protobuf localhost:9092 orders orders.desc shop.Order

Needs `pip install -e '.[spark,protobuf]'` and Java 17.
"""

from __future__ import annotations

import sys
from typing import Any

from examples.spark_session import new_session


def messages(spark: Any, bootstrap: str, topic: str, file: str, message: str) -> Any:
    """A frame with the messages of a topic, whose descriptors are in a file."""
    return (
        spark.read.format("aktor")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("decode", "protobuf")
        .option("descFilePath", file)
        .option("messageName", message)
        .option("columns", "value,valueError,partition,offset")
        .load()
    )


def main(bootstrap: str, topic: str, file: str, message: str) -> None:
    """Print the first messages, and the first that cannot be read."""
    spark = new_session()
    found = messages(spark, bootstrap, topic, file, message)
    found.where("valueError is null").select("value.*").show()
    found.where("valueError is not null").select("partition", "offset", "valueError").show()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
