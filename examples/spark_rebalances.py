"""Who begins the rebalances: asked of the trace files of all members of all groups.

    python -m examples.spark_rebalances 'logs/*.jsonl'

The files are what applications write that run with AKTOR_TRACE=trace.jsonl. Needs
`pip install -e '.[spark]'` and Java 17. See docs/spark_rebalances.md.
"""

from __future__ import annotations

import sys
from typing import Any

from aktor.spark.rebalances import analyse_logs
from examples.spark_session import new_session


def initiators(spark: Any, logs: str) -> list[tuple[tuple[str, str], int]]:
    """((group, client id), how many rebalances it began), most first."""
    tables = analyse_logs(spark, logs)
    begun = tables["rebalances"].where("initiator IS NOT NULL").groupBy("group", "initiator")
    rows = begun.count().orderBy("count", ascending=False).collect()
    tables.close()
    return [((row["group"], row["initiator"]), row["count"]) for row in rows]


def main(logs: str) -> None:
    """Print them."""
    spark = new_session()
    for (group, consumer), count in initiators(spark, logs):
        print(f"{consumer} of {group}: {count} rebalances")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
