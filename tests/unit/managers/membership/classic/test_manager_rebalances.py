"""The classic membership manager: eager and cooperative rebalances."""

from __future__ import annotations

import itertools

import pytest
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.structs import OffsetAndMetadata

from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.membership import (
    CallbackFinished,
    Loss,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
)
from aktor.managers.membership.classic.states import State
from tests.unit.managers.membership.builders import (
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    a_cooperative_member,
    a_member,
    a_stable_cooperative_member,
    join_refused,
    joined,
    partitions,
    synced,
)

# -- eager rebalances


def test_an_eager_rebalance_hands_everything_back_and_commits_it_before_it_joins() -> None:
    """Scenario 21."""
    harness = a_member().is_stable("a-0 a-1")
    harness.beats(REBALANCE_IN_PROGRESS)

    step = harness.release(a=7)
    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.REVOKED)
    commit = harness.said(CommitBeforeRevocation)
    assert {one: at.offset for one, at in commit.offsets.items()} == dict.fromkeys(
        partitions("a-0 a-1"), 7
    )
    assert not harness.has_said(RunRevokedCallback)
    harness.tell(RevocationCommitted(rebalance=commit.rebalance))
    callback = harness.said(RunRevokedCallback)
    assert (callback.partitions, callback.loss) == (partitions("a-0 a-1"), Loss.REVOKED)
    assert not harness.has_sent(JoinGroupRequest)
    harness.tell(CallbackFinished(rebalance=callback.rebalance))

    assert harness.sent(JoinGroupRequest).body.member_id == "m"


def test_nothing_consumed_is_nothing_to_commit() -> None:
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)

    harness.release()

    assert not harness.has_said(CommitBeforeRevocation)
    assert harness.has_said(RunRevokedCallback)


def test_only_positions_of_what_goes_away_are_committed() -> None:
    harness = a_stable_cooperative_member("a-0 a-1")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")
    step = harness.said(RevokePartitions)
    positions = dict.fromkeys(partitions("a-0 a-1"), OffsetAndMetadata(5, "", -1))

    harness.tell(PartitionsReleased(rebalance=step.rebalance, positions=positions))

    assert set(harness.said(CommitBeforeRevocation).offsets) == partitions("a-1")


def test_a_pending_member_that_is_refused_for_good_takes_itself_back() -> None:
    """The coordinator would wait for it, and let the others wait, until its session ends."""
    harness = a_member().wants_to_join()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "pending"))

    harness.answer(harness.sent(JoinGroupRequest), join_refused(INCONSISTENT_GROUP_PROTOCOL))

    assert harness.sent(LeaveGroupRequest).body.members[0].member_id == "pending"


def test_what_a_refused_commit_shows_to_be_somebody_elses_is_lost_and_not_revoked() -> None:
    """The listener must not store, as the owner, what another member is reading by now."""
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.release(a=7)
    commit = harness.said(CommitBeforeRevocation)

    harness.tell(RevocationCommitted(rebalance=commit.rebalance, expelled=True))

    assert harness.said(RunRevokedCallback).loss is Loss.LOST
    assert len(harness.traced("membership.doubted")) == 1


def test_a_listener_that_raises_is_traced_and_the_rebalance_goes_on() -> None:
    """Scenario 123."""
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.release()
    harness.run_revoked_callback(error=ValueError("mine"))
    harness.rejoins(assigned="a-0")
    harness.apply(error=ValueError("mine too"))

    assert harness.manager.state is State.STABLE
    assert len(harness.traced("listener.failed")) == 2


def test_the_next_generation_starts_from_nothing_under_the_eager_protocol() -> None:
    harness = a_member().is_stable("a-0 a-1")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    harness.rejoins(generation=2, assigned="a-0")

    step = harness.apply()

    assert step.added == step.assigned == partitions("a-0")
    assert step.generation == 2


@pytest.mark.parametrize("topics", [("a", "b"), ("b",)])
def test_another_subscription_is_joined_with_at_the_next_poll(topics: tuple[str, ...]) -> None:
    """Scenario 56."""
    harness = a_member().is_stable("a-0")
    harness.subscribe(*topics)
    assert not harness.has_said(RevokePartitions)

    harness.poll()
    harness.revoke()

    offer = harness.sent(JoinGroupRequest).body.protocols[0]
    assert sorted(ConsumerProtocolSubscription.decode(offer.metadata).topics) == sorted(topics)


def test_the_same_subscription_again_is_no_reason_to_rejoin() -> None:
    harness = a_member().is_stable("a-0")

    harness.subscribe("a")
    harness.poll()

    assert harness.manager.state is State.STABLE


def test_a_subscription_that_changes_while_joining_makes_one_more_round() -> None:
    harness = a_member().wants_to_join("a")
    request = harness.sent(JoinGroupRequest)
    harness.subscribe("b")
    harness.poll()
    assert not harness.has_sent(JoinGroupRequest)
    harness.answer(request, joined())
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))

    assert harness.apply().assigned == frozenset()

    offer = harness.sent(JoinGroupRequest).body.protocols[0]
    assert ConsumerProtocolSubscription.decode(offer.metadata).topics == ["b"]


def test_answers_to_steps_of_an_earlier_rebalance_are_dropped_and_traced() -> None:
    """Scenario 39."""
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    old = harness.said(RevokePartitions)
    harness.beats(UNKNOWN_MEMBER_ID)
    new = harness.said(RevokePartitions)
    assert (new.loss, new.partitions) == (Loss.LOST, old.partitions)

    harness.tell(PartitionsReleased(rebalance=old.rebalance, positions={}))
    assert not harness.has_said(RunRevokedCallback)
    assert harness.traced("step.dropped")
    harness.tell(PartitionsReleased(rebalance=new.rebalance, positions={}))

    assert harness.said(RunRevokedCallback).loss is Loss.LOST


def test_a_late_commit_answer_does_not_advance_the_next_rebalance() -> None:
    """Scenario 39."""
    harness = a_member().is_stable()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.release(a=1)
    commit = harness.said(CommitBeforeRevocation)
    harness.beats(UNKNOWN_MEMBER_ID)

    harness.tell(RevocationCommitted(rebalance=commit.rebalance))

    assert not harness.has_said(RunRevokedCallback)
    assert harness.manager.state is State.LOSING


# -- cooperative rebalances


def test_a_cooperative_member_keeps_everything_while_it_joins_and_says_what_it_owns() -> None:
    harness = a_stable_cooperative_member("a-0 a-1")

    harness.beats(REBALANCE_IN_PROGRESS)

    assert not harness.has_said(RevokePartitions)
    offer = harness.sent(JoinGroupRequest).body.protocols[0]
    subscription = ConsumerProtocolSubscription.decode(offer.metadata)
    (owned,) = subscription.owned_partitions
    assert (owned.topic, owned.partitions, subscription.generation_id) == ("a", [0, 1], 1)


def test_a_cooperative_member_gives_up_what_moves_applies_the_rest_and_rejoins_at_once() -> None:
    harness = a_stable_cooperative_member("a-0 a-1")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")

    step = harness.revoke(a=3)
    assert (step.partitions, step.loss) == (partitions("a-1"), Loss.REVOKED)
    applied = harness.apply()
    assert (applied.assigned, applied.added) == (partitions("a-0"), frozenset())

    offer = harness.sent(JoinGroupRequest).body.protocols[0]
    (owned,) = ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions
    assert (owned.topic, owned.partitions) == ("a", [0])


def test_a_cooperative_member_that_gives_nothing_up_does_not_rejoin() -> None:
    harness = a_stable_cooperative_member("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.rejoins(generation=2, assigned="a-0 a-1", assignor="cooperative-sticky")

    step = harness.apply()

    assert (step.assigned, step.added) == (partitions("a-0 a-1"), partitions("a-1"))
    assert harness.manager.state is State.STABLE
    assert not harness.has_sent(JoinGroupRequest)


def test_topics_no_longer_subscribed_are_handed_back_before_a_cooperative_join() -> None:
    """Scenario 56."""
    harness = a_stable_cooperative_member("a-0 b-0")
    harness.subscribe("a")
    harness.poll()

    step = harness.revoke()

    assert step.partitions == partitions("b-0")
    offer = harness.sent(JoinGroupRequest).body.protocols[0]
    (owned,) = ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions
    assert owned.topic == "a"


def test_a_member_that_lost_its_partitions_does_not_claim_them_when_it_rejoins() -> None:
    harness = a_stable_cooperative_member("a-0")
    harness.beats(UNKNOWN_MEMBER_ID)

    assert harness.revoke().loss is Loss.LOST

    offer = harness.sent(JoinGroupRequest).body.protocols[0]
    assert ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions == []


def test_another_rebalance_while_the_application_applies_this_one_follows_at_once() -> None:
    """Scenarios 40 and 48: nothing is cut short, nothing is forgotten."""
    harness = a_cooperative_member().is_assigning("a-0", assignor="cooperative-sticky")
    harness.beats(REBALANCE_IN_PROGRESS)
    assert not harness.has_sent(JoinGroupRequest)

    harness.apply()

    assert "coordinator said" in harness.sent(JoinGroupRequest).body.reason


def test_what_is_kept_is_lost_if_the_group_fences_the_member_while_it_revokes() -> None:
    harness = a_stable_cooperative_member("a-0 a-1")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")
    harness.release()
    harness.beats(UNKNOWN_MEMBER_ID)

    step = harness.said(RevokePartitions)

    assert (step.partitions, step.loss) == (partitions("a-0"), Loss.LOST)


def test_after_a_cooperative_assignment_heartbeats_come_quickly_and_then_at_growing_distances() -> (
    None
):
    harness = a_stable_cooperative_member("a-0")
    harness.now += 0.0001

    beats = [harness.beats().deadline for _ in range(10)]

    gaps = [round(b - a, 3) for a, b in itertools.pairwise(beats)]
    assert gaps == [0.03, 0.06, 0.12, 0.24, 0.48, 0.96, 1.92, 3.0, 3.0]


def test_the_eager_protocol_needs_no_quick_heartbeats() -> None:
    harness = a_member().is_stable()
    began = harness.now

    harness.beats()

    assert harness.now == began + 3.0
