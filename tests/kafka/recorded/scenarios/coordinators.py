"""FindCoordinator: who coordinates groups and transactions."""

from __future__ import annotations

from tests.kafka.recorded.world import World


def all_versions_find_the_coordinator_of_a_group(world: World) -> None:
    group = world.group()
    for version in range(4):
        world.see(f"v{version}", "FindCoordinator", version, key=group, key_type=0)
    for version in (4, 5, 6):
        world.see(f"v{version}", "FindCoordinator", version, key_type=0, coordinator_keys=[group])


def all_versions_find_the_coordinator_of_a_transaction(world: World) -> None:
    name = world.transactional_id()
    for version in (1, 2, 3):
        world.see(f"v{version}", "FindCoordinator", version, key=name, key_type=1)
    for version in (4, 5, 6):
        world.see(f"v{version}", "FindCoordinator", version, key_type=1, coordinator_keys=[name])


def several_keys_at_once(world: World) -> None:
    group = world.group()
    world.see(
        "keys", "FindCoordinator", 4, key_type=0, coordinator_keys=[group, world.group(), group]
    )
    world.see("no keys", "FindCoordinator", 4, key_type=0, coordinator_keys=[])


def keys_and_types_that_make_no_sense(world: World) -> None:
    world.group()
    world.transactional_id()
    world.see("empty group v3", "FindCoordinator", 3, key="", key_type=0)
    world.see("empty group v4", "FindCoordinator", 4, key_type=0, coordinator_keys=[""])
    world.see("empty transaction", "FindCoordinator", 4, key_type=1, coordinator_keys=[""])
    world.see("type 7 v3", "FindCoordinator", 3, "a", key="x", key_type=7)
    world.see("type 7 v4", "FindCoordinator", 4, "b", key_type=7, coordinator_keys=["x"])
    world.see("type -1", "FindCoordinator", 4, "c", key_type=-1, coordinator_keys=["x"])
    world.see("share v5", "FindCoordinator", 5, "d", key_type=2, coordinator_keys=["x"])
