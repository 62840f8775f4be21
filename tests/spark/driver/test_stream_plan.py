"""Which offsets each micro-batch has, on a cluster that only has offsets."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.errors import BootstrapError, BrokersUnreachableError, ConfigurationError, DataLossError
from aktor.spark.driver.stream_plan import StreamPlan
from aktor.spark.offsets.bounds import Offsets
from aktor.spark.offsets.checkpoint import START
from aktor.spark.options.source import read_options

A, B, C = (TopicPartition("orders", partition) for partition in range(3))


class Time:
    """Owns the time, which passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.while_asleep: Callable[[], Any] = lambda: None

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.while_asleep()


class Cluster:
    """Owns the offsets of partitions. Records are a second apart, from time 0 on."""

    def __init__(self, ends: Offsets) -> None:
        #: While somebody waits for a record, this time passes.
        self.time = Time()
        self.first = dict.fromkeys(ends, 0)
        self.ends = dict(ends)
        self.id = "id-1"
        self.commits: Offsets = {}
        self.asked = self.looked_up = self.waits = 0
        self.timeouts: list[float | None] = []
        self.wrong_answers: list[Offsets] = []
        #: It is a mistake if one of these does not exist and was never known.
        self.subscribed: set[str] = set()
        #: The partitions that the next answers leave out.
        self.without: list[set[TopicPartition]] = []
        self.bytes: float | None = 1.0
        #: What each request fails with while no broker answers.
        self.outage: KafkaError | None = None

    def _answer(self) -> None:
        if self.outage is not None:
            raise self.outage

    def partitions(
        self, known: Collection[str] = ()
    ) -> tuple[list[TopicPartition], Mapping[str, str | None]]:
        self._answer()
        self.looked_up += 1
        if not self.subscribed <= {one.topic for one in self.ends} | set(known):
            raise ConfigurationError("there is no such topic")
        if self.without:
            there = sorted(self.ends.keys() - self.without.pop(0))
            return there, {one.topic: self.id for one in there}
        return sorted(self.ends), {one.topic: self.id for one in self.ends}

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        self._answer()
        return {one: self.first[one] for one in partitions}

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> Offsets:
        self._answer()
        self.asked += 1
        self.timeouts.append(timeout)
        if self.wrong_answers:
            return self.wrong_answers.pop(0)
        if not set(partitions) <= self.ends.keys():
            raise KafkaTimeoutError("no offset was found")
        return {one: self.ends[one] for one in partitions}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | None]:
        return {
            one: OffsetAndTimestamp(-(-ms // 1000), ms, -1) if ms < self.ends[one] * 1000 else None
            for one, ms in times.items()
        }

    def committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {one: self.commits[one] for one in partitions if one in self.commits}

    def await_record(self, offsets: Offsets, seconds: float) -> None:
        self.waits += 1
        deadline = self.time.now + seconds
        while self.outage is None and self.time.now < deadline - 1e-6:
            if any(at < self.ends.get(one, at) for one, at in offsets.items()):
                return
            self.time.sleep(min(0.01, deadline - self.time.now))

    def bytes_per_offset(self, partition: TopicPartition, offset: int) -> float | None:
        return self.bytes


def a_plan(
    cluster: Cluster,
    time: Time | None = None,
    wanted: Callable[[], bool] = lambda: True,
    **given: Any,
) -> StreamPlan:
    """A plan of a process that has just begun."""
    named = {name.replace("__", "."): str(value) for name, value in given.items()}
    options = read_options(
        {"kafka.bootstrap.servers": "a:1", "subscribe": "orders"} | named, stream=True
    )
    time = time or Time()
    cluster.time = time
    return StreamPlan(
        options,
        cluster,
        clock=time.clock,
        wall_clock=time.clock,
        sleep=time.sleep,
        wanted=wanted,
    )


def latest(plan: StreamPlan, start: Any, *, everything: bool = False) -> Any:
    """The end of the next batch, through the log: as text and back."""
    return json.loads(json.dumps(plan.latest(start, everything=everything)))


def told(plan: StreamPlan, start: Any, end: Any) -> list[tuple[int, int, int]]:
    """(partition, start, end) of each range of a batch."""
    return [(one.partition, one.start, one.end) for task in plan.tasks(start, end) for one in task]


def offsets(*ends: int) -> dict[str, Any]:
    return {"orders": {str(one): end for one, end in enumerate(ends)}}


# -- where it begins


def test_a_query_begins_where_spark_was_told_first() -> None:
    cluster = Cluster({A: 10, B: 20})
    plan = a_plan(cluster)

    assert plan.initial() == offsets(10, 20)
    cluster.ends[A] = 15
    assert plan.initial() == offsets(10, 20), "Spark asks twice, and must hear the same"


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        ({"startingOffsets": "earliest"}, (3, 0)),
        ({"startingOffsets": '{"orders": {"0": 5, "1": -1}}'}, (5, 20)),
        ({"startingOffsets": '{"orders": {"1": -2}}', "startingOffsetsDefault": "latest"}, (10, 0)),
        ({"startingTimestamp": 7_000}, (7, 7)),
        ({"startingOffsets": "-994s"}, (6, 6)),
        ({"startingOffsets": "-985s"}, (10, 15)),
        ({"startingTimestamp": "-985s"}, (10, 15)),
        ({"startingOffsets": "group", "kafka__group__id": "g"}, (3, 12)),
        (
            {"startingTimestamp": 15_000, "startingOffsetsByTimestampStrategy": "latest"},
            (10, 15),
        ),
    ],
)
def test_a_query_begins_where_its_options_say(given: Any, begins: tuple[int, int]) -> None:
    cluster = Cluster({A: 10, B: 20})
    cluster.first[A] = 3
    cluster.commits = {B: 12}

    assert a_plan(cluster, **given).initial() == offsets(*begins)


def test_a_time_after_the_last_record_is_refused() -> None:
    plan = a_plan(Cluster({A: 10}), startingTimestamp=15_000)

    with pytest.raises(ConfigurationError, match="orders-0 has no record at or after 15000 ms"):
        latest(plan, plan.initial())


def test_a_relative_time_after_the_last_record_is_refused_if_that_is_asked_for() -> None:
    given = {"startingOffsets": "-985s", "startingOffsetsByTimestampStrategy": "error"}
    plan = a_plan(Cluster({A: 10}), **given)

    with pytest.raises(ConfigurationError, match="orders-0 has no record at or after 15000 ms"):
        latest(plan, plan.initial())


def test_offsets_must_name_every_partition_that_is_read_and_no_other() -> None:
    for given, said in (
        ('{"orders": {"0": 5}}', "it lacks orders-1"),
        ('{"orders": {"0": 5, "1": -1, "2": 5}}', "names orders-2"),
    ):
        plan = a_plan(Cluster({A: 10, B: 20}), startingOffsets=given)

        for _ in range(2):
            with pytest.raises(ConfigurationError, match=said):
                latest(plan, plan.initial())


def test_the_first_batch_says_where_it_begins_so_that_a_later_latest_loses_nothing() -> None:
    cluster = Cluster({A: 10})
    killed = a_plan(cluster)
    end = latest(killed, killed.initial())
    cluster.ends[A] = 30

    again = a_plan(cluster)

    assert again.initial() == offsets(30)
    assert told(again, again.initial(), end) == []
    assert told(again, end, latest(again, end)) == [(0, 10, 30)]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_partition_added_after_the_first_batch_was_logged_is_no_loss(starting: str) -> None:
    cluster = Cluster({A: 10})
    killed = a_plan(cluster, startingOffsets=starting)
    start = killed.initial()
    cluster.ends[A] = 12
    end = latest(killed, start)
    cluster.ends[B], cluster.first[B] = 5, 0

    again = a_plan(cluster, startingOffsets=starting)

    assert told(again, again.initial(), end) == told(killed, start, end)
    assert told(again, end, latest(again, end)) == [(1, 0, 5)]


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ({"startingOffsets": '{"orders": {"0": 5}}'}, 12),
        ({"startingOffsets": '{"orders": {"0": -2}}'}, 12),
        ({"startingOffsets": '{"orders": {"0": -2}}'}, 5),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": 5000}}'}, 12),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": 5000}}'}, 5),
    ],
)
def test_a_partition_added_after_the_first_batch_was_logged_need_not_be_named(
    given: Any, end: int
) -> None:
    cluster = Cluster({A: 6})
    cluster.first[A] = 5
    killed = a_plan(cluster, **given)
    start = killed.initial()
    cluster.ends[A] = end
    first = latest(killed, start)
    cluster.ends[B], cluster.first[B] = 3, 0

    again = a_plan(cluster, **given)

    assert told(again, again.initial(), first) == told(killed, start, first)
    assert told(again, first, latest(again, first)) == [(1, 0, 3)]


def test_a_first_batch_is_finished_though_its_start_cannot_be_looked_up_again() -> None:
    cluster = Cluster({A: 10})
    killed = a_plan(cluster, startingTimestamp=8_000)
    start = killed.initial()
    end = latest(killed, start)
    cluster.ends[A] = cluster.first[A] = 8

    again = a_plan(cluster, startingTimestamp=8_000)

    assert told(again, again.initial(), end) == told(killed, start, end) == [(0, 8, 10)]


def test_records_that_came_before_the_first_batch_was_logged_are_in_it() -> None:
    cluster = Cluster({A: 10})
    plan = a_plan(cluster)
    start = plan.initial()
    cluster.ends[A] = 12

    end = latest(plan, start)

    assert end == offsets(12) | {START: offsets(10)}
    assert told(a_plan(cluster), offsets(12), end) == [(0, 10, 12)]


def test_a_start_at_offset_0_is_not_said_so_that_the_checkpoint_is_that_of_sparks_own_source() -> (
    None
):
    for given in ("earliest", '{"orders": {"0": 0}}'):
        plan = a_plan(Cluster({A: 10}), startingOffsets=given)
        assert latest(plan, plan.initial()) == offsets(10)


@pytest.mark.parametrize("given", ["earliest", '{"orders": {"0": 3, "1": 0}}'])
def test_only_a_start_above_offset_0_is_said(given: str) -> None:
    cluster = Cluster({A: 10, B: 20})
    cluster.first[A] = 3
    plan = a_plan(cluster, startingOffsets=given)

    end = latest(plan, plan.initial())

    assert end == offsets(10, 20) | {START: offsets(3)}
    assert latest(plan, end) == end
    assert told(plan, plan.initial(), end) == [(0, 3, 10), (1, 0, 20)]


# -- the first batch is planned, and the query is killed before the batch is finished


@pytest.mark.parametrize("after", [12, 30, 40])
def test_records_that_are_deleted_before_the_first_batch_is_run_again_are_a_loss(
    after: int,
) -> None:
    cluster = Cluster({A: 30})
    killed = a_plan(cluster, startingOffsets="earliest")
    end = latest(killed, killed.initial())
    cluster.ends[A], cluster.first[A] = 40, after
    strict, tolerant = lossy(cluster, startingOffsets="earliest")

    with pytest.raises(DataLossError, match=rf"offset 0 of orders-0, and .* offset {after}\."):
        told(strict, strict.initial(), end)
    assert told(tolerant, tolerant.initial(), end) == ([(0, after, 30)] if after < 30 else [])


def test_a_first_batch_that_does_not_begin_at_0_has_the_same_start_when_it_is_run_again() -> None:
    cluster = Cluster({A: 30})
    cluster.first[A] = 3
    killed = a_plan(cluster, startingOffsets="earliest")
    end = latest(killed, killed.initial())
    cluster.first[A] = 12

    for again in lossy(cluster, startingOffsets="earliest"):
        # The task asks for offset 3, and hears of the loss.
        assert told(again, again.initial(), end) == [(0, 3, 30)]


def test_nothing_is_lost_by_a_first_batch_without_records_of_the_partition() -> None:
    cluster = Cluster({A: 30, B: 0})
    killed = a_plan(cluster, startingOffsets="earliest")
    end = latest(killed, killed.initial())
    cluster.ends[B], cluster.first[B] = 9, 5

    again = a_plan(cluster, startingOffsets="earliest")

    assert told(again, again.initial(), end) == [(0, 0, 30)]
    assert told(again, end, latest(again, end)) == [(1, 0, 9)], "the next batch misses them"


@pytest.mark.parametrize("before", ["earliest", "latest", '{"orders": {"0": 5}}', "-996s"])
@pytest.mark.parametrize("after", ["earliest", "latest", '{"orders": {"0": 7}}', "-990s"])
def test_a_start_that_is_changed_before_the_first_batch_is_run_again_skips_nothing(
    before: str, after: str
) -> None:
    cluster = Cluster({A: 10})
    killed = a_plan(cluster, startingOffsets=before)
    start = killed.initial()
    cluster.ends[A] = 12
    end = latest(killed, start)
    planned = told(killed, start, end)

    again = a_plan(cluster, startingOffsets=after)

    try:
        assert told(again, again.initial(), end) == planned
    except DataLossError:
        assert before == "earliest", "all others say where they begin"
        assert after != "earliest"


@pytest.mark.parametrize("starting", ["earliest", "latest", '{"orders": {"0": 1, "1": 0}}'])
def test_a_partition_that_is_deleted_before_the_first_batch_is_planned_is_a_loss(
    starting: str,
) -> None:
    cluster = Cluster({A: 10, B: 5})
    plan = a_plan(cluster, startingOffsets=starting)
    start = plan.initial()
    del cluster.ends[B]
    end = latest(plan, start)

    for one in (plan, a_plan(cluster, startingOffsets=starting)):
        with pytest.raises(DataLossError, match="orders-1 do not exist any more"):
            told(one, one.initial(), end)


@pytest.mark.parametrize("starting", ["earliest", '{"orders": {"0": 0}}'])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_partition_that_is_added_before_the_first_batch_begins_at_0_or_is_a_loss(
    starting: str, restarted: bool
) -> None:
    cluster = Cluster({A: 10})
    plan = a_plan(cluster, startingOffsets=starting)
    start = plan.initial()
    cluster.ends[B], cluster.first[B] = 9, 0 if restarted else 3
    end = latest(plan, start)
    if restarted:
        assert told(plan, start, end) == [(0, 0, 10), (1, 0, 9)]
        cluster.first[B] = 3
        plan = a_plan(cluster, startingOffsets=starting)

    with pytest.raises(DataLossError, match="orders-1"):
        told(plan, plan.initial(), end)


@pytest.mark.parametrize("starting", ["latest", "-1ms"])
def test_a_partition_that_is_added_before_the_first_batch_of_latest_is_read_from_offset_0(
    starting: str,
) -> None:
    cluster = Cluster({A: 10})
    plan = a_plan(cluster, startingOffsets=starting)
    start = plan.initial()
    cluster.ends[B], cluster.first[B] = 9, 3

    end = latest(plan, start)

    for one in (plan, a_plan(cluster, startingOffsets=starting)):
        # The task hears that the records below offset 3 are lost.
        assert told(one, one.initial(), end) == [(1, 0, 9)]


# -- while it runs


def test_nothing_new_is_the_start_itself_whatever_it_says() -> None:
    cluster = Cluster({A: 10})
    plan = a_plan(cluster)
    first = latest(plan, plan.initial())

    assert latest(plan, first) == first
    assert latest(a_plan(cluster), offsets(10)) == offsets(10)


def test_an_idle_query_waits_for_records_and_goes_on_as_soon_as_there_are_some() -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time, idleWaitMs=200)
    began = time.now

    assert latest(plan, offsets(10)) == offsets(10)
    assert time.now - began == pytest.approx(0.2, abs=0.06)

    began = time.now
    time.while_asleep = lambda: cluster.ends.update({A: 11}) if time.now >= began + 0.1 else None
    assert latest(plan, offsets(10)) == offsets(11)
    assert time.now - began == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("quiet", [0.0, 1.0, 5.0, 60.0])
def test_a_query_hears_of_a_record_at_once_however_long_it_was_idle(quiet: float) -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time)
    end = offsets(10)
    written = time.now + quiet + 0.5
    time.while_asleep = lambda: cluster.ends.update({A: 11}) if time.now >= written else None

    while (found := latest(plan, end)) == end:
        time.sleep(0.01)  # spark.sql.streaming.pollingDelay

    assert found == offsets(11)
    assert time.now - written <= 0.03


def test_a_query_that_is_idle_for_long_asks_once_a_second_and_is_asked_so_by_spark() -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time)
    end, began, calls = offsets(10), time.now, 0

    while time.now < began + 60:
        assert latest(plan, end) == end
        time.sleep(0.01)
        calls += 1

    assert calls <= 60 + 30, "the first ten seconds have a few more"
    assert cluster.asked <= calls + 15
    assert cluster.waits <= calls + 15
    assert cluster.looked_up <= 60 * 1.1


def test_ends_that_no_record_tells_of_are_seen_after_a_wait() -> None:
    """Such as the end of a transaction, or of a log that was cut."""
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time, idleWaitMs=200)
    latest(plan, offsets(10))
    cluster.wrong_answers = [{A: 11}]
    began = time.now

    assert latest(plan, offsets(10)) == offsets(11)
    assert time.now - began <= 0.25


def test_a_wait_for_records_that_fails_or_ends_for_nothing_is_not_repeated_at_once() -> None:
    class Refused(Cluster):
        def await_record(self, offsets: Offsets, seconds: float) -> None:
            self.waits += 1  # the broker lets nobody read

    cluster, time = Refused({A: 10}), Time()
    plan = a_plan(cluster, time)
    end, began = offsets(10), time.now

    while time.now < began + 60:
        assert latest(plan, end) == end
        time.sleep(0.01)

    assert cluster.waits <= 60 * 1.2 + 30


def test_a_partition_that_is_added_to_an_idle_query_is_seen_within_two_seconds() -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time)
    latest(plan, offsets(10))
    cluster.ends[B] = cluster.first[B] = 0
    began = time.now

    while latest(plan, offsets(10)) == offsets(10):
        time.sleep(0.01)

    assert time.now - began <= 2


def test_the_last_answer_is_not_used_for_a_trigger_that_comes_later() -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time)
    latest(plan, offsets(10))
    cluster.ends[A] = 11
    time.sleep(0.5)
    began = time.now

    assert latest(plan, offsets(10)) == offsets(11)
    assert time.now == began


def test_a_query_that_waits_for_more_records_does_not_ask_without_a_pause() -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time, minOffsetsPerTrigger=100, maxTriggerDelay="15m")
    first = latest(plan, offsets(0))
    assert first == offsets(10), "the first batch has no delay"
    cluster.ends[A] = 11
    began = time.now

    for _ in range(40):
        assert latest(plan, first) == first
    assert time.now - began >= 10


def test_an_end_below_what_was_read_is_asked_for_again_before_it_counts() -> None:
    cluster, time = Cluster({A: 10}), Time()
    cluster.wrong_answers = [{A: 4}, {A: 4}]
    plan = a_plan(cluster, time)

    assert latest(plan, offsets(9)) == offsets(10)
    assert time.now == 1002.0


def test_limits_apply_together_and_to_new_partitions() -> None:
    cluster = Cluster({A: 1000, B: 1000, C: 1000})
    cluster.bytes = 10.0
    start = offsets(900, 0)

    assert latest(a_plan(cluster, maxOffsetsPerTrigger=210), start) == offsets(910, 100, 100)
    assert latest(a_plan(cluster, maxBytesPerTrigger=2100), start) == offsets(910, 100, 100)
    both = a_plan(cluster, maxOffsetsPerTrigger=2100, maxBytesPerTrigger=2100)
    assert latest(both, start) == offsets(910, 100, 100)


def test_a_sample_that_fails_is_taken_again_for_the_next_batch() -> None:
    cluster = Cluster({A: 1_000_000})
    plan = a_plan(cluster, maxBytesPerTrigger=10_000_000)
    cluster.bytes = None
    assert latest(plan, offsets(0)) == offsets(10_000), "without a sample an offset is 1 kB"
    cluster.bytes = 100.0
    assert latest(plan, offsets(10_000)) == offsets(110_000)
    cluster.bytes = None
    assert latest(plan, offsets(110_000)) == offsets(210_000)


def test_everything_is_read_if_spark_wants_everything() -> None:
    plan = a_plan(Cluster({A: 1000}), maxOffsetsPerTrigger=10, minOffsetsPerTrigger=5)

    assert latest(plan, offsets(0), everything=True) == offsets(1000)


def test_a_batch_waits_for_the_least_number_of_offsets() -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time, minOffsetsPerTrigger=5, maxTriggerDelay="1m")
    assert latest(plan, offsets(0)) == offsets(10)

    cluster.ends[A] = 12
    assert latest(plan, offsets(10)) == offsets(10)
    time.now += 60
    assert latest(plan, offsets(10)) == offsets(12)


def test_available_now_ends_where_the_partitions_ended_at_first() -> None:
    cluster = Cluster({A: 10})
    plan = a_plan(cluster, maxOffsetsPerTrigger=6)
    plan.pin()

    assert latest(plan, offsets(0)) == offsets(6)
    cluster.ends |= {A: 50, B: 50}
    cluster.first[B] = 0
    assert latest(plan, offsets(6)) == offsets(10)
    assert latest(plan, offsets(10)) == offsets(10)
    assert plan.report() == offsets(10)


def test_partitions_that_are_added_are_read_from_their_beginning() -> None:
    cluster = Cluster({A: 10})
    plan = a_plan(cluster)
    cluster.ends[B] = 5
    cluster.first[B] = 0

    end = latest(plan, offsets(10))

    assert end == offsets(10, 5)
    assert told(a_plan(cluster), offsets(10), end) == [(1, 0, 5)]


# -- while no broker answers

OUTAGES = [
    KafkaTimeoutError("no broker answered within 60 s"),
    BootstrapError(attempts={"a:1": "Connection refused"}),
    BrokersUnreachableError(attempts={"a:2": "Connection refused"}),
    NodeNotReadyError("1"),
]


def ends_after(cluster: Cluster, time: Time, seconds: float) -> None:
    """The outage ends at that time."""
    until = time.now + seconds

    def look() -> None:
        if time.now >= until:
            cluster.outage = None

    time.while_asleep = look


@pytest.mark.parametrize("outage", OUTAGES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", [False, True], ids=["new", "goes on from a checkpoint"])
def test_a_running_query_waits_for_the_brokers_as_long_as_they_are_away(
    outage: KafkaError, again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time, startingOffsets="earliest")
    if again:
        assert told(plan, offsets(0), offsets(10)) == [(0, 0, 10)]
    else:
        assert latest(plan, plan.initial()) == offsets(10)

    cluster.outage = outage
    ends_after(cluster, time, 5_000)
    cluster.ends[A] = 12
    assert latest(plan, offsets(10)) == offsets(12)

    assert time.now >= 6_000
    waits = caplog.text.count(f"waits until brokers answer: {outage}")
    assert 80 <= waits <= 85, "one warning a minute"
    assert "goes on after 5000 s" in caplog.text

    cluster.ends[B], cluster.first[B] = 3, 0
    cluster.outage = outage
    ends_after(cluster, time, 100)
    assert told(plan, offsets(12), offsets(12, 3)) == [(1, 0, 3)]


@pytest.mark.parametrize("outage", OUTAGES, ids=lambda error: type(error).__name__)
def test_a_query_that_has_planned_nothing_yet_says_that_no_broker_answers(
    outage: KafkaError,
) -> None:
    cluster = Cluster({A: 10})
    begun = a_plan(cluster)
    begun.initial()
    cluster.outage = outage

    for ask in (
        a_plan(cluster).initial,
        lambda: latest(begun, offsets(10)),
        lambda: latest(a_plan(cluster), offsets(8)),
        lambda: told(a_plan(cluster), offsets(8), offsets(10)),
    ):
        with pytest.raises(type(outage)):
            ask()


def test_a_topic_that_is_deleted_in_an_outage_is_a_loss_and_not_waited_for() -> None:
    cluster, time = Cluster({A: 10, B: 5}), Time()
    plan = a_plan(cluster, time)
    latest(plan, offsets(9, 5))
    cluster.outage = OUTAGES[0]
    ends_after(cluster, time, 300)
    del cluster.ends[B]

    end = latest(plan, offsets(10, 5))

    with pytest.raises(DataLossError, match="orders-1 do not exist any more"):
        told(plan, offsets(10, 5), end)


def test_an_error_that_does_not_pass_ends_a_running_query() -> None:
    cluster = Cluster({A: 10})
    plan = a_plan(cluster)
    latest(plan, offsets(9))
    cluster.outage = TopicAuthorizationFailedError("orders")

    with pytest.raises(TopicAuthorizationFailedError):
        latest(plan, offsets(10))


def test_a_query_whose_jvm_has_gone_waits_for_no_broker() -> None:
    cluster, time = Cluster({A: 10}), Time()
    plan = a_plan(cluster, time, wanted=lambda: time.now < 1_300)
    latest(plan, offsets(9))
    cluster.outage = OUTAGES[0]

    with pytest.raises(KafkaTimeoutError):
        latest(plan, offsets(10))

    assert time.now == pytest.approx(1_300, abs=1)


# -- what is gone


def lossy(cluster: Cluster, **given: Any) -> tuple[StreamPlan, StreamPlan]:
    """A plan that fails on data loss, and one that does not."""
    return a_plan(cluster, **given), a_plan(cluster, failOnDataLoss="false", **given)


def test_a_partition_that_does_not_exist_any_more_is_a_loss() -> None:
    strict, tolerant = lossy(Cluster({A: 10}))

    with pytest.raises(DataLossError, match="orders-1 do not exist any more"):
        told(strict, offsets(0, 5), offsets(10))
    assert told(tolerant, offsets(0, 5), offsets(10)) == [(0, 0, 10)]


def test_a_partition_that_is_deleted_while_the_query_is_idle_is_a_loss_and_soon() -> None:
    cluster, time = Cluster({A: 10, B: 5}), Time()
    plan = a_plan(cluster, time, idleWaitMs=200)
    time.while_asleep = lambda: cluster.ends.pop(B, None)

    assert latest(plan, offsets(10, 5)) == offsets(10, 5), "the next batch will tell"
    assert cluster.timeouts == [None, 5.0], "who waits for news does not wait for the topic"

    end = latest(plan, offsets(10, 5))
    with pytest.raises(DataLossError, match="orders-1 do not exist any more"):
        told(plan, offsets(10, 5), end)


def test_a_partition_that_was_added_and_deleted_before_a_restart_is_a_loss() -> None:
    strict, tolerant = lossy(Cluster({A: 10}))

    with pytest.raises(DataLossError, match="orders-1 do not exist any more"):
        told(strict, offsets(8), offsets(10, 5))
    assert told(tolerant, offsets(8), offsets(10, 5)) == [(0, 8, 10)]


def test_a_partition_that_ends_lower_than_it_was_read_is_a_loss_and_nothing_is_read_twice() -> None:
    cluster = Cluster({A: 4, B: 7})
    strict, tolerant = lossy(cluster)
    end = latest(tolerant, offsets(9, 5))

    assert end == offsets(4, 7)
    assert told(tolerant, offsets(9, 5), end) == [(1, 5, 7)]
    with pytest.raises(DataLossError, match="orders-0 was read up to offset 9 and now ends at 4"):
        told(strict, offsets(9, 5), end)


def test_a_new_partition_whose_first_records_are_gone_is_a_loss() -> None:
    cluster = Cluster({A: 10, B: 9})
    cluster.first[B] = 3
    strict, tolerant = lossy(cluster)

    with pytest.raises(DataLossError, match="orders-1 is new and begins with offset 3"):
        told(strict, offsets(10), offsets(10, 9))
    assert told(tolerant, offsets(10), offsets(10, 9)) == [(1, 3, 9)]


@pytest.mark.parametrize("new_end", [4, 9, 30])
def test_a_topic_that_was_created_anew_is_read_from_its_beginning(new_end: int) -> None:
    cluster = Cluster({A: 9})
    strict, tolerant = lossy(cluster, startingOffsets="earliest")
    for plan in (strict, tolerant):
        latest(plan, plan.initial())

    cluster.id, cluster.ends[A] = "id-2", new_end

    with pytest.raises(DataLossError, match="topic orders was deleted and created anew"):
        latest(strict, offsets(9))
    end = latest(tolerant, offsets(9))
    assert end == offsets(new_end) | {START: offsets(0)}
    assert told(a_plan(cluster), offsets(9), end) == [(0, 0, new_end)]
    assert latest(tolerant, end) == end


def test_a_topic_that_is_deleted_for_longer_than_a_batch_is_read_when_it_is_created_anew() -> None:
    cluster = Cluster({A: 9})
    cluster.subscribed = {"orders"}
    _, tolerant = lossy(cluster, startingOffsets="earliest")
    latest(tolerant, tolerant.initial())
    cluster.ends.clear()
    assert latest(tolerant, offsets(9)) == {}
    assert told(tolerant, offsets(9), {}) == []
    assert latest(tolerant, {}) == {}

    cluster.id, cluster.ends[A] = "id-2", 4

    assert latest(tolerant, {}) == offsets(4)
    assert told(tolerant, {}, offsets(4)) == [(0, 0, 4)]


def test_a_query_may_be_restarted_while_a_topic_is_deleted_that_it_goes_on_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    invoice = TopicPartition("invoices", 0)
    cluster = Cluster({invoice: 3})
    cluster.subscribed = {"orders", "invoices"}
    given = {"subscribe": "orders,invoices", "startingOffsets": "earliest"}
    strict, tolerant = lossy(cluster, **given)

    with pytest.raises(ConfigurationError, match="there is no such topic"):
        latest(strict, {"invoices": {"0": 1}})
    with pytest.raises(ConfigurationError, match="there is no such topic"):
        lossy(cluster, **given)[1].initial()
    end = latest(tolerant, {"invoices": {"0": 1}})
    assert end == {"invoices": {"0": 3}}
    assert [one.start for task in tolerant.tasks({"invoices": {"0": 1}}, end) for one in task] == [
        1
    ]
    latest(tolerant, end)
    assert caplog.text.count("the options name orders, and there is no such topic") == 1

    cluster.ends[A], cluster.first[A] = 4, 0
    while latest(tolerant, end) == end:
        pass

    assert latest(tolerant, end) == {"invoices": {"0": 3}, **offsets(4)}


@pytest.mark.parametrize("missing", [{A, B}, {B}], ids=["the topic", "a new partition"])
def test_a_broker_that_is_behind_with_its_metadata_is_asked_again(
    missing: set[TopicPartition],
) -> None:
    cluster = Cluster({A: 9, B: 5})
    strict, _ = lossy(cluster, startingOffsets="earliest")
    latest(strict, strict.initial())
    cluster.ends[B] = 6

    cluster.without = [missing, missing]

    assert latest(strict, offsets(9, 5)) == offsets(9, 6)


@pytest.mark.parametrize(
    "damaged",
    [
        {"logOffset": 3},
        {"orders": {"0": 1.5}},
        {"orders": {"0": -5}},
        {"orders": {"0": True}},
        {"orders": {"0": "7"}},
        {"orders": {"-1": 4}},
        ["orders"],
    ],
)
def test_a_checkpoint_that_is_damaged_or_of_another_source_is_refused(damaged: Any) -> None:
    with pytest.raises(ConfigurationError, match="use another checkpointLocation"):
        latest(a_plan(Cluster({A: 1})), damaged)


def test_a_query_that_began_without_a_topic_reads_the_first_one_from_its_beginning() -> None:
    cluster = Cluster({})
    plan = a_plan(cluster)
    start = plan.initial()
    assert latest(plan, start) == {}
    cluster.ends[A], cluster.first[A] = 5, 0

    end = latest(plan, start)

    assert told(plan, start, end) == [(0, 0, 5)]
    restarted = a_plan(cluster)
    assert told(restarted, restarted.initial(), end) == [(0, 0, 5)]
