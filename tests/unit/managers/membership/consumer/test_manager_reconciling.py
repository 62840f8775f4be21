"""The consumer protocol's membership manager: reconciling.

Scenarios are those of the Java client's `ConsumerMembershipManagerTest` and
`ConsumerHeartbeatRequestManagerTest`.
"""

from __future__ import annotations

import pytest

from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    Loss,
    MemberChanged,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
)
from aktor.events.metadata import NameTopics, RefreshMetadata, TrackTopics
from aktor.managers.membership.consumer.states import State
from tests.unit.managers.membership.builders import partitions
from tests.unit.managers.membership.consumer.builders import (
    ANEW,
    FENCED_MEMBER_EPOCH,
    IDS,
    a_member,
    a_stable_member,
    heard,
    row,
    tells,
)

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
