"""Formats v0 and v1: alone, wrapped and broken."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from kafka.errors import UnsupportedCodecError

from aktor.errors import BatchTooLargeError, CorruptBatchError
from tests.unit.records.building import (
    CODECS,
    LOG_APPEND_TIME,
    a_batch,
    a_message,
    a_reader,
    a_wrapper,
    compressor,
    kafka_python_takes,
    take_all,
)

WRAPPED = ("gzip", "snappy", "lz4")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("flags", [0, LOG_APPEND_TIME])
def test_messages_are_as_kafka_python_gives_them(magic: int, flags: int) -> None:
    data = b"".join(
        a_message(offset, value, key=key, magic=magic, flags=flags if magic else 0)
        for offset, key, value in [(3, None, b"a"), (4, b"k", None), (9, b"", b"")]
    )

    reader = a_reader(data)

    assert take_all(reader) == kafka_python_takes(data)
    assert reader.next_offset == 10


@pytest.mark.parametrize("codec", WRAPPED)
@pytest.mark.parametrize("flags", [0, LOG_APPEND_TIME])
def test_offsets_in_a_wrapper_of_v1_are_relative(codec: str, flags: int) -> None:
    inner = [a_message(delta, b"v%d" % delta, timestamp=delta) for delta in (0, 1, 4)]
    data = a_wrapper(inner, 104, codec=codec, flags=flags, timestamp=77)
    reader = a_reader(data)

    taken = take_all(reader)

    assert [record.offset for record in taken] == [100, 101, 104]
    assert [record.timestamp for record in taken] == ([77] * 3 if flags else [0, 1, 4])
    uncompressed_twin = a_wrapper(inner, 104, codec="gzip", flags=flags, timestamp=77)
    assert taken == kafka_python_takes(uncompressed_twin)
    assert reader.next_offset == 105


@pytest.mark.parametrize("codec", ["gzip", "snappy"])
def test_offsets_in_a_wrapper_of_v0_are_absolute(codec: str) -> None:
    inner = [a_message(offset, magic=0) for offset in (100, 101)]
    data = a_wrapper(inner, 101, codec=codec, magic=0)

    taken = take_all(a_reader(data))

    assert [record.offset for record in taken] == [100, 101]
    assert taken == kafka_python_takes(a_wrapper(inner, 101, codec="gzip", magic=0))


@pytest.mark.parametrize("broken", [True, False])
def test_an_lz4_frame_in_v0_may_have_the_wrong_header_checksum_of_old(broken: bool) -> None:
    xxhash = pytest.importorskip("xxhash")
    inner = [a_message(offset, magic=0) for offset in (5, 6)]
    frame = compressor("lz4")(b"".join(inner))
    end = 6 + (8 if frame[4] & 0x08 else 0)
    if broken:  # as Kafka 0.8 wrote it: of the frame's magic too (KIP-57)
        frame = frame[:end] + xxhash.xxh32(frame[:end]).digest()[-2:-1] + frame[end + 1 :]
    data = a_message(6, frame, magic=0, flags=CODECS["lz4"])

    assert [record.offset for record in take_all(a_reader(data))] == [5, 6]


def test_an_lz4_frame_in_v1_must_have_the_right_header_checksum() -> None:
    frame = bytearray(compressor("lz4")(a_message(0)))
    frame[6 + (8 if frame[4] & 0x08 else 0)] ^= 1

    with pytest.raises(CorruptBatchError, match="lz4"):
        a_reader(a_message(0, bytes(frame), flags=CODECS["lz4"])).take(1)


def test_messages_before_the_fetch_offset_are_skipped() -> None:
    data = a_wrapper([a_message(delta) for delta in range(5)], 14)
    reader = a_reader(data, fetch_offset=12)

    assert [record.offset for record in reader.take(1)] == [12]
    assert reader.next_offset == 13
    assert [record.offset for record in reader.take(9)] == [13, 14]


def test_messages_wholly_before_the_fetch_offset_do_not_move_it() -> None:
    reader = a_reader(a_message(3) + a_message(4), fetch_offset=9)

    assert take_all(reader) == []
    assert reader.next_offset == 9


@pytest.mark.few_cases
@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    "message",
    [
        pytest.param(lambda **v: a_message(-1, **v), id="a negative offset"),
        pytest.param(lambda **v: a_message(0, **v)[:-1] + b"xx", id="a length that is too small"),
        pytest.param(lambda **v: a_message(0, b"12345678", **v)[:-8], id="a value beyond"),
        pytest.param(lambda **v: a_wrapper([], 0, **v), id="an empty wrapper"),
        pytest.param(lambda **v: a_wrapper([b"garbage"], 0, **v), id="garbage in a wrapper"),
        pytest.param(
            lambda **v: a_wrapper([a_message(0, **v), bytes(26)], 0, **v), id="garbage after"
        ),
        pytest.param(lambda **v: a_wrapper([a_message(0, **v)[:-1]], 0, **v), id="a cut message"),
        pytest.param(lambda **v: a_message(0, None, flags=1, **v), id="a wrapper without value"),
        pytest.param(
            lambda magic: a_wrapper([a_message(0, magic=1 - magic)], 0, magic=magic),
            id="another format in a wrapper",
        ),
        pytest.param(
            lambda **v: a_wrapper([a_wrapper([a_message(0, **v)], 0, **v)], 0, **v),
            id="a wrapper in a wrapper",
        ),
        pytest.param(
            lambda **v: a_wrapper([a_message(1, **v), a_message(1, **v)], 1, **v),
            id="offsets that do not rise",
        ),
    ],
)
def test_a_broken_message_is_corrupt(
    message: Callable[..., bytes], magic: int, check_crcs: bool
) -> None:
    data = message(magic=magic)
    length = struct.pack(">i", len(data) - 12)

    with pytest.raises(CorruptBatchError):
        take_all(a_reader(data[:8] + length + data[12:], check_crcs=check_crcs))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("rest", [b"!", bytes(11), a_message(2)[:-1], a_message(2)[:12]])
def test_a_cut_off_message_at_the_end_of_a_wrapper_is_ignored(rest: bytes, magic: int) -> None:
    """As Java does (DataLogInputStream)."""
    whole = [a_message(offset, b"v", magic=magic) for offset in range(2)]
    data = a_wrapper([*whole, rest], 1, magic=magic)

    assert [record.offset for record in take_all(a_reader(data))] == [0, 1]


def test_a_wrapper_whose_offset_is_below_those_in_it_is_corrupt() -> None:
    data = a_wrapper([a_message(offset) for offset in (7, 8)], 1)

    with pytest.raises(CorruptBatchError, match="offset 8 in the wrapper 1"):
        a_reader(data).take(1)


def test_a_wrong_checksum_is_refused_outside_and_inside_a_wrapper() -> None:
    inside = a_wrapper([a_message(0, b"good"), a_message(1, b"bad", crc=1)], 1)
    reader = a_reader(inside)

    assert [record.value for record in reader.take(5)] == [b"good"]

    with pytest.raises(CorruptBatchError, match="checksum"):
        reader.take(5)
    with pytest.raises(CorruptBatchError, match="checksum"):
        a_reader(a_message(crc=1)).take(5)
    assert len(take_all(a_reader(inside, check_crcs=False))) == 2


def test_a_wrapper_above_the_limit_is_refused() -> None:
    data = a_wrapper([a_message(0, bytes(5000))], 0)

    with pytest.raises(BatchTooLargeError):
        a_reader(data, max_batch_bytes=5000).take(1)


def test_zstd_came_after_these_formats() -> None:
    with pytest.raises(UnsupportedCodecError, match="v1 does not have"):
        a_reader(a_message(flags=CODECS["zstd"])).take(1)


def test_a_topic_may_hold_all_formats_one_after_the_other() -> None:
    data = (
        a_message(0, magic=0) + a_wrapper([a_message(0), a_message(1)], 2) + a_batch(base_offset=3)
    )

    taken = take_all(a_reader(data), limit=1)

    assert [record.offset for record in taken] == [0, 1, 2, 3]
    assert taken == kafka_python_takes(data)
