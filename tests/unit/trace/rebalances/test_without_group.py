"""Consumers without a group (`group_id=None`, with `assign`) have silences, too. All of them are
taken together, and what groups have, they have not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aktor.cli.main import main
from aktor.trace.pictures import draw
from aktor.trace.rebalances import Tables, read
from aktor.trace.rebalances.lines import ALONE, Event
from aktor.trace.rebalances.silences import in_sentences
from aktor.trace.rebalances.tables import TABLES
from tests.unit.trace.rebalances.incidents import without_a_group
from tests.unit.trace.rebalances.told import Member


def tables_of(events: list[Event]) -> Tables:
    rows, counts = read(json.dumps(event) for event in events)
    assert counts["no group"] == 0
    return Tables(rows, counts)


def test_what_a_consumer_without_a_group_waited_for_is_told() -> None:
    tables = tables_of(without_a_group())

    told = [sentence for _, sentence in in_sentences(tables.silences)]
    assert {row.group for row in tables.silences} == {ALONE}
    assert any(
        one.startswith("without a group: alice on host-alice was given nothing from orders-")
        and "the application has not polled for" in one
        for one in told
    )
    assert any("bob on host-bob was given nothing from orders-" in one for one in told)
    others = set(TABLES) - {"silences", "refusals", "resets"}
    assert {name: tables[name] for name in others if tables[name]} == {}


def test_two_of_them_that_read_the_same_partition_do_not_hand_it_over() -> None:
    """Nor if their traces begin after the assignment."""
    late = [event for event in without_a_group() if event["event"] != "partitions.assigned"]

    tables = tables_of(late)

    assert tables.silences
    assert not tables.downtimes
    assert not tables.owned_partitions


def test_it_is_printed_and_the_page_has_its_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps(event) for event in without_a_group()]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")

    assert main(["why", str(trace)]) == 0
    said = capsys.readouterr()

    assert "without a group: alice on host-alice was given nothing from orders-" in said.out
    assert "Members, by" not in said.out
    assert "not understood" not in said.err
    pictures = draw(tables_of(without_a_group()))
    assert pictures.svgs() == {}
    assert "Consumers without a group" in pictures.html()
    assert "alice on host-alice was given nothing" in pictures.html()


def test_a_consumer_without_a_group_needs_no_coordinator() -> None:
    events: list[Event] = []
    alice = Member(events, "alice")
    alice.tells(1.0, "bootstrap.started")
    alice.tells(9.0, "bootstrap.failed", because="no broker can be reached")
    alice.tells(12.0, "delivery.stalled", partition="t-0", reason="broker", since=3.0)

    tables = tables_of([{**event, "group": None} for event in events])

    assert not tables.spans
    assert [row.refused for row in tables.refusals] == ["brokers"]


@pytest.mark.parametrize("group", [ALONE, "g"])
@pytest.mark.parametrize("way", ["paused", "stalled"])
def test_the_silence_of_who_was_killed_lasts_no_longer_than_its_trace(group: str, way: str) -> None:
    """Nobody takes over what the application assigned itself."""
    events: list[Event] = []
    alice, bob = Member(events, "alice"), Member(events, "bob")
    alice.tells(9.0, "partitions.assigned", partitions={"t-0": 1}, by_group=False)
    if way == "paused":
        alice.tells(10.0, "partitions.paused", partitions=["t-0"])
    else:
        alice.tells(11.0, "delivery.stalled", partition="t-0", reason="broker", since=10.0)
    alice.tells(13.0, "commit.failed", partitions=["t-0"])
    bob.tells(20_000.0, "commit.failed", partitions=["t-1"])

    (row,) = tables_of([{**event, "group": group or None} for event in events]).silences

    assert (row.began, row.ended) == (10.0, None)
    assert "from t-0 for 3.0 s, and it goes on" in row.sentence
