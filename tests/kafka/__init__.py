"""Whole Kafka clusters: how tests get one, and aktor's consumer on it.

- `real`: starts a real Apache Kafka from its jars, with one node or three.
- `embedded`: gives aktor's embedded Kafka the interface of `real`.
- `recorded`: what a real Kafka answers to single requests, recorded, and both held against it.
- `test_*.py` here: the consumer, its examples and Spark. Each test runs on the embedded Kafka and
  on a real one; see `conftest.py`.
"""
