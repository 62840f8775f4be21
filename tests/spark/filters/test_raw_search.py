"""The search before JSON is decoded leaves each row that a condition keeps."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.spark.filters.conditions import (
    All,
    Any_,
    Column,
    Compare,
    Condition,
    Matches,
    Not,
    OneOf,
)
from aktor.spark.filters.raw_search import RawSearch

TEXT = Column("value", (0,), pa.string())
OTHER = Column("value", (1,), pa.string())
KIND = pa.struct([pa.field("text", pa.string()), pa.field("other", pa.string())])

_texts = st.sampled_from(["", "a", "ab", "é", "/", '"', "😀", "\\", "\n", "aab", "baa"])
_condition = st.one_of(
    st.builds(Compare, st.sampled_from([TEXT, OTHER]), st.sampled_from(["=", ">"]), _texts),
    st.builds(lambda some: OneOf(TEXT, tuple(some)), st.lists(_texts, min_size=1, max_size=3)),
    st.builds(
        Matches,
        st.just(OTHER),
        st.sampled_from(["starts_with", "ends_with", "match_substring"]),
        _texts,
    ),
)
_conditions: st.SearchStrategy[Condition] = st.one_of(
    _condition,
    st.tuples(_condition, _condition).map(Any_),
    st.tuples(_condition, _condition).map(All),
    _condition.map(Not),
)
_documents = st.lists(
    st.one_of(
        st.none(),
        st.fixed_dictionaries({"text": st.one_of(st.none(), _texts), "other": _texts}),
        st.just({}),
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(
    documents=_documents,
    conditions=st.lists(_conditions, min_size=1, max_size=2),
    cut=st.integers(0, 3),
    escaped=st.booleans(),
)
def test_a_row_that_a_condition_keeps_is_found(
    documents: list[Any], conditions: list[Condition], cut: int, escaped: bool
) -> None:
    values = [
        one if one is None else json.dumps(one, ensure_ascii=escaped).encode() for one in documents
    ]
    decoded = pa.array(documents, KIND)[cut:]
    kept = All(tuple(conditions)).of(lambda name: decoded).to_pylist()

    found = RawSearch(conditions).rows(pa.array(values, pa.binary())[cut:])

    if found is not None:
        assert {row for row, keep in enumerate(kept) if keep} <= set(found.to_pylist())
        assert found.to_pylist() == sorted(set(found.to_pylist()))


@pytest.mark.parametrize(
    ("text", "written"),
    [("é", rb"\u00e9"), ("/", rb"\/"), ("a", rb"\u0061"), ('"', rb"\""), ("\n", rb"\n")],
)
def test_letters_that_are_escaped_are_not_missed(text: str, written: bytes) -> None:
    assert json.loads(b'"%s"' % written) == text
    values = [b'{"text": "x"}'] * 9 + [b'{"text": "%s"}' % written]

    for condition in (Compare(TEXT, "=", text), Matches(TEXT, "match_substring", text)):
        assert RawSearch([condition]).rows(pa.array(values, pa.binary())) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [("rare", [7]), ("common", None), ("nowhere", [])],
)
def test_it_finds_few_rows_or_ends(value: str, expected: list[int] | None) -> None:
    values = [b'{"text": "%s"}' % (b"rare" if row == 7 else b"common") for row in range(20)]
    search = RawSearch([Compare(TEXT, "=", value)])

    for _ in range(2):
        found = search.rows(pa.array(values, pa.binary()))
        assert (None if found is None else found.to_pylist()) == expected
