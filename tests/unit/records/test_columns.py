"""Columns: the same records as rows, in Arrow's layout, from both readers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaError

from aktor.records.columns import Columns, to_records
from tests.unit.records import building
from tests.unit.records.builders_twins import SAMPLES, batch_bytes, kinds
from tests.unit.records.building import (
    LOG_APPEND_TIME,
    OTHERS,
    RecordReader,
    a_batch,
    a_message,
    a_reader,
    a_record,
    a_wrapper,
    take_all,
    values,
)


def some_columns(limit: int = 1000, max_bytes: int | None = None, **how: Any) -> Columns:
    kind = "python" if building.in_use[-1] is RecordReader else "compiled"
    made: Columns = kinds()[kind](limit, max_bytes, **how)
    return made


HEADERS = [("h", b"x"), ("ключ", None), ("", b"")]
RECORDS = [
    a_record(0, b"first", key=b"key", headers=HEADERS, timestamp_delta=5),
    a_record(1, None),
    a_record(3, b"", key=b"", headers=[("h", b"")], timestamp_delta=-(2**62)),
]


def test_rows_and_columns_are_the_same_records() -> None:
    data = (
        a_batch(RECORDS, last_offset_delta=3)
        + a_batch(values(b"a", b"b"), base_offset=4, flags=LOG_APPEND_TIME, leader_epoch=9)
        + a_batch([a_record(delta) for delta in range(20)], base_offset=6, codec="lz4")
    )
    columns = some_columns()

    assert a_reader(data).fill(columns) == 25
    assert to_records(columns) == take_all(a_reader(data))
    assert columns.topics == ["orders"]
    assert columns.size == sum(
        len(one.key or b"")
        + len(one.value or b"")
        + sum(len(name.encode()) + len(content or b"") for name, content in one.headers)
        for one in to_records(columns)
    )


def test_old_formats_have_no_leader_and_maybe_no_time() -> None:
    data = a_message(3, b"v", magic=0) + a_message(4, None, key=b"k")
    data += a_wrapper([a_message(0, b"a"), a_message(1, b"b")], 6)
    columns = some_columns()

    a_reader(data).fill(columns)

    rows = [one._replace(checksum=None) for one in take_all(a_reader(data))]
    assert to_records(columns) == rows
    assert list(columns.undated) == [0]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_next_columns_begin_where_the_last_ones_are_full(limit: int) -> None:
    data = a_batch(RECORDS, last_offset_delta=3) + a_message(4) + a_batch(base_offset=5)
    reader = a_reader(data)
    found, positions = [], []
    while not reader.exhausted:
        columns = some_columns(limit)
        assert reader.fill(columns) <= limit
        found += to_records(columns)
        positions.append(reader.next_offset)

    assert [one.offset for one in found] == [0, 1, 3, 4, 5]
    assert positions[-1] == 6


def test_no_row_follows_the_one_with_which_there_are_enough_bytes() -> None:
    data = a_batch(values(b"12345", b"12345", b"12345")) + a_message(3, b"12345")
    reader = a_reader(data)

    rows = [reader.fill(some_columns(max_bytes=6)) for _ in range(3)]

    assert rows == [2, 2, 0]


def test_what_is_left_out_takes_no_room() -> None:
    data = a_batch(RECORDS, last_offset_delta=3)
    columns = some_columns(key=False, value=False, headers=False)

    a_reader(data).fill(columns)

    assert (columns.rows, columns.size) == (3, 0)
    assert len(columns.binary("header_name").data) == 0


def test_rows_before_an_error_come_first_and_then_it_is_raised_again_and_again() -> None:
    reader = a_reader(a_batch(values(b"a", b"b")) + a_batch(base_offset=2, crc=1))
    columns = some_columns()

    assert reader.fill(columns) == 2
    for _ in range(2):
        with pytest.raises(KafkaError):
            reader.fill(columns)
    assert (columns.rows, reader.next_offset) == (2, 2)


def test_a_deserializer_is_not_asked() -> None:
    reader = a_reader(a_batch(values(b"a", b"b")), deserialize_value=lambda *_: 1 / 0)
    columns = some_columns()

    assert reader.fill(columns) == 2
    assert [one.value for one in to_records(columns)] == [b"a", b"b"]


def test_rows_and_columns_take_turns() -> None:
    reader = a_reader(a_batch([a_record(delta) for delta in range(6)]) + a_batch(base_offset=6))
    first, second = some_columns(2), some_columns(2)

    offsets = [one.offset for one in reader.take(1)]
    reader.fill(first)
    offsets += [one.offset for one in to_records(first)]
    offsets += [one.offset for one in reader.take(2)]
    reader.fill(second)
    offsets += [one.offset for one in to_records(second)]

    assert offsets == list(range(7))


def test_a_record_can_be_added_by_itself() -> None:
    columns = some_columns()
    for record in take_all(a_reader(a_batch(RECORDS, last_offset_delta=3))):
        columns.append(record)

    assert to_records(columns) == take_all(a_reader(a_batch(RECORDS, last_offset_delta=3)))


def all_steps(name: str, data: bytes, limit: int, max_bytes: int | None, **how: Any) -> list[Any]:
    reader = a_reader(data, reader=name, **how)
    steps: list[Any] = []
    for _ in range(1000):
        if reader.exhausted:
            break
        columns = kinds()[name](limit, max_bytes)
        try:
            count = reader.fill(columns)
        except KafkaError as error:
            return [*steps, type(error), str(error), reader.next_offset]
        steps.append((count, to_records(columns), columns.size, reader.next_offset))
    return [*steps, reader.exhausted]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(batch_bytes() | st.sampled_from(SAMPLES), max_size=3),
    st.integers(0, 40),
    st.integers(1, 5),
    st.none() | st.integers(1, 60),
    st.booleans(),
)
def test_both_readers_fill_columns_alike(
    batches: list[bytes], fetch_offset: int, limit: int, max_bytes: int | None, check: bool
) -> None:
    how: dict[str, Any] = {
        "fetch_offset": fetch_offset,
        "check_crcs": check,
        "read_committed": True,
        "aborted": [(1, 0)],
        "max_batch_bytes": 1 << 20,
    }
    expected = all_steps("python", b"".join(batches), limit, max_bytes, **how)

    for name in OTHERS:
        assert all_steps(name, b"".join(batches), limit, max_bytes, **how) == expected


def test_columns_are_filled_with_what_follows_a_refused_record() -> None:
    def refuse(_topic: str, _headers: Any, data: bytes | None) -> Any:
        if data == b"bad":
            raise ValueError("not that one")
        return data

    values = [b"v", b"bad", b"w", b"x", b"y"]
    for data in (
        a_batch([a_record(delta, value) for delta, value in enumerate(values)]),
        a_wrapper([a_message(offset, value) for offset, value in enumerate(values)], 4),
    ):
        reader = a_reader(data, deserialize_value=refuse)
        assert [record.offset for record in reader.take(9)] == [0]

        assert reader.skip_to(2)
        few, rest = some_columns(2), some_columns()
        assert reader.fill(few) == 2
        assert reader.next_offset == 4
        assert reader.fill(rest) == 1
        assert [record.value for record in to_records(few) + to_records(rest)] == [b"w", b"x", b"y"]
        assert reader.exhausted
        assert reader.next_offset == 5
