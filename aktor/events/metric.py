"""What a metric is: declared beside who counts it, shown by `consumer.metrics()`."""

from __future__ import annotations

from typing import Final, Literal

from aktor.values import Value

__all__ = ["CONSUMER", "COORDINATOR", "FETCH", "Metric"]

#: The groups, with kafka-python's names.
CONSUMER: Final = "consumer-metrics"
COORDINATOR: Final = "consumer-coordinator-metrics"
FETCH: Final = "consumer-fetch-manager-metrics"


class Metric(Value):
    """One metric: kafka-python's group and name for it, if kafka-python has it."""

    name: str
    group: str
    description: str
    #: A total only grows; an average and a maximum are over the actor's life; a gauge is of now.
    kind: Literal["total", "average", "maximum", "gauge"]
