"""The commit manager: the commit before a revocation."""

from __future__ import annotations

import pytest
from kafka.errors import CommitFailedError, KafkaConnectionError

from aktor.events.answers import Answered, Failed
from aktor.events.commits import RevocationCommitted
from aktor.events.coordinator import CoordinatorLost
from aktor.events.membership import MemberState
from aktor.events.network import Destination, Lane
from aktor.managers.commits.consumed import SHORTEST
from aktor.managers.commits.manager import CommitManager
from aktor.settings import Settings
from aktor.trace import recording
from tests.unit.managers.commits.builders import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    LOAD_IN_PROGRESS,
    METADATA_TOO_LARGE,
    REBALANCING,
    T0,
    T1,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC,
    answer,
    asked_to_commit,
    assigned,
    auto,
    before_revocation,
    commit,
    commit_async,
    committed,
    committing,
    error_of,
    fail,
    fetch,
    found,
    member,
    polled,
    succeed,
    tick,
)


def test_the_commit_before_a_revocation_overlaps_an_automatic_one() -> None:
    """Scenario 30."""
    manager = auto(T0)
    manager.handle(polled(5.0, {T0: 10}))
    tick(manager, 5.0)

    manager.handle(before_revocation({T0: 12}))
    turn = tick(manager, 5.0)

    assert asked_to_commit(turn.request) == {T0: 12}
    assert turn.request.body.generation_id_or_member_epoch == 5
    assert succeed(manager, turn) == [RevocationCommitted(rebalance=7)]


def test_the_commit_before_a_revocation_is_retried() -> None:
    """Scenario 31."""
    manager = committing(T0)
    manager.handle(before_revocation({T0: 12}))
    request = tick(manager, 0.0).request

    assert answer(manager, request, committed(request, LOAD_IN_PROGRESS)) == []

    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)
    assert succeed(manager, tick(manager, 0.2)) == [RevocationCommitted(rebalance=7)]


@pytest.mark.parametrize(
    "code",
    [UNKNOWN_TOPIC, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID, METADATA_TOO_LARGE],
)
@pytest.mark.parametrize("state", [MemberState.STABLE, MemberState.REBALANCING])
def test_a_failed_commit_does_not_hold_up_the_revocation(code: int, state: MemberState) -> None:
    """Scenario 46. A member that revokes partitions is rebalancing, unless it is one of KIP-848."""
    trace, events = recording()
    manager = committing(T0, trace=trace)
    manager.handle(member(5, state, is_revoking=True))
    manager.handle(before_revocation({T0: 12}))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, code))

    expelled = code in (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID)
    assert said == [RevocationCommitted(rebalance=7, expelled=expelled)]
    (failed,) = [one for one in events if one["event"] == "commit.failed"]
    assert failed["kind"] == "revocation"


def test_a_revocation_ends_at_its_deadline() -> None:
    manager = committing(T0, node=None)
    manager.handle(before_revocation({T0: 12}, deadline=3.0))

    assert tick(manager, 0.0).wake_at == 3.0

    assert tick(manager, 3.0).said == [RevocationCommitted(rebalance=7)]


def test_a_revocation_of_a_member_that_was_lost_meanwhile_commits_nothing() -> None:
    manager = committing(T0, node=None)
    manager.handle(before_revocation({T0: 12}))
    manager.handle(member(-1))
    manager.handle(found(1))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert turn.said == [RevocationCommitted(rebalance=7)]


def test_a_revocation_that_waited_longer_than_its_member_was_in_the_group_commits_nothing() -> None:
    """As nobody's it could go back behind a new owner's, in a group that is empty by then."""
    manager = committing(T0)
    manager.handle(CoordinatorLost(because="it is silent"))
    manager.handle(before_revocation({T0: 10}))
    tick(manager, 0.0)

    manager.handle(member(-1))
    manager.handle(assigned(by_group=False))
    manager.handle(found())
    turn = tick(manager, 20.0)

    assert not turn.requests
    assert turn.said == [RevocationCommitted(rebalance=7)]


def test_with_an_interval_of_zero_positions_are_stored_as_soon_as_there_was_a_poll() -> None:
    manager = committing(T0, enable_auto_commit=True, auto_commit_interval=0.0)
    assert tick(manager, 0.0).wake_at == SHORTEST

    assert not tick(manager, 1.0).requests
    manager.handle(polled(1.5, {T0: 10}))

    assert tick(manager, 1.5).requests


def test_a_late_answer_does_not_say_what_is_committed_of_a_partition_that_is_ours_anew() -> None:
    """Its new position is stored although it is the one that was stored then."""
    manager = committing(T0, enable_auto_commit=True, auto_commit_interval=5.0)
    manager.handle(polled(0.0, {T0: 10}))
    manager.handle(commit_async({T0: 10}))
    late = tick(manager, 0.0).request
    manager.handle(assigned())
    manager.handle(assigned(T0))

    answer(manager, late, committed(late))
    manager.handle(polled(1.0, {T0: 10}))
    tick(manager, 1.0)
    manager.handle(polled(6.0))

    assert tick(manager, 6.0).requests


@pytest.mark.parametrize("fate", ["given away", "left"])
def test_a_commit_said_to_a_restarted_actor_before_it_heard_what_is_ours_goes_no_further(
    fate: str,
) -> None:
    """Another may own it by the time there is a coordinator, and have read on."""
    manager = CommitManager(Settings(group_id="g"))
    manager.handle(commit_async({T0: 10}))
    manager.handle(member(5))
    manager.handle(assigned(T0))
    tick(manager, 0.0)

    manager.handle(member(6) if fate == "given away" else member(-1))
    manager.handle(assigned(by_group=fate == "given away"))
    manager.handle(found())
    turn = tick(manager, 20.0)

    assert not turn.requests
    (failed,) = turn.said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)


def test_a_commit_said_to_a_restarted_actor_is_sent_if_the_partition_is_still_ours() -> None:
    manager = CommitManager(Settings(group_id="g"))
    manager.handle(commit_async({T0: 10}))
    manager.handle(member(5))
    manager.handle(assigned(T0))
    manager.handle(found())

    assert tick(manager, 0.0).requests


@pytest.mark.parametrize("fetch_max_wait", [0.5, 25.0])
def test_what_is_asked_while_the_group_rebalances_has_no_join_group_or_fetch_before_it(
    fetch_max_wait: float,
) -> None:
    """The coordinator answers one connection's requests in order; JoinGroup has another one."""
    manager = committing(T0, fetch_max_wait=fetch_max_wait)
    manager.handle(REBALANCING)
    manager.handle(commit({T0: 10}))
    manager.handle(fetch(T1, ticket=2))

    ways = [(one.to, one.lane) for one in tick(manager, 0.0).requests]
    assert ways == [(Destination.COORDINATOR, Lane.ORDINARY)] * 2


def test_commits_in_flight_go_one_way_lest_one_overtakes_the_other() -> None:
    manager = committing(T0)
    manager.handle(REBALANCING)
    manager.handle(commit_async({T0: 10}))
    first = tick(manager, 0.0).request
    manager.handle(member(6, MemberState.REBALANCING, is_revoking=True))
    manager.handle(before_revocation({T0: 12}))
    second = tick(manager, 0.0).request
    answer(manager, first, committed(first))
    answer(manager, second, committed(second))
    manager.handle(commit({T0: 13}, ticket=2))
    third = tick(manager, 0.0).request

    assert {(one.to, one.lane) for one in (first, second, third)} == {
        (Destination.COORDINATOR, Lane.ORDINARY)
    }


def test_nothing_older_is_committed_after_the_revocation_went_past_it() -> None:
    manager = committing(T0, T1, node=None)
    manager.handle(commit_async({T0: 10}, ticket=1))
    manager.handle(commit_async({T0: 11, T1: 5}, ticket=2))
    manager.handle(before_revocation({T0: 12}))
    manager.handle(found(1))

    first = tick(manager, 0.0)
    said = succeed(manager, first)
    second = tick(manager, 0.0)

    assert asked_to_commit(first.request) == {T0: 12}
    assert said == [Answered(ticket=1), RevocationCommitted(rebalance=7)]
    assert asked_to_commit(second.request) == {T1: 5}
    assert succeed(manager, second) == [Answered(ticket=2)]


def test_what_a_failed_revocation_went_past_is_committed_after_all() -> None:
    manager = committing(T0, node=None)
    manager.handle(commit_async({T0: 10}, ticket=1))
    manager.handle(before_revocation({T0: 12}))
    manager.handle(found(1))
    request = tick(manager, 0.0).request

    answer(manager, request, committed(request, METADATA_TOO_LARGE))

    assert succeed(manager, tick(manager, 0.0)) == [Answered(ticket=1)]


def test_a_retried_commit_that_a_revocation_overtook_sends_only_the_rest() -> None:
    manager = committing(T0, T1)
    manager.handle(commit({T0: 10, T1: 5}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS))
    manager.handle(before_revocation({T0: 12}))
    succeed(manager, tick(manager, 0.01))

    turn = tick(manager, 1.0)

    assert asked_to_commit(turn.request) == {T1: 5}
    assert succeed(manager, turn) == [Answered(ticket=1)]


def test_a_commit_that_a_revocation_overtook_wholly_is_done() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS))
    manager.handle(before_revocation({T0: 12}))

    said = succeed(manager, tick(manager, 0.01))

    assert said == [Answered(ticket=1), RevocationCommitted(rebalance=7)]
    assert tick(manager, 1.0).requests == ()


def test_an_overtaken_commit_whose_attempt_fails_later_is_done_and_not_repeated() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    slow = tick(manager, 0.0).request
    manager.handle(before_revocation({T0: 12}))
    succeed(manager, tick(manager, 0.01))

    said = answer(manager, slow, committed(slow, LOAD_IN_PROGRESS), now=1.0)

    assert said == [Answered(ticket=1)]
    assert tick(manager, 2.0).requests == ()


def test_what_a_revocation_without_an_answer_went_past_is_not_committed() -> None:
    manager = committing(T0, node=None)
    manager.handle(commit_async({T0: 10}, ticket=1))
    manager.handle(before_revocation({T0: 12}, deadline=1.0))
    manager.handle(found(1))
    fail(manager, tick(manager, 0.0).request, KafkaConnectionError("reset"), now=0.5)

    failed, ended = tick(manager, 1.0).said

    assert ended == RevocationCommitted(rebalance=7)
    assert isinstance(error_of([failed]), CommitFailedError)


def test_a_commit_that_is_newer_than_a_late_revocation_is_sent_after_it() -> None:
    """Such as one made in `on_partitions_revoked`, when the revocation was not waited for."""
    manager = committing(T0)
    manager.handle(before_revocation({T0: 12}, deadline=1.0))
    slow = tick(manager, 0.0)
    assert tick(manager, 1.0).said == [RevocationCommitted(rebalance=7)]
    manager.handle(commit({T0: 15}))
    held_back = tick(manager, 1.0)

    assert succeed(manager, slow, now=2.0) == []

    assert held_back.requests == ()
    assert asked_to_commit(tick(manager, 2.0).request) == {T0: 15}


def test_two_revocations_are_answered_each() -> None:
    manager = committing(T0, T1)
    manager.handle(before_revocation({T0: 1}, rebalance=1))
    manager.handle(before_revocation({T1: 2}, rebalance=2))

    requests = tick(manager, 0.0).requests

    said = [answer(manager, one, committed(one)) for one in requests]
    assert said == [[RevocationCommitted(rebalance=1)], [RevocationCommitted(rebalance=2)]]


def test_nothing_to_commit_before_a_revocation_is_done_at_once() -> None:
    assert committing(T0).handle(before_revocation({})) == [RevocationCommitted(rebalance=7)]
