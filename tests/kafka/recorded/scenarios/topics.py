"""Topics: made, grown, trimmed, described and deleted; with everything that is refused."""

from __future__ import annotations

import uuid
from typing import Any

from tests.kafka.recorded.batches import batch
from tests.kafka.recorded.world import Topic, World


def _new(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **fields}


def _create(world: World, label: str, *topics: dict[str, Any], version: int = 7, **f: Any) -> None:
    world.see(label, "CreateTopics", version, **{"timeout_ms": 10_000, **f}, topics=list(topics))


def all_versions_create_topics(world: World) -> None:
    for version in range(2, 8):
        answer = world.ask(
            "CreateTopics", version, timeout_ms=10_000, topics=[_new(world.name("topic"), 2)]
        )
        for topic in answer.topics:
            topic.configs = None
        world.note(f"v{version}", answer)


def a_created_topic_tells_its_configs(world: World) -> None:
    answer = world.ask(
        "CreateTopics",
        7,
        timeout_ms=10_000,
        topics=[_new(world.name("topic"), configs=[{"name": "retention.ms", "value": "5"}])],
    )
    ours = ("retention.ms", "cleanup.policy", "max.message.bytes")
    configs = [each for each in answer.topics[0].configs if each.name in ours]
    world.note("configs", configs)


def defaults_of_the_broker_for_partitions_and_replicas(world: World) -> None:
    answer = world.ask(
        "CreateTopics", 5, timeout_ms=10_000, topics=[_new(world.name("topic"), -1, -1)]
    )
    topic = answer.topics[0]
    world.note("made", [topic.error_code, topic.num_partitions, topic.replication_factor])


def topics_that_exist_already(world: World) -> None:
    topic = world.topic()
    _create(world, "exists", _new(topic.name))
    _create(world, "exists, only to validate", _new(topic.name), validate_only=True)
    name = world.name("topic")
    _create(world, "twice in one request", _new(name), _new(name, 2))


def names_that_collide_or_are_invalid(world: World) -> None:
    base = world.name("a.b")
    world.ask("CreateTopics", 7, timeout_ms=10_000, topics=[_new(base)])
    _create(world, "a_b collides with a.b", _new(base.replace("a.b", "a_b")))
    for label, name in (
        ("empty", ""),
        ("dot", "."),
        ("dots", ".."),
        ("slash", "a/b"),
        ("long", "x" * 250),
    ):
        _create(world, label, _new(name))
    _create(world, "internal", _new("__consumer_offsets"))


def partitions_and_replicas_that_cannot_be(world: World) -> None:
    for partitions in (0, -2):
        _create(world, f"{partitions} partitions", _new(world.name("topic"), partitions))
    for replicas in (0, -2, 2):
        _create(world, f"{replicas} replicas", _new(world.name("topic"), 1, replicas))


def configs_that_cannot_be(world: World) -> None:
    for label, name, value in (
        ("unknown", "no.such.config", "1"),
        ("no number", "retention.ms", "soon"),
        ("out of range", "max.message.bytes", "-1"),
        ("no such policy", "cleanup.policy", "sometimes"),
        ("null", "retention.ms", None),
    ):
        config = {"name": name, "value": value}
        _create(world, label, _new(world.name("topic"), configs=[config]))


def replicas_assigned_by_hand(world: World) -> None:
    def assigned(*partitions: tuple[int, list[int]], count: int = -1, replicas: int = -1) -> Any:
        assignments = [{"partition_index": p, "broker_ids": ids} for p, ids in partitions]
        return _new(world.name("topic"), count, replicas, assignments=assignments)

    for label, topic in (
        ("two partitions", assigned((0, [1]), (1, [1]))),
        ("with a count", assigned((0, [1]), count=1)),
        ("with replicas", assigned((0, [1]), replicas=1)),
        ("unknown broker", assigned((0, [99]))),
        ("twice the same broker", assigned((0, [1, 1]))),
        ("no broker", assigned((0, []))),
        ("a gap", assigned((0, [1]), (2, [1]))),
        ("the same partition twice", assigned((0, [1]), (0, [1]))),
        ("not from zero", assigned((1, [1]))),
    ):
        answer = world.ask("CreateTopics", 7, timeout_ms=10_000, topics=[topic])
        answer.topics[0].configs = None
        world.note(label, answer)


def validation_creates_nothing(world: World) -> None:
    name = world.name("topic")
    answer = world.ask("CreateTopics", 7, topics=[_new(name, 3)], validate_only=True)
    answer.topics[0].configs = None
    world.note("validated", answer)
    world.see("metadata", "Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)


def topics_are_deleted_by_name(world: World) -> None:
    for version in range(1, 6):
        topic = world.topic()
        world.see(
            f"v{version}", "DeleteTopics", version, timeout_ms=10_000, topic_names=[topic.name]
        )
    topic = world.topic()
    asked = [{"name": topic.name}, {"name": world.name("nowhere")}]
    world.see("v6", "DeleteTopics", 6, timeout_ms=10_000, topics=asked)
    world.see("v6 again", "DeleteTopics", 6, timeout_ms=10_000, topics=asked[:1])
    world.see("v5 unknown", "DeleteTopics", 5, timeout_ms=10_000, topic_names=[topic.name])
    world.see(
        "v0 to v4 have no text", "DeleteTopics", 4, timeout_ms=10_000, topic_names=[topic.name]
    )


def topics_are_deleted_by_id(world: World) -> None:
    topic = world.topic()
    world.see("delete", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"topic_id": topic.id}])
    world.see("again", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"topic_id": topic.id}])
    world.see(
        "unknown", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"topic_id": uuid.UUID(int=7)}]
    )
    other = world.topic()
    world.see("neither", "DeleteTopics", 6, timeout_ms=10_000, topics=[{}])
    world.see(
        "both",
        "DeleteTopics",
        6,
        timeout_ms=10_000,
        topics=[{"topic_id": other.id, "name": other.name}],
    )
    world.see(
        "the same twice",
        "DeleteTopics",
        6,
        timeout_ms=10_000,
        topics=[{"name": other.name}, {"topic_id": other.id}],
    )


def a_deleted_topic_is_gone_and_comes_back_with_another_id(world: World) -> None:
    topic = world.topic()
    world.produce(topic, "a")
    world.ask("DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": topic.name}])
    while world.fetch(topic).responses[0].partitions[0].error_code == 0:
        pass
    world.note("fetch", world.fetch(topic))
    world.note("fetch by id", world.fetch(topic, version=13))
    world.note("produce", world.produce(topic, "b"))
    made = world.ask("CreateTopics", 7, timeout_ms=10_000, topics=[_new(topic.name)])
    world.settle(topic.name)
    world.note("another id", made.topics[0].topic_id != topic.id)
    world.ends("empty", topic)
    world.note("fetch by the old id", world.fetch(topic, version=13))


def partitions_are_added(world: World) -> None:
    topic = world.topic()
    for version in range(4):
        asked = [{"name": topic.name, "count": version + 2}]
        world.see(f"v{version}", "CreatePartitions", version, topics=asked, timeout_ms=10_000)
    world.settle(topic.name, 5)
    world.see("metadata", "Metadata", 9, topics=[{"name": topic.name}])


def partitions_that_cannot_be_added(world: World) -> None:
    topic = world.topic(2)

    def grow(label: str, count: int, name: str = topic.name, **fields: Any) -> None:
        validate = fields.pop("validate_only", False)
        asked = [{"name": name, "count": count, **fields}]
        world.see(
            label, "CreatePartitions", 3, topics=asked, timeout_ms=10_000, validate_only=validate
        )

    grow("as many", 2)
    grow("fewer", 1)
    grow("zero", 0)
    grow("negative", -1)
    grow("unknown topic", 3, world.name("nowhere"))
    grow("unknown broker", 3, assignments=[{"broker_ids": [99]}])
    grow("too few assignments", 4, assignments=[{"broker_ids": [1]}])
    grow("twice the same broker", 3, assignments=[{"broker_ids": [1, 1]}])
    grow("no broker", 3, assignments=[{"broker_ids": []}])
    grow("only to validate", 3, validate_only=True)
    asked = [{"name": topic.name, "count": 3}] * 2
    world.see("twice", "CreatePartitions", 3, topics=asked, timeout_ms=10_000)
    world.see("metadata", "Metadata", 9, topics=[{"name": topic.name}])


def records_are_deleted_up_to_an_offset(world: World) -> None:
    topic = world.topic()
    for value in "abcd":
        world.produce(topic, value)

    def delete(
        label: str, offset: int, version: int = 2, name: str = topic.name, p: int = 0
    ) -> None:
        world.see(
            label,
            "DeleteRecords",
            version,
            timeout_ms=10_000,
            topics=[{"name": name, "partitions": [{"partition_index": p, "offset": offset}]}],
        )

    delete("v0", 1, 0)
    delete("v1", 1, 1)
    delete("v2", 2)
    delete("below the start", 1)
    delete("beyond the end", 5)
    delete("-2", -2)
    delete("unknown partition", 1, p=9)
    delete("unknown topic", 1, name=world.name("nowhere"))
    world.ends("ends", topic)
    world.note("fetch below the start", world.fetch(topic, 1))
    delete("all", -1)
    world.ends("ends at last", topic)
    world.note("offset of the next", world.produce(topic, "e"))


def records_are_deleted_in_the_middle_of_a_batch(world: World) -> None:
    topic = world.topic()
    world.produce(topic, batch("a", "b", "c"))
    world.see(
        "delete",
        "DeleteRecords",
        2,
        timeout_ms=10_000,
        topics=[{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 1}]}],
    )
    world.ends("ends", topic)
    world.note("fetch at the start", world.fetch(topic, 1))
    world.note("fetch before it", world.fetch(topic, 0))


def _configs(world: World, label: str, resource: int, name: str, *keys: str, **f: Any) -> None:
    version = f.pop("version", 4)
    asked = {"resource_type": resource, "resource_name": name, "configuration_keys": list(keys)}
    world.see(label, "DescribeConfigs", version, resources=[asked], **f)


def configs_of_a_topic_are_described(world: World) -> None:
    topic = world.topic(1, retention_ms="12345", cleanup_policy="compact")
    keys = ("retention.ms", "cleanup.policy", "max.message.bytes", "no.such.config")
    for version in range(1, 5):
        _configs(world, f"v{version}", 2, topic.name, *keys, version=version)
    _configs(world, "synonyms", 2, topic.name, *keys[:1], include_synonyms=True)
    _configs(world, "documentation", 2, topic.name, *keys[:1], include_documentation=True)


def configs_that_cannot_be_described(world: World) -> None:
    _configs(world, "unknown topic", 2, world.name("nowhere"), "retention.ms")
    _configs(world, "invalid topic", 2, "a/b", "retention.ms")
    _configs(world, "empty topic", 2, "", "retention.ms")
    _configs(world, "unknown broker", 4, "99", "log.dirs")
    _configs(world, "no broker", 4, "one", "log.dirs")
    _configs(world, "type 77", 77, "x")


def all_configs_of_a_topic_have_names(world: World) -> None:
    topic = world.topic()
    asked = {"resource_type": 2, "resource_name": topic.name, "configuration_keys": None}
    answer = world.ask("DescribeConfigs", 4, resources=[asked])
    world.note("names", sorted(each.name for each in answer.results[0].configs))
    values = {each.name: each.value for each in answer.results[0].configs}
    world.note("values", [[name, values[name]] for name in sorted(values)])


def a_topic_is_what_its_creation_answered(world: World) -> None:
    topic: Topic = world.topic(2, retention_ms="5")
    world.see("metadata", "Metadata", 12, topics=[{"name": topic.name}])
    answer = world.ask("Metadata", 12, topics=[{"name": topic.name}])
    world.note("the same id", answer.topics[0].topic_id == topic.id)
