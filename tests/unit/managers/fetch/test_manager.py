"""The fetch manager: what is asked of whom and when, and what reaches the application."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kafka.errors import (
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    KafkaConnectionError,
    KafkaStorageError,
)
from kafka.protocol.consumer.fetch import FetchRequest

from aktor.events.network import ExpectFetches, Lane
from aktor.managers.fetch.answer import CHUNK_OVERHEAD
from aktor.managers.fetch.node import EMPTY_PACE
from aktor.protocol.fetch import MAX_VERSION, MIN_VERSION
from tests.unit.managers.fetch.builders import (
    KIB,
    FetchHarness,
    a_batch,
    chunks,
    forgotten,
    of,
    offsets,
    refreshes,
    tp,
)


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
