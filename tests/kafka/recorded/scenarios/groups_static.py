"""Static members of classic groups (KIP-345): they go, come back, and are fenced."""

from __future__ import annotations

from tests.kafka.recorded.classic import alone, beat, describe, joining, sync, syncing
from tests.kafka.recorded.world import World


def a_static_member_joins_at_once_and_is_recognised(world: World) -> None:
    group = world.group()
    static = {"group_instance_id": "one"}
    first = world.see("first", "JoinGroup", 9, **joining(group, **static))
    world.note(
        "sync",
        world.ask("SyncGroup", 5, **syncing(group, first, {first.member_id: b"all"}), **static),
    )
    describe(world, "stable", group)
    second = world.see("back again", "JoinGroup", 9, **joining(group, **static))
    describe(world, "after", group)
    world.note("old heartbeat", beat(world, group, first.member_id, 1, group_instance_id="one"))
    world.note("old heartbeat without instance", beat(world, group, first.member_id, 1))
    world.note(
        "new heartbeat",
        beat(world, group, second.member_id, second.generation_id, group_instance_id="one"),
    )
    world.see("old joins", "JoinGroup", 9, **joining(group, first.member_id, **static))
    world.see("old syncs", "SyncGroup", 5, **syncing(group, first), **static)
    world.see("new syncs", "SyncGroup", 5, **syncing(group, second), **static)


def static_members_that_nobody_knows(world: World) -> None:
    group, joined = alone(world)
    world.note(
        "heartbeat",
        beat(world, group, joined.member_id, joined.generation_id, group_instance_id="ghost"),
    )
    world.see(
        "join with an id", "JoinGroup", 9, **joining(group, "stranger", group_instance_id="ghost")
    )
    world.see(
        "leave",
        "LeaveGroup",
        5,
        group_id=group,
        members=[{"member_id": "", "group_instance_id": "ghost"}],
    )


def static_members_are_removed_by_instance_id(world: World) -> None:
    group = world.group()
    joined = world.ask("JoinGroup", 9, **joining(group, group_instance_id="one"))
    world.see(
        "wrong member id",
        "LeaveGroup",
        5,
        group_id=group,
        members=[{"member_id": "stranger", "group_instance_id": "one"}],
    )
    world.see(
        "two at once",
        "LeaveGroup",
        5,
        group_id=group,
        members=[
            {"member_id": "", "group_instance_id": "one"},
            {"member_id": "", "group_instance_id": "two"},
        ],
    )
    world.note("heartbeat", beat(world, group, joined.member_id, 1))
    world.see("nobody", "LeaveGroup", 5, group_id=group, members=[])


def a_static_member_returns_with_other_protocols(world: World) -> None:
    group = world.group()
    static = {"group_instance_id": "one"}
    first = world.ask("JoinGroup", 9, **joining(group, **static))
    world.ask("SyncGroup", 5, **syncing(group, first, {first.member_id: b"all"}), **static)
    changed = [{"name": "range", "metadata": b"changed"}]
    world.see("changed metadata", "JoinGroup", 9, **joining(group, protocols=changed, **static))
    describe(world, "described", group)


def a_static_member_returns_in_version_4_of_nobody(world: World) -> None:
    # Before v5 there is no group_instance_id: what is asked for is an ordinary member.
    group = world.group()
    world.ask("JoinGroup", 9, **joining(group, group_instance_id="one"))
    world.see("v4", "JoinGroup", 4, "b", **joining(group))


def a_static_follower_that_returns_causes_no_rebalance(world: World) -> None:
    group = world.group()
    first = world.ask("JoinGroup", 9, **joining(group, group_instance_id="one"))
    sync(world, group, first, {first.member_id: b"all"})
    later = world.send("JoinGroup", 9, "b", **joining(group, group_instance_id="two"))
    while beat(world, group, first.member_id, 1).error_code == 0:
        pass
    first = world.ask("JoinGroup", 9, **joining(group, first.member_id, group_instance_id="one"))
    second = later.answer()
    sync_later = world.send("SyncGroup", 5, "b", **syncing(group, second))
    sync(world, group, first, {first.member_id: b"1", second.member_id: b"2"})
    sync_later.answer()
    back = world.see("back", "JoinGroup", 9, "b", **joining(group, group_instance_id="two"))
    world.note("sync", sync(world, group, back, {}, "b"))
    world.note("the leader's heartbeat", beat(world, group, first.member_id, 2))
    describe(world, "described", group)


def a_waiting_static_member_is_fenced_by_its_successor(world: World) -> None:
    group, _ = alone(world)
    static = {"group_instance_id": "one"}
    waiting = world.send("JoinGroup", 9, "b", **joining(group, **static))
    world.note("waits", waiting.answer(0.2))
    world.send("JoinGroup", 9, "c", **joining(group, **static))
    world.note("is fenced", waiting.answer())
