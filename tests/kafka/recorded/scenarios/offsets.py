"""Committed offsets: commit, fetch, delete; by members and by anybody."""

from __future__ import annotations

import uuid
from typing import Any

from tests.kafka.recorded.world import Topic, World


def _commit(
    world: World, label: str, group: str, topic: str, offset: int, version: int = 9, **f: Any
) -> None:
    partition = {
        "partition_index": f.pop("partition", 0),
        "committed_offset": offset,
        "committed_leader_epoch": f.pop("epoch", -1),
        "committed_metadata": f.pop("metadata", ""),
    }
    world.see(
        label,
        "OffsetCommit",
        version,
        group_id=group,
        topics=[{"name": topic, "partitions": [partition]}],
        **f,
    )


def _fetch(
    world: World,
    label: str,
    group: str,
    topics: list[tuple[str, list[int]]] | None,
    version: int = 9,
    **fields: Any,
) -> None:
    asked = None
    if topics is not None:
        asked = [{"name": name, "partition_indexes": ps} for name, ps in topics]
    if version >= 8:
        member = {k: fields.pop(k) for k in ("member_id", "member_epoch") if k in fields}
        fields["groups"] = [{"group_id": group, "topics": asked, **member}]
    else:
        fields |= {"group_id": group, "topics": asked}
    world.see(label, "OffsetFetch", version, **fields)


def all_versions_commit_and_fetch(world: World) -> None:
    topic, group = world.topic(), world.group()
    for version in range(2, 10):
        _commit(
            world, f"commit v{version}", group, topic.name, version, version, epoch=0, metadata="m"
        )
    for version in range(1, 10):
        _fetch(world, f"fetch v{version}", group, [(topic.name, [0, 1])], version)


def commit_and_fetch_by_topic_id(world: World) -> None:
    topic, group = world.topic(), world.group()
    one = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    world.see(
        "commit",
        "OffsetCommit",
        10,
        group_id=group,
        topics=[
            {"topic_id": topic.id, "partitions": one},
            {"topic_id": uuid.UUID(int=7), "partitions": one},
            {"topic_id": uuid.UUID(int=0), "partitions": one},
        ],
    )
    world.see(
        "fetch",
        "OffsetFetch",
        10,
        groups=[
            {
                "group_id": group,
                "topics": [
                    {"topic_id": topic.id, "partition_indexes": [0]},
                    {"topic_id": uuid.UUID(int=7), "partition_indexes": [0]},
                    {"topic_id": uuid.UUID(int=0), "partition_indexes": [0]},
                ],
            }
        ],
    )
    world.see("fetch all", "OffsetFetch", 10, groups=[{"group_id": group, "topics": None}])


def what_was_never_committed(world: World) -> None:
    topic, group = world.topic(), world.group()
    for version in (1, 2, 5, 7, 8, 9):
        _fetch(world, f"v{version}", group, [(topic.name, [0])], version)
    _fetch(world, "unknown topic", group, [(world.name("nowhere"), [0])])
    _fetch(world, "all", group, None)
    _fetch(world, "all v7", group, None, 7)
    _fetch(world, "no topics", group, [])


def all_offsets_of_a_group(world: World) -> None:
    topic, other, group = world.topic(2), world.topic(), world.group()
    for where, partition in ((topic, 0), (topic, 1), (other, 0)):
        _commit(world, f"{where.name[:-9]} {partition}", group, where.name, 1, partition=partition)
    _fetch(world, "all", group, None)
    _fetch(world, "all v2", group, None, 2)
    _fetch(world, "all v7", group, None, 7)
    _fetch(world, "all stable", group, None, require_stable=True)


def several_groups_at_once(world: World) -> None:
    topic, group, other = world.topic(), world.group(), world.group()
    _commit(world, "commit", group, topic.name, 3)
    asked = [{"name": topic.name, "partition_indexes": [0]}]
    world.see(
        "fetch",
        "OffsetFetch",
        9,
        groups=[
            {"group_id": group, "topics": asked},
            {"group_id": other, "topics": asked},
            {"group_id": group, "topics": None},
        ],
    )
    world.see("none", "OffsetFetch", 9, groups=[])


def commits_that_are_refused(world: World) -> None:
    topic, group = world.topic(), world.group()
    _commit(world, "unknown topic", group, world.name("nowhere"), 1)
    _commit(world, "unknown partition", group, topic.name, 1, partition=9)
    _commit(world, "negative partition", group, topic.name, 1, partition=-1)
    _commit(world, "long metadata", group, topic.name, 1, metadata="m" * 4097)
    _commit(world, "longest metadata", group, topic.name, 1, metadata="m" * 4096)
    _commit(world, "no metadata", group, topic.name, 2, metadata=None)
    _commit(world, "negative offset", group, topic.name, -1)
    _commit(world, "offset beyond the end", group, topic.name, 10**12)
    _commit(world, "empty group", "", topic.name, 1)
    world.see("no topics", "OffsetCommit", 9, group_id=group, topics=[])
    _fetch(world, "fetch", group, [(topic.name, [0])])
    _fetch(world, "fetch of the empty group", "", [(topic.name, [0])])


def strangers_commit_only_to_groups_without_members(world: World) -> None:
    topic, group = world.topic(), world.group()
    _commit(
        world,
        "unknown member",
        group,
        topic.name,
        1,
        member_id="m",
        generation_id_or_member_epoch=1,
    )
    _commit(
        world,
        "a generation without a member",
        group,
        topic.name,
        1,
        generation_id_or_member_epoch=1,
    )
    _commit(world, "a member without a generation", group, topic.name, 1, member_id="m")
    _commit(world, "an unknown instance", group, topic.name, 1, group_instance_id="i")
    _commit(world, "nobody", group, topic.name, 1)
    _commit(
        world,
        "unknown member of an empty group",
        group,
        topic.name,
        1,
        member_id="m",
        generation_id_or_member_epoch=1,
    )
    member, generation = _member(world, group, topic)
    _commit(world, "nobody, while there is a member", group, topic.name, 2)
    me: dict[str, Any] = {"member_id": member, "generation_id_or_member_epoch": generation}
    _commit(world, "the member", group, topic.name, 3, **me)
    _commit(
        world,
        "older generation",
        group,
        topic.name,
        4,
        **{**me, "generation_id_or_member_epoch": 0},
    )
    _commit(
        world,
        "newer generation",
        group,
        topic.name,
        4,
        **{**me, "generation_id_or_member_epoch": 9},
    )
    _commit(world, "another member", group, topic.name, 4, **{**me, "member_id": "x"})
    _commit(
        world, "the member as unknown instance", group, topic.name, 4, **me, group_instance_id="i"
    )
    _fetch(world, "fetch", group, [(topic.name, [0])])
    world.see("describe", "DescribeGroups", 5, groups=[group])


def _subscribed(*topics: str) -> bytes:
    """A consumer's subscription, version 0, as it stands in JoinGroup."""
    import struct

    names = b"".join(struct.pack(">h", len(t.encode())) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def _member(world: World, group: str, *topics: Topic, sync: bool = True) -> tuple[str, int]:
    """Join alone, with a subscription, and sync."""
    joining: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [
            {"name": "range", "metadata": _subscribed(*(topic.name for topic in topics))}
        ],
    }
    member = world.ask("JoinGroup", 9, member_id="", **joining).member_id
    joined = world.ask("JoinGroup", 9, member_id=member, **joining)
    if sync:
        world.ask(
            "SyncGroup",
            5,
            group_id=group,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            generation_id=joined.generation_id,
            assignments=[{"member_id": member, "assignment": b"all"}],
        )
    return member, joined.generation_id


def a_commit_while_the_group_rebalances(world: World) -> None:
    topic, group = world.topic(), world.group()
    member, generation = _member(world, group, topic, sync=False)
    me: dict[str, Any] = {"member_id": member, "generation_id_or_member_epoch": generation}
    _commit(world, "before the sync", group, topic.name, 1, **me)
    world.ask(
        "SyncGroup",
        5,
        group_id=group,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        generation_id=generation,
        assignments=[{"member_id": member, "assignment": b"all"}],
    )
    second: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": _subscribed(topic.name)}],
    }
    its_id = world.ask("JoinGroup", 9, "b", member_id="", **second).member_id
    world.send("JoinGroup", 9, "b", member_id=its_id, **second)
    beat: dict[str, Any] = {"group_id": group, "member_id": member, "generation_id": generation}
    while world.ask("Heartbeat", 4, **beat).error_code == 0:
        pass
    _commit(world, "while others join", group, topic.name, 2, **me)
    _commit(
        world,
        "of one that joins",
        group,
        topic.name,
        3,
        member_id=its_id,
        generation_id_or_member_epoch=generation,
    )
    _fetch(world, "fetch", group, [(topic.name, [0])])


def offsets_are_deleted(world: World) -> None:
    topic, other, group = world.topic(), world.topic(), world.group()
    for each in (topic, other):
        _commit(world, f"commit {each.name[:-9]}", group, each.name, 1)

    def delete(label: str, group: str, *topics: str) -> None:
        world.see(
            label,
            "OffsetDelete",
            0,
            group_id=group,
            topics=[{"name": name, "partitions": [{"partition_index": 0}]} for name in topics],
        )

    delete("unknown group", world.group(), topic.name)
    delete("without members", group, topic.name)
    delete("what is not there", group, topic.name, world.name("nowhere"))
    _commit(world, "commit again", group, topic.name, 1)
    _member(world, group, topic)
    delete("while subscribed", group, topic.name, other.name)
    _fetch(world, "left", group, None)


def offsets_of_a_deleted_topic_are_gone(world: World) -> None:
    topic, group = world.topic(), world.group()
    _commit(world, "commit", group, topic.name, 1)
    world.ask("DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": topic.name}])
    asked = [{"name": topic.name, "partition_indexes": [0]}]
    for _ in range(1000):
        answer = world.ask("OffsetFetch", 8, groups=[{"group_id": group, "topics": asked}])
        if answer.groups[0].topics[0].partitions[0].committed_offset == -1:
            break
    world.note("fetch", answer)


def a_group_of_offsets_is_described_listed_and_deleted(world: World) -> None:
    topic, group = world.topic(), world.group()
    _commit(world, "commit", group, topic.name, 1)
    world.see("describe", "DescribeGroups", 5, groups=[group])
    answer = world.client.settled("ListGroups", 5)
    world.note("list", [each for each in answer.groups if each.group_id == group])
    world.see("delete", "DeleteGroups", 2, groups_names=[group])
    _fetch(world, "fetch", group, None)


def a_group_whose_last_offset_is_deleted(world: World) -> None:
    topic, group = world.topic(), world.group()
    _commit(world, "commit", group, topic.name, 1)
    world.see(
        "delete",
        "OffsetDelete",
        0,
        group_id=group,
        topics=[{"name": topic.name, "partitions": [{"partition_index": 0}]}],
    )
    world.see("describe", "DescribeGroups", 6, groups=[group])


def member_ids_in_a_fetch_of_a_classic_group(world: World) -> None:
    topic, group = world.topic(), world.group()
    asked = [(topic.name, [0])]
    _commit(world, "commit", group, topic.name, 1)
    _fetch(world, "unknown member", group, asked, member_id="m", member_epoch=1)
    _fetch(world, "empty member", group, asked, member_id="", member_epoch=-1)
    unknown = world.group()
    _fetch(world, "unknown group, member", unknown, asked, member_id="m", member_epoch=1)
