"""The fetch manager: what is asked of whom and when, and what reaches the application."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from kafka.errors import (
    CorruptRecordError,
    FencedLeaderEpochError,
    FetchSessionIdNotFoundError,
    InconsistentTopicIdError,
    InvalidFetchSessionEpochError,
    KafkaConnectionError,
    KafkaStorageError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    ReplicaNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import NEVER, REFUSED_PAUSE
from aktor.errors import CorruptBatchError
from aktor.events.metadata import (
    LeaderEpochsUnknown,
    LeadersMoved,
    PartitionInfo,
    RefreshMetadata,
)
from aktor.events.network import ExpectFetches, Lane, Request
from aktor.events.polling import Poll
from aktor.events.positions import Assigned, Position, SeekPartitions
from aktor.events.present import FetchNow
from aktor.managers.fetch.answer import CHUNK_OVERHEAD
from aktor.managers.fetch.manager import CROWDED_WAIT, EMPTY_PACE
from aktor.managers.fetch.room import CreditError
from aktor.protocol.fetch import MAX_VERSION, MIN_VERSION
from tests.unit.managers.fetch.builders import (
    FetchHarness,
    a_batch,
    chunks,
    forgotten,
    of,
    offsets,
    tp,
)

KIB = 1024


def refreshes(said: list[object]) -> list[RefreshMetadata]:
    return [one for one in said if isinstance(one, RefreshMetadata)]


def expected(harness: FetchHarness) -> list[set[int]]:
    """The nodes that were said to be asked soon, message by message."""
    return [set(one.nodes) for one in harness.said if isinstance(one, ExpectFetches)]


# -- what is asked


def test_an_assigned_partition_is_fetched_from_its_leader_as_the_settings_say() -> None:
    harness = FetchHarness.reading(
        {0: (2, 9)},
        fetch_min_bytes=7,
        fetch_max_wait=0.25,
        max_partition_fetch_bytes=3000,
        client_rack="east",
        isolation_level="read_committed",
    )

    request = harness.the_request()

    body = request.body
    (topic,) = body.topics
    (partition,) = topic.partitions
    assert (request.to, request.lane) == (2, Lane.FETCH)
    assert (body.min_bytes, body.max_wait_ms, body.rack_id) == (7, 250, "east")
    assert body.isolation_level == 1
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("orders", 0, 0)
    assert (partition.partition_max_bytes, partition.current_leader_epoch) == (3000, 9)
    assert partition.last_fetched_epoch == -1


@pytest.mark.parametrize("version", range(MIN_VERSION, MAX_VERSION + 1))
def test_a_request_can_be_written_in_every_version_that_it_allows(version: int) -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})
    harness.answer(harness.the_request(), of(0), of(1))
    harness.pause(1)
    harness.seek(0, 33, epoch=2)
    body = harness.the_request(1.0).body

    read = FetchRequest.decode(body.encode(version=version), version=version)

    assert [(one.partition, one.fetch_offset) for one in read.topics[0].partitions] == [(0, 33)]


def test_partitions_of_one_leader_share_a_request_and_leaders_are_asked_in_parallel() -> None:
    """Scenario 96: one request in flight for a node, however often it is asked."""
    harness = FetchHarness.reading({0: 1, 1: 2, 2: 1})

    requests = harness.tick()
    harness.consume({0: 0})

    assert {one.to: set(offsets(one)) for one in requests} == {1: {0, 2}, 2: {1}}
    assert harness.tick() == []


def test_a_partition_without_a_position_waits_for_it() -> None:
    """Scenario 94, MissingPosition."""
    harness = FetchHarness()
    harness.cluster({0: 1})
    harness.assign({0: None})
    assert harness.tick() == []

    harness.resolve(0, 40, epoch=7)  # for another epoch
    assert harness.tick() == []
    harness.resolve(0, 42, epoch=1)

    assert offsets(harness.the_request()) == {0: 42}
    assert len(harness.events("position.dropped")) == 1


def test_who_leads_partitions_whose_positions_are_looked_up_is_connected_to_meanwhile() -> None:
    harness = FetchHarness()
    harness.cluster({0: 1, 1: 2, 2: 2})
    harness.assign({0: None, 1: None, 2: 7})

    harness.tick()
    harness.tick()

    assert expected(harness) == [{1, 2}]
    harness.resolve(0, 40, epoch=1)
    harness.resolve(1, 40, epoch=1)
    harness.tick()
    harness.reset(1, epoch=2)
    harness.tick()
    assert expected(harness) == [{1, 2}, {2}]


def test_who_only_asks_for_positions_or_has_paused_all_is_connected_to_nobody() -> None:
    harness = FetchHarness()
    harness.cluster({0: 1, 1: 2})
    harness.assign({0: None, 1: None}, polled=False)
    harness.pause(1)
    harness.tick()
    assert expected(harness) == []

    harness.consume({})
    harness.tick()
    assert expected(harness) == [{1}]


def test_what_is_assigned_by_hand_is_fetched_once_the_application_polls() -> None:
    """Programs that ask for positions only cost no records."""
    harness = FetchHarness()
    harness.cluster({0: 1, 1: 1})
    harness.assign({0: 0}, polled=False)
    assert harness.tick() == []
    harness.seek(0, 5, epoch=2)
    assert harness.tick() == []

    harness.consume({})
    assert offsets(harness.the_request()) == {0: 5}
    harness.assign({0: 0, 1: 0}, epoch=3, polled=False)

    known = harness.the_request()
    assert offsets(known) == {0: 0}  # in a new epoch, but the application polls for it already
    harness.answer(known, of(0), session_id=0)
    assert harness.tick() == []
    harness.consume({})
    assert offsets(harness.the_request()) == {1: 0}


def test_what_a_group_assigns_is_fetched_at_once() -> None:
    """While the listener runs, say: the application is inside of a poll."""
    harness = FetchHarness()
    harness.cluster({0: 1})

    harness.assign({0: 0}, by_group=True, polled=False)

    assert offsets(harness.the_request()) == {0: 0}


def test_a_consumer_without_partitions_is_idle() -> None:
    harness = FetchHarness()
    harness.cluster({0: 1})

    assert harness.tick() == []
    assert harness.wake_at == math.inf


def test_while_a_request_is_in_flight_the_manager_is_idle() -> None:
    harness = FetchHarness.reading({0: 1})
    harness.tick()

    assert harness.tick(0.1) == []
    assert harness.wake_at == pytest.approx(harness.now + 1.4)  # when the answer is late


# -- what is answered


def test_batches_reach_the_application_as_one_chunk_and_the_next_are_fetched_at_once() -> None:
    harness = FetchHarness.reading({0: 1})
    data = a_batch(0, 10) + a_batch(10, 5)

    (chunk,) = chunks(
        harness.answer(harness.the_request(), of(0, data + a_batch(15, 5)[:70], aborted=((3, 4),)))
    )

    assert (chunk.partition, chunk.epoch, chunk.offset) == (tp(0), 1, 0)
    assert bytes(chunk.data) == data
    assert chunk.size == len(data) + 70 + CHUNK_OVERHEAD
    assert (chunk.high_watermark, chunk.last_stable_offset, chunk.log_start_offset) == (
        1000,
        1000,
        0,
    )
    assert chunk.aborted == ((3, 4),)
    assert offsets(harness.the_request()) == {0: 15}


def test_an_empty_answer_tells_the_high_watermark_once() -> None:
    """Scenario 95: an idle consumer is idle."""
    harness = FetchHarness.reading({0: 1})

    first = harness.answer(harness.the_request(), of(0, high_watermark=5), after=0.5)
    second = harness.answer(harness.the_request(), of(0, high_watermark=5), after=0.5)
    third = harness.answer(harness.the_request(), after=0.5)
    fourth = harness.answer(harness.the_request(), of(0, high_watermark=6), after=0.5)

    (chunk,) = chunks(first)
    assert (chunk.high_watermark, chunk.size, len(chunk.data)) == (5, 0, 0)
    assert second == third == []
    assert [one.high_watermark for one in chunks(fourth)] == [6]


def test_an_empty_answer_lets_the_node_be_asked_again() -> None:
    """KAFKA-19259: every outcome clears the flag."""
    harness = FetchHarness.reading({0: 1})

    harness.answer(harness.the_request(), after=0.5)

    assert len(harness.tick()) == 1


def test_a_broker_that_answers_at_once_with_nothing_is_not_asked_in_a_loop() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.0)
    harness.answer(harness.the_request(), of(0))

    assert harness.tick() == []
    assert harness.wake_at == pytest.approx(harness.now + EMPTY_PACE)
    assert len(harness.tick(EMPTY_PACE)) == 1


def test_a_broker_that_had_nothing_may_wait_longer_until_it_has_something() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5, fetch_idle_wait=2.0)

    first = harness.the_request()
    harness.answer(first, of(0), after=0.5)
    second = harness.the_request()
    harness.answer(second, of(0, data := a_batch(0, 3)), after=1.9)
    harness.consume({0: 3}, freed=len(data) + CHUNK_OVERHEAD)
    third = harness.the_request()

    assert [one.body.max_wait_ms for one in (first, second, third)] == [500, 2000, 500]
    assert second.deadline - first.deadline == pytest.approx(0.5 + 1.5)


def test_while_something_is_buffered_no_broker_may_wait_longer() -> None:
    """The room that its Fetch reserves may be wanted for others."""
    harness = FetchHarness.reading({0: 1, 1: 2}, fetch_max_wait=0.5, fetch_idle_wait=2.0)
    first, second = harness.tick()
    harness.answer(first, of(0, a_batch(0, 3)))
    harness.tick()
    harness.answer(second, of(1), after=0.5)

    (request,) = harness.tick()

    assert (request.to, request.body.max_wait_ms) == (2, 500)


def test_no_broker_may_wait_longer_with_the_room_that_another_needs() -> None:
    """A small buffer: while the Fetch of one is kept, the other could not be asked again."""
    harness = FetchHarness.reading(
        {**dict.fromkeys(range(60), 1), 60: 2},
        fetch_max_wait=0.5,
        fetch_idle_wait=2.0,
        max_buffered_bytes=10_000,
    )
    requests = {one.to: one for one in harness.tick()}
    for node, at in ((1, range(60)), (2, [60])):
        if node in requests:
            harness.answer(requests[node], *map(of, at))
    waits = []
    for _ in range(6):
        for request in harness.tick(0.5):
            if request.lane is Lane.FETCH and request.to == 1:
                waits.append(request.body.max_wait_ms)
                harness.answer(request, *map(of, range(60)), after=0.5)

    assert waits
    assert set(waits) == {500}


def test_a_replica_near_us_may_not_wait_longer() -> None:
    """Before KAFKA-14334 a follower kept a Fetch to its end though a record came."""
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5, fetch_idle_wait=2.0)
    harness.answer(harness.the_request(), of(0, preferred_read_replica=2))
    waits = []
    for _ in range(3):
        request = harness.the_request(0.5)
        assert request.to == 2
        waits.append(request.body.max_wait_ms)
        harness.answer(request, of(0), after=0.5)

    assert waits == [500, 500, 500]


def test_the_first_fetch_of_a_partition_tells_its_end_soon() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1}, fetch_max_wait=0.5, fetch_idle_wait=2.0)
    harness.answer(harness.the_request(), of(0), of(1), after=0.5)
    harness.seek(1, 7, epoch=2)

    sought = harness.the_request()
    harness.answer(sought, of(1), after=0.5)

    assert (offsets(sought), sought.body.max_wait_ms) == ({1: 7}, 500)
    assert harness.the_request().body.max_wait_ms == 2000


def test_a_broker_that_failed_may_not_wait_longer() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5, fetch_idle_wait=2.0)
    harness.answer(harness.the_request(), of(0), after=0.5)
    harness.fail(harness.the_request(), KafkaConnectionError("closed"))

    assert harness.the_request(1.0).body.max_wait_ms == 500


def test_an_unexpected_partition_is_ignored_and_traced() -> None:
    """Scenario 99."""
    harness = FetchHarness.reading({0: 1})

    said = harness.answer(harness.the_request(), of(8, a_batch(0, 3)), of(0, a_batch(0, 3)))

    assert [chunk.partition for chunk in chunks(said)] == [tp(0)]
    (dropped,) = harness.events("fetch.dropped")
    assert (dropped["partition"], dropped["because"]) == ("orders-8", "it was not asked for")


def test_a_batch_larger_than_every_limit_is_told_whole() -> None:
    """Scenario 97."""
    harness = FetchHarness.reading(
        {0: 1}, max_buffered_bytes=4 * KIB, max_partition_fetch_bytes=KIB
    )
    giant = a_batch(0, 10, size=50 * KIB)

    (chunk,) = chunks(harness.answer(harness.the_request(), of(0, giant)))

    assert bytes(chunk.data) == giant
    assert harness.tick() == []
    harness.consume({0: 10}, freed=chunk.size)
    assert offsets(harness.the_request()) == {0: 10}


def test_an_answer_of_less_than_a_batch_is_asked_for_again_after_the_backoff() -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)

    harness.answer(harness.the_request(), of(0, a_batch(0, 3)[:50]))

    assert harness.tick(0.09) == []
    assert len(harness.tick(0.02)) == 1
    assert harness.events("fetch.failed")[0]["because"] == "no complete batch was sent"


def test_a_batch_cut_off_by_another_partitions_data_is_asked_for_at_once() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})

    harness.answer(harness.the_request(), of(0, a_batch(0, 3)), of(1, a_batch(0, 3)[:50]))

    request = harness.the_request()
    assert (offsets(request), forgotten(request)) == ({0: 3}, set())  # 1 is asked for still


# -- seek, reset, assignment, pause


def test_what_was_fetched_before_a_seek_is_dropped_and_costs_nothing() -> None:
    """Scenario 91: a seek wins over what is in flight."""
    harness = FetchHarness.reading(
        {0: 1}, max_buffered_bytes=4 * KIB, max_partition_fetch_bytes=KIB
    )
    before = harness.the_request()
    harness.seek(0, 500, epoch=2)

    said = harness.answer(before, of(0, a_batch(0, 10, size=4 * KIB)))

    assert chunks(said) == []
    assert harness.events("fetch.dropped")[0]["because"] == "the partition has moved on"
    assert offsets(harness.the_request()) == {0: 500}


def test_a_seek_to_where_the_fetch_began_is_another_epoch_all_the_same() -> None:
    harness = FetchHarness.reading({0: 1})
    before = harness.the_request()
    harness.seek(0, 0, epoch=2)

    assert chunks(harness.answer(before, of(0, a_batch(0, 10)))) == []

    (chunk,) = chunks(harness.answer(harness.the_request(1.0), of(0, a_batch(0, 10))))
    assert (chunk.epoch, chunk.offset) == (2, 0)


def test_a_reset_partition_waits_for_its_new_position() -> None:
    harness = FetchHarness.reading({0: 1})
    before = harness.the_request()
    harness.reset(0, epoch=2)

    assert chunks(harness.answer(before, of(0, a_batch(0, 10)))) == []
    assert harness.tick(1.0) == []
    harness.resolve(0, 70, epoch=2)

    assert offsets(harness.the_request()) == {0: 70}


def test_a_seek_or_a_reset_of_a_partition_that_is_not_assigned_is_traced() -> None:
    harness = FetchHarness.reading({0: 1})

    harness.seek(5, 10, epoch=9)
    harness.reset(6, epoch=9)

    assert set(offsets(harness.the_request())) == {0}
    assert [one["partition"] for one in harness.events("fetch.dropped")] == ["orders-5", "orders-6"]


def test_a_partition_that_was_taken_away_is_forgotten_by_its_broker() -> None:
    """Scenarios 92 and 94: unassigned while in flight."""
    harness = FetchHarness.reading({0: 1, 1: 1})
    before = harness.the_request()
    harness.assign({1: 0})

    said = harness.answer(before, of(0, a_batch(0, 10)), of(1, a_batch(0, 10)))

    assert [chunk.partition for chunk in chunks(said)] == [tp(1)]
    request = harness.the_request()
    assert (offsets(request), forgotten(request)) == ({1: 10}, {0})


def test_a_partition_that_keeps_its_epoch_keeps_its_place() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1))

    harness.assign({0: 0, 2: 0})

    harness.cluster({0: 1, 2: 1})
    request = harness.the_request(1.0)
    assert offsets(request) == {0: 10, 2: 0}


def test_a_paused_partition_is_not_fetched_and_its_broker_forgets_it() -> None:
    """Scenario 90, and 94 Paused."""
    harness = FetchHarness.reading({0: 1, 1: 1})
    harness.answer(harness.the_request(), of(0), of(1), after=0.5)

    harness.pause(1)
    paused = harness.the_request()
    harness.answer(paused, after=0.5)
    harness.pause()
    resumed = harness.the_request()

    assert (offsets(paused), forgotten(paused)) == ({}, {1})
    assert offsets(resumed) == {1: 0}


def test_data_that_was_in_flight_when_a_partition_was_paused_is_buffered() -> None:
    """Scenario 91: testInFlightFetchOnPausedPartition."""
    harness = FetchHarness.reading({0: 1})
    before = harness.the_request()
    harness.pause(0)

    assert len(chunks(harness.answer(before, of(0, a_batch(0, 10))))) == 1

    assert harness.tick(1.0) == []
    harness.pause()
    assert offsets(harness.the_request()) == {0: 10}


# -- the bound


def test_fetching_stops_at_the_bound_and_goes_on_when_the_application_has_read() -> None:
    harness = FetchHarness.reading(
        {0: 1}, max_buffered_bytes=8 * KIB, max_partition_fetch_bytes=4 * KIB
    )
    offset, sizes = 0, []
    while requests := harness.tick():
        room = 8 * KIB - sum(sizes)
        assert requests[0].body.max_bytes <= room
        data = a_batch(offset, 1, size=requests[0].body.max_bytes - CHUNK_OVERHEAD)
        (chunk,) = chunks(harness.answer(requests[0], of(0, data)))
        sizes.append(chunk.size)
        offset += 1

    assert 6 * KIB < sum(sizes) <= 8 * KIB
    assert harness.wake_at == math.inf
    harness.consume({0: 1}, freed=sizes[0])
    assert offsets(harness.the_request()) == {0: offset}


def test_no_node_takes_all_the_room_from_the_others() -> None:
    harness = FetchHarness.reading(
        {0: 1, 1: 2, 2: 3}, max_buffered_bytes=9 * KIB, max_partition_fetch_bytes=100 * KIB
    )

    requests = harness.tick()

    assert sorted(one.to for one in requests) == [1, 2, 3]
    assert sum(one.body.max_bytes for one in requests) <= 9 * KIB


def test_a_small_bound_is_shared_by_all_nodes_and_who_waited_longest_comes_first() -> None:
    harness = FetchHarness(max_buffered_bytes=8 * KIB, max_partition_fetch_bytes=KIB)
    harness.cluster({one: one for one in range(1, 9)}, brokers=range(1, 9))
    harness.assign(dict.fromkeys(range(1, 9), 0))

    first = harness.tick()
    for request in first[:4]:
        harness.answer(request, of(request.to, a_batch(0, 1, size=KIB - CHUNK_OVERHEAD)))
    harness.consume({first[0].to: 1}, freed=KIB)
    second = harness.the_request()
    harness.answer(second, of(second.to, a_batch(1, 1, size=KIB - CHUNK_OVERHEAD)))
    harness.consume({second.to: 2}, freed=KIB)
    third, beside = harness.tick()

    assert [one.body.max_bytes for one in first] == [KIB - CHUNK_OVERHEAD] * 8
    assert (second.to, third.to) == (first[0].to, first[1].to)
    assert (beside.to, beside.lane) == (first[0].to, Lane.ORDINARY)  # it has nothing to read left


def test_one_request_never_asks_for_all_the_room() -> None:
    """The next answer should be under way while the application reads this one."""
    harness = FetchHarness.reading(
        dict.fromkeys(range(9), 1), max_buffered_bytes=8 * KIB, max_partition_fetch_bytes=KIB
    )

    assert harness.the_request().body.max_bytes == 4 * KIB - 9 * CHUNK_OVERHEAD


def test_what_room_is_left_is_divided_among_the_nodes_that_can_be_asked() -> None:
    harness = FetchHarness.reading(
        {0: 1, 1: 2}, max_buffered_bytes=16 * KIB, max_partition_fetch_bytes=16 * KIB
    )
    first, second = harness.tick()
    harness.answer(second, of(1), after=1.0)
    harness.answer(first, of(0, a_batch(0, 10, size=6 * KIB - CHUNK_OVERHEAD)))

    assert [one.body.max_bytes for one in harness.tick()] == [5 * KIB - CHUNK_OVERHEAD] * 2


def test_a_partition_that_has_its_share_buffered_makes_room_for_the_others() -> None:
    harness = FetchHarness.reading(
        {0: 1, 1: 1}, max_buffered_bytes=16 * KIB, max_partition_fetch_bytes=4 * KIB
    )
    batch = a_batch(0, 10, size=8 * KIB)
    harness.answer(harness.the_request(), of(0, batch), of(1))

    without = harness.the_request()
    harness.answer(without, after=0.5)
    harness.consume({0: 10}, freed=len(batch) + CHUNK_OVERHEAD)
    again = harness.the_request()

    assert forgotten(without) == {0}
    assert offsets(again) == {0: 10}


def test_while_a_partition_has_its_share_its_broker_does_not_wait_long_for_the_others() -> None:
    harness = FetchHarness.reading(
        {0: 1, 1: 1}, max_buffered_bytes=16 * KIB, max_partition_fetch_bytes=4 * KIB
    )
    harness.answer(harness.the_request(), of(0, a_batch(0, 10, size=8 * KIB)), of(1))

    assert harness.the_request().body.max_wait_ms == 100


def test_what_is_paused_and_buffered_does_not_starve_what_could_be_read() -> None:
    """Invariant: a consumer with lag, unpaused and reachable, delivers."""
    harness = FetchHarness.reading(
        {0: 1, 1: 1}, max_buffered_bytes=4 * KIB, max_partition_fetch_bytes=KIB
    )
    harness.answer(harness.the_request(), of(0, a_batch(0, 10, size=4 * KIB)), of(1))
    assert harness.tick(1.0) == []

    harness.pause(0)

    request = harness.the_request()
    assert forgotten(request) == {0}
    assert request.body.max_bytes == KIB - CHUNK_OVERHEAD


def around_a_buffer_full_of_what_is_paused() -> tuple[FetchHarness, dict[int, Request]]:
    """Partition 0 of node 1 is paused and fills the buffer of 16 KiB; all others are wanted."""
    harness = FetchHarness.reading(
        {0: 1, 1: 1, 2: 2, 3: 3}, max_buffered_bytes=16 * KIB, max_partition_fetch_bytes=KIB
    )
    for request in harness.tick():
        full = a_batch(0, 10, size=16 * KIB)
        harness.answer(request, *([of(0, full), of(1)] if request.to == 1 else []), after=0.1)
    harness.pause(0)
    return harness, {one.to: one for one in harness.tick(EMPTY_PACE)}


def test_what_is_paused_and_buffered_keeps_no_node_from_being_asked() -> None:
    harness, requests = around_a_buffer_full_of_what_is_paused()

    assert requests.keys() == {1, 2, 3}
    assert {one.body.max_bytes for one in requests.values()} == {KIB - CHUNK_OVERHEAD}
    harness.answer(requests[2], of(2, a_batch(0, 1)))
    # Neither the long polls of the others nor what is about to be read stand in the way.
    assert harness.the_request().to == 2


def test_beyond_the_bound_a_node_brings_no_more_than_a_request_before_that_is_read() -> None:
    harness, requests = around_a_buffer_full_of_what_is_paused()

    brought = KIB // 2 + 1 - CHUNK_OVERHEAD
    harness.answer(requests[2], of(2, a_batch(0, 1, size=brought)))
    assert harness.tick(1.0) == []
    harness.answer(requests[3], of(3, a_batch(0, 1, size=brought - 1)))
    again = harness.the_request()
    assert (again.to, again.body.max_bytes) == (3, KIB // 2 - CHUNK_OVERHEAD)

    harness.consume({2: 1}, freed=brought + CHUNK_OVERHEAD)
    assert harness.the_request().to == 2


def test_what_was_sought_away_from_keeps_no_node_from_being_asked() -> None:
    harness = FetchHarness.reading(
        {0: 1, 1: 2}, max_buffered_bytes=16 * KIB, max_partition_fetch_bytes=KIB
    )
    first, second = harness.tick()
    harness.answer(first, of(0, a_batch(0, 10, size=16 * KIB)), after=0.1)
    harness.answer(second, after=0.1)
    harness.seek(0, 500, epoch=2)

    assert {one.to for one in harness.tick()} == {1, 2}


def test_who_brought_data_comes_last_in_the_next_request() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1, 2: 1}, enable_incremental_fetch_sessions=False)

    harness.answer(harness.the_request(), of(0, a_batch(0, 1)), of(1), of(2))

    assert list(offsets(harness.the_request())) == [1, 2, 0]


def test_a_poll_that_is_told_twice_gives_nothing_back_twice() -> None:
    """It is, if the application was interrupted after it had told it."""
    harness = FetchHarness.reading({0: 1})
    first, second = (
        chunk
        for base in (0, 10)
        for chunk in chunks(harness.answer(harness.the_request(), of(0, a_batch(base, 10))))
    )

    harness.consume({0: 10}, freed=first.size)
    harness.consume({0: 10}, freed=0)

    assert harness.manager.bytes_buffered == second.size


@pytest.mark.parametrize("more", [1, -1])
def test_who_gives_back_more_than_there_is_or_takes_back_crashes_the_manager(more: int) -> None:
    harness = FetchHarness.reading({0: 1})
    (chunk,) = chunks(harness.answer(harness.the_request(), of(0, a_batch(0, 10))))
    harness.consume({0: 10}, freed=chunk.size)

    with pytest.raises(CreditError):
        harness.consume({}, freed=more)


def test_what_an_earlier_incarnation_sent_gives_no_room_to_this_one() -> None:
    harness = FetchHarness.reading({0: 1})
    (chunk,) = chunks(harness.answer(harness.the_request(), of(0, a_batch(0, 10))))
    assert chunk.incarnation == harness.manager.incarnation

    harness.tell(Poll(now=0.0, positions={}, freed_bytes=chunk.size, incarnation=0))

    assert harness.manager.bytes_buffered == chunk.size


# -- sessions


def test_the_second_request_of_a_session_says_only_what_changed() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})

    first = harness.the_request()
    harness.answer(first, of(0, a_batch(0, 10)), of(1))
    second = harness.the_request()

    assert (first.body.session_id, first.body.session_epoch) == (0, 0)
    assert (second.body.session_id, second.body.session_epoch) == (77, 1)
    assert offsets(second) == {0: 10}
    assert forgotten(second) == set()


@pytest.mark.parametrize(
    ("error", "old_session"),
    [(FetchSessionIdNotFoundError, 0), (InvalidFetchSessionEpochError, 77)],
)
def test_a_lost_session_is_begun_anew_at_once(error: type[Any], old_session: int) -> None:
    """Scenario 93."""
    harness = FetchHarness.reading({0: 1, 1: 1})
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1))

    said = harness.answer(harness.the_request(), error_code=error.errno)

    request = harness.the_request()
    assert said == []
    assert (request.body.session_id, request.body.session_epoch) == (old_session, 0)
    assert offsets(request) == {0: 10, 1: 0}
    assert harness.events("session.restarted")[0]["because"] == error.__name__


def test_another_error_of_the_whole_answer_waits_for_the_backoff() -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)

    said = harness.answer(harness.the_request(), error_code=KafkaStorageError.errno)

    assert len(refreshes(said)) == 1
    assert harness.tick(0.09) == []
    assert harness.the_request(0.02).body.session_epoch == 0


def test_without_sessions_every_request_names_everything() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1}, enable_incremental_fetch_sessions=False)

    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1), session_id=0)

    request = harness.the_request()
    assert (request.body.session_id, request.body.session_epoch) == (0, -1)
    assert offsets(request) == {0: 10, 1: 0}


def test_a_new_epoch_learns_the_high_watermark_that_the_session_need_not_repeat() -> None:
    harness = FetchHarness.reading({0: 1})
    harness.answer(harness.the_request(), of(0, high_watermark=5), after=0.5)
    harness.seek(0, 3, epoch=2)

    said = harness.answer(harness.the_request(), after=0.5)

    assert [(one.epoch, one.high_watermark) for one in chunks(said)] == [(2, 5)]


# -- leaders


STALE = [
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    OffsetNotAvailableError,
    ReplicaNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
]


@pytest.mark.parametrize("error", STALE[:-1])
def test_an_error_of_stale_metadata_asks_for_it_and_waits_for_the_backoff(error: Any) -> None:
    harness = FetchHarness.reading({0: 1, 1: 1}, retry_backoff=0.1)

    said = harness.answer(
        harness.the_request(), of(0, error_code=error.errno), of(1, a_batch(0, 10))
    )

    assert len(refreshes(said)) == 1
    assert [chunk.partition for chunk in chunks(said)] == [tp(1)]
    request = harness.the_request(0.09)
    assert (offsets(request), forgotten(request)) == ({1: 10}, {0})
    harness.answer(request, of(1, a_batch(10, 10)))
    assert offsets(harness.the_request(0.02)) == {0: 0, 1: 20}


def test_a_leader_that_has_not_heard_of_its_election_yet_is_asked_again() -> None:
    """Who followed the old leader's hint may be earlier (KIP-951). As in Java's FetchCollector."""
    harness = FetchHarness.reading({0: (1, 6)}, retry_backoff=0.1)

    said = harness.answer(harness.the_request(), of(0, error_code=UnknownLeaderEpochError.errno))

    assert refreshes(said) == []
    assert harness.tick(0.09) == []
    assert harness.the_request(0.02).to == 1


def test_a_partition_that_a_broker_does_not_know_rests_until_the_metadata_is_fresh() -> None:
    """Its topic may be created anew: an old offset must not be read of that one."""
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)

    said = harness.answer(
        harness.the_request(), of(0, error_code=UnknownTopicOrPartitionError.errno)
    )

    assert len(refreshes(said)) == 1
    assert harness.tick(0.49) == []
    harness.the_request(0.02)  # the session has it still


@pytest.mark.parametrize("error", [*STALE, UnknownLeaderEpochError])
def test_a_changed_leader_ends_the_backoff(error: Any) -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    harness.answer(harness.the_request(), of(0, error_code=error.errno))
    assert harness.tick() == []

    harness.cluster({0: (2, 6)})

    request = harness.the_request()
    assert (request.to, offsets(request)) == (2, {0: 0})
    assert request.body.topics[0].partitions[0].current_leader_epoch == 6


@pytest.mark.parametrize("error", [NotLeaderForPartitionError, FencedLeaderEpochError])
def test_the_new_leader_that_an_answer_names_is_asked_at_once(error: Any) -> None:
    """Scenario 104 (KIP-951)."""
    harness = FetchHarness.reading({0: (1, 5)})

    said = harness.answer(
        harness.the_request(), of(0, error_code=error.errno, current_leader=(3, 8))
    )

    moved = {tp(0): PartitionInfo(leader=3, leader_epoch=8)}
    assert said == [LeadersMoved(leaders=moved, topic_ids={"orders": None})]
    request = harness.the_request()
    assert request.to == 3
    assert request.body.topics[0].partitions[0].current_leader_epoch == 8


@pytest.mark.parametrize(
    ("read_in", "told"),
    [(-1, {tp(0): 5}), (4, {tp(0): 5}), (5, None)],
    ids=["nothing was read", "read from an earlier leader", "read in this epoch"],
)
def test_the_metadata_manager_hears_of_epochs_that_a_leader_does_not_know(
    read_in: int, told: dict[Any, int] | None
) -> None:
    """A record of that epoch proves that it exists."""
    harness = FetchHarness.reading({0: (1, 5)})
    to = Assigned(epoch=2, position=Position(offset=9, leader_epoch=read_in))
    harness.tell(SeekPartitions(partitions={tp(0): to}))

    said = harness.answer(harness.the_request(), of(0, error_code=UnknownLeaderEpochError.errno))

    epochs = [one.epochs for one in said if isinstance(one, LeaderEpochsUnknown)]
    assert epochs == ([] if told is None else [told])


def test_a_named_leader_that_is_unknown_or_not_newer_waits_for_metadata() -> None:
    harness = FetchHarness.reading({0: (1, 5), 1: (1, 5)})
    moved = NotLeaderForPartitionError.errno

    said = harness.answer(
        harness.the_request(),
        of(0, error_code=moved, current_leader=(9, 8)),
        of(1, error_code=moved, current_leader=(3, 5)),
    )

    (leaders,) = (one.leaders for one in said if isinstance(one, LeadersMoved))
    assert set(leaders) == {("orders", 0)}
    assert len(refreshes(said)) == 1
    assert harness.tick() == []


def test_what_metadata_says_later_replaces_the_named_leader() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    moved = NotLeaderForPartitionError.errno
    harness.answer(harness.the_request(), of(0, error_code=moved, current_leader=(3, 8)))

    harness.cluster({0: (2, 0)})  # the topic was made anew: its epochs begin again

    assert harness.the_request().to == 2


def test_a_partition_moves_to_its_new_leader_while_the_old_one_is_still_asked() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    old = harness.the_request()
    harness.cluster({0: (2, 6)})

    new = harness.the_request()
    first = harness.answer(old, of(0, a_batch(0, 10)))
    second = harness.answer(new, of(0, a_batch(0, 10)))

    assert (old.to, new.to) == (1, 2)
    assert [len(chunks(said)) for said in (first, second)] == [1, 0]
    assert offsets(harness.the_request()) == {0: 10}


def test_an_error_of_the_old_leader_does_not_hold_back_the_new_one() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    old = harness.the_request()
    harness.cluster({0: (2, 6)})

    said = harness.answer(old, of(0, error_code=OffsetOutOfRangeError.errno))

    assert said == []
    assert harness.the_request().to == 2


def test_a_missing_leader_is_asked_for_with_backoff_and_fetched_from_when_known() -> None:
    """Scenario 94, MissingLeader."""
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)
    harness.cluster({})
    harness.said.clear()

    assert harness.tick() == []
    harness.tick(0.05)
    assert len(refreshes(harness.said)) == 1
    assert harness.wake_at == pytest.approx(harness.now + 0.05)
    harness.tick(0.06)
    assert len(refreshes(harness.said)) == 2
    assert "orders-0" in refreshes(harness.said)[0].because

    harness.cluster({0: 3})
    assert harness.the_request().to == 3
    harness.cluster({})
    harness.said.clear()
    harness.tick()
    harness.tick(0.11)
    assert len(refreshes(harness.said)) == 2  # the backoff began anew


# -- errors of a partition


def test_an_offset_out_of_range_is_told_in_its_turn_and_ends_the_fetching() -> None:
    """Scenario 80."""
    harness = FetchHarness.reading({0: 1})
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)))

    said = harness.answer(harness.the_request(), of(0, error_code=OffsetOutOfRangeError.errno))

    (chunk,) = chunks(said)
    assert (chunk.offset, chunk.size) == (10, 0)
    assert chunk.error == OffsetOutOfRangeError({tp(0): 10})
    assert harness.tick(5.0) == []
    harness.seek(0, 3, epoch=2)
    assert offsets(harness.the_request()) == {0: 3}


def test_a_forbidden_topic_is_told_once_and_tried_once_a_second() -> None:
    harness = FetchHarness.reading({0: 1})
    forbidden = of(0, error_code=TopicAuthorizationFailedError.errno)

    (chunk,) = chunks(harness.answer(harness.the_request(), forbidden))
    assert chunk.error == TopicAuthorizationFailedError({"orders"})
    assert harness.tick(REFUSED_PAUSE - 0.01) == []
    assert chunks(harness.answer(harness.the_request(0.02), forbidden)) == []

    allowed = harness.answer(harness.the_request(REFUSED_PAUSE), of(0, a_batch(0, 10)))
    assert [one.error for one in chunks(allowed)] == [None]
    (again,) = chunks(harness.answer(harness.the_request(), forbidden))
    assert again.error == TopicAuthorizationFailedError({"orders"})


def test_what_the_broker_finds_corrupt_is_told_with_its_offset() -> None:
    harness = FetchHarness.reading({0: 1})

    said = harness.answer(harness.the_request(), of(0, error_code=CorruptRecordError.errno))

    (chunk,) = chunks(said)
    assert isinstance(chunk.error, CorruptBatchError)
    assert (chunk.error.topic, chunk.error.partition, chunk.error.offset) == ("orders", 0, 0)


def test_what_we_find_corrupt_is_left_to_the_reader_and_not_fetched_again() -> None:
    """Scenario 98: testParseCorruptedRecord."""
    harness = FetchHarness.reading({0: 1})
    data = a_batch(0, 10) + bytes(100)

    data_chunk, error_chunk = chunks(harness.answer(harness.the_request(), of(0, data)))

    assert bytes(data_chunk.data) == data
    assert isinstance(error_chunk.error, CorruptBatchError)
    assert harness.tick(5.0) == []
    harness.seek(0, 11, epoch=2)
    assert offsets(harness.the_request()) == {0: 11}


@pytest.mark.parametrize("foreign", [1, TopicPartition("ghosts", 0)])
def test_a_broker_that_answers_for_other_partitions_is_not_asked_in_a_hurry(foreign: Any) -> None:
    """It would say the same thousands of times a second."""
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1, retry_backoff_max=1.0)

    waits = []
    for _ in range(6):
        harness.answer(harness.the_request(), of(foreign, a_batch(0, 10)))
        assert harness.tick() == []
        waits.append(round(harness.wake_at - harness.now, 3))
        harness.now = harness.wake_at

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len([one for one in harness.said if isinstance(one, RefreshMetadata)]) == 6
    assert len(chunks(harness.answer(harness.the_request(), of(0, a_batch(0, 10))))) == 1


def test_behind_a_batch_that_was_corrupt_nothing_is_fetched_until_it_was_read() -> None:
    """If it stays corrupt, what was fetched behind it would be dropped with each attempt."""
    harness = FetchHarness.reading({0: 1})
    harness.seek(0, 0, epoch=2, ahead=False)

    harness.answer(harness.the_request(), of(0, a_batch(0, 10)))
    assert harness.tick(5.0) == []
    assert harness.wake_at == NEVER
    harness.consume({0: 5})  # not all of it
    assert harness.tick() == []

    harness.consume({0: 10})
    harness.answer(harness.the_request(), of(0, a_batch(10, 10)))
    assert offsets(harness.the_request()) == {0: 20}


def test_others_are_fetched_while_a_batch_that_was_corrupt_is_not_read() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})
    harness.seek(0, 0, epoch=2, ahead=False)
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1, a_batch(0, 10)))

    request = harness.the_request()

    assert offsets(request) == {1: 10}
    assert request.body.max_wait_ms > 1000 * CROWDED_WAIT


def test_batches_that_lead_nowhere_end_in_an_error_instead_of_a_loop() -> None:
    harness = FetchHarness.reading({0: 1})
    harness.seek(0, 50, epoch=2)

    *_, last = chunks(harness.answer(harness.the_request(), of(0, a_batch(10, 10))))

    assert isinstance(last.error, CorruptBatchError)
    assert last.error.offset == 50
    assert harness.tick(5.0) == []


@pytest.mark.parametrize("code", [UnknownError.errno, 89, 999])
def test_any_other_error_that_may_pass_is_retried_with_growing_backoff(code: int) -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1, retry_backoff_max=1.0)

    waits = []
    for _ in range(6):
        assert chunks(harness.answer(harness.the_request(), of(0, error_code=code))) == []
        harness.tick()
        waits.append(round(harness.wake_at - harness.now, 3))
        harness.now = harness.wake_at

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(harness.events("fetch.failed")) == 6


def test_an_error_that_will_not_pass_is_told() -> None:
    harness = FetchHarness.reading({0: 1})
    code = UnsupportedCompressionTypeError.errno

    (chunk,) = chunks(harness.answer(harness.the_request(), of(0, error_code=code)))

    assert isinstance(chunk.error, UnsupportedCompressionTypeError)
    assert "orders-0 at offset 0 was refused by broker 1 at" in str(chunk.error)


# -- errors of a request


def test_a_failed_request_is_repeated_in_full_after_the_backoff() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1}, retry_backoff=0.1)
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1))

    said = harness.fail(harness.the_request(), KafkaConnectionError("disconnected"))

    assert len(refreshes(said)) == 1
    assert harness.tick(0.09) == []
    request = harness.the_request(0.02)
    assert (request.body.session_id, request.body.session_epoch) == (77, 0)
    assert offsets(request) == {0: 10, 1: 0}
    assert harness.events("fetch.failed")[0]["node"] == 1


def test_an_answer_ends_the_backoff_of_a_node() -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)
    for _ in range(3):
        harness.fail(harness.the_request(2.0), KafkaConnectionError("disconnected"))
    harness.answer(harness.the_request(2.0), of(0, a_batch(0, 10)))

    harness.fail(harness.the_request(), KafkaConnectionError("disconnected"))

    assert len(harness.tick(0.11)) == 1


def test_a_node_that_fails_does_not_stop_the_others() -> None:
    harness = FetchHarness.reading({0: 1, 1: 2})
    first, second = harness.tick()

    harness.fail(first, KafkaConnectionError("refused"))
    harness.answer(second, of(second.body.topics[0].partitions[0].partition, a_batch(0, 10)))

    assert [one.to for one in harness.tick()] == [second.to]


def test_a_silent_broker_is_given_up_soon_and_then_gets_more_time_for_less() -> None:
    harness = FetchHarness.reading(
        {0: 1}, fetch_max_wait=0.5, request_timeout=30.0, fetch_max_bytes=800
    )

    patience, sizes = [], []
    for _ in range(5):
        request = harness.the_request(2.0)
        patience.append(request.deadline - harness.now)
        sizes.append(request.body.max_bytes)
        harness.fail(request, KafkaTimeoutError("no answer"))

    assert patience == pytest.approx([5.5, 11.0, 22.0, 30.0, 30.0])
    assert sizes == [800, 400, 200, 100, 50]


def brought_by_a_line(harness: FetchHarness, rate: float, seconds: float) -> float:
    """Bytes a second that come from a broker whose logs are endless, over a line of so many."""
    until, brought = harness.now + seconds, 0
    while harness.now < until:
        requests = harness.tick()
        if not requests:
            harness.now = harness.wake_at
            continue
        (request,) = requests
        size = request.body.max_bytes
        if size / rate > harness.settings.request_timeout:
            harness.fail(request, KafkaTimeoutError("no answer"), after=30.0)
            continue
        asked = offsets(request)
        data = [of(one, a_batch(at, 1, size=size // len(asked))) for one, at in asked.items()]
        said = harness.answer(request, *data, after=size / rate)
        freed = sum(chunk.size for chunk in chunks(said))
        harness.consume({one: at + 1 for one, at in asked.items()}, freed=freed)
        brought += size
    return brought / seconds


@pytest.mark.parametrize("rate", [10e3, 100e3, 300e3, 1e6])
def test_a_slow_line_brings_what_it_can(rate: float) -> None:
    harness = FetchHarness.reading(dict.fromkeys(range(20), 1))
    brought_by_a_line(harness, rate, 120.0)  # it is found out how slow the line is

    assert brought_by_a_line(harness, rate, 300.0) > 0.95 * rate


def test_a_line_that_was_slow_is_used_in_full_when_it_is_quick_again() -> None:
    harness = FetchHarness.reading(dict.fromkeys(range(20), 1), max_buffered_bytes=50 * KIB**2)
    brought_by_a_line(harness, 100e3, 120.0)

    brought_by_a_line(harness, 100e6, 1.0)

    assert harness.the_request().body.max_bytes == 20 * KIB**2


def test_while_an_answer_is_late_metadata_is_asked_whether_the_leader_is_another() -> None:
    """A frozen broker: Kafka may name another one long before our patience ends."""
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.the_request()
    harness.said.clear()

    harness.tick(1.4)
    assert refreshes(harness.said) == []
    harness.tick(0.2)
    harness.tick(0.5)
    assert len(refreshes(harness.said)) == 1
    assert "node 1" in refreshes(harness.said)[0].because
    harness.tick(0.7)
    assert len(refreshes(harness.said)) == 2

    harness.cluster({0: 2})
    assert harness.the_request().to == 2


def test_the_answer_to_a_broker_that_failed_before_is_late_sooner() -> None:
    """It froze, and Kafka named no other when it was given up: the patience with it is long now."""
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.fail(harness.the_request(), KafkaTimeoutError("no answer"), after=5.5)
    harness.the_request(1.0)
    harness.said.clear()

    harness.tick(harness.wake_at - harness.now)

    assert harness.wake_at - harness.now < 1.3
    assert len(refreshes(harness.said)) == 1


def shown_late(harness: FetchHarness) -> dict[int, float]:
    """Who owes an answer, by what `status()` is made of."""
    harness.manager.note_present(harness.now)
    shown = harness.manager.present
    assert isinstance(shown, FetchNow)
    return dict(shown.late)


def test_a_broker_that_has_failed_to_answer_owes_the_answer_until_one_comes() -> None:
    """A connection that ends, and the next attempt, do not mean that there is nothing new."""
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.fail(harness.the_request(), KafkaConnectionError("it hung up"), after=0.4)
    failed_at = harness.now

    assert shown_late(harness) == {1: failed_at}
    harness.fail(harness.the_request(1.0), KafkaTimeoutError("no answer"), after=3.0)
    assert shown_late(harness) == {1: failed_at}
    harness.answer(harness.the_request(5.0), of(0))
    assert shown_late(harness) == {}


def test_a_broker_that_leads_nothing_any_more_owes_no_answer() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.fail(harness.the_request(), KafkaConnectionError("it hung up"), after=0.4)

    harness.cluster({0: 2})

    assert shown_late(harness) == {}


def test_an_answer_in_time_asks_no_metadata() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    for _ in range(10):
        harness.answer(harness.the_request(), of(0), after=0.5)
    assert refreshes(harness.said) == []


def test_a_request_timeout_below_the_longest_wait_shortens_the_wait() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=10.0, request_timeout=4.0)

    request = harness.the_request()

    assert request.deadline - harness.now == 4.0
    assert request.body.max_wait_ms == 2000


def test_a_broker_that_speaks_no_version_of_ours_is_told_to_the_application() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})
    error = UnsupportedVersionError("Fetch")

    said = harness.fail(harness.the_request(), error)
    harness.answer(harness.the_request(REFUSED_PAUSE), of(0), of(1))

    told = {one.partition: str(one.error) for one in chunks(said)}
    assert told.keys() == {tp(0), tp(1)}
    assert all(str(error.args[0]) in text and "too old" in text for text in told.values())


# -- replicas near us


def around_a_replica() -> tuple[FetchHarness, Request]:
    """The leader 1 has sent us to the replica 2; that is asked now."""
    harness = FetchHarness.reading({0: (1, 5)}, client_rack="east", metadata_max_age=300.0)
    harness.answer(harness.the_request(), of(0, preferred_read_replica=2))
    return harness, harness.the_request()


def test_the_preferred_replica_is_read_until_its_time_is_over() -> None:
    harness, request = around_a_replica()

    harness.answer(request, of(0, a_batch(0, 10)))
    second = harness.the_request()
    harness.answer(second, after=300.1)
    third = harness.the_request()

    assert [request.to, second.to, third.to] == [2, 2, 1]
    assert second.body.topics[0].partitions[0].current_leader_epoch == 5
    assert offsets(third) == {0: 10}


def test_out_of_range_at_a_replica_is_asked_of_the_leader() -> None:
    harness, request = around_a_replica()

    said = harness.answer(request, of(0, error_code=OffsetOutOfRangeError.errno))

    assert chunks(said) == []
    assert harness.the_request(0.2).to == 1


def test_a_replica_that_is_read_owes_an_answer_and_is_shown_until_it_is_left() -> None:
    """Else its partition would be said to be fetched while nothing comes."""
    harness, request = around_a_replica()
    asked_at = harness.now

    harness.tick(3.0)
    harness.cluster({0: (1, 5)})

    assert shown_late(harness) == {2: asked_at}
    assert shown_replicas(harness) == {tp(0): 2}
    harness.fail(request, KafkaConnectionError("disconnected"), after=0.1)
    harness.tick(0.1)
    assert shown_replicas(harness) == {}


def shown_replicas(harness: FetchHarness) -> dict[TopicPartition, int]:
    """Which brokers are read instead of leaders, by what `status()` is made of."""
    harness.manager.note_present(harness.now)
    shown = harness.manager.present
    assert isinstance(shown, FetchNow)
    return dict(shown.replicas)


def test_a_replica_that_does_not_answer_is_left() -> None:
    harness, request = around_a_replica()

    harness.fail(request, KafkaConnectionError("disconnected"), after=0.1)

    assert harness.the_request().to == 1


def test_a_replica_that_is_gone_is_left() -> None:
    harness, request = around_a_replica()
    harness.answer(request, of(0, a_batch(0, 10)), after=0.1)

    harness.cluster({0: (1, 5)}, brokers=(1, 3))

    assert harness.the_request().to == 1


def test_an_unknown_preferred_replica_is_no_reason_to_spin() -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)

    said = harness.answer(harness.the_request(), of(0, preferred_read_replica=9))

    assert len(refreshes(said)) == 1
    assert harness.tick(0.05) == []
    assert harness.the_request(0.06).to == 1


# -- everything at once


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_no_offset_is_skipped_or_repeated_and_the_bound_holds(seed: int) -> None:
    world = FetchWorld(seed)

    for _ in range(300):
        world.something_happens()
    world.calm_down()

    for partition in world.partitions:
        assert world.read_up_to[partition] == world.END


class FetchWorld:
    """Two brokers with logs of ten records a batch, and an application that reads at random."""

    END = 400

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.partitions = range(6)
        self.bound = self.random.choice([2 * KIB, 8 * KIB, 64 * KIB])
        self.harness = FetchHarness.reading(
            {one: (1 + one % 2, 5) for one in self.partitions},
            max_buffered_bytes=self.bound,
            max_partition_fetch_bytes=KIB,
            enable_incremental_fetch_sessions=self.random.random() < 0.8,
        )
        self.epoch = dict.fromkeys(self.partitions, 1)
        self.last_epoch = 1
        self.leader_epoch = dict.fromkeys(self.partitions, 5)
        self.read_up_to = dict.fromkeys(self.partitions, 0)
        self.buffer: list[Any] = []
        self.freed = 0
        self.in_flight: list[Request] = []
        self.remembered: dict[int, dict[int, int]] = {}
        self.paused: set[int] = set()
        self.moved: set[int] = set()

    def something_happens(self) -> None:
        self.send(self.random.choice([0.0, 0.01, 0.3]))
        act = self.random.choice(
            [self.answer] * 6 + [self.read] * 4 + [self.fail, self.pause, self.seek, self.move]
        )
        act()

    def send(self, after: float) -> None:
        requests = self.harness.tick(after)
        self.in_flight += requests
        ways = [(one.to, one.lane) for one in self.in_flight]
        assert len(ways) == len(set(ways)), "two requests in flight on one connection"
        assert self.harness.wake_at > self.harness.now, "it would spin"
        promised = sum(one.body.max_bytes for one in self.in_flight)
        readable = any(chunk.partition.partition not in self.paused for chunk in self.buffer)
        held = self.freed + sum(chunk.size for chunk in self.buffer)
        if requests and readable and not self.freed:
            # A batch and the overhead of its chunks may exceed what was promised.
            assert held + promised <= self.bound + 2 * (KIB + 6 * CHUNK_OVERHEAD)

    def answer(self) -> None:
        if not self.in_flight:
            return
        request = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        if self.random.random() < 0.05:
            code = FetchSessionIdNotFoundError.errno
            self.harness.answer(request, error_code=code)
            return
        wanted = self.remember(request)
        left = request.body.max_bytes
        answers = []
        for partition, offset in wanted.items():
            if self.random.random() < 0.05:
                code = self.random.choice([UnknownError.errno, LeaderNotAvailableError.errno])
                answers.append(of(partition, error_code=code))
                continue
            data = b""
            while offset < self.END and (not data or left > 0) and left > 0 and len(data) < KIB:
                base = offset - offset % 10
                data += a_batch(base, 10)
                left -= 100
                offset = base + 10
            if data or request.body.session_epoch <= 0:
                answers.append(of(partition, data, high_watermark=self.END))
        session = 0 if request.body.session_epoch < 0 else 77
        self.deliver(self.harness.answer(request, *answers, session_id=session))

    def remember(self, request: Request) -> dict[int, int]:
        if request.body.session_epoch < 0:
            return offsets(request)
        if request.body.session_epoch == 0:
            known = self.remembered[request.to] = {}
        else:
            known = self.remembered[request.to]
        known.update(offsets(request))
        for one in forgotten(request):
            known.pop(one, None)
        return known

    def deliver(self, said: list[object]) -> None:
        for chunk in chunks(said):
            assert chunk.error is None
            if chunk.epoch == self.epoch[chunk.partition.partition]:
                self.buffer.append(chunk)
            else:
                self.freed += chunk.size

    def read(self) -> None:
        positions = {}
        stuck = {one for one in self.partitions if self.random.random() < 0.3}
        for chunk in list(self.buffer):
            partition = chunk.partition.partition
            if partition in self.paused | stuck:
                continue
            self.buffer.remove(chunk)
            self.freed += chunk.size
            if not chunk.size:
                continue
            assert chunk.offset == self.read_up_to[partition], "a gap or a step back"
            end = chunk.offset - chunk.offset % 10 + 10 * (len(chunk.data) // 100)
            self.read_up_to[partition] = positions[partition] = end
        self.harness.consume(positions, freed=self.freed)
        self.freed = 0

    def fail(self) -> None:
        if self.in_flight:
            request = self.in_flight.pop()
            self.harness.fail(request, KafkaConnectionError("disconnected"))

    def pause(self) -> None:
        self.paused = {one for one in self.partitions if self.random.random() < 0.3}
        self.harness.pause(*self.paused)

    def seek(self) -> None:
        partition = self.random.choice(self.partitions)
        self.last_epoch += 1
        self.epoch[partition] = self.last_epoch
        self.read_up_to[partition] = self.random.randrange(self.END)
        dropped = [one for one in self.buffer if one.partition == tp(partition)]
        self.freed += sum(one.size for one in dropped)
        self.buffer = [one for one in self.buffer if one.partition != tp(partition)]
        self.harness.seek(partition, self.read_up_to[partition], epoch=self.last_epoch)

    def move(self) -> None:
        partition = self.random.choice(self.partitions)
        self.leader_epoch[partition] += 1
        self.harness.cluster(
            {one: (1 + (one + epoch) % 2, epoch) for one, epoch in self.leader_epoch.items()}
        )

    def calm_down(self) -> None:
        """No more trouble: everything must arrive."""
        self.paused = set()
        self.harness.pause()
        for _ in range(3000):
            self.send(0.3)
            self.answer()
            self.read()
            if all(end == self.END for end in self.read_up_to.values()):
                return
