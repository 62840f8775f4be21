"""Pipelines as users write them have the same rows on our source and on Spark's own.

A source gives rows and no more. But a pipeline that is a stream asks more of it than a batch does:
batches that are cut alike, times from which watermarks come, an end that is known.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.spark_support import SOURCES, reader

pytestmark = [
    pytest.mark.gate,
    pytest.mark.once("what Spark makes of rows does not depend on which Kafka it is"),
    pytest.mark.timeout(600),
]

#: The store of states that `transformWithState` needs.
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: Few records in a batch of a stream, so that state goes from one batch to the next.
BATCH = 60

#: Makes a frame of those of the two topics.
Pipeline: TypeAlias = Callable[[Any, Any], Any]

_VALUE = "id bigint, customer string, amount double, tags array<string>"


class Topics(NamedTuple):
    """The topics of all pipelines."""

    orders: str
    payments: str


@pytest.fixture(scope="module")
def written(kafka: Cluster, request: pytest.FixtureRequest) -> Topics:
    """Orders in three partitions, one each ten seconds, of which each seventh is an hour late; some
    are written twice, some are no JSON. Payments in two partitions."""
    names = Topics(f"orders-{id(request)}", f"payments-{id(request)}")
    keep = {"retention.ms": "-1"}
    topics.create_topic(kafka.bootstrap_servers, names.orders, 3, configs=keep)
    topics.create_topic(kafka.bootstrap_servers, names.payments, 2, configs=keep)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for number, again in itertools.product(range(100), (False, True)):
            if again and number % 10:
                continue
            order = {"id": number, "customer": f"c{number % 5}", "amount": number / 4}
            order["tags"] = ["a", "b"][: number % 3]
            producer.send(
                names.orders,
                key=None if number % 11 == 0 else b"%d" % (number % 5),
                value=b"no JSON" if number % 13 == 5 else json.dumps(order).encode(),
                partition=number % 3,
                headers=[("trace", b"%d" % number)] if number % 2 else [],
                timestamp_ms=10_000_000 + 10_000 * number - 3_600_000 * (number % 7 == 6),
            )
        for number in range(0, 100, 2):
            producer.send(
                names.payments,
                key=b"%d" % number,
                value=b"%d" % (number * 100),
                partition=number % 4 // 2,
                timestamp_ms=10_000_000 + 10_000 * number + 500,
            )
        producer.flush()
    return names


def of_json(orders: Any) -> Any:
    """The fields of orders that are JSON."""
    parsed = F.from_json(F.col("value").cast("string"), _VALUE).alias("it")
    found = orders.select("partition", "offset", "timestamp", "headers", parsed)
    return found.where("it.id is not null").select("*", "it.*").drop("it")


def bounded(orders: Any, delay: str = "1 minute") -> Any:
    """Orders with a watermark: those that are an hour late are left out by what has a state."""
    return of_json(orders).withWatermark("timestamp", delay)


def paid(payments: Any) -> Any:
    """Payments: `order`, `cents`, `at`."""
    key, value = "cast(cast(key as string) as bigint) order", "cast(value as string) cents"
    return payments.selectExpr(key, value, "timestamp at").withWatermark("at", "1 minute")


def customers(orders: Any) -> Any:
    """A table: the countries of two customers."""
    return orders.sparkSession.sql("values ('c0', 'DE'), ('c1', 'FR') as t(customer, country)")


def summed(orders: Any, window: Any) -> Any:
    """What each customer has ordered in each window."""
    return orders.groupBy(window, "customer").agg(F.sum("amount"), F.count("*"))


def joined(orders: Any, payments: Any) -> Any:
    """Orders with their payments, which come within two seconds, and those without one."""
    within = F.expr("id = order and at between timestamp and timestamp + interval 2 seconds")
    found = bounded(orders).join(paid(payments), within, "left_outer")
    return found.select("id", "amount", "cents")


def in_python(orders: Any) -> Any:
    """Functions in Python: a scalar one, and one of whole tables."""
    doubled = F.udf(lambda amount: amount * 2, "double")

    def upper(tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            yield table.assign(customer=table["customer"].str.upper())

    found = of_json(orders).select("id", "customer", doubled("amount").alias("twice"))
    return found.mapInPandas(upper, "id bigint, customer string, twice double")


def with_state(orders: Any) -> Any:
    """A sum of each customer that a function in Python keeps."""

    def total(key: Any, tables: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        before = state.get[0] if state.exists else 0.0
        now = before + sum(table["amount"].sum() for table in tables)
        state.update((now,))
        yield pd.DataFrame({"customer": [key[0]], "total": [now]})

    return (
        of_json(orders)
        .groupBy("customer")
        .applyInPandasWithState(
            total, "customer string, total double", "total double", "update", "NoTimeout"
        )
    )


def with_processor(orders: Any) -> Any:
    """The same sum by an object in Python. Spark starts a process for it, and waits 10 s for it."""
    orders.sparkSession.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)

    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "total double")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            before = self.total.get()[0] if self.total.exists() else 0.0
            now = before + sum(row.amount for row in rows)
            self.total.update((now,))
            yield Row(customer=key[0], total=now)

        def close(self) -> None:
            pass

    return (
        of_json(orders)
        .groupBy("customer")
        .transformWithState(Totals(), "customer string, total double", "update", "none")
    )


def in_sql(orders: Any) -> Any:
    """A view, and a query of it in SQL."""
    of_json(orders).createOrReplaceTempView("orders")
    text = "select customer, max(amount) most, min(offset) first from orders group by customer"
    return orders.sparkSession.sql(text)


#: Those without a state are read as a batch: for them a stream is one batch after another.
STATELESS = {
    "select": lambda o, p: o.selectExpr("cast(value as string) v", "topic", "timestamp"),
    "filter": lambda o, p: of_json(o).where("amount > 10 and customer <> 'c3'"),
    "null keys": lambda o, p: o.where("key is null").select("partition", "offset"),
    "explode": lambda o, p: of_json(o).select(
        "id", F.explode_outer("tags"), F.expr("headers[0].value")
    ),
    "join with a table": lambda o, p: (
        of_json(o).join(customers(o), "customer", "left_outer").select("id", "country")
    ),
    "union": lambda o, p: o.select("topic", "key").unionByName(p.select("topic", "key")),
    "functions in Python": lambda o, p: in_python(o),
    "rank": lambda o, p: of_json(o).selectExpr(
        "id", "rank() over (partition by customer order by amount desc, offset) rank"
    ),
    "order": lambda o, p: of_json(o).orderBy(F.desc("amount"), "offset").limit(10),
    "distinct": lambda o, p: of_json(o).select("customer", F.size("tags")).distinct(),
    "sql": lambda o, p: in_sql(o),
}

#: Each with the mode of its sink.
STATEFUL = {
    "group by": ("complete", lambda o, p: of_json(o).groupBy("customer").agg(F.sum("amount"))),
    "window": (
        "append",
        lambda o, p: summed(bounded(o), F.window("timestamp", "1 minute", "30 seconds")),
    ),
    "late": ("update", lambda o, p: summed(bounded(o, "2 hours"), F.window("timestamp", "1 hour"))),
    "drop duplicates": (
        "append",
        lambda o, p: bounded(o).dropDuplicatesWithinWatermark(["id"]).select("id"),
    ),
    "outer join of streams": ("append", joined),
    "state in Python": ("update", lambda o, p: with_state(o)),
    "transformWithState": ("update", lambda o, p: with_processor(o)),
}


def source(spark: Any, name: str, kafka: Cluster, topic: str, *, stream: bool) -> Any:
    """All records of a topic, by this source."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    if stream:
        options["maxOffsetsPerTrigger"] = str(BATCH)
    return reader(spark.readStream if stream else spark.read, name, kafka, options).load()


@pytest.mark.parametrize("pipeline", STATELESS.values(), ids=[*STATELESS])
def test_a_batch_has_the_rows_that_it_has_with_sparks_own_source(
    spark: Any, kafka: Cluster, written: Topics, pipeline: Pipeline
) -> None:
    def run(name: str) -> list[Any]:
        orders, payments = (source(spark, name, kafka, one, stream=False) for one in written)
        return in_order(pipeline(orders, payments))

    ours, native = map(run, SOURCES)
    assert ours == native
    assert ours


@pytest.mark.parametrize(("mode", "pipeline"), STATEFUL.values(), ids=[*STATEFUL])
def test_a_stream_with_a_state_has_the_rows_that_it_has_with_sparks_own_source(
    spark: Any, kafka: Cluster, written: Topics, tmp_path: Path, mode: str, pipeline: Pipeline
) -> None:
    def run(name: str) -> list[Any]:
        orders, payments = (source(spark, name, kafka, one, stream=True) for one in written)
        query = (
            pipeline(orders, payments)
            .writeStream.format("memory")
            .queryName(f"rows_of_{name}")
            .outputMode(mode)
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(300)
            assert query.lastProgress["batchId"] > 0, "a state goes from one batch to the next"
        finally:
            query.stop()
            spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
        return in_order(spark.table(f"rows_of_{name}"))

    ours, native = map(run, SOURCES)
    assert ours == native
    assert ours


def in_order(frame: Any) -> list[Any]:
    """Its rows, sorted."""
    return sorted(frame.collect(), key=repr)
