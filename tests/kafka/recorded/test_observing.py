"""What makes two runs comparable, and what must not be made equal."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import JoinGroupResponse

from tests.kafka.recorded import record
from tests.kafka.recorded.batches import THEN, batch, patched, read_batches
from tests.kafka.recorded.client import SILENCE
from tests.kafka.recorded.observe import Observer


def joined(*members: str, error_code: int = 0) -> Any:
    return JoinGroupResponse(
        version=9,
        error_code=error_code,
        leader=members[0],
        member_id=members[-1],
        members=[JoinGroupResponse.JoinGroupResponseMember(member_id=each) for each in members],
    )


def test_random_ids_get_names_in_the_order_of_their_appearance() -> None:
    one, two = f"me-{uuid.uuid4()}", f"me-{uuid.uuid4()}"

    seen = Observer("run").see(joined(one, two))

    assert seen["leader"] == "me-<uuid-1>"
    assert seen["member_id"] == "me-<uuid-2>"
    assert {each["member_id"] for each in seen["members"]} == {"me-<uuid-1>", "me-<uuid-2>"}


def test_a_name_stays_the_same_through_a_scenario() -> None:
    observer, member = Observer("run"), f"me-{uuid.uuid4()}"
    observer.see(joined(member))

    assert observer.see(joined(f"me-{uuid.uuid4()}", member))["member_id"] == "me-<uuid-1>"


def test_names_made_for_the_run_lose_its_mark() -> None:
    assert Observer("4f2a").see({"name": "topic-2-4f2a"}) == {"name": "topic-2"}


def test_error_codes_are_shown_by_name_even_when_there_is_none() -> None:
    assert Observer("run").see(joined("m"))["error_code"] == "NONE"
    assert Observer("run").see(joined("m", error_code=25))["error_code"] == "UNKNOWN_MEMBER_ID"


def test_times_are_told_from_numbers() -> None:
    now = int(time.time() * 1000)

    seen = Observer("run").see([now, THEN, THEN + 5, THEN - 5, 1_500_000_000_000, 7])

    assert seen == ["now", "then", "then+5", "then-5", 1_500_000_000_000, 7]


def test_silence_is_an_observation() -> None:
    assert Observer("run").see(SILENCE) == "no answer"


@pytest.mark.parametrize(
    ("expected", "observed"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {}),
        ({}, {"a": 1}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": True}, {"a": 1}),
        ({"a": None}, {"a": ""}),
        (None, {"a": 1}),
    ],
)
def test_a_difference_is_found(expected: Any, observed: Any) -> None:
    assert record.differences(expected, observed)


def test_equal_notes_do_not_differ() -> None:
    notes = {"a": [{"b": 1}, (2, 3)], "c": None}

    assert record.differences({"a": [{"b": 1}, [2, 3]], "c": None}, notes) == []


def test_batches_are_read_as_they_were_written() -> None:
    data = batch("a", "b" * 100, codec="gzip", producer=(7, 1), sequence=3)

    (seen,) = read_batches(data)

    assert seen["crc"] == "right"
    assert (seen["producer_id"], seen["producer_epoch"], seen["base_sequence"]) == (7, 1, 3)
    assert [each["value"] for each in seen["records"]] == [b"a", b"b" * 100]


def test_a_broken_batch_is_seen_to_be_broken() -> None:
    assert read_batches(patched(batch("a"), crc=1))[0]["crc"] == "wrong"
    assert read_batches(batch("a")[:-1]) == [{"cut off": True}]
