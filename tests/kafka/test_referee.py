"""The referee of the fault tests finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message

from tests.kafka.fault_support import Referee, Verdict, Writer


class Story:
    """What members said, a second apart; offset n of partition 0 was written at second n."""

    def __init__(self, written: int) -> None:
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.written = {0: {offset: (float(offset), f"v{offset}") for offset in range(written)}}

    def says(self, member: str, what: str, **values: Any) -> Story:
        """One report."""
        self.reports.append((member, {"said": what, "at": float(len(self.reports)), **values}))
        return self

    def gets(self, member: str) -> Story:
        """It is assigned the partition."""
        return self.says(member, "assigned", partitions=[0])

    def loses(self, member: str, how: str = "revoked") -> Story:
        """It gives the partition up."""
        return self.says(member, "released", partitions=[0], how=how)

    def reads(self, member: str, *offsets: int) -> Story:
        """It is given these."""
        values = [f"v{offset}" for offset in offsets]
        return self.says(member, "read", partition=0, offsets=list(offsets), values=values)

    def commits(self, member: str, took: float = 0.0) -> Story:
        """It commits what it was given."""
        return self.says(member, "committed", partitions=[0], took=took)

    def verdict(self) -> Verdict:
        """What the referee says."""
        return Referee().judge(self.reports, self.written)


def test_a_clean_hand_over_is_without_fault() -> None:
    story = Story(written=4).gets("a").reads("a", 0, 1).commits("a").loses("a")

    verdict = story.gets("b").reads("b", 2, 3).verdict()

    assert (verdict.faults, verdict.delivered, verdict.repeated) == ([], 4, 0)


@pytest.mark.parametrize(
    ("story", "fault"),
    [
        (Story(3).gets("a").reads("a", 0, 1), "1 records of partition 0 were never delivered"),
        (Story(3).gets("a").reads("a", 0, 2), "instead of [0, 1]"),
        (Story(2).gets("a").reads("a", 0, 1).reads("a", 1), "instead of [2]"),
        (Story(1).reads("a", 0), "without owning it"),
        (Story(2).gets("a").gets("b").reads("b", 0).reads("a", 0, 1), "owned partition 0"),
        (Story(2).gets("a").reads("a", 0).loses("a").gets("b").reads("b", 0, 1), "began"),
        (
            Story(3).gets("a").reads("a", 0, 1).commits("a").loses("a", "lost").gets("b")
            .reads("b", 0, 1, 2),
            "at 0 instead of 2",
        ),
        (
            Story(3).gets("a").reads("a", 0, 1).gets("b").reads("b", 0, 1, 2).commits("b")
            .commits("a"),
            "back from 3 to 2",
        ),
        (
            Story(2).gets("a").reads("a", 0, 1).says("a", "stopping", positions={"0": 3}),
            "position of partition 0 is 3",
        ),
        (Story(0).says("a", "failed", because="ValueError"), "a failed: ValueError"),
    ],
    ids=[
        "lost", "gap", "step back", "not its own", "two owners", "repeated without a reason",
        "repeated although committed", "commit taken back", "position beyond", "failed",
    ],
)  # fmt: skip
def test_a_fault_is_found(story: Story, fault: str) -> None:
    verdict = story.verdict()

    assert fault in "\n".join(verdict.faults)


def test_what_a_killed_member_had_not_committed_may_be_read_again() -> None:
    story = Story(written=3).gets("a").reads("a", 0).commits("a").reads("a", 1).says("a", "killed")

    verdict = story.gets("b").reads("b", 1, 2).verdict()

    assert (verdict.faults, verdict.repeated) == ([], 1)


def test_a_commit_that_was_under_way_before_a_later_one_is_not_one_that_goes_back() -> None:
    story = Story(written=3).gets("a").reads("a", 0, 1).gets("b").reads("b", 2).commits("b")

    verdict = story.commits("a", took=4.0).verdict()

    assert "back" not in "\n".join(verdict.faults)


def test_a_wait_counts_from_when_the_record_was_there_or_from_the_delivery_before() -> None:
    story = Story(written=4).gets("a").reads("a", 0)  # in second 1: waited from 0
    for _ in range(4):
        story.says("a", "polled")

    verdict = story.reads("a", 1).reads("a", 2, 3).verdict()  # in second 6: waited from 1

    assert verdict.resume == 5.0


def test_what_was_acknowledged_without_an_offset_is_where_it_was_first_read() -> None:
    # librdkafka says no offset of what a broker had already: the answer to the first try was lost.
    writer = Writer(["nowhere:9092"], "words")
    writer._note(None, Message("words", 0, offset=4, value=b"first"))
    writer._note(None, Message("words", 0, offset=-1001, value=b"second"))

    assert set(writer.acknowledged[0]) == {4}
    writer.place(0, [4, 5], ["first", "second"])
    writer.place(0, [5], ["second"])

    assert {at: value for at, (_, value) in writer.acknowledged[0].items()} == {
        4: "first",
        5: "second",
    }
    assert not any(writer.unplaced.values())
