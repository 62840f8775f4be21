"""The application thread's half: the facade, its settings, delivery and callbacks."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
