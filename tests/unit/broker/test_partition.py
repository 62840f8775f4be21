"""Who leads a partition, who is in sync, and up to where all have it."""

from __future__ import annotations

import random

import pytest

from aktor.broker.log.log import PartitionLog
from aktor.broker.partition import NO_LEADER, Partition
from tests.unit.broker.log.building import a_batch, values

NOW = 1_700_000_000.0


class Told:
    """Counts how often somebody was told of a change."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, _partition: Partition) -> None:
        self.times += 1


def a_partition(replicas: tuple[int, ...] = (1, 2, 3), *, min_insync: int = 1) -> Partition:
    return Partition(
        topic="orders",
        index=0,
        replicas=replicas,
        log=PartitionLog(),
        on_change=Told(),
        min_insync=min_insync,
    )


def append(partition: Partition, *values: bytes, now: float = NOW) -> None:
    for value in values:
        partition.append(a_batch(value), now=now, api_version=12)


def down(partition: Partition, *nodes: int, unclean: bool = False) -> None:
    for node in nodes:
        partition.node_down(node, unclean=unclean)


def up(partition: Partition, *nodes: int, unclean: bool = False) -> None:
    for node in nodes:
        partition.node_up(node, unclean=unclean)


# The high watermark.


def test_what_is_appended_is_replicated_at_once() -> None:
    partition = a_partition()

    append(partition, b"a", b"b")

    assert partition.log.high_watermark == partition.end_of(2) == partition.end_of(3) == 2


def test_a_held_follower_holds_the_high_watermark() -> None:
    partition = a_partition()
    append(partition, b"a")

    partition.hold(2)
    append(partition, b"b", b"c")

    assert partition.isr == [1, 2, 3]
    assert (partition.end_of(2), partition.end_of(3)) == (1, 3)
    assert partition.log.high_watermark == 1
    assert [partition.visible_to(node) for node in (1, 2, 3)] == [1, 1, 1]


def test_a_released_follower_lets_the_high_watermark_go_on() -> None:
    partition = a_partition()
    partition.hold(2)
    append(partition, b"a")

    partition.follow(2)

    assert partition.log.high_watermark == 1
    assert partition.behind_since is None


def test_a_laggard_is_dropped_when_its_time_has_run_out_and_not_before() -> None:
    partition = a_partition()
    partition.hold(2)
    append(partition, b"a", now=NOW + 5)
    append(partition, b"b", now=NOW + 9)

    assert not partition.drop_laggards(NOW + 14.9, lag_max=10.0)
    assert partition.drop_laggards(NOW + 15.0, lag_max=10.0)

    assert partition.isr == [1, 3]
    assert partition.log.high_watermark == 2
    assert partition.behind_since is None


def test_a_held_follower_that_misses_nothing_stays_in_sync() -> None:
    partition = a_partition()
    partition.hold(2)

    assert partition.behind_since is None
    assert not partition.drop_laggards(NOW + 1000, lag_max=10.0)
    assert partition.isr == [1, 2, 3]


@pytest.mark.parametrize("lag_max", [0.1, 0.3, 1 / 3, 30.0])
def test_a_laggard_is_dropped_at_the_very_time_that_was_announced(lag_max: float) -> None:
    rng = random.Random(1)
    for _ in range(200):
        partition = a_partition()
        partition.hold(2)
        now = rng.random() * 10  # near 0, where rounding shows
        partition.append(a_batch(b"a", timestamp=0), now=now, api_version=12)
        assert partition.behind_since is not None

        assert partition.drop_laggards(partition.behind_since + lag_max, lag_max=lag_max)


def test_under_the_minimum_in_sync_the_high_watermark_stands_still() -> None:
    partition = a_partition(min_insync=2)
    down(partition, 2, 3)

    append(partition, b"a")
    assert (partition.log.high_watermark, partition.enough_in_sync) == (0, False)

    up(partition, 3)
    assert (partition.log.high_watermark, partition.enough_in_sync) == (1, True)


def test_no_more_must_be_in_sync_than_there_are_replicas() -> None:
    partition = a_partition((1,), min_insync=2)

    append(partition, b"a")

    assert partition.log.high_watermark == 1


# Clean elections.


def test_the_first_replica_that_is_in_sync_and_up_leads() -> None:
    partition = a_partition()

    down(partition, 1)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, [2, 3])
    assert partition.offline == [1]

    down(partition, 2)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (3, 2, [3])


def test_a_broker_that_comes_back_follows_and_leads_no_more() -> None:
    partition = a_partition()
    down(partition, 1)
    append(partition, b"a")

    up(partition, 1)

    assert (partition.leader, partition.leader_epoch) == (2, 1)
    assert partition.isr == [2, 3, 1]
    assert (partition.end_of(1), partition.offline) == (1, [])


def test_what_the_new_leader_does_not_have_is_cut_off() -> None:
    partition = a_partition()
    append(partition, b"a")
    partition.hold(2)
    partition.hold(3)
    append(partition, b"lost", b"lost")

    down(partition, 1)

    assert (partition.leader, partition.log.end_offset) == (2, 1)
    assert partition.epoch_start == 1
    append(partition, b"b")
    up(partition, 1)
    partition.follow(3)
    assert values(partition.log) == [b"a", b"b"]
    assert partition.log.end_offset_for_epoch(0) == (0, 1)


def test_who_is_behind_the_old_leader_but_not_the_new_one_is_no_laggard() -> None:
    partition = a_partition()
    partition.hold(2)
    partition.hold(3)
    append(partition, b"lost")

    down(partition, 1)

    assert partition.isr == [2, 3]
    assert not partition.drop_laggards(NOW + 1000, lag_max=10.0)


def test_who_is_out_of_sync_does_not_lead_after_a_clean_election() -> None:
    partition = a_partition((1, 2))
    partition.hold(2)
    append(partition, b"a")
    partition.drop_laggards(NOW + 10, lag_max=10.0)

    down(partition, 1)

    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_LEADER, 1, [1])


def test_when_all_went_down_only_the_last_in_sync_may_lead_and_then_all_follow() -> None:
    partition = a_partition()
    append(partition, b"a")
    down(partition, 1)
    append(partition, b"b")
    down(partition, 2, 3)
    assert (partition.leader, partition.isr) == (NO_LEADER, [3])

    up(partition, 1, 2)
    assert (partition.leader, partition.isr) == (NO_LEADER, [3])

    up(partition, 3)
    assert partition.leader == 3
    assert sorted(partition.isr) == [1, 2, 3]
    assert (partition.end_of(1), partition.log.high_watermark) == (2, 2)


def test_each_election_raises_the_epoch_even_that_of_nobody() -> None:
    partition = a_partition((1,))

    down(partition, 1)
    assert (partition.leader, partition.leader_epoch) == (NO_LEADER, 1)

    up(partition, 1)
    assert (partition.leader, partition.leader_epoch) == (1, 2)


def test_going_down_or_coming_up_twice_changes_nothing() -> None:
    partition = a_partition()

    down(partition, 1, 1)
    assert partition.leader_epoch == 1

    up(partition, 1, 1)
    assert (partition.leader_epoch, partition.isr) == (1, [2, 3, 1])


def test_brokers_without_a_replica_do_not_matter() -> None:
    partition = a_partition((1, 2))

    down(partition, 3)
    up(partition, 3)
    partition.hold(3)
    append(partition, b"a")

    assert (partition.isr, partition.log.high_watermark) == ([1, 2], 1)


# Unclean elections.


def test_an_unclean_election_takes_who_has_most_and_loses_the_rest() -> None:
    partition = a_partition()
    append(partition, b"a")
    down(partition, 2)
    append(partition, b"b")
    down(partition, 3)
    append(partition, b"lost")
    down(partition, 1)
    up(partition, 2, unclean=False)
    assert partition.leader == NO_LEADER

    up(partition, 3, unclean=True)

    assert (partition.leader, partition.log.end_offset) == (3, 2)
    assert sorted(partition.isr) == [2, 3]
    assert values(partition.log) == [b"a", b"b"]


def test_the_leader_of_before_follows_who_was_elected_uncleanly() -> None:
    partition = a_partition((1, 2))
    append(partition, b"a")
    down(partition, 2)
    append(partition, b"lost")
    down(partition, 1)
    up(partition, 2, unclean=True)
    append(partition, b"b")

    up(partition, 1)

    assert (partition.leader, partition.isr) == (2, [2, 1])
    assert values(partition.log) == [b"a", b"b"]


def test_an_unclean_election_takes_the_high_watermark_back() -> None:
    partition = a_partition((1, 2))
    append(partition, b"a")
    partition.hold(2)
    append(partition, b"lost")
    partition.drop_laggards(NOW + 10, lag_max=10.0)
    assert partition.log.high_watermark == 2

    assert partition.lead_uncleanly(2)

    assert (partition.log.high_watermark, partition.isr) == (1, [2, 1])


def test_a_held_follower_stays_held_whoever_leads() -> None:
    partition = a_partition()
    partition.hold(3)
    append(partition, b"a")

    assert partition.lead_uncleanly(2)
    append(partition, b"b")

    assert partition.end_of(3) == 0
    assert partition.isr == [2, 1]
    assert not partition.drop_laggards(NOW + 1000, lag_max=10.0)


# Leaders by command.


def test_only_who_is_up_and_in_sync_may_be_made_leader() -> None:
    partition = a_partition()
    down(partition, 2)
    partition.hold(3)
    append(partition, b"a")
    partition.drop_laggards(NOW + 10, lag_max=10.0)

    assert not partition.lead(2)
    assert not partition.lead(3)
    assert not partition.lead_uncleanly(2)
    assert not partition.lead_uncleanly(9)

    assert (partition.leader, partition.leader_epoch) == (1, 0)


def test_a_held_follower_that_leads_is_held_no_more() -> None:
    partition = a_partition((1, 2))
    partition.hold(2)

    assert partition.lead(2)
    append(partition, b"a")

    assert (partition.end_of(2), partition.log.high_watermark) == (1, 1)


def test_the_same_leader_may_be_elected_once_more() -> None:
    partition = a_partition()
    append(partition, b"a")

    partition.new_epoch()

    assert (partition.leader, partition.leader_epoch) == (1, 1)
    assert partition.log.end_offset_for_epoch(0) == (0, 1)
    assert partition.log.end_offset_for_epoch(1) == (1, 1)


def test_whoever_waits_is_told_of_each_change() -> None:
    told = Told()
    partition = Partition(
        topic="orders", index=0, replicas=(1, 2), log=PartitionLog(), on_change=told
    )

    for change in (
        lambda: append(partition, b"a"),
        lambda: partition.lead(2),
        lambda: down(partition, 2),
        lambda: up(partition, 2),
        partition.new_epoch,
    ):
        before = told.times
        change()
        assert told.times > before


# Whatever happens.


def check(partition: Partition) -> None:
    """What holds at any time."""
    log = partition.log
    assert set(partition.isr) <= set(partition.replicas)
    assert len(set(partition.isr)) == len(partition.isr)
    assert partition.isr, "nobody is in sync"
    assert log.start_offset <= log.high_watermark <= log.end_offset
    assert all(partition.end_of(node) <= log.end_offset for node in partition.replicas)
    if partition.leader == NO_LEADER:
        return
    assert partition.leader in partition.isr
    assert partition.leader not in partition.offline
    assert partition.end_of(partition.leader) == log.end_offset
    assert not set(partition.isr) & set(partition.offline)
    for node in partition.isr:
        assert partition.end_of(node) >= log.high_watermark, f"{node} lacks what is replicated"


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", range(60))
def test_what_was_replicated_is_there_whatever_happens_without_unclean_elections(seed: int) -> None:
    rng = random.Random(seed)
    partition = a_partition(min_insync=rng.choice((1, 2)))
    replicated: list[bytes | None] = []
    epoch = now = 0.0

    for number in range(120):
        node = rng.choice(partition.replicas)
        match rng.randrange(8):
            case 0:
                down(partition, node)
            case 1 | 2:
                up(partition, node)
            case 3:
                partition.hold(node)
            case 4:
                partition.follow(node)
            case 5:
                partition.lead(node)
            case 6:
                partition.drop_laggards(NOW + now, lag_max=5.0)
            case _ if partition.leader != NO_LEADER:
                append(partition, b"%d" % number, now=NOW + now)
        now += rng.random() * 3
        check(partition)
        seen = values(partition.log)
        assert seen[: len(replicated)] == replicated
        assert partition.leader_epoch >= epoch
        replicated, epoch = seen, partition.leader_epoch

    for node in partition.replicas:
        up(partition, node)
        partition.follow(node)
    check(partition)
    assert sorted(partition.isr) == [1, 2, 3]
    assert partition.log.high_watermark == partition.log.end_offset
