"""pyarrow's JSON reader reads good blocks only, and reads them as Python's parser does."""

from __future__ import annotations

import json
import struct
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.consumer.columns.json_blocks import JsonBlocks
from aktor.consumer.columns.json_columns import JsonReader

SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("amount", pa.float64()),
        ("name", pa.string()),
        ("paid", pa.bool_()),
        ("day", pa.date32()),
        ("price", pa.decimal128(6, 2)),
        ("at", pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])),
    ]
)


def block(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def columns(*values: bytes | None) -> list[pa.Array] | None:
    return JsonBlocks(SCHEMA).columns(block(*values))


def test_a_good_block_is_read_as_a_whole() -> None:
    good = {"id": 1, "small": 2, "amount": 1.5, "name": "ä", "paid": True, "day": "2026-01-02"}
    found = columns(json.dumps(good).encode(), None, b'{"at": {"x": 2, "tags": ["a", null]}}')

    assert found is not None
    assert [one.type for one in found] == SCHEMA.types
    assert found[0].to_pylist() == [1, None, None]
    assert found[3].to_pylist() == ["ä", None, None]
    assert str(found[5][0]) == "2026-01-02"
    assert found[7].to_pylist() == [None, None, {"x": 2.0, "tags": ["a", None]}]


def test_values_may_have_line_breaks() -> None:
    value = b'{\n "amount":\r\n1.5,\n"id":\nnull}'

    found = columns(value, b"{\n}", value)

    assert found is not None
    assert found[2].to_pylist() == [1.5, None, 1.5]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([b"null"], id="crashes pyarrow"),
        pytest.param([b"{}", b"null"], id="pyarrow takes it for an object"),
        pytest.param([b"{} null {}", b"{}"], id="more rows than values"),
        pytest.param([b"{} {}", b""], id="as many rows as values"),
        pytest.param([b'{} {"id": 1}', b"\n", b"{}"], id="as many rows, one is moved"),
        pytest.param([b'{"a":', b"{}}", b"{} {}"], id="an object in two values"),
        pytest.param([b'{"a": "}', b'{"}'], id="a string in two values"),
        pytest.param([b"{} {}", b"{} \0 {}", b"{}"], id="pyarrow ends at a zero"),
        pytest.param([b'{"name": "a\nb"}'], id="a line break in a string"),
        pytest.param([b'{"more": NaN}'], id="NaN"),
        pytest.param([b'{"more": [1,\n -Infinity]}'], id="infinity"),
        pytest.param([b'{"more": {"a":', b"{}}"], id="an object in two lines"),
        pytest.param([b'{"amount": 9007199254740993}'], id="no float is that number"),
        pytest.param([b'{"at": {"x": -9007199254740993}}'], id="nor is one in a struct"),
        pytest.param([b'{"amount": -0}'], id="which Python reads as 0"),
        pytest.param([b'{"price": 12345}'], id="pyarrow does not count these digits"),
        pytest.param([b'{"id": 1.0}'], id="not the type"),
        pytest.param([b'{"day": "yesterday"}'], id="no date"),
        pytest.param([b'{"id": 1, "id": 2}'], id="Python takes the last one"),
        pytest.param([b'{"more": "\xff"}'], id="no UTF-8 in a field that is not read"),
        pytest.param([b'{"more": ' + b"[" * 1000 + b"]" * 1000 + b"}"], id="deep"),
        pytest.param([b'{"more": ' + b"7" * 4301 + b"}"], id="many digits"),
    ],
)
def test_what_pyarrow_reads_otherwise_is_refused(values: list[bytes]) -> None:
    assert columns(*values) is None


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([pa.field("x", pa.int64(), nullable=False)]),
        pa.struct([("x", pa.int64()), ("x", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.duration("s"),
    ],
)
def test_a_schema_that_pyarrow_reads_otherwise_is_refused(kind: pa.DataType) -> None:
    assert JsonBlocks(pa.schema([("a", kind)])).columns(block(b'{"a": null}')) is None


def test_a_bad_value_leaves_its_neighbours_to_the_fast_reader() -> None:
    values: list[bytes | None] = [b'{"id": %d}' % number for number in range(5_000)]
    values[0] = values[2_048] = values[4_999] = b"nonsense"
    values[7] = None

    found, bad = JsonReader(SCHEMA).read(block(*values))

    assert list(bad) == [0, 2_048, 4_999]
    assert all("JSONDecodeError" in error for error in bad.values())
    expected = [None if n == 7 else n for n in range(5_000) if n not in bad]
    assert found[0].to_pylist() == expected


def test_a_slice_of_values_is_read_as_its_rows_only() -> None:
    values = block(b"null", None, b'{"id": 1}', b'{"id": 2}', b"{}{}").slice(1, 3)

    found = JsonBlocks(SCHEMA).columns(values)

    assert found is not None
    assert found[0].to_pylist() == [None, 1, 2]


# -- against Python's parser

TOKENS: Final = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"null", b"true", b" ", b"\n", b"\r", b"\0"),
    *(
        b"1",
        b"-0",
        b"1.5",
        b"12345",
        b"1e3",
        b"1E400",
        b"9007199254740993",
        b"NaN",
        b"-Inf",
        b"\xff",
        b"\\",
    ),
    *(
        b'"id"',
        b'"amount"',
        b'"price"',
        b'"name"',
        b'"at"',
        b'"more"',
        b'"\\ud800"',
        b'"2026-01-02"',
    ),
)
GOOD: Final = (
    b'{"id": 7, "small": -1, "name": "a"}',
    b'{"amount": 0.1, "more": [{"a": null}]}',
    b'{"paid": false, "day": "2026-01-02", "price": 1.25}',
    b'{"price": "99.5"}',
    b'{"at": {"x": 1.5, "tags": ["b", null]}}',
)


@st.composite
def a_value(draw: st.DrawFn) -> bytes | None:
    """A good value, or one into which something was put."""
    value = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(value)))
        gone = draw(st.integers(0, 4))
        value = value[:place] + draw(st.sampled_from(TOKENS)) + value[place + gone :]
    return value


def exact(column: pa.Array) -> list[Any]:
    """The values; floats by their bits, since -0.0 == 0.0."""
    if pa.types.is_floating(column.type):
        return [None if one is None else struct.pack(">d", one) for one in column.to_pylist()]
    return [repr(one) for one in column.to_pylist()]


@given(st.lists(a_value(), min_size=1, max_size=3))
@settings(deadline=None, max_examples=500)
def test_a_block_is_read_as_python_reads_it(values: list[bytes | None]) -> None:
    found = columns(*values)
    if found is None:
        return
    by_python, bad = JsonReader(SCHEMA).read_by_python(block(*values))

    assert not bad
    assert list(map(exact, found)) == list(map(exact, by_python))
    for one in found:
        one.validate(full=True)
