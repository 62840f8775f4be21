"""The consumer protocol's membership manager: joining, and its eight first heartbeats.

Scenarios are those of the Java client's `ConsumerMembershipManagerTest` and
`ConsumerHeartbeatRequestManagerTest`.
"""

from __future__ import annotations

from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    Loss,
    MemberChanged,
    MemberState,
    RevokePartitions,
)
from aktor.events.network import Destination
from aktor.managers.membership.consumer.states import State
from tests.unit.managers.membership.builders import UNKNOWN_MEMBER_ID, partitions
from tests.unit.managers.membership.consumer.builders import (
    FENCED_MEMBER_EPOCH,
    a_member,
    a_stable_member,
    heard,
    row,
    tells,
)

# -- the worked exchange: eight heartbeats


def test_row_1_a_member_joins_with_epoch_0_and_all_that_the_coordinator_must_know() -> None:
    harness = a_member()

    harness.wants_to_join("a")

    request = harness.beat()
    assert row(request) == (0, 300_000, ["a"], None, frozenset())
    assert (request.body.group_id, request.body.member_id) == ("g", "m")
    assert request.to is Destination.COORDINATOR


def test_row_2_what_was_applied_is_acknowledged_at_once_and_nothing_is_said_twice() -> None:
    harness = a_member().is_reconciling("a-0 a-1")
    step = harness.apply()

    request = harness.beat()

    assert step.assigned == step.added == partitions("a-0 a-1")
    assert row(request) == (1, -1, None, None, partitions("a-0 a-1"))
    assert harness.state is State.STABLE


def test_row_3_a_member_with_nothing_new_only_says_that_it_is_there() -> None:
    harness = a_stable_member()

    request = harness.next_beat()

    assert row(request) == (1, -1, None, None, None)


def test_row_4_a_target_without_a_partition_makes_the_member_hand_it_back() -> None:
    harness = a_stable_member()

    harness.is_told("a-0")

    step = harness.said(RevokePartitions)
    assert (step.partitions, step.loss) == (partitions("a-1"), Loss.REVOKED)
    assert harness.state is State.RECONCILING


def test_row_5_the_coordinator_hears_of_it_when_it_is_committed_and_both_callbacks_have_run() -> (
    None
):
    harness = a_stable_member()
    harness.is_told("a-0")
    harness.release(a=7)
    commit = harness.said(CommitBeforeRevocation)
    harness.tell(RevocationCommitted(rebalance=commit.rebalance))
    harness.run_revoked_callback()
    assert not harness.has_beaten

    step = harness.apply()

    assert (step.assigned, step.added) == (partitions("a-0"), frozenset())
    assert row(harness.beat()) == (1, -1, None, None, partitions("a-0"))


def test_row_6_after_a_lost_answer_everything_is_said_again_and_nothing_else_changes() -> None:
    harness = a_stable_member()
    harness.is_told("a-0")
    harness.revoke(a=7)
    harness.apply()
    harness.time_out(harness.beat())

    request = harness.is_told("a-0", epoch=2)

    assert row(request) == (1, 300_000, ["a"], None, partitions("a-0"))
    assert harness.state is State.STABLE
    assert not harness.has_said(AssignPartitions)


def test_row_7_a_fenced_member_joins_again_when_the_application_has_let_go_of_everything() -> None:
    harness = a_stable_member()
    harness.is_refused(FENCED_MEMBER_EPOCH)
    assert harness.revoke().loss is Loss.LOST

    assert row(harness.beat()) == (0, 300_000, ["a"], None, frozenset())
    assert harness.state is State.JOINING


def test_row_8_the_last_heartbeat_says_goodbye_and_its_answer_ends_the_leave() -> None:
    harness = a_stable_member()

    harness.leave(ticket=7)
    request = harness.beat()
    assert (request.body.member_epoch, request.body.member_id) == (-1, "m")
    assert not harness.has_said(Answered)
    harness.answer(request, heard(-1))

    assert harness.said(Answered).ticket == 7
    assert harness.state is State.UNSUBSCRIBED


# -- joining


def test_while_the_coordinator_is_unknown_only_the_poll_timer_runs() -> None:
    """Scenario 55: it does not spin."""
    harness = a_member()
    harness.subscribe("a")
    harness.poll()

    assert harness.wake_at == harness.now + 300.0


def test_what_only_a_joining_member_says_is_the_rack_and_each_time_again() -> None:
    harness = a_member(client_rack="r1", group_remote_assignor="range", group_instance_id="i")
    harness.wants_to_join("a")
    first = harness.beat()
    harness.fail(first)
    again = harness.next_beat()
    harness.answer(again, heard(1, "a-0"))
    harness.apply()

    later = harness.beat()

    for one in (first, again):
        assert (one.body.rack_id, one.body.server_assignor) == ("r1", "range")
    assert (later.body.rack_id, later.body.server_assignor) == (None, None)
    assert {one.body.instance_id for one in (first, again, later)} == {"i"}


def test_an_empty_first_target_is_reconciled_and_acknowledged_and_runs_the_listener() -> None:
    """Scenario 45."""
    harness = a_member().is_reconciling("")

    step = harness.apply()

    assert step.assigned == step.added == frozenset()
    assert tells(harness.beat()) == frozenset()
    assert harness.state is State.STABLE


def test_no_negative_epoch_and_no_old_partition_is_said_while_joining() -> None:
    """KAFKA-19335."""
    harness = a_stable_member()
    harness.is_refused(UNKNOWN_MEMBER_ID)
    harness.revoke()

    request = harness.beat()

    assert request.body.member_epoch == 0
    assert tells(request) == frozenset()


def test_the_member_id_is_kept_whatever_the_coordinator_says_and_through_fencing() -> None:
    """KIP-1082, KAFKA-17116."""
    harness = a_member()
    harness.wants_to_join("a")
    answer = heard(1, "a-0")
    answer.member_id = "another"
    harness.answer(harness.beat(), answer)
    harness.apply()
    assert harness.beat().body.member_id == "m"

    fenced = a_stable_member()
    fenced.is_refused(FENCED_MEMBER_EPOCH)
    fenced.revoke()

    assert fenced.beat().body.member_id == "m"


def test_others_are_told_who_we_are_only_when_it_changed() -> None:
    """Scenario 51."""
    harness = a_member().is_reconciling("a-0", epoch=3)
    harness.forget()
    harness.tell(CallbackFinished(rebalance=1, assigned=True))
    said = harness.said(MemberChanged)
    assert (said.member_id, said.generation, said.state) == ("m", 3, MemberState.STABLE)
    assert said.protocol == "consumer"

    harness.is_told(epoch=3)
    assert not harness.has_said(MemberChanged)
    harness.is_told(epoch=4)

    assert harness.said(MemberChanged).generation == 4


# -- the subscription changes


def test_other_topics_are_said_at_once_and_nothing_else() -> None:
    harness = a_stable_member().is_quiet()

    harness.subscribe("a", "b")

    assert row(harness.beat()) == (1, -1, ["a", "b"], None, None)
    assert harness.state is State.STABLE


def test_a_subscription_that_changes_while_joining_is_said_with_the_heartbeat_after() -> None:
    harness = a_member()
    harness.wants_to_join("a")
    request = harness.beat()

    harness.subscribe("b")
    harness.answer(request, heard(1, "a-0"))

    assert harness.next_beat().body.subscribed_topic_names == ["b"]


def test_topics_that_change_while_a_heartbeat_is_in_flight_are_said_with_its_answer() -> None:
    """And not an interval later."""
    harness = a_stable_member().is_quiet()
    beat = harness.next_beat()
    harness.subscribe("a", "b")
    assert not harness.has_beaten

    harness.answer(beat, heard())

    assert row(harness.beat()) == (1, -1, ["a", "b"], None, None)


def test_the_same_topics_again_are_not_said() -> None:
    harness = a_stable_member().is_quiet()

    harness.subscribe("a")

    assert row(harness.beat()) == (1, -1, None, None, None)
