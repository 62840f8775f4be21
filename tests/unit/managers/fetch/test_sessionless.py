"""The sessionless Fetch beside the session's long poll: when it is sent, and what is made of it."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError, KafkaStorageError

from aktor.events.network import Lane, Request
from aktor.managers.fetch.request import CHUNK_OVERHEAD
from aktor.managers.fetch.sessionless import FIRST_WAIT, LONGEST_WAIT, SHORTLY
from tests.unit.managers.fetch.builders import (
    Around,
    a_batch,
    chunks,
    forgotten,
    of,
    offsets,
    tp,
)

KIB = 1024


def in_a_long_poll(**settings: object) -> tuple[Around, Request]:
    """Partitions 0 and 1 of node 1 are at the offset 10, which is their end; it waits for more."""
    around = Around.reading({0: 1, 1: 1}, **settings)
    around.answer(around.the_request(), of(0, a_batch(0, 10)), of(1, a_batch(0, 10)))
    around.consume({0: 10, 1: 10}, freed=2 * (100 + CHUNK_OVERHEAD))
    poll = around.the_request()
    assert (offsets(poll), poll.lane) == ({0: 10, 1: 10}, Lane.FETCH)
    return around, poll


def test_what_is_sought_during_a_long_poll_is_asked_for_beside_it_at_once() -> None:
    around, _ = in_a_long_poll(fetch_max_wait=25.0)

    around.seek(0, 3, epoch=2)
    beside = around.the_request()

    assert (offsets(beside), beside.to, beside.lane) == ({0: 3}, 1, Lane.ORDINARY)
    assert (beside.body.session_id, beside.body.session_epoch) == (0, -1)
    assert beside.body.max_wait_ms == 0
    assert around.tick() == []
    (chunk,) = chunks(around.answer(beside, of(0, a_batch(0, 10)), session_id=0))
    assert (chunk.partition, chunk.epoch, chunk.offset) == (tp(0), 2, 3)


def test_the_session_goes_on_as_if_nothing_had_been_asked_beside_it() -> None:
    around, poll = in_a_long_poll()
    around.seek(0, 3, epoch=2)
    around.answer(around.the_request(), of(0, a_batch(0, 7)), session_id=0)

    around.answer(poll, of(0, a_batch(10, 5)), of(1, a_batch(10, 5)), after=0.2)
    following = around.the_request()

    assert (following.body.session_id, following.body.session_epoch) == (77, 2)
    assert (offsets(following), forgotten(following)) == ({0: 7, 1: 15}, set())
    assert [one["partition"] for one in around.events("fetch.dropped")] == ["orders-0"]


def test_a_backlog_beside_a_long_poll_is_asked_for_in_growing_pieces() -> None:
    around, _ = in_a_long_poll(fetch_max_wait=25.0)
    around.seek(0, 0, epoch=2)
    sizes = []
    for at in range(7):
        beside = around.the_request()
        sizes.append(beside.body.max_bytes + CHUNK_OVERHEAD)
        data = a_batch(at, 1, size=beside.body.max_bytes)
        around.answer(beside, of(0, data), session_id=0)
        around.consume({0: at + 1}, freed=len(data) + CHUNK_OVERHEAD)

    assert sizes == [16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 256 * KIB, 256 * KIB]


def test_what_is_assigned_or_resumed_during_a_long_poll_is_asked_for_at_once() -> None:
    around, poll = in_a_long_poll()
    around.pause(1)
    around.answer(poll, after=0.5)
    around.the_request()

    around.pause()
    resumed = around.the_request()
    around.answer(resumed, of(1), session_id=0)
    around.cluster({0: 1, 1: 1, 2: 1})
    around.assign({0: None, 1: None, 2: 40})

    assert offsets(resumed) == {1: 10}
    assert offsets(around.the_request()) == {2: 40}


def test_what_is_buffered_still_is_not_asked_for_beside_a_long_poll() -> None:
    around, poll = in_a_long_poll()
    around.answer(poll, of(1, a_batch(10, 5)))
    around.pause(1)
    around.the_request()

    around.pause()

    assert around.tick() == []


def test_where_there_is_nothing_it_is_asked_again_at_growing_distances() -> None:
    around, poll = in_a_long_poll(fetch_max_wait=25.0)
    around.seek(0, 10, epoch=2)
    times: list[float] = []
    began = around.now
    while around.now < began + 3.0:
        for beside in around.tick():
            times.append(around.now - began)
            around.answer(beside, of(0), session_id=0)
        assert around.tick() == []
        around.now = around.wake_at

    expected = [0.0, FIRST_WAIT]
    while expected[-1] < 3.0:
        expected.append(expected[-1] + min(LONGEST_WAIT, 2 * (expected[-1] - expected[-2])))
    assert times == pytest.approx(expected[: len(times)])
    assert len(times) in (len(expected), len(expected) - 1)
    around.answer(poll)
    assert offsets(around.the_request()) == {0: 10}
    assert around.tick(1.0) == []


def test_another_that_is_sought_does_not_wait_for_one_at_its_end() -> None:
    around, _ = in_a_long_poll(fetch_max_wait=25.0)
    around.seek(0, 10, epoch=2)
    for _ in range(8):
        for beside in around.tick(0.5):
            around.answer(beside, of(0), session_id=0)

    around.seek(1, 5, epoch=3)

    assert offsets(around.the_request(0.01)) == {1: 5}


def test_the_same_offset_is_filed_once_however_the_answers_come() -> None:
    for first in (0, 1):
        around, poll = in_a_long_poll()
        around.seek(0, 3, epoch=2)
        beside = around.the_request()
        around.answer(poll)
        both = [beside, around.the_request(SHORTLY)]
        assert offsets(both[1]) == {0: 3}

        said = around.answer(both[first], of(0, a_batch(0, 10)))
        said += around.answer(both[1 - first], of(0, a_batch(0, 10)))

        assert [one.offset for one in chunks(said)] == [3]


def test_the_sessions_fetch_waits_shortly_for_what_is_asked_beside_it() -> None:
    around, poll = in_a_long_poll()
    around.seek(0, 3, epoch=2)
    beside = around.the_request()

    around.answer(poll, after=0.04)
    assert around.tick() == []
    assert around.wake_at == pytest.approx(around.now + SHORTLY - 0.04)
    around.answer(beside, of(0, a_batch(0, 7)), session_id=0)

    assert offsets(around.the_request()) == {0: 7}


@pytest.mark.parametrize("failed", [False, True])
def test_what_goes_wrong_beside_the_session_leaves_it_alone(*, failed: bool) -> None:
    around, poll = in_a_long_poll()
    around.seek(0, 3, epoch=2)
    beside = around.the_request()

    if failed:
        said = around.fail(beside, KafkaConnectionError("disconnected"))
    else:
        said = around.answer(beside, error_code=KafkaStorageError.errno, session_id=0)

    assert said == []
    assert around.events("fetch.failed")[0]["retry_in"] == pytest.approx(FIRST_WAIT)
    assert around.tick() == []
    around.answer(poll, after=0.5)
    following = around.the_request()
    assert (following.body.session_id, following.body.session_epoch) == (77, 2)


def test_a_replica_near_us_is_asked_beside_its_long_poll_too() -> None:
    around = Around(client_rack="east")
    around.cluster({0: 1, 1: 2})
    around.assign({0: 0, 1: 0})
    by_node = {one.to: one for one in around.tick()}

    around.answer(by_node[1], of(0, preferred_read_replica=2))
    beside = around.the_request()

    assert (beside.to, beside.lane, offsets(beside)) == (2, Lane.ORDINARY, {0: 0})


def test_long_polls_that_hold_all_the_room_do_not_keep_it_from_being_asked() -> None:
    around = Around.reading(
        {0: 1, 1: 2, 2: 3}, max_buffered_bytes=48 * KIB, max_partition_fetch_bytes=16 * KIB
    )
    assert len(around.tick()) == 3

    sizes = []
    for partition in range(3):
        around.seek(partition, 3, epoch=2)
        sizes.append(around.the_request().body.max_bytes)

    assert all(0 < size <= 3 * KIB for size in sizes)


def test_a_node_for_which_the_long_polls_of_others_leave_no_room_is_asked_all_the_same() -> None:
    around = Around(max_buffered_bytes=32 * KIB, max_partition_fetch_bytes=100 * KIB)
    around.cluster({0: 1, 1: 2, 2: 3})
    around.assign({0: 0, 1: 0})
    polls = around.tick()

    around.assign({0: None, 1: None, 2: 0})
    beside = around.the_request()

    assert (beside.to, beside.lane) == (3, Lane.ORDINARY)
    around.answer(beside, of(2), session_id=0)
    around.answer(polls[0], after=0.5)
    assert {one.to for one in around.tick() if one.lane is Lane.FETCH} >= {3}


def test_what_a_long_poll_covered_is_asked_for_without_one_if_the_next_has_no_room() -> None:
    around = Around.reading(
        {0: 1, 1: 2, 2: 3}, max_buffered_bytes=48 * KIB, max_partition_fetch_bytes=16 * KIB
    )
    polls = {one.to: one for one in around.tick()}
    around.answer(polls[1], of(0, a_batch(0, 1, size=30 * KIB)))
    around.pause(0)
    around.answer(polls[2], of(1, a_batch(0, 1, size=40 * KIB)))
    around.tick()

    around.answer(polls[3])  # nothing new of any partition

    beside = [one for one in around.tick(0.1) if one.to == 3]
    assert [(one.lane, offsets(one)) for one in beside] == [(Lane.ORDINARY, {2: 0})]


def test_beside_a_long_poll_nothing_is_asked_that_the_buffer_has_no_room_for() -> None:
    """Beyond the bound it brings a quarter of a request for each node at most."""
    around = Around.reading(
        dict.fromkeys(range(40), 1), max_buffered_bytes=16 * KIB, max_partition_fetch_bytes=16 * KIB
    )
    poll = around.the_request()
    around.answer(poll, of(0, a_batch(0, 1, size=8 * KIB - CHUNK_OVERHEAD)))
    around.the_request()
    held, epoch = 8 * KIB, 1

    for partition in range(1, 40):
        epoch += 1
        around.seek(partition, 3, epoch=epoch)
        for beside in around.tick():
            data = a_batch(0, 10, size=beside.body.max_bytes)
            said = around.answer(beside, of(partition, data), session_id=0)
            held += sum(one.size for one in chunks(said))

    assert held <= 16 * KIB + 2 * (KIB + 2 * CHUNK_OVERHEAD)


def test_a_consumer_at_rest_asks_nothing_beside_its_long_polls() -> None:
    around, poll = in_a_long_poll()
    sent = [poll]
    for _ in range(20):
        around.answer(sent[-1], after=0.5)
        sent.append(around.the_request())

    assert around.tick() == []
    assert {one.lane for one in sent} == {Lane.FETCH}


def test_a_node_that_left_is_forgotten_only_when_it_owes_nothing() -> None:
    around, poll = in_a_long_poll()
    around.seek(0, 3, epoch=2)
    beside = around.the_request()

    around.cluster({0: 2, 1: 2}, brokers=(2, 3))
    assert around.the_request().to == 2
    around.fail(poll, KafkaConnectionError("left"))
    around.cluster({0: 2, 1: 2}, brokers=(2, 3), version=2)
    around.fail(beside, KafkaConnectionError("left"))

    assert around.tick(1.0) == []  # both wait at node 2, which was asked when they moved there
