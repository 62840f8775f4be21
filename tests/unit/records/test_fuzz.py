"""No damage to the bytes gives a wrong record, a foreign exception or a hang."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import UnsupportedCodecError

from aktor.errors import BatchTooLargeError, CorruptBatchError
from tests.unit.records.builders_samples import SAMPLES
from tests.unit.records.building import CODECS, a_batch, a_reader, take_all, with_right_checksum

EXPECTED = (CorruptBatchError, BatchTooLargeError, UnsupportedCodecError)


def is_unchecked(name: str, position: int) -> bool:
    """The broker's own fields, which no checksum covers: offset and, in v2, the leader's epoch."""
    if name in ("v0", "v1"):
        return position % (len(SAMPLES[name]) // 2) < 8
    return position < 8 or (12 <= position < 16 and name in CODECS)


def sound(name: str) -> list[ConsumerRecord]:
    return take_all(a_reader(SAMPLES[name]))


def read(data: bytes, *, check_crcs: bool = True) -> list[ConsumerRecord]:
    """What is read until the end or an expected error; any other exception is the test's."""
    reader = a_reader(data, check_crcs=check_crcs, max_batch_bytes=1 << 20)
    records: list[ConsumerRecord] = []
    try:
        for _ in range(10_000):
            if reader.exhausted:
                return records
            records += reader.take(2)
    except EXPECTED:
        return records
    raise AssertionError("no end of it")


def flipped(data: bytes) -> Iterator[tuple[int, bytes]]:
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(damaged)


def contents(records: list[ConsumerRecord]) -> list[tuple[object, ...]]:
    return [(r.key, r.value, r.headers, r.timestamp, r.timestamp_type) for r in records]


@pytest.mark.parametrize("name", SAMPLES)
def test_with_checksums_a_flipped_bit_never_gives_a_wrong_record(name: str) -> None:
    data = SAMPLES[name]
    whole = sound(name)

    for position, damaged in flipped(data):
        records = read(damaged)

        if is_unchecked(name, position):
            assert contents(records) in (contents(whole), contents(whole)[:1], [])
        else:
            assert records == whole[: len(records)]
            assert records != whole


@pytest.mark.parametrize("name", SAMPLES)
def test_without_checksums_a_flipped_bit_gives_no_foreign_exception(name: str) -> None:
    for _, damaged in flipped(SAMPLES[name]):
        read(damaged, check_crcs=False)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_flipped_bit_under_a_right_checksum_gives_no_foreign_exception(name: str) -> None:
    for position, damaged in flipped(SAMPLES[name]):
        if position >= 21 and name in CODECS:
            read(with_right_checksum(damaged))


@pytest.mark.few_cases
@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_cut_gives_fewer_records_and_no_error(name: str, check_crcs: bool) -> None:
    data = SAMPLES[name]
    whole = sound(name)

    for end in range(len(data)):
        reader = a_reader(data[:end], check_crcs=check_crcs)
        records = [record for _ in whole for record in reader.take(2)]

        assert reader.exhausted
        assert records == whole[: len(records)]
        assert len(records) < len(whole)


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_of_a_payload_under_a_right_checksum_is_refused(codec: str) -> None:
    payload = SAMPLES[codec][61:]
    whole = sound(codec)

    for end in range(len(payload)):
        batch = SAMPLES[codec][:61] + payload[:end]
        batch = batch[:8] + (len(batch) - 12).to_bytes(4, "big") + batch[12:]
        records = read(with_right_checksum(batch))

        assert records == whole[: len(records)]
        assert len(records) < len(whole)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_any_bytes_in_place_of_any_bytes_give_no_foreign_exception(
    name: str, draw: st.DataObject
) -> None:
    data = bytearray(SAMPLES[name])
    start = draw.draw(st.integers(12, len(data)))
    length = draw.draw(st.integers(0, 12))
    data[start : start + length] = draw.draw(st.binary(max_size=20))
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    if len(data) > 61 and name in CODECS:
        data[:] = with_right_checksum(bytes(data))

    read(bytes(data))
    read(bytes(data), check_crcs=False)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_at_all_give_no_foreign_exception(data: bytes) -> None:
    read(data)
    read(data, check_crcs=False)
    read(a_batch([data], count=3, last_offset_delta=9))
