"""The page about rebalances, of what Spark has found; `rebalances/test_job.py` lets it find it."""

from __future__ import annotations

import dataclasses
import re

from aktor.spark.rebalances.page import render
from aktor.spark.rebalances.summary import DECADES, Summary

NOTHING = Summary(
    counts={},
    totals=dict.fromkeys(
        ("rebalances", "groups", "moved", "needlessly", "unexplained", "downtime"), None
    ),
    began=0.0,
    bucket_s=1.0,
    over_time=[],
    durations=[0] * (len(DECADES) + 1),
    downtimes=[0] * (len(DECADES) + 1),
    phases=[],
    longest=[],
    needless=[],
    members=[],
    storms=[],
    refused=[],
    resets=[],
)


def section(page: str, title: str) -> str:
    """What stands below this title."""
    return page.partition(f"<h2>{title}")[2].partition("<h2>")[0]


def test_phases_that_one_protocol_has_are_shown_and_those_that_none_has_are_not() -> None:
    phases = [
        {"protocol": "classic", "sync_group_ms": 12.0, "reconciling_ms": None, "idle_ms": None},
        {"protocol": "consumer", "sync_group_ms": None, "reconciling_ms": 7.0, "idle_ms": None},
    ]

    page = render(dataclasses.replace(NOTHING, phases=phases))

    rows = re.findall(r"<tr>(.*?)</tr>", section(page, "Where the time goes"))
    assert [re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row) for row in rows] == [
        ["ms", "classic", "consumer"],
        ["sync group", "12.0", "–"],
        ["reconciling", "–", "7.0"],
    ]


def test_without_rebalances_each_list_says_so() -> None:
    page = render(NOTHING)

    assert page.count("None.") == 7


def test_what_logs_say_is_text_and_not_html() -> None:
    page = render(dataclasses.replace(NOTHING, longest=[{"sentence": "of <b>g</b> & co"}]))

    assert "of &lt;b&gt;g&lt;/b&gt; &amp; co" in page
