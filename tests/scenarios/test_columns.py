"""Columns: positions, commits, pauses, rebalances and errors are those of rows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from kafka.errors import IllegalStateError, KafkaTimeoutError
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import CorruptBatchError, OutsideLogError, WakeupError
from tests.gate import all_but_the_first
from tests.scenarios.interrupts import Injection
from tests.scenarios.reading import T0, T1, a_member, offsets, read
from tests.scenarios.world import World, seeds


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic with two partitions of 40 records each; closed and checked at the end."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


def read_columns(world: World, consumer: KafkaConsumer, count: int, **options: Any) -> pa.Table:
    until = world.now + 5.0
    batches: list[pa.RecordBatch] = []
    while sum(one.num_rows for one in batches) < count and world.now < until:
        batches.append(consumer.poll_arrow(100, **options))
    return pa.Table.from_batches(batches)


def places(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(*(table.column(one).to_pylist() for one in ("partition", "offset"))))  # noqa: B905


def test_columns_have_every_record_once_and_in_order(world: World) -> None:
    consumer = a_member(world)

    table = read_columns(world, consumer, 80, max_records=world.random.randint(1, 50))

    found = places(table)
    assert sorted(found) == [(p, n) for p in (0, 1) for n in range(40)]
    assert [n for p, n in found if p == 0] == list(range(40))
    values = [value.decode() for value in table.column("value").to_pylist()]
    assert values == [f"{p}:{n}" for p, n in found]
    assert set(table.column("topic").to_pylist()) == {"orders"}
    assert consumer.poll_arrow().num_rows == 0, "nothing is left"


def test_a_batch_has_the_columns_that_were_asked_for(world: World) -> None:
    consumer = a_member(world)

    table = read_columns(world, consumer, 80, columns=["leader_epoch", "offset"])
    nothing = consumer.poll_arrow(columns=["offset", "key"])

    assert table.schema.names == ["leader_epoch", "offset"]
    assert (nothing.schema.names, nothing.num_rows) == (["offset", "key"], 0)
    assert consumer.poll_arrow().schema.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers")
    ]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["ofset"], "unknown column 'ofset'; did you mean 'offset'"),
        ([], "at least one"),
        (["key", "key"], "different"),
        ("value", "a list of names"),
    ],
)
def test_columns_that_there_are_not_are_refused(world: World, columns: Any, says: str) -> None:
    consumer = a_member(world)

    with pytest.raises(ValueError, match=says):
        consumer.poll_arrow(columns=columns)
    with pytest.raises(ValueError, match=says):
        next(consumer.arrow_batches(columns=columns))
    with pytest.raises(ValueError, match="max_records"):
        consumer.poll_arrow(max_records=0)
    with pytest.raises(ValueError, match="max_bytes is -1, but must be positive, or None"):
        consumer.poll_arrow(max_bytes=-1)
    with pytest.raises(TypeError, match="max_bytes"):
        consumer.poll_arrow(max_bytes="1")


def test_rows_and_columns_take_turns(world: World) -> None:
    consumer = a_member(world, consumer_timeout_ms=1000, value_deserializer=lambda data: [data])
    found: list[tuple[int, int]] = []
    while len(found) < 80:
        match world.random.randint(0, 2):
            case 0:
                found += places(pa.table(consumer.poll_arrow(100, 7)))
            case 1:
                taken = consumer.poll(100, max_records=7)
                for records in taken.values():
                    assert all(type(one.value) is list for one in records)
                    found += [(one.partition, one.offset) for one in records]
            case _:
                record = next(consumer)
                found.append((record.partition, record.offset))

    assert sorted(found) == [(p, n) for p in (0, 1) for n in range(40)]


def test_positions_and_commits_are_after_the_last_row(world: World) -> None:
    consumer = a_member(world, enable_auto_commit=False)
    seen = {T0: 0, T1: 0}
    for _ in range(6):
        for partition, offset in places(pa.table(consumer.poll_arrow(1000, 9))):
            seen[TopicPartition("orders", partition)] = offset + 1
        assert {one: consumer.position(one) for one in seen} == seen
        consumer.commit()
        committed = {one: world.cluster.committed("g", *one) for one in seen}
        assert committed == seen


def test_a_paused_partition_has_no_rows_and_a_sought_one_begins_there(world: World) -> None:
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0, T1])
    consumer.pause(T0)

    assert places(read_columns(world, consumer, 40)) == [(1, n) for n in range(40)]
    consumer.seek(T1, 35)
    consumer.resume(T0)
    found = places(read_columns(world, consumer, 45))

    assert sorted(found) == [(0, n) for n in range(40)] + [(1, n) for n in range(35, 40)]


def test_rows_before_a_corrupt_batch_come_first_and_then_it_is_raised_until_sought_past(
    world: World,
) -> None:
    world.cluster.log("orders", 0).corrupt(25)
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0])

    assert places(read_columns(world, consumer, 20)) == [(0, n) for n in range(20)]
    for _ in range(2):
        with pytest.raises(CorruptBatchError) as raised:
            consumer.poll_arrow(1000)
        assert raised.value.offset == 20
    consumer.seek(T0, 30)
    assert places(read_columns(world, consumer, 10)) == [(0, n) for n in range(30, 40)]


def test_a_wakeup_ends_it_and_nothing_is_lost(world: World) -> None:
    consumer = a_member(world)
    consumer.wakeup()

    with pytest.raises(WakeupError):
        consumer.poll_arrow(1000)
    assert read_columns(world, consumer, 80).num_rows == 80


def test_members_that_read_columns_share_the_partitions(world: World) -> None:
    first, second = a_member(world), a_member(world)
    found: list[tuple[int, int]] = []
    while len(found) < 80:
        for consumer in (first, second):
            found += places(pa.table(consumer.poll_arrow(50, 5)))

    assert len(found) < 80 + 20
    assert set(found) == {(p, n) for p in (0, 1) for n in range(40)}


def test_arrow_batches_end_when_nothing_comes_any_more(world: World) -> None:
    consumer = a_member(world, consumer_timeout_ms=1000)

    sizes = [one.num_rows for one in consumer.arrow_batches(max_records=30)]

    assert sum(sizes) == 80
    assert 0 < min(sizes) <= max(sizes) <= 30


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_arrow_batches_end_when_the_consumer_is_closed_between_two_of_them(
    world: World, taken: int
) -> None:
    """As an iteration over records: closing is how such a loop is ended."""
    consumer = a_member(world)
    batches = consumer.arrow_batches(max_records=30)
    for _ in range(taken):
        next(batches)

    consumer.close()

    assert list(batches) == list(consumer.arrow_batches()) == list(consumer) == []


# -- to_table


def by_hand(world: World) -> KafkaConsumer:
    consumer = world.consumer(auto_offset_reset="earliest", group_id=None)
    consumer.assign([T0, T1])
    return consumer


def test_a_table_has_exactly_the_range_and_the_positions_are_at_its_end(world: World) -> None:
    consumer = by_hand(world)
    told: list[tuple[int, int]] = []

    table = consumer.to_table(
        {T0: 5, T1: 38}, {T0: 33, T1: 39}, progress=lambda *done: told.append(done)
    )

    assert sorted(places(table)) == [(0, n) for n in range(5, 33)] + [(1, 38)]
    assert [consumer.position(one) for one in (T0, T1)] == [33, 39]
    assert consumer.paused() == set()
    assert told[-1] == (29, 29)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert sorted(offsets(read(world, consumer, 8), 0)) == list(range(33, 40))


def test_a_table_without_bounds_is_from_the_position_to_the_present_end(world: World) -> None:
    consumer = by_hand(world)
    consumer.seek(T0, 39)
    consumer.pause(T1)

    table = consumer.to_table(columns=["value"])
    again = consumer.to_table(columns=["value"])

    assert table.schema.names == again.schema.names == ["value"]
    assert (table.num_rows, again.num_rows) == (41, 0)
    assert consumer.paused() == {T1}


def test_a_table_can_begin_and_end_at_a_time(world: World) -> None:
    consumer = by_hand(world)
    everything = consumer.to_table("earliest", "latest")
    times = sorted(set(everything.column("timestamp").to_pylist()))

    assert everything.num_rows == 80
    assert consumer.to_table(times[0]).num_rows == 80
    assert consumer.to_table("earliest", times[0]).num_rows == 0
    assert consumer.to_table(datetime(2100, 1, 1, tzinfo=UTC)).num_rows == 0


def test_a_table_that_is_interrupted_as_it_resumes_pauses_again(world: World) -> None:
    consumer = by_hand(world)
    consumer.pause(T1)
    resumed: list[bool] = []

    def interrupt_once() -> None:
        if not resumed and not consumer.paused():
            resumed.append(True)
            raise KeyboardInterrupt

    everywhere = Injection(world, at=range(100_000), act=interrupt_once)
    with everywhere, pytest.raises(KeyboardInterrupt):
        consumer.to_table("earliest")

    assert consumer.paused() == {T1}
    assert consumer.to_table("earliest").num_rows == 80


@pytest.mark.parametrize("group_id", ["g", None])
@pytest.mark.parametrize("start", ["earliest", None])
def test_a_table_of_a_consumer_that_has_just_subscribed_is_its_whole_topic(
    world: World, group_id: str | None, start: str | None
) -> None:
    consumer = world.consumer(auto_offset_reset="earliest", group_id=group_id)
    consumer.subscribe(["orders"])

    table = consumer.to_table(start)

    assert sorted(places(table)) == [(p, n) for p in (0, 1) for n in range(40)]
    assert [consumer.position(one) for one in (T0, T1)] == [40, 40]


def test_a_table_of_a_member_that_gets_no_partition_ends_in_time(world: World) -> None:
    consumer = world.consumer(group_id=None)
    consumer.subscribe(["later"])

    with pytest.raises(
        KafkaTimeoutError, match=r"no partition of later was assigned within 0\.5 s"
    ):
        consumer.to_table(timeout_ms=500)


@pytest.mark.parametrize("start", ["earliest", datetime(2020, 1, 1, tzinfo=UTC), None])
def test_a_table_ends_in_the_time_that_it_is_given_also_if_no_offset_is_found(
    world: World, start: Any
) -> None:
    consumer = by_hand(world)
    world.cluster.drop_next("ListOffsets", times=1000)
    began = world.now

    with pytest.raises(KafkaTimeoutError, match=r"within 0\.5 s"):
        consumer.to_table(start, timeout_ms=500)

    assert world.now - began < 2


def test_a_range_that_cannot_be_is_refused(world: World) -> None:
    with pytest.raises(IllegalStateError, match=r"call assign\(\) .* or subscribe\(\) first"):
        world.consumer(group_id=None).to_table()
    with pytest.raises(ValueError, match="end has no offset for orders-1"):
        by_hand(world).to_table(end={T0: 5})
    with pytest.raises(ValueError, match="'yesterday'"):
        by_hand(world).to_table("yesterday")


def test_a_range_whose_end_never_comes_ends_in_time(world: World) -> None:
    consumer = by_hand(world)
    began = world.now

    with pytest.raises(KafkaTimeoutError, match="orders-1 at 40"):
        consumer.to_table(end={T0: 40, T1: 41}, timeout_ms=3000)

    assert world.now - began < 10
    assert [consumer.position(one) for one in (T0, T1)] == [0, 0]
    assert consumer.paused() == set()


def test_without_a_group_a_range_is_of_all_partitions_of_the_subscription(world: World) -> None:
    consumer = world.consumer(group_id=None)
    consumer.subscribe(["orders"])

    assert consumer.to_table("earliest").num_rows == 80


POLICIES = pytest.mark.parametrize("policy", ["earliest", "latest", "none"])


@POLICIES
def test_a_range_that_was_deleted_in_part_is_an_error_whatever_the_policy(
    world: World, policy: str
) -> None:
    world.cluster.log("orders", 0).start = 12
    consumer = world.consumer(auto_offset_reset=policy, group_id=None)
    consumer.assign([T0, T1])

    with pytest.raises(OutsideLogError, match=r"orders-0 .* offset 3, .* begins at 12") as raised:
        consumer.to_table({T0: 3, T1: 0}, {T0: 20, T1: 20})

    assert (raised.value.offset, raised.value.log_start, raised.value.log_end) == (3, 12, 40)
    assert [consumer.position(one) for one in (T0, T1)] == [3, 0]


@POLICIES
def test_a_range_goes_on_where_the_log_begins_if_it_is_asked_to(world: World, policy: str) -> None:
    world.cluster.log("orders", 0).start = 12
    world.cluster.log("orders", 1).start = 30
    consumer = world.consumer(auto_offset_reset=policy, group_id=None)
    consumer.assign([T0, T1])

    table = consumer.to_table({T0: 3, T1: 0}, {T0: 20, T1: 20}, skip_deleted=True)

    assert places(table) == [(0, n) for n in range(12, 20)]
    assert [consumer.position(one) for one in (T0, T1)] == [20, 20]
    told = world.hosts[-1].named("range.shortened")
    assert {(event["offset"], event["log_start"]) for event in told} == {(3, 12), (0, 30)}


@POLICIES
@pytest.mark.parametrize("skips", [False, True])
def test_a_log_that_moves_while_a_range_is_read(world: World, policy: str, skips: bool) -> None:
    """Retention deletes what is not fetched yet."""
    world.cluster.fill("orders", 400)
    consumer = world.consumer(
        auto_offset_reset=policy, group_id=None, max_partition_fetch_bytes=200, fetch_max_bytes=400
    )
    consumer.assign([T0])

    def delete(done: int, _all: int) -> None:
        if done < 200:
            world.cluster.log("orders", 0).start = 300

    if skips:
        table = consumer.to_table({T0: 0}, {T0: 400}, progress=delete, skip_deleted=True)
        found = [offset for _, offset in places(table)]
        assert found[-100:] == list(range(300, 400))
        assert found[:-100] == list(range(len(found) - 100)), "and what came before"
    else:
        with pytest.raises(OutsideLogError, match="begins at 300"):
            consumer.to_table({T0: 0}, {T0: 400}, progress=delete)


def test_a_range_beyond_the_end_of_the_log_is_an_error(world: World) -> None:
    consumer = by_hand(world)

    with pytest.raises(OutsideLogError, match=r"offset 50, .* ends at 40"):
        consumer.to_table({T0: 50, T1: 0}, {T0: 60, T1: 1}, skip_deleted=True)


def test_after_a_range_the_policy_is_followed_again(world: World) -> None:
    consumer = by_hand(world)
    world.cluster.log("orders", 0).start = 12
    with pytest.raises(OutsideLogError):
        consumer.to_table({T0: 3, T1: 0})

    assert sorted(offsets(read(world, consumer, 68), 0)) == list(range(12, 40))


# -- what a user does with them next


@pytest.fixture
def two_topics(world: World) -> KafkaConsumer:
    world.cluster.create_topic("bills", partitions=2)
    world.cluster.fill("bills", 40)
    consumer = world.consumer(group_id=None, auto_offset_reset="earliest")
    consumer.subscribe(["orders", "bills"])
    return consumer


def use(table: pa.Table) -> None:
    """What pyarrow refuses if the dictionaries of the chunks differ, or one is empty."""
    counts = table.group_by("topic").aggregate([("offset", "count")]).to_pylist()
    assert sorted(row["topic"] for row in counts) == sorted(set(table["topic"].to_pylist()))
    narrow = table.select(["topic", "partition", "offset"])
    assert narrow.join(narrow, ["topic", "partition", "offset"]).num_rows == table.num_rows
    for write in (pa.ipc.new_file, pa.ipc.new_stream):
        with write(pa.BufferOutputStream(), table.schema) as writer:
            writer.write_table(table)
    pyarrow.feather.write_feather(table, io.BytesIO())
    pyarrow.parquet.write_table(table, io.BytesIO())
    assert table.combine_chunks().num_rows == table.num_rows


def test_a_table_can_be_grouped_joined_and_written(world: World, two_topics: KafkaConsumer) -> None:
    use(two_topics.to_table("earliest"))
    use(two_topics.to_table())  # no rows


def test_the_batches_of_a_consumer_can_be_made_one_table_and_written_to_one_file(
    world: World, two_topics: KafkaConsumer
) -> None:
    batches = [two_topics.poll_arrow(100, max_records=11) for _ in range(30)]

    assert sum(batch.num_rows for batch in batches) == 160
    assert not batches[-1].num_rows
    use(pa.Table.from_batches(batches))


def test_so_can_those_of_a_pattern_whose_topics_are_found_during_the_first_poll(
    world: World,
) -> None:
    world.cluster.create_topic("bills", partitions=2)
    world.cluster.fill("bills", 40)
    consumer = world.consumer(group_id=None, auto_offset_reset="earliest")
    consumer.subscribe(pattern="orders|bills")

    batches = [consumer.poll_arrow(100, max_records=11) for _ in range(30)]

    dictionaries = {tuple(batch["topic"].dictionary.to_pylist()) for batch in batches}
    assert dictionaries == {("bills", "orders")}
    use(pa.Table.from_batches(batches))
