"""The judge of the scenarios finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.history import History
from tests.scenarios.world import World


def a_history() -> History:
    """One reader that was given all there is, twenty records of two partitions."""
    world = World(seed=1)
    world.cluster.create_topic("orders", partitions=2)
    world.cluster.fill("orders", 10)
    history = History(world)
    history.reader("orders", group_id="g")
    history.drive(5.0)
    return history


def test_who_was_given_everything_once_broke_no_promise() -> None:
    a_history().assert_kept("orders")


@pytest.mark.parametrize(
    ("event", "values", "complaint"),
    [
        ("records.delivered", {"offsets": [[3, 3]]}, "was given orders-0:3 again"),
        ("records.delivered", {"offsets": [[12, 12]]}, "which skips from 10"),
        ("user.given", {"offsets": [10]}, "the trace tells of []"),
    ],
    ids=["again", "a gap", "untold"],
)
def test_what_must_not_happen_is_complained_about(
    event: str, values: dict[str, Any], complaint: str
) -> None:
    history = a_history()
    history.world.cluster.fill("orders", 3)

    history.readers[0].tell(event, partition="orders-0", group="g", **values)

    assert complaint in "\n".join(history.broken)


def test_two_owners_are_complained_about() -> None:
    history = a_history()
    other = history.reader("bills", group_id="g")

    other.tell("rebalance.synced", generation=9, group="g")
    other.tell("partitions.assigned", partitions=["orders-0"], by_group=True, group="g")
    history.readers[0].tell(
        "records.delivered", partition="orders-0", offsets=[[10, 10]], group="g"
    )

    assert "was given orders-0, which c1 owns by now" in "\n".join(history.broken)


def test_what_nobody_was_given_is_lost() -> None:
    history = a_history()
    history.world.cluster.fill("orders", 1)

    assert history.lost("orders") == {0: {10}, 1: {10}}
