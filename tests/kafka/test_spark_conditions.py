"""Conditions of `where` are true, false and null in the rows in which they are so for Spark."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pyspark.sql.pandas.types import from_arrow_schema

from aktor.spark.filters.where import read_where

NAN, INF = float("nan"), float("inf")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [0, 1, -1, 127, -128]),
    "short": (pa.int16(), [0, 1, -1, 2**15 - 1, -(2**15)]),
    "int": (pa.int32(), [0, 1, -1, 100, 101, 2**31 - 1, -(2**31)]),
    "long": (pa.int64(), [0, 1, -1, 100, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "float": (pa.float32(), [0.0, -0.0, 1.0, 0.1, 2.0**24, -1.5, NAN, INF, -INF]),
    "double": (pa.float64(), [0.0, -0.0, 1.0, 0.1, 100.5, 2.0**53, -1.5, NAN, INF, -INF]),
    "double2": (pa.float64(), [0.0, -0.0, 1.0, 0.1, NAN, INF, -INF]),
    "dec": (pa.decimal128(10, 2), [Decimal(x) for x in ("0.00", "1.00", "1.01", "-99999999.99")]),
    "dec2": (pa.decimal128(12, 4), [Decimal(x) for x in ("0.0000", "1.0000", "1.0099", "1.0100")]),
    "text": (
        pa.string(),
        ["", "a", "A", "ab", "a%b", "a_b", "DE", "é", "e\u0301", "a\nb", "😀", "~", "it's", "'"],
    ),
    "text2": (pa.string(), ["", "a", "ab", "b", "é", "😀", "\uffff"]),
    "bytes": (pa.binary(), [b"", b"a", b"ab", b"\xff", "é".encode()]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [date(1970, 1, 1), date(1600, 2, 29), date(2026, 11, 28)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2026, 11, 28, 12, 0, 0, 1, tzinfo=UTC),
        ],
    ),
    "local": (pa.timestamp("us"), [datetime(1970, 1, 1), datetime(2026, 11, 28, 12, 0, 0, 1)]),
}
ROWS = 300


def a_table() -> pa.Table:
    """Rows with these values and nulls, in a struct that may be null itself."""
    choose = random.Random(1)
    kind = pa.struct([pa.field(name, kind) for name, (kind, _) in VALUES.items()])
    values: list[Any] = [
        {name: choose.choice([None, *some]) for name, (_, some) in VALUES.items()}
        for _ in range(ROWS - 2)
    ]
    numbers = pa.array([choose.choice([None, 0, 1, 2]) for _ in range(ROWS)], pa.int32())
    return pa.table({"value": pa.array([None, *values, None], kind), "partition": numbers})


# -- conditions, as a user writes them

_signs = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"])
_integers = st.one_of(
    st.integers(-3, 103),
    st.sampled_from([127, 128, -129, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1]),
).map(str)
_decimals = st.sampled_from(["0.5", "1.0", "1.005", "1.01", "100.5", "-1.50", "0.1", "-0.0", "1."])
_doubles = st.sampled_from(["1e0", "1.0E2", "9007199254740993e0", "-15e-1", "1e300", "0e0"])
_texts = st.sampled_from(
    [
        *("''", "'a'", '"ab"', "'DE'", "'é'", "'😀'", "'b'", "'%'"),
        # A quote in a text, and texts side by side, which are one.
        *("'it''s'", "''''", '"it\'s"', "'a' 'b'", "'a'\"b\"", "'a' '' '%' 'b'"),
    ]
)
_patterns = st.sampled_from(
    [
        "a%",
        "%b",
        "%a%",
        "a_b",
        "_",
        "%",
        "",
        "a",
        "%a_b%",
        "a!%b",
        "_%",
        "é%",
        "a.b",
        "%!_%",
        "(a|b)",
        "a%b",
        "😀%",
        "é%é",
    ]
)
_numbers = st.one_of(_integers, _decimals, _doubles)
_small = st.one_of(st.integers(-3, 103).map(str), _decimals, _doubles)
_literals: dict[str, SearchStrategy[str]] = {
    **dict.fromkeys(["byte", "short", "int", "long", "double"], _numbers),
    "float": _small,
    **dict.fromkeys(["dec", "dec2"], st.one_of(st.integers(-3, 103).map(str), _decimals)),
    **dict.fromkeys(["text", "text2"], _texts),
    "bytes": st.sampled_from(["X''", "X'61'", "X'FF'", "X'ff00'", "'a'", "'é'"]),
    "day": st.sampled_from(["date'1970-01-01'", "date'2026-11-28'", "'1600-02-29'"]),
    "at": st.sampled_from(
        [
            "timestamp'1970-01-01 00:00:00Z'",
            "timestamp'1970-01-01 01:00:00+01:00'",
            "timestamp'2026-11-28T12:00:00.000001Z'",
            "'2026-11-28 12:00:00.000001Z'",
        ]
    ),
    "local": st.sampled_from(
        ["timestamp_ntz'1970-01-01 00:00:00'", "'2026-11-28 12:00:00.000001'"]
    ),
}
_FLAGS = [
    *("value.flag", "value.flag = false", "value.flag <=> true"),
    *("value.flag is true", "value.flag is not false", "true", "FALSE", "(true)"),
]
_PAIRS = [
    ("byte", "long"),
    ("int", "short"),
    ("double", "double2"),
    ("dec", "dec2"),
    ("text", "text2"),
    ("at", "at"),
    ("int", "int"),
]


def _alike(name: str) -> SearchStrategy[list[str]]:
    """Literals of one kind: among doubles a decimal would be compared as a double. A string in a
    list of times is refused."""
    if name in ("at", "local"):
        typed = _literals[name].filter(lambda text: text.startswith("timestamp"))
        return st.lists(typed, min_size=1, max_size=4)
    if name == "float":
        kinds = [_decimals, _doubles]
    elif _literals[name] is _numbers:
        kinds = [_integers, _decimals, _doubles]
    else:
        kinds = [_literals[name]]
    return st.one_of(*(st.lists(kind, min_size=1, max_size=4) for kind in kinds))


@st.composite
def _simple(draw: Any) -> str:
    name = draw(st.sampled_from(sorted(_literals)))
    column, literal = f"value.{name}", _literals[name]
    negated = draw(st.sampled_from(["", "not "]))
    kinds = ["compare", "compare", "flipped", "in", "between", "null", "pair", "flag"]
    how = draw(st.sampled_from([*kinds, *(["like", "has"] if name.startswith("text") else [])]))
    match how:
        case "compare":
            return f"{column} {draw(_signs)} {draw(literal)}"
        case "flipped":
            return f"{draw(literal)} {draw(_signs)} {column}"
        case "in":
            return f"{column} {negated}in ({', '.join(draw(_alike(name)))})"
        case "between":
            return f"{column} {negated}between {draw(literal)} and {draw(literal)}"
        case "null":
            return f"{draw(st.sampled_from([column, 'value']))} is {negated}null"
        case "like":
            return f"{column} {negated}like '{draw(_patterns)}' escape '!'"
        case "has":
            call = draw(st.sampled_from(["startswith", "endswith", "contains"]))
            return f"{call}({column}, {draw(_texts)})"
        case "flag":
            return draw(st.sampled_from(_FLAGS))
    left, right = draw(st.sampled_from(_PAIRS))
    return f"value.{left} {draw(_signs)} value.{right}"


_condition = st.recursive(
    _simple(),
    lambda one: st.one_of(
        st.tuples(one, st.sampled_from(["and", "or"]), one).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        one.map(lambda text: f"not ({text})"),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """The table in Spark, and here."""
    table = a_table()
    # pyspark gives no types for this function.
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    frame = spark.createDataFrame(table, schema)
    frame.createOrReplaceTempView("conditions")
    yield spark, frame.schema, table
    spark.catalog.dropTempView("conditions")


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(texts=st.lists(_condition, min_size=60, max_size=80, unique=True))
@example(texts=["true", "not false and value.flag", "value.text like 'it''s'", "value.text = ''''"])
@example(texts=["value.text <=> value.text2", "not (value.double > 1e0 or value.int in (0))"])
def test_a_condition_is_true_false_and_null_where_it_is_so_for_spark(
    rows: Any, texts: list[str]
) -> None:
    spark, schema, table = rows
    kinds = {field.name: field.dataType for field in schema.fields}
    columns = ", ".join(f"({text}) as c{place}" for place, text in enumerate(texts))

    theirs = spark.sql(f"select {columns} from conditions").toArrow()

    for place, text in enumerate(texts):
        ours = read_where(text, kinds).of(lambda name: table.column(name).combine_chunks())
        found = zip(
            table.to_pylist(), ours.to_pylist(), theirs.column(place).to_pylist(), strict=True
        )
        wrong = [row for row in found if row[1] is not row[2]]
        assert not wrong, f"{text}: we say {wrong[0][1]}, Spark {wrong[0][2]}, of {wrong[0][0]}"
