"""Classic groups: join, sync, heartbeat, leave, in every order."""

from __future__ import annotations

import time
from typing import Any, Final

from tests.kafka.recorded.classic import (
    alone,
    beat,
    describe,
    join,
    joining,
    new_id,
    pair,
    sync,
    syncing,
)
from tests.kafka.recorded.client import SETTLE_TIMEOUT_S
from tests.kafka.recorded.world import World

_PAUSE_S: Final = 0.02


def a_member_joins_syncs_beats_and_leaves(world: World) -> None:
    group = world.group()
    required = world.see("first join", "JoinGroup", 9, **joining(group))
    joined = world.see("second join", "JoinGroup", 9, **joining(group, required.member_id))
    describe(world, "before sync", group)
    world.note("sync", sync(world, group, joined, {joined.member_id: b"all"}))
    describe(world, "stable", group)
    world.note("heartbeat", beat(world, group, joined.member_id, joined.generation_id))
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    describe(world, "after", group)


def before_v4_nobody_needs_a_member_id_to_join(world: World) -> None:
    for version in range(4):
        joined = world.see(f"v{version}", "JoinGroup", version, **joining(world.group()))
        assert joined.member_id


def all_versions_of_join_and_sync_and_heartbeat_and_leave(world: World) -> None:
    for version in range(4, 10):
        group = world.group()
        joined = world.ask("JoinGroup", version, **joining(group, new_id(world, group)))
        world.note(f"join v{version}", joined)
    said = syncing(group, joined, {joined.member_id: b"all"})
    for version in range(6):
        world.see(f"sync v{version}", "SyncGroup", version, **said)
    beating = {k: said[k] for k in ("group_id", "generation_id", "member_id")}
    for version in range(5):
        world.see(f"heartbeat v{version}", "Heartbeat", version, **beating)
    for version in range(6):
        world.see(
            f"leave v{version}",
            "LeaveGroup",
            version,
            group_id=group,
            member_id=joined.member_id,
            members=[{"member_id": joined.member_id}],
        )


def the_second_member_waits_for_the_first_to_rejoin(world: World) -> None:
    group, first = alone(world)
    second_id = new_id(world, group, "b")
    second = world.send("JoinGroup", 9, "b", **joining(group, second_id))
    world.note("second waits", second.answer(0.3))
    world.note("first's heartbeat", beat(world, group, first.member_id, first.generation_id))
    describe(world, "rebalancing", group)
    first = world.see("first rejoins", "JoinGroup", 9, **joining(group, first.member_id))
    follower = world.note("second joined", second.answer())
    sync_later = world.send("SyncGroup", 5, "b", **syncing(group, follower))
    world.note("second's sync waits", sync_later.answer(0.2))
    world.note("heartbeat while syncing", beat(world, group, first.member_id, first.generation_id))
    assigned = {first.member_id: b"one", follower.member_id: b"two"}
    world.note("leader's sync", sync(world, group, first, assigned))
    world.note("second's sync", sync_later.answer())
    describe(world, "stable", group)


def a_member_that_leaves_starts_a_rebalance(world: World) -> None:
    group, first, second = pair(world)
    world.see(
        "leave",
        "LeaveGroup",
        5,
        "b",
        group_id=group,
        members=[{"member_id": second.member_id, "reason": "done"}],
    )
    world.note("first's heartbeat", beat(world, group, first.member_id, first.generation_id))
    world.note("second's heartbeat", beat(world, group, second.member_id, second.generation_id))
    world.see("first rejoins", "JoinGroup", 9, **joining(group, first.member_id))


def the_leader_that_leaves_while_all_join_is_replaced(world: World) -> None:
    group, first, second = pair(world)
    later = world.send("JoinGroup", 9, "b", **joining(group, second.member_id))
    world.note("a follower with unchanged metadata", later.answer())
    later = world.send("JoinGroup", 9, **joining(group, first.member_id))
    world.note("the leader's join waits", later.answer(0.2))
    world.see(
        "the other leaves",
        "LeaveGroup",
        5,
        "b",
        group_id=group,
        members=[{"member_id": second.member_id}],
    )
    world.note("the leader joined", later.answer())


def a_follower_that_joins_again_unchanged_gets_its_generation_back(world: World) -> None:
    group, _, second = pair(world)
    world.see("unchanged", "JoinGroup", 9, "b", **joining(group, second.member_id))
    changed = [{"name": "range", "metadata": b"other"}]
    later = world.send("JoinGroup", 9, "b", **joining(group, second.member_id, protocols=changed))
    world.note("changed", later.answer(0.2))


def a_leader_that_joins_again_always_rebalances(world: World) -> None:
    group, joined = alone(world)
    world.see("again", "JoinGroup", 9, **joining(group, joined.member_id))
    describe(world, "after", group)


def a_member_that_joins_again_before_the_sync_gets_the_same_generation(world: World) -> None:
    group = world.group()
    joined = join(world, group)
    world.see("again", "JoinGroup", 9, **joining(group, joined.member_id))
    world.see(
        "changed",
        "JoinGroup",
        9,
        **joining(group, joined.member_id, protocols=[{"name": "range", "metadata": b"x"}]),
    )


def unknown_members_and_generations_are_refused(world: World) -> None:
    group, joined = alone(world)
    me, generation = joined.member_id, joined.generation_id
    world.see("join", "JoinGroup", 9, **joining(group, "stranger"))
    world.note("heartbeat", beat(world, group, "stranger", generation))
    world.note("heartbeat without member id", beat(world, group, "", generation))
    world.note("heartbeat, older generation", beat(world, group, me, generation - 1))
    world.note("heartbeat, newer generation", beat(world, group, me, generation + 1))
    world.note("heartbeat, generation -1", beat(world, group, me, -1))
    said = syncing(group, joined)
    world.see("sync, older generation", "SyncGroup", 5, **{**said, "generation_id": 0})
    world.see("sync, stranger", "SyncGroup", 5, **{**said, "member_id": "stranger"})
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": "stranger"}])
    world.see("leave v2", "LeaveGroup", 2, group_id=group, member_id="stranger")


def a_group_that_nobody_knows(world: World) -> None:
    group = world.group()
    world.see("join with an id", "JoinGroup", 9, **joining(group, "stranger"))
    world.note("heartbeat", beat(world, group, "stranger", 1))
    world.see("sync", "SyncGroup", 5, group_id=group, generation_id=1, member_id="stranger")
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": "stranger"}])
    world.see("leave v2", "LeaveGroup", 2, group_id=group, member_id="stranger")
    for version in range(7):
        world.see(f"describe v{version}", "DescribeGroups", version, groups=[group])
    world.see("delete", "DeleteGroups", 2, groups_names=[group])


def an_empty_group_id_is_invalid(world: World) -> None:
    # Offsets may be committed to it, and another scenario does that.
    world.ask("DeleteGroups", 2, groups_names=[""])
    world.see("join", "JoinGroup", 9, **joining(""))
    world.note("heartbeat", beat(world, "", "m", 1))
    world.see("sync", "SyncGroup", 5, group_id="", generation_id=1, member_id="m")
    world.see("leave", "LeaveGroup", 5, group_id="", members=[{"member_id": "m"}])
    world.see("describe", "DescribeGroups", 5, groups=[""])
    world.see("delete", "DeleteGroups", 2, groups_names=[""])


def timeouts_outside_the_brokers_limits_are_invalid(world: World) -> None:
    group = world.group()
    for timeout in (499, 1_800_001, 0, -1):
        world.see(f"{timeout} ms", "JoinGroup", 9, **joining(group, session_timeout_ms=timeout))
    world.see("500 ms", "JoinGroup", 9, **joining(group, session_timeout_ms=500))


def protocols_must_be_named_and_agree(world: World) -> None:
    group = world.group()
    world.see("none", "JoinGroup", 9, **joining(group, protocols=[]))
    world.see("no type", "JoinGroup", 9, **joining(group, protocol_type=""))
    joined = join(world, group)
    other = [{"name": "sticky", "metadata": b""}]
    world.see("nothing in common", "JoinGroup", 9, "b", **joining(group, protocols=other))
    world.see("other type", "JoinGroup", 9, "b", **joining(group, protocol_type="connect"))
    said = syncing(group, joined, {joined.member_id: b"x"})
    world.see("sync, wrong type", "SyncGroup", 5, **{**said, "protocol_type": "connect"})
    world.see("sync, wrong name", "SyncGroup", 5, **{**said, "protocol_name": "sticky"})
    world.see(
        "sync, not named", "SyncGroup", 5, **{**said, "protocol_name": None, "protocol_type": None}
    )


def members_vote_for_the_protocol(world: World) -> None:
    group = world.group()
    mine = [{"name": "a", "metadata": b"1"}, {"name": "b", "metadata": b"2"}]
    first = join(world, group, protocols=mine)
    world.note("first", first)
    theirs = [{"name": "b", "metadata": b"3"}, {"name": "a", "metadata": b"4"}]
    later = world.send(
        "JoinGroup",
        9,
        "b",
        **joining(group, _new_id_with(world, group, "b", theirs), protocols=theirs),
    )
    world.note("waits", later.answer(0.2))
    only = [{"name": "b", "metadata": b"5"}]
    world.see(
        "first again, b only", "JoinGroup", 9, **joining(group, first.member_id, protocols=only)
    )
    world.note("second", later.answer())


def _new_id_with(world: World, group: str, on: str, protocols: list[dict[str, Any]]) -> str:
    return str(world.ask("JoinGroup", 9, on, **joining(group, protocols=protocols)).member_id)


def members_are_described_and_groups_listed_in_each_state(world: World) -> None:
    group = world.group()
    pending = new_id(world, group)
    _wait_until_listed(world, group)
    _list(world, "a member id was given out", group)
    describe(world, "a member id was given out (described)", group)
    joined = join(world, group, member_id=pending)
    _list(world, "joined", group)
    sync(world, group, joined, {joined.member_id: b"all"})
    _list(world, "synced", group)
    world.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    _list(world, "left", group)


def _list(world: World, label: str, group: str, version: int = 5, **fields: Any) -> None:
    answer = world.client.settled("ListGroups", version, **fields)
    answer.groups = [each for each in answer.groups if each.group_id == group]
    world.note(label, answer)


def _wait_until_listed(world: World, group: str) -> None:
    """Kafka lists a group when its first record is written: a member id is given out before."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline:
        answer = world.client.settled("ListGroups", 5)
        if any(each.group_id == group for each in answer.groups):
            return
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"group {group} was never listed")


def groups_are_listed_by_state_and_type(world: World) -> None:
    group, _ = alone(world)
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
    group, joined = alone(world)
    unknown = world.group()
    world.see("not empty", "DeleteGroups", 2, groups_names=[group, unknown])
    world.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    describe(world, "empty", group)
    world.see("empty (delete)", "DeleteGroups", 2, groups_names=[group])
    describe(world, "deleted", group)
    world.see("deleted twice", "DeleteGroups", 2, groups_names=[group])


def the_generation_goes_on_after_all_have_left(world: World) -> None:
    group, joined = alone(world)
    world.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": joined.member_id}])
    world.note("joined again", join(world, group))


def several_groups_are_described_at_once(world: World) -> None:
    group, _ = alone(world)
    world.see(
        "describe",
        "DescribeGroups",
        6,
        groups=[group, world.group()],
        include_authorized_operations=True,
    )


def a_sync_of_the_leader_without_assignments(world: World) -> None:
    group = world.group()
    joined = join(world, group)
    world.note("sync", sync(world, group, joined, {}))
    world.note("sync again, with assignments", sync(world, group, joined, {joined.member_id: b"x"}))
    describe(world, "after", group)


def a_sync_of_the_leader_for_strangers(world: World) -> None:
    group = world.group()
    joined = join(world, group)
    world.note("sync", sync(world, group, joined, {"stranger": b"x", joined.member_id: b"y"}))
    describe(world, "after", group)


def a_sync_while_others_join(world: World) -> None:
    group, first = alone(world)
    world.send("JoinGroup", 9, "b", **joining(group, new_id(world, group, "b")))
    while beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    world.note("sync", sync(world, group, first, {}))


def a_follower_that_waits_for_its_sync_is_told_of_a_new_rebalance(world: World) -> None:
    group, first = alone(world)
    later = world.send("JoinGroup", 9, "b", **joining(group, new_id(world, group, "b")))
    while beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    first = join(world, group, member_id=first.member_id)
    second = later.answer()
    sync_later = world.send("SyncGroup", 5, "b", **syncing(group, second))
    world.note("waits", sync_later.answer(0.2))
    join_later = world.send(
        "JoinGroup",
        9,
        **joining(group, first.member_id, protocols=[{"name": "range", "metadata": b"new"}]),
    )
    world.note("second's sync", sync_later.answer())
    world.note("first's join waits", join_later.answer(0.2))
    world.see("second rejoins", "JoinGroup", 9, "b", **joining(group, second.member_id))
    world.note("first joined", join_later.answer())


def a_leave_answers_a_waiting_join_of_the_same_member(world: World) -> None:
    group, _ = alone(world)
    second_id = new_id(world, group, "b")
    join_later = world.send("JoinGroup", 9, "b", **joining(group, second_id))
    join_later.answer(0.1)
    world.see("leave", "LeaveGroup", 5, "c", group_id=group, members=[{"member_id": second_id}])
    world.note("its join", join_later.answer())


def a_member_id_that_was_given_out_may_leave_before_it_joins(world: World) -> None:
    group = world.group()
    pending = new_id(world, group)
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": pending}])
    world.see("join", "JoinGroup", 9, **joining(group, pending))
    pending = new_id(world, group)
    world.note("heartbeat", beat(world, group, pending, 0))
    world.see(
        "sync",
        "SyncGroup",
        5,
        group_id=group,
        generation_id=0,
        member_id=pending,
        protocol_type="consumer",
        protocol_name="range",
    )


def a_member_that_does_not_rejoin_is_left_behind(world: World) -> None:
    group = world.group()
    quick: dict[str, Any] = {"rebalance_timeout_ms": 500}
    first = join(world, group, **quick)
    sync(world, group, first, {first.member_id: b"all"})
    second_id = new_id(world, group, "b")
    world.note(
        "second joined", world.ask("JoinGroup", 9, "b", **joining(group, second_id, **quick))
    )
    world.note("first's heartbeat", beat(world, group, first.member_id, first.generation_id))


def a_member_whose_session_expires_is_removed(world: World) -> None:
    group = world.group()
    joined = join(world, group, session_timeout_ms=500)
    sync(world, group, joined, {joined.member_id: b"all"})
    second_id = new_id(world, group, "b")
    join_later = world.send("JoinGroup", 9, "b", **joining(group, second_id))
    world.note("second joined", join_later.answer())


def the_leader_leaves_before_its_sync(world: World) -> None:
    group, first = alone(world)
    later = world.send("JoinGroup", 9, "b", **joining(group, new_id(world, group, "b")))
    while beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    first = join(world, group, member_id=first.member_id)
    second = later.answer()
    sync_later = world.send("SyncGroup", 5, "b", **syncing(group, second))
    world.note("the follower's sync waits", sync_later.answer(0.2))
    world.see("leave", "LeaveGroup", 5, group_id=group, members=[{"member_id": first.member_id}])
    world.note("the follower's sync", sync_later.answer())
    world.see("the follower joins", "JoinGroup", 9, "b", **joining(group, second.member_id))


def a_member_that_never_syncs_is_removed(world: World) -> None:
    group = world.group()
    quick: dict[str, Any] = {"rebalance_timeout_ms": 500}
    joined = join(world, group, **quick)
    for _ in range(20_000):
        answer = beat(world, group, joined.member_id, joined.generation_id)
        if answer.error_code:
            break
    world.note("then", answer)
    describe(world, "described", group)


def a_heartbeat_of_each_version_while_others_join(world: World) -> None:
    group, first = alone(world)
    world.send("JoinGroup", 9, "b", **joining(group, new_id(world, group, "b")))
    while beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    beating: dict[str, Any] = {"group_id": group, "member_id": first.member_id, "generation_id": 1}
    for version in range(5):
        world.see(f"v{version}", "Heartbeat", version, **beating)


def joins_of_old_versions_wait_for_the_session_timeout(world: World) -> None:
    # Version 0 has no rebalance timeout of its own.
    group = world.group()
    joined = world.see("join v0", "JoinGroup", 0, **joining(group, session_timeout_ms=600))
    sync(world, group, joined, {joined.member_id: b"all"})
    world.see(
        "another is joined when time is up",
        "JoinGroup",
        0,
        "b",
        **joining(group, session_timeout_ms=600),
    )
