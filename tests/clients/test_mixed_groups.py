"""Groups whose members are different clients: Java, C and Python understand each other."""

from __future__ import annotations

from typing import Any

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.java import JavaTools
from tests.clients.members import (
    aktor_member,
    confluent_member,
    kafka_python_member,
    together_then_alone,
)


def test_java_and_c_and_python_share_a_classic_group(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, group: str
) -> None:
    together_then_alone(
        kafka,
        topic,
        group,
        kafka_python_member(kafka, topic, group),
        confluent_member(kafka, [topic], group),
        java.consume(topic, group),
    )


def test_java_and_c_and_ours_share_a_group_of_the_new_protocol(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, group: str
) -> None:
    more: dict[str, Any] = {"group_protocol": "consumer"}

    together_then_alone(
        kafka,
        topic,
        group,
        aktor_member(kafka, topic, group, **more),
        confluent_member(kafka, [topic], group, **more),
        java.consume(topic, group, **more),
        busy=True,
    )
