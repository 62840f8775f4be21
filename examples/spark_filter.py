"""A batch query of JSON that keeps few rows: the tasks drop the others before Spark gets them.

    aktor broker --topic orders:4 --records 1000
    python -m examples.spark_filter localhost:9092 orders DE

The first command is for who has no Kafka with orders. The second one takes 10 s, and more than a
minute on a machine that is busy: Spark starts a JVM and several Python processes.

Needs `pip install -e '.[spark]'` and Java 17.
"""

from __future__ import annotations

import sys
from typing import Any

from examples.spark_session import new_session


def turnover(spark: Any, bootstrap: str, topic: str, country: str) -> dict[str, float]:
    """What each customer of a country has paid, by orders above 50."""
    orders = (
        spark.read.format("aktor")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("decode", "json")
        .schema("value struct<customer: string, country: string, amount: double>")
        .option("where", f"value.country = '{country}' and value.amount > 50")
        .load()
    )
    sums = orders.groupBy("value.customer").sum("value.amount")
    return dict(map(tuple, sums.collect()))


def main(bootstrap: str = "localhost:9092", topic: str = "orders", country: str = "DE") -> None:
    """Print what each customer has paid."""
    if not country.isalpha():
        raise SystemExit(f"{country!r} is no country")
    spark = new_session()
    found = turnover(spark, bootstrap, topic, country)
    for customer, amount in sorted(found.items()):
        print(f"{customer}: {amount:,.2f}")
    if not found:
        print(f"{topic} has no orders above 50 from {country}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
