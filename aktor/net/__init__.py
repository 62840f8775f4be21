"""What programs import from `kafka.net`: the base class of token providers."""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
