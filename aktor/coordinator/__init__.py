"""What programs import from `kafka.coordinator`: the assignors."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
