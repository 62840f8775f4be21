"""The commit manager: automatic commits."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kafka.errors import CommitFailedError, CoordinatorLoadInProgressError

from aktor.events.answers import Failed
from aktor.events.commits import AutoCommitFinished
from aktor.events.coordinator import CoordinatorLost
from aktor.events.membership import MemberState
from tests.unit.managers.commits.builders import (
    LOAD_IN_PROGRESS,
    REBALANCE_IN_PROGRESS,
    T0,
    T1,
    U0,
    answer,
    asked_to_commit,
    assigned,
    auto,
    commit,
    commit_async,
    committed,
    committing,
    fetched,
    find,
    found,
    member,
    offsets,
    polled,
    succeed,
    tick,
    topics,
)


def test_consumed_positions_are_committed_when_the_interval_is_over() -> None:
    """By one long poll, which tells nothing while it waits, as by many."""
    manager = auto(T0)

    manager.handle(polled(1.0, {T0: 10}))
    early = tick(manager, 1.0)
    turn = tick(manager, 5.0)

    assert (early.requests, early.wake_at) == ((), 5.0)
    assert asked_to_commit(turn.request) == {T0: 10}
    assert succeed(manager, turn) == [AutoCommitFinished(offsets=offsets({T0: 10}), error=None)]


def test_no_more_is_committed_than_a_poll_has_told() -> None:
    """KAFKA-18641: only a poll tells that the application is done with what it was given."""
    manager = auto(T0)
    manager.handle(polled(1.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    turn = tick(manager, 10.0)

    assert (turn.requests, turn.wake_at) == ((), 15.0)


def test_an_automatic_commit_does_not_go_back_behind_what_was_asked_for_since_the_last_poll() -> (
    None
):
    """Found by a simulation (seed 53): the application has come further than its last poll told."""
    manager = auto(T0)
    manager.handle(polled(1.0, {T0: 99}))
    manager.handle(commit({T0: 100}))
    succeed(manager, tick(manager, 2.0))

    late = tick(manager, 6.0)
    manager.handle(polled(6.5, {T0: 101}))

    assert (late.requests, late.wake_at) == ((), math.inf)
    assert asked_to_commit(tick(manager, 6.5).request) == {T0: 101}


def test_who_has_no_partitions_waits_for_no_automatic_commit() -> None:
    manager = auto()

    assert tick(manager, 100.0).wake_at == math.inf


@pytest.mark.parametrize(
    "settings", [{"enable_auto_commit": False}, {"auto_commit_interval": 50.0}]
)
def test_no_automatic_commit_when_it_is_off_or_not_due(settings: dict[str, Any]) -> None:
    manager = auto(T0, **settings)

    manager.handle(polled(20.0, {T0: 10}))

    assert tick(manager, 20.0).requests == ()


def test_what_is_committed_already_is_not_committed_again() -> None:
    """Scenario 33: an empty automatic commit leaves nothing in flight."""
    manager = auto(T0, T1)
    manager.handle(polled(5.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    manager.handle(polled(10.0))
    idle = tick(manager, 10.0)
    manager.handle(polled(15.0, {T1: 3}))

    assert idle.requests == ()
    assert asked_to_commit(tick(manager, 15.0).request) == {T1: 3}


def test_what_was_read_of_a_topic_is_not_committed_once_it_is_created_anew() -> None:
    manager = auto(T0)
    manager.handle(topics(**{T0.topic: 1}))
    manager.handle(polled(5.0, {T0: 10}))
    manager.handle(topics())
    manager.handle(topics(**{T0.topic: 2}))

    assert tick(manager, 5.0).requests == ()

    manager.handle(polled(10.0, {T0: 3}))
    assert asked_to_commit(tick(manager, 10.0).request) == {T0: 3}


def test_a_commit_in_line_is_not_stored_for_a_topic_that_was_created_anew_meanwhile() -> None:
    """By name it would be: the new topic would be read from an offset of the old one."""
    manager = committing(T0, U0)
    manager.handle(topics(t=1, u=2))
    manager.handle(CoordinatorLost(because="it moved"))
    manager.handle(commit({T0: 10, U0: 20}))
    manager.handle(commit_async({T0: 11}))
    manager.handle(topics(u=2))
    manager.handle(topics(t=9, u=2))
    manager.handle(found(1))

    turn = tick(manager, 0.0)
    assert asked_to_commit(turn.request) == {U0: 20}
    (failed,) = succeed(manager, turn)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)
    assert "t-0 were not committed" in str(failed.error)

    later = tick(manager, 0.1)
    assert later.requests == ()
    assert [type(one.error) for one in later.said] == [CommitFailedError]


def test_what_was_asked_for_behind_an_automatic_commit_does_not_go_back_behind_it() -> None:
    """Found by a simulation (seed 326): it stores the positions of when it is sent."""
    manager = auto(T0, T1, U0)
    manager.handle(commit({U0: 1}))
    in_flight = tick(manager, 4.0)
    manager.handle(polled(5.0, {T0: 10, T1: 1}))
    assert tick(manager, 5.0).requests == ()
    manager.handle(commit_async({T0: 10}))
    manager.handle(polled(5.1, {T0: 12, T1: 2}))
    succeed(manager, in_flight)

    automatic = tick(manager, 5.2)
    assert asked_to_commit(automatic.request) == {T1: 2}
    succeed(manager, automatic)
    asked = tick(manager, 5.2)
    assert asked_to_commit(asked.request) == {T0: 10}
    succeed(manager, asked)

    manager.handle(polled(10.0))
    assert asked_to_commit(tick(manager, 10.0).request) == {T0: 12}


def test_what_the_application_committed_itself_is_not_committed_again() -> None:
    manager = auto(T0)
    manager.handle(commit({T0: 10}))
    succeed(manager, tick(manager, 1.0))

    manager.handle(polled(5.0, {T0: 10}))

    assert tick(manager, 5.0).requests == ()


def test_where_reading_starts_is_committed_already() -> None:
    manager = auto(T0)
    manager.handle(find(T0))
    answer(manager, tick(manager, 0.0).request, fetched({T0: 10}))

    manager.handle(polled(5.0, {T0: 10}))

    assert tick(manager, 5.0).requests == ()


def test_a_seek_backwards_is_committed() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    manager.handle(polled(10.0, {T0: 2}))

    assert asked_to_commit(tick(manager, 10.0).request) == {T0: 2}


def test_an_hour_of_silence_is_no_reason_to_let_committed_offsets_expire() -> None:
    manager = auto(T0, T1)
    manager.handle(find(T1))
    answer(manager, tick(manager, 0.0).request, fetched({T1: 7}))
    manager.handle(polled(5.0, {T0: 10}))
    succeed(manager, tick(manager, 5.0))

    manager.handle(polled(3600.0))

    assert asked_to_commit(tick(manager, 3600.0).request) == {T0: 10, T1: 7}


def test_only_one_automatic_commit_is_in_flight() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    tick(manager, 5.0)

    manager.handle(polled(11.0, {T0: 20}))

    assert tick(manager, 11.0).requests == ()


def test_a_retriable_failure_is_told_and_another_commit_is_made_after_the_backoff() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    request = tick(manager, 5.0).request

    (told,) = answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=5.0)
    waits = tick(manager, 5.0)
    manager.handle(polled(5.5, {T0: 12}))

    assert isinstance(told, AutoCommitFinished)
    assert isinstance(told.error, CoordinatorLoadInProgressError)
    assert (waits.requests, waits.wake_at) == ((), pytest.approx(5.1))
    assert asked_to_commit(tick(manager, 5.5).request) == {T0: 12}


def test_after_a_final_failure_the_next_attempt_waits_for_the_interval() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    request = tick(manager, 5.0).request
    answer(manager, request, committed(request, REBALANCE_IN_PROGRESS), now=5.0)

    manager.handle(polled(9.9))
    early = tick(manager, 9.9)
    manager.handle(polled(10.0))

    assert early.requests == ()
    assert len(tick(manager, 10.0).requests) == 1


def test_an_automatic_commit_is_made_as_soon_as_there_is_a_coordinator() -> None:
    manager = auto(T0, node=None)
    manager.handle(polled(5.0, {T0: 10}))
    waits = tick(manager, 5.0)
    manager.handle(polled(6.0, {T0: 12}))
    manager.handle(found(1))

    assert (waits.requests, waits.wake_at) == ((), math.inf)
    assert asked_to_commit(tick(manager, 6.0).request) == {T0: 12}


def test_positions_of_partitions_that_are_gone_are_never_committed() -> None:
    """Scenario 38."""
    manager = auto(T0, T1)
    manager.handle(polled(1.0, {T0: 10, T1: 11}))
    manager.handle(assigned(T1))
    manager.handle(polled(2.0, {T0: 99}))
    manager.handle(assigned(T0, T1))

    manager.handle(polled(5.0))

    assert asked_to_commit(tick(manager, 5.0).request) == {T1: 11}


def test_an_automatic_commit_that_waits_behind_another_does_not_commit_what_was_lost() -> None:
    manager = auto(T0, T1)
    manager.handle(commit({T1: 1}))
    first = tick(manager, 4.0)
    manager.handle(polled(5.0, {T0: 10, T1: 11}))
    manager.handle(assigned(T1))

    succeed(manager, first)

    assert asked_to_commit(tick(manager, 5.0).request) == {T1: 11}


def test_a_lost_member_does_not_commit_automatically_until_it_is_one_again() -> None:
    manager = auto(T0, generation=5)
    manager.handle(member(-1, MemberState.REBALANCING))
    manager.handle(polled(5.0, {T0: 10}))
    lost = tick(manager, 5.0)
    manager.handle(member(6))
    manager.handle(polled(6.0))

    turn = tick(manager, 6.0)

    assert lost.requests == ()
    assert turn.request.body.generation_id_or_member_epoch == 6
    assert asked_to_commit(turn.request) == {T0: 10}


def test_partitions_assigned_by_hand_are_committed_automatically() -> None:
    manager = auto(T0, generation=None)

    manager.handle(polled(5.0, {T0: 10}))

    assert tick(manager, 5.0).request.body.generation_id_or_member_epoch == -1


def test_the_timer_starts_anew_when_the_first_partitions_come_and_only_then() -> None:
    manager = auto()
    manager.handle(polled(60.0))
    manager.handle(assigned(T0))
    manager.handle(polled(61.0, {T0: 1}))
    early = tick(manager, 61.0)
    manager.handle(assigned(T0, T1))

    manager.handle(polled(66.0, {T1: 2}))

    assert early.requests == ()
    assert asked_to_commit(tick(manager, 66.0).request) == {T0: 1, T1: 2}


def test_a_failure_after_the_assignment_was_replaced_does_no_harm() -> None:
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    request = tick(manager, 5.0).request
    manager.handle(assigned())
    manager.handle(assigned(U0))

    (told,) = answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=6.0)

    assert isinstance(told, AutoCommitFinished)
