"""A Kafka consumer for Python."""

__version__ = "0.1.0.dev0"
