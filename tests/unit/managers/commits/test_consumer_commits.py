"""Commits and look-ups of a member of a KIP-848 group: a stale epoch is ordinary traffic there."""

from __future__ import annotations

import pytest
from kafka.errors import CommitFailedError, KafkaTimeoutError, RebalanceInProgressError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.answers import Answered, Failed
from aktor.events.commits import (
    AutoCommitFinished,
    FindStartingOffsets,
    RevocationCommitted,
    StartingOffsetsFound,
)
from aktor.events.coordinator import CoordinatorLost
from aktor.events.membership import ConfirmSession, MemberState
from aktor.events.metadata import RefreshMetadata
from aktor.events.network import Request
from aktor.events.positions import AssignmentChanged
from aktor.managers.commits.manager import STALE_ATTEMPTS, CommitManager
from aktor.settings import Settings
from tests.unit.managers.commits.builders import (
    GROUP_ID_NOT_FOUND,
    LOST,
    STALE_MEMBER_EPOCH,
    T0,
    T1,
    U0,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_ID,
    answer,
    asked_to_commit,
    asked_to_fetch,
    assigned,
    at_every_version,
    before_revocation,
    commit,
    commit_async,
    committed,
    committing,
    fetch,
    fetched,
    found,
    member,
    member_848,
    offsets,
    polled,
    tick,
    topics,
)


def a_manager(*partitions: TopicPartition, epoch: int = 5, **settings: object) -> CommitManager:
    """A commit manager of a member of a KIP-848 group."""
    manager = committing(*partitions, **settings)
    manager.handle(member_848(epoch))
    return manager


def epoch_of(request: Request) -> int:
    epoch: int = request.body.generation_id_or_member_epoch
    return epoch


def versions(request: Request) -> tuple[int, int]:
    """The versions that the request may be written in."""
    return request.body._min_version, request.body._max_version


def is_stale(manager: CommitManager, request: Request, now: float = 0.0) -> list[object]:
    """The coordinator says that the epoch of this commit is over."""
    return answer(manager, request, committed(request, STALE_MEMBER_EPOCH, version=9), now=now)


# -- which version, with ids or names


def test_a_commit_names_topics_by_their_ids_where_all_are_known() -> None:
    manager = a_manager(T0, U0)
    manager.handle(topics(t=1, u=2))

    manager.handle(commit({T0: 10, U0: 20}))
    request = tick(manager, 0.0).request

    assert versions(request) == (9, 10)
    (v10,) = at_every_version(request.body, range(10, 11))
    assert [one.topic_id.int for one in v10.topics] == [1, 2]
    assert epoch_of(request) == 5


@pytest.mark.parametrize("known", [topics(t=1), topics(t=1, u=None)])
def test_a_commit_with_a_topic_without_a_known_id_names_them_all(known: object) -> None:
    manager = a_manager(T0, U0)
    manager.handle(known)

    manager.handle(commit({T0: 10, U0: 20}))

    assert versions(tick(manager, 0.0).request) == (9, 9)


def test_an_answer_by_ids_is_read_with_the_names_of_its_own_request() -> None:
    """KAFKA-20040: the topic may be gone from the metadata meanwhile."""
    manager = a_manager(T0)
    manager.handle(topics(t=1))
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    manager.handle(topics())

    assert answer(manager, request, committed(request, version=10)) == [Answered(ticket=1)]


def test_a_look_up_says_who_asks_and_names_topics_by_their_ids() -> None:
    """Scenario 75."""
    manager = a_manager(T0, U0)
    manager.handle(topics(t=1, u=2))

    manager.handle(fetch(T0, U0))
    request = tick(manager, 0.0).request

    assert versions(request) == (9, 10)
    (v10,) = at_every_version(request.body, range(10, 11))
    (group,) = v10.groups
    assert (group.member_id, group.member_epoch) == ("m", 5)
    assert [one.topic_id.int for one in group.topics] == [1, 2]


def test_a_look_up_answered_by_ids_is_read_with_the_names_of_its_own_request() -> None:
    """Scenario 36, KAFKA-20040."""
    manager = a_manager(T0)
    manager.handle(topics(t=1))
    manager.handle(fetch(T0))
    request = tick(manager, 0.0).request
    manager.handle(topics())

    said = answer(manager, request, fetched({T0: 7}, version=10, ids={"t": 1}))

    assert said == [Answered(ticket=1, value={T0: OffsetAndMetadata(7, "", -1)})]


def test_a_look_up_of_a_topic_without_a_known_id_names_them_all() -> None:
    manager = a_manager(T0, U0)
    manager.handle(topics(t=1))

    manager.handle(fetch(T0, U0))

    assert versions(tick(manager, 0.0).request) == (9, 9)


def test_an_id_that_the_broker_does_not_know_yet_is_sent_again() -> None:
    """The broker lags: it has not heard of the topic."""
    manager = a_manager(T0)
    manager.handle(topics(t=1))
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    said = answer(manager, request, committed(request, UNKNOWN_TOPIC_ID, version=10))
    assert [type(one) for one in said] == [RefreshMetadata]

    again = tick(manager, 1.0).request

    assert [one.topic_id.int for one in again.body.topics] == [1]


@pytest.mark.parametrize("is_refused", [False, True])
def test_an_offset_in_a_topic_that_was_created_anew_since_it_was_asked_for_is_not_stored(
    *, is_refused: bool
) -> None:
    """Not for the new topic, neither by its id nor by its name (OffsetCommit v9)."""
    manager = a_manager(T0)
    manager.handle(topics(t=1))
    manager.handle(commit({T0: 10}))
    if is_refused:
        request = tick(manager, 0.0).request
        answer(manager, request, committed(request, UNKNOWN_TOPIC_ID, version=10))

    manager.handle(topics(t=9))
    turn = tick(manager, 1.0)

    assert not turn.requests
    (failed,) = turn.said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)


def test_positions_in_a_topic_that_was_created_anew_are_not_committed_for_the_new_one() -> None:
    """Simulation, seed 14000587: the new one's partition was somebody else's already."""
    manager = a_manager(T0, U0)
    manager.handle(member_848(5, t=1, u=2))
    manager.handle(topics(t=9, u=2))

    manager.handle(commit({T0: 10, U0: 20}))
    manager.handle(fetch(T0))
    first, second = tick(manager, 0.0).requests

    assert [one.topic_id.int for one in first.body.topics] == [1, 2]
    assert [one.topic_id.int for one in second.body.groups[0].topics] == [1]


def test_a_commit_is_sent_with_the_id_that_the_group_gave_whatever_a_lagging_broker_says() -> None:
    manager = a_manager(T0)
    manager.handle(member_848(5, t=2))
    manager.handle(topics(t=2))
    manager.handle(commit({T0: 10}))

    manager.handle(topics(t=1))

    assert [one.topic_id.int for one in tick(manager, 0.0).request.body.topics] == [2]


def test_a_commit_for_a_topic_that_was_created_anew_ends_when_metadata_knows() -> None:
    """It would be repeated until its deadline: only a poll gives the partitions up."""
    manager = a_manager(T0, U0)
    manager.handle(member_848(5, t=1, u=2))
    manager.handle(topics(t=1, u=2))
    manager.handle(commit({T0: 10, U0: 20}))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, {T0: UNKNOWN_TOPIC_ID}, version=10))
    assert [type(one) for one in said] == [RefreshMetadata]
    manager.handle(topics(t=9, u=2))
    turn = tick(manager, 1.0)

    (failed,) = turn.said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)
    assert "t-0 were not committed" in str(failed.error)
    assert "created anew" in str(failed.error)
    assert not turn.requests


def test_a_user_is_told_what_is_committed_for_the_name_when_the_id_is_not_known_any_more() -> None:
    """Simulation, seed 17000612: after waiting in vain it was told that nothing is."""
    manager = a_manager(T0)
    manager.handle(member_848(5, t=1))
    manager.handle(topics(t=1))
    manager.handle(fetch(T0))
    first = tick(manager, 0.0).request

    said = answer(
        manager, first, fetched({}, codes={T0: UNKNOWN_TOPIC_ID}, version=10, ids={"t": 1})
    )
    assert [type(one) for one in said] == [RefreshMetadata]
    second = tick(manager, 0.0).request

    assert versions(second) == (9, 9)
    assert answer(manager, second, fetched({T0: 30}, version=9)) == [
        Answered(ticket=1, value={T0: OffsetAndMetadata(30, "", -1)})
    ]


def test_a_broker_that_knows_no_id_though_names_were_given_is_asked_after_the_backoff() -> None:
    manager = a_manager(T0)
    manager.handle(topics(t=1))
    manager.handle(fetch(T0))
    unknown = fetched({}, codes={T0: UNKNOWN_TOPIC_ID}, version=9)
    answer(manager, tick(manager, 0.0).request, unknown)

    answer(manager, tick(manager, 0.0).request, unknown)

    assert tick(manager, 0.0).requests == ()
    assert len(tick(manager, 1.0).requests) == 1


def test_a_partition_that_the_group_has_given_starts_by_its_id_or_not_at_all() -> None:
    manager = a_manager(T0)
    manager.handle(member_848(5, t=1))
    manager.handle(FindStartingOffsets(partitions=frozenset({T0})))
    first = tick(manager, 0.0).request

    answer(manager, first, fetched({}, codes={T0: UNKNOWN_TOPIC_ID}, version=10, ids={"t": 1}))

    assert [one.topic_id.int for one in tick(manager, 1.0).request.body.groups[0].topics] == [1]


def test_a_topic_that_is_not_ours_goes_by_the_id_that_metadata_knows() -> None:
    manager = a_manager(U0)
    manager.handle(member_848(5, t=1, u=2))
    manager.handle(topics(t=9, u=2))
    manager.handle(member_848(5, u=2))

    manager.handle(fetch(T0))

    assert [one.topic_id.int for one in tick(manager, 0.0).request.body.groups[0].topics] == [9]


def test_who_is_no_member_commits_and_looks_up_as_with_any_broker() -> None:
    """Partitions assigned by hand, with group_protocol 'auto', of a cluster before KIP-848."""
    manager = committing(T0, generation=None)
    manager.handle(member_848(-1, MemberState.UNJOINED))
    manager.handle(topics(t=1))

    manager.handle(commit({T0: 10}))
    manager.handle(fetch(T0))
    first, second = tick(manager, 0.0).requests

    assert versions(first) == (2, 10)
    assert versions(second) == (1, 10)


def test_a_classic_member_commits_by_id_where_the_broker_can() -> None:
    manager = committing(T0)
    manager.handle(topics(t=1))

    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    assert versions(request) == (2, 10)
    (v10,) = at_every_version(request.body, range(10, 11))
    assert [one.topic_id.int for one in v10.topics] == [1]
    assert (v10.member_id, v10.generation_id_or_member_epoch) == ("m", 5)
    assert answer(manager, request, committed(request, version=10)) == [Answered(ticket=1)]


def test_a_classic_member_looks_up_by_id_and_does_not_say_who_it_is() -> None:
    """OffsetFetch has no field for a generation."""
    manager = committing(T0)
    manager.handle(topics(t=1))

    manager.handle(fetch(T0))
    request = tick(manager, 0.0).request

    assert versions(request) == (1, 10)
    (v10,) = at_every_version(request.body, range(10, 11))
    (group,) = v10.groups
    assert [one.topic_id.int for one in group.topics] == [1]
    assert (group.member_id, group.member_epoch) == (None, -1)
    said = answer(manager, request, fetched({T0: 7}, version=10, ids={"t": 1}))
    assert said == [Answered(ticket=1, value={T0: OffsetAndMetadata(7, "", -1)})]


def test_a_classic_member_names_topics_whose_ids_it_does_not_know() -> None:
    manager = committing(T0)

    manager.handle(commit({T0: 10}))
    manager.handle(fetch(T0))
    first, second = tick(manager, 0.0).requests

    assert (versions(first), versions(second)) == ((2, 9), (1, 9))


def test_a_static_member_commits_under_its_own_name() -> None:
    manager = a_manager(T0, group_instance_id="me")

    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    assert request.body.group_instance_id == "me"
    assert versions(request) == (9, 9)


# -- a commit with a stale epoch


def test_a_commit_is_sent_again_with_the_epoch_of_then() -> None:
    """Java ends it with CommitFailedException although the member is well."""
    manager = a_manager(T0, epoch=5)
    manager.handle(commit({T0: 10}))
    said = is_stale(manager, tick(manager, 0.0).request)
    assert said == [ConfirmSession()]

    manager.handle(member_848(6))
    again = tick(manager, 0.1).request

    assert (epoch_of(again), asked_to_commit(again)) == (6, {T0: 10})
    assert answer(manager, again, committed(again, version=9)) == [Answered(ticket=1)]


def test_a_commit_with_a_stale_epoch_waits_for_the_backoff_and_not_before() -> None:
    manager = a_manager(T0)
    manager.handle(commit({T0: 10}))
    is_stale(manager, tick(manager, 0.0).request)
    manager.handle(member_848(6))

    turn = tick(manager, 0.09)

    assert not turn.requests
    assert turn.wake_at == pytest.approx(0.1)


def test_a_commit_is_retried_until_its_deadline_and_says_then_why() -> None:
    manager = a_manager(T0)
    manager.handle(commit({T0: 10}, deadline=3.0))
    now = 0.0
    turn = tick(manager, now)
    while turn.requests:
        is_stale(manager, turn.request, now=now)
        now = tick(manager, now).wake_at
        turn = tick(manager, now)

    (failed,) = turn.said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, KafkaTimeoutError)
    assert "STALE_MEMBER_EPOCH" in str(failed.error)
    assert now == 3.0


def test_an_asynchronous_commit_is_sent_again_too() -> None:
    manager = a_manager(T0)
    manager.handle(commit_async({T0: 10}))
    assert is_stale(manager, tick(manager, 0.0).request) == [ConfirmSession()]

    manager.handle(member_848(6))
    again = tick(manager, 0.1).request

    assert epoch_of(again) == 6
    assert answer(manager, again, committed(again, version=9)) == [Answered(ticket=1)]


def test_an_asynchronous_commit_does_not_wait_for_ever() -> None:
    manager = a_manager(T0)
    manager.handle(commit_async({T0: 10}))

    said: list[object] = []
    for attempt in range(STALE_ATTEMPTS):
        said = is_stale(manager, tick(manager, 10.0 * attempt).request, now=10.0 * attempt)

    (failed,) = (one for one in said if isinstance(one, Failed))
    assert isinstance(failed.error, CommitFailedError)
    assert not tick(manager, 1_000.0).requests


def test_an_automatic_commit_is_sent_again_with_what_is_consumed_then() -> None:
    manager = a_manager(T0, enable_auto_commit=True, auto_commit_interval=1.0)
    manager.handle(polled(0.0, {T0: 1}))
    tick(manager, 0.0)
    manager.handle(polled(1.0, {T0: 10}))
    assert is_stale(manager, tick(manager, 1.0).request, now=1.0) == [ConfirmSession()]

    manager.handle(member_848(6))
    manager.handle(polled(1.1, {T0: 12}))
    again = tick(manager, 1.2).request

    assert (epoch_of(again), asked_to_commit(again)) == (6, {T0: 12})
    said = answer(manager, again, committed(again, version=9))
    assert said == [AutoCommitFinished(offsets=offsets({T0: 12}), error=None)]


def test_the_last_commit_before_a_revocation_is_sent_again() -> None:
    """Scenario 31."""
    manager = a_manager(T0, T1)
    manager.handle(before_revocation({T1: 10}, rebalance=7))
    assert is_stale(manager, tick(manager, 0.0).request) == [ConfirmSession()]

    manager.handle(member_848(6, MemberState.REBALANCING))
    again = tick(manager, 0.1).request

    assert epoch_of(again) == 6
    said = answer(manager, again, committed(again, version=9))
    assert said == [RevocationCommitted(rebalance=7)]


def test_the_last_commit_before_a_revocation_ends_in_time_and_the_partitions_were_not_lost() -> (
    None
):
    manager = a_manager(T0)
    manager.handle(before_revocation({T0: 10}, rebalance=7, deadline=1.0))
    is_stale(manager, tick(manager, 0.0).request)

    said = tick(manager, 1.0).said

    assert said == [RevocationCommitted(rebalance=7, expelled=False)]


def test_a_restarted_manager_makes_no_last_commit_of_what_was_given_away_meanwhile() -> None:
    """Nobody waits for it: the membership goes on when it hears of the restart."""
    manager = CommitManager(Settings(group_id="g"), incarnation=2)
    manager.handle(before_revocation({T0: 12}))
    manager.handle(member_848(6))
    manager.handle(assigned(T1))

    manager.handle(found(1))
    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert turn.said == [RevocationCommitted(rebalance=7)]


def test_a_restarted_manager_makes_the_last_commit_of_what_the_application_still_has() -> None:
    manager = CommitManager(Settings(group_id="g"), incarnation=2)
    manager.handle(before_revocation({T0: 12}))
    manager.handle(member_848(6))
    manager.handle(assigned(T0, T1))

    manager.handle(found(1))
    request = tick(manager, 0.0).request

    assert asked_to_commit(request) == {T0: 12}
    is_stale(manager, request)
    manager.handle(assigned(T1))
    manager.handle(assigned(T0, T1))
    assert tick(manager, 1.0).requests == ()


def test_an_automatic_commit_that_is_sent_again_does_not_go_back_behind_the_last_commit() -> None:
    """Though the Poll that says how far was consumed has yet to come: the callback runs."""
    manager = a_manager(T0, enable_auto_commit=True, auto_commit_interval=1.0)
    manager.handle(polled(0.0, {T0: 1}))
    tick(manager, 0.0)
    manager.handle(polled(1.0, {T0: 10}))
    is_stale(manager, tick(manager, 1.0).request, now=1.0)
    manager.handle(member_848(6))

    manager.handle(before_revocation({T0: 12}))
    last = tick(manager, 1.01).request
    answer(manager, last, committed(last, version=9))

    assert asked_to_commit(last) == {T0: 12}
    assert tick(manager, 2.0).requests == ()


def test_a_commit_of_partitions_that_were_given_away_meanwhile_ends() -> None:
    manager = a_manager(T0, T1)
    manager.handle(commit({T0: 10}))
    is_stale(manager, tick(manager, 0.0).request)

    manager.handle(assigned(T1))
    manager.handle(member_848(6))
    turn = tick(manager, 0.1)

    assert not turn.requests
    (failed,) = turn.said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)


def test_a_commit_that_waited_longer_than_its_member_was_in_the_group_ends() -> None:
    """As nobody's it could go back behind a new owner's, in a group that is empty by then."""
    manager = a_manager(T0)
    manager.handle(CoordinatorLost(because="it is silent"))
    manager.handle(commit_async({T0: 10}))
    tick(manager, 0.0)

    manager.handle(member(-1))
    manager.handle(assigned(by_group=False))
    manager.handle(found())
    turn = tick(manager, 60.0)

    assert not turn.requests
    (failed,) = turn.said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)


@pytest.mark.parametrize(
    ("change", "who"),
    [
        (AssignmentChanged(partitions={}, by_group=True), "'g' took these partitions away"),
        (AssignmentChanged(partitions={}, by_group=True, let_go=True), "has unsubscribed"),
    ],
)
def test_a_commit_that_was_overtaken_tells_who_gave_the_partitions_up(
    change: AssignmentChanged, who: str
) -> None:
    """Whoever cancels a commit and unsubscribes is not told that the group did something."""
    manager = a_manager(T0)
    manager.handle(LOST)
    manager.handle(commit({T0: 10}))
    tick(manager, 0.0)

    manager.handle(change)
    manager.handle(AssignmentChanged(partitions={}))
    manager.handle(found())

    (failed,) = tick(manager, 0.1).said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CommitFailedError)
    assert who in str(failed.error)


def test_a_commit_of_what_was_given_away_before_is_not_sent_with_the_next_epoch() -> None:
    manager = a_manager(T1)
    manager.handle(commit({T0: 10}))

    said = is_stale(manager, tick(manager, 0.0).request)

    (failed,) = (one for one in said if isinstance(one, Failed))
    assert isinstance(failed.error, CommitFailedError)


def test_a_commit_of_a_member_that_was_thrown_out_meanwhile_ends() -> None:
    manager = a_manager(T0)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    manager.handle(member_848(-1, MemberState.REBALANCING))

    said = is_stale(manager, request)

    (failed,) = (one for one in said if isinstance(one, Failed))
    assert isinstance(failed.error, RebalanceInProgressError)


def test_a_commit_in_a_group_that_is_gone_fails_as_that_of_a_member_that_was_thrown_out() -> None:
    """Nobody was in the group while this member stood still, and it was deleted."""
    manager = a_manager(T0)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, GROUP_ID_NOT_FOUND, version=9))

    (failed,) = (one for one in said if isinstance(one, Failed))
    assert isinstance(failed.error, CommitFailedError)
    assert any(isinstance(one, ConfirmSession) for one in said)


def test_the_last_commit_in_a_group_that_is_gone_says_that_the_partitions_are_lost() -> None:
    manager = a_manager(T0)
    manager.handle(before_revocation({T0: 10}))
    request = tick(manager, 0.0).request

    said = answer(manager, request, committed(request, GROUP_ID_NOT_FOUND, version=9))

    (ended,) = (one for one in said if isinstance(one, RevocationCommitted))
    assert ended.expelled


def test_of_several_topics_only_those_that_were_refused_are_sent_again() -> None:
    manager = a_manager(T0, U0)
    manager.handle(commit({T0: 10, U0: 20}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, {U0: STALE_MEMBER_EPOCH}, version=9))

    assert asked_to_commit(tick(manager, 0.1).request) == {U0: 20}


def test_a_stale_commit_keeps_its_place_in_the_line() -> None:
    manager = a_manager(T0)
    manager.handle(commit({T0: 10}, ticket=1))
    is_stale(manager, tick(manager, 0.0).request)

    manager.handle(commit({T0: 11}, ticket=2))
    manager.handle(member_848(6))

    assert asked_to_commit(tick(manager, 0.1).request) == {T0: 10}


# -- a look-up with a stale epoch

OVER = [STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("code", OVER)
def test_a_look_up_with_an_epoch_that_is_over_is_asked_again_and_never_no_offset(code: int) -> None:
    """Another client took it for "nothing committed", and began at the end."""
    manager = a_manager(T0)
    manager.handle(fetch(T0))
    answer(manager, tick(manager, 0.0).request, fetched({}, group_code=code))

    manager.handle(member_848(6))
    again = tick(manager, 0.1).request

    assert again.body.groups[0].member_epoch == 6
    said = answer(manager, again, fetched({T0: 7}))
    assert said == [Answered(ticket=1, value={T0: OffsetAndMetadata(7, "", -1)})]


@pytest.mark.parametrize("code", OVER)
def test_positions_are_not_told_that_nothing_is_committed(code: int) -> None:
    """Scenario 32."""
    manager = a_manager(T0)
    manager.handle(FindStartingOffsets(partitions=frozenset({T0})))
    for now in (0.0, 1.0, 3.0):
        request = tick(manager, now).request
        said = answer(manager, request, fetched({}, group_code=code), now=now)
        assert said == [ConfirmSession()]

    again = tick(manager, 10.0).request

    said = answer(manager, again, fetched({T0: 7}), now=10.0)
    assert said == [StartingOffsetsFound(offsets={T0: OffsetAndMetadata(7, "", -1)})]


@pytest.mark.parametrize("code", OVER)
def test_a_group_that_refuses_a_look_up_is_asked_at_once_whether_we_are_still_in_it(
    code: int,
) -> None:
    """Else `committed` and new partitions would wait for the next heartbeat's interval."""
    manager = a_manager(T0)
    manager.handle(fetch(T0))

    said = answer(manager, tick(manager, 0.0).request, fetched({}, group_code=code))

    assert said == [ConfirmSession()]


def test_a_look_up_with_a_stale_epoch_ends_at_its_deadline_with_the_reason() -> None:
    manager = a_manager(T0)
    manager.handle(fetch(T0, deadline=1.0))
    answer(manager, tick(manager, 0.0).request, fetched({}, group_code=STALE_MEMBER_EPOCH))

    (failed,) = (one for one in tick(manager, 1.0).said if isinstance(one, Failed))

    assert isinstance(failed.error, KafkaTimeoutError)
    assert "STALE_MEMBER_EPOCH" in str(failed.error)


def test_who_was_thrown_out_asks_again_as_nobody_and_later_as_the_member_it_is_then() -> None:
    manager = a_manager(T0)
    manager.handle(fetch(T0))
    answer(manager, tick(manager, 0.0).request, fetched({}, group_code=STALE_MEMBER_EPOCH))

    manager.handle(member_848(-1, MemberState.REBALANCING))
    request = tick(manager, 0.1).request

    assert asked_to_fetch(request) == {T0}
    assert versions(request) == (1, 9)


def test_the_members_of_a_classic_group_are_not_concerned() -> None:
    manager = committing(T0)
    manager.handle(member(5))
    manager.handle(fetch(T0))

    body = tick(manager, 0.0).request.body

    assert (body.groups[0].member_id, body.groups[0].member_epoch) == (None, -1)
