"""What members of classic groups say, in a line each."""

from __future__ import annotations

from typing import Any, Final

from tests.kafka.recorded.world import World

__all__ = ["alone", "beat", "describe", "join", "joining", "new_id", "pair", "sync", "syncing"]

#: The protocols of a member, unless told otherwise.
_RANGE: Final = [{"name": "range", "metadata": b"r"}]


def joining(group: str, member_id: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": _RANGE,
        **fields,
    }


def syncing(group: str, joined: Any, assigned: dict[str, bytes] | None = None) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": m, "assignment": a} for m, a in (assigned or {}).items()],
    }


def new_id(world: World, group: str, on: str = "main") -> str:
    """A member id as MEMBER_ID_REQUIRED gives it."""
    return str(world.ask("JoinGroup", 9, on, **joining(group)).member_id)


def join(world: World, group: str, on: str = "main", **fields: Any) -> Any:
    member_id = fields.pop("member_id", None) or new_id(world, group, on)
    return world.ask("JoinGroup", 9, on, **joining(group, member_id, **fields))


def sync(
    world: World, group: str, joined: Any, assigned: dict[str, bytes], on: str = "main"
) -> Any:
    return world.ask("SyncGroup", 5, on, **syncing(group, joined, assigned))


def beat(
    world: World, group: str, member_id: str, generation: int, on: str = "main", **f: Any
) -> Any:
    return world.ask(
        "Heartbeat", 4, on, group_id=group, member_id=member_id, generation_id=generation, **f
    )


def alone(world: World) -> tuple[str, Any]:
    """A stable group of one."""
    group = world.group()
    joined = join(world, group)
    sync(world, group, joined, {joined.member_id: b"all"})
    return group, joined


def pair(world: World) -> tuple[str, Any, Any]:
    """A stable group of two: the leader, and its follower on connection "b"."""
    group, first = alone(world)
    later = world.send("JoinGroup", 9, "b", **joining(group, new_id(world, group, "b")))
    while beat(world, group, first.member_id, first.generation_id).error_code == 0:
        pass
    first = join(world, group, member_id=first.member_id)
    second = later.answer()
    sync_later = world.send("SyncGroup", 5, "b", **syncing(group, second))
    sync(world, group, first, {first.member_id: b"one", second.member_id: b"two"})
    sync_later.answer()
    return group, first, second


def describe(world: World, label: str, group: str) -> None:
    world.see(label, "DescribeGroups", 5, groups=[group])
