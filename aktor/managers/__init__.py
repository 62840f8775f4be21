"""What to send and when: a room, or a module, for each request manager."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
