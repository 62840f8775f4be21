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
    scene = a_member_in(state)
    scene.requests.clear()

    scene.tell(LOST)
    assert scene.state is state
    assert not scene.requests
    scene.find_coordinator(OTHER_COORDINATOR)

    sent = [row(one)[0] for one in scene.requests]
    if state in (State.LEAVING, State.STALE):
        assert sent == [-1]
    elif state is State.FREEING_INSTANCE_ID:
        assert sent == [-2]
    elif state is State.JOINING:
        assert sent == [0]
    else:
        assert sent == ([1] if state in IN_GROUP else [])


def test_a_reconciliation_goes_on_without_a_coordinator() -> None:
    scene = a_stable_member()
    scene.is_told("a-0 b-0")
    scene.tell(LOST)

    scene.revoke(a=7)
    scene.apply()
    assert scene.state is State.ACKNOWLEDGING
    scene.find_coordinator()

    assert tells(scene.beat()) == partitions("a-0 b-0")


# -- others are restarted


def test_a_restarted_metadata_manager_is_told_what_the_member_needs() -> None:
    scene = a_stable_member("a-0")
    scene.is_told("a-0 c-0")
    scene.forget()

    scene.tell(ActorsRestarted(actors=("metadata",), because=RuntimeError()))

    assert scene.said(NameTopics).topic_ids == {IDS["c"]}
    assert scene.said(TrackTopics).topics == {"a"}


def test_a_restarted_manager_joins_with_the_same_id_and_steps_of_its_own() -> None:
    scene = a_member(incarnation=2)
    scene.find_coordinator()
    scene.tell(SubscriptionChanged(topics=frozenset({"a"}), member_id="m"))
    scene.poll()
    assert (row(scene.beat())[0], scene.has_beaten) == (0, False)
    step_of_the_first = CallbackFinished(rebalance=1, assigned=True)

    scene.tell(step_of_the_first)

    assert scene.traced("step.dropped")
