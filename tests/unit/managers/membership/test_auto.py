"""`group_protocol='auto'`: the first heartbeat finds out which protocol the group speaks."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import GroupIdNotFoundError, UnsupportedVersionError
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from aktor.actors.runtime.manager import RequestManager
from aktor.events.answers import Answered
from aktor.events.coordinator import CoordinatorLost
from aktor.events.membership import (
    AssignPartitions,
    GroupFailed,
    MemberChanged,
    MemberState,
    SubscriptionChanged,
)
from aktor.managers.membership.auto import AutoMembershipManager
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.membership.consumer.manager import ConsumerMembershipManager
from tests.unit.managers.membership.builders import (
    COORDINATOR_LOADING,
    GROUP_AUTHORIZATION_FAILED,
    NOT_COORDINATOR,
    joined,
    partitions,
    synced,
)
from tests.unit.managers.membership.consumer.builders import (
    GROUP_ID_NOT_FOUND,
    HEARTBEAT,
    UNSUPPORTED_VERSION,
    AutoHarness,
    heard,
    refused,
    tells,
)

TOO_OLD = UnsupportedVersionError("no version in common")


def a_member(**settings: Any) -> AutoHarness:
    return AutoHarness(**settings)


def refuse(harness: AutoHarness, how: str) -> None:
    """The cluster does not speak the consumer protocol, or not in this group."""
    request = harness.beat()
    if how == "unknown request":
        harness.fail(request, TOO_OLD)
    elif how == "switched off":
        harness.answer(request, refused(UNSUPPORTED_VERSION))
    else:
        harness.answer(request, refused(GROUP_ID_NOT_FOUND, "it is classic"))


def a_classic_member() -> AutoHarness:
    harness = a_member()
    harness.wants_to_join("a")
    refuse(harness, "unknown request")
    return harness


HOW = ["unknown request", "switched off", "classic group"]


def test_the_consumer_protocol_is_tried_first_and_kept_where_it_is_spoken() -> None:
    harness = a_member()
    harness.wants_to_join("a")

    harness.is_told("a-0")
    harness.apply()

    assert tells(harness.beat()) == partitions("a-0")
    assert harness.last_said(MemberChanged).protocol == "consumer"
    (chosen,) = harness.traced("protocol.chosen")
    assert chosen["protocol"] == "consumer"


@pytest.mark.parametrize("how", HOW)
def test_where_it_is_not_spoken_the_member_joins_with_the_classic_protocol_at_once(
    how: str,
) -> None:
    harness = a_member()
    harness.wants_to_join("a")
    harness.messages.clear()

    refuse(harness, how)

    assert harness.has_sent(JoinGroupRequest)
    assert not harness.has_said(GroupFailed)
    (chosen,) = harness.traced("protocol.chosen")
    assert chosen["protocol"] == "classic"


@pytest.mark.parametrize("how", HOW)
def test_who_was_no_member_yet_is_not_said_to_be_lost(how: str) -> None:
    """Operators are told to raise an alert over `member.lost`."""
    harness = a_member()
    harness.wants_to_join("a")

    refuse(harness, how)

    assert not harness.traced("member.lost")


@pytest.mark.parametrize("how", HOW)
def test_to_find_that_out_is_no_error_in_the_log(how: str) -> None:
    harness = a_member()
    harness.wants_to_join("a")

    refuse(harness, how)

    assert not [one for one in harness.events if one["level"] == "error"]


@pytest.mark.parametrize("how", HOW)
def test_the_member_then_comes_by_its_partitions_without_another_poll(how: str) -> None:
    harness = a_member()
    harness.wants_to_join("a")
    refuse(harness, how)

    harness.answer(harness.sent(JoinGroupRequest), joined(5))
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))

    assert harness.said(AssignPartitions).assigned == partitions("a-0")
    harness.tell()
    changed = harness.last_said(MemberChanged)
    assert (changed.protocol, changed.member_id) == ("classic", "m")
    assert changed.generation == 5


@pytest.mark.parametrize("code", [NOT_COORDINATOR, COORDINATOR_LOADING])
def test_an_error_that_passes_decides_nothing(code: int) -> None:
    harness = a_member()
    harness.wants_to_join("a")

    harness.is_refused(code)
    harness.next_beat()

    assert not harness.traced("protocol.chosen")
    assert not harness.has_sent(JoinGroupRequest)


def test_a_group_that_may_not_be_used_is_the_users_concern_in_either_protocol() -> None:
    harness = a_member()
    harness.wants_to_join("a")

    harness.is_refused(GROUP_AUTHORIZATION_FAILED)

    assert harness.has_said(GroupFailed)
    assert not harness.has_sent(JoinGroupRequest)


@pytest.mark.parametrize("refusals", [[UNSUPPORTED_VERSION], [GROUP_ID_NOT_FOUND] * 2])
def test_a_choice_is_not_made_twice(refusals: list[int]) -> None:
    """The consumer protocol was spoken: that it is not any more is an error.

    Whose group is not found joins anew, and that is refused, too.
    """
    harness = a_member()
    harness.wants_to_join("a")
    harness.is_told("a-0")
    harness.apply()

    harness.is_refused(refusals[0])
    harness.revoke()
    for code in refusals[1:]:
        harness.is_refused(code)

    assert harness.has_said(GroupFailed)
    assert not harness.has_sent(JoinGroupRequest)


def test_the_classic_protocol_is_kept_through_leaving_and_joining_again() -> None:
    harness = a_classic_member()
    harness.answer(harness.sent(JoinGroupRequest), joined(1))
    harness.leave(ticket=7)
    harness.left_the_group()
    assert harness.said(Answered).ticket == 7

    harness.subscribe("a")
    harness.poll()

    assert harness.has_sent(JoinGroupRequest)
    assert not harness.has_beaten


def test_a_restarted_manager_stays_with_the_classic_protocol() -> None:
    before = a_classic_member()

    after = a_member(choice=before.choice, incarnation=2)
    after.wants_to_join("a")

    assert after.has_sent(JoinGroupRequest)
    assert not after.has_sent(HEARTBEAT)
    assert after.last_said(MemberChanged).protocol == "classic"


def test_a_restarted_manager_stays_with_the_consumer_protocol() -> None:
    before = a_member()
    before.wants_to_join("a")
    before.is_told("a-0")

    after = a_member(choice=before.choice, incarnation=2)
    after.wants_to_join("a")
    after.is_refused(GROUP_ID_NOT_FOUND)

    assert isinstance(after.said(GroupFailed).error, GroupIdNotFoundError)
    assert not after.has_sent(JoinGroupRequest)


def test_a_restarted_manager_asks_if_nothing_was_chosen_yet() -> None:
    before = a_member()
    before.wants_to_join("a")

    after = a_member(choice=before.choice, incarnation=2)
    after.wants_to_join("a")

    refuse(after, "switched off")
    assert after.has_sent(JoinGroupRequest)


def test_what_the_classic_manager_has_to_know_it_is_told() -> None:
    """Coordinator, subscription and poll came before it was there."""
    harness = a_member()
    harness.find_coordinator()
    harness.subscribe("b")
    harness.subscribe("a")
    harness.poll()

    refuse(harness, "switched off")

    (offer, *_) = harness.sent(JoinGroupRequest).body.protocols
    assert b"a" in offer.metadata
    assert b"b" not in offer.metadata


def test_an_answer_to_the_first_manager_means_nothing_to_the_second() -> None:
    harness = a_classic_member()
    harness.messages.clear()
    late = a_member().wants_to_join("a").sent(HEARTBEAT)

    harness.answer(late, heard(1, "a-0"))

    assert not harness.messages


def test_others_are_told_of_one_member_only() -> None:
    harness = a_member()
    harness.wants_to_join("a")
    refuse(harness, "switched off")
    harness.answer(harness.sent(JoinGroupRequest), joined(5))
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))
    harness.apply()

    last = harness.last_said(MemberChanged)

    assert (last.protocol, last.state) == ("classic", MemberState.STABLE)


def test_it_leaves_as_the_protocol_wants_it() -> None:
    classic = a_classic_member()
    classic.answer(classic.sent(JoinGroupRequest), joined(1))
    classic.leave()
    assert classic.has_sent(LeaveGroupRequest)

    modern = a_member()
    modern.wants_to_join("a")
    modern.is_told("a-0")
    modern.leave()

    assert modern.beat().body.member_epoch == -1


def test_a_pattern_that_brokers_evaluate_is_not_given_to_the_classic_protocol() -> None:
    """It has none: the member would wait for ever."""
    harness = a_member()
    harness.find_coordinator()
    harness.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))
    harness.poll()

    refuse(harness, "unknown request")

    assert "'a.*' takes brokers that evaluate it" in str(harness.said(GroupFailed).error)
    assert not harness.has_sent(JoinGroupRequest)


def test_that_a_pattern_cannot_be_evaluated_is_an_error_in_the_log() -> None:
    """The application is told: here no other protocol takes over."""
    harness = a_member()
    harness.find_coordinator()
    harness.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))
    harness.poll()

    refuse(harness, "unknown request")

    (failed,) = harness.traced("group.failed")
    assert "SubscriptionPattern" in str(failed["because"])


def test_the_classic_manager_hears_what_was_told_before_in_that_order() -> None:
    """A subscription that came after the last poll waits for the next one."""
    harness = a_member()
    harness.wants_to_join("a")
    request = harness.beat()
    harness.subscribe("b")

    harness.fail(request, TOO_OLD)
    before = harness.has_sent(JoinGroupRequest)
    harness.poll()

    assert not before
    assert harness.has_sent(JoinGroupRequest)


def test_a_coordinator_that_was_lost_meanwhile_is_not_asked() -> None:
    harness = a_member()
    harness.wants_to_join("a")
    request = harness.beat()
    harness.tell(CoordinatorLost(because="it moved"))

    harness.fail(request, TOO_OLD)

    assert not harness.has_sent(JoinGroupRequest)


def test_who_then_names_topics_gets_them_with_the_classic_protocol() -> None:
    harness = a_member()
    harness.find_coordinator()
    harness.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))
    harness.poll()
    refuse(harness, "unknown request")
    harness.messages.clear()

    harness.subscribe("a")
    harness.poll()

    assert harness.has_sent(JoinGroupRequest)
    assert not harness.has_said(GroupFailed)


def test_a_pattern_that_comes_when_the_classic_protocol_is_chosen_is_refused() -> None:
    harness = a_classic_member()

    harness.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))

    error = harness.said(GroupFailed).error
    assert isinstance(error, UnsupportedVersionError)
    assert "SubscriptionPattern" in str(error)


def test_it_understands_what_either_manager_does_and_has_the_same_name() -> None:
    assert AutoMembershipManager.understands() >= (
        ClassicMembershipManager.understands() | ConsumerMembershipManager.understands()
    )
    managers: list[type[RequestManager]] = [AutoMembershipManager, ClassicMembershipManager]
    assert {one.name for one in managers} == {ConsumerMembershipManager.name}
