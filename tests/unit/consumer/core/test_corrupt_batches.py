"""A corrupt batch is fetched anew, three times, while its error is raised."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import CorruptRecordError

from aktor.consumer.core.partition_errors import TRIES
from aktor.errors import CorruptBatchError
from aktor.events.fetching import Chunk
from aktor.events.positions import Position, SeekPartitions
from tests.unit.consumer.core.builders import EngineHarness, a_consumer
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, a_chunk_of, a_refusal
from tests.unit.records.building import a_batch, values

SETTINGS: Any = {"retry_backoff": 0.1, "retry_backoff_max": 1.0}


def damaged(epoch: int = 1, offset: int = 0) -> Chunk:
    """A batch whose checksum is wrong."""
    batch = a_batch(values(b"0", b"1"), base_offset=offset, crc=1)
    return a_chunk_of(batch, offset=offset, epoch=epoch)


def raised_at(harness: EngineHarness, timeout: float) -> float:
    """When a poll raises; the seconds since the beginning."""
    with pytest.raises(CorruptRecordError):
        harness.poll(timeout)
    return round(harness.clock.now - 100.0, 3)


def sought(harness: EngineHarness) -> list[tuple[int, int]]:
    """(epoch, offset) of what was fetched anew."""
    return [
        (to.epoch, to.position.offset)
        for one in harness.of(SeekPartitions)
        for to in one.partitions.values()
        if to.position is not None
    ]


def test_it_is_raised_at_once_and_fetched_anew_after_the_backoff() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged())

    assert raised_at(harness, 5.0) == 0.0
    assert sought(harness) == []
    assert raised_at(harness, 5.0) == 0.1  # still: nothing has come yet
    assert sought(harness) == [(2, 0)]


def test_nothing_is_fetched_ahead_of_it_until_it_was_read() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged())
    raised_at(harness, 5.0)
    raised_at(harness, 5.0)

    (attempt,) = harness.of(SeekPartitions)
    assert not attempt.partitions[A].ahead
    harness.fetched(a_chunk(A, epoch=2))
    harness.poll(1.0)
    assert harness.engine.delivery.as_assigned()[A].ahead


def test_whoever_polls_on_reads_on_once_sound_bytes_have_come() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged())
    raised_at(harness, 5.0)
    raised_at(harness, 5.0)
    harness.bell.at(100.15, lambda: harness.fetched(a_chunk(A, epoch=2)))

    assert harness.poll(5.0) == {A: [0, 1, 2]}
    assert harness.clock.now == 100.15
    assert not harness.engine.delivery.has_errors or harness.poll() == {}
    assert sought(harness) == [(2, 0)]


def test_what_was_buffered_behind_it_is_dropped_and_its_credit_is_given_back() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged(), a_chunk(A, 2))
    raised_at(harness, 5.0)
    raised_at(harness, 5.0)

    assert harness.engine.delivery.buffered_bytes == 0
    harness.fetched(a_chunk(A, 2, epoch=1))  # was on its way meanwhile
    assert raised_at(harness, 0.0) == 0.1
    assert harness.engine.delivery.buffered_bytes == 0


def test_after_three_more_fetches_it_counts_as_corrupt_for_good_until_a_seek() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged())
    begun = []
    for _ in range(60):
        raised_at(harness, 0.05)
        if len(sought(harness)) > len(begun):
            begun.append(sought(harness)[-1])
            harness.fetched(damaged(epoch=begun[-1][0]))

    assert len(begun) == TRIES == 3
    assert [one["attempts"] for one in harness.told("batch.corrupt")] == [0, 1, 2, 3]
    assert [one["wait_ms"] for one in harness.told("batch.corrupt")] == [100, 200, 400, None]
    assert harness.told("batch.healed") == []

    harness.engine.seek(A, Position(offset=2))
    epoch = harness.engine.delivery.partitions[A].epoch
    harness.fetched(a_chunk(A, 2, epoch=epoch))
    assert harness.poll() == {A: [2, 3, 4]}


def test_a_seek_to_the_same_place_begins_again() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged())
    for epoch in range(2, 2 + TRIES):
        while len(sought(harness)) < epoch - 1:
            raised_at(harness, 0.1)
        harness.fetched(damaged(epoch))
    raised_at(harness, 10.0)

    harness.engine.seek(A, Position(offset=0))
    harness.forget()
    harness.fetched(damaged(harness.engine.delivery.partitions[A].epoch))

    raised_at(harness, 1.0)
    raised_at(harness, 1.0)
    assert len(sought(harness)) == 1


def test_records_before_it_are_given_out_first_and_not_again() -> None:
    harness = a_consumer(**SETTINGS)
    sound = a_batch(values(b"0", b"1"))
    harness.fetched(a_chunk_of(sound + a_batch(values(b"2"), base_offset=2, crc=1)))

    assert harness.poll() == {A: [0, 1]}
    with pytest.raises(CorruptBatchError) as raised:
        harness.poll(5.0)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (*A, 2)
    raised_at(harness, 5.0)
    harness.fetched(a_chunk(A, 2, epoch=2))

    assert sought(harness) == [(2, 2)]
    assert harness.poll() == {A: [2, 3, 4]}
    assert [one["offset"] for one in harness.told("batch.healed")] == []
    harness.fetched(a_refusal(CorruptRecordError(), offset=5, epoch=2))
    raised_at(harness, 0.0)
    assert [(one["offset"], one["attempts"]) for one in harness.told("batch.healed")] == [(2, 1)]


def test_others_are_read_meanwhile() -> None:
    harness = a_consumer(A, B, **SETTINGS)
    harness.fetched(damaged(), a_chunk(B, 0, epoch=2, count=3))
    given: list[int] = []
    for _ in range(6):
        try:
            given += harness.poll(limit=1).get(B, [])
        except CorruptRecordError:
            harness.clock.now += 0.05

    assert given == [0, 1, 2]
    assert sought(harness) == [(3, 0)]


def test_what_a_broker_says_that_it_cannot_read_is_fetched_anew_too() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(a_refusal(CorruptRecordError()))
    raised_at(harness, 5.0)
    raised_at(harness, 5.0)
    harness.fetched(a_chunk(A, epoch=2))

    assert harness.poll() == {A: [0, 1, 2]}


def test_a_paused_partition_is_fetched_anew_when_it_is_resumed() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged())
    raised_at(harness, 5.0)
    harness.engine.pause([A], paused=True)

    assert harness.poll(5.0) == {}
    assert sought(harness) == []

    harness.engine.pause([A], paused=False)
    raised_at(harness, 1.0)
    assert sought(harness) == [(2, 0)]


def test_watermarks_alone_heal_nothing() -> None:
    harness = a_consumer(**SETTINGS)
    harness.fetched(damaged())
    raised_at(harness, 5.0)
    raised_at(harness, 5.0)
    harness.fetched(Chunk(partition=A, epoch=2, offset=0, high_watermark=9, last_stable_offset=9))

    raised_at(harness, 5.0)
    assert len(sought(harness)) == 1


def test_a_broker_that_can_read_it_again_after_all_attempts_heals_it_without_a_seek() -> None:
    """The fetch manager asks a broker that answers CORRUPT_MESSAGE again, once a second."""
    harness = a_consumer(**SETTINGS)
    harness.fetched(a_refusal(CorruptRecordError()))
    for epoch in range(2, 2 + TRIES):
        while len(sought(harness)) < epoch - 1:
            raised_at(harness, 0.1)
        harness.fetched(a_refusal(CorruptRecordError(), epoch=epoch))
    raised_at(harness, 10.0)

    harness.fetched(a_chunk(A, epoch=1 + TRIES))

    assert harness.poll() == {A: [0, 1, 2]}
