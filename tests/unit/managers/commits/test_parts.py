"""The parts of the commit manager that need no queue; the rest is tested with the manager."""

from __future__ import annotations

import math

import pytest
from kafka.errors import (
    CoordinatorLoadInProgressError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
)

from aktor.actors.runtime.exchange import Exchange
from aktor.events.membership import MemberState
from aktor.events.metadata import Broker, Cluster
from aktor.managers.commits.consumed import Consumed
from aktor.managers.commits.context import CommitMember, CommitTopics
from aktor.managers.commits.errors import worst
from aktor.managers.commits.look_up import Asker, LookUp, Outcome
from aktor.settings import Settings
from aktor.values import replace
from tests.unit.managers.commits.builders import (
    T0,
    T1,
    U0,
    member,
    member_848,
    offsets,
    topics,
)

BROKER = Broker(node_id=0, host="b0", port=9092)


def a_look_up() -> LookUp:
    """Of T0 and T1; the position manager waits for T0."""
    partitions = frozenset({T0, T1})
    exchange = Exchange(Settings(retry_backoff=1.0, retry_backoff_max=1.0))
    look_up = LookUp(partitions=partitions, wanted=partitions, exchange=exchange)
    look_up.find_for_positions({T0: 1})
    return look_up


def topics_of_ids(**ids: int) -> CommitTopics:
    """The group has assigned these, and the metadata tells the same ids."""
    known = CommitTopics()
    known.follow(topics(**ids).cluster)
    known.assign(member_848(1, **ids).topic_ids)
    return known


# -- the member


def test_only_a_member_commits_what_the_group_has_assigned() -> None:
    who = CommitMember()
    by_hand = who.may_commit
    who.assigned(by_group=True)
    before = who.may_commit
    who.changed(member(5))

    assert (by_hand, before, who.may_commit) == (True, False, True)


@pytest.mark.parametrize(
    ("generation", "state", "is_revoking", "moves_on"),
    [
        (5, MemberState.STABLE, False, False),
        (6, MemberState.STABLE, False, True),
        (6, MemberState.REBALANCING, True, True),
        (5, MemberState.REBALANCING, False, True),
        (5, MemberState.REBALANCING, True, False),
        (-1, MemberState.UNJOINED, False, False),
        (-1, MemberState.REBALANCING, False, False),
    ],
)
def test_a_member_moves_on_unless_it_waits_for_the_commit_of_a_revocation(
    generation: int, state: MemberState, is_revoking: bool, moves_on: bool
) -> None:
    who = CommitMember()
    who.changed(replace(member(generation, state), is_revoking=is_revoking))

    assert who.moves_on_from(5) is moves_on


# -- the topics


def test_a_request_gives_the_id_of_the_topic_that_was_assigned() -> None:
    known = topics_of_ids(t=1)
    known.follow(topics(t=2, u=3).cluster)

    assert known.ids["t"].int == 1
    assert known.ids["u"].int == 3


def test_a_topic_was_created_anew_if_the_metadata_tells_another_id_than_the_group() -> None:
    known = topics_of_ids(t=1, u=3)
    known.follow(topics(t=2, u=3).cluster)

    assert known.created_anew([T0, T1, U0]) == {T0, T1}


def test_a_topic_that_the_metadata_does_not_know_was_not_created_anew() -> None:
    known = topics_of_ids(t=1)
    known.follow(topics().cluster)

    assert known.created_anew([T0]) == set()


def test_topics_are_deleted_when_the_brokers_know_none_of_them() -> None:
    known = CommitTopics()
    known.follow(Cluster(unknown=frozenset({"t"})))

    assert known.are_deleted([T0, T1])
    assert not known.are_deleted([T0, U0])


# -- the positions


def test_positions_are_up_to_date_from_a_poll_to_the_next_commit_that_is_asked_for() -> None:
    consumed = Consumed()
    at_first = consumed.are_up_to_date
    consumed.moved({})
    polled = consumed.are_up_to_date
    consumed.commit_asked()
    asked = consumed.are_up_to_date
    consumed.moved(offsets({T0: 1}))

    assert (at_first, polled, asked) == (False, True, False)
    assert consumed.are_up_to_date


# -- a look-up


def test_a_look_up_waits_for_a_commit_of_its_partitions_and_no_longer_than_at_first_said() -> None:
    look_up = a_look_up()
    look_up.hold({T0}, until=10.0)
    look_up.hold({T0}, until=12.0)
    held = look_up.due
    look_up.hold({T1}, until=14.0)

    assert held == 10.0
    assert look_up.due == -math.inf, "the position manager does not wait for T1"


def test_a_look_up_is_as_old_as_its_first_attempt() -> None:
    look_up = a_look_up()
    look_up.sent(1.0, commits_stored=3)
    look_up.answered(Outcome(again={T0: ConnectionError()}))
    retry_at = look_up.failed(ConnectionError(), 1.0, 0.5)
    look_up.sent(retry_at, commits_stored=4)

    assert look_up.as_of == 3
    assert look_up.sent_at == 2.0
    assert look_up.attempts == 2
    assert look_up.wanted == {T0}


def test_a_look_up_for_which_no_call_waits_asks_only_for_the_position_manager() -> None:
    look_up = a_look_up()
    asker = Asker(ticket=1, deadline=60.0)
    look_up.asked_by(asker)
    assert look_up.dismiss_all() == [asker]
    look_up.ask_only_for_positions()

    assert look_up.partitions == look_up.wanted == {T0}
    assert look_up.needed


def test_a_look_up_for_which_nobody_waits_is_not_needed() -> None:
    look_up = a_look_up()

    look_up.forget_positions({T0})

    assert look_up.wanted
    assert not look_up.needed


# -- errors


@pytest.mark.parametrize(
    "errors",
    [
        (OffsetMetadataTooLargeError, TopicAuthorizationFailedError),
        (TopicAuthorizationFailedError, NotCoordinatorError),
        (NotCoordinatorError, CoordinatorLoadInProgressError),
    ],
)
def test_the_worst_error_of_a_commit_decides(errors: tuple[type[Exception], ...]) -> None:
    """A fatal one, then a forbidden topic, then one about which more is done than a retry."""
    assert worst(errors) is errors[0]
    assert worst(reversed(errors)) is errors[0]
