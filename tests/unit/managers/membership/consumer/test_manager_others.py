"""The consumer protocol's membership manager: the coordinator moves, actors are restarted."""

from __future__ import annotations

import pytest

from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import CallbackFinished, SubscriptionChanged
from aktor.events.metadata import NameTopics, TrackTopics
from aktor.managers.membership.consumer.states import IN_GROUP, State
from tests.unit.managers.membership.builders import partitions
from tests.unit.managers.membership.consumer.builders import (
    IDS,
    LOST,
    OTHER_COORDINATOR,
    a_member,
    a_member_in,
    a_stable_member,
    row,
    tells,
)

# -- the coordinator moves


@pytest.mark.parametrize("state", list(State), ids=lambda one: one.name)
def test_a_move_of_the_coordinator_does_not_put_the_membership_in_question(state: State) -> None:
    """Lead 4 of peers_measured."""
    harness = a_member_in(state)
    harness.requests.clear()

    harness.tell(LOST)
    assert harness.state is state
    assert not harness.requests
    harness.find_coordinator(OTHER_COORDINATOR)

    sent = [row(one)[0] for one in harness.requests]
    if state in (State.LEAVING, State.STALE):
        assert sent == [-1]
    elif state is State.FREEING_INSTANCE_ID:
        assert sent == [-2]
    elif state is State.JOINING:
        assert sent == [0]
    else:
        assert sent == ([1] if state in IN_GROUP else [])


def test_a_reconciliation_goes_on_without_a_coordinator() -> None:
    harness = a_stable_member()
    harness.is_told("a-0 b-0")
    harness.tell(LOST)

    harness.revoke(a=7)
    harness.apply()
    assert harness.state is State.ACKNOWLEDGING
    harness.find_coordinator()

    assert tells(harness.beat()) == partitions("a-0 b-0")


# -- others are restarted


def test_a_restarted_metadata_manager_is_told_what_the_member_needs() -> None:
    harness = a_stable_member("a-0")
    harness.is_told("a-0 c-0")
    harness.forget()

    harness.tell(ActorsRestarted(actors=("metadata",), because=RuntimeError()))

    assert harness.said(NameTopics).topic_ids == {IDS["c"]}
    assert harness.said(TrackTopics).topics == {"a"}


def test_a_restarted_manager_joins_with_the_same_id_and_steps_of_its_own() -> None:
    harness = a_member(incarnation=2)
    harness.find_coordinator()
    harness.tell(SubscriptionChanged(topics=frozenset({"a"}), member_id="m"))
    harness.poll()
    assert (row(harness.beat())[0], harness.has_beaten) == (0, False)
    step_of_the_first = CallbackFinished(rebalance=1, assigned=True)

    harness.tell(step_of_the_first)

    assert harness.traced("step.dropped")
