"""Classic groups: join, sync, heartbeat, leave, in every order."""

from __future__ import annotations

from typing import Any

from tests.reality.world import World

_RANGE = [{"name": "range", "metadata": b"r"}]


def _joining(group: str, member_id: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": _RANGE,
        **fields,
    }


def _new_id(world: World, group: str, on: str = "main") -> str:
    """A member id as MEMBER_ID_REQUIRED gives it."""
    return str(world.ask("JoinGroup", 9, on, **_joining(group)).member_id)


def _join(world: World, group: str, on: str = "main", **fields: Any) -> Any:
    member_id = fields.pop("member_id", None) or _new_id(world, group, on)
    return world.ask("JoinGroup", 9, on, **_joining(group, member_id, **fields))


def _sync(world: World, group: str, joined: Any, assigned: dict[str, bytes], on: str = "main") -> Any:
    return world.ask("SyncGroup", 5, on, **_syncing(group, joined, assigned))


def _syncing(group: str, joined: Any, assigned: dict[str, bytes] | None = None) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [
            {"member_id": m, "assignment": a} for m, a in (assigned or {}).items()
        ],
    }


def _alone(world: World) -> tuple[str, Any]:
    """A stable group of one."""
    group = world.group()
    joined = _join(world, group)
    _sync(world, group, joined, {joined.member_id: b"all"})
    return group, joined


def _beat(world: World, group: str, member_id: str, generation: int, on: str = "main", **f: Any) -> Any:
    return world.ask(
        "Heartbeat", 4, on, group_id=group, member_id=member_id, generation_id=generation, **f
    )


def _describe(world: World, label: str, group: str) -> None:
    world.see(label, "DescribeGroups", 5, groups=[group])


def a_member_joins_syncs_beats_and_leaves(world: World) -> None:
    group = world.group()
    required = world.see("first join", "JoinGroup", 9, **_joining(group))
    joined = world.see("second join", "JoinGroup", 9, **_joining(group, required.member_id))
    _describe(world, "before sync", group)
    world.note("sync", _sync(world, group, joined, {joined.member_id: b"all"}))
    _describe(world, "stable", group)
    world.note("heartbeat", _beat(world, group, joined.member_id, joined.generation_id))
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    _describe(world, "after", group)


def before_v4_nobody_needs_a_member_id_to_join(world: World) -> None:
    for version in range(4):
        joined = world.see(f"v{version}", "JoinGroup", version, **_joining(world.group()))
        assert joined.member_id


def all_versions_of_join_and_sync_and_heartbeat_and_leave(world: World) -> None:
    for version in range(4, 10):
        group = world.group()
        joined = world.ask("JoinGroup", version, **_joining(group, _new_id(world, group)))
        world.note(f"join v{version}", joined)
    syncing = _syncing(group, joined, {joined.member_id: b"all"})
    for version in range(6):
        world.see(f"sync v{version}", "SyncGroup", version, **syncing)
    beating = {k: syncing[k] for k in ("group_id", "generation_id", "member_id")}
    for version in range(5):
        world.see(f"heartbeat v{version}", "Heartbeat", version, **beating)
    for version in range(6):
        world.see(f"leave v{version}", "LeaveGroup", version, group_id=group,
            member_id=joined.member_id, members=[{"member_id": joined.member_id}])  # fmt: skip


def the_second_member_waits_for_the_first_to_rejoin(world: World) -> None:
    group, first = _alone(world)
    second_id = _new_id(world, group, "b")
    second = world.send("JoinGroup", 9, "b", **_joining(group, second_id))
    world.note("second waits", second.answer(0.3))
    world.note("first's heartbeat", _beat(world, group, first.member_id, first.generation_id))
    _describe(world, "rebalancing", group)
    first = world.see("first rejoins", "JoinGroup", 9, **_joining(group, first.member_id))
    follower = world.note("second joined", second.answer())
    syncing = world.send("SyncGroup", 5, "b", **_syncing(group, follower))
    world.note("second's sync waits", syncing.answer(0.2))
    world.note("heartbeat while syncing", _beat(world, group, first.member_id, first.generation_id))
    assigned = {first.member_id: b"one", follower.member_id: b"two"}
    world.note("leader's sync", _sync(world, group, first, assigned))
    world.note("second's sync", syncing.answer())
    _describe(world, "stable", group)


def a_member_that_leaves_starts_a_rebalance(world: World) -> None:
    group, first, second = _pair(world)
    world.see("leave", "LeaveGroup", 5, "b", group_id=group, members=[
        {"member_id": second.member_id, "reason": "done"}
    ])
    world.note("first's heartbeat", _beat(world, group, first.member_id, first.generation_id))
    world.note("second's heartbeat", _beat(world, group, second.member_id, second.generation_id))
    world.see("first rejoins", "JoinGroup", 9, **_joining(group, first.member_id))


def _pair(world: World) -> tuple[str, Any, Any]:
    """A stable group of two: the leader, and its follower on connection "b"."""
    group, first = _alone(world)
    later = world.send("JoinGroup", 9, "b", **_joining(group, _new_id(world, group, "b")))
    while _beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    first = _join(world, group, member_id=first.member_id)
    second = later.answer()
    syncing = world.send("SyncGroup", 5, "b", **_syncing(group, second))
    _sync(world, group, first, {first.member_id: b"one", second.member_id: b"two"})
    syncing.answer()
    return group, first, second


def the_leader_that_leaves_while_all_join_is_replaced(world: World) -> None:
    group, first, second = _pair(world)
    later = world.send("JoinGroup", 9, "b", **_joining(group, second.member_id))
    world.note("a follower with unchanged metadata", later.answer())
    later = world.send("JoinGroup", 9, **_joining(group, first.member_id))
    world.note("the leader's join waits", later.answer(0.2))
    world.see("the other leaves", "LeaveGroup", 5, "b", group_id=group, members=[
        {"member_id": second.member_id}
    ])
    world.note("the leader joined", later.answer())


def a_follower_that_joins_again_unchanged_gets_its_generation_back(world: World) -> None:
    group, _, second = _pair(world)
    world.see("unchanged", "JoinGroup", 9, "b", **_joining(group, second.member_id))
    changed = [{"name": "range", "metadata": b"other"}]
    later = world.send("JoinGroup", 9, "b", **_joining(group, second.member_id, protocols=changed))
    world.note("changed", later.answer(0.2))


def a_leader_that_joins_again_always_rebalances(world: World) -> None:
    group, joined = _alone(world)
    world.see("again", "JoinGroup", 9, **_joining(group, joined.member_id))
    _describe(world, "after", group)


def a_member_that_joins_again_before_the_sync_gets_the_same_generation(world: World) -> None:
    group = world.group()
    joined = _join(world, group)
    world.see("again", "JoinGroup", 9, **_joining(group, joined.member_id))
    world.see("changed", "JoinGroup", 9, **_joining(
        group, joined.member_id, protocols=[{"name": "range", "metadata": b"x"}]
    ))


def unknown_members_and_generations_are_refused(world: World) -> None:
    group, joined = _alone(world)
    me, generation = joined.member_id, joined.generation_id
    world.see("join", "JoinGroup", 9, **_joining(group, "stranger"))
    world.note("heartbeat", _beat(world, group, "stranger", generation))
    world.note("heartbeat without member id", _beat(world, group, "", generation))
    world.note("heartbeat, older generation", _beat(world, group, me, generation - 1))
    world.note("heartbeat, newer generation", _beat(world, group, me, generation + 1))
    world.note("heartbeat, generation -1", _beat(world, group, me, -1))
    sync = _syncing(group, joined)
    world.see("sync, older generation", "SyncGroup", 5, **{**sync, "generation_id": 0})
    world.see("sync, stranger", "SyncGroup", 5, **{**sync, "member_id": "stranger"})
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": "stranger"}])
    world.see("leave v2", "LeaveGroup", 2, group_id=group, member_id="stranger")


def a_group_that_nobody_knows(world: World) -> None:
    group = world.group()
    world.see("join with an id", "JoinGroup", 9, **_joining(group, "stranger"))
    world.note("heartbeat", _beat(world, group, "stranger", 1))
    world.see("sync", "SyncGroup", 5, group_id=group, generation_id=1, member_id="stranger")
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": "stranger"}])
    world.see("leave v2", "LeaveGroup", 2, group_id=group, member_id="stranger")
    for version in range(7):
        world.see(f"describe v{version}", "DescribeGroups", version, groups=[group])
    world.see("delete", "DeleteGroups", 2, groups_names=[group])


def an_empty_group_id_is_invalid(world: World) -> None:
    # Offsets may be committed to it, and another scenario does that.
    world.ask("DeleteGroups", 2, groups_names=[""])
    world.see("join", "JoinGroup", 9, **_joining(""))
    world.note("heartbeat", _beat(world, "", "m", 1))
    world.see("sync", "SyncGroup", 5, group_id="", generation_id=1, member_id="m")
    world.see("leave", "LeaveGroup", 5, group_id="", members=[{"member_id": "m"}])
    world.see("describe", "DescribeGroups", 5, groups=[""])
    world.see("delete", "DeleteGroups", 2, groups_names=[""])


def timeouts_outside_the_brokers_limits_are_invalid(world: World) -> None:
    group = world.group()
    for timeout in (499, 1_800_001, 0, -1):
        world.see(f"{timeout} ms", "JoinGroup", 9, **_joining(group, session_timeout_ms=timeout))
    world.see("500 ms", "JoinGroup", 9, **_joining(group, session_timeout_ms=500))


def protocols_must_be_named_and_agree(world: World) -> None:
    group = world.group()
    world.see("none", "JoinGroup", 9, **_joining(group, protocols=[]))
    world.see("no type", "JoinGroup", 9, **_joining(group, protocol_type=""))
    joined = _join(world, group)
    other = [{"name": "sticky", "metadata": b""}]
    world.see("nothing in common", "JoinGroup", 9, "b", **_joining(group, protocols=other))
    world.see("other type", "JoinGroup", 9, "b", **_joining(group, protocol_type="connect"))
    sync = _syncing(group, joined, {joined.member_id: b"x"})
    world.see("sync, wrong type", "SyncGroup", 5, **{**sync, "protocol_type": "connect"})
    world.see("sync, wrong name", "SyncGroup", 5, **{**sync, "protocol_name": "sticky"})
    world.see("sync, not named", "SyncGroup", 5, **{**sync, "protocol_name": None,
        "protocol_type": None})  # fmt: skip


def members_vote_for_the_protocol(world: World) -> None:
    group = world.group()
    mine = [{"name": "a", "metadata": b"1"}, {"name": "b", "metadata": b"2"}]
    first = _join(world, group, protocols=mine)
    world.note("first", first)
    theirs = [{"name": "b", "metadata": b"3"}, {"name": "a", "metadata": b"4"}]
    later = world.send("JoinGroup", 9, "b", **_joining(
        group, _new_id_with(world, group, "b", theirs), protocols=theirs
    ))
    world.note("waits", later.answer(0.2))
    only = [{"name": "b", "metadata": b"5"}]
    world.see("first again, b only", "JoinGroup", 9, **_joining(
        group, first.member_id, protocols=only
    ))
    world.note("second", later.answer())


def _new_id_with(world: World, group: str, on: str, protocols: list[dict[str, Any]]) -> str:
    return str(world.ask("JoinGroup", 9, on, **_joining(group, protocols=protocols)).member_id)


def a_static_member_joins_at_once_and_is_recognised(world: World) -> None:
    group = world.group()
    static = {"group_instance_id": "one"}
    first = world.see("first", "JoinGroup", 9, **_joining(group, **static))
    world.note("sync", world.ask("SyncGroup", 5, **_syncing(
        group, first, {first.member_id: b"all"}), **static))
    _describe(world, "stable", group)
    second = world.see("back again", "JoinGroup", 9, **_joining(group, **static))
    _describe(world, "after", group)
    world.note("old heartbeat", _beat(world, group, first.member_id, 1, group_instance_id="one"))
    world.note("old heartbeat without instance", _beat(world, group, first.member_id, 1))
    world.note("new heartbeat", _beat(
        world, group, second.member_id, second.generation_id, group_instance_id="one"
    ))
    world.see("old joins", "JoinGroup", 9, **_joining(group, first.member_id, **static))
    world.see("old syncs", "SyncGroup", 5, **_syncing(group, first), **static)
    world.see("new syncs", "SyncGroup", 5, **_syncing(group, second), **static)


def static_members_that_nobody_knows(world: World) -> None:
    group, joined = _alone(world)
    world.note("heartbeat", _beat(
        world, group, joined.member_id, joined.generation_id, group_instance_id="ghost"
    ))
    world.see("join with an id", "JoinGroup", 9, **_joining(
        group, "stranger", group_instance_id="ghost"
    ))
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[
        {"member_id": "", "group_instance_id": "ghost"}
    ])


def static_members_are_removed_by_instance_id(world: World) -> None:
    group = world.group()
    joined = world.ask("JoinGroup", 9, **_joining(group, group_instance_id="one"))
    world.see("wrong member id", "LeaveGroup", 5, group_id=group, members=[
        {"member_id": "stranger", "group_instance_id": "one"}
    ])
    world.see("two at once", "LeaveGroup", 5, group_id=group, members=[
        {"member_id": "", "group_instance_id": "one"},
        {"member_id": "", "group_instance_id": "two"},
    ])
    world.note("heartbeat", _beat(world, group, joined.member_id, 1))
    world.see("nobody", "LeaveGroup", 5, group_id=group, members=[])


def members_are_described_and_groups_listed_in_each_state(world: World) -> None:
    group = world.group()
    pending = _new_id(world, group)
    _list(world, "a member id was given out", group)
    _describe(world, "a member id was given out (described)", group)
    joined = _join(world, group, member_id=pending)
    _list(world, "joined", group)
    _sync(world, group, joined, {joined.member_id: b"all"})
    _list(world, "synced", group)
    world.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    _list(world, "left", group)


def _list(world: World, label: str, group: str, version: int = 5, **fields: Any) -> None:
    answer = world.ask("ListGroups", version, **fields)
    answer.groups = [each for each in answer.groups if each.group_id == group]
    world.note(label, answer)


def groups_are_listed_by_state_and_type(world: World) -> None:
    group, _ = _alone(world)
    for version in range(6):
        _list(world, f"v{version}", group, version)
    _list(world, "Stable", group, states_filter=["Stable"])
    _list(world, "lower case", group, states_filter=["stable"])
    _list(world, "Empty", group, states_filter=["Empty"])
    _list(world, "two states", group, states_filter=["Empty", "Stable"])
    _list(world, "no such state", group, states_filter=["Happy"])
    _list(world, "classic", group, types_filter=["classic"])
    _list(world, "Classic", group, types_filter=["Classic"])
    _list(world, "consumer", group, types_filter=["consumer"])
    _list(world, "no such type", group, types_filter=["other"])


def groups_are_deleted_when_empty(world: World) -> None:
    group, joined = _alone(world)
    unknown = world.group()
    world.see("not empty", "DeleteGroups", 2, groups_names=[group, unknown])
    world.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    _describe(world, "empty", group)
    world.see("empty (delete)", "DeleteGroups", 2, groups_names=[group])
    _describe(world, "deleted", group)
    world.see("deleted twice", "DeleteGroups", 2, groups_names=[group])


def the_generation_goes_on_after_all_have_left(world: World) -> None:
    group, joined = _alone(world)
    world.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    world.note("joined again", _join(world, group))


def several_groups_are_described_at_once(world: World) -> None:
    group, _ = _alone(world)
    world.see("describe", "DescribeGroups", 6, groups=[group, world.group()],
        include_authorized_operations=True)  # fmt: skip


def a_sync_of_the_leader_without_assignments(world: World) -> None:
    group = world.group()
    joined = _join(world, group)
    world.note("sync", _sync(world, group, joined, {}))
    world.note("sync again, with assignments", _sync(world, group, joined, {joined.member_id: b"x"}))
    _describe(world, "after", group)


def a_sync_of_the_leader_for_strangers(world: World) -> None:
    group = world.group()
    joined = _join(world, group)
    world.note("sync", _sync(world, group, joined, {"stranger": b"x", joined.member_id: b"y"}))
    _describe(world, "after", group)


def a_sync_while_others_join(world: World) -> None:
    group, first = _alone(world)
    world.send("JoinGroup", 9, "b", **_joining(group, _new_id(world, group, "b")))
    while _beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    world.note("sync", _sync(world, group, first, {}))


def a_follower_that_waits_for_its_sync_is_told_of_a_new_rebalance(world: World) -> None:
    group, first = _alone(world)
    later = world.send("JoinGroup", 9, "b", **_joining(group, _new_id(world, group, "b")))
    while _beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    first = _join(world, group, member_id=first.member_id)
    second = later.answer()
    syncing = world.send("SyncGroup", 5, "b", **_syncing(group, second))
    world.note("waits", syncing.answer(0.2))
    joining = world.send("JoinGroup", 9, **_joining(
        group, first.member_id, protocols=[{"name": "range", "metadata": b"new"}]
    ))
    world.note("second's sync", syncing.answer())
    world.note("first's join waits", joining.answer(0.2))
    world.see("second rejoins", "JoinGroup", 9, "b", **_joining(group, second.member_id))
    world.note("first joined", joining.answer())


def a_leave_answers_a_waiting_join_of_the_same_member(world: World) -> None:
    group, _ = _alone(world)
    second_id = _new_id(world, group, "b")
    joining = world.send("JoinGroup", 9, "b", **_joining(group, second_id))
    joining.answer(0.1)
    world.see("leave", "LeaveGroup", 5, "c", group_id=group, members=[{"member_id": second_id}])
    world.note("its join", joining.answer(1.0))


def a_member_id_that_was_given_out_may_leave_before_it_joins(world: World) -> None:
    group = world.group()
    pending = _new_id(world, group)
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": pending}])
    world.see("join", "JoinGroup", 9, **_joining(group, pending))
    pending = _new_id(world, group)
    world.note("heartbeat", _beat(world, group, pending, 0))
    world.see("sync", "SyncGroup", 5, group_id=group, generation_id=0, member_id=pending,
        protocol_type="consumer", protocol_name="range")  # fmt: skip


def a_member_that_does_not_rejoin_is_left_behind(world: World) -> None:
    group = world.group()
    quick = {"rebalance_timeout_ms": 500}
    first = _join(world, group, **quick)
    _sync(world, group, first, {first.member_id: b"all"})
    second_id = _new_id(world, group, "b")
    world.note("second joined", world.ask("JoinGroup", 9, "b", **_joining(
        group, second_id, **quick
    )))
    world.note("first's heartbeat", _beat(world, group, first.member_id, first.generation_id))


def a_member_whose_session_expires_is_removed(world: World) -> None:
    group = world.group()
    joined = _join(world, group, session_timeout_ms=500)
    _sync(world, group, joined, {joined.member_id: b"all"})
    second_id = _new_id(world, group, "b")
    joining = world.send("JoinGroup", 9, "b", **_joining(group, second_id))
    world.note("second joined", joining.answer(5.0))
