"""JSON values as typed columns: exact, and no row is lost."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.consumer.columns.json_columns import JsonColumns, JsonReader, json_columns

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


def of(kind: pa.DataType, *values: bytes) -> tuple[list[Any], list[str]]:
    """Values of one field `a` of this type: the good ones, and the errors."""
    found = read(*(b'{"a": ' + one + b"}" for one in values), schema=pa.schema([("a", kind)]))
    return found.rows.column("a").to_pylist(), found.bad.column("error").to_pylist()


@pytest.mark.parametrize("neighbour", [b'"0.5"', b"true"], ids=["pyarrow", "Python"])
def test_numbers_and_strings_are_decimals_digit_by_digit(neighbour: bytes) -> None:
    """Neither parser makes a float of them on the way."""
    kind = pa.decimal128(38, 20)
    texts = [b"0.12345678901234567891", b"-123456789012345678.5", b"7", b"1e2", b"2.50E-3"]

    good, _ = of(kind, neighbour, *texts, *(b'"%b"' % one for one in texts), b"null")

    found = good[-11:]
    assert found == [*[Decimal(one.decode()) for one in texts] * 2, None]


def test_a_decimal_has_the_digits_that_its_type_has() -> None:
    good, errors = of(pa.decimal128(4, 2), b"1.25", b"1.255", b"123.4", b'"1.255"', b"true", b'"x"')

    assert good == [Decimal("1.25")]
    assert len(errors) == 5


def test_a_schema_with_decimals_names_other_types_as_before() -> None:
    schema = pa.schema([("a", pa.decimal128(4, 2)), ("id", pa.int64()), ("f", pa.float64())])
    rows, bad = read(b'{"id": 1.5}', b'{"f": 2.5, "a": 1.5}', schema=schema)

    assert bad.column("error").to_pylist() == ["field 'id' is no int64: it is a float"]
    assert rows.column("f").to_pylist() == [2.5]


def test_what_is_nested_is_read_by_the_same_rules() -> None:
    whole = pa.struct([("n", pa.int64()), ("day", pa.date32()), ("d", pa.decimal128(4, 2))])
    good, errors = of(
        whole,
        *(b'{"n": 1, "day": "2026-01-02", "d": 1.5}', b'{"d": "2.5"}', b"{}", b"null"),
        *(b'{"n": true}', b'{"n": 2.0}', b'{"day": 5}', b'{"d": true}', b'[["n", 1]]', b"1"),
    )

    nothing = {"n": None, "day": None, "d": None}
    assert good == [
        {"n": 1, "day": date(2026, 1, 2), "d": Decimal("1.50")},
        nothing | {"d": Decimal("2.50")},
        nothing,
        None,
    ]
    assert len(errors) == 6
    assert "is no struct<" in errors[0]

    good, errors = of(pa.list_(pa.date32()), b'["2026-01-02", null]', b"[]", b"null", b"[5]", b"{}")
    assert (good, len(errors)) == ([[date(2026, 1, 2), None], [], None], 2)


LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
    "fixed_size_list": lambda item: pa.list_(item, 2),
}


@pytest.mark.parametrize("name", LISTS)
def test_the_items_of_every_kind_of_list_are_read_by_the_same_rules(name: str) -> None:
    make = LISTS[name]
    for item, right, wrong in [
        (pa.int64(), b"[1, null]", [b"[1.0, 2.0]", b"[true, false]", b'["1", "2"]', b"[[1], [2]]"]),
        (pa.date32(), b'["2026-01-02", null]', [b"[5, 6]", b"[1.5, 2]"]),
        (pa.float32(), b"[1, 2.5]", [b"[1e39, 1]", b"[true, 1]"]),
        (pa.decimal128(4, 2), b'[1.5, "2.5"]', [b"[true, 1]"]),
        (pa.struct({"n": pa.int64()}), b'[{"n": 1}, {}]', [b'[{"n": 1.0}, null]', b'["n", "n"]']),
        (make(pa.int64()), b"[[1, 2], null]", [b"[[1, 2.0], null]", b"[1, 2]"]),
    ]:
        good, errors = of(make(item), right, b"null", *wrong, b"{}", b"1", b'"ab"', right)

        nested = pa.types.is_nested(item) and not pa.types.is_struct(item)
        plain, _ = of(pa.list_(pa.list_(pa.int64()) if nested else item), right)
        assert good == [plain[0], None, plain[0]], item
        assert len(errors) == len(wrong) + 3


def test_a_list_of_one_size_has_that_size() -> None:
    kind = pa.list_(pa.int64(), 2)

    good, errors = of(kind, b"[1, 2]", b"[]", b"[1]", b"[1, 2, 3]", b"null", b"[3, null]")

    assert good == [[1, 2], None, [3, None]]
    assert errors[0] == f"field 'a' is no {kind}: it has 0 items"
    assert len(errors) == 3


@pytest.mark.parametrize("name", LISTS)
def test_many_rows_of_every_kind_of_list_are_read_in_pieces(name: str) -> None:
    values = [b'{"a": [%d, %d]}' % (row, -row) for row in range(1500)]
    values[700] = b'{"a": [1.0, 2]}'

    rows, bad = read(*values, schema=pa.schema([("a", LISTS[name](pa.int64()))]))

    assert bad.column("offset").to_pylist() == [700]
    assert rows.column("a").to_pylist() == [[row, -row] for row in range(1500) if row != 700]
    rows.validate(full=True)


@pytest.mark.parametrize(
    "kind",
    [
        *[make(pa.field("item", pa.int64(), nullable=False)) for make in LISTS.values()],
        pa.struct([pa.field("n", pa.int64(), nullable=False)]),
        pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    ],
    ids=str,
)
def test_no_null_comes_where_the_schema_has_none(kind: pa.DataType) -> None:
    right, wrong = b"[1, 2]", b"[1, null]"
    if not pa.types.is_nested(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind):
        right, wrong = b'{"n": 1}', b'{"n": null}'

    good, errors = of(kind, right, b"null", wrong)

    assert (len(good), len(errors)) == (2, 1)
    assert errors[0].endswith("is null, or missing")


@pytest.mark.parametrize(
    "kind",
    [
        pa.dense_union([pa.field("x", pa.int64())]),
        pa.sparse_union([pa.field("x", pa.int64())]),
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.dictionary(pa.int32(), pa.int64()),
        pa.dictionary(pa.int32(), pa.date32()),
        pa.uuid(),
        pa.fixed_shape_tensor(pa.int64(), [2]),
        pa.null(),
    ],
    ids=str,
)
def test_a_type_that_is_not_read_is_refused_wherever_it_stands(kind: pa.DataType) -> None:
    for where in (
        kind,
        pa.struct([("b", kind)]),
        pa.map_(pa.string(), kind),
        *(make(kind) for make in LISTS.values()),
    ):
        with pytest.raises(ValueError, match="not read from JSON"):
            JsonReader(pa.schema([("a", where)]))


def test_strings_may_be_read_as_a_dictionary() -> None:
    good, errors = of(pa.dictionary(pa.int32(), pa.string()), b'"x"', b'"y"', b'"x"', b"1")

    assert (good, len(errors)) == (["x", "y", "x"], 1)


def test_an_object_is_a_map_of_its_names() -> None:
    kind = pa.map_(pa.string(), pa.float64())
    good, errors = of(kind, b'{"x": 1, "y": null}', b"{}", b"null", b'{"x": true}', b'[["x", 1]]')

    assert (good, len(errors)) == ([[("x", 1.0), ("y", None)], [], None], 2)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.float64(), b"1e308", b"1e400"),
        (pa.float64(), b"-1e308", b"-1e400"),
        (pa.float32(), b"1e38", b"1e300"),
        (pa.float16(), b"6e4", b"7e4"),
        (pa.list_(pa.float32()), b"[1e38]", b"[0, 1e39]"),
        (pa.large_list(pa.float32()), b"[1e38]", b"[0, 1e39]"),
        (pa.struct({"b": pa.float32()}), b'{"b": 1}', b'{"b": -1e39}'),
        (pa.map_(pa.string(), pa.float64()), b'{"b": 1}', b'{"b": 1e400}'),
    ],
)
def test_a_float_that_would_be_infinite_makes_its_row_a_bad_one(
    kind: pa.DataType, good: bytes, bad: bytes
) -> None:
    values = pa.array([b'{"a": %b}' % one for one in (good, bad, good)], pa.binary())

    reader = JsonReader(pa.schema({"a": kind}))
    (column,), wrong = reader.read(values)

    assert wrong == {1: f"field 'a' is no {kind}: it is too big"}
    assert len(column) == 2


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time64("us"), pa.duration("s")])
def test_types_that_are_not_read_from_json_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r"a\.b is of type .* read it as pyarrow.string"):
        JsonReader(pa.schema({"a": pa.struct({"b": kind})}))


def test_a_large_list_is_read_as_a_list() -> None:
    kind = pa.large_list(pa.date32())
    values = pa.array([b'{"a": ["2026-11-25", null]}', b'{"a": [5]}', b"{}"], pa.binary())

    (column,), wrong = JsonReader(pa.schema({"a": kind})).read(values)

    column.validate(full=True)
    assert column.to_pylist() == [[date(2026, 11, 25), None], None]
    assert wrong == {1: f"field 'a' is no {kind}: it is a int"}


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
