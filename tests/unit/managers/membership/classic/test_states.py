"""The transition table of a classic member: what is in it happens, and nothing else."""

from __future__ import annotations

import itertools

import pytest

from aktor.managers.membership.classic.states import TRANSITIONS, State, Trigger
from aktor.state_table import IllegalTransitionError, follow, mermaid


@pytest.mark.parametrize(
    ("state", "trigger"), list(itertools.product(State, Trigger)), ids=lambda one: one.name
)
def test_a_trigger_moves_as_the_table_says_or_is_refused(state: State, trigger: Trigger) -> None:
    if trigger in TRANSITIONS[state]:
        assert follow(TRANSITIONS, state, trigger) is TRANSITIONS[state][trigger]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{trigger.name} while {state.name}"):
            follow(TRANSITIONS, state, trigger)


def test_every_state_is_reached_from_unjoined_and_leads_back_to_it() -> None:
    def reached(start: State) -> set[State]:
        found = {start}
        while more := {b for a in found for b in TRANSITIONS[a].values()} - found:
            found |= more
        return found

    assert reached(State.UNJOINED) == set(State)
    assert all(State.UNJOINED in reached(state) for state in State)


def test_the_application_may_leave_whatever_the_member_is_doing() -> None:
    elsewhere = set(State) - {State.LEAVING}

    assert {TRANSITIONS[state].get(Trigger.LEAVE) for state in elsewhere} == {State.LEAVING}


def test_no_partitions_are_applied_without_a_join_and_a_sync() -> None:
    into_assigning = {a for a, row in TRANSITIONS.items() if State.ASSIGNING in row.values()}
    into_syncing = {a for a, row in TRANSITIONS.items() if State.SYNCING in row.values()}

    assert into_assigning == {State.SYNCING, State.REVOKING}
    assert into_syncing == {State.JOINING}


def test_the_diagram_has_one_arrow_for_each_transition() -> None:
    lines = mermaid(TRANSITIONS).splitlines()

    assert lines[0] == "stateDiagram-v2"
    assert "    JOINING --> SYNCING: joined" in lines
    assert len(lines) == 2 + sum(len(row) for row in TRANSITIONS.values())
