"""What a metric is: declared beside who counts it, shown by `consumer.metrics()`."""

from __future__ import annotations

from typing import Final

from aktor.values import Value

__all__ = ["CONSUMER_METRICS", "COORDINATOR_METRICS", "FETCH_METRICS", "Metric"]

#: The groups, with kafka-python's names.
CONSUMER_METRICS: Final = "consumer-metrics"
COORDINATOR_METRICS: Final = "consumer-coordinator-metrics"
FETCH_METRICS: Final = "consumer-fetch-manager-metrics"


class Metric(Value):
    """One metric: kafka-python's group and name for it, if kafka-python has it."""

    name: str
    group: str
    description: str
