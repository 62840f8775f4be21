"""Simple objects of JSON, read by what is compiled: as Python's parser reads them, or refused."""

from __future__ import annotations

import json
import struct
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.consumer.columns import json_blocks
from aktor.consumer.columns.json_blocks import JsonBlocks
from aktor.consumer.columns.json_columns import JsonReader

pytestmark = pytest.mark.skipif(json_blocks.FlatReader is None, reason="it is not compiled")

SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("amount", pa.float64()),
        ("name", pa.string()),
        ("paid", pa.bool_()),
    ]
)


def read(*values: bytes | None) -> list[pa.Array] | None:
    block = pa.array([b"{}" if one is None else one for one in values], pa.binary())
    return JsonBlocks(SCHEMA)._read_flat(block)


def by_python(*values: bytes | None) -> tuple[list[pa.Array], dict[int, str]]:
    return JsonReader(SCHEMA).read_by_python(pa.array(values, pa.binary()))


def exact(column: pa.Array) -> list[Any]:
    """The values; floats by their bits, since -0.0 == 0.0."""
    if pa.types.is_floating(column.type):
        return [None if one is None else struct.pack(">d", one) for one in column.to_pylist()]
    return [repr(one) for one in column.to_pylist()]


def check(*values: bytes | None) -> bool:
    """Whether they are read, and then as Python does."""
    found = read(*values)
    if found is None:
        return False
    expected, bad = by_python(*values)
    assert not bad, values
    assert [one.type for one in found] == SCHEMA.types
    assert list(map(exact, found)) == list(map(exact, expected))
    for one in found:
        one.validate(full=True)
    return True


GOOD: Final = (
    b"{}",
    b' {\t"id"\n:\r7 , "small": -1, "name": "a" } ',
    b'{"id": -0, "amount": -0}',
    b'{"amount": -0.0}',
    b'{"amount": 17}',
    b'{"amount": 0.1}',
    b'{"amount": 1.7976931348623157e308}',
    b'{"amount": 5e-324}',
    b'{"amount": 2.2250738585072011e-308}',
    b'{"amount": 0.30000000000000004}',
    b'{"amount": 123456789012345678901234.5}',
    b'{"amount": 0e9999}',
    b'{"amount": 1E+2}',
    b'{"id": 999999999999999999, "small": -2147483648}',
    b'{"paid": true}',
    b'{"paid": false, "name": ""}',
    b'{"id": null, "small": null, "amount": null, "name": null, "paid": null}',
    '{"name": "äöü€😀\x7f", "ключ": "ß"}'.encode(),
    b'{"more": [1, {"a": [], "b": {}, "c": [[]]}, "x", null, true, -1.5e3], "id": 1}',
    b'{"nam": 1, "name": "n", "names": 2, "": 3}',
    b'{"paid": true, "name": "reversed", "amount": 1.5, "small": 3, "id": 4}',
)
REFUSED: Final = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"{}{}",
    b"{}x",
    b"{,}",
    b'{"id": 1,}',
    b'{"id": 1 "small": 2}',
    b'{"id" 1}',
    b'{"id": }',
    b'{"id": 1, "id": 1}',
    b'{"id": null, "id": 1}',
    b'{"id": 01}',
    b'{"id": 1.0}',
    b'{"id": 1e2}',
    b'{"id": +1}',
    b'{"id": -}',
    b'{"id": "1"}',
    b'{"id": true}',
    b'{"id": [1]}',
    b'{"id": 9223372036854775808}',
    b'{"small": 2147483648}',
    b'{"amount": .5}',
    b'{"amount": 5.}',
    b'{"amount": 1e}',
    b'{"amount": NaN}',
    b'{"amount": -Infinity}',
    b'{"amount": 1e400}',
    b'{"amount": 9007199254740993}',
    b'{"amount": "1"}',
    b'{"name": 1}',
    b'{"name": "a\\n"}',
    b'{"n\\u0061me": "a"}',
    b'{"name": "a\n"}',
    b'{"name": "a\0"}',
    b'{"name": "\xff"}',
    b'{"more": "\xed\xa0\x80"}',
    b'{"name": "a}',
    b'{"paid": 1}',
    b'{"paid": truth}',
    b'{"more": [1,]}',
    b'{"more": [1}',
    b'{"more": {"a"}}',
    b'{"more": ' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"more": ' + b"1" * 5000 + b"}",
    b"\xef\xbb\xbf{}",
)


@pytest.mark.parametrize("value", GOOD)
def test_simple_objects_are_read_as_python_reads_them(value: bytes) -> None:
    assert check(value)
    assert check(b'{"id": 1, "name": "before"}', value, None, b'{"id": 2, "name": "after"}')


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: value[:30])
def test_what_is_not_simple_is_refused_wherever_it_stands(value: bytes) -> None:
    assert read(value) is None
    assert read(b'{"id": 1}', value) is None
    assert read(value, b'{"id": 1}') is None


@pytest.mark.parametrize("value", GOOD)
def test_no_value_that_ends_too_early_is_read(value: bytes) -> None:
    """Behind it stands what would complete it."""
    for end in range(len(value.rstrip())):
        cut = pa.array([value[:end], value[end:]], pa.binary())
        assert JsonBlocks(SCHEMA)._read_flat(cut[:1]) is None


def test_a_part_of_an_array_is_read_as_that_part() -> None:
    whole = pa.array([b"nonsense", b'{"id": 5, "name": "five"}', b'{"name": "six"}', b"nonsense"])

    found = JsonBlocks(SCHEMA)._read_flat(whole[1:3])

    assert found is not None
    assert found[0].to_pylist() == [5, None]
    assert found[3].to_pylist() == ["five", "six"]


def test_values_that_are_null_and_narrow_types_and_times_are_read_in_one_piece() -> None:
    schema = pa.schema({"n": pa.int8(), "day": pa.date32(), "at": pa.timestamp("us", "UTC")})
    blocks = JsonBlocks(schema)
    values = [b'{"n": 127, "day": "2026-01-02", "at": "2026-01-02T03:04:05Z"}', None]

    found = blocks.columns(pa.array(values, pa.binary()))

    assert blocks._flat is not None
    assert found is not None
    assert [one.type for one in found] == schema.types
    assert [str(one[0]) for one in found] == ["127", "2026-01-02", "2026-01-02 03:04:05+00:00"]
    assert [one.null_count for one in found] == [1, 1, 1]
    assert blocks.columns(pa.array([b'{"n": 128}'], pa.binary())) is None


NUMBERS: Final = st.one_of(
    st.integers(),
    st.floats(),
    st.floats(-1e6, 1e6).map(lambda number: round(number, 2)),
    st.integers(-(2**63), 2**63 - 1),
)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([*SCHEMA.names, "more", "née"]),
            st.one_of(NUMBERS, st.text(), st.booleans(), st.none(), st.lists(NUMBERS, max_size=2)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_any_objects_are_read_as_python_reads_them(
    objects: list[dict[str, Any]], ascii_only: bool
) -> None:
    check(*(json.dumps(one, ensure_ascii=ascii_only).encode("utf-8") for one in objects))


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None, max_examples=150)
def test_every_float_that_python_writes_is_read_to_the_last_bit(number: float) -> None:
    assert check(b'{"amount": %s}' % repr(number).encode())


TOKENS: Final = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"0", b"9", b".", b"-", b"e5"]
TOKENS += [b" ", b"\n", b"\0", b"\xc3", b"null", b"true", b'"id"', b'"name"', b"NaN"]


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_objects_into_which_something_was_put_are_read_as_python_reads_them(
    data: st.DataObject,
) -> None:
    value = data.draw(st.sampled_from(GOOD))
    for _ in range(data.draw(st.integers(1, 3))):
        place, gone = data.draw(st.integers(0, len(value))), data.draw(st.integers(0, 4))
        value = value[:place] + data.draw(st.sampled_from(TOKENS)) + value[place + gone :]
    check(value)
