"""Kafka's messages where kafka-python lacks them, or reads them too slowly."""
