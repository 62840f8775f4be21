"""Answers to a Fetch that no sane broker sends: foreign and duplicate partitions, any bytes.

None of them crashes the fetch manager, which would cost a restart; the account of bytes stays
right, and the application is given nothing that it did not ask for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.structs import TopicPartition

from aktor.protocol.fetch import FetchedPartition
from tests.unit.managers.fetch.builders import FetchHarness, a_batch, chunks, of, tp

FOREIGN = TopicPartition("payments", 0)
int64s = st.sampled_from([-(2**63), -1, 0, 3, 9, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
int32s = st.sampled_from([-(2**31), -1, 0, 1, 2, 3, 9, 2**31 - 1])


@st.composite
def some_records(draw: st.DrawFn) -> bytes:
    whole = b"".join(
        a_batch(draw(st.integers(0, 20)), draw(st.integers(1, 5)))
        for _ in range(draw(st.integers(0, 3)))
    )
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 9))] = draw(st.binary(max_size=9))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


said = st.builds(
    lambda one, **fields: FetchedPartition(topic=one.topic, partition=one.partition, **fields),
    st.sampled_from([tp(0), tp(0), tp(1), tp(2), tp(9), tp(-1), FOREIGN]),
    error_code=st.sampled_from([0, 0, 0, 1, 2, 3, 6, 74, 75, 100, -1, 999, -(2**15)]),
    high_watermark=int64s,
    last_stable_offset=int64s,
    log_start_offset=int64s,
    aborted=st.lists(st.tuples(int64s, int64s), max_size=2).map(tuple),
    diverging_epoch=st.none() | st.tuples(int32s, int64s),
    current_leader=st.none() | st.tuples(int32s, int32s),
    preferred_read_replica=int32s,
    records=some_records().map(memoryview),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(said, max_size=5), int32s, st.booleans()), max_size=6))
def test_no_answer_crashes_it_and_the_account_stays_right(answers: Any) -> None:
    harness = FetchHarness.reading({0: 1, 1: 1, 2: 2}, max_buffered_bytes=1 << 20)
    under_way = harness.tick()
    filled = freed = 0
    for partitions, session_id, consumes in answers:
        if not under_way:
            under_way = harness.tick(after=2.0)
        if not under_way:
            break
        request = under_way.pop(0)
        asked = set(request.context.wanted)
        came = chunks(harness.answer(request, *partitions, session_id=session_id))

        assert {one.partition for one in came} <= asked
        with_data = Counter(one.partition for one in came if one.data)
        assert all(count == 1 for count in with_data.values())
        assert all(one.epoch == 1 for one in came)
        filled += sum(one.size for one in came)
        manager: Any = harness.manager
        assert manager.bytes_reserved == manager.bytes_asked
        assert manager.bytes_buffered == filled - freed
        if consumes:
            freed = filled
            harness.consume({0: 2**40}, freed=freed - harness.freed)
            assert manager.bytes_buffered == 0
        under_way += harness.tick(after=0.1)


@pytest.mark.parametrize("offset", [0, 5])
def test_of_a_partition_that_is_there_twice_the_second_is_dropped(offset: int) -> None:
    harness = FetchHarness.reading({0: 1})
    batch = a_batch(0, 5)
    came = chunks(harness.answer(harness.the_request(), of(0, batch), of(0, a_batch(offset, 5))))

    assert [(one.offset, bytes(one.data)) for one in came if one.data] == [(0, batch)]
    assert [one["because"] for one in harness.events("fetch.dropped")] == [
        "the partition has moved on"
    ]


def test_a_partition_that_nobody_asked_for_is_dropped() -> None:
    harness = FetchHarness.reading({0: 1, 2: 2})
    (first, _) = harness.tick()
    harness.said.clear()
    came = chunks(harness.answer(first, of(FOREIGN, a_batch(0, 5)), of(2, a_batch(0, 5)), of(0)))

    assert [one.partition for one in came if one.data] == []
    assert [one["because"] for one in harness.events("fetch.dropped")] == [
        "it was not asked for"
    ] * 2


def test_a_second_answer_with_an_error_does_not_undo_the_records_of_the_first() -> None:
    harness = FetchHarness.reading({0: 1})
    came = chunks(harness.answer(harness.the_request(), of(0, a_batch(0, 5)), of(0, error_code=1)))

    assert [(bool(one.data), one.error) for one in came] == [(True, None)]
    assert harness.the_request(1.0).context.wanted[tp(0)].offset == 5
