"""A topic as a table: summed up with DuckDB, and with Polars.

python -m examples.columns localhost:9092 orders
"""

from __future__ import annotations

import sys
from typing import Any

import duckdb
import polars
import pyarrow

from aktor import KafkaConsumer, TopicPartition, json_columns

#: What the values have, which are JSON.
ORDER = pyarrow.schema([("customer", pyarrow.string()), ("amount", pyarrow.float64())])


def read(bootstrap: str, topic: str) -> tuple[pyarrow.Table, pyarrow.Table]:
    """All orders that are in the topic now; and the records that are none."""
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partitions = consumer.partitions_for_topic(topic)
        consumer.assign([TopicPartition(topic, one) for one in sorted(partitions)])
        table = consumer.to_table(start="earliest", end="latest")
    parts = [json_columns(batch, ORDER) for batch in table.to_batches()]
    return (
        pyarrow.Table.from_batches([one.rows for one in parts]),
        pyarrow.Table.from_batches([one.bad for one in parts]),
    )


def by_duckdb(orders: pyarrow.Table) -> list[Any]:
    """(customer, sum), the greatest first."""
    return duckdb.sql(
        "select customer, sum(amount) as total from orders group by customer order by total desc"
    ).fetchall()


def by_polars(orders: pyarrow.Table) -> list[Any]:
    """The same."""
    frame = polars.DataFrame(orders)
    sums = frame.group_by("customer").agg(polars.col("amount").sum().alias("total"))
    return sums.sort("total", descending=True).rows()


def main(bootstrap: str, topic: str) -> list[Any]:
    """Print the sums, and what could not be read."""
    orders, bad = read(bootstrap, topic)
    sums = by_duckdb(orders)
    assert by_polars(orders) == sums
    for customer, total in sums:
        print(f"{customer}: {total:g}")
    for one in bad.to_pylist():
        print(f"offset {one['offset']} of partition {one['partition']}: {one['error']}")
    return sums


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
