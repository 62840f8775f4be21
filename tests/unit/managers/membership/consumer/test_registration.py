"""The table of a registration: whether the group has a member under our member id."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from aktor.managers.membership.consumer.heartbeats import Report
from aktor.managers.membership.consumer.registration import (
    TRANSITIONS,
    Registration,
    RegistrationEvent,
    RegistrationStatus,
)
from aktor.settings import Settings
from aktor.state_table import IllegalTransitionError

S, E = RegistrationStatus, RegistrationEvent
REPORT: Final = Report(member_id="alice", epoch=0, topics=frozenset({"orders"}), regex="")

HAPPENS: Final[Mapping[RegistrationEvent, Callable[[Registration], object]]] = {
    E.SENT: lambda registration: registration.heartbeat(REPORT),
    E.LEFT: lambda registration: registration.left(stays=False),
    E.LEFT_FOR_NOW: lambda registration: registration.left(stays=True),
    E.ENDED: lambda registration: registration.ended(is_member=False),
    E.OUTLIVED: lambda registration: registration.ended(is_member=True),
}
WAY_TO: Final = {S.NONE: (), S.MEMBER: (E.SENT,), S.AWAITED: (E.SENT, E.LEFT_FOR_NOW)}


def registration_in(status: RegistrationStatus) -> Registration:
    registration = Registration(Settings(group_id="g"), has_predecessor=False)
    for event in WAY_TO[status]:
        HAPPENS[event](registration)
    assert registration.status is status
    return registration


@pytest.mark.parametrize(
    ("status", "event"), list(itertools.product(S, E)), ids=lambda one: one.name
)
def test_an_event_moves_as_the_table_says_or_is_refused(
    status: RegistrationStatus, event: RegistrationEvent
) -> None:
    registration = registration_in(status)

    if event in TRANSITIONS[status]:
        HAPPENS[event](registration)
        assert registration.status is TRANSITIONS[status][event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{event.name} while {status.name}"):
            HAPPENS[event](registration)


def test_after_a_restart_the_group_may_have_the_member_of_the_former_incarnation() -> None:
    assert Registration(Settings(group_id="g"), has_predecessor=True).is_member


def test_only_a_heartbeat_makes_a_member() -> None:
    ways = {
        event for row in TRANSITIONS.values() for event, to in row.items() if to is S.MEMBER
    } - {E.OUTLIVED}

    assert ways == {E.SENT}
    assert all(TRANSITIONS[status][E.SENT] is S.MEMBER for status in S)
