"""What runs the managers: the runtime, the supervision, the network."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
