"""A group goes from the classic protocol to that of KIP-848 and back, under load."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.migration import change_and_change_back
from tests.gate import all_but_the_first

COOPERATIVE = {"partition_assignment_strategy": [CooperativeStickyAssignor]}


@pytest.mark.parametrize(
    ("classic", "settings", "consumer", "count"),
    all_but_the_first(
        2,
        [
            # librdkafka's own one leaves data of its own in assignments: Kafka refuses to convert
            # that.
            ("kafka-python", COOPERATIVE, "aktor", 2),
            ("aktor", {}, "aktor", 3),
            ("aktor", COOPERATIVE, "aktor", 3),
            ("librdkafka", {"partition_assignment_strategy": "range"}, "librdkafka", 3),
            ("kafka-python", {}, "librdkafka", 2),
        ],
    ),
    ids=[
        "kafka-python-cooperative-and-aktor",
        "aktor-eager",
        "aktor-cooperative",
        "librdkafka-eager",
        "kafka-python-eager",
    ],
)
def test_a_group_changes_its_protocol_under_load_and_changes_back(
    kafka: EmbeddedKafka,
    topic: str,
    group: str,
    classic: str,
    settings: dict[str, Any],
    consumer: str,
    count: int,
) -> None:
    change_and_change_back(
        kafka, topic, group, classic=classic, settings=settings, consumer=consumer, count=count
    )
