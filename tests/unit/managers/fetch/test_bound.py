"""Rules of the fetch manager: how much it asks for, and what stays within the bound."""

from __future__ import annotations

import math

import pytest

from aktor.events.network import Lane, Request
from aktor.events.polling import Poll
from aktor.managers.fetch.answer import CHUNK_OVERHEAD
from aktor.managers.fetch.node import EMPTY_PACE
from aktor.managers.fetch.room import CreditError
from tests.unit.managers.fetch.builders import (
    KIB,
    FetchHarness,
    a_batch,
    chunks,
    forgotten,
    of,
    offsets,
)


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
