"""Unclean elections: the log of the new leader leaves the one that was read (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import LogTruncationError as KafkaLogTruncationError
from kafka.structs import OffsetAndMetadata

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import LogTruncationError
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_member, offsets, read
from tests.scenarios.world import World, seeds

#: What 15 records of the new leader contain.
NEW = [b"new %d" % number for number in range(15)]


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with two partitions of 20 records each, in two batches; closed at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 20)
        yield world


@pytest.fixture(params=["both", "Fetch", "OffsetForLeaderEpoch"])
def told_by(request: Any, world: World) -> str:
    """By which answer brokers of this age tell of a truncation."""
    if request.param == "Fetch":
        world.cluster.too_old_for.add("OffsetForLeaderEpoch")
    if request.param == "OffsetForLeaderEpoch":
        world.cluster.tells_divergence = False
    return str(request.param)


def test_without_an_election_nobody_is_asked_about_epochs(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 40)
    world.cluster.fill("orders", 10)
    read(world, consumer, 20)
    consumer.commit()
    consumer.close()

    assert len(read(world, a_member(world), 1, within=2.0)) == 0
    assert world.cluster.asked["OffsetForLeaderEpoch"] == 0


def test_old_epochs_in_a_log_are_read_without_a_question(world: World) -> None:
    """What the leader itself has sent is in its log."""
    for _ in range(3):
        world.cluster.move_leader("orders", 0)
        world.cluster.fill("orders", 10)

    assert len(read(world, a_member(world), 100)) == 100
    assert world.cluster.asked["OffsetForLeaderEpoch"] == 0


@pytest.mark.usefixtures("told_by")
def test_a_clean_election_loses_and_repeats_nothing(world: World) -> None:
    consumer = a_member(world)
    before = read(world, consumer, 40)

    world.cluster.move_leader("orders", 0)
    world.cluster.fill("orders", 10)
    after = read(world, consumer, 20)
    world.sleep(3.0)

    assert offsets(before + after, 0) == list(range(30))
    assert world.cluster.asked["OffsetForLeaderEpoch"] <= 1


@pytest.mark.usefixtures("told_by")
@pytest.mark.parametrize("policy", ["earliest", "latest"])
@pytest.mark.parametrize("count", [5, 15])
def test_with_a_policy_reading_goes_on_where_the_logs_differ(
    world: World, policy: str, count: int
) -> None:
    """The new log is shorter, or longer, than what was read."""
    consumer = a_member(world, auto_offset_reset=policy)
    consumer.poll(timeout_ms=1000)
    if policy == "latest":
        consumer.seek_to_beginning()
    read(world, consumer, 40)

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW[:count])
    after = read(world, consumer, count)

    assert [(one.offset, one.value) for one in after] == list(enumerate(NEW[:count], start=10))
    assert consumer.position(T0) == 10 + count
    assert consumer.position(T1) == 20
    *_, reset = world.host(consumer).named("position.reset")
    assert reset["because"] == "the log was truncated"
    assert (reset["from_offsets"], reset["partitions"]) == ({"orders-0": 20}, {"orders-0": 10})


@pytest.mark.usefixtures("told_by")
@pytest.mark.parametrize("start", ["none", "earliest"])
def test_without_a_policy_each_poll_raises_until_a_seek(world: World, start: str) -> None:
    """The policy for offsets out of range counts, not the one for a start without an offset."""
    consumer = a_reader(world, auto_offset_reset=start, auto_offset_reset_out_of_range="none")
    consumer.seek_to_beginning()
    read(world, consumer, 40)

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)
    error = the_truncation(world, consumer)
    again = the_truncation(world, consumer)

    assert isinstance(error, KafkaLogTruncationError)
    assert (error.topic, error.partition, error.position, error.epoch) == (*T0, 20, 0)
    assert (error.diverging_offset, error.diverging_epoch) == (10, 0)
    assert error.divergent_offsets == {T0: OffsetAndMetadata(10, "", 0)}
    assert "broker" in error.broker
    assert again.position == 20
    world.cluster.produce("orders", 1, b"another")
    assert offsets(read_through(world, consumer, 1), 1) == [20]

    consumer.seek(T0, error.divergent_offsets[T0])
    assert offsets(read(world, consumer, 15), 0) == list(range(10, 25))


@pytest.mark.usefixtures("told_by")
@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_bounded_range_does_not_go_back_into_another_log(world: World, policy: str) -> None:
    """Else its rows would be of two logs, some offsets twice."""
    consumer = a_reader(world, auto_offset_reset=policy)
    elected = []

    def in_the_midst(done: int, everything: int) -> None:
        if done > 0 and not elected:
            elected.append(done)
            world.cluster.elect_uncleanly("orders", 0, 0, *NEW)
            world.cluster.elect_uncleanly("orders", 1, 0, *NEW)

    with pytest.raises(LogTruncationError):
        consumer.to_table("earliest", {T0: 30, T1: 30}, progress=in_the_midst)

    assert elected


def test_the_error_says_what_was_committed_of_what_is_lost(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 40)
    consumer.commit({T0: OffsetAndMetadata(0, "", -1), T1: OffsetAndMetadata(0, "", -1)})
    consumer.close()
    consumer = a_member(world, auto_offset_reset="none", enable_auto_commit=False)
    read(world, consumer, 40)
    consumer.commit({T0: OffsetAndMetadata(15, "", 0)})

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)

    error = the_truncation(world, consumer)
    assert error.committed == 15
    assert "5 beyond" in str(error)


@pytest.mark.usefixtures("told_by")
def test_a_position_at_the_end_that_nothing_was_read_before_is_checked_too(world: World) -> None:
    consumer = a_member(world, auto_offset_reset="latest")
    read(world, consumer, 1, within=2.0)
    assert consumer.position(T0) == 20

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)

    assert offsets(read(world, consumer, 15), 0) == list(range(10, 25))


def test_an_election_that_a_position_at_the_end_has_outlived_costs_nothing(world: World) -> None:
    """The leader epoch of such a position may be unknown to the next leader: it had no record."""
    world.cluster.move_leader("orders", 0)
    consumer = a_reader(world, auto_offset_reset="none")
    consumer.seek_to_end()
    read(world, consumer, 1, within=2.0)

    world.cluster.log("orders", 0).truncate(20)  # nothing but the epoch without records
    world.cluster.move_leader("orders", 0)
    world.cluster.fill("orders", 10)

    assert offsets(read(world, consumer, 20), 0) == list(range(20, 30))


@pytest.mark.usefixtures("told_by")
def test_a_paused_partition_goes_on_where_the_logs_differ_when_it_is_resumed(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 40)
    consumer.pause(T0)

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)
    assert read(world, consumer, 1, within=3.0) == []
    consumer.resume(T0)

    assert offsets(read(world, consumer, 15), 0) == list(range(10, 25))


@pytest.mark.usefixtures("told_by")
@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_records_that_were_only_fetched_are_dropped_and_nothing_is_said(
    world: World, policy: str
) -> None:
    consumer = a_reader(world, auto_offset_reset=policy)
    consumer.seek_to_beginning()
    first = read(world, consumer, 10, max_records=5)
    world.sleep(1.0)  # the rest is buffered
    given = len(offsets(first, 0))
    assert given <= 10

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)
    world.sleep(3.0)
    rest = read(world, consumer, 45 - len(first))

    mine = [one for one in first + rest if one.partition == 0]
    assert [one.offset for one in mine] == list(range(25))
    assert [one.value for one in mine[10:]] == NEW


@pytest.mark.usefixtures("told_by")
@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_records_that_an_iteration_has_left_are_dropped_and_nothing_is_said(
    world: World, policy: str
) -> None:
    """They are decoded, and the last ones are of a newer epoch. The position is in the old one."""
    world.cluster.move_leader("orders", 0)
    world.cluster.fill("orders", 10)
    consumer = a_reader(world, auto_offset_reset=policy, consumer_timeout_ms=2000)
    consumer.seek_to_beginning()
    consumer.pause(T1)
    given = [next(consumer), *read(world, consumer, 4, max_records=2)]

    world.cluster.elect_uncleanly("orders", 0, 20, *NEW)
    world.sleep(3.0)
    given += read(world, consumer, 30)

    assert [one.offset for one in given] == list(range(35))
    assert [one.value for one in given[20:]] == NEW


@pytest.mark.usefixtures("told_by")
def test_a_seek_while_the_truncation_is_being_found_wins(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 40)

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)
    world.sleep(0.05)
    consumer.seek(T0, 3)

    assert offsets(read(world, consumer, 22), 0) == list(range(3, 25))


@pytest.mark.usefixtures("told_by")
def test_a_seek_with_a_leader_epoch_is_checked(world: World) -> None:
    """As after a restart of an application that keeps its offsets itself."""
    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)
    consumer = a_reader(world, auto_offset_reset="none")

    consumer.seek(T1, 20)
    consumer.seek(T0, OffsetAndMetadata(20, "", 0))

    assert the_truncation(world, consumer).diverging_offset == 10
    consumer.seek(T0, OffsetAndMetadata(12, "", 1))
    assert offsets(read(world, consumer, 13), 0) == list(range(12, 25))


@pytest.mark.usefixtures("told_by")
def test_a_committed_offset_is_checked_by_its_leader_epoch(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 40)
    consumer.commit()
    assert consumer.committed(T0, metadata=True) == OffsetAndMetadata(20, "", 0)
    consumer.close()

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)

    assert offsets(read(world, a_member(world), 15), 0) == list(range(10, 25))


@pytest.mark.usefixtures("told_by")
def test_a_commit_that_waits_meanwhile_ends_and_the_next_one_goes_back(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 40)
    world.cluster.drop_next("OffsetCommit")
    consumer.commit_async()

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW[:3])
    assert offsets(read(world, consumer, 3), 0) == [10, 11, 12]
    consumer.commit(timeout_ms=60_000)

    assert world.cluster.committed("g", "orders", 0) == 13


@pytest.mark.usefixtures("told_by")
def test_an_iteration_goes_on_where_the_logs_differ(world: World) -> None:
    consumer = a_member(world, consumer_timeout_ms=2000)
    before = [one for one in consumer if one.partition == 0]
    assert [one.offset for one in before] == list(range(20))

    world.cluster.elect_uncleanly("orders", 0, 10, *NEW)

    assert [one.offset for one in consumer] == list(range(10, 25))


@pytest.mark.usefixtures("told_by")
def test_what_an_iteration_has_in_hand_counts_as_given_out(world: World) -> None:
    """Its records are handed out one by one, and the truncation is found in between."""
    consumer = a_member(world, consumer_timeout_ms=2000)
    seen: list[int] = []
    for record in consumer:
        if record.partition != 0:
            continue
        seen.append(record.offset)
        if seen == list(range(15)):
            world.cluster.elect_uncleanly("orders", 0, 10, *NEW)
            world.sleep(3.0)

    assert seen[:15] == list(range(15))
    assert seen[-15:] == list(range(10, 25))
    assert seen[15:-15] in ([], [15, 16, 17, 18, 19])


def test_after_two_unclean_elections_a_longer_log_is_read_from_where_ours_began_to_differ(
    world: World,
) -> None:
    """The leader of epoch 1 wrote 10 to 14, which we read. Then the log of epoch 0 comes back; it
    has 20 records, of which 10 to 19 were never seen."""
    log = world.cluster.log("orders", 0)
    world.cluster.elect_uncleanly("orders", 0, 10)
    consumer = a_member(world)
    read(world, consumer, 30)
    world.cluster.produce("orders", 0, *NEW[:5])
    assert offsets(read(world, consumer, 5), 0) == list(range(10, 15))

    log.truncate(10)
    log.leader_epoch, later = 0, log.leader_epoch  # what follows was written in epoch 0
    log.append([b"old"] * 10)
    log.leader_epoch = later
    world.cluster.move_leader("orders", 0)

    assert offsets(read(world, consumer, 10), 0) == list(range(10, 20))


def test_a_leader_that_knows_no_such_epoch_leads_to_a_reset(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 40)

    world.cluster.elect_uncleanly("orders", 0, 0, *NEW)
    after = read(world, consumer, 15)

    assert offsets(after, 0) == list(range(15))


def a_reader(world: World, **configs: Any) -> KafkaConsumer:
    """A consumer without a group, to which both partitions are assigned by hand."""
    consumer = world.consumer(**configs)
    consumer.assign([T0, T1])
    return consumer


def the_truncation(world: World, consumer: KafkaConsumer) -> LogTruncationError:
    """The error that a poll raises soon."""
    until = world.now + 5.0
    while world.now < until:
        try:
            consumer.poll(timeout_ms=100)
        except LogTruncationError as error:
            return error
    raise AssertionError("no poll has raised")


def read_through(world: World, consumer: KafkaConsumer, count: int) -> list[Any]:
    """As `read`, of an application that catches the error and polls on."""
    until = world.now + 5.0
    records: list[Any] = []
    while len(records) < count and world.now < until:
        try:
            for some in consumer.poll(timeout_ms=100).values():
                records.extend(some)
        except LogTruncationError:
            continue
    return records
