"""Bytes that somebody made to do harm: a typed error with coordinates, by rows and by columns."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.errors import CorruptBatchError
from tests.unit.records import building
from tests.unit.records.builders_hostile import assert_harmless, error_of
from tests.unit.records.builders_twins import kinds
from tests.unit.records.building import (
    READERS,
    TRANSACTIONAL,
    a_batch,
    a_message,
    a_reader,
    a_record,
    a_wrapper,
    unsigned_varint,
    values,
    with_right_checksum,
)

#: Fields of a v2 batch: name -> (where, how it is packed).
FIELDS = {
    "base offset": (0, ">q"),
    "length": (8, ">i"),
    "leader epoch": (12, ">i"),
    "magic": (16, ">b"),
    "checksum": (17, ">i"),
    "attributes": (21, ">h"),
    "last offset delta": (23, ">i"),
    "base timestamp": (27, ">q"),
    "max timestamp": (35, ">q"),
    "producer id": (43, ">q"),
    "producer epoch": (51, ">h"),
    "base sequence": (53, ">i"),
    "count": (57, ">i"),
}

#: Fields of a message of format v1.
MESSAGE_FIELDS = {
    "offset": (0, ">q"),
    "size": (8, ">i"),
    "checksum": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (17, ">b"),
    "timestamp": (18, ">q"),
    "key size": (26, ">i"),
    "value size": (31, ">i"),
}


def extremes(form: str) -> list[int]:
    """The least, the greatest, what is next to them, and what is next to nothing."""
    bits = struct.calcsize(form) * 8 - 1
    return [-(2**bits), 1 - 2**bits, -2, -1, 0, 1, 2, 7, 13, 14, 49, 50, 2**bits - 2, 2**bits - 1]


def with_field(batch: bytes, at: int, form: str, number: int) -> bytes:
    damaged = bytearray(batch)
    struct.pack_into(form, damaged, at, number)
    return bytes(damaged)


SOUND = a_batch(values(b"one", b"two", b"three"), base_offset=7)


@pytest.mark.few_cases
@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("field", FIELDS)
def test_an_extreme_number_in_any_field_of_a_batch(field: str, check_crcs: bool) -> None:
    at, form = FIELDS[field]
    for codec in ("none", "gzip"):
        batch = a_batch(values(b"one", b"two", b"three"), base_offset=7, codec=codec)
        for number in extremes(form):
            damaged = with_field(batch, at, form, number)
            if field != "checksum":
                damaged = with_right_checksum(damaged)
            for data in (damaged, damaged + SOUND, SOUND + damaged):
                assert_harmless(data, check_crcs=check_crcs, max_batch_bytes=1 << 20)
                assert_harmless(
                    data,
                    check_crcs=check_crcs,
                    max_batch_bytes=1 << 20,
                    fetch_offset=8,
                    read_committed=True,
                    aborted=[(-1, 0), (2**63 - 1, 2**63 - 1), (0, -(2**63))],
                )


@pytest.mark.parametrize("field", MESSAGE_FIELDS)
def test_an_extreme_number_in_any_field_of_an_old_message(field: str) -> None:
    at, form = MESSAGE_FIELDS[field]
    samples = (
        a_message(3, b"value", key=b"k"),
        a_wrapper([a_message(0, b"a"), a_message(1, b"b")], 4),
    )
    for sample in samples:
        for number in extremes(form):
            damaged = with_field(sample, at, form, number)
            assert_harmless(damaged, check_crcs=False, max_batch_bytes=1 << 20)
            assert_harmless(damaged + a_message(9), max_batch_bytes=1 << 20)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_numbers_in_any_fields_at_once(draw: st.DataObject) -> None:
    batches = []
    for _ in range(draw.draw(st.integers(1, 3))):
        batch = a_batch(
            values(b"one", b"two", b"three"),
            base_offset=draw.draw(st.integers(0, 9)),
            flags=draw.draw(st.sampled_from([0, TRANSACTIONAL])),
            producer_id=draw.draw(st.integers(-1, 1)),
        )
        for field in draw.draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=3)):
            at, form = FIELDS[field]
            batch = with_field(batch, at, form, draw.draw(st.sampled_from(extremes(form))))
        batches.append(draw.draw(st.sampled_from([with_right_checksum, bytes]))(batch))
    whole = b"".join(batches)
    assert_harmless(
        whole[: draw.draw(st.integers(0, len(whole)))],
        check_crcs=draw.draw(st.booleans()),
        fetch_offset=draw.draw(st.sampled_from([0, 8, 2**62, 2**63 - 1])),
        read_committed=draw.draw(st.booleans()),
        aborted=[(0, 3)],
        max_batch_bytes=1 << 20,
    )


@pytest.mark.few_cases
@pytest.mark.parametrize(
    "number", [b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\x80" * 9 + b"\x01", b"\x80"]
)
@pytest.mark.parametrize("place", range(8))
def test_a_huge_a_negative_and_a_cut_off_number_at_any_place_of_a_record(
    number: bytes, place: int
) -> None:
    """Length, attributes, timestamp, offset, key, value, headers, and the name of a header."""
    parts = [b"\0", b"\0", b"\0", b"\x02k", b"\x02v", b"\x02", b"\x02h\x02x"]
    if place:
        parts[place - 1] = number + parts[place - 1][1:]
    body = b"".join(parts)
    size = unsigned_varint(len(body) * 2) if place else number
    for count in (1, 2, 50):
        for records in ([size + body], [a_record(), size + body], [size + body[: len(body) // 2]]):
            batch = a_batch(records, count=count, last_offset_delta=60)
            assert_harmless(batch)
            assert_harmless(batch, check_crcs=False, fetch_offset=1)


@pytest.mark.few_cases
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", range(8))
@pytest.mark.parametrize("magic", [-128, -1, 0, 1, 2, 3, 127])
def test_any_codec_in_any_format_is_read_or_named(reader: str, codec: int, magic: int) -> None:
    batch = with_right_checksum(
        a_batch(values(b"x"), flags=codec, magic=magic, compress=lambda data: data)
    )
    made = a_reader(batch, reader=reader)
    error = error_of(lambda: made.take(5))

    assert (error is None) == (codec == 0 and magic == 2)
    assert error is None or "orders-3" in str(error)


@pytest.mark.parametrize("reader", READERS)
def test_a_count_that_no_memory_could_hold_takes_none(reader: str) -> None:
    batch = a_batch(values(b"x"), count=2**31 - 1, last_offset_delta=2**31 - 1)
    made = a_reader(batch, reader=reader)

    with pytest.raises(CorruptBatchError, match="2147483647 records in"):
        made.take(2**31 - 1)
    columns = kinds()["python" if building.READERS[reader] is READERS["python"] else "compiled"]
    with pytest.raises(CorruptBatchError, match="2147483647 records in"):
        a_reader(batch, reader=reader).fill(columns(2**31 - 1, None))
