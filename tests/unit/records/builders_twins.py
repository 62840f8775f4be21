"""Bytes for both readers of record batches, and that they say the same of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from kafka.errors import KafkaError

from aktor.records import columns as python
from tests.unit.records import building
from tests.unit.records.building import (
    CODECS,
    CONTROL,
    LOG_APPEND_TIME,
    OTHERS,
    READERS,
    TRANSACTIONAL,
    a_batch,
    a_marker,
    a_message,
    a_reader,
    a_record,
    a_wrapper,
)

#: What one call of `take` gave, or raised; then the positions.
Step = tuple[object, ...]


def all_steps(reader: Any, limit: int) -> list[Step]:
    """What `take` does until the end, and two calls beyond an error."""
    steps: list[Step] = []
    errors = 0
    for _ in range(10_000):
        if reader.exhausted or errors == 2:
            break
        try:
            given = [tuple(record) for record in reader.take(limit)]
            types = [[type(field) for field in record] for record in given]
            result: tuple[object, ...] = (given, types)
        except KafkaError as error:
            errors += 1
            result = (type(error), str(error), repr(error.__cause__))
        steps.append((*result, reader.next_offset, reader.leader_epoch))
    return [*steps, (reader.exhausted, reader.next_offset, reader.leader_epoch)]


def assert_alike(data: bytes, limit: int = 3, **how: Any) -> None:
    """All readers that there are do the same."""
    expected = all_steps(a_reader(data, reader="python", **how), limit)
    for name in OTHERS:
        assert all_steps(a_reader(data, reader=name, **how), limit) == expected


numbers = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 9)
long_numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2**41)
contents = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=9), contents), max_size=3)


@st.composite
def record_bytes(draw: st.DrawFn) -> bytes:
    made = a_record(
        draw(st.integers(-1, 8)),
        draw(contents),
        key=draw(contents),
        headers=draw(headers),
        timestamp_delta=draw(st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1)),
    )
    return draw(st.just(made) | st.binary(max_size=12))


@st.composite
def batch_bytes(draw: st.DrawFn) -> bytes:
    made = a_batch(
        draw(st.lists(record_bytes(), max_size=4)),
        base_offset=draw(st.integers(0, 30) | long_numbers),
        codec=draw(st.sampled_from(sorted(CODECS))),
        flags=draw(st.sampled_from([0, 0, TRANSACTIONAL, CONTROL, LOG_APPEND_TIME, 0x07])),
        count=draw(st.none() | numbers),
        last_offset_delta=draw(st.just(8) | numbers),
        base_timestamp=draw(long_numbers),
        max_timestamp=draw(long_numbers),
        producer_id=draw(st.integers(-1, 1)),
        magic=draw(st.sampled_from([2, 2, 2, 1, 3])),
    )
    return draw(st.just(made) | st.just(made + bytes(draw(st.integers(0, 3)))))


SAMPLES = [
    a_batch(
        [
            a_record(0, b"a", key=b"k", headers=[("h", b"x"), ("i", None), ("", b"")]),
            a_record(2, None, timestamp_delta=-900),
            a_record(3, b"b" * 200, timestamp_delta=2**40),
        ],
        base_offset=5,
        last_offset_delta=4,
    ),
    a_batch([a_record(delta) for delta in range(5)], flags=LOG_APPEND_TIME),
    a_marker(commit=False, offset=7, producer_id=1),
    a_message(4, b"v", key=b"k") + a_message(5, None, magic=0),
    a_wrapper([a_message(0, b"a"), a_message(1, b"b")], 10),
    a_wrapper([a_message(2**63 - 1, b"a"), a_message(1, b"b")], 10),
    a_message(2**63 - 1, b"a"),
]


def kinds() -> dict[str, Any]:
    """The columns that go with each reader."""
    made: dict[str, Any] = {"python": python.Columns}
    if "compiled" in READERS:
        made["compiled"] = building.kernel.Columns
    return made
