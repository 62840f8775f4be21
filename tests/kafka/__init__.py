"""aktor against a real Apache Kafka, started from its jars by `tests.real_kafka`."""
