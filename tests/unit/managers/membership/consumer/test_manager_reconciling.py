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
    harness = a_stable_member("a-0")

    harness.is_told("a-0 a-1")

    step = harness.said(AssignPartitions)
    assert (step.assigned, step.added) == (partitions("a-0 a-1"), partitions("a-1"))
    assert step.must_succeed


def test_partitions_come_only_when_those_that_go_are_gone() -> None:
    harness = a_stable_member("a-0")
    harness.is_told("a-1")
    harness.release(a=7)
    assert not harness.has_said(AssignPartitions)
    harness.tell(RevocationCommitted(rebalance=harness.said(CommitBeforeRevocation).rebalance))
    assert not harness.has_said(AssignPartitions)

    harness.run_revoked_callback()

    assert harness.said(AssignPartitions).assigned == partitions("a-1")


def test_a_commit_that_failed_does_not_hold_up_the_revocation() -> None:
    """Scenario 46."""
    harness = a_stable_member()
    harness.is_told("a-0")
    harness.release(a=7)

    harness.tell(RevocationCommitted(rebalance=harness.said(CommitBeforeRevocation).rebalance))

    assert harness.said(RunRevokedCallback).loss is Loss.REVOKED


@pytest.mark.parametrize("step", ["release", "commit", "callback"])
def test_a_target_that_changes_while_something_goes_is_the_one_that_is_taken_on(step: str) -> None:
    """Scenario 40. What the first would have added may be somebody else's by then."""
    harness = a_stable_member("a-0 a-1")
    harness.is_told("a-0 b-0")

    def change(at: str) -> None:
        if step == at:
            harness.is_told("a-0 a-2", epoch=2)

    change("release")
    harness.release(a=7)
    change("commit")
    harness.tell(RevocationCommitted(rebalance=harness.said(CommitBeforeRevocation).rebalance))
    change("callback")
    harness.run_revoked_callback()

    assert harness.apply().assigned == partitions("a-0 a-2")
    assert tells(harness.next_beat()) == partitions("a-0 a-2")
    assert harness.state is State.STABLE


def test_a_target_that_changes_while_one_is_taken_on_waits_until_that_is_done() -> None:
    """Scenario 40."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 b-0")
    harness.is_told("a-0 a-2", epoch=2)

    assert harness.apply().assigned == partitions("a-0 b-0")

    assert tells(harness.is_told(epoch=2)) == partitions("a-0 b-0")
    assert harness.revoke(b=1).partitions == partitions("b-0")
    assert harness.apply().assigned == partitions("a-0 a-2")


def test_nothing_is_taken_on_while_a_heartbeat_is_unanswered_that_says_it_is_not_owned() -> None:
    """The coordinator may give it to another at once: nobody has to give up what nobody has."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 b-0")
    harness.is_told("a-0 b-0 a-2", epoch=2)
    harness.apply()
    says_a0_b0 = harness.next_beat()
    assert not harness.has_said(AssignPartitions)

    harness.answer(says_a0_b0, heard(3, "a-0 b-0"))

    assert harness.state is State.STABLE
    assert not harness.has_said(AssignPartitions)


def test_it_is_taken_on_when_the_answer_leaves_the_target_as_it_is() -> None:
    harness = a_stable_member("a-0")
    harness.is_told("a-0 b-0")
    harness.is_told("a-0 b-0 a-2", epoch=2)
    harness.apply()

    harness.is_told(epoch=2)

    assert harness.said(AssignPartitions).added == partitions("a-2")


def test_it_is_not_taken_on_when_no_answer_came_but_with_the_next() -> None:
    harness = a_stable_member("a-0")
    harness.is_told("a-0 b-0")
    harness.is_told("a-0 b-0 a-2", epoch=2)
    harness.apply()
    harness.fail(harness.next_beat())
    harness.poll()
    assert not harness.has_said(AssignPartitions)

    harness.is_told("a-0 b-0 a-2", epoch=2)

    assert harness.said(AssignPartitions).added == partitions("a-2")


def test_what_goes_need_not_wait_for_an_answer() -> None:
    harness = a_stable_member("a-0 a-1")
    harness.is_told("a-0 a-1 b-0")
    harness.is_told("a-0", epoch=2)
    harness.apply()

    harness.next_beat()

    assert harness.said(RevokePartitions).partitions == partitions("a-1 b-0")


def test_after_a_failure_it_is_said_too_what_the_application_is_about_to_take_on() -> None:
    """What is not said may be given to another member at once."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 b-0")
    assert tells(harness.is_told()) is None
    harness.fail(harness.next_beat())

    assert tells(harness.next_beat()) == partitions("a-0 b-0")
    assert harness.state is State.RECONCILING


@pytest.mark.parametrize("step", ["release", "commit", "callback", "assign"])
def test_what_was_going_on_when_the_member_was_fenced_is_given_up(step: str) -> None:
    """Scenario 39: a late answer means nothing to the member that joined again."""
    harness = a_stable_member("a-0 a-1")
    harness.is_told("a-0 b-0")
    late: object = None

    def fence(at: str) -> bool:
        if step == at:
            harness.is_refused(FENCED_MEMBER_EPOCH)
        return step == at

    while True:
        revoke = harness.said(RevokePartitions)
        late = PartitionsReleased(rebalance=revoke.rebalance, positions={})
        if fence("release"):
            break
        harness.messages.append(revoke)
        harness.release(a=7)
        commit = harness.said(CommitBeforeRevocation)
        late = RevocationCommitted(rebalance=commit.rebalance)
        if fence("commit"):
            break
        harness.tell(late)
        late = CallbackFinished(rebalance=harness.said(RunRevokedCallback).rebalance)
        if fence("callback"):
            break
        harness.tell(late)
        late = CallbackFinished(rebalance=harness.said(AssignPartitions).rebalance, assigned=True)
        assert fence("assign")
        break

    harness.tell(late)
    assert harness.state is State.FENCED
    assert harness.revoke().loss is Loss.LOST
    harness.tell(late)

    assert harness.state is State.JOINING
    assert harness.traced("step.dropped")
    assert tells(harness.beat()) == frozenset()


def test_after_fencing_in_the_revoked_callback_only_what_is_left_is_lost() -> None:
    harness = a_stable_member("a-0 a-1")
    harness.is_told("a-0")
    harness.release(a=7)
    harness.tell(RevocationCommitted(rebalance=harness.said(CommitBeforeRevocation).rebalance))
    harness.said(RunRevokedCallback)

    harness.is_refused(FENCED_MEMBER_EPOCH)

    assert harness.said(RevokePartitions).partitions == partitions("a-0")


def test_leaving_amid_a_reconciliation_ends_it_and_the_member_may_join_again() -> None:
    """Scenario 48."""
    harness = a_stable_member()
    harness.is_told("a-0 b-0")
    old = harness.said(RevokePartitions)
    harness.leave()
    harness.answer(harness.beat(), heard(-1))
    assert harness.state is State.UNSUBSCRIBED

    harness.subscribe("a")
    harness.poll()
    harness.tell(PartitionsReleased(rebalance=old.rebalance, positions={}))
    harness.is_told("a-0 a-1")

    assert harness.said(AssignPartitions).added == partitions("a-0 a-1")
    assert not harness.has_said(RunRevokedCallback)


# -- topics that are known by their id only


def test_partitions_of_a_topic_without_a_name_wait_and_are_asked_for() -> None:
    """Scenario 41."""
    harness = a_stable_member("a-0")

    harness.is_told("a-0 c-0")

    assert harness.said(NameTopics).topic_ids == {IDS["c"]}
    assert not harness.has_said(AssignPartitions)
    assert harness.state is State.RECONCILING


def test_the_first_assigned_callback_does_not_say_nothing_while_names_are_on_their_way() -> None:
    """The coordinator may have known the topic before our metadata did."""
    harness = a_member().wants_to_join("c")
    harness.is_told("c-0")
    harness.is_told()
    assert not harness.has_said(AssignPartitions)

    harness.name("c")

    assert harness.apply().added == partitions("c-0")
    assert tells(harness.beat()) == partitions("c-0")
    assert harness.state is State.STABLE


@pytest.mark.parametrize("how", ["metadata", "names"])
def test_they_are_taken_on_when_the_topic_is_known(how: str) -> None:
    """Scenario 41."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 c-0")
    harness.is_told()
    harness.forget()

    if how == "metadata":
        harness.see(a=3, b=1, c=1)
    else:
        harness.name("c")

    assert harness.said(NameTopics).topic_ids == frozenset()
    assert harness.apply().added == partitions("c-0")
    assert tells(harness.beat()) == partitions("a-0 c-0")
    assert harness.state is State.STABLE


def test_what_can_be_had_is_taken_on_and_acknowledged_once_while_the_rest_waits() -> None:
    """Scenario 44, KAFKA-20145."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 a-1 c-0")
    harness.apply()
    assert tells(harness.is_told()) == partitions("a-0 a-1")
    assert harness.state is State.RECONCILING
    harness.forget()

    harness.see(a=3, b=1)
    for _ in range(5):
        harness.poll()

    assert not harness.has_beaten
    assert not harness.has_said(AssignPartitions)


def test_a_partial_acknowledgement_is_not_repeated_with_every_heartbeat() -> None:
    """KAFKA-20145."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 a-1 c-0")
    harness.apply()
    harness.is_told()

    assert [tells(harness.is_told()) for _ in range(5)] == [None] * 5


def test_what_is_taken_back_of_a_topic_without_a_name_is_acknowledged_once() -> None:
    """Scenario 44: the coordinator gives it to nobody else until it hears what is owned."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 c-0 c-1")
    harness.is_told()

    harness.is_told("a-0 c-0")

    assert [tells(harness.is_told()) for _ in range(3)] == [partitions("a-0"), None, None]
    assert harness.state is State.RECONCILING


def test_an_empty_target_takes_the_place_of_one_that_waits_for_names() -> None:
    """Scenario 42."""
    harness = a_stable_member("a-0")
    harness.is_told("c-0 c-1")
    harness.revoke(a=7)
    harness.apply()
    harness.is_told()

    harness.is_told("")
    harness.name("c")

    assert not harness.has_said(RevokePartitions)
    assert harness.state is State.STABLE


def test_a_deleted_topic_is_handed_back_under_the_name_it_had() -> None:
    """Scenario 43."""
    harness = a_stable_member("a-0 b-0")
    harness.see(a=3)

    harness.is_told("a-0")

    assert harness.said(RevokePartitions).partitions == partitions("b-0")


def test_a_deleted_topic_is_kept_as_long_as_the_target_has_it() -> None:
    """Scenario 43."""
    harness = a_stable_member("a-0 b-0")
    harness.see(a=3)

    harness.is_told("a-0 a-1 b-0")

    assert not harness.has_said(NameTopics)
    assert harness.said(AssignPartitions).assigned == partitions("a-0 a-1 b-0")


def test_a_topic_that_was_created_anew_is_looked_at_until_the_target_has_the_new_one() -> None:
    """If it were not, the old partitions would be taken on and lost without end."""
    harness = a_member()
    harness.find_coordinator()
    harness.subscribe_to("a.*")
    harness.poll()
    harness.is_told("a-0")
    harness.apply()
    harness.is_told()
    harness.forget()

    harness.create_anew("a")
    assert harness.revoke().loss is Loss.LOST

    assert harness.state is State.RECONCILING
    assert not any(
        "a" not in one.topics for one in harness.messages if isinstance(one, TrackTopics)
    )


def test_metadata_that_lags_behind_the_target_is_asked_for_with_each_heartbeat() -> None:
    """A broker that has yet to hear that the topic was created anew may answer first."""
    harness = a_member().wants_to_join("a")
    harness.create_anew("a")
    harness.is_told("a-0")
    harness.name("a")
    harness.is_told()
    assert harness.has_said(RefreshMetadata)
    harness.forget()

    harness.tick()
    assert not harness.has_said(RefreshMetadata)
    harness.is_told()

    assert harness.has_said(RefreshMetadata)


def test_what_the_application_has_of_a_topic_created_anew_is_claimed_until_it_lets_go() -> None:
    """It may be metadata that is behind: then the partitions are still to be given to others."""
    harness = a_stable_member("a-0 b-0")
    harness.create_anew("a")
    harness.time_out(harness.next_beat())
    harness.find_coordinator()

    assert tells(harness.is_told()) == partitions("a-0 b-0")
    harness.revoke()

    assert tells(harness.next_beat()) == partitions("b-0")


def test_what_the_callback_refused_of_a_topic_created_anew_is_lost_before_the_new_is_taken_on() -> (
    None
):
    """Else the application goes on in the new topic at its position in the old one."""
    harness = a_member().is_reconciling("a-0")
    harness.apply(error=ValueError("mine"))
    harness.create_anew("a")
    harness.is_told("a-0", epoch=2, anew=True)

    harness.poll()

    assert harness.revoke().partitions == partitions("a-0")
    assert harness.apply().added == partitions("a-0")
    assert harness.next_beat().body.topic_partitions[0].topic_id == ANEW


def test_the_commits_are_told_the_ids_of_what_the_application_has_until_it_has_let_go() -> None:
    """Simulation, seed 14000587: metadata knew a later topic of that name."""
    harness = a_member().is_reconciling("a-0 b-0")
    assert harness.last_said(MemberChanged).topic_ids == {"a": IDS["a"], "b": IDS["b"]}
    harness.apply()
    harness.is_told()
    harness.forget()

    harness.create_anew("a")
    harness.release()
    assert harness.last_said(MemberChanged).topic_ids["a"] == IDS["a"]
    harness.run_revoked_callback()

    assert harness.last_said(MemberChanged).topic_ids == {"b": IDS["b"]}


@pytest.mark.parametrize("end", ["fenced", "leaves"])
def test_who_owns_nothing_any_more_tells_no_ids(end: str) -> None:
    harness = a_stable_member("a-0")

    if end == "fenced":
        harness.is_refused(FENCED_MEMBER_EPOCH)
        harness.revoke()
    else:
        harness.leave()

    assert harness.last_said(MemberChanged).topic_ids == {}


def test_who_leaves_waits_for_no_names() -> None:
    harness = a_stable_member("a-0")
    harness.is_told("a-0 c-0")
    harness.forget()

    harness.leave()

    assert harness.said(NameTopics).topic_ids == frozenset()
    assert harness.said(TrackTopics).topics == frozenset()


# -- callbacks that fail


def test_a_failed_assigned_callback_is_not_acknowledged_and_run_again_with_the_next_poll() -> None:
    """Scenario 47; the Java client runs it again too."""
    harness = a_member().is_reconciling("a-0")
    harness.apply(error=ValueError("mine"))
    assert harness.state is State.RECONCILING
    assert tells(harness.is_told()) is None
    assert not harness.has_said(AssignPartitions)

    harness.poll()
    again = harness.apply()

    assert (again.added, again.must_succeed) == (partitions("a-0"), True)
    assert tells(harness.next_beat()) == partitions("a-0")


def test_a_callback_that_always_fails_is_run_once_a_poll() -> None:
    """Scenario 123."""
    harness = a_member().is_reconciling("a-0")
    harness.apply(error=ValueError("mine"))

    for _ in range(3):
        assert not harness.has_said(AssignPartitions)
        harness.poll()
        assert harness.apply(error=ValueError("mine")).added == partitions("a-0")

    assert harness.state is State.RECONCILING


def test_a_failed_callback_of_nothing_is_run_again_too() -> None:
    """Scenarios 45 and 47 together: the first target is empty, and its callback fails."""
    harness = a_member().is_reconciling("")
    harness.apply(error=ValueError("mine"))
    assert harness.state is State.RECONCILING

    harness.poll()

    assert harness.apply().added == frozenset()
    assert tells(harness.next_beat()) == frozenset()
    assert harness.state is State.STABLE


def test_what_the_callback_refused_is_claimed_as_long_as_the_application_has_it() -> None:
    """Simulation, seed 12000670: the coordinator gave to others what a full report left out."""
    harness = a_stable_member("a-0")
    harness.is_told("a-0 a-1")
    harness.apply(error=ValueError("mine"))

    harness.fail(harness.next_beat())
    harness.find_coordinator()
    harness.after(5.0)
    assert tells(harness.beat()) == partitions("a-0 a-1")


def test_what_the_callback_refused_is_revoked_if_the_group_takes_it_back() -> None:
    harness = a_stable_member("a-0")
    harness.is_told("a-0 a-1")
    harness.apply(error=ValueError("mine"))
    harness.is_told("a-0", epoch=2)

    harness.poll()

    assert harness.revoke().partitions == partitions("a-1")
    assert harness.apply().added == frozenset()
    assert tells(harness.next_beat()) == partitions("a-0")


def test_a_failed_revoked_callback_changes_nothing() -> None:
    harness = a_stable_member("a-0 a-1")
    harness.is_told("a-0")
    harness.release(a=7)
    harness.tell(RevocationCommitted(rebalance=harness.said(CommitBeforeRevocation).rebalance))

    harness.run_revoked_callback(error=ValueError("mine"))

    assert harness.apply().assigned == partitions("a-0")
    assert tells(harness.beat()) == partitions("a-0")


def test_a_failed_lost_callback_does_not_keep_the_member_out() -> None:
    harness = a_stable_member()
    harness.is_refused(FENCED_MEMBER_EPOCH)
    harness.release()

    harness.run_revoked_callback(error=ValueError("mine"))

    assert harness.state is State.JOINING


def test_a_member_whose_pattern_matches_nothing_any_more_stays_and_owns_nothing() -> None:
    """A pattern that we evaluate ourselves; its topics are gone."""
    harness = a_stable_member("a-0").is_quiet()

    harness.subscribe()
    harness.poll()
    assert row(harness.is_told("", epoch=2))[2] == []
    harness.revoke()
    harness.apply()

    assert tells(harness.next_beat()) == frozenset()
    assert harness.state is State.STABLE


def test_who_is_thrown_out_then_comes_back_with_the_next_topic_that_matches() -> None:
    harness = a_stable_member("a-0")
    harness.subscribe()
    harness.is_refused(FENCED_MEMBER_EPOCH)
    harness.revoke()
    harness.poll()
    assert harness.state is State.FENCED
    assert not harness.has_beaten

    harness.subscribe("a")

    assert row(harness.beat())[:3] == (0, 300_000, ["a"])
