"""Both readers do the same with the same bytes: records, positions, errors and their texts."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaError

from aktor.errors import CorruptBatchError, RecordDeserializationError
from tests.unit.records.builders_twins import SAMPLES, Step, assert_alike, batch_bytes
from tests.unit.records.building import (
    CONTROL,
    OTHERS,
    READERS,
    a_batch,
    a_message,
    a_reader,
    a_record,
    a_wrapper,
    unsigned_varint,
    with_right_checksum,
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(batch_bytes(), max_size=3),
    st.integers(0, 40),
    st.integers(1, 5),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30)), max_size=2),
)
def test_made_batches(
    batches: list[bytes], fetch_offset: int, limit: int, check: bool, aborted: list[Any]
) -> None:
    assert_alike(
        b"".join(batches),
        limit,
        fetch_offset=fetch_offset,
        check_crcs=check,
        read_committed=bool(aborted),
        aborted=aborted,
        max_batch_bytes=1 << 20,
    )


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_batches(sample: bytes, draw: st.DataObject) -> None:
    data = bytearray(sample)
    for _ in range(draw.draw(st.integers(1, 3))):
        start = draw.draw(st.integers(0, len(data)))
        data[start : start + draw.draw(st.integers(0, 3))] = draw.draw(st.binary(max_size=3))
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    fetch_offset = draw.draw(st.integers(0, 12))
    if len(data) > 61 and sample[16] == 2:
        data[:] = with_right_checksum(bytes(data))
    how = {"fetch_offset": fetch_offset, "read_committed": True, "aborted": [(1, 0)]}

    assert_alike(bytes(data) + sample, **how, max_batch_bytes=1 << 20)
    assert_alike(bytes(data), **how, check_crcs=False, max_batch_bytes=1 << 20)


@pytest.mark.few_cases
@pytest.mark.parametrize("sample", range(len(SAMPLES)))
@pytest.mark.parametrize("fetch_offset", [0, 6, 8, 11])
def test_every_bit_flipped(sample: int, fetch_offset: int) -> None:
    whole = SAMPLES[sample]
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        damaged = bytes(data)
        if len(data) > 61 and data[16] == 2:
            damaged = with_right_checksum(damaged)

        assert_alike(damaged, fetch_offset=fetch_offset, max_batch_bytes=1 << 20)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=11), min_size=5, max_size=5), st.integers(0, 4))
def test_any_bytes_for_the_numbers_of_a_record(parts: list[bytes], fetch_offset: int) -> None:
    body = b"\0" + b"".join(parts)
    record = unsigned_varint(len(body) * 2) + body

    assert_alike(a_batch([record, a_record(1)]), fetch_offset=fetch_offset)


@pytest.mark.few_cases
@pytest.mark.parametrize("number", [b"\x80\x00", b"\x81\x00", b"\x80" * 4 + b"\x0f", b"\xff" * 10])
@pytest.mark.parametrize("place", range(6))
def test_numbers_that_are_longer_than_they_need_be(number: bytes, place: int) -> None:
    parts = [b"\0", b"\0", b"\0", b"\1", b"\1", b"\0"]
    parts[place] = number
    body = b"".join(parts)

    assert_alike(a_batch([unsigned_varint(len(body) * 2) + body]))
    assert_alike(a_batch([number + body, a_record(1)]))
    assert_alike(a_batch([number + body, a_record(1)]), fetch_offset=1)


def test_deserializers_that_refuse() -> None:
    def upper(topic: str, headers: Any, data: bytes | None) -> Any:
        if data == b"bad":
            raise ValueError("not that one")
        return [topic, headers, data]

    records = [a_record(delta, b"bad" if delta == 3 else b"v", key=b"k") for delta in range(5)]
    data = a_batch(records)
    wrapped = a_wrapper([a_message(0, b"v"), a_message(1, b"bad")], 10)
    for sample in (data, wrapped, a_batch([*records[:2], b"\xff" * 9], count=4)):
        assert_alike(sample, deserialize_value=upper)
        assert_alike(sample, deserialize_key=upper, deserialize_value=upper)


def refuse(_topic: str, _headers: Any, data: bytes | None) -> Any:
    """The user's deserializer, which refuses some values."""
    if data is not None and data.startswith(b"bad"):
        raise ValueError("not that one")
    return data


def steps_with_skips(reader: Any, limits: list[int], skips: list[int]) -> list[Step]:
    """What `take` gives until the end; after each call a skip, and past a refused record."""
    steps: list[Step] = []
    for turn in range(200):
        if reader.exhausted:
            break
        try:
            result: tuple[object, ...] = tuple(map(tuple, reader.take(limits[turn % len(limits)])))
            to = reader.next_offset + skips[turn % len(skips)]
        except RecordDeserializationError as error:
            result, to = (str(error), repr(error.__cause__)), error.offset + 1
        except KafkaError as error:
            result, to = (str(error),), reader.next_offset
        passed = reader.skip_to(to)
        steps.append((*result, passed, reader.next_offset, reader.leader_epoch))
        if not passed:
            break
    return steps


@st.composite
def some_batches(draw: st.DrawFn) -> bytes:
    """Batches of all formats, one after the other; some values are refused, some are compacted."""
    at, made = 0, b""
    for _ in range(draw(st.integers(1, 4))):
        offsets = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=8)))
        contents = [draw(st.sampled_from([b"bad", b"v", b"w" * 20])) for _ in offsets]
        kind = draw(st.sampled_from([2, 2, 2, 1, 0]))
        if kind == 2:
            records = [a_record(o, c) for o, c in zip(offsets, contents, strict=True)]
            broken = draw(st.sampled_from([[], [], [b"\xff" * 9]]))
            made += a_batch(
                [*records, *broken],
                base_offset=at,
                last_offset_delta=10,
                codec=draw(st.sampled_from(["none", "gzip", "lz4"])),
                flags=draw(st.sampled_from([0, 0, CONTROL])),
                leader_epoch=at,
            )
        else:
            base = at if kind == 0 else 0
            inner = [
                a_message(base + o, c, magic=kind) for o, c in zip(offsets, contents, strict=True)
            ]
            made += a_wrapper(inner, at + offsets[-1], magic=kind)
        at += 11
    return made


@settings(max_examples=500, deadline=None)
@given(
    some_batches(),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.integers(0, 25) | st.just(0), min_size=1, max_size=4),
)
def test_skipping_in_made_batches(data: bytes, limits: list[int], skips: list[int]) -> None:
    def steps(name: str) -> list[Step]:
        return steps_with_skips(
            a_reader(data, reader=name, deserialize_value=refuse), limits, skips
        )

    expected = steps("python")
    for name in OTHERS:
        assert steps(name) == expected


def what_is_left(reader: Any, limit: int) -> list[object]:
    """Records and errors, refused records are passed; and the position at the end."""
    left: list[object] = []
    while not reader.exhausted:
        try:
            left += map(tuple, reader.take(limit))
        except RecordDeserializationError as error:
            left.append(str(error))
            if not reader.skip_to(error.offset + 1):
                return [*left, CorruptBatchError]
        except CorruptBatchError:
            return [*left, CorruptBatchError]
    return [*left, reader.next_offset]


@settings(max_examples=300, deadline=None)
@given(some_batches(), st.integers(0, 45), st.integers(1, 9), st.integers(1, 9))
def test_after_a_skip_a_reader_gives_what_one_that_begins_there_gives(
    data: bytes, to: int, first: int, limit: int
) -> None:
    for name in READERS:
        reader = a_reader(data, reader=name, deserialize_value=refuse)
        with contextlib.suppress(KafkaError):
            reader.take(first)
        to = max(to, reader.next_offset)
        passed = reader.skip_to(to)
        fetch_offset = to if passed else 0
        fresh = a_reader(data, reader=name, deserialize_value=refuse, fetch_offset=fetch_offset)
        if passed:
            assert what_is_left(reader, limit) == what_is_left(fresh, limit)
        else:  # a batch is corrupt, or this is the refused record
            assert {type, str} & set(map(type, what_is_left(fresh, limit)))


@pytest.mark.parametrize("reader", READERS)
def test_only_what_a_deserializer_gave_is_known_to_the_garbage_collector(reader: str) -> None:
    def parsed(topic: str, headers: Any, data: bytes | None) -> Any:
        return {"data": data}

    data = a_batch([a_record(0, headers=[("h", b"x")])])
    plain = a_reader(data, reader=reader).take(1)[0]
    made = a_reader(data, reader=reader, deserialize_value=parsed).take(1)[0]

    assert gc.is_tracked(made)
    assert gc.is_tracked(plain) == (reader == "python")


@pytest.mark.parametrize("reader", READERS)
def test_an_interrupt_in_a_deserializer_loses_and_repeats_nothing(reader: str) -> None:
    calls = 0

    def interrupted(topic: str, headers: Any, data: bytes | None) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return data

    records = [a_record(delta, b"%d" % delta) for delta in range(6)]
    made = a_reader(a_batch(records), reader=reader, deserialize_value=interrupted)

    with pytest.raises(KeyboardInterrupt):
        made.take(4)

    assert [record.value for record in made.take(10)] == [b"%d" % delta for delta in range(6)]
    assert made.next_offset == 6
