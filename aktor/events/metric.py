"""What a metric is: declared beside who counts it, shown by `consumer.metrics()`."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from aktor.values import Value

__all__ = [
    "CONSUMER_METRICS",
    "COORDINATOR_METRICS",
    "FETCH_METRICS",
    "NODE_METRICS",
    "Kind",
    "Metric",
]

#: The groups, with kafka-python's names.
CONSUMER_METRICS: Final = "consumer-metrics"
COORDINATOR_METRICS: Final = "consumer-coordinator-metrics"
FETCH_METRICS: Final = "consumer-fetch-manager-metrics"
#: Its groups have the node at the end: "consumer-node-metrics.node-1".
NODE_METRICS: Final = "consumer-node-metrics"

#: A total only grows: the supervisor keeps it over a restart of the actor that counts it. An
#: average, a maximum and a rate are over the last windows (`metrics_num_samples`,
#: `metrics_sample_window_ms`), and begin again then. A gauge is of now.
Kind: TypeAlias = Literal["total", "average", "maximum", "rate", "gauge"]


class Metric(Value):
    """One metric: kafka-python's group and name for it, if kafka-python has it, else Java's.

    `tags` say of which topic or partition it is, as in Java: (("topic", "orders"),).
    """

    name: str
    group: str
    description: str
    kind: Kind
    tags: tuple[tuple[str, str], ...] = ()
