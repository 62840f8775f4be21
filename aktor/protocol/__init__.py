"""Kafka's messages where kafka-python lacks them, or reads them too slowly."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
