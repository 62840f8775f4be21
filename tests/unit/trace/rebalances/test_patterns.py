"""A topic that matches a pattern comes or goes: nobody has changed a subscription."""

from __future__ import annotations

import pytest

from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Rebalance
from tests.unit.trace.rebalances.told import Member, rows_of, takes

CHANGED = "the subscription changed"
GIVEN = "the coordinator assigned other partitions"


@pytest.fixture(name="events")
def _events() -> list[Event]:
    return []


@pytest.fixture(name="alice")
def _alice(events: list[Event]) -> Member:
    return Member(events, "alice")


@pytest.fixture(name="bob")
def _bob(events: list[Event]) -> Member:
    return Member(events, "bob")


def matches(member: Member, at: float, pattern: str, new: str = "", gone: str = "") -> None:
    added, removed = new.split(), gone.split()
    told = {"pattern": pattern, "topics_added": added, "topics_removed": removed}
    member.tells(at, "subscription.matched", **told)


def triggers(events: list[Event]) -> list[tuple[str, str]]:
    return [(row.trigger, row.because) for row in rows_of(events, Rebalance)]


def test_a_classic_member_that_joins_for_a_new_topic_says_which(
    events: list[Event], alice: Member
) -> None:
    matches(alice, 0.0, "^or.*", new="orders")
    alice.rebalances(0.1, 1.0, 1, because="first join", owns=["orders-0"])
    matches(alice, 100.0, "^or.*", new="oregano")
    alice.rebalances(100.1, 101.0, 2, because=CHANGED, owns=["orders-0", "oregano-0"])
    matches(alice, 200.0, "^or.*", gone="oregano")
    alice.rebalances(200.1, 201.0, 3, because=CHANGED, owns=["orders-0"])

    assert triggers(events) == [
        ("join", "first join"),
        ("metadata_change", "the topics that match its pattern ^or.* changed (oregano: new)"),
        ("metadata_change", "the topics that match its pattern ^or.* changed (oregano: deleted)"),
    ]


@pytest.mark.parametrize("told", [False, True], ids=["topics", "another pattern"])
def test_who_subscribes_anew_has_changed_the_subscription(
    events: list[Event], alice: Member, told: bool
) -> None:
    matches(alice, 0.0, "^or.*", new="orders")
    alice.rebalances(0.1, 1.0, 1, because="first join", owns=["orders-0"])
    if told:
        matches(alice, 100.0, "^pay.*", new="payments")
    alice.rebalances(100.1, 101.0, 2, because=CHANGED, owns=["payments-0"])

    assert triggers(events)[1] == ("subscription_change", CHANGED)


def test_a_member_of_a_kip_848_group_has_told_it_for_the_others(
    events: list[Event], alice: Member, bob: Member
) -> None:
    takes(alice, 1.0, 1, "first join", "orders-0", joins=True)
    takes(bob, 2.0, 2, "first join", "orders-1", joins=True)
    matches(alice, 100.0, "^or.*", new="oregano")
    alice.tells(100.0, "subscription.told", topics=["orders", "oregano"], because=CHANGED)
    takes(bob, 101.0, 3, GIVEN, "oregano-0", joins=False)
    takes(alice, 101.1, 3, GIVEN, "oregano-1", joins=False)

    assert triggers(events)[-1] == (
        "metadata_change",
        "the topics that match its pattern ^or.* changed (oregano: new)",
    )


def test_what_a_member_has_told_explains_nothing_after_what_it_was_given_for_it(
    events: list[Event], alice: Member, bob: Member
) -> None:
    """The coordinator itself has seen that the topic was deleted, before a member did."""
    takes(alice, 1.0, 1, "first join", "orders-0", joins=True)
    takes(bob, 2.0, 2, "first join", "orders-1", joins=True)
    for member, at, epoch in ((bob, 100.0, 3), (alice, 100.9, 4)):
        matches(member, at, "^or.*", new="oregano")
        member.tells(at, "subscription.told", topics=["orders", "oregano"], because=CHANGED)
        takes(member, at + 0.1, epoch, GIVEN, f"oregano-{epoch - 3}", joins=False)
    bob.tells(108.0, "rebalance.triggered", because=GIVEN, generation=4, owned=2)
    bob.tells(108.1, "partitions.released", partitions={"oregano-0": 5})
    bob.tells(108.2, "rebalance.completed", generation=4, ms=200)
    bob.tells(108.3, "member.epoch", before=4, after=5)
    matches(alice, 108.9, "^or.*", gone="oregano")

    assert triggers(events)[-1] == ("metadata_change", "the topic oregano was deleted")


def test_what_changed_nothing_is_not_the_reason_when_another_member_leaves(
    events: list[Event], alice: Member, bob: Member
) -> None:
    """Bob hears of the new topic when alice has told it, and everybody has its partitions."""
    takes(alice, 1.0, 1, "first join", "orders-0", joins=True)
    takes(bob, 2.0, 2, "first join", "orders-1", joins=True)
    for member, at in ((alice, 100.0), (bob, 101.0)):
        matches(member, at, "^or.*", new="oregano")
        member.tells(at, "subscription.told", topics=["orders", "oregano"], because=CHANGED)
        if member is alice:
            takes(alice, 100.1, 3, GIVEN, "oregano-0", joins=False)
            takes(bob, 100.5, 3, GIVEN, "oregano-1", joins=False)
    bob.tells(101.1, "member.epoch", before=3, after=4)
    alice.leaves(107.0, ["orders-0", "oregano-0"])
    takes(bob, 107.5, 5, GIVEN, "orders-0", "oregano-0", joins=False)

    told = triggers(events)

    assert told[-2][0] == "metadata_change"
    assert told[-1] == ("leave", "the consumer was closed")
