"""The transition table of a KIP-848 member: what is in it happens, and nothing else."""

from __future__ import annotations

import itertools

import pytest

from aktor.managers.membership.consumer.states import IN_GROUP, TRANSITIONS, State, Trigger
from aktor.state_table import IllegalTransitionError, follow, mermaid

JAVA = {
    "UNSUBSCRIBED",
    "JOINING",
    "RECONCILING",
    "ACKNOWLEDGING",
    "STABLE",
    "FENCED",
    "LEAVING",
    "STALE",
    "FATAL",
}


def sources(state: State) -> set[State]:
    return {a for a, row in TRANSITIONS.items() if state in row.values()}


def reached(start: State) -> set[State]:
    found = {start}
    while more := {b for a in found for b in TRANSITIONS[a].values()} - found:
        found |= more
    return found


@pytest.mark.parametrize(
    ("state", "trigger"), list(itertools.product(State, Trigger)), ids=lambda one: one.name
)
def test_a_trigger_moves_as_the_table_says_or_is_refused(state: State, trigger: Trigger) -> None:
    if trigger in TRANSITIONS[state]:
        assert follow(TRANSITIONS, state, trigger) is TRANSITIONS[state][trigger]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{trigger.name} while {state.name}"):
            follow(TRANSITIONS, state, trigger)


def test_the_states_are_those_of_the_java_client_and_one_more() -> None:
    """There, LEAVING is PREPARE_LEAVING until the leave heartbeat is sent."""
    assert {state.name for state in State} == JAVA | {"FREEING_INSTANCE_ID"}


def test_every_state_is_reached_and_every_trigger_used() -> None:
    assert reached(State.UNSUBSCRIBED) == set(State)
    assert {trigger for row in TRANSITIONS.values() for trigger in row} == set(Trigger)


def test_every_state_but_the_fatal_one_leads_back_to_the_beginning() -> None:
    assert {state for state in State if State.UNSUBSCRIBED not in reached(state)} == {State.FATAL}
    assert TRANSITIONS[State.FATAL] == {}


@pytest.mark.parametrize("state", sorted(IN_GROUP, key=str), ids=lambda one: one.name)
def test_a_member_may_leave_or_be_refused_whatever_it_is_doing(state: State) -> None:
    assert TRANSITIONS[state][Trigger.DEPART] is State.LEAVING
    assert TRANSITIONS[state][Trigger.EXPIRE] is State.STALE
    assert TRANSITIONS[state][Trigger.FAIL] is State.FATAL


def test_only_a_member_with_an_epoch_can_be_fenced() -> None:
    assert sources(State.FENCED) == IN_GROUP - {State.JOINING, State.FREEING_INSTANCE_ID}


def test_nothing_is_acknowledged_that_was_not_reconciled() -> None:
    assert sources(State.ACKNOWLEDGING) == {State.RECONCILING}
    assert sources(State.STABLE) == {State.RECONCILING, State.ACKNOWLEDGING}


def test_who_was_out_comes_back_by_joining() -> None:
    outside = set(State) - IN_GROUP

    assert {b for a in outside for b in TRANSITIONS[a].values()} & IN_GROUP == {State.JOINING}


def test_only_who_is_in_the_group_leaves_it_or_is_stale() -> None:
    assert sources(State.STALE) == sources(State.LEAVING) == IN_GROUP


def test_an_instance_id_is_freed_by_who_joins_and_for_joining() -> None:
    assert sources(State.FREEING_INSTANCE_ID) == {State.JOINING}
    assert TRANSITIONS[State.FREEING_INSTANCE_ID][Trigger.FREED] is State.JOINING


def test_the_diagram_has_one_arrow_for_each_transition() -> None:
    lines = mermaid(TRANSITIONS).splitlines()

    assert lines[:2] == ["stateDiagram-v2", "    [*] --> UNSUBSCRIBED"]
    assert "    RECONCILING --> ACKNOWLEDGING: acknowledge" in lines
    assert len(lines) == 2 + sum(len(row) for row in TRANSITIONS.values())
