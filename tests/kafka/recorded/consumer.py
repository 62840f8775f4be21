"""What members of consumer groups (KIP-848) say, in a line each."""

from __future__ import annotations

from typing import Any, Final

from tests.kafka.recorded.world import Topic, World

__all__ = ["beat", "describe", "join_fully", "joining", "owns", "topic", "until_known"]

#: The partitions of __consumer_offsets in these tests; each has a coordinator of its own.
_COORDINATORS: Final = 4


def topic(world: World, partitions: int = 1) -> Topic:
    """A topic that all group coordinators have heard of, so that no group learns of it later."""
    made = world.topic(partitions)
    until_known(world, made.name)
    return made


def until_known(world: World, name: str) -> None:
    """Try out, with groups made for it, whether all group coordinators know the topic."""
    asked = joining(subscribed_topic_names=[name])
    for coordinator in range(_COORDINATORS):
        for _ in range(1000):
            answer = beat(world, _group_of(world, coordinator), "probe", 0, **asked)
            if answer.assignment is not None and answer.assignment.topic_partitions:
                break


def _group_of(world: World, coordinator: int) -> str:
    """A group that this partition of __consumer_offsets is for: by Java's hash of the name."""
    while True:
        name, code = world.name("probe"), 0
        for letter in name:
            code = (31 * code + ord(letter)) & 0xFFFFFFFF
        if (code & 0x7FFFFFFF) % _COORDINATORS == coordinator:
            return name


def beat(world: World, group: str, member: str, epoch: int, v: int = 1, **fields: Any) -> Any:
    return world.ask(
        "ConsumerGroupHeartbeat", v, group_id=group, member_id=member, member_epoch=epoch, **fields
    )


def joining(*topics: Topic, **fields: Any) -> dict[str, Any]:
    return {
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": [topic.name for topic in topics],
        "topic_partitions": [],
        **fields,
    }


def owns(topic: Topic, *partitions: int) -> list[dict[str, Any]]:
    return [{"topic_id": topic.id, "partitions": list(partitions)}]


def describe(world: World, label: str, group: str) -> None:
    world.see(label, "ConsumerGroupDescribe", 1, group_ids=[group])


def join_fully(world: World, group: str, member: str, *topics: Topic, **fields: Any) -> Any:
    """Join and beat until there is an assignment; the last answer."""
    answer = beat(world, group, member, 0, **joining(*topics, **fields))
    assert answer.error_code == 0, answer
    for _ in range(200):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer
        answer = beat(world, group, member, answer.member_epoch)
    return answer
