"""A corrupt batch is fetched anew, three times, while its error is raised."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import CorruptRecordError

from aktor.consumer.core.partition_errors import TRIES
from aktor.errors import CorruptBatchError
from aktor.events.fetching import Chunk
from aktor.events.positions import Position, SeekPartitions
from tests.unit.consumer.core.builders import Site, a_site
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, a_chunk_of, a_refusal
from tests.unit.records.building import a_batch, values

SETTINGS: Any = {"retry_backoff": 0.1, "retry_backoff_max": 1.0}


def damaged(epoch: int = 1, offset: int = 0) -> Chunk:
    """A batch whose checksum is wrong."""
    batch = a_batch(values(b"0", b"1"), base_offset=offset, crc=1)
    return a_chunk_of(batch, offset=offset, epoch=epoch)


def raised_at(site: Site, timeout: float) -> float:
    """When a poll raises; the seconds since the beginning."""
    with pytest.raises(CorruptRecordError):
        site.poll(timeout)
    return round(site.clock.now - 100.0, 3)


def sought(site: Site) -> list[tuple[int, int]]:
    """(epoch, offset) of what was fetched anew."""
    return [
        (to.epoch, to.position.offset)
        for one in site.of(SeekPartitions)
        for to in one.partitions.values()
        if to.position is not None
    ]


def test_it_is_raised_at_once_and_fetched_anew_after_the_backoff() -> None:
    site = a_site(**SETTINGS)
    site.fetched(damaged())

    assert raised_at(site, 5.0) == 0.0
    assert sought(site) == []
    assert raised_at(site, 5.0) == 0.1  # still: nothing has come yet
    assert sought(site) == [(2, 0)]


def test_whoever_polls_on_reads_on_once_sound_bytes_have_come() -> None:
    site = a_site(**SETTINGS)
    site.fetched(damaged())
    raised_at(site, 5.0)
    raised_at(site, 5.0)
    site.bell.at(100.15, lambda: site.fetched(a_chunk(A, epoch=2)))

    assert site.poll(5.0) == {A: [0, 1, 2]}
    assert site.clock.now == 100.15
    assert not site.engine.delivery.has_errors or site.poll() == {}
    assert sought(site) == [(2, 0)]


def test_what_was_buffered_behind_it_is_dropped_and_its_credit_is_given_back() -> None:
    site = a_site(**SETTINGS)
    site.fetched(damaged(), a_chunk(A, 2))
    raised_at(site, 5.0)
    raised_at(site, 5.0)

    assert site.engine.delivery.buffered_bytes == 0
    site.fetched(a_chunk(A, 2, epoch=1))  # was on its way meanwhile
    assert raised_at(site, 0.0) == 0.1
    assert site.engine.delivery.buffered_bytes == 0


def test_after_three_more_fetches_it_counts_as_corrupt_for_good_until_a_seek() -> None:
    site = a_site(**SETTINGS)
    site.fetched(damaged())
    begun = []
    for _ in range(60):
        raised_at(site, 0.05)
        if len(sought(site)) > len(begun):
            begun.append(sought(site)[-1])
            site.fetched(damaged(epoch=begun[-1][0]))

    assert len(begun) == TRIES == 3
    assert [tries["tries"] for tries in site.told("batch.corrupt")] == [0, 1, 2, 3]
    assert [tries["retry_in"] for tries in site.told("batch.corrupt")] == [0.1, 0.2, 0.4, None]
    assert site.told("batch.healed") == []

    site.engine.seek(A, Position(offset=2))
    epoch = site.engine.delivery.partitions[A].epoch
    site.fetched(a_chunk(A, 2, epoch=epoch))
    assert site.poll() == {A: [2, 3, 4]}


def test_a_seek_to_the_same_place_begins_again() -> None:
    site = a_site(**SETTINGS)
    site.fetched(damaged())
    for epoch in range(2, 2 + TRIES):
        while len(sought(site)) < epoch - 1:
            raised_at(site, 0.1)
        site.fetched(damaged(epoch))
    raised_at(site, 10.0)

    site.engine.seek(A, Position(offset=0))
    site.forget()
    site.fetched(damaged(site.engine.delivery.partitions[A].epoch))

    raised_at(site, 1.0)
    raised_at(site, 1.0)
    assert len(sought(site)) == 1


def test_records_before_it_are_given_out_first_and_not_again() -> None:
    site = a_site(**SETTINGS)
    sound = a_batch(values(b"0", b"1"))
    site.fetched(a_chunk_of(sound + a_batch(values(b"2"), base_offset=2, crc=1)))

    assert site.poll() == {A: [0, 1]}
    with pytest.raises(CorruptBatchError) as raised:
        site.poll(5.0)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (*A, 2)
    raised_at(site, 5.0)
    site.fetched(a_chunk(A, 2, epoch=2))

    assert sought(site) == [(2, 2)]
    assert site.poll() == {A: [2, 3, 4]}
    assert [one["offset"] for one in site.told("batch.healed")] == []
    site.fetched(a_refusal(CorruptRecordError(), offset=5, epoch=2))
    raised_at(site, 0.0)
    assert [(one["offset"], one["tries"]) for one in site.told("batch.healed")] == [(2, 1)]


def test_others_are_read_meanwhile() -> None:
    site = a_site(A, B, **SETTINGS)
    site.fetched(damaged(), a_chunk(B, 0, epoch=2, count=3))
    given: list[int] = []
    for _ in range(6):
        try:
            given += site.poll(limit=1).get(B, [])
        except CorruptRecordError:
            site.clock.now += 0.05

    assert given == [0, 1, 2]
    assert sought(site) == [(3, 0)]


def test_what_a_broker_says_that_it_cannot_read_is_fetched_anew_too() -> None:
    site = a_site(**SETTINGS)
    site.fetched(a_refusal(CorruptRecordError()))
    raised_at(site, 5.0)
    raised_at(site, 5.0)
    site.fetched(a_chunk(A, epoch=2))

    assert site.poll() == {A: [0, 1, 2]}


def test_a_paused_partition_is_fetched_anew_when_it_is_resumed() -> None:
    site = a_site(**SETTINGS)
    site.fetched(damaged())
    raised_at(site, 5.0)
    site.engine.pause([A], paused=True)

    assert site.poll(5.0) == {}
    assert sought(site) == []

    site.engine.pause([A], paused=False)
    raised_at(site, 1.0)
    assert sought(site) == [(2, 0)]


def test_watermarks_alone_heal_nothing() -> None:
    site = a_site(**SETTINGS)
    site.fetched(damaged())
    raised_at(site, 5.0)
    raised_at(site, 5.0)
    site.fetched(Chunk(partition=A, epoch=2, offset=0, high_watermark=9, last_stable_offset=9))

    raised_at(site, 5.0)
    assert len(sought(site)) == 1


def test_a_broker_that_can_read_it_again_after_all_attempts_heals_it_without_a_seek() -> None:
    """The fetch manager asks a broker that answers CORRUPT_MESSAGE again, once a second."""
    site = a_site(**SETTINGS)
    site.fetched(a_refusal(CorruptRecordError()))
    for epoch in range(2, 2 + TRIES):
        while len(sought(site)) < epoch - 1:
            raised_at(site, 0.1)
        site.fetched(a_refusal(CorruptRecordError(), epoch=epoch))
    raised_at(site, 10.0)

    site.fetched(a_chunk(A, epoch=1 + TRIES))

    assert site.poll() == {A: [0, 1, 2]}
