"""Kafka through aktor in PySpark."""
