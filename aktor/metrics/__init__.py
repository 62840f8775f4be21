"""kafka-python's `kafka.metrics`, for those who write a reporter (`metric_reporters`)."""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.metrics import (
    AnonMeasurable,
    DictReporter,
    KafkaMetric,
    MetricConfig,
    MetricName,
    Metrics,
)

__all__ = [
    "AnonMeasurable",
    "DictReporter",
    "KafkaMetric",
    "MetricConfig",
    "MetricName",
    "Metrics",
]
