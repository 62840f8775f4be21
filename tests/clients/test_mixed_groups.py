"""Groups whose members are different clients: Java, C and Python understand each other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from aktor.broker.embedded import EmbeddedKafka
from tests.clients.java import JavaTools
from tests.clients.members import (
    Reader,
    all_read,
    confluent_member,
    confluent_settings,
    kafka_python_member,
)
from tests.clients.support import PARTITIONS, SOON_S, numbered, produce, wait_until


def shared(kafka: EmbeddedKafka, group: str, members: Sequence[Reader]) -> list[list[int]]:
    """Wait until the group is stable and each partition has one owner among so many members; the
    partitions of each."""
    admin: Any = AdminClient(confluent_settings(kafka))
    owned: list[list[int]] = []

    def settled() -> bool:
        for member in members:
            member.check()
        described = admin.describe_consumer_groups([group])[group].result(SOON_S)
        owned[:] = [
            sorted(place.partition for place in one.assignment.topic_partitions)
            for one in described.members
        ]
        return (
            described.state == ConsumerGroupState.STABLE
            and len(owned) == len(members)
            and all(owned)
            and sorted(chain(*owned)) == list(PARTITIONS)
        )

    wait_until(settled, f"{list(PARTITIONS)} shared by {len(members)} members: {owned}", 60)
    return owned


def read_by_their_owners(members: Sequence[Reader], owned: list[list[int]], kind: str) -> None:
    """The records of this kind were read by those who own their partitions."""
    read = [
        sorted({one.partition for one in member.records if one.value.startswith(kind)})
        for member in members
    ]
    assert sorted(read) == sorted(owned)


def test_java_and_c_and_python_share_a_classic_group(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, group: str
) -> None:
    everybody: list[Reader]
    with ExitStack() as stack:
        python = stack.enter_context(kafka_python_member(kafka, topic, group))
        with ExitStack() as others:
            c = others.enter_context(confluent_member(kafka, [topic], group))
            tool = others.enter_context(java.consume(topic, group))
            everybody = [python, c, tool]
            owned = shared(kafka, group, everybody)
            written = produce(kafka, topic, numbered("together", 60))
            all_read(everybody, written)
            read_by_their_owners(everybody, owned, "together")

        shared(kafka, group, [python])
        written += produce(kafka, topic, numbered("alone", 20))
        all_read(everybody, written)


def test_java_and_c_share_a_group_of_the_new_protocol(
    kafka: EmbeddedKafka, java: JavaTools, topic: str, group: str
) -> None:
    everybody: list[Reader]
    more: dict[str, Any] = {"group_protocol": "consumer"}
    with ExitStack() as stack:
        c = stack.enter_context(confluent_member(kafka, [topic], group, **more))
        with java.consume(topic, group, **more) as tool:
            everybody = [c, tool]
            owned = shared(kafka, group, everybody)
            written = produce(kafka, topic, numbered("together", 60))
            all_read(everybody, written)
            read_by_their_owners(everybody, owned, "together")

        shared(kafka, group, [c])
        written += produce(kafka, topic, numbered("alone", 20))
        all_read(everybody, written)
