"""The commit manager: what a commit looks like, in which order, as which member."""

from __future__ import annotations

import pytest
from kafka.errors import CommitFailedError, IllegalStateError, RebalanceInProgressError
from kafka.structs import OffsetAndMetadata

from aktor.events.answers import Answered
from aktor.events.commits import CommitOffsets, RevocationCommitted, StartingOffsetsFound
from aktor.events.membership import ConfirmSession, MemberState
from aktor.events.network import Destination
from aktor.managers.commits.manager import QUEUE_MAX, CommitManager
from aktor.settings import Settings
from tests.unit.managers.commits.builders import (
    LOAD_IN_PROGRESS,
    T0,
    T1,
    TOPIC_AUTHORIZATION_FAILED,
    U0,
    answer,
    asked_to_commit,
    assigned,
    at_every_version,
    before_revocation,
    commit,
    commit_async,
    committed,
    committing,
    error_of,
    fetch,
    find,
    found,
    member,
    offsets,
    succeed,
    tick,
)

# -- what a commit looks like


def test_a_commit_goes_to_the_coordinator_as_the_member_we_are() -> None:
    manager = committing(T0, U0, generation=5)

    manager.handle(commit({T0: 10, U0: 20}))
    request = tick(manager, 0.0).request

    assert request.to is Destination.COORDINATOR
    assert (request.body.member_id, request.body.generation_id_or_member_epoch) == ("m", 5)
    assert asked_to_commit(request) == {T0: 10, U0: 20}
    assert answer(manager, request, committed(request)) == [Answered(ticket=1)]


def test_partitions_assigned_by_hand_are_committed_without_a_member() -> None:
    manager = committing(T0, generation=None)

    manager.handle(commit({T0: 10}))
    body = tick(manager, 0.0).request.body

    assert (body.member_id, body.generation_id_or_member_epoch) == ("", -1)


def test_a_static_member_commits_under_its_own_name() -> None:
    manager = committing(T0, group_instance_id="me")

    manager.handle(commit({T0: 10}))
    body = tick(manager, 0.0).request.body

    assert {one.group_instance_id for one in at_every_version(body, range(7, 9))} == {"me"}


@pytest.mark.parametrize("metadata", ["note", "", None])
def test_metadata_and_leader_epoch_are_sent_in_every_version(metadata: str | None) -> None:
    """Scenario 22."""
    manager = committing(T0)
    value = {T0: OffsetAndMetadata(10, metadata, 3)}

    manager.handle(CommitOffsets(ticket=1, offsets=value, deadline=9.0, retry=True))
    body = tick(manager, 0.0).request.body

    for version, read in enumerate(at_every_version(body, range(2, 9)), start=2):
        (one,) = read.topics[0].partitions
        assert (one.committed_offset, one.committed_metadata) == (10, metadata)
        assert one.committed_leader_epoch == (3 if version >= 6 else -1)


def test_the_offsets_are_those_of_the_time_of_the_call() -> None:
    """Scenario 29."""
    manager = committing(T0)
    mine = offsets({T0: 10})

    manager.handle(CommitOffsets(ticket=1, offsets=mine, deadline=9.0, retry=True))
    mine.update(offsets({T0: 99, T1: 1}))

    assert asked_to_commit(tick(manager, 0.0).request) == {T0: 10}


def test_nothing_to_commit_is_committed_at_once() -> None:
    manager = committing(T0)

    said = manager.handle(commit({}))

    assert said == [Answered(ticket=1)]
    assert tick(manager, 0.0).requests == ()


def test_without_a_group_there_are_no_commits_and_no_committed_offsets() -> None:
    manager = CommitManager(Settings(group_id=None))

    answers = [manager.handle(commit({T0: 1})), manager.handle(fetch(T0))]

    assert [type(error_of(said)) for said in answers] == [IllegalStateError] * 2
    assert manager.handle(find(T0)) == [StartingOffsetsFound(offsets={T0: None})]
    assert manager.handle(before_revocation({T0: 1})) == [RevocationCommitted(rebalance=7)]


# -- order


def test_a_later_commit_does_not_overtake_an_earlier_one_that_is_retried() -> None:
    """Scenario 27."""
    manager = committing(T0)
    manager.handle(commit({T0: 10}, ticket=1))
    manager.handle(commit_async({T0: 20}, ticket=2))
    request = tick(manager, 0.0).request

    answer(manager, request, committed(request, LOAD_IN_PROGRESS))
    again = tick(manager, 1.0)

    assert asked_to_commit(again.request) == {T0: 10}
    assert succeed(manager, again) == [Answered(ticket=1)]
    assert asked_to_commit(tick(manager, 1.0).request) == {T0: 20}


def test_asynchronous_commits_that_wait_share_a_request_in_which_the_last_wins() -> None:
    """Scenario 24."""
    manager = committing(T0, T1)
    manager.handle(commit_async({T0: 1}, ticket=1))
    first = tick(manager, 0.0)
    for ticket in range(2, 5):
        manager.handle(commit_async({T0: ticket * 10, T1: 5}, ticket=ticket))

    succeed(manager, first)
    second = tick(manager, 0.0)

    assert asked_to_commit(second.request) == {T0: 40, T1: 5}
    assert succeed(manager, second) == [Answered(ticket=n) for n in (2, 3, 4)]


def test_each_of_the_commits_in_a_shared_request_has_its_own_outcome() -> None:
    manager = committing(T0, U0)
    manager.handle(commit_async({T0: 1}, ticket=1))
    manager.handle(commit_async({U0: 2}, ticket=2))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, {U0: TOPIC_AUTHORIZATION_FAILED}))

    assert said[0] == Answered(ticket=1)
    assert error_of(said[1:]).args[0] == {"u"}


def test_a_commit_that_is_waited_for_does_not_share() -> None:
    manager = committing(T0)
    manager.handle(commit_async({T0: 1}, ticket=1))
    manager.handle(commit({T0: 2}, ticket=2))
    manager.handle(commit_async({T0: 3}, ticket=3))

    sent = []
    for _ in range(3):
        turn = tick(manager, 0.0)
        sent.append(asked_to_commit(turn.request)[T0])
        succeed(manager, turn)

    assert sent == [1, 2, 3]


def test_the_line_has_a_bound() -> None:
    manager = committing(T0, node=None)
    for ticket in range(QUEUE_MAX):
        assert manager.handle(commit_async({T0: ticket}, ticket=ticket)) == []

    error = error_of(manager.handle(commit_async({T0: 1}, ticket=-1)))

    assert error.retriable  # type: ignore[attr-defined]
    assert "'g'" in str(error)


# -- membership


def test_a_lost_member_commits_nothing() -> None:
    manager = committing(T0, generation=5)
    manager.handle(member(-1))
    manager.handle(commit({T0: 10}))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert isinstance(error_of(turn.said), CommitFailedError)
    assert "'g'" in str(error_of(turn.said))


def test_before_the_member_has_joined_a_commit_says_that_polling_helps() -> None:
    manager = committing(generation=None)
    manager.handle(assigned(by_group=True))
    manager.handle(member(-1, MemberState.REBALANCING))
    manager.handle(commit({T0: 10}))

    assert isinstance(error_of(tick(manager, 0.0).said), RebalanceInProgressError)


@pytest.mark.parametrize("code", [22, 25, 27])
def test_a_group_that_refuses_a_commit_is_asked_at_once_whether_we_are_still_in_it(
    code: int,
) -> None:
    manager = committing(T0, generation=5)
    manager.handle(commit_async({T0: 10}))

    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, {T0: code}))

    assert [one for one in said if isinstance(one, ConfirmSession)]


def test_a_commit_in_the_callback_of_a_rebalance_goes_through() -> None:
    """Scenario 5."""
    manager = committing(T0, generation=5)
    manager.handle(member(5, MemberState.REBALANCING))

    manager.handle(commit({T0: 10}))

    assert succeed(manager, tick(manager, 0.0)) == [Answered(ticket=1)]


def test_a_commit_that_waited_while_its_partition_was_taken_away_is_not_sent() -> None:
    manager = committing(T0, T1, generation=5, node=None)
    manager.handle(commit_async({T0: 10}))
    manager.handle(assigned(T1))
    manager.handle(member(6))
    manager.handle(found(1))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert isinstance(error_of(turn.said), CommitFailedError)


def test_the_last_commit_of_what_was_lost_meanwhile_is_not_made_in_the_next_generation() -> None:
    """Found by a simulation (seed 1000765): the partition is another member's by then."""
    manager = committing(T0, generation=5, node=None)
    manager.handle(before_revocation({T0: 10}))
    manager.handle(assigned())
    manager.handle(member(6))
    manager.handle(found(1))

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert [type(one) for one in turn.said] == [RevocationCommitted]


def test_a_commit_does_not_survive_a_partition_that_was_away_and_came_back() -> None:
    manager = committing(T0, generation=5, node=None)
    manager.handle(commit_async({T0: 10}))
    manager.handle(assigned())
    manager.handle(assigned(T0))
    manager.handle(found(1))

    assert isinstance(error_of(tick(manager, 0.0).said), CommitFailedError)


def test_after_unsubscribing_partitions_can_be_assigned_by_hand() -> None:
    manager = committing(T0, generation=5)
    manager.handle(member(-1))
    manager.handle(assigned(U0, by_group=False))

    manager.handle(commit({U0: 10}))

    assert tick(manager, 0.0).request.body.generation_id_or_member_epoch == -1
