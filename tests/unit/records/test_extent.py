"""How far fetched bytes reach, by their batch headers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from aktor.errors import CorruptBatchError
from aktor.records.batch import DELETE_HORIZON, LOG_APPEND_TIME
from aktor.records.extent import extent, timestamp_from
from tests.unit.records.building import a_reader


def a_batch(base_offset: int, records: int, *, magic: int = 2, codec: int = 0) -> bytes:
    """A sound batch as kafka-python's producer makes it, moved to `base_offset`."""
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for index in range(records):
        builder.append(timestamp=1000 + index, key=None, value=b"some value", headers=[])
    builder.close()
    batch = builder.buffer()
    return struct.pack(">q", base_offset) + bytes(batch[8:])


def of(data: bytes, offset: int) -> tuple[int, int]:
    return extent(memoryview(data), offset)[:2]


def test_it_reaches_to_the_end_of_the_last_complete_batch() -> None:
    data = a_batch(10, 3) + a_batch(13, 5)

    assert of(data, 10) == (18, len(data))
    assert of(data, 12) == (18, len(data))  # a fetch may begin inside of a batch


def test_a_batch_that_is_cut_off_does_not_count() -> None:
    first = a_batch(10, 3)
    second = a_batch(13, 5)

    for length in range(len(second)):
        assert of(first + second[:length], 10) == (13, len(first))


def test_without_a_complete_batch_the_offset_stays() -> None:
    batch = a_batch(10, 3)

    for length in range(len(batch)):
        assert of(batch[:length], 10) == (10, 0)


def test_the_newest_timestamp_is_that_of_the_last_complete_batch() -> None:
    first, second = a_batch(10, 3), a_batch(13, 5)

    assert extent(memoryview(first + second), 10).newest == 1004
    assert extent(memoryview(first + second[:-1]), 10).newest == 1002


@pytest.mark.parametrize(
    ("offset", "timestamp"), [(9, 1000), (10, 1000), (11, 1002), (13, 1000), (17, 1004), (18, -1)]
)
def test_the_timestamp_of_the_next_record_is_that_of_the_first_or_the_newest_of_its_batch(
    offset: int, timestamp: int
) -> None:
    data = memoryview(a_batch(10, 3) + a_batch(13, 5))

    assert timestamp_from(data, 0, offset) == timestamp


@pytest.mark.parametrize("flag", [LOG_APPEND_TIME, DELETE_HORIZON])
def test_where_the_base_timestamp_is_another_the_newest_stands_for_the_next_record(
    flag: int,
) -> None:
    batch = bytearray(a_batch(10, 3))
    batch[22] |= flag

    assert timestamp_from(memoryview(batch), 0, 10) == 1002


@pytest.mark.parametrize("data", [b"", a_batch(0, 1)[:60], a_batch(0, 1, magic=1)])
def test_without_a_header_of_v2_no_timestamp_is_known(data: bytes) -> None:
    assert extent(memoryview(data), 0).newest == timestamp_from(memoryview(data), 0, 0) == -1


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_the_timestamp_in_anything_can_be_asked_for(data: bytes) -> None:
    assert timestamp_from(memoryview(data), 0, 5) >= -(2**63)


def test_compaction_does_not_shorten_a_batch() -> None:
    header = bytearray(a_batch(10, 1))
    struct.pack_into(">i", header, 23, 99)  # last offset delta: 99 records were compacted away

    assert of(bytes(header), 10) == (110, len(header))


@pytest.mark.parametrize("magic", [0, 1])
def test_of_the_old_formats_each_message_is_a_batch(magic: int) -> None:
    single = a_batch(10, 1, magic=magic)
    wrapper = a_batch(14, 4, magic=magic, codec=1)  # its offset is that of the last in it

    assert of(single, 10) == (11, len(single))
    assert of(single + wrapper, 10) == (15, len(single) + len(wrapper))


@pytest.mark.parametrize(
    ("at", "damage"),
    [
        (8, struct.pack(">i", 0)),  # length
        (8, struct.pack(">i", 13)),
        (8, struct.pack(">i", -1)),
        (8, struct.pack(">i", 48)),  # shorter than the header of v2
        (0, struct.pack(">q", -1)),  # base offset
        (0, struct.pack(">q", 2**63 - 1)),
        (16, b"\x03"),  # magic
        (16, b"\xff"),
        (23, struct.pack(">i", -1)),  # last offset delta
    ],
)
def test_an_impossible_header_ends_the_fetching_and_reaches_the_reader(
    at: int, damage: bytes
) -> None:
    sound, bad = a_batch(10, 3), bytearray(a_batch(13, 5))
    bad[at : at + len(damage)] = damage
    data = sound + bytes(bad)

    assert of(data, 10) == (10, len(data))


def test_the_reader_gives_what_precedes_the_bad_batch_and_then_the_error() -> None:
    bad = bytearray(a_batch(13, 5))
    bad[16] = 9
    data = a_batch(10, 3) + bytes(bad)

    _, size = of(data, 10)
    reader = a_reader(data[:size], fetch_offset=10)

    assert [record.offset for record in reader.take(100)] == [10, 11, 12]
    with pytest.raises(CorruptBatchError) as raised:
        reader.take(100)
    assert raised.value.offset == 13


def test_batches_that_end_before_the_offset_are_told_from_no_batches() -> None:
    data = a_batch(10, 3)

    assert of(data, 13) == (13, len(data))
    assert of(b"", 13) == (13, 0)


@settings(deadline=None)
@given(data=st.binary(max_size=200), offset=st.integers(0, 2**63 - 1))
def test_noise_never_raises_and_never_goes_back(data: bytes, offset: int) -> None:
    following, size = of(data, offset)

    assert offset <= following < 2**63
    assert 0 <= size <= len(data)


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    codec=st.sampled_from([0, 1]),
    cut=st.integers(0, 400),
)
def test_it_agrees_with_kafka_python(counts: list[int], codec: int, cut: int) -> None:
    data, offset = b"", 5
    for count in counts:
        data += a_batch(offset, count, codec=codec)
        offset += count
    data = data[: max(0, len(data) - cut)]

    following, size = of(data, 5)

    theirs = 5
    batches = MemoryRecords(data)
    while batches.has_next():
        theirs = batches.next_batch().next_offset
    assert following == theirs
    assert data[:size] == data[: len(data) - _left_over(data)]


def _left_over(data: bytes) -> int:
    """How many bytes at the end belong to no complete batch."""
    at = 0
    while len(data) - at >= 12:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if size > len(data) - at:
            break
        at += size
    return len(data) - at


def with_epoch(batch: bytes, epoch: int) -> bytes:
    return batch[:12] + struct.pack(">i", epoch) + batch[16:]


def last_epoch(data: bytes) -> int:
    return extent(memoryview(data), 0).leader_epoch


def test_the_last_complete_batch_says_in_which_leader_epoch_it_was_written() -> None:
    old, new = with_epoch(a_batch(10, 3), 4), with_epoch(a_batch(13, 5), 7)

    assert last_epoch(old + new) == 7
    assert last_epoch(old + new[:-1]) == 4
    assert last_epoch(old) == 4
    assert last_epoch(b"") == -1


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_have_no_leader_epoch(magic: int) -> None:
    assert last_epoch(with_epoch(a_batch(10, 3), 4) + a_batch(13, 1, magic=magic)) == -1


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_the_leader_epoch_of_anything_can_be_asked_for(data: bytes) -> None:
    following, size, epoch, _ = extent(memoryview(data), 5)

    assert (following, size) == of(data, 5)
    assert epoch >= -1
