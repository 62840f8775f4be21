"""The sessionless Fetch beside the session's long poll: when it is sent, and what is made of it."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError, KafkaStorageError

from aktor.events.network import Lane, Request
from aktor.managers.fetch.request import CHUNK_OVERHEAD
from aktor.managers.fetch.sessionless import FIRST_WAIT, LONGEST_WAIT, SHORTLY
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


def in_a_long_poll(**settings: object) -> tuple[FetchHarness, Request]:
    """Partitions 0 and 1 of node 1 are at the offset 10, which is their end; it waits for more."""
    harness = FetchHarness.reading({0: 1, 1: 1}, **settings)
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1, a_batch(0, 10)))
    harness.consume({0: 10, 1: 10}, freed=2 * (100 + CHUNK_OVERHEAD))
    poll = harness.the_request()
    assert (offsets(poll), poll.lane) == ({0: 10, 1: 10}, Lane.FETCH)
    return harness, poll


def test_what_is_sought_during_a_long_poll_is_asked_for_beside_it_at_once() -> None:
    harness, _ = in_a_long_poll(fetch_max_wait=25.0)

    harness.seek(0, 3, epoch=2)
    beside = harness.the_request()

    assert (offsets(beside), beside.to, beside.lane) == ({0: 3}, 1, Lane.ORDINARY)
    assert (beside.body.session_id, beside.body.session_epoch) == (0, -1)
    assert beside.body.max_wait_ms == 0
    assert harness.tick() == []
    (chunk,) = chunks(harness.answer(beside, of(0, a_batch(0, 10)), session_id=0))
    assert (chunk.partition, chunk.epoch, chunk.offset) == (tp(0), 2, 3)


def test_the_session_goes_on_as_if_nothing_had_been_asked_beside_it() -> None:
    harness, poll = in_a_long_poll()
    harness.seek(0, 3, epoch=2)
    harness.answer(harness.the_request(), of(0, a_batch(0, 7)), session_id=0)

    harness.answer(poll, of(0, a_batch(10, 5)), of(1, a_batch(10, 5)), after=0.2)
    following = harness.the_request()

    assert (following.body.session_id, following.body.session_epoch) == (77, 2)
    assert (offsets(following), forgotten(following)) == ({0: 7, 1: 15}, set())
    assert [one["partition"] for one in harness.events("fetch.dropped")] == ["orders-0"]


def test_a_backlog_beside_a_long_poll_is_asked_for_in_growing_pieces() -> None:
    harness, _ = in_a_long_poll(fetch_max_wait=25.0)
    harness.seek(0, 0, epoch=2)
    sizes = []
    for at in range(7):
        beside = harness.the_request()
        sizes.append(beside.body.max_bytes + CHUNK_OVERHEAD)
        data = a_batch(at, 1, size=beside.body.max_bytes)
        harness.answer(beside, of(0, data), session_id=0)
        harness.consume({0: at + 1}, freed=len(data) + CHUNK_OVERHEAD)

    assert sizes == [16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 256 * KIB, 256 * KIB]


def test_what_is_assigned_or_resumed_during_a_long_poll_is_asked_for_at_once() -> None:
    harness, poll = in_a_long_poll()
    harness.pause(1)
    harness.answer(poll, after=0.5)
    harness.the_request()

    harness.pause()
    resumed = harness.the_request()
    harness.answer(resumed, of(1), session_id=0)
    harness.cluster({0: 1, 1: 1, 2: 1})
    harness.assign({0: None, 1: None, 2: 40})

    assert offsets(resumed) == {1: 10}
    assert offsets(harness.the_request()) == {2: 40}


def test_what_is_buffered_still_is_not_asked_for_beside_a_long_poll() -> None:
    harness, poll = in_a_long_poll()
    harness.answer(poll, of(1, a_batch(10, 5)))
    harness.pause(1)
    harness.the_request()

    harness.pause()

    assert harness.tick() == []


def test_where_there_is_nothing_it_is_asked_again_at_growing_distances() -> None:
    harness, poll = in_a_long_poll(fetch_max_wait=25.0)
    harness.seek(0, 10, epoch=2)
    times: list[float] = []
    began = harness.now
    while harness.now < began + 3.0:
        for beside in harness.tick():
            times.append(harness.now - began)
            harness.answer(beside, of(0), session_id=0)
        assert harness.tick() == []
        harness.now = harness.wake_at

    expected = [0.0, FIRST_WAIT]
    while expected[-1] < 3.0:
        expected.append(expected[-1] + min(LONGEST_WAIT, 2 * (expected[-1] - expected[-2])))
    assert times == pytest.approx(expected[: len(times)])
    assert len(times) in (len(expected), len(expected) - 1)
    harness.answer(poll)
    assert offsets(harness.the_request()) == {0: 10}
    assert harness.tick(1.0) == []


def test_another_that_is_sought_does_not_wait_for_one_at_its_end() -> None:
    harness, _ = in_a_long_poll(fetch_max_wait=25.0)
    harness.seek(0, 10, epoch=2)
    for _ in range(8):
        for beside in harness.tick(0.5):
            harness.answer(beside, of(0), session_id=0)

    harness.seek(1, 5, epoch=3)

    assert offsets(harness.the_request(0.01)) == {1: 5}


def test_the_same_offset_is_filed_once_however_the_answers_come() -> None:
    for first in (0, 1):
        harness, poll = in_a_long_poll()
        harness.seek(0, 3, epoch=2)
        beside = harness.the_request()
        harness.answer(poll)
        both = [beside, harness.the_request(SHORTLY)]
        assert offsets(both[1]) == {0: 3}

        said = harness.answer(both[first], of(0, a_batch(0, 10)))
        said += harness.answer(both[1 - first], of(0, a_batch(0, 10)))

        assert [one.offset for one in chunks(said)] == [3]


def test_the_sessions_fetch_waits_shortly_for_what_is_asked_beside_it() -> None:
    harness, poll = in_a_long_poll()
    harness.seek(0, 3, epoch=2)
    beside = harness.the_request()

    harness.answer(poll, after=0.04)
    assert harness.tick() == []
    assert harness.wake_at == pytest.approx(harness.now + SHORTLY - 0.04)
    harness.answer(beside, of(0, a_batch(0, 7)), session_id=0)

    assert offsets(harness.the_request()) == {0: 7}


@pytest.mark.parametrize("failed", [False, True])
def test_what_goes_wrong_beside_the_session_leaves_it_alone(*, failed: bool) -> None:
    harness, poll = in_a_long_poll()
    harness.seek(0, 3, epoch=2)
    beside = harness.the_request()

    if failed:
        said = harness.fail(beside, KafkaConnectionError("disconnected"))
    else:
        said = harness.answer(beside, error_code=KafkaStorageError.errno, session_id=0)

    assert said == []
    assert harness.events("fetch.failed")[0]["wait_ms"] == pytest.approx(FIRST_WAIT * 1000)
    assert harness.tick() == []
    harness.answer(poll, after=0.5)
    following = harness.the_request()
    assert (following.body.session_id, following.body.session_epoch) == (77, 2)


def test_a_replica_near_us_is_asked_beside_its_long_poll_too() -> None:
    harness = FetchHarness(client_rack="east")
    harness.cluster({0: 1, 1: 2})
    harness.assign({0: 0, 1: 0})
    by_node = {one.to: one for one in harness.tick()}

    harness.answer(by_node[1], of(0, preferred_read_replica=2))
    beside = harness.the_request()

    assert (beside.to, beside.lane, offsets(beside)) == (2, Lane.ORDINARY, {0: 0})


def test_long_polls_that_hold_all_the_room_do_not_keep_it_from_being_asked() -> None:
    harness = FetchHarness.reading(
        {0: 1, 1: 2, 2: 3}, max_buffered_bytes=48 * KIB, max_partition_fetch_bytes=16 * KIB
    )
    assert len(harness.tick()) == 3

    sizes = []
    for partition in range(3):
        harness.seek(partition, 3, epoch=2)
        sizes.append(harness.the_request().body.max_bytes)

    assert all(0 < size <= 3 * KIB for size in sizes)


def test_a_node_for_which_the_long_polls_of_others_leave_no_room_is_asked_all_the_same() -> None:
    harness = FetchHarness(max_buffered_bytes=32 * KIB, max_partition_fetch_bytes=100 * KIB)
    harness.cluster({0: 1, 1: 2, 2: 3})
    harness.assign({0: 0, 1: 0})
    polls = harness.tick()

    harness.assign({0: None, 1: None, 2: 0})
    beside = harness.the_request()

    assert (beside.to, beside.lane) == (3, Lane.ORDINARY)
    harness.answer(beside, of(2), session_id=0)
    harness.answer(polls[0], after=0.5)
    assert {one.to for one in harness.tick() if one.lane is Lane.FETCH} >= {3}


def test_what_a_long_poll_covered_is_asked_for_without_one_if_the_next_has_no_room() -> None:
    harness = FetchHarness.reading(
        {0: 1, 1: 2, 2: 3}, max_buffered_bytes=48 * KIB, max_partition_fetch_bytes=16 * KIB
    )
    polls = {one.to: one for one in harness.tick()}
    harness.answer(polls[1], of(0, a_batch(0, 1, size=30 * KIB)))
    harness.pause(0)
    harness.answer(polls[2], of(1, a_batch(0, 1, size=40 * KIB)))
    harness.tick()

    harness.answer(polls[3])  # nothing new of any partition

    beside = [one for one in harness.tick(0.1) if one.to == 3]
    assert [(one.lane, offsets(one)) for one in beside] == [(Lane.ORDINARY, {2: 0})]


def test_beside_a_long_poll_nothing_is_asked_that_the_buffer_has_no_room_for() -> None:
    """Beyond the bound it brings a quarter of a request for each node at most."""
    harness = FetchHarness.reading(
        dict.fromkeys(range(40), 1), max_buffered_bytes=16 * KIB, max_partition_fetch_bytes=16 * KIB
    )
    poll = harness.the_request()
    harness.answer(poll, of(0, a_batch(0, 1, size=8 * KIB - CHUNK_OVERHEAD)))
    harness.the_request()
    held, epoch = 8 * KIB, 1

    for partition in range(1, 40):
        epoch += 1
        harness.seek(partition, 3, epoch=epoch)
        for beside in harness.tick():
            data = a_batch(0, 10, size=beside.body.max_bytes)
            said = harness.answer(beside, of(partition, data), session_id=0)
            held += sum(one.size for one in chunks(said))

    assert held <= 16 * KIB + 2 * (KIB + 2 * CHUNK_OVERHEAD)


def test_a_consumer_at_rest_asks_nothing_beside_its_long_polls() -> None:
    harness, poll = in_a_long_poll()
    sent = [poll]
    for _ in range(20):
        harness.answer(sent[-1], after=0.5)
        sent.append(harness.the_request())

    assert harness.tick() == []
    assert {one.lane for one in sent} == {Lane.FETCH}


def test_a_node_that_left_is_forgotten_only_when_it_owes_nothing() -> None:
    harness, poll = in_a_long_poll()
    harness.seek(0, 3, epoch=2)
    beside = harness.the_request()

    harness.cluster({0: 2, 1: 2}, brokers=(2, 3))
    assert harness.the_request().to == 2
    harness.fail(poll, KafkaConnectionError("left"))
    harness.cluster({0: 2, 1: 2}, brokers=(2, 3), version=2)
    harness.fail(beside, KafkaConnectionError("left"))

    assert harness.tick(1.0) == []  # both wait at node 2, which was asked when they moved there
