"""The table of a reconciliation: what is in it happens, and nothing else."""

from __future__ import annotations

import itertools

import pytest
from kafka.structs import TopicPartition

from aktor.managers.membership.consumer.reconciliation import (
    STAGES,
    Event,
    Reconciliation,
    ReconciliationStage,
)
from aktor.state_table import IllegalTransitionError, follow

WANTED = frozenset({TopicPartition("orders", 0)})


def on_the_way(*events: Event) -> Reconciliation:
    reconciliation = Reconciliation()
    reconciliation.begin(1, {"id": frozenset({0})}, WANTED)
    for event in events:
        reconciliation.on(event)
    return reconciliation


@pytest.mark.parametrize(
    ("stage", "event"),
    list(itertools.product(ReconciliationStage, Event)),
    ids=lambda one: one.name,
)
def test_an_event_moves_as_the_table_says_or_is_refused(
    stage: ReconciliationStage, event: Event
) -> None:
    if event in STAGES[stage]:
        assert follow(STAGES, stage, event) is STAGES[stage][event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{event.name} while {stage.name}"):
            follow(STAGES, stage, event)


def test_every_stage_is_reached_left_and_leads_back_to_the_first() -> None:
    reached = {ReconciliationStage.RESOLVING}
    while more := {after for one in reached for after in STAGES[one].values()} - reached:
        reached |= more

    assert reached == set(ReconciliationStage)
    assert {event for row in STAGES.values() for event in row} == set(Event)
    assert all(STAGES.values())


def test_what_is_missing_is_assigned_only_after_what_is_too_much_was_revoked() -> None:
    reconciliation = on_the_way()
    assert reconciliation.stage is ReconciliationStage.REVOKING

    with pytest.raises(IllegalTransitionError):
        reconciliation.on(Event.ASSIGNED)
    reconciliation.on(Event.REVOKED)
    reconciliation.on(Event.ASSIGNED)

    assert reconciliation.stage is ReconciliationStage.ASSIGNING
    assert reconciliation.wanted == WANTED


def test_a_refused_assignment_waits_for_the_next_poll() -> None:
    reconciliation = on_the_way(Event.REVOKED, Event.ASSIGNED, Event.RAISED)
    assert reconciliation.stage is ReconciliationStage.REFUSED

    reconciliation.on(Event.POLLED)

    assert reconciliation.stage is ReconciliationStage.RESOLVING


def test_topics_that_were_created_anew_are_known_while_they_are_given_up() -> None:
    reconciliation = Reconciliation()

    reconciliation.lose(frozenset({"id"}))
    assert (reconciliation.stage, reconciliation.losing) == (ReconciliationStage.LOSING, {"id"})
    reconciliation.on(Event.REVOKED)

    assert (reconciliation.stage, reconciliation.losing) == (
        ReconciliationStage.RESOLVING,
        frozenset(),
    )
