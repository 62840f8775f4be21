"""The schema of events: all that the source tells stands in it, and nothing else."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from aktor.trace import recording, schema
from tests import trace_table

#: What the keyword arguments of a call cannot be called, since each event has them.
TAKEN = schema.ALWAYS.keys()


@pytest.fixture(scope="module", name="calls")
def _calls() -> list[trace_table.Call]:
    return list(trace_table.calls())


def test_every_event_of_the_source_has_a_row_and_every_row_an_event(
    calls: list[trace_table.Call],
) -> None:
    assert {call.event for call in calls} == schema.EVENTS.keys()


def test_a_call_tells_an_event_with_the_keys_of_its_row(calls: list[trace_table.Call]) -> None:
    for call in calls:
        row = schema.EVENTS[call.event]
        keys = set(row.keys)

        assert call.keys <= {*keys, *row.sometimes, "cause"}, call
        assert call.more or call.keys >= keys, call
        assert not call.keys & TAKEN, call


def test_a_row_names_the_levels_at_which_its_event_is_told(
    calls: list[trace_table.Call],
) -> None:
    told = {(call.event, call.level) for call in calls}
    assert told == {(row.name, level) for row in schema.EVENTS.values() for level in row.levels}


def test_every_key_is_said_to_mean_something_once_and_is_used() -> None:
    used = {key for row in schema.EVENTS.values() for key in (*row.keys, *row.sometimes)}
    bound, own = schema.BOUND.keys(), schema.KEYS.keys()

    assert own == used - bound
    assert not own & bound
    assert not TAKEN & (own | bound)
    assert len({key.meaning for key in schema.KEYS.values()}) == len(own)


def test_no_key_is_an_attribute_that_a_log_record_has_already() -> None:
    """`logging` refuses these as `extra`."""
    record = logging.makeLogRecord({})
    taken = {*vars(record), "message", "asctime", "aktor"}  # the last is the event itself
    assert not taken & {*schema.ALWAYS, *schema.BOUND, *schema.KEYS}


def test_the_document_of_the_trace_is_made_from_the_schema() -> None:
    assert trace_table.DOCUMENT.read_text() == trace_table.document(), (
        "python -m tests.trace_table writes it anew"
    )


@pytest.mark.parametrize(
    ("event", "values", "fault"),
    [
        ("thing.happened", {}, "thing.happened has no row"),
        ("topic.deleted", {}, "topic.deleted has no topic"),
        ("topic.deleted", {"topic": "a", "id": 1}, "topic.deleted has id, which is not in its row"),
        ("topic.deleted", {"topic": 1}, "topic.deleted has topic=1, which is of another type"),
        (
            "broker.returned",
            {"node": 1, "address": "a:1", "seconds": 1.0, "failed_ago": math.inf},
            "has failed_ago=inf, which is of another type",
        ),
        ("topic.deleted", {"topic": True}, "has topic=True, which is of another type"),
        ("topic.recreated", {"topic": "a", "before": 1, "after": 2}, "told at the level info"),
    ],
)
def test_what_differs_from_its_row_is_found(event: str, values: Any, fault: str) -> None:
    trace, events = recording()
    trace.info(event, **values)

    (found,) = schema.faults_of(events[0])

    assert fault in found


def test_what_is_as_its_row_says_has_no_faults() -> None:
    trace, events = recording()
    trace.bind(actor="metadata", incarnation=1, consumer="c").info("topic.deleted", topic="a")
    trace.info("topic.deleted", topic=None)

    assert [fault for event in events for fault in schema.faults_of(event)] == []
