"""The query: revenue of each shop in windows of ten seconds, as Parquet files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.spark_demo.orders import WINDOW
from examples.spark_session import session_of

ROOT = Path(__file__).parents[2]

SCHEMA = (
    "value struct<ordered_at: double, shop: string, cents: bigint>, valueError string,"
    " rawValue binary"
)

#: What the processes of Spark print, in the folder of the demo.
LOG = "spark.log"

#: For a JVM that lives half a minute: no second compiler, and no threads that collect garbage. It
#: starts with a third less of the processor's time.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def what_starts() -> str:
    """What `a_session` waits for at this moment."""
    pyspark = sys.modules.get("pyspark")
    context = getattr(pyspark, "SparkContext", None)
    if context is None:
        return "PySpark is imported"
    if context._gateway is None:
        return "a JVM starts"
    return "the JVM makes a session"


def a_session(folder: Path) -> Any:
    """Spark on two cores of this machine, with our source. What its processes print goes into
    a file in this folder."""
    from aktor.spark import register

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = _command(folder)
    settings = {
        "spark.app.name": "revenue",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.driver.extraJavaOptions": JAVA,
    }
    with _printing_into(folder / LOG):
        spark = session_of(settings)
    register(spark)
    return spark


def _command(folder: Path) -> str:
    """`aktor-spark-python`, which pip makes where aktor is installed: here it is a checkout."""
    found = folder / "aktor-spark-python"
    found.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from aktor.spark_python import main\nsys.exit(main())\n"
    )
    found.chmod(0o700)
    return str(found)


@contextmanager
def _printing_into(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile write their standard error into this file."""
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def start_query(spark: Any, bootstrap: str, topic: str, folder: Path, *, all_of_it: bool) -> Any:
    """Start the query, or go on with it from its checkpoint.

    `all_of_it`: read what there is and end; otherwise run until it is stopped.
    """
    from pyspark.sql import functions as f

    orders = (
        spark.readStream.format("aktor")
        .schema(SCHEMA)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("decode", "json")
        .load()
        .where("valueError is null")
        .selectExpr("timestamp_seconds(value.ordered_at) as at", "value.shop", "value.cents")
    )
    revenue = (
        orders.withWatermark("at", "10 seconds")
        .groupBy(f.window("at", f"{WINDOW} seconds"), "shop")
        .agg(f.sum("cents").alias("cents"), f.count("*").alias("orders"))
        .selectExpr("unix_timestamp(window.start) as begin", "shop", "cents", "orders")
    )
    writer = (
        revenue.writeStream.format("parquet")
        .option("path", str(folder / "revenue"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    trigger = {"availableNow": True} if all_of_it else {"processingTime": "1 second"}
    return writer.trigger(**trigger).start()


def revenue(spark: Any, folder: Path) -> dict[tuple[int, str], int]:
    """What the Parquet files say: cents by (begin of the window, shop)."""
    rows = spark.read.parquet(str(folder / "revenue")).collect()
    found: dict[tuple[int, str], int] = {}
    for row in rows:
        place = (row["begin"], row["shop"])
        assert place not in found, f"window {place} was written twice"
        found[place] = row["cents"]
    return found
