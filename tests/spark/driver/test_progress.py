"""How far a stream is behind, as Spark's progress has it."""

from __future__ import annotations

import json

from aktor.spark import offsets_behind


def test_each_source_has_the_three_figures_of_sparks_own_source() -> None:
    orders = {
        "endOffset": json.dumps({"orders": {"0": 5, "1": 7}, "@start": {"orders": {"0": 1}}}),
        "latestOffset": json.dumps({"orders": {"0": 5, "1": 10}, "added": {"0": 3}}),
    }
    bills = {"endOffset": {"bills": {"0": 9}}, "latestOffset": {"bills": {"0": 8}}}

    assert offsets_behind({"sources": [orders, bills]}) == [
        {
            "minOffsetsBehindLatest": 0,
            "maxOffsetsBehindLatest": 3,
            "avgOffsetsBehindLatest": 2.0,
        },
        {
            "minOffsetsBehindLatest": 0,
            "maxOffsetsBehindLatest": 0,
            "avgOffsetsBehindLatest": 0.0,
        },
    ]


def test_a_source_that_knows_nothing_yet_is_left_out() -> None:
    assert offsets_behind(None) == []
    assert offsets_behind({"sources": [{"endOffset": None, "latestOffset": None}]}) == []
