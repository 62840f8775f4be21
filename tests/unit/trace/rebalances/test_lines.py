"""Lines of log files: what is read in them, and what is said of the others."""

from __future__ import annotations

import json
import re

import pytest

from aktor.trace.rebalances.group import HANDLERS, SIGNS
from aktor.trace.rebalances.lines import (
    ALIVE,
    ALONE,
    EVENTS,
    HEARTBEAT,
    PATTERN,
    NotUnderstoodError,
    glance,
    parse,
)
from tests.unit.trace.rebalances.told import STORMS, storm_lines

LINE = json.dumps(
    {"consumer": "app", "group": "g", "event": "poll.late", "t": 5.0}
    | {"host": "web-1", "trace": "01234567", "line": 3}
)


def test_each_event_that_is_read_has_a_handler_and_no_other_has_one() -> None:
    assert HANDLERS.keys().isdisjoint(SIGNS)
    assert HANDLERS.keys() | SIGNS == EVENTS | {HEARTBEAT}


def test_a_line_is_the_event_and_whose_trace_it_is_of() -> None:
    assert parse(LINE)["source"] == "01234567"


@pytest.mark.parametrize("process", ["", '"pid": 4711, '])
def test_a_line_is_understood_at_a_glance_with_its_process_or_without(process: str) -> None:
    line = LINE.replace('"trace"', f'{process}"trace"')

    assert glance(line) == ("poll.late", 5.0, "g", "01234567", 3)


def test_a_line_of_an_older_aktor_is_of_its_file_and_its_client_id() -> None:
    line = '{"consumer": "app", "group": "g", "event": "poll.late", "t": 5}'

    event = parse(line, "web-1.jsonl")

    assert (event["source"], event["t"]) == ("web-1.jsonl#app", 5.0)


@pytest.mark.parametrize(
    "line",
    [
        f"2026-11-24T21:00:00Z stdout F {LINE}",
        '{"consumer": "app", "group": "g", "eve' + LINE,
        LINE.replace(": ", ":").replace(", ", ","),
    ],
    ids=["with a prefix", "behind a torn line", "without spaces"],
)
def test_what_shipping_does_to_a_line_is_undone(line: str) -> None:
    assert parse(line) == parse(LINE)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LINE[:-4], "torn"),
        ("Traceback (most recent call last):", "torn"),
        ("[1, 2]", "torn"),
        (LINE.replace("5.0", '"noon"'), "no time"),
        (LINE.replace("5.0", "NaN"), "no time"),
        (LINE.replace('"g"', "7"), "no group"),
        (LINE.replace('"group": "g", ', ""), "no group"),
        (LINE.replace("poll.late", "request.sent"), "another event"),
        (LINE.replace('"poll.late"', '["poll.late"]'), "another event"),
        (LINE.replace("5.0", "[" * 100_000 + "]" * 100_000), "torn"),
        (LINE.replace('"app"', "[" * 600 + "1e99" + "]" * 600), "torn"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_reason(line: str, reason: str) -> None:
    with pytest.raises(NotUnderstoodError, match=reason):
        parse(line)


def test_consumers_without_a_group_are_taken_together() -> None:
    line = LINE.replace('"g"', "null")
    seen = glance(line)

    assert parse(line)["group"] == ALONE
    assert seen is not None
    assert seen.group == ALONE


@pytest.mark.parametrize("t", ["1e300", "-1", "1e11"])
def test_a_time_that_no_clock_has_is_none(t: str) -> None:
    line = LINE.replace("5.0", t)

    assert glance(line) is None
    with pytest.raises(NotUnderstoodError, match="no time"):
        parse(line)


def test_what_no_table_can_hold_is_left_out_of_an_event() -> None:
    """A lone surrogate stands in the name of a file that is no UTF-8."""
    odd = {
        "because": "caf\udce9.csv \U0001f600",
        "generation": 10**20,
        "offsets": {"a\udcff": 1e300},
    }
    line = json.dumps({**json.loads(LINE), **odd, "line": 10**16})

    event = parse(line)

    assert event["because"] == "caf\ufffd.csv \U0001f600"
    assert event["generation"] is event["line"] is None
    assert event["offsets"] == {"a\ufffd": None}
    assert glance(line) is None


@pytest.mark.parametrize(("seed", "protocol"), STORMS[:2])
def test_a_glance_sees_what_parsing_finds(seed: int, protocol: str) -> None:
    seen = beats = 0
    for line in storm_lines(seed, protocol):
        try:
            event = parse(line)
        except NotUnderstoodError:
            assert glance(line) is None
            assert not re.search(f"{PATTERN}|{ALIVE}", line)
            continue
        glanced = glance(line)
        assert glanced is not None
        assert glanced == tuple(event[key] for key in ("event", "t", "group", "source", "line"))
        found = [bool(re.search(pattern, line)) for pattern in (PATTERN, ALIVE)]
        assert found == [event["event"] != HEARTBEAT, event["event"] == HEARTBEAT]
        seen += 1
        beats += found[1]
    assert seen > 100
    assert beats > 50
