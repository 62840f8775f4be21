"""`aktor demo`: a consumer group at work, one of whose members is killed and comes back.

The Kafka is an embedded one unless told otherwise: neither Java nor a running Kafka is needed.
A producer process writes numbered orders; every member of the group is a process of its own. What
they write and read they report to this process, which shows it (`view`) and judges it (`referee`).
"""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
