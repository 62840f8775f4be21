"""JSON values as typed columns: exact, and no row is lost."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.consumer.json_columns import JsonColumns, json_columns

SCHEMA = pa.schema(
    [("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string()), ("paid", pa.bool_())]
)


def a_batch(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch(
        {"offset": pa.array(range(len(values)), pa.int64()), "value": pa.array(values, pa.binary())}
    )


def read(*values: bytes | None, schema: pa.Schema = SCHEMA) -> JsonColumns:
    return json_columns(a_batch(*values), schema)


def test_fields_become_columns_and_missing_ones_are_null() -> None:
    rows, bad = read(b'{"id": 1, "amount": 2, "name": "a", "paid": true}', b'{"name": "b"}')

    assert rows.schema == pa.schema([("offset", pa.int64()), *SCHEMA])
    assert rows.to_pylist() == [
        {"offset": 0, "id": 1, "amount": 2.0, "name": "a", "paid": True},
        {"offset": 1, "id": None, "amount": None, "name": "b", "paid": None},
    ]
    assert bad.num_rows == 0


def test_a_tombstone_is_a_row_of_nulls_and_unknown_fields_are_ignored() -> None:
    rows, bad = read(None, b'{"id": 7, "more": {"a": [1]}}')

    assert rows.column("id").to_pylist() == [None, 7]
    assert bad.num_rows == 0


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "JSONDecodeError"),
        (b"not json", "JSONDecodeError"),
        (b'{"id": 1} {"id": 2}', "Extra data"),
        (b"null", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"id": "1"}', "field 'id' is no int64: it is a str"),
        (b'{"id": 1.0}', "field 'id' is no int64: it is a float"),
        (b'{"id": true}', "field 'id' is no int64: it is a bool"),
        (b'{"id": 9223372036854775808}', "field 'id' is no int64"),
        (b'{"amount": NaN}', "NaN is not JSON"),
        (b'{"paid": 1}', "field 'paid' is no bool"),
        (b'{"name": 3}', "field 'name' is no string"),
        (b'{"name": "\xff"}', "UnicodeDecodeError"),
        (b'{"name": "\\ud800"}', "field 'name' is no string"),
        (b'{"name": "a\nb"}', "control character"),
        (b'{"a":' * 100_000, "Error"),
        (b'{"id": 1' + b"0" * 5000 + b"}", "ValueError"),
    ],
)
def test_a_row_that_is_not_of_the_schema_is_kept_aside(value: bytes, why: str) -> None:
    rows, bad = read(b'{"id": 1}', value, b'{"id": 3}')

    assert rows.column("offset").to_pylist() == [0, 2]
    (aside,) = bad.to_pylist()
    assert (aside["offset"], aside["value"]) == (1, value)
    assert why in aside["error"]


def test_rows_that_are_bad_in_different_fields_are_all_kept_aside() -> None:
    rows, bad = read(b'{"paid": 1}', b'{"id": 5}', b'{"id": "x"}', b'{"name": 1, "amount": ""}')

    assert rows.column("id").to_pylist() == [5]
    assert bad.column("offset").to_pylist() == [0, 2, 3]


def test_dates_times_decimals_and_nested_fields() -> None:
    schema = pa.schema(
        [
            ("at", pa.timestamp("ms", "UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("tags", pa.list_(pa.string())),
            ("who", pa.struct([("age", pa.int32())])),
        ]
    )
    good = {
        "at": "2026-01-02T03:04:05Z",
        "day": "2026-01-02",
        "price": "12.34",
        "tags": ["a", None],
        "who": {"age": 7},
    }
    rows, bad = read(json.dumps(good).encode(), b'{"day": "yesterday"}', schema=schema)

    (row,) = rows.to_pylist()
    assert str(row["at"]) == "2026-01-02 03:04:05+00:00"
    assert str(row["day"]) == "2026-01-02"
    assert str(row["price"]) == "12.34"
    assert (row["tags"], row["who"]) == (["a", None], {"age": 7})
    assert "field 'day' is no date32" in bad.column("error")[0].as_py()


def test_names_that_are_there_already_are_refused() -> None:
    with pytest.raises(ValueError, match="offset; poll_arrow"):
        read(b"{}", schema=pa.schema([("offset", pa.int64())]))
    with pytest.raises(ValueError, match="needs the column 'value'"):
        json_columns(a_batch().drop_columns(["value"]), SCHEMA)


def test_no_rows_have_the_columns_all_the_same() -> None:
    rows, bad = read()

    assert rows.schema.names == ["offset", "id", "amount", "name", "paid"]
    assert bad.schema.names == ["offset", "value", "error"]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.lists(st.integers(), max_size=2),
)
DOCUMENTS = st.one_of(
    st.dictionaries(st.sampled_from(["id", "amount", "name", "paid", "more"]), VALUES),
    VALUES,
)


def is_of_the_schema(document: Any) -> bool:
    """By the rules, one row at a time."""
    if not isinstance(document, dict):
        return False
    allowed: dict[str, tuple[type, ...]] = {
        "id": (int,),
        "amount": (int, float),
        "name": (str,),
        "paid": (bool,),
    }
    for name, kinds in allowed.items():
        found = document.get(name)
        if found is None:
            continue
        if type(found) not in kinds or (name == "id" and not -(2**63) <= found < 2**63):
            return False
        if name == "amount" and type(found) is int and abs(found) > 2**53:
            return False  # a float may not be that number
    return True


@given(st.lists(DOCUMENTS, max_size=12))
@settings(deadline=None)
def test_each_row_is_read_as_if_it_were_alone(documents: list[Any]) -> None:
    rows, bad = read(*(json.dumps(one).encode() for one in documents))

    good = [place for place, one in enumerate(documents) if is_of_the_schema(one)]
    assert rows.column("offset").to_pylist() == good
    assert sorted(good + bad.column("offset").to_pylist()) == list(range(len(documents)))
    for row in rows.to_pylist():
        document = documents[row.pop("offset")]
        assert row == {name: document.get(name) for name in SCHEMA.names}
