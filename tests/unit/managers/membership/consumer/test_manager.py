"""The consumer protocol's membership manager: heartbeats, reconciling, leaving, being thrown out.

Scenarios are those of the Java client's `ConsumerMembershipManagerTest` and
`ConsumerHeartbeatRequestManagerTest`.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    KafkaConnectionError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)

from aktor.errors import AuthenticationError, InvalidRegularExpressionError
from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.coordinator import CoordinatorLost, CoordinatorRefused, SuspectCoordinator
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    ConfirmSession,
    GroupFailed,
    Loss,
    MemberChanged,
    MemberState,
    Operation,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
    SessionExtended,
    SubscriptionChanged,
)
from aktor.events.metadata import Broker, NameTopics, RefreshMetadata, TrackTopics
from aktor.events.network import Destination
from aktor.managers.membership.consumer.states import IN_GROUP, State
from tests.unit.managers.membership.builders import (
    COORDINATOR_LOADING,
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID,
    partitions,
)
from tests.unit.managers.membership.consumer.builders import (
    ANEW,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    IDS,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    TOPIC_AUTHORIZATION_FAILED,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
    UNSUPPORTED_VERSION,
    ConsumerScene,
    heard,
    refused,
    row,
    tells,
)

OTHER_COORDINATOR = Broker(node_id=2, host="kafka-2", port=9092)
LOST = CoordinatorLost(because="it is silent")
NOT_THIS_MEMBER = [FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID]


def a_member(**settings: Any) -> ConsumerScene:
    return ConsumerScene(**settings)


def a_static_member(**settings: Any) -> ConsumerScene:
    return ConsumerScene(group_instance_id="instance-1", **settings)


def a_stable_member(owned: str = "a-0 a-1", **settings: Any) -> ConsumerScene:
    return ConsumerScene(**settings).is_stable(owned)


def a_member_in(state: State) -> ConsumerScene:
    """A member of a-0 and a-1 that is in this state, with nothing to be said."""
    scene = ConsumerScene()
    if state is State.UNSUBSCRIBED:
        return scene
    if state is State.JOINING:
        scene.wants_to_join("a")
        return scene
    if state is State.FREEING_INSTANCE_ID:
        scene = a_static_member()
        scene.wants_to_join("a")
        scene.is_refused(UNRELEASED_INSTANCE_ID)
        assert scene.state is state
        return scene
    if state is State.RECONCILING:
        return scene.is_reconciling()
    if state is State.ACKNOWLEDGING:
        scene.is_reconciling()
        scene.next_beat()
        scene.apply()
        return scene
    scene.is_stable()
    if state is State.FENCED:
        scene.is_refused(FENCED_MEMBER_EPOCH)
    if state is State.STALE:
        misses_its_poll(scene)
    if state is State.LEAVING:
        scene.leave()
    if state is State.FATAL:
        scene.is_refused(GROUP_AUTHORIZATION_FAILED)
    assert scene.state is state
    return scene


def misses_its_poll(scene: ConsumerScene) -> None:
    """The application does not poll for five minutes; heartbeats are answered."""
    while scene.state in IN_GROUP:
        scene.now = scene.wake_at
        scene.tick()
        if scene.state in IN_GROUP:
            scene.answer(scene.beat(), heard())
        scene.messages = [one for one in scene.messages if not isinstance(one, SessionExtended)]


# -- the worked exchange: eight heartbeats


def test_row_1_a_member_joins_with_epoch_0_and_all_that_the_coordinator_must_know() -> None:
    scene = a_member()

    scene.wants_to_join("a")

    request = scene.beat()
    assert row(request) == (0, 300_000, ["a"], None, frozenset())
    assert (request.body.group_id, request.body.member_id) == ("g", "m")
    assert request.to is Destination.COORDINATOR


def test_row_2_what_was_applied_is_acknowledged_at_once_and_nothing_is_said_twice() -> None:
    scene = a_member().is_reconciling("a-0 a-1")
    step = scene.apply()

    request = scene.beat()

    assert step.assigned == step.added == partitions("a-0 a-1")
    assert row(request) == (1, -1, None, None, partitions("a-0 a-1"))
    assert scene.state is State.STABLE


def test_row_3_a_member_with_nothing_new_only_says_that_it_is_there() -> None:
    scene = a_stable_member()

    request = scene.next_beat()

    assert row(request) == (1, -1, None, None, None)


def test_row_4_a_target_without_a_partition_makes_the_member_hand_it_back() -> None:
    scene = a_stable_member()

    scene.is_told("a-0")

    step = scene.said(RevokePartitions)
    assert (step.partitions, step.loss) == (partitions("a-1"), Loss.REVOKED)
    assert scene.state is State.RECONCILING


def test_row_5_the_coordinator_hears_of_it_when_it_is_committed_and_both_callbacks_have_run() -> (
    None
):
    scene = a_stable_member()
    scene.is_told("a-0")
    scene.release(a=7)
    commit = scene.said(CommitBeforeRevocation)
    scene.tell(RevocationCommitted(rebalance=commit.rebalance))
    scene.run_revoked_callback()
    assert not scene.has_beaten

    step = scene.apply()

    assert (step.assigned, step.added) == (partitions("a-0"), frozenset())
    assert row(scene.beat()) == (1, -1, None, None, partitions("a-0"))


def test_row_6_after_a_lost_answer_everything_is_said_again_and_nothing_else_changes() -> None:
    scene = a_stable_member()
    scene.is_told("a-0")
    scene.revoke(a=7)
    scene.apply()
    scene.time_out(scene.beat())

    request = scene.is_told("a-0", epoch=2)

    assert row(request) == (1, 300_000, ["a"], None, partitions("a-0"))
    assert scene.state is State.STABLE
    assert not scene.has_said(AssignPartitions)


def test_row_7_a_fenced_member_joins_again_when_the_application_has_let_go_of_everything() -> None:
    scene = a_stable_member()
    scene.is_refused(FENCED_MEMBER_EPOCH)
    assert scene.revoke().loss is Loss.LOST

    assert row(scene.beat()) == (0, 300_000, ["a"], None, frozenset())
    assert scene.state is State.JOINING


def test_row_8_the_last_heartbeat_says_goodbye_and_its_answer_ends_the_leave() -> None:
    scene = a_stable_member()

    scene.leave(ticket=7)
    request = scene.beat()
    assert (request.body.member_epoch, request.body.member_id) == (-1, "m")
    assert not scene.has_said(Answered)
    scene.answer(request, heard(-1))

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED


# -- joining


def test_while_the_coordinator_is_unknown_only_the_poll_timer_runs() -> None:
    """Scenario 55: it does not spin."""
    scene = a_member()
    scene.subscribe("a")
    scene.poll()

    assert scene.wake_at == scene.now + 300.0


def test_what_only_a_joining_member_says_is_the_rack_and_each_time_again() -> None:
    scene = a_member(client_rack="r1", group_remote_assignor="range", group_instance_id="i")
    scene.wants_to_join("a")
    first = scene.beat()
    scene.fail(first)
    again = scene.next_beat()
    scene.answer(again, heard(1, "a-0"))
    scene.apply()

    later = scene.beat()

    for one in (first, again):
        assert (one.body.rack_id, one.body.server_assignor) == ("r1", "range")
    assert (later.body.rack_id, later.body.server_assignor) == (None, None)
    assert {one.body.instance_id for one in (first, again, later)} == {"i"}


def test_an_empty_first_target_is_reconciled_and_acknowledged_and_runs_the_listener() -> None:
    """Scenario 45."""
    scene = a_member().is_reconciling("")

    step = scene.apply()

    assert step.assigned == step.added == frozenset()
    assert tells(scene.beat()) == frozenset()
    assert scene.state is State.STABLE


def test_no_negative_epoch_and_no_old_partition_is_said_while_joining() -> None:
    """KAFKA-19335."""
    scene = a_stable_member()
    scene.is_refused(UNKNOWN_MEMBER_ID)
    scene.revoke()

    request = scene.beat()

    assert request.body.member_epoch == 0
    assert tells(request) == frozenset()


def test_the_member_id_is_kept_whatever_the_coordinator_says_and_through_fencing() -> None:
    """KIP-1082, KAFKA-17116."""
    scene = a_member()
    scene.wants_to_join("a")
    answer = heard(1, "a-0")
    answer.member_id = "another"
    scene.answer(scene.beat(), answer)
    scene.apply()
    assert scene.beat().body.member_id == "m"

    fenced = a_stable_member()
    fenced.is_refused(FENCED_MEMBER_EPOCH)
    fenced.revoke()

    assert fenced.beat().body.member_id == "m"


def test_others_are_told_who_we_are_only_when_it_changed() -> None:
    """Scenario 51."""
    scene = a_member().is_reconciling("a-0", epoch=3)
    scene.forget()
    scene.tell(CallbackFinished(rebalance=1, assigned=True))
    said = scene.said(MemberChanged)
    assert (said.member_id, said.generation, said.state) == ("m", 3, MemberState.STABLE)
    assert said.protocol == "consumer"

    scene.is_told(epoch=3)
    assert not scene.has_said(MemberChanged)
    scene.is_told(epoch=4)

    assert scene.said(MemberChanged).generation == 4


# -- the subscription changes


def test_other_topics_are_said_at_once_and_nothing_else() -> None:
    scene = a_stable_member().is_quiet()

    scene.subscribe("a", "b")

    assert row(scene.beat()) == (1, -1, ["a", "b"], None, None)
    assert scene.state is State.STABLE


def test_a_subscription_that_changes_while_joining_is_said_with_the_heartbeat_after() -> None:
    scene = a_member()
    scene.wants_to_join("a")
    request = scene.beat()

    scene.subscribe("b")
    scene.answer(request, heard(1, "a-0"))

    assert scene.next_beat().body.subscribed_topic_names == ["b"]


def test_topics_that_change_while_a_heartbeat_is_in_flight_are_said_with_its_answer() -> None:
    """And not an interval later."""
    scene = a_stable_member().is_quiet()
    beat = scene.next_beat()
    scene.subscribe("a", "b")
    assert not scene.has_beaten

    scene.answer(beat, heard())

    assert row(scene.beat()) == (1, -1, ["a", "b"], None, None)


def test_the_same_topics_again_are_not_said() -> None:
    scene = a_stable_member().is_quiet()

    scene.subscribe("a")

    assert row(scene.beat()) == (1, -1, None, None, None)


# -- patterns that the brokers evaluate


def a_member_with(regex: str) -> ConsumerScene:
    scene = a_member()
    scene.find_coordinator()
    scene.subscribe_to(regex)
    scene.poll()
    return scene


def test_a_pattern_is_said_once_with_no_names_and_needs_version_1() -> None:
    """Scenario 78."""
    scene = a_member_with("a.*")
    join = scene.beat()
    scene.answer(join, heard(1, "a-0"))
    scene.apply()

    later = scene.beat()

    assert row(join) == (0, 300_000, [], "a.*", frozenset())
    assert join.body._min_version == 1
    assert (later.body.subscribed_topic_names, later.body.subscribed_topic_regex) == (None, None)


def test_a_subscription_to_topics_takes_the_pattern_back() -> None:
    """Scenarios 74 and 78."""
    scene = a_member_with("a.*")
    scene.is_told("a-0")
    scene.apply()
    scene.is_told()

    scene.subscribe("b")

    body = scene.next_beat().body
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (["b"], "")


def test_a_pattern_takes_the_place_of_topics() -> None:
    """Scenario 74."""
    scene = a_stable_member()

    scene.subscribe_to("b.*")

    body = scene.beat().body
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == ([], "b.*")


def test_another_pattern_is_said_alone() -> None:
    scene = a_member_with("a.*")
    scene.is_told("a-0")
    scene.apply()
    scene.is_told()

    scene.subscribe_to("b.*")

    body = scene.next_beat().body
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (None, "b.*")


def test_a_pattern_that_was_to_be_taken_back_is_taken_back_after_the_answer_was_lost() -> None:
    """Null would leave it in place: nobody knows what has arrived."""
    scene = a_member_with("a.*")
    scene.is_told("a-0")
    scene.apply()
    scene.is_told()
    scene.subscribe("b")
    scene.fail(scene.next_beat())

    body = scene.next_beat().body

    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (["b"], "")


def test_a_member_that_joins_again_with_topics_takes_back_the_pattern_it_had() -> None:
    """The coordinator may still have it: a member that is known there is not made anew."""
    scene = a_member_with("a.*")
    scene.is_told("a-0")
    scene.apply()
    scene.is_told()
    scene.subscribe("b")
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.revoke()

    body = scene.next_beat().body

    assert (body.member_epoch, body.subscribed_topic_regex) == (0, "")


@pytest.mark.parametrize(
    "who", [{"incarnation": 2}, {"group_instance_id": "i"}], ids=["restarted", "static"]
)
def test_a_pattern_of_who_was_here_before_is_taken_back(who: dict[str, Any]) -> None:
    """The coordinator keeps what it is not told otherwise; one without patterns has none."""
    scene = a_member(**who)
    scene.wants_to_join("b")

    body = scene.beat().body

    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (["b"], "")
    assert not body._min_version


def test_who_never_had_a_pattern_can_speak_to_a_broker_without_them() -> None:
    scene = a_member()
    scene.wants_to_join("a")

    body = scene.beat().body

    assert (body._min_version or 0, body.subscribed_topic_regex) == (0, None)


def test_a_pattern_that_brokers_cannot_read_is_the_users_error() -> None:
    """Scenario 73."""
    scene = a_member_with("a(")

    scene.is_refused(INVALID_REGULAR_EXPRESSION, "missing )")

    error = scene.said(GroupFailed).error
    assert isinstance(error, InvalidRegularExpressionError)
    assert "missing )" in str(error)
    assert "RE2" in str(error)
    assert "a new consumer" in str(error)  # to subscribe again would not help this one


def test_a_broker_without_patterns_is_an_error_that_names_the_remedy() -> None:
    """Scenario 77: the connection refuses to write the request."""
    scene = a_member_with("a.*")

    scene.fail(scene.beat(), UnsupportedVersionError("no version in common"))

    told = str(scene.said(GroupFailed).error)
    assert "'a.*' takes brokers that evaluate it" in told
    assert "a pattern of Python's re" in told
    assert "set group_protocol" not in told


def test_topics_that_a_pattern_found_are_kept_fresh() -> None:
    scene = a_member_with("a.*")
    scene.is_told("a-0 b-0")

    assert scene.last_said(TrackTopics) == TrackTopics(
        owner="membership", topics=frozenset({"a", "b"})
    )


def test_topics_that_a_pattern_found_are_kept_fresh_until_the_application_lets_go() -> None:
    """Without their leaders who still fetches them would ask for metadata again and again."""
    scene = a_member_with("a.*")
    scene.is_told("a-0 b-0")
    scene.apply()

    scene.answer(scene.beat(), refused(UNKNOWN_MEMBER_ID))
    assert scene.last_said(TrackTopics).topics == {"a", "b"}

    scene.revoke()
    assert scene.last_said(TrackTopics).topics == frozenset()


# -- heartbeats


def test_the_interval_is_the_brokers() -> None:
    scene = a_stable_member()
    for _ in range(12):  # quick ones after a rebalance come first
        scene.is_told(interval=2_000)
    last = scene.now

    scene.next_beat()

    assert scene.now == pytest.approx(last + 2.0)


def test_an_acknowledgement_waits_for_the_heartbeat_in_flight_and_not_for_the_interval() -> None:
    scene = a_member().is_reconciling()
    in_flight = scene.next_beat()
    scene.apply()
    assert scene.state is State.ACKNOWLEDGING
    assert not scene.has_beaten

    scene.answer(in_flight, heard(1))

    assert tells(scene.beat()) == partitions("a-0 a-1")


def test_an_acknowledgement_that_failed_waits_for_the_backoff() -> None:
    scene = a_member().is_reconciling()
    in_flight = scene.next_beat()
    scene.apply()
    scene.answer(in_flight, refused(COORDINATOR_LOADING))
    assert not scene.has_beaten
    before = scene.now

    assert tells(scene.next_beat()) == partitions("a-0 a-1")

    assert scene.now == pytest.approx(before + 0.1)


@pytest.mark.parametrize(
    "failure", ["disconnect", "timeout", "loading", "coordinator lost", "coordinator moved"]
)
def test_after_any_failure_the_next_heartbeat_says_everything(failure: str) -> None:
    """Scenario 52."""
    scene = a_stable_member("a-0", client_rack="r1").is_quiet()
    request = scene.next_beat()

    if failure == "disconnect":
        scene.fail(request)
    elif failure == "timeout":
        scene.time_out(request)
    elif failure == "loading":
        scene.answer(request, refused(COORDINATOR_LOADING))
    elif failure == "coordinator lost":
        scene.tell(LOST)
        scene.find_coordinator()
    else:
        scene.find_coordinator(OTHER_COORDINATOR)

    again = scene.next_beat()
    assert row(again) == (1, 300_000, ["a"], None, partitions("a-0"))
    assert again.body.rack_id is None


def test_the_same_partitions_of_a_later_target_are_said_again() -> None:
    """Scenario 53: the coordinator waits to hear that this target is owned."""
    scene = a_stable_member("a-0").is_quiet()
    scene.is_told("a-0 a-1")
    scene.said(AssignPartitions)  # the application takes its time
    scene.is_told("a-0")
    scene.tell(CallbackFinished(rebalance=2, assigned=True))
    assert tells(scene.is_told()) == partitions("a-0 a-1")
    scene.revoke()
    scene.apply()

    assert tells(scene.next_beat()) == partitions("a-0")


def test_a_target_that_came_back_before_anything_was_done_is_settled_and_said() -> None:
    """Scenario 53: same partitions, but of a later target."""
    scene = a_stable_member("a-0").is_quiet()
    scene.is_told("a-0 c-0")
    assert scene.state is State.RECONCILING

    scene.is_told("a-0")

    assert scene.state is State.STABLE
    assert tells(scene.next_beat()) == partitions("a-0")


def test_each_answered_heartbeat_extends_the_session_from_when_it_was_asked() -> None:
    scene = a_member()
    scene.wants_to_join("a")
    asked_at = scene.now
    scene.now += 1.0

    scene.answer(scene.beat(), heard(1, "a-0", interval=3_000))

    assert scene.said(SessionExtended).until == asked_at + 27.0


def test_a_session_is_never_taken_to_be_longer_than_kafkas_default() -> None:
    scene = a_member()
    scene.wants_to_join("a")

    scene.answer(scene.beat(), heard(1, "a-0", interval=15_000))

    assert scene.said(SessionExtended).until == scene.now + 45.0


def test_a_refused_heartbeat_does_not_extend_the_session() -> None:
    scene = a_stable_member()

    scene.is_refused(COORDINATOR_LOADING)

    assert not scene.has_said(SessionExtended)


def test_there_is_no_second_heartbeat_while_one_is_in_flight() -> None:
    scene = a_stable_member().is_quiet()
    scene.next_beat()

    scene.tell(ConfirmSession())
    scene.subscribe("a", "b")
    scene.poll()

    assert not scene.has_beaten


def test_the_answer_to_a_heartbeat_that_was_given_up_is_dropped() -> None:
    scene = a_stable_member().is_quiet()
    request = scene.next_beat()
    scene.tell(LOST)

    scene.answer(request, heard(1, "b-0"))

    assert scene.state is State.STABLE
    assert scene.traced("answer.dropped")


# -- reconciling


def test_added_partitions_need_no_way_back_first() -> None:
    scene = a_stable_member("a-0")

    scene.is_told("a-0 a-1")

    step = scene.said(AssignPartitions)
    assert (step.assigned, step.added) == (partitions("a-0 a-1"), partitions("a-1"))
    assert step.must_succeed


def test_partitions_come_only_when_those_that_go_are_gone() -> None:
    scene = a_stable_member("a-0")
    scene.is_told("a-1")
    scene.release(a=7)
    assert not scene.has_said(AssignPartitions)
    scene.tell(RevocationCommitted(rebalance=scene.said(CommitBeforeRevocation).rebalance))
    assert not scene.has_said(AssignPartitions)

    scene.run_revoked_callback()

    assert scene.said(AssignPartitions).assigned == partitions("a-1")


def test_a_commit_that_failed_does_not_hold_up_the_revocation() -> None:
    """Scenario 46."""
    scene = a_stable_member()
    scene.is_told("a-0")
    scene.release(a=7)

    scene.tell(RevocationCommitted(rebalance=scene.said(CommitBeforeRevocation).rebalance))

    assert scene.said(RunRevokedCallback).loss is Loss.REVOKED


@pytest.mark.parametrize("step", ["release", "commit", "callback"])
def test_a_target_that_changes_while_something_goes_is_the_one_that_is_taken_on(step: str) -> None:
    """Scenario 40. What the first would have added may be somebody else's by then."""
    scene = a_stable_member("a-0 a-1")
    scene.is_told("a-0 b-0")

    def change(at: str) -> None:
        if step == at:
            scene.is_told("a-0 a-2", epoch=2)

    change("release")
    scene.release(a=7)
    change("commit")
    scene.tell(RevocationCommitted(rebalance=scene.said(CommitBeforeRevocation).rebalance))
    change("callback")
    scene.run_revoked_callback()

    assert scene.apply().assigned == partitions("a-0 a-2")
    assert tells(scene.next_beat()) == partitions("a-0 a-2")
    assert scene.state is State.STABLE


def test_a_target_that_changes_while_one_is_taken_on_waits_until_that_is_done() -> None:
    """Scenario 40."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 b-0")
    scene.is_told("a-0 a-2", epoch=2)

    assert scene.apply().assigned == partitions("a-0 b-0")

    assert tells(scene.is_told(epoch=2)) == partitions("a-0 b-0")
    assert scene.revoke(b=1).partitions == partitions("b-0")
    assert scene.apply().assigned == partitions("a-0 a-2")


def test_nothing_is_taken_on_while_a_heartbeat_is_unanswered_that_says_it_is_not_owned() -> None:
    """The coordinator may give it to another at once: nobody has to give up what nobody has."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 b-0")
    scene.is_told("a-0 b-0 a-2", epoch=2)
    scene.apply()
    says_a0_b0 = scene.next_beat()
    assert not scene.has_said(AssignPartitions)

    scene.answer(says_a0_b0, heard(3, "a-0 b-0"))

    assert scene.state is State.STABLE
    assert not scene.has_said(AssignPartitions)


def test_it_is_taken_on_when_the_answer_leaves_the_target_as_it_is() -> None:
    scene = a_stable_member("a-0")
    scene.is_told("a-0 b-0")
    scene.is_told("a-0 b-0 a-2", epoch=2)
    scene.apply()

    scene.is_told(epoch=2)

    assert scene.said(AssignPartitions).added == partitions("a-2")


def test_it_is_not_taken_on_when_no_answer_came_but_with_the_next() -> None:
    scene = a_stable_member("a-0")
    scene.is_told("a-0 b-0")
    scene.is_told("a-0 b-0 a-2", epoch=2)
    scene.apply()
    scene.fail(scene.next_beat())
    scene.poll()
    assert not scene.has_said(AssignPartitions)

    scene.is_told("a-0 b-0 a-2", epoch=2)

    assert scene.said(AssignPartitions).added == partitions("a-2")


def test_what_goes_need_not_wait_for_an_answer() -> None:
    scene = a_stable_member("a-0 a-1")
    scene.is_told("a-0 a-1 b-0")
    scene.is_told("a-0", epoch=2)
    scene.apply()

    scene.next_beat()

    assert scene.said(RevokePartitions).partitions == partitions("a-1 b-0")


def test_after_a_failure_it_is_said_too_what_the_application_is_about_to_take_on() -> None:
    """What is not said may be given to another member at once."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 b-0")
    assert tells(scene.is_told()) is None
    scene.fail(scene.next_beat())

    assert tells(scene.next_beat()) == partitions("a-0 b-0")
    assert scene.state is State.RECONCILING


@pytest.mark.parametrize("step", ["release", "commit", "callback", "assign"])
def test_what_was_going_on_when_the_member_was_fenced_is_given_up(step: str) -> None:
    """Scenario 39: a late answer means nothing to the member that joined again."""
    scene = a_stable_member("a-0 a-1")
    scene.is_told("a-0 b-0")
    late: object = None

    def fence(at: str) -> bool:
        if step == at:
            scene.is_refused(FENCED_MEMBER_EPOCH)
        return step == at

    while True:
        revoke = scene.said(RevokePartitions)
        late = PartitionsReleased(rebalance=revoke.rebalance, positions={})
        if fence("release"):
            break
        scene.messages.append(revoke)
        scene.release(a=7)
        commit = scene.said(CommitBeforeRevocation)
        late = RevocationCommitted(rebalance=commit.rebalance)
        if fence("commit"):
            break
        scene.tell(late)
        late = CallbackFinished(rebalance=scene.said(RunRevokedCallback).rebalance)
        if fence("callback"):
            break
        scene.tell(late)
        late = CallbackFinished(rebalance=scene.said(AssignPartitions).rebalance, assigned=True)
        assert fence("assign")
        break

    scene.tell(late)
    assert scene.state is State.FENCED
    assert scene.revoke().loss is Loss.LOST
    scene.tell(late)

    assert scene.state is State.JOINING
    assert scene.traced("step.dropped")
    assert tells(scene.beat()) == frozenset()


def test_after_fencing_in_the_revoked_callback_only_what_is_left_is_lost() -> None:
    scene = a_stable_member("a-0 a-1")
    scene.is_told("a-0")
    scene.release(a=7)
    scene.tell(RevocationCommitted(rebalance=scene.said(CommitBeforeRevocation).rebalance))
    scene.said(RunRevokedCallback)

    scene.is_refused(FENCED_MEMBER_EPOCH)

    assert scene.said(RevokePartitions).partitions == partitions("a-0")


def test_leaving_amid_a_reconciliation_ends_it_and_the_member_may_join_again() -> None:
    """Scenario 48."""
    scene = a_stable_member()
    scene.is_told("a-0 b-0")
    old = scene.said(RevokePartitions)
    scene.leave()
    scene.answer(scene.beat(), heard(-1))
    assert scene.state is State.UNSUBSCRIBED

    scene.subscribe("a")
    scene.poll()
    scene.tell(PartitionsReleased(rebalance=old.rebalance, positions={}))
    scene.is_told("a-0 a-1")

    assert scene.said(AssignPartitions).added == partitions("a-0 a-1")
    assert not scene.has_said(RunRevokedCallback)


# -- topics that are known by their id only


def test_partitions_of_a_topic_without_a_name_wait_and_are_asked_for() -> None:
    """Scenario 41."""
    scene = a_stable_member("a-0")

    scene.is_told("a-0 c-0")

    assert scene.said(NameTopics).topic_ids == {IDS["c"]}
    assert not scene.has_said(AssignPartitions)
    assert scene.state is State.RECONCILING


def test_the_first_assigned_callback_does_not_say_nothing_while_names_are_on_their_way() -> None:
    """The coordinator may have known the topic before our metadata did."""
    scene = a_member().wants_to_join("c")
    scene.is_told("c-0")
    scene.is_told()
    assert not scene.has_said(AssignPartitions)

    scene.name("c")

    assert scene.apply().added == partitions("c-0")
    assert tells(scene.beat()) == partitions("c-0")
    assert scene.state is State.STABLE


@pytest.mark.parametrize("how", ["metadata", "names"])
def test_they_are_taken_on_when_the_topic_is_known(how: str) -> None:
    """Scenario 41."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 c-0")
    scene.is_told()
    scene.forget()

    if how == "metadata":
        scene.see(a=3, b=1, c=1)
    else:
        scene.name("c")

    assert scene.said(NameTopics).topic_ids == frozenset()
    assert scene.apply().added == partitions("c-0")
    assert tells(scene.beat()) == partitions("a-0 c-0")
    assert scene.state is State.STABLE


def test_what_can_be_had_is_taken_on_and_acknowledged_once_while_the_rest_waits() -> None:
    """Scenario 44, KAFKA-20145."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 a-1 c-0")
    scene.apply()
    assert tells(scene.is_told()) == partitions("a-0 a-1")
    assert scene.state is State.RECONCILING
    scene.forget()

    scene.see(a=3, b=1)
    for _ in range(5):
        scene.poll()

    assert not scene.has_beaten
    assert not scene.has_said(AssignPartitions)


def test_a_partial_acknowledgement_is_not_repeated_with_every_heartbeat() -> None:
    """KAFKA-20145."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 a-1 c-0")
    scene.apply()
    scene.is_told()

    assert [tells(scene.is_told()) for _ in range(5)] == [None] * 5


def test_what_is_taken_back_of_a_topic_without_a_name_is_acknowledged_once() -> None:
    """Scenario 44: the coordinator gives it to nobody else until it hears what is owned."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 c-0 c-1")
    scene.is_told()

    scene.is_told("a-0 c-0")

    assert [tells(scene.is_told()) for _ in range(3)] == [partitions("a-0"), None, None]
    assert scene.state is State.RECONCILING


def test_an_empty_target_takes_the_place_of_one_that_waits_for_names() -> None:
    """Scenario 42."""
    scene = a_stable_member("a-0")
    scene.is_told("c-0 c-1")
    scene.revoke(a=7)
    scene.apply()
    scene.is_told()

    scene.is_told("")
    scene.name("c")

    assert not scene.has_said(RevokePartitions)
    assert scene.state is State.STABLE


def test_a_deleted_topic_is_handed_back_under_the_name_it_had() -> None:
    """Scenario 43."""
    scene = a_stable_member("a-0 b-0")
    scene.see(a=3)

    scene.is_told("a-0")

    assert scene.said(RevokePartitions).partitions == partitions("b-0")


def test_a_deleted_topic_is_kept_as_long_as_the_target_has_it() -> None:
    """Scenario 43."""
    scene = a_stable_member("a-0 b-0")
    scene.see(a=3)

    scene.is_told("a-0 a-1 b-0")

    assert not scene.has_said(NameTopics)
    assert scene.said(AssignPartitions).assigned == partitions("a-0 a-1 b-0")


def test_a_topic_that_was_created_anew_is_looked_at_until_the_target_has_the_new_one() -> None:
    """If it were not, the old partitions would be taken on and lost without end."""
    scene = a_member()
    scene.find_coordinator()
    scene.subscribe_to("a.*")
    scene.poll()
    scene.is_told("a-0")
    scene.apply()
    scene.is_told()
    scene.forget()

    scene.create_anew("a")
    assert scene.revoke().loss is Loss.LOST

    assert scene.state is State.RECONCILING
    assert not any("a" not in one.topics for one in scene.messages if isinstance(one, TrackTopics))


def test_metadata_that_lags_behind_the_target_is_asked_for_with_each_heartbeat() -> None:
    """A broker that has yet to hear that the topic was created anew may answer first."""
    scene = a_member().wants_to_join("a")
    scene.create_anew("a")
    scene.is_told("a-0")
    scene.name("a")
    scene.is_told()
    assert scene.has_said(RefreshMetadata)
    scene.forget()

    scene.tick()
    assert not scene.has_said(RefreshMetadata)
    scene.is_told()

    assert scene.has_said(RefreshMetadata)


def test_what_the_application_has_of_a_topic_created_anew_is_claimed_until_it_lets_go() -> None:
    """It may be metadata that is behind: then the partitions are still to be given to others."""
    scene = a_stable_member("a-0 b-0")
    scene.create_anew("a")
    scene.time_out(scene.next_beat())
    scene.find_coordinator()

    assert tells(scene.is_told()) == partitions("a-0 b-0")
    scene.revoke()

    assert tells(scene.next_beat()) == partitions("b-0")


def test_what_the_callback_refused_of_a_topic_created_anew_is_lost_before_the_new_is_taken_on() -> (
    None
):
    """Else the application goes on in the new topic at its position in the old one."""
    scene = a_member().is_reconciling("a-0")
    scene.apply(error=ValueError("mine"))
    scene.create_anew("a")
    scene.is_told("a-0", epoch=2, anew=True)

    scene.poll()

    assert scene.revoke().partitions == partitions("a-0")
    assert scene.apply().added == partitions("a-0")
    assert scene.next_beat().body.topic_partitions[0].topic_id == ANEW


def test_the_commits_are_told_the_ids_of_what_the_application_has_until_it_has_let_go() -> None:
    """Simulation, seed 14000587: metadata knew a later topic of that name."""
    scene = a_member().is_reconciling("a-0 b-0")
    assert scene.last_said(MemberChanged).topic_ids == {"a": IDS["a"], "b": IDS["b"]}
    scene.apply()
    scene.is_told()
    scene.forget()

    scene.create_anew("a")
    scene.release()
    assert scene.last_said(MemberChanged).topic_ids["a"] == IDS["a"]
    scene.run_revoked_callback()

    assert scene.last_said(MemberChanged).topic_ids == {"b": IDS["b"]}


@pytest.mark.parametrize("end", ["fenced", "leaves"])
def test_who_owns_nothing_any_more_tells_no_ids(end: str) -> None:
    scene = a_stable_member("a-0")

    if end == "fenced":
        scene.is_refused(FENCED_MEMBER_EPOCH)
        scene.revoke()
    else:
        scene.leave()

    assert scene.last_said(MemberChanged).topic_ids == {}


def test_who_leaves_waits_for_no_names() -> None:
    scene = a_stable_member("a-0")
    scene.is_told("a-0 c-0")
    scene.forget()

    scene.leave()

    assert scene.said(NameTopics).topic_ids == frozenset()
    assert scene.said(TrackTopics).topics == frozenset()


# -- callbacks that fail


def test_a_failed_assigned_callback_is_not_acknowledged_and_run_again_with_the_next_poll() -> None:
    """Scenario 47; the Java client runs it again too."""
    scene = a_member().is_reconciling("a-0")
    scene.apply(error=ValueError("mine"))
    assert scene.state is State.RECONCILING
    assert tells(scene.is_told()) is None
    assert not scene.has_said(AssignPartitions)

    scene.poll()
    again = scene.apply()

    assert (again.added, again.must_succeed) == (partitions("a-0"), True)
    assert tells(scene.next_beat()) == partitions("a-0")


def test_a_callback_that_always_fails_is_run_once_a_poll() -> None:
    """Scenario 123."""
    scene = a_member().is_reconciling("a-0")
    scene.apply(error=ValueError("mine"))

    for _ in range(3):
        assert not scene.has_said(AssignPartitions)
        scene.poll()
        assert scene.apply(error=ValueError("mine")).added == partitions("a-0")

    assert scene.state is State.RECONCILING


def test_a_failed_callback_of_nothing_is_run_again_too() -> None:
    """Scenarios 45 and 47 together: the first target is empty, and its callback fails."""
    scene = a_member().is_reconciling("")
    scene.apply(error=ValueError("mine"))
    assert scene.state is State.RECONCILING

    scene.poll()

    assert scene.apply().added == frozenset()
    assert tells(scene.next_beat()) == frozenset()
    assert scene.state is State.STABLE


def test_what_the_callback_refused_is_claimed_as_long_as_the_application_has_it() -> None:
    """Simulation, seed 12000670: the coordinator gave to others what a full report left out."""
    scene = a_stable_member("a-0")
    scene.is_told("a-0 a-1")
    scene.apply(error=ValueError("mine"))

    scene.fail(scene.next_beat())
    scene.find_coordinator()
    scene.after(5.0)
    assert tells(scene.beat()) == partitions("a-0 a-1")


def test_what_the_callback_refused_is_revoked_if_the_group_takes_it_back() -> None:
    scene = a_stable_member("a-0")
    scene.is_told("a-0 a-1")
    scene.apply(error=ValueError("mine"))
    scene.is_told("a-0", epoch=2)

    scene.poll()

    assert scene.revoke().partitions == partitions("a-1")
    assert scene.apply().added == frozenset()
    assert tells(scene.next_beat()) == partitions("a-0")


def test_a_failed_revoked_callback_changes_nothing() -> None:
    scene = a_stable_member("a-0 a-1")
    scene.is_told("a-0")
    scene.release(a=7)
    scene.tell(RevocationCommitted(rebalance=scene.said(CommitBeforeRevocation).rebalance))

    scene.run_revoked_callback(error=ValueError("mine"))

    assert scene.apply().assigned == partitions("a-0")
    assert tells(scene.beat()) == partitions("a-0")


def test_a_failed_lost_callback_does_not_keep_the_member_out() -> None:
    scene = a_stable_member()
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.release()

    scene.run_revoked_callback(error=ValueError("mine"))

    assert scene.state is State.JOINING


def test_a_member_whose_pattern_matches_nothing_any_more_stays_and_owns_nothing() -> None:
    """A pattern that we evaluate ourselves; its topics are gone."""
    scene = a_stable_member("a-0").is_quiet()

    scene.subscribe()
    scene.poll()
    assert row(scene.is_told("", epoch=2))[2] == []
    scene.revoke()
    scene.apply()

    assert tells(scene.next_beat()) == frozenset()
    assert scene.state is State.STABLE


def test_who_is_thrown_out_then_comes_back_with_the_next_topic_that_matches() -> None:
    scene = a_stable_member("a-0")
    scene.subscribe()
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.revoke()
    scene.poll()
    assert scene.state is State.FENCED
    assert not scene.has_beaten

    scene.subscribe("a")

    assert row(scene.beat())[:3] == (0, 300_000, ["a"])


# -- thrown out


@pytest.mark.parametrize("code", NOT_THIS_MEMBER)
def test_a_fenced_member_releases_everything_and_joins_again_without_a_poll(code: int) -> None:
    """Scenario 66."""
    scene = a_stable_member()
    scene.is_refused(code)
    assert scene.state is State.FENCED
    changed = scene.said(MemberChanged)
    assert (changed.generation, changed.member_id) == (-1, "")

    step = scene.revoke(a=7)

    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not scene.has_said(CommitBeforeRevocation)
    assert row(scene.beat())[0] == 0


@pytest.mark.parametrize(
    "state", [State.FENCED, State.FATAL, State.STALE], ids=lambda one: one.name
)
def test_partitions_stop_being_delivered_before_their_lost_callback_runs(state: State) -> None:
    """Scenario 69, KAFKA-20321."""
    scene = a_member_in(state)

    step = scene.said(RevokePartitions)

    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.LOST)
    assert not scene.has_said(RunRevokedCallback)


def test_the_same_partitions_are_assigned_again_after_fencing() -> None:
    """Scenario 67."""
    scene = a_stable_member("a-0 a-1")
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.revoke()

    scene.is_told("a-0 a-1", epoch=5)

    assert scene.apply().added == partitions("a-0 a-1")
    assert row(scene.beat()) == (5, -1, None, None, partitions("a-0 a-1"))


def test_a_fenced_member_says_nothing_until_it_has_released_everything() -> None:
    """Scenario 70."""
    scene = a_stable_member()
    scene.is_refused(FENCED_MEMBER_EPOCH)

    for seconds in (0.1, 1.0, 10.0):
        scene.after(seconds)
        scene.poll()
        scene.tell(ConfirmSession())

    assert not scene.has_beaten


def test_a_fenced_member_that_owned_nothing_joins_again_at_once() -> None:
    scene = a_member().is_reconciling("")
    scene.apply()

    scene.answer(scene.beat(), refused(FENCED_MEMBER_EPOCH))

    assert scene.state is State.JOINING
    assert scene.has_beaten


def test_a_member_that_is_fenced_while_it_joins_does_not_ask_without_end() -> None:
    """A coordinator that always answers so would be asked as fast as it answers."""
    scene = a_member()
    scene.wants_to_join("a")
    scene.answer(scene.beat(), refused(FENCED_MEMBER_EPOCH))
    first = scene.now

    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.next_beat()

    assert scene.now - first >= 0.2


@pytest.mark.parametrize("code", NOT_THIS_MEMBER)
def test_who_is_fenced_while_leaving_has_left(code: int) -> None:
    """Scenario 68."""
    scene = a_stable_member()
    scene.leave(ticket=7)

    scene.answer(scene.beat(), refused(code))

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED
    assert not scene.has_beaten


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND])
def test_a_member_that_the_group_does_not_know_leaves_without_telling_anybody(code: int) -> None:
    scene = a_stable_member()
    scene.is_refused(code)

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED
    assert not scene.has_beaten


@pytest.mark.parametrize("code", [FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION])
@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_that_was_refused_but_is_known_to_the_group_says_goodbye(
    code: int, instance: str | None, epoch: int
) -> None:
    """Else the group keeps partitions for it until the session ends."""
    scene = a_stable_member(group_instance_id=instance)
    scene.is_refused(code)

    scene.leave(ticket=7)

    goodbye = scene.beat()
    assert row(goodbye)[0] == epoch
    assert not scene.has_said(Answered)
    scene.answer(goodbye, heard(epoch))
    assert scene.said(Answered).ticket == 7


# -- each error code of a heartbeat

FATAL = [
    (GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailedError, "READ on the group"),
    (INVALID_REQUEST, InvalidRequestError, "broker's log"),
    (GROUP_MAX_SIZE_REACHED, GroupMaxSizeReachedError, "group.consumer.max.size"),
    (UNSUPPORTED_ASSIGNOR, UnsupportedAssignorError, "group_remote_assignor"),
    (INVALID_REGULAR_EXPRESSION, InvalidRegularExpressionError, "RE2"),
    (FENCED_INSTANCE_ID, FencedInstanceIdError, "group_instance_id"),
    (UNSUPPORTED_VERSION, UnsupportedVersionError, "set group_protocol to 'classic'"),
    (-1, UnknownError, "broker's log"),
    (30_000, UnknownError, "broker's log"),
]


@pytest.mark.parametrize(("code", "error", "remedy"), FATAL)
@pytest.mark.parametrize("state", [State.JOINING, State.STABLE], ids=lambda one: one.name)
def test_an_error_that_only_the_user_can_mend_is_told_and_nothing_more_is_sent(
    code: int, error: type[Exception], remedy: str, state: State
) -> None:
    """Scenario 130."""
    scene = a_member_in(state)
    scene.is_refused(code, "because I say so")
    assert scene.state is State.FATAL
    if state is State.STABLE:
        assert not scene.has_said(GroupFailed)
        assert scene.revoke().loss is Loss.LOST

    told = scene.said(GroupFailed).error
    scene.after(60.0)

    assert isinstance(told, error)
    for word in ("'g'", "broker 1 at kafka-1:9092", "because I say so", remedy):
        assert word in str(told)
    assert not scene.requests
    assert not scene.has_said(GroupFailed)


def test_who_polls_on_after_a_failure_hears_of_it_again_once_a_second() -> None:
    scene = a_member_in(State.FATAL)
    scene.revoke()
    first = scene.said(GroupFailed).error
    scene.forget()

    scene.poll()
    scene.after(0.9)
    assert not scene.has_said(GroupFailed)
    scene.after(0.1)
    assert scene.said(GroupFailed).error is first

    scene.forget()
    scene.after(60.0)
    assert not scene.has_said(GroupFailed)
    scene.poll()
    assert scene.said(GroupFailed).error is first

    scene.poll()
    scene.leave()
    scene.forget()
    scene.poll()
    scene.after(60.0)
    assert not scene.has_said(GroupFailed)
    assert not scene.requests


def test_a_group_that_does_not_take_the_member_in_is_the_users_concern() -> None:
    scene = a_member_in(State.JOINING)

    scene.is_refused(GROUP_ID_NOT_FOUND, "it is classic")

    told = scene.said(GroupFailed).error
    assert scene.state is State.FATAL
    assert isinstance(told, GroupIdNotFoundError)
    assert "group.consumer.migration.policy" in str(told)


def test_a_member_whose_group_is_gone_joins_a_new_one() -> None:
    """It slept through its session, alone: an empty group without offsets is soon deleted."""
    scene = a_stable_member()

    scene.is_refused(GROUP_ID_NOT_FOUND, "Consumer group g not found.")

    assert scene.state is State.FENCED
    assert scene.revoke().loss is Loss.LOST
    assert not scene.has_said(GroupFailed)
    assert row(scene.beat())[0] == 0


def a_member_whose_name_is_taken() -> ConsumerScene:
    """A static member that tries to free its name."""
    scene = a_static_member()
    scene.wants_to_join("a")
    scene.answer(scene.beat(), refused(UNRELEASED_INSTANCE_ID, "m has it"))
    return scene


@pytest.mark.parametrize("code", [0, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND])
def test_a_static_member_whose_name_is_taken_by_itself_frees_it_and_joins(code: int) -> None:
    """The answer to its joining was lost: to the coordinator it is a second one of that name."""
    scene = a_member_whose_name_is_taken()
    request = scene.beat()
    assert (request.body.member_epoch, request.body.instance_id) == (-2, "instance-1")
    assert request.body.member_id == "m"

    scene.answer(request, refused(code))

    assert scene.state is State.JOINING
    assert row(scene.beat()) == (0, 300_000, ["a"], "", frozenset())
    assert not scene.has_said(GroupFailed)


def test_a_static_member_whose_name_is_taken_by_another_is_told_so() -> None:
    """Scenarios 64 and 130: the newcomer is refused."""
    scene = a_member_whose_name_is_taken()

    scene.answer(scene.beat(), refused(FENCED_INSTANCE_ID, "it is another's"))

    error = scene.said(GroupFailed).error
    assert isinstance(error, UnreleasedInstanceIdError)
    for word in ("m has it", "'g'", "close that one first"):
        assert word in str(error)
    assert scene.state is State.FATAL


@pytest.mark.parametrize("failure", ["loading", "disconnect", "coordinator lost"])
def test_freeing_the_name_is_tried_again(failure: str) -> None:
    scene = a_member_whose_name_is_taken()
    request = scene.beat()

    if failure == "loading":
        scene.answer(request, refused(COORDINATOR_LOADING))
    elif failure == "disconnect":
        scene.fail(request)
    else:
        scene.tell(LOST)
        scene.find_coordinator()

    assert scene.next_beat().body.member_epoch == -2


def test_a_member_that_has_joined_cannot_lose_its_name_to_itself() -> None:
    scene = a_static_member().is_stable()

    scene.is_refused(UNRELEASED_INSTANCE_ID)

    assert scene.state is State.FATAL


def test_who_leaves_while_its_name_is_taken_joins_later_as_usual() -> None:
    scene = a_member_whose_name_is_taken()
    scene.leave()
    scene.requests.clear()
    scene.after(10.0)

    scene.subscribe("a")
    scene.poll()

    assert scene.beat().body.member_epoch == 0


def test_a_coordinator_that_loads_is_asked_again_after_a_growing_backoff() -> None:
    """Scenario 130."""
    scene = a_stable_member()
    times = []
    for _ in range(4):
        scene.is_refused(COORDINATOR_LOADING)
        times.append(scene.now)
    scene.next_beat()
    times.append(scene.now)

    waits = [after - before for before, after in itertools.pairwise(times)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert scene.state is State.STABLE


def test_a_forbidden_topic_is_told_once_and_the_member_stays_until_it_is_allowed() -> None:
    """Scenario 130."""
    scene = a_stable_member()
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(scene.said(GroupFailed).error, TopicAuthorizationFailedError)
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)
    assert not scene.has_said(GroupFailed)
    assert not scene.has_said(RevokePartitions)

    scene.is_told()
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)

    assert scene.has_said(GroupFailed)
    assert scene.state is State.STABLE


def test_a_forbidden_topic_is_told_again_to_who_subscribes_again() -> None:
    scene = a_stable_member()
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)
    scene.forget()

    scene.subscribe("b")
    scene.is_refused(TOPIC_AUTHORIZATION_FAILED)

    assert scene.has_said(GroupFailed)


def test_a_group_that_was_never_made_has_been_left() -> None:
    """Scenario 130: GROUP_ID_NOT_FOUND is no failure of a leave."""
    scene = a_stable_member()
    scene.leave(ticket=7)

    scene.answer(scene.beat(), refused(GROUP_ID_NOT_FOUND))

    assert scene.said(Answered).ticket == 7
    assert not scene.has_said(GroupFailed)


def test_bad_credentials_are_no_reason_to_suspect_the_coordinator() -> None:
    scene = a_stable_member()
    error = AuthenticationError(broker="b:1", mechanism="PLAIN", reason="no")

    scene.fail(scene.next_beat(), error)

    assert not scene.has_said(SuspectCoordinator)
    assert scene.state is State.STABLE


def test_the_application_hears_of_a_failure_before_its_leave_is_answered() -> None:
    """Scenario 131."""
    scene = a_stable_member()
    scene.is_refused(GROUP_MAX_SIZE_REACHED)
    scene.revoke()
    scene.leave(ticket=7)
    scene.answer(scene.beat(), refused(GROUP_MAX_SIZE_REACHED))

    kinds = [type(one) for one in scene.messages]
    assert kinds.index(GroupFailed) < kinds.index(Answered)


def test_who_subscribes_again_after_a_failure_is_told_the_reason_again() -> None:
    scene = a_member_in(State.FATAL)
    scene.revoke()
    scene.forget()

    scene.subscribe("a")
    scene.poll()

    assert isinstance(scene.said(GroupFailed).error, GroupAuthorizationFailedError)
    assert scene.state is State.FATAL


def test_that_no_coordinator_may_be_asked_for_is_told_and_the_member_stays_what_it_is() -> None:
    scene = a_member_in(State.STABLE)
    scene.tell(LOST)
    error = GroupAuthorizationFailedError("no")

    scene.tell(CoordinatorRefused(error=error))

    assert scene.said(GroupFailed).error is error
    assert scene.state is State.STABLE
    scene.find_coordinator()
    assert scene.beat()


# -- leaving


@pytest.mark.parametrize(
    ("static", "operation", "epoch"),
    [
        (False, Operation.DEFAULT, -1),
        (False, Operation.LEAVE_GROUP, -1),
        (False, Operation.REMAIN_IN_GROUP, None),
        (True, Operation.DEFAULT, -2),
        (True, Operation.LEAVE_GROUP, -1),
        (True, Operation.REMAIN_IN_GROUP, -2),
    ],
)
@pytest.mark.parametrize(
    "state", [State.JOINING, State.RECONCILING, State.STABLE], ids=lambda one: one.name
)
def test_what_the_last_heartbeat_says_depends_on_the_operation_and_the_kind_of_member(
    static: bool, operation: Operation, epoch: int | None, state: State
) -> None:
    """Scenario 65, KIP-1092."""
    scene = a_static_member() if static else a_member()
    scene.wants_to_join("a")
    if state is not State.JOINING:
        scene.is_told("a-0")
    if state is State.STABLE:
        scene.apply()
        scene.is_told()
    scene.forget()

    scene.leave(ticket=7, operation=operation)

    if epoch is None:
        assert not scene.has_beaten
    else:
        request = scene.beat()
        assert request.body.member_epoch == epoch
        assert request.body.instance_id == ("instance-1" if static else None)
        scene.answer(request, heard(epoch))
    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED


def test_the_last_heartbeat_does_not_wait_for_the_one_in_flight() -> None:
    """Scenario 54, KAFKA-16639."""
    scene = a_stable_member()
    in_flight = scene.next_beat()

    scene.leave()
    goodbye = scene.beat()
    scene.answer(in_flight, heard(2, "a-0"))

    assert goodbye.body.member_epoch == -1
    assert scene.state is State.LEAVING
    assert not scene.has_said(AssignPartitions)


def test_who_never_said_that_it_wants_to_join_need_not_say_goodbye() -> None:
    """There is no coordinator, and may never be: `close` does not wait for it."""
    scene = a_member()
    scene.subscribe("a")
    scene.poll()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED


def test_who_has_said_goodbye_and_not_joined_again_need_not_say_it_twice() -> None:
    scene = a_stable_member()
    scene.leave(ticket=1)
    scene.answer(scene.beat(), heard(-1))
    scene.tell(LOST)
    scene.subscribe("a")
    scene.poll()
    scene.forget()

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7


@pytest.mark.parametrize("known", ["asked", "late", "restarted"])
def test_whom_the_group_may_count_on_says_goodbye_though_no_answer_came(known: str) -> None:
    scene = a_member(incarnation=2 if known == "restarted" else 1)
    if known == "late":
        scene.is_stable()
        scene.tell(LOST)
        scene.after(300.0)
        assert scene.state is State.STALE
        scene.revoke()
        scene.poll()
    elif known == "asked":
        scene.wants_to_join("a")
        scene.tell(LOST)
        scene.forget()
    else:
        scene.subscribe("a")
        scene.poll()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)
    assert not scene.has_said(Answered)
    scene.find_coordinator()

    assert row(scene.beat())[0] == -1


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_who_was_restarted_and_has_not_asked_again_leaves_for_its_predecessor(
    instance: str | None, epoch: int
) -> None:
    """Else the group keeps partitions for it until the session ends."""
    scene = a_member(incarnation=2, group_instance_id=instance)
    scene.find_coordinator()
    scene.subscribe("a")
    assert scene.state is State.UNSUBSCRIBED

    scene.leave(ticket=7)

    goodbye = scene.beat()
    assert row(goodbye)[0] == epoch
    assert not scene.has_said(Answered)
    scene.answer(goodbye, heard(epoch))
    assert scene.said(Answered).ticket == 7
    scene.leave(ticket=8)
    assert scene.said(Answered).ticket == 8


def test_the_failure_of_an_attempt_to_leave_that_was_given_up_does_not_count() -> None:
    """It would have the attempt in flight sent once more beside itself."""
    scene = a_stable_member()
    scene.leave(30.0)
    given_up = scene.beat()
    scene.find_coordinator(OTHER_COORDINATOR)
    in_flight = scene.beat()

    scene.fail(given_up)
    scene.after(2.0)

    assert not scene.requests
    scene.fail(in_flight)
    assert scene.next_beat().body.member_epoch == -1


@pytest.mark.parametrize("answer", [GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID])
def test_whom_the_coordinator_does_not_know_any_more_need_not_leave(answer: int) -> None:
    scene = a_stable_member()
    scene.is_refused(answer)
    scene.tell(LOST)
    scene.revoke()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7


def test_who_was_fenced_and_has_not_joined_again_leaves() -> None:
    """FENCED_MEMBER_EPOCH: the group has the member, with another epoch."""
    scene = a_stable_member()
    scene.is_refused(FENCED_MEMBER_EPOCH)
    scene.tell(LOST)
    scene.revoke()
    assert scene.state is State.JOINING

    scene.leave(ticket=7)

    assert not scene.has_said(Answered)
    scene.find_coordinator()
    assert scene.beat().body.member_epoch == -1


def test_a_heartbeat_of_goodbye_may_not_take_longer_than_there_is_time() -> None:
    scene = a_stable_member()

    scene.leave(0.5)

    assert scene.beat().deadline == scene.now + 0.5


def test_a_goodbye_that_no_broker_understands_is_given_up() -> None:
    scene = a_stable_member()
    scene.leave(ticket=7)

    scene.fail(scene.beat(), UnsupportedVersionError("none in common"))

    assert scene.said(Answered).ticket == 7
    assert not scene.has_said(GroupFailed)


def test_whom_the_group_did_not_take_in_has_left_at_once() -> None:
    scene = a_member()
    scene.wants_to_join("a")
    scene.is_refused(GROUP_MAX_SIZE_REACHED)

    scene.leave(ticket=7)

    assert scene.said(Answered).ticket == 7
    assert not scene.has_beaten


def test_others_learn_at_once_that_we_are_no_member_any_more() -> None:
    scene = a_stable_member()

    scene.leave()

    changed = scene.said(MemberChanged)
    assert (changed.member_id, changed.generation) == ("", -1)
    assert changed.state is MemberState.UNJOINED


# -- polled too late


def test_a_static_member_that_polls_too_late_keeps_its_place() -> None:
    scene = a_static_member().is_stable()

    misses_its_poll(scene)

    assert scene.beat().body.member_epoch == -2


@pytest.mark.parametrize("has_left", [False, True])
def test_a_static_member_that_polls_too_late_may_leave_before_its_first_heartbeat(
    has_left: bool,
) -> None:
    scene = a_static_member()
    if has_left:
        scene.is_stable()
        scene.leave()
        scene.answer(scene.beat(), heard(-2))
        scene.tell(LOST)
    scene.subscribe("a")
    scene.poll()
    assert scene.state is State.JOINING
    scene.after(300.0)
    assert scene.state is State.STALE

    scene.find_coordinator()
    scene.answer(scene.beat(), heard(-2))

    assert scene.state is State.STALE
    assert not scene.has_beaten


def test_a_stale_member_does_not_join_while_its_goodbye_is_in_flight() -> None:
    """A goodbye that arrived after the new beginning would end it."""
    scene = a_member_in(State.STALE)
    goodbye = scene.beat()
    scene.revoke()
    scene.poll()
    assert not scene.has_beaten

    scene.answer(goodbye, heard(-1))

    assert scene.state is State.JOINING
    assert scene.beat().body.member_epoch == 0


def test_a_lost_goodbye_is_not_repeated_to_the_member_that_joins_again() -> None:
    scene = a_member_in(State.STALE)
    goodbye = scene.beat()
    scene.revoke()
    scene.poll()

    scene.fail(goodbye)
    scene.after(5.0)

    assert [one.body.member_epoch for one in scene.requests] == [0]


def test_a_goodbye_of_a_stale_member_is_tried_again_while_nobody_polls() -> None:
    scene = a_member_in(State.STALE)

    scene.fail(scene.beat())

    assert scene.next_beat().body.member_epoch == -1
    assert scene.state is State.STALE


def test_a_late_member_without_a_coordinator_joins_again_without_having_left() -> None:
    scene = a_stable_member()
    scene.tell(LOST)
    misses_its_poll(scene)
    assert scene.state is State.STALE
    scene.revoke()

    scene.poll()
    scene.find_coordinator()

    assert [one.body.member_epoch for one in scene.requests] == [0]


def test_a_member_that_polls_too_late_while_it_reconciles_gives_up_all_it_was_given() -> None:
    scene = a_member(max_poll_interval=30.0).is_reconciling("a-0")
    late = scene.said(AssignPartitions)
    misses_its_poll(scene)
    assert scene.said(RevokePartitions).partitions == partitions("a-0")

    scene.tell(CallbackFinished(rebalance=late.rebalance, assigned=True))

    assert scene.state is State.STALE
    assert scene.traced("step.dropped")


def test_who_comes_back_while_that_goodbye_is_on_its_way_waits_for_its_end() -> None:
    """Sent again after the new beginning, it would end that: others get what we are given."""
    scene = a_member_in(State.STALE)
    goodbye = scene.beat()
    scene.leave(ticket=7)

    scene.wants_to_join("a")
    assert scene.state is State.UNSUBSCRIBED
    scene.fail(goodbye)
    again = scene.next_beat()
    assert row(again)[0] == -1
    scene.answer(again, heard(-1))

    assert scene.said(Answered).ticket == 7
    assert row(scene.beat())[0] == 0


@pytest.mark.parametrize("told", ["in flight", "answered"])
def test_a_late_static_member_that_is_to_leave_for_good_does(told: str) -> None:
    """It has told the group only that it will be back."""
    scene = a_static_member().is_stable()
    misses_its_poll(scene)
    goodbye = scene.beat()
    assert goodbye.body.member_epoch == -2
    if told == "answered":
        scene.answer(goodbye, heard(-2))

    scene.leave(ticket=7, operation=Operation.LEAVE_GROUP)

    last = scene.beat()
    assert last.body.member_epoch == -1
    assert not scene.has_said(Answered)
    scene.answer(last, heard(-1))
    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED


def test_a_static_member_that_has_left_for_good_need_not_leave_again() -> None:
    """It was awaited before (epoch -2), and is not any more."""
    scene = a_static_member().is_stable()
    misses_its_poll(scene)
    scene.answer(scene.beat(), heard(-2))
    scene.leave(ticket=7, operation=Operation.LEAVE_GROUP)
    scene.answer(scene.beat(), heard(-1))
    scene.forget()

    scene.leave(ticket=8, operation=Operation.LEAVE_GROUP)

    assert scene.said(Answered).ticket == 8
    assert not scene.has_beaten


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("operation", [Operation.DEFAULT, Operation.REMAIN_IN_GROUP])
def test_a_late_member_that_closes_otherwise_has_said_its_goodbye(
    static: bool, operation: Operation
) -> None:
    """There is nothing left for it to remain in."""
    scene = (a_static_member() if static else a_member()).is_stable()
    misses_its_poll(scene)
    scene.answer(scene.beat(), heard(-1))

    scene.leave(ticket=7, operation=operation)

    assert scene.said(Answered).ticket == 7
    assert scene.state is State.UNSUBSCRIBED
    assert not scene.has_beaten


def test_the_poll_timer_does_not_run_for_a_member_that_is_out() -> None:
    scene = a_member_in(State.FENCED)
    waits = scene.wake_at

    scene.after(1_000.0)

    assert waits == float("inf")
    assert scene.state is State.FENCED


# -- the coordinator moves


@pytest.mark.parametrize("state", list(State), ids=lambda one: one.name)
def test_a_move_of_the_coordinator_does_not_put_the_membership_in_question(state: State) -> None:
    """Lead 4 of peers_measured."""
    scene = a_member_in(state)
    scene.requests.clear()

    scene.tell(LOST)
    assert scene.state is state
    assert not scene.requests
    scene.find_coordinator(OTHER_COORDINATOR)

    sent = [row(one)[0] for one in scene.requests]
    if state in (State.LEAVING, State.STALE):
        assert sent == [-1]
    elif state is State.FREEING_INSTANCE_ID:
        assert sent == [-2]
    elif state is State.JOINING:
        assert sent == [0]
    else:
        assert sent == ([1] if state in IN_GROUP else [])


def test_a_reconciliation_goes_on_without_a_coordinator() -> None:
    scene = a_stable_member()
    scene.is_told("a-0 b-0")
    scene.tell(LOST)

    scene.revoke(a=7)
    scene.apply()
    assert scene.state is State.ACKNOWLEDGING
    scene.find_coordinator()

    assert tells(scene.beat()) == partitions("a-0 b-0")


# -- others are restarted


def test_a_restarted_metadata_manager_is_told_what_the_member_needs() -> None:
    scene = a_stable_member("a-0")
    scene.is_told("a-0 c-0")
    scene.forget()

    scene.tell(ActorsRestarted(actors=("metadata",), because=RuntimeError()))

    assert scene.said(NameTopics).topic_ids == {IDS["c"]}
    assert scene.said(TrackTopics).topics == {"a"}


def test_a_restarted_manager_joins_with_the_same_id_and_steps_of_its_own() -> None:
    scene = a_member(incarnation=2)
    scene.find_coordinator()
    scene.tell(SubscriptionChanged(topics=frozenset({"a"}), member_id="m"))
    scene.poll()
    assert (row(scene.beat())[0], scene.has_beaten) == (0, False)
    step_of_the_first = CallbackFinished(rebalance=1, assigned=True)

    scene.tell(step_of_the_first)

    assert scene.traced("step.dropped")


# -- how fast


def test_after_a_new_target_the_coordinator_is_asked_soon_what_comes_next() -> None:
    """What others have to give up first comes with one of the next answers."""
    scene = a_stable_member().is_quiet()
    scene.is_told("a-0")
    told_at = scene.now

    scene.next_beat()

    assert scene.now - told_at < 0.05


def test_a_heartbeat_without_news_waits_for_the_interval() -> None:
    scene = a_stable_member().is_quiet()
    scene.is_told()
    told_at = scene.now

    scene.next_beat()

    assert scene.now - told_at == pytest.approx(5.0)


def test_a_failed_connection_is_traced_with_its_reason() -> None:
    scene = a_stable_member()

    scene.fail(scene.next_beat(), KafkaConnectionError("reset by peer"))

    assert "reset by peer" in str(scene.traced("heartbeat.failed")[0]["because"])
