"""What administrators see of groups, and how they delete them."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code
from tests.unit.broker.groups.coordinator_world import CoordinatorWorld, subscription


def a_world_with_all_kinds() -> CoordinatorWorld:
    world = CoordinatorWorld()
    world.stable("classic")
    world.enter("consumer")
    world.commit("simple")
    return world


# DescribeGroups.


def test_a_stable_classic_group_is_described_with_its_members() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g")

    (group,) = world.describe("g")

    (member,) = group.members
    shown = (group.error_code, group.group_state, group.protocol_type, group.protocol_data)
    assert shown == (Code.NONE, "Stable", "consumer", "range")
    assert (member.member_id, member.client_id, member.client_host) == (
        member_id,
        "app",
        "/127.0.0.1",
    )
    assert (member.member_metadata, member.member_assignment) == (subscription("orders"), b"a")


def test_a_simple_group_is_empty_and_of_no_protocol() -> None:
    world = a_world_with_all_kinds()

    (group,) = world.describe("simple")

    assert (group.group_state, group.protocol_type, group.members) == ("Empty", "", [])


@pytest.mark.parametrize("version", range(6))
def test_what_is_no_classic_group_was_dead_in_old_versions(version: int) -> None:
    world = a_world_with_all_kinds()

    groups = world.describe("nobody", "consumer", version=version)

    assert [(one.group_id, one.error_code, one.group_state) for one in groups] == [
        ("nobody", Code.NONE, "Dead"),
        ("consumer", Code.NONE, "Dead"),
    ]


def test_what_is_no_classic_group_is_not_found_since_v6() -> None:
    world = a_world_with_all_kinds()

    groups = world.describe("nobody", "consumer")

    assert [(one.error_code, one.error_message, one.group_state) for one in groups] == [
        (Code.GROUP_ID_NOT_FOUND, "Group nobody not found.", "Dead"),
        (Code.GROUP_ID_NOT_FOUND, "Group consumer is not a classic group.", "Dead"),
    ]


def test_what_one_may_do_to_a_group_is_said_when_asked() -> None:
    world = a_world_with_all_kinds()

    (asked,) = world.describe("classic", operations=True)
    (not_asked,) = world.describe("classic")

    assert asked.authorized_operations == {3, 6, 8, 10, 11}
    assert not_asked.authorized_operations is None


# ConsumerGroupDescribe.


def test_a_consumer_group_is_described_with_its_members() -> None:
    world = CoordinatorWorld()
    epoch = world.enter("c", "m")

    group = world.describe_consumer_group("c")

    (member,) = group.members
    (owned,) = member.assignment.topic_partitions
    assert (group.error_code, group.group_state, group.group_epoch) == (0, "Stable", epoch)
    assert (member.member_id, member.member_epoch) == ("m", epoch)
    assert (owned.topic_name, owned.partitions) == ("orders", [0, 1, 2])
    assert group.authorized_operations == 0b1101_0100_1000


@pytest.mark.parametrize(
    ("group_id", "code", "message"),
    [
        ("nobody", Code.GROUP_ID_NOT_FOUND, "Group nobody not found."),
        ("classic", Code.GROUP_ID_NOT_FOUND, "Group classic is not a consumer group."),
        ("", Code.INVALID_GROUP_ID, None),
    ],
)
def test_what_is_no_consumer_group_is_said_to_be_none(
    group_id: str, code: Code, message: str | None
) -> None:
    world = a_world_with_all_kinds()

    group = world.describe_consumer_group(group_id)

    assert (group.error_code, group.error_message, group.members) == (code, message, [])


# ListGroups.


def test_all_groups_are_listed_with_state_and_type() -> None:
    world = a_world_with_all_kinds()

    assert world.list() == [
        ("classic", "consumer", "Stable", "classic"),
        ("consumer", "consumer", "Stable", "consumer"),
        ("simple", "", "Empty", "classic"),
    ]


@pytest.mark.parametrize("version", range(5))
def test_old_versions_list_the_same_groups_with_less(version: int) -> None:
    world = a_world_with_all_kinds()

    listed = world.list(version=version)

    assert [group[0] for group in listed] == ["classic", "consumer", "simple"]


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (("Empty",), (), ["simple"]),
        (("stable ",), (), ["classic", "consumer"]),
        (("Stable", "Empty"), ("Classic",), ["classic", "simple"]),
        ((), ("consumer",), ["consumer"]),
        (("Dead",), (), []),
        ((), ("unheard of",), []),
    ],
)
def test_lists_are_filtered_whatever_the_case(
    states: tuple[str, ...], types: tuple[str, ...], found: list[str]
) -> None:
    world = a_world_with_all_kinds()

    assert [group[0] for group in world.list(states=states, types=types)] == found


def test_a_rebalancing_group_is_listed_in_kafkas_spelling() -> None:
    world = CoordinatorWorld(initial_rebalance_delay=3.0)
    world.join("g", version=3)
    preparing = world.list(states=("PreparingRebalance",))

    world.pass_time(3.1)

    assert preparing == [("g", "consumer", "PreparingRebalance", "classic")]
    assert world.list() == [("g", "consumer", "CompletingRebalance", "classic")]


# DeleteGroups.


def test_empty_groups_are_deleted_with_their_offsets() -> None:
    world = a_world_with_all_kinds()
    world.beat("consumer", "m", -1)
    world.commit_in_transaction("simple", {("orders", 1): 9})

    codes = world.delete("simple", "consumer", "nobody", "classic", "simple")
    world.end("simple", commit=True)

    assert codes == {
        "simple": Code.NONE,
        "consumer": Code.NONE,
        "nobody": Code.GROUP_ID_NOT_FOUND,
        "classic": Code.NON_EMPTY_GROUP,
    }
    assert world.fetch("simple") == {}
    assert [group[0] for group in world.list()] == ["classic"]


def test_deleted_groups_do_not_come_back_with_a_restart() -> None:
    world = CoordinatorWorld()
    world.enter("c")
    world.beat("c", "m", -1)
    member_id = world.stable("g")
    world.commit("g", member_id=member_id, epoch=1)
    world.leave("g", (member_id, None))

    world.delete("c", "g")
    world.restart()

    assert world.list() == []
    assert world.journal.texts == {}
