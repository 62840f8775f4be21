"""What to send and when: one request manager a module."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
