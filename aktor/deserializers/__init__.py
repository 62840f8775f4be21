"""Deserializers that say what type they make, so that a type checker knows each record's value.

    consumer = KafkaConsumer("orders", value_deserializer=JsonDeserializer(Order))
    for record in consumer:
        record.value  # Order | None: None is a tombstone

What they raise becomes a RecordDeserializationError. pydantic, msgspec and confluent-kafka are
imported when their deserializer is made.
"""

import aktor.kafka_python  # noqa: F401  # it checks kafka-python
from aktor.deserializers.avro import AvroDeserializer
from aktor.deserializers.base import Deserializer
from aktor.deserializers.json import Json, JsonDeserializer
from aktor.deserializers.msgspec import MsgspecDeserializer
from aktor.deserializers.pydantic import PydanticDeserializer
from aktor.deserializers.text import TextDeserializer

__all__ = [
    "AvroDeserializer",
    "Deserializer",
    "Json",
    "JsonDeserializer",
    "MsgspecDeserializer",
    "PydanticDeserializer",
    "TextDeserializer",
]
