"""kafka-python's `kafka.metrics.metrics_reporter`: the base class of reporters."""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.metrics.metrics_reporter import AbstractMetricsReporter

__all__ = ["AbstractMetricsReporter"]
