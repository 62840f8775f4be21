"""An offset of a topic that was deleted is never stored for, nor read from, a later one of its
name.

Found by a real Kafka under load: an automatic commit was refused by the old topic's id
(UNKNOWN_TOPIC_ID), and sent again by name when the metadata did not describe the topic any more.
The brokers had made it anew by then, and stored the offset for the new topic: its first records
were read by nobody.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, UnknownTopicOrPartitionError

from aktor.events.answers import Failed
from aktor.events.commits import (
    AutoCommitFinished,
    RevocationCommitted,
    StartingOffsetsFailed,
    StartingOffsetsFound,
)
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.polling import Poll
from aktor.events.positions import AssignmentChanged
from aktor.managers.commits.manager import CommitManager
from aktor.values import replace
from tests.unit.managers.commits.builders import (
    T0,
    U0,
    UNKNOWN_TOPIC_ID,
    answer,
    asked_to_commit,
    asked_to_fetch,
    assigned,
    auto,
    before_revocation,
    commit,
    commit_async,
    committed,
    committing,
    fetch,
    fetched,
    find,
    member_848,
    offsets,
    polled,
    succeed,
    tick,
    topics,
    uuids,
    without,
)

#: Each kind of commit of T0 at 10.
KINDS = pytest.mark.parametrize(
    "asked",
    [
        commit({T0: 10}),
        commit_async({T0: 10}),
        before_revocation({T0: 10}),
        polled(5.0, {T0: 10}),
    ],
    ids=["commit", "commit_async", "before a revocation", "automatic"],
)


def ids_of(request: Any) -> list[int]:
    """By which ids an OffsetCommit names its topics; fails if it may be written with names only."""
    assert request.body._max_version == 10
    return [topic.topic_id.int for topic in request.body.topics]


def told_an_old_version(manager: CommitManager) -> None:
    """The coordinator answers in a version without ids, though it was asked with them."""
    manager.handle(topics(t=1, u=2))
    manager.handle(fetch(U0, ticket=9))
    answer(manager, tick(manager, 0.0).request, fetched({U0: 1}, version=8))


def errors_in(said: list[object]) -> list[type[BaseException] | None]:
    """How the commits ended."""
    return [
        one.error and type(one.error)
        for one in said
        if isinstance(one, AutoCommitFinished | Failed)
    ]


@KINDS
def test_what_was_read_of_a_topic_that_is_deleted_is_committed_by_its_id(asked: Any) -> None:
    manager = auto(T0)
    manager.handle(topics(t=1))
    manager.handle(without("t"))

    manager.handle(asked)

    assert ids_of(tick(manager, 5.0).request) == [1]


@KINDS
def test_a_commit_that_is_refused_by_the_id_is_not_sent_by_name(asked: Any) -> None:
    manager = auto(T0, auto_commit_interval=0.1)
    manager.handle(topics(t=1))
    manager.handle(asked)
    request = tick(manager, 5.0).request
    answer(manager, request, committed(request, UNKNOWN_TOPIC_ID, version=10), now=5.0)
    manager.handle(without("t"))

    assert all(ids_of(again) == [1] for again in tick(manager, 8.0).requests)
    manager.handle(topics(t=2))
    assert tick(manager, 10.0).requests == ()


def test_that_the_id_is_not_known_any_more_is_told_as_of_a_name() -> None:
    """A program that was written for commits by name catches that."""
    manager = committing(T0, U0)
    manager.handle(topics(t=1, u=2))
    manager.handle(without("t", u=2))
    manager.handle(commit({T0: 10, U0: 20}))
    request = tick(manager, 0.0).request

    refused = committed(request, {T0: UNKNOWN_TOPIC_ID}, version=10)
    (error,) = [one.error for one in answer(manager, request, refused) if isinstance(one, Failed)]

    assert isinstance(error, UnknownTopicOrPartitionError)
    assert "UNKNOWN_TOPIC_ID" in str(error)


@KINDS
@pytest.mark.parametrize("protocol", ["classic", "by hand"])
def test_the_offsets_are_those_of_the_topics_that_the_application_knows(
    asked: Any, protocol: str
) -> None:
    """It has yet to hear that a topic is another one, or was in the middle of its records."""
    manager = auto(T0, generation=5 if protocol == "classic" else None)
    manager.handle(topics(t=1))
    manager.handle(topics(t=2))

    manager.handle(replace(asked, topic_ids=uuids(t=1)))

    assert tick(manager, 5.0).requests == ()


@KINDS
def test_what_was_read_since_is_committed_for_the_new_topic(asked: Any) -> None:
    manager = auto(T0)
    manager.handle(topics(t=1))
    manager.handle(without("t"))
    manager.handle(topics(t=2))

    manager.handle(replace(asked, topic_ids=uuids(t=2)))

    assert ids_of(tick(manager, 5.0).request) == [2]


def test_what_a_group_assigns_by_id_is_committed_by_that_id_whatever_the_application_knows() -> (
    None
):
    manager = auto(T0)
    manager.handle(member_848(5, t=1))
    manager.handle(topics(t=2))

    manager.handle(Poll(now=5.0, positions=offsets({T0: 10}), freed_bytes=0, topic_ids=uuids(t=2)))

    assert ids_of(tick(manager, 5.0).request) == [1]


# -- coordinators before Kafka 4.1, which know names only


@KINDS
def test_where_only_names_are_taken_nothing_is_committed_of_a_topic_that_is_deleted(
    asked: Any,
) -> None:
    manager = auto(T0)
    told_an_old_version(manager)
    manager.handle(without("t", u=2))

    manager.handle(asked)
    turn = tick(manager, 5.0)

    assert turn.requests == ()
    if isinstance(turn.said[0], RevocationCommitted):
        assert turn.said == [RevocationCommitted(rebalance=7)]
    else:
        assert errors_in(turn.said) == [UnknownTopicOrPartitionError]


def test_the_others_are_committed_by_name() -> None:
    manager = committing(T0, U0)
    told_an_old_version(manager)
    manager.handle(without("t", u=2))

    manager.handle(commit({T0: 10, U0: 20}))
    turn = tick(manager, 5.0)

    assert asked_to_commit(turn.request) == {U0: 20}
    assert errors_in(succeed(manager, turn)) == [UnknownTopicOrPartitionError]


def test_a_topic_that_nobody_has_described_is_committed_by_name_as_ever() -> None:
    """A program that sets the offsets of another group's topics."""
    manager = committing(generation=None)
    told_an_old_version(manager)

    manager.handle(commit({T0._replace(topic="others"): 10}))

    assert len(tick(manager, 5.0).requests) == 1


# -- the starting offset


def test_a_starting_offset_is_looked_up_when_the_topic_is_described_and_by_its_id() -> None:
    """By name it may be the old topic's: the coordinator forgets that only in time."""
    manager = committing(T0)
    manager.handle(topics(u=2))
    manager.handle(find(T0))
    assert tick(manager, 0.0).requests == ()

    manager.handle(topics(t=1, u=2))
    request = tick(manager, 0.0).request

    assert [topic.topic_id.int for topic in request.body.groups[0].topics] == [1]


def test_of_a_broker_that_tells_no_ids_it_is_looked_up_by_name() -> None:
    manager = committing(T0)
    manager.handle(topics())
    manager.handle(find(T0))
    manager.handle(topics(t=None))

    assert asked_to_fetch(tick(manager, 0.0).request) == {T0}


def test_other_topics_are_read_while_one_is_not_described() -> None:
    manager = committing(T0, U0)
    manager.handle(topics(u=2))

    manager.handle(find(T0, U0))
    request = tick(manager, 0.0).request

    assert asked_to_fetch(request) == {U0}
    said = answer(manager, request, fetched({U0: 7}, version=10, ids={"u": 2}))
    assert said == [StartingOffsetsFound(offsets=offsets({U0: 7}))]


def test_topics_that_are_described_together_are_looked_up_by_one_request() -> None:
    many = [T0._replace(topic=f"t{number}") for number in range(100)]
    manager = committing(*many)
    manager.handle(topics(u=2))
    manager.handle(find(*many))
    assert tick(manager, 0.0).requests == ()

    manager.handle(topics(**{one.topic: number for number, one in enumerate(many, 1)}))
    request = tick(manager, 0.0).request

    assert len(request.body.groups[0].topics) == 100


def test_a_look_up_that_waits_for_its_topic_is_refused_with_the_group() -> None:
    manager = committing(T0)
    manager.handle(topics(u=2))
    manager.handle(find(T0))

    said = manager.handle(CoordinatorRefused(error=GroupAuthorizationFailedError("group 'g'")))

    assert [type(one) for one in said] == [StartingOffsetsFailed]


def test_a_look_up_that_waits_for_its_topic_ends_with_the_assignment() -> None:
    manager = committing(T0)
    manager.handle(topics(u=2))
    manager.handle(find(T0))
    manager.handle(AssignmentChanged(partitions={}, by_group=True))
    tick(manager, 0.0)
    manager.handle(assigned(U0))
    manager.handle(topics(t=1, u=2))

    assert tick(manager, 0.0).requests == ()
