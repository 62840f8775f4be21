"""The messages between actors: frozen values (`aktor/values.py`), one module per conversation; who
hears which stands in `routes`."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
