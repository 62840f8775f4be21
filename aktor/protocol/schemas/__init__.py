"""Layouts of the messages that kafka-python does not know, in Kafka's JSON form."""
