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
    AutoScene,
    heard,
    refused,
    tells,
)

TOO_OLD = UnsupportedVersionError("no version in common")


def a_member(**settings: Any) -> AutoScene:
    return AutoScene(**settings)


def refuse(scene: AutoScene, how: str) -> None:
    """The cluster does not speak the consumer protocol, or not in this group."""
    request = scene.beat()
    if how == "unknown request":
        scene.fail(request, TOO_OLD)
    elif how == "switched off":
        scene.answer(request, refused(UNSUPPORTED_VERSION))
    else:
        scene.answer(request, refused(GROUP_ID_NOT_FOUND, "it is classic"))


def a_classic_member() -> AutoScene:
    scene = a_member()
    scene.wants_to_join("a")
    refuse(scene, "unknown request")
    return scene


HOW = ["unknown request", "switched off", "classic group"]


def test_the_consumer_protocol_is_tried_first_and_kept_where_it_is_spoken() -> None:
    scene = a_member()
    scene.wants_to_join("a")

    scene.is_told("a-0")
    scene.apply()

    assert tells(scene.beat()) == partitions("a-0")
    assert scene.last_said(MemberChanged).protocol == "consumer"
    (chosen,) = scene.traced("protocol.chosen")
    assert chosen["protocol"] == "consumer"


@pytest.mark.parametrize("how", HOW)
def test_where_it_is_not_spoken_the_member_joins_with_the_classic_protocol_at_once(
    how: str,
) -> None:
    scene = a_member()
    scene.wants_to_join("a")
    scene.messages.clear()

    refuse(scene, how)

    assert scene.has_sent(JoinGroupRequest)
    assert not scene.has_said(GroupFailed)
    (chosen,) = scene.traced("protocol.chosen")
    assert chosen["protocol"] == "classic"


@pytest.mark.parametrize("how", HOW)
def test_who_was_no_member_yet_is_not_said_to_be_lost(how: str) -> None:
    """Operators are told to raise an alert over `member.lost`."""
    scene = a_member()
    scene.wants_to_join("a")

    refuse(scene, how)

    assert not scene.traced("member.lost")


@pytest.mark.parametrize("how", HOW)
def test_to_find_that_out_is_no_error_in_the_log(how: str) -> None:
    scene = a_member()
    scene.wants_to_join("a")

    refuse(scene, how)

    assert not [one for one in scene.events if one["level"] == "error"]


@pytest.mark.parametrize("how", HOW)
def test_the_member_then_comes_by_its_partitions_without_another_poll(how: str) -> None:
    scene = a_member()
    scene.wants_to_join("a")
    refuse(scene, how)

    scene.answer(scene.sent(JoinGroupRequest), joined(5))
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))

    assert scene.said(AssignPartitions).assigned == partitions("a-0")
    scene.tell()
    changed = scene.last_said(MemberChanged)
    assert (changed.protocol, changed.member_id) == ("classic", "m")
    assert changed.generation == 5


@pytest.mark.parametrize("code", [NOT_COORDINATOR, COORDINATOR_LOADING])
def test_an_error_that_passes_decides_nothing(code: int) -> None:
    scene = a_member()
    scene.wants_to_join("a")

    scene.is_refused(code)
    scene.next_beat()

    assert not scene.traced("protocol.chosen")
    assert not scene.has_sent(JoinGroupRequest)


def test_a_group_that_may_not_be_used_is_the_users_concern_in_either_protocol() -> None:
    scene = a_member()
    scene.wants_to_join("a")

    scene.is_refused(GROUP_AUTHORIZATION_FAILED)

    assert scene.has_said(GroupFailed)
    assert not scene.has_sent(JoinGroupRequest)


@pytest.mark.parametrize("refusals", [[UNSUPPORTED_VERSION], [GROUP_ID_NOT_FOUND] * 2])
def test_a_choice_is_not_made_twice(refusals: list[int]) -> None:
    """The consumer protocol was spoken: that it is not any more is an error.

    Whose group is not found joins anew, and that is refused, too.
    """
    scene = a_member()
    scene.wants_to_join("a")
    scene.is_told("a-0")
    scene.apply()

    scene.is_refused(refusals[0])
    scene.revoke()
    for code in refusals[1:]:
        scene.is_refused(code)

    assert scene.has_said(GroupFailed)
    assert not scene.has_sent(JoinGroupRequest)


def test_the_classic_protocol_is_kept_through_leaving_and_joining_again() -> None:
    scene = a_classic_member()
    scene.answer(scene.sent(JoinGroupRequest), joined(1))
    scene.leave(ticket=7)
    scene.left_the_group()
    assert scene.said(Answered).ticket == 7

    scene.subscribe("a")
    scene.poll()

    assert scene.has_sent(JoinGroupRequest)
    assert not scene.has_beaten


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
    scene = a_member()
    scene.find_coordinator()
    scene.subscribe("b")
    scene.subscribe("a")
    scene.poll()

    refuse(scene, "switched off")

    (offer, *_) = scene.sent(JoinGroupRequest).body.protocols
    assert b"a" in offer.metadata
    assert b"b" not in offer.metadata


def test_an_answer_to_the_first_manager_means_nothing_to_the_second() -> None:
    scene = a_classic_member()
    scene.messages.clear()
    late = a_member().wants_to_join("a").sent(HEARTBEAT)

    scene.answer(late, heard(1, "a-0"))

    assert not scene.messages


def test_others_are_told_of_one_member_only() -> None:
    scene = a_member()
    scene.wants_to_join("a")
    refuse(scene, "switched off")
    scene.answer(scene.sent(JoinGroupRequest), joined(5))
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))
    scene.apply()

    last = scene.last_said(MemberChanged)

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
    scene = a_member()
    scene.find_coordinator()
    scene.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))
    scene.poll()

    refuse(scene, "unknown request")

    assert "'a.*' takes brokers that evaluate it" in str(scene.said(GroupFailed).error)
    assert not scene.has_sent(JoinGroupRequest)


def test_that_a_pattern_cannot_be_evaluated_is_an_error_in_the_log() -> None:
    """The application is told: here no other protocol takes over."""
    scene = a_member()
    scene.find_coordinator()
    scene.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))
    scene.poll()

    refuse(scene, "unknown request")

    (failed,) = scene.traced("group.failed")
    assert "SubscriptionPattern" in str(failed["because"])


def test_the_classic_manager_hears_what_was_told_before_in_that_order() -> None:
    """A subscription that came after the last poll waits for the next one."""
    scene = a_member()
    scene.wants_to_join("a")
    request = scene.beat()
    scene.subscribe("b")

    scene.fail(request, TOO_OLD)
    before = scene.has_sent(JoinGroupRequest)
    scene.poll()

    assert not before
    assert scene.has_sent(JoinGroupRequest)


def test_a_coordinator_that_was_lost_meanwhile_is_not_asked() -> None:
    scene = a_member()
    scene.wants_to_join("a")
    request = scene.beat()
    scene.tell(CoordinatorLost(because="it moved"))

    scene.fail(request, TOO_OLD)

    assert not scene.has_sent(JoinGroupRequest)


def test_who_then_names_topics_gets_them_with_the_classic_protocol() -> None:
    scene = a_member()
    scene.find_coordinator()
    scene.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))
    scene.poll()
    refuse(scene, "unknown request")
    scene.messages.clear()

    scene.subscribe("a")
    scene.poll()

    assert scene.has_sent(JoinGroupRequest)
    assert not scene.has_said(GroupFailed)


def test_a_pattern_that_comes_when_the_classic_protocol_is_chosen_is_refused() -> None:
    scene = a_classic_member()

    scene.tell(SubscriptionChanged(topics=frozenset(), regex="a.*"))

    error = scene.said(GroupFailed).error
    assert isinstance(error, UnsupportedVersionError)
    assert "SubscriptionPattern" in str(error)


def test_it_understands_what_either_manager_does_and_has_the_same_name() -> None:
    assert AutoMembershipManager.understands() >= (
        ClassicMembershipManager.understands() | ConsumerMembershipManager.understands()
    )
    managers: list[type[RequestManager]] = [AutoMembershipManager, ClassicMembershipManager]
    assert {one.name for one in managers} == {ConsumerMembershipManager.name}
