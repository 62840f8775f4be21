"""Ordered concurrency: `KafkaConsumer.process`, and what its arguments are made of."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
from aktor.errors import HandlerError
from aktor.processing.dead_letter import dead_letter
from aktor.processing.failures import Failure, Retries
from aktor.processing.plan import Processed

__all__ = ["Failure", "HandlerError", "Processed", "Retries", "dead_letter"]
