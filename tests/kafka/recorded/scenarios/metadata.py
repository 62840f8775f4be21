"""Metadata: topics by name and by id, unknown ones, invalid ones, and those made by asking."""

from __future__ import annotations

import uuid
from typing import Any

from tests.kafka.recorded.world import World


def _named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def all_versions_by_name(world: World) -> None:
    topic = world.topic(2)
    for version in range(14):
        world.see(f"v{version}", "Metadata", version, topics=_named(topic.name))


def a_topic_by_id(world: World) -> None:
    topic = world.topic()
    for version in (12, 13):
        world.see(f"v{version}", "Metadata", version, topics=[{"topic_id": topic.id, "name": None}])
    world.see("unknown", "Metadata", 12, topics=[{"topic_id": uuid.UUID(int=7), "name": None}])
    world.see("name null v12, zero id", "Metadata", 12, "a", topics=[{"name": None}])
    world.see("id and name", "Metadata", 12, "b", topics=[{"topic_id": topic.id, "name": "other"}])
    world.see(
        "id and name, mixed",
        "Metadata",
        12,
        "c",
        topics=[{"topic_id": topic.id, "name": None}, {"name": topic.name}],
    )


def a_topic_by_id_before_v12_is_refused(world: World) -> None:
    topic = world.topic()
    for version in (10, 11):
        world.see(
            f"v{version}",
            "Metadata",
            version,
            f"v{version}",
            topics=[{"topic_id": topic.id, "name": None}],
        )


def unknown_topics_are_not_made_unless_one_asks_for_it(world: World) -> None:
    for version in (4, 9, 13):
        world.see(
            f"v{version}",
            "Metadata",
            version,
            topics=_named(world.name("nowhere")),
            allow_auto_topic_creation=False,
        )


def asking_for_a_topic_makes_it(world: World) -> None:
    name = world.name("topic")
    made = world.ask("Metadata", 9, topics=_named(name), allow_auto_topic_creation=True)
    world.note("at first", made.topics[0].error_code in (3, 5))
    world.client.settled("Metadata", 9, topics=_named(name), allow_auto_topic_creation=False)
    world.settle(name)
    world.see("soon", "Metadata", 9, topics=_named(name), allow_auto_topic_creation=False)


def names_that_no_topic_can_have(world: World) -> None:
    for label, name in (
        ("empty", ""),
        ("slash", "a/b"),
        ("dot", "."),
        ("dots", ".."),
        ("long", "x" * 250),
        ("space", "a b"),
        ("umlaut", "ü"),
    ):
        world.see(label, "Metadata", 9, topics=_named(name), allow_auto_topic_creation=True)
        world.see(
            f"{label}, not to be made",
            "Metadata",
            9,
            topics=_named(name),
            allow_auto_topic_creation=False,
        )


def several_topics_one_of_them_twice(world: World) -> None:
    topic = world.topic()
    world.see(
        "metadata",
        "Metadata",
        9,
        allow_auto_topic_creation=False,
        topics=_named(topic.name, world.name("nowhere"), topic.name),
    )


def no_topics_and_all_topics(world: World) -> None:
    topic = world.topic()
    world.see("none", "Metadata", 9, topics=[])
    answer = world.ask("Metadata", 9, topics=None)
    world.note("all", topic.name in {each.name for each in answer.topics})
    answer = world.ask("Metadata", 0, topics=[])
    world.note("all in v0", topic.name in {each.name for each in answer.topics})
    answer = world.ask("Metadata", 1, topics=[])
    world.note("none in v1", len(answer.topics))


def internal_topics_are_marked(world: World) -> None:
    world.group()
    world.transactional_id()
    for name in ("__consumer_offsets", "__transaction_state"):
        answer = world.ask("Metadata", 9, topics=_named(name))
        world.note(name, [answer.topics[0].is_internal, len(answer.topics[0].partitions)])


def authorized_operations_are_told_on_request(world: World) -> None:
    topic = world.topic()
    fields: dict[str, Any] = {
        "include_topic_authorized_operations": True,
        "topics": _named(topic.name),
    }
    answer = world.ask("Metadata", 9, include_cluster_authorized_operations=True, **fields)
    world.note("topic", sorted(answer.topics[0].authorized_operations))
    world.note("cluster", sorted(answer.authorized_operations))


def partitions_described_page_by_page(world: World) -> None:
    topic = world.topic(3)
    topics = _named(topic.name)
    world.see("all", "DescribeTopicPartitions", 0, topics=topics)
    world.see("two", "DescribeTopicPartitions", 0, topics=topics, response_partition_limit=2)
    world.see(
        "the rest",
        "DescribeTopicPartitions",
        0,
        topics=topics,
        cursor={"topic_name": topic.name, "partition_index": 2},
    )
    world.see("unknown", "DescribeTopicPartitions", 0, topics=_named(world.name("nowhere")))


def the_cluster_is_described(world: World) -> None:
    for version in (0, 1, 2):
        world.see(f"v{version}", "DescribeCluster", version)
    world.see("controllers", "DescribeCluster", 1, endpoint_type=2)
    answer = world.ask("DescribeCluster", 0, include_cluster_authorized_operations=True)
    world.note("operations", answer)
