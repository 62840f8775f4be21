"""How long offsets are kept: over restarts, and until nobody has cared for them long enough."""

from __future__ import annotations

import random

import pytest

from aktor.broker.codes import Code
from tests.gate import all_but_the_first
from tests.unit.broker.groups.coordinator_world import CoordinatorWorld
from tests.unit.broker.harness import DAY

ORDERS_0 = ("orders", 0)
ORDERS_1 = ("orders", 1)
BILLS_0 = ("bills", 0)
WEEK = 7 * DAY
#: More than the interval at which old offsets are looked for.
A_CHECK = 700.0


def test_offsets_outlive_a_restart_with_all_that_was_said_of_them() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5}, metadata="m", leader_epoch=4)

    world.restart()

    (topic,) = world.fetch_answer("g").topics
    (partition,) = topic.partitions
    assert (partition.committed_offset, partition.metadata) == (5, "m")
    assert partition.committed_leader_epoch == 4


def test_a_transaction_may_end_after_a_restart() -> None:
    world = CoordinatorWorld()
    world.commit_in_transaction("g", {ORDERS_0: 9, ORDERS_1: 9}, producer_id=1)
    world.commit_in_transaction("h", {ORDERS_0: 9}, producer_id=2)
    world.commit("g", {ORDERS_1: 20})

    world.restart()
    unstable = world.fetch_codes("g", [ORDERS_0], stable=True)
    world.end("g", 1, commit=True)
    world.end("h", 2, commit=False)
    world.restart()

    assert unstable == [Code.UNSTABLE_OFFSET_COMMIT]
    assert world.fetch("g", stable=True) == {ORDERS_0: 9, ORDERS_1: 20}
    assert world.fetch("h", [ORDERS_0], stable=True) == {ORDERS_0: -1}


def test_commits_after_a_restart_are_later_than_those_before() -> None:
    world = CoordinatorWorld()
    for _ in range(5):
        world.commit("g", {ORDERS_0: 5})

    world.restart()
    world.commit_in_transaction("g", {ORDERS_0: 6})
    world.end("g", commit=True)

    assert world.fetch("g") == {ORDERS_0: 6}


def test_nothing_is_kept_of_what_is_gone() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5, ORDERS_1: 6, BILLS_0: 7})
    world.commit_in_transaction("g", {ORDERS_0: 9, BILLS_0: 9})

    world.delete_offsets("g", ORDERS_0)
    world.delete_topic("orders")
    world.delete("g")

    assert world.journal.texts == {}


# Expiry.


def test_offsets_of_a_simple_group_expire_when_nobody_commits() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5, BILLS_0: 7})
    world.pass_time(3 * DAY)
    world.commit("g", {BILLS_0: 8})

    world.pass_time(4 * DAY - A_CHECK)
    before = world.fetch("g")
    world.pass_time(2 * A_CHECK)

    assert before == {ORDERS_0: 5, BILLS_0: 8}
    assert world.fetch("g") == {BILLS_0: 8}


def test_a_group_without_members_and_offsets_is_forgotten() -> None:
    world = CoordinatorWorld()
    world.commit("g")

    world.pass_time(WEEK + A_CHECK)

    assert world.list() == []
    assert world.journal.texts == {}
    assert world.coordinator.wake_at() == float("inf")


def test_offsets_of_a_group_count_from_when_the_last_member_left() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g", session=1800.0)
    world.commit("g", member_id=member_id, epoch=1)
    for _ in range(2 * 24 * 10):
        world.pass_time(1700.0)
        assert world.heartbeat("g", member_id) is Code.NONE
    world.leave("g", (member_id, None))

    world.pass_time(WEEK - A_CHECK)
    before = world.fetch("g")
    world.pass_time(2 * A_CHECK)

    assert before == {ORDERS_0: 5}
    assert world.fetch("g") == {}


def test_members_keep_the_offsets_of_topics_they_subscribe_to_and_of_no_others() -> None:
    world = CoordinatorWorld(offsets_retention=100.0, offsets_retention_check=10.0)
    member_id = world.stable("g", topics=("orders",), session=1800.0)
    world.commit("g", {ORDERS_0: 5, BILLS_0: 7}, member_id=member_id, epoch=1)
    epoch = world.enter("c", "m", topics=("orders",))
    world.commit("c", {ORDERS_0: 5, BILLS_0: 7}, member_id="m", epoch=epoch)

    for _ in range(4):
        world.pass_time(30.0)
        world.beat("c", "m", epoch)

    assert world.fetch("g") == {ORDERS_0: 5}
    assert world.fetch("c") == {ORDERS_0: 5}


def test_a_transaction_keeps_offsets_and_their_group() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5})
    world.commit_in_transaction("g", {ORDERS_0: 9})
    world.commit_in_transaction("h", {ORDERS_0: 9})

    world.pass_time(WEEK + A_CHECK)
    before = world.fetch("g")
    world.end("g", commit=False)
    world.end("h", commit=False)
    world.pass_time(A_CHECK)

    assert before == {ORDERS_0: 5}
    assert world.list() == []


@pytest.mark.parametrize("version", [2, 3, 4])
def test_old_clients_say_themselves_how_long_to_keep_offsets(version: int) -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5}, version=version, retention_ms=3_600_000)
    world.commit("g", {ORDERS_1: 6}, version=version)
    world.restart()

    world.pass_time(3600.0 - A_CHECK)
    before = world.fetch("g")
    world.pass_time(2 * A_CHECK)

    assert before == {ORDERS_0: 5, ORDERS_1: 6}
    assert world.fetch("g") == {ORDERS_1: 6}


# At random.


@pytest.mark.parametrize("seed", all_but_the_first(6, range(20)))
def test_whatever_is_done_fetches_say_what_two_dicts_would(seed: int) -> None:
    rng = random.Random(seed)
    world = CoordinatorWorld(seed=seed)
    places = [ORDERS_0, ORDERS_1, BILLS_0]
    committed: dict[tuple[str, int], int] = {}
    pending: dict[int, dict[tuple[str, int], int]] = {1: {}, 2: {}}

    # Offsets only grow, so of two the later one is the greater.
    for offset in range(150):
        place, producer = rng.choice(places), rng.choice((1, 2))
        match rng.randrange(7):
            case 0 | 1:
                assert world.commit("g", {place: offset}) is Code.NONE
                committed[place] = offset
            case 2 | 3:
                world.commit_in_transaction("g", {place: offset}, producer_id=producer)
                pending[producer][place] = offset
            case 4:
                commit = rng.random() < 0.5
                world.end("g", producer, commit=commit)
                ended, pending[producer] = pending[producer], {}
                for each, its_offset in ended.items() if commit else ():
                    committed[each] = max(its_offset, committed.get(each, -1))
            case 5:
                world.delete_offsets("g", place)
                for offsets in (committed, *pending.values()):
                    offsets.pop(place, None)
            case _:
                world.restart()

        assert world.fetch("g") == committed
        codes = zip(places, world.fetch_codes("g", places, stable=True), strict=True)
        unstable = {each for each, code in codes if code is Code.UNSTABLE_OFFSET_COMMIT}
        assert unstable == {*pending[1], *pending[2]}
