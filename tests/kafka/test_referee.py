"""The referee of the fault tests finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message

from aktor.simulation.history import Event
from tests.kafka.fault_support import Writer
from tests.kafka.referee import Verdict, Written, judge, longest_wait

#: The partition of the stories.
PLACE = "t-0"

#: Of a consumer that commits by itself.
AUTOMATIC = {
    "enable_auto_commit": True,
    "group_id": "g",
    "fetch_max_wait_ms": 500,
    "retry_backoff_ms": 100,
    "group_instance_id": None,
}


class Story:
    """What members told, a second apart; offset n of partition 0 was written at second n."""

    def __init__(self, written: int) -> None:
        self.told: list[Event] = []
        self.written = {0: {at: Written(float(at), f"v{at}") for at in range(written)}}
        self._generation = 0
        self._next: dict[str, int] = {}

    def tells(self, member: str, event: str, **values: Any) -> Story:
        """One event."""
        at = float(len(self.told) + 1)
        self.told.append({"event": event, "member": member, "group": "g", "at": at, **values})
        return self

    def gets(self, member: str, at: int | None = None) -> Story:
        """It is assigned the partition, and reads from here, if that is known."""
        self._generation += 1
        self.tells(member, "rebalance.synced", generation=self._generation)
        self.tells(member, "partitions.assigned", partitions={PLACE: None}, by_group=True)
        if at is not None:
            self.tells(member, "position.resolved", partitions={PLACE: at}, because="committed")
        return self

    def loses(self, member: str, how: str = "revoked") -> Story:
        """It gives the partition up."""
        self.tells(member, "partitions.revoking", partitions=[PLACE], loss=how)
        return self.tells(member, "partitions.released", partitions={PLACE: self._next[member]})

    def reads(self, member: str, *offsets: int, values: str = "v") -> Story:
        """It has come back for more, and is given these."""
        contents = [Written(0.0, f"{values}{one}").content for one in offsets]
        self._next[member] = offsets[-1] + 1
        runs = [[one, one] for one in offsets]
        self.tells(member, "user.returned")
        self.tells(member, "records.delivered", partition=PLACE, offsets=runs)
        return self.tells(
            member, "user.given", partition=PLACE, offsets=list(offsets), contents=contents
        )

    def sends(self, member: str) -> Story:
        """What it was given is on its way to the coordinator."""
        offsets = {PLACE: self._next[member]}
        self.tells(member, "user.commits", partitions=None)
        return self.tells(member, "commit.sent", offsets=offsets, kind="asked")

    def hears(self, member: str) -> Story:
        """That it is stored; the commit ends."""
        offsets = {PLACE: self._next[member]}
        self.tells(member, "commit.succeeded", offsets=offsets, kind="asked")
        return self.tells(member, "user.committed")

    def commits(self, member: str) -> Story:
        """It commits what it was given."""
        return self.sends(member).hears(member)

    def verdict(self) -> Verdict:
        """What the referee says, once all have come back for more."""
        for member in self._next:
            self.tells(member, "user.returned")
        return judge(self.told, self.written, "t", "g")


def test_a_clean_hand_over_is_without_fault() -> None:
    story = Story(written=4).gets("a", 0).reads("a", 0, 1).commits("a").loses("a")

    verdict = story.gets("b", 2).reads("b", 2, 3).commits("b").verdict()

    assert (verdict.faults, verdict.delivered, verdict.repeated) == ([], 4, 0)


@pytest.mark.parametrize(
    ("story", "fault"),
    [
        (Story(3).gets("a").reads("a", 0, 1), "group g never finished t-0:[2]"),
        (Story(3).gets("a").reads("a", 0, 2), "was given t-0:2, which skips from 1"),
        (Story(2).gets("a").reads("a", 0, 1).reads("a", 1), "was given t-0:1 again, after 1"),
        (Story(1).gets("a").reads("a", 0, values="w"), "was given another record at t-0:0"),
        (Story(1).reads("a", 0), "was given t-0, which it does not own"),
        (
            Story(2).gets("a").gets("b").reads("b", 0).reads("a", 0, 1),
            "was given t-0, which b owns by now",
        ),
        (
            Story(2).gets("a").reads("a", 0).tells("a", "user.commits", partitions=None)
            .tells("a", "user.committed").loses("a").gets("b").reads("b", 0, 1),
            "has committed t-0 up to None, and was given everything before 1",
        ),
        (
            Story(2).gets("a").reads("a", 0)
            .tells("a", "listener.told", told="revoked", partitions=[PLACE]).sends("a")
            .tells("a", "callback.finished", callback="on_partitions_revoked", partitions=[PLACE])
            .loses("a").gets("b").reads("b", 0, 1),
            "could not commit before it gave back",
        ),
        (
            Story(2).tells("a", "consumer.made", **AUTOMATIC).gets("a").reads("a", 0)
            .loses("a").gets("b").reads("b", 0, 1),
            "let go of t-0 at 1, and has not committed that",
        ),
        (
            Story(3).gets("a").reads("a", 0, 1).commits("a").loses("a", "lost").gets("b")
            .reads("b", 0, 1, 2),
            "was given t-0:0 again, 2 was committed",
        ),
        (
            Story(3).gets("a").reads("a", 0, 1).gets("b").reads("b", 0, 1, 2).commits("b")
            .commits("a"),
            "committed t-0:2 after 3",
        ),
        (
            Story(2).gets("a").reads("a", 0, 1).tells("a", "user.position", partitions={PLACE: 3}),
            "is at t-0:3, and was given everything before 2",
        ),
        (Story(0).tells("a", "member.failed", because="ValueError"), "a failed: ValueError"),
    ],
    ids=[
        "lost", "gap", "step back", "another record", "not its own", "two owners",
        "repeated without a reason", "repeated since a commit failed",
        "repeated with automatic commits", "repeated although committed", "commit taken back",
        "position beyond", "failed",
    ],
)  # fmt: skip
def test_a_fault_is_found(story: Story, fault: str) -> None:
    verdict = story.verdict()

    assert fault in "\n".join(verdict.faults)


def test_what_a_killed_member_had_not_committed_may_be_read_again() -> None:
    story = Story(written=3).gets("a").reads("a", 0).commits("a").reads("a", 1)

    verdict = story.tells("a", "member.killed").gets("b", 1).reads("b", 1, 2).verdict()

    assert (verdict.faults, verdict.repeated) == ([], 1)


def test_a_commit_that_was_under_way_before_a_later_one_is_not_one_that_goes_back() -> None:
    story = Story(written=3).gets("a").reads("a", 0, 1).sends("a").gets("b", 2).reads("b", 2)

    verdict = story.commits("b").hears("a").verdict()

    assert verdict.faults == []


def test_a_wait_counts_from_when_the_record_was_there_or_from_the_delivery_before() -> None:
    written = {at: Written(float(at), "") for at in range(4)}

    # Second 1: waited from 0; second 6: from 1; then two at once.
    assert longest_wait([(1.0, 0), (6.0, 1), (7.0, 2)], written) == (5.0, 6.0)


def test_what_was_acknowledged_without_an_offset_is_where_it_was_first_read() -> None:
    # librdkafka says no offset of what a broker had already: the answer to the first try was lost.
    writer = Writer(["nowhere:9092"], "words")
    writer._note(None, Message("words", 0, offset=4, value=b"first"))
    writer._note(None, Message("words", 0, offset=-1001, value=b"second"))

    assert set(writer.acknowledged[0]) == {4}
    writer.place(0, [4, 5], ["first", "second"])
    writer.place(0, [5], ["second"])

    values = {at: written.value for at, written in writer.acknowledged[0].items()}
    assert values == {4: "first", 5: "second"}
    assert not any(writer.unplaced.values())


def test_what_brokers_have_twice_was_written_twice() -> None:
    writer = Writer(["nowhere:9092"], "words")
    writer._note(None, Message("words", 0, offset=5, value=b"first"))

    writer.place(0, [4, 5, 6], ["first", "first", "never sent"])

    values = {at: written.value for at, written in writer.acknowledged[0].items()}
    assert values == {4: "first", 5: "first"}


def test_what_was_acknowledged_somewhere_is_not_taken_for_what_was_read_there() -> None:
    writer = Writer(["nowhere:9092"], "words")
    writer._note(None, Message("words", 0, offset=5, value=b"first"))
    writer._note(None, Message("words", 0, offset=6, value=b"second"))

    writer.place(0, [5, 6], ["second", "first"])

    values = {at: written.value for at, written in writer.acknowledged[0].items()}
    assert values == {5: "first", 6: "second"}
