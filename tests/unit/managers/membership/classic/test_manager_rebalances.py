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
    scene = a_member().is_stable("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)

    step = scene.release(a=7)
    assert (step.partitions, step.loss) == (partitions("a-0 a-1"), Loss.REVOKED)
    commit = scene.said(CommitBeforeRevocation)
    assert {one: at.offset for one, at in commit.offsets.items()} == dict.fromkeys(
        partitions("a-0 a-1"), 7
    )
    assert not scene.has_said(RunRevokedCallback)
    scene.tell(RevocationCommitted(rebalance=commit.rebalance))
    callback = scene.said(RunRevokedCallback)
    assert (callback.partitions, callback.loss) == (partitions("a-0 a-1"), Loss.REVOKED)
    assert not scene.has_sent(JoinGroupRequest)
    scene.tell(CallbackFinished(rebalance=callback.rebalance))

    assert scene.sent(JoinGroupRequest).body.member_id == "m"


def test_nothing_consumed_is_nothing_to_commit() -> None:
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)

    scene.release()

    assert not scene.has_said(CommitBeforeRevocation)
    assert scene.has_said(RunRevokedCallback)


def test_only_positions_of_what_goes_away_are_committed() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")
    step = scene.said(RevokePartitions)
    positions = dict.fromkeys(partitions("a-0 a-1"), OffsetAndMetadata(5, "", -1))

    scene.tell(PartitionsReleased(rebalance=step.rebalance, positions=positions))

    assert set(scene.said(CommitBeforeRevocation).offsets) == partitions("a-1")


def test_a_pending_member_that_is_refused_for_good_takes_itself_back() -> None:
    """The coordinator would wait for it, and let the others wait, until its session ends."""
    scene = a_member().wants_to_join()
    scene.answer(scene.sent(JoinGroupRequest), join_refused(MEMBER_ID_REQUIRED, "pending"))

    scene.answer(scene.sent(JoinGroupRequest), join_refused(INCONSISTENT_GROUP_PROTOCOL))

    assert scene.sent(LeaveGroupRequest).body.members[0].member_id == "pending"


def test_what_a_refused_commit_shows_to_be_somebody_elses_is_lost_and_not_revoked() -> None:
    """The listener must not store, as the owner, what another member is reading by now."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.release(a=7)
    commit = scene.said(CommitBeforeRevocation)

    scene.tell(RevocationCommitted(rebalance=commit.rebalance, expelled=True))

    assert scene.said(RunRevokedCallback).loss is Loss.LOST
    assert len(scene.traced("membership.doubted")) == 1


def test_a_listener_that_raises_is_traced_and_the_rebalance_goes_on() -> None:
    """Scenario 123."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.release()
    scene.run_revoked_callback(error=ValueError("mine"))
    scene.rejoins(assigned="a-0")
    scene.apply(error=ValueError("mine too"))

    assert scene.manager.state is State.STABLE
    assert len(scene.traced("listener.failed")) == 2


def test_the_next_generation_starts_from_nothing_under_the_eager_protocol() -> None:
    scene = a_member().is_stable("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.revoke()
    scene.rejoins(generation=2, assigned="a-0")

    step = scene.apply()

    assert step.added == step.assigned == partitions("a-0")
    assert step.generation == 2


@pytest.mark.parametrize("topics", [("a", "b"), ("b",)])
def test_another_subscription_is_joined_with_at_the_next_poll(topics: tuple[str, ...]) -> None:
    """Scenario 56."""
    scene = a_member().is_stable("a-0")
    scene.subscribe(*topics)
    assert not scene.has_said(RevokePartitions)

    scene.poll()
    scene.revoke()

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    assert sorted(ConsumerProtocolSubscription.decode(offer.metadata).topics) == sorted(topics)


def test_the_same_subscription_again_is_no_reason_to_rejoin() -> None:
    scene = a_member().is_stable("a-0")

    scene.subscribe("a")
    scene.poll()

    assert scene.manager.state is State.STABLE


def test_a_subscription_that_changes_while_joining_makes_one_more_round() -> None:
    scene = a_member().wants_to_join("a")
    request = scene.sent(JoinGroupRequest)
    scene.subscribe("b")
    scene.poll()
    assert not scene.has_sent(JoinGroupRequest)
    scene.answer(request, joined())
    scene.answer(scene.sent(SyncGroupRequest), synced("a-0"))

    assert scene.apply().assigned == frozenset()

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    assert ConsumerProtocolSubscription.decode(offer.metadata).topics == ["b"]


def test_answers_to_steps_of_an_earlier_rebalance_are_dropped_and_traced() -> None:
    """Scenario 39."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    old = scene.said(RevokePartitions)
    scene.beats(UNKNOWN_MEMBER_ID)
    new = scene.said(RevokePartitions)
    assert (new.loss, new.partitions) == (Loss.LOST, old.partitions)

    scene.tell(PartitionsReleased(rebalance=old.rebalance, positions={}))
    assert not scene.has_said(RunRevokedCallback)
    assert scene.traced("step.dropped")
    scene.tell(PartitionsReleased(rebalance=new.rebalance, positions={}))

    assert scene.said(RunRevokedCallback).loss is Loss.LOST


def test_a_late_commit_answer_does_not_advance_the_next_rebalance() -> None:
    """Scenario 39."""
    scene = a_member().is_stable()
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.release(a=1)
    commit = scene.said(CommitBeforeRevocation)
    scene.beats(UNKNOWN_MEMBER_ID)

    scene.tell(RevocationCommitted(rebalance=commit.rebalance))

    assert not scene.has_said(RunRevokedCallback)
    assert scene.manager.state is State.LOSING


# -- cooperative rebalances


def test_a_cooperative_member_keeps_everything_while_it_joins_and_says_what_it_owns() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")

    scene.beats(REBALANCE_IN_PROGRESS)

    assert not scene.has_said(RevokePartitions)
    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    subscription = ConsumerProtocolSubscription.decode(offer.metadata)
    (owned,) = subscription.owned_partitions
    assert (owned.topic, owned.partitions, subscription.generation_id) == ("a", [0, 1], 1)


def test_a_cooperative_member_gives_up_what_moves_applies_the_rest_and_rejoins_at_once() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")

    step = scene.revoke(a=3)
    assert (step.partitions, step.loss) == (partitions("a-1"), Loss.REVOKED)
    applied = scene.apply()
    assert (applied.assigned, applied.added) == (partitions("a-0"), frozenset())

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    (owned,) = ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions
    assert (owned.topic, owned.partitions) == ("a", [0])


def test_a_cooperative_member_that_gives_nothing_up_does_not_rejoin() -> None:
    scene = a_stable_cooperative_member("a-0")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0 a-1", assignor="cooperative-sticky")

    step = scene.apply()

    assert (step.assigned, step.added) == (partitions("a-0 a-1"), partitions("a-1"))
    assert scene.manager.state is State.STABLE
    assert not scene.has_sent(JoinGroupRequest)


def test_topics_no_longer_subscribed_are_handed_back_before_a_cooperative_join() -> None:
    """Scenario 56."""
    scene = a_stable_cooperative_member("a-0 b-0")
    scene.subscribe("a")
    scene.poll()

    step = scene.revoke()

    assert step.partitions == partitions("b-0")
    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    (owned,) = ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions
    assert owned.topic == "a"


def test_a_member_that_lost_its_partitions_does_not_claim_them_when_it_rejoins() -> None:
    scene = a_stable_cooperative_member("a-0")
    scene.beats(UNKNOWN_MEMBER_ID)

    assert scene.revoke().loss is Loss.LOST

    offer = scene.sent(JoinGroupRequest).body.protocols[0]
    assert ConsumerProtocolSubscription.decode(offer.metadata).owned_partitions == []


def test_another_rebalance_while_the_application_applies_this_one_follows_at_once() -> None:
    """Scenarios 40 and 48: nothing is cut short, nothing is forgotten."""
    scene = a_cooperative_member().is_assigning("a-0", assignor="cooperative-sticky")
    scene.beats(REBALANCE_IN_PROGRESS)
    assert not scene.has_sent(JoinGroupRequest)

    scene.apply()

    assert "coordinator said" in scene.sent(JoinGroupRequest).body.reason


def test_what_is_kept_is_lost_if_the_group_fences_the_member_while_it_revokes() -> None:
    scene = a_stable_cooperative_member("a-0 a-1")
    scene.beats(REBALANCE_IN_PROGRESS)
    scene.rejoins(generation=2, assigned="a-0", assignor="cooperative-sticky")
    scene.release()
    scene.beats(UNKNOWN_MEMBER_ID)

    step = scene.said(RevokePartitions)

    assert (step.partitions, step.loss) == (partitions("a-0"), Loss.LOST)


def test_after_a_cooperative_assignment_heartbeats_come_quickly_and_then_at_growing_distances() -> (
    None
):
    scene = a_stable_cooperative_member("a-0")
    scene.now += 0.0001

    beats = [scene.beats().deadline for _ in range(10)]

    gaps = [round(b - a, 3) for a, b in itertools.pairwise(beats)]
    assert gaps == [0.03, 0.06, 0.12, 0.24, 0.48, 0.96, 1.92, 3.0, 3.0]


def test_the_eager_protocol_needs_no_quick_heartbeats() -> None:
    scene = a_member().is_stable()
    began = scene.now

    scene.beats()

    assert scene.now == began + 3.0
