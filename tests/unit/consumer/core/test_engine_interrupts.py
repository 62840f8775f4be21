"""What holds after an interrupt, or after actors were restarted."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.errors import CommitFailedError
from kafka.structs import OffsetAndMetadata

from aktor.errors import UserCallbackError
from aktor.events.fetching import PausePartitions
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    CallbackFinished,
    Loss,
    MemberChanged,
    MemberState,
    RevokePartitions,
    RunRevokedCallback,
    SubscriptionChanged,
)
from aktor.events.metadata import TrackTopics
from aktor.events.polling import Poll
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Position,
    Reset,
    ResetPositions,
    ResetStrategy,
)
from aktor.values import replace
from tests.unit.consumer.core.builders import (
    ORDERS,
    EngineHarness,
    NotingListener,
    RaisingListener,
    a_consumer,
    a_member,
    a_restart,
    an_assignment,
    resolved,
)
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


def test_a_repair_tells_which_partitions_are_paused_and_which_are_not() -> None:
    """The interrupted call may have been `pause` or `resume`."""
    harness = a_consumer(A, B)
    harness.engine.pause([B], paused=True)
    harness.forget()

    harness.engine.recovery.repair()

    assert harness.of(PausePartitions) == [
        PausePartitions(partitions=frozenset({B}), resumed=frozenset({A}))
    ]


def test_restarted_actors_hear_everything_again_in_new_epochs() -> None:
    harness = a_consumer(A, B)
    harness.engine.seek(B, Position(offset=40))
    harness.engine.delivery.partitions[B].paused = True
    harness.forget()

    harness.hear(a_restart("fetch"))
    harness.poll()

    again = {
        A: Assigned(epoch=4, position=Position(offset=0)),
        B: Assigned(epoch=5, position=Position(offset=40)),
    }
    assert harness.said == [
        TrackTopics(owner="application", topics=ORDERS),
        AssignmentChanged(partitions=again),
        PausePartitions(partitions=frozenset({B})),
        Poll(
            now=100.0,
            positions={A: OffsetAndMetadata(0, "", -1), B: OffsetAndMetadata(40, "", -1)},
            freed_bytes=0,
        ),
    ]
    assert harness.wakes[-1]


def test_what_was_buffered_before_a_restart_is_dropped_and_fetched_again() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())
    harness.hear(a_restart("fetch"))

    assert harness.poll() == {}

    harness.fetched(a_chunk(epoch=2))
    assert harness.poll() == {A: [0, 1, 2]}


@pytest.mark.parametrize("after", ["an interrupt", "a restart"])
def test_the_leader_epochs_of_what_was_given_out_are_still_known_after(after: str) -> None:
    """They tell later whether the next leader has these records (KIP-320)."""
    harness = a_consumer()
    harness.fetched(a_chunk())
    assert harness.poll() == {A: [0, 1, 2]}
    harness.engine.delivery.accept()

    if after == "an interrupt":
        harness.engine.recovery.repair()
    else:
        harness.hear(a_restart("fetch"))
        harness.poll()

    common = harness.engine.delivery.partitions[A].common_with(Position(offset=9, leader_epoch=4))
    assert common == Position(offset=0, leader_epoch=4)


def test_a_restarted_fetch_manager_is_not_told_what_was_freed_of_its_predecessors() -> None:
    """It has counted none of that: it would fetch as much too much."""
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(partition=B))
    harness.engine.positions.drain_buffer()
    harness.fetched(a_chunk())  # has come and was not looked at
    harness.hear(a_restart("fetch"))

    harness.poll()
    assert {one.incarnation for one in harness.of(Poll)} == {1}

    epoch = harness.engine.delivery.partitions[A].epoch
    harness.fetched(replace(a_chunk(epoch=epoch, count=5), incarnation=2))
    harness.poll()
    harness.poll()
    last = harness.of(Poll)[-1]
    assert (last.incarnation, last.freed_bytes) == (2, a_chunk(count=5).size)


def test_what_a_new_fetch_manager_sent_before_its_start_was_heard_of_is_given_back() -> None:
    """It may have fetched by an assignment that was told before. It would have less room for ever
    if that were forgotten with what its predecessor sent."""
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(partition=B))
    harness.engine.positions.drain_buffer()
    harness.fetched(new := replace(a_chunk(), incarnation=2))
    harness.hear(a_restart("fetch"))

    harness.poll()
    harness.poll()

    last = harness.of(Poll)[-1]
    assert (last.incarnation, last.freed_bytes) == (2, new.size)


def test_a_reset_that_was_not_answered_is_repeated_after_a_restart() -> None:
    harness = a_consumer(A, B)
    harness.engine.reset([A], ResetStrategy.EARLIEST)
    harness.engine.reset([B], ResetStrategy.LATEST)
    harness.found(B, offset=9)
    harness.poll()
    harness.forget()

    harness.hear(a_restart("positions", "fetch"))
    harness.poll()

    (told,) = harness.of(ResetPositions)
    (assigned,) = harness.of(AssignmentChanged)
    epoch = assigned.partitions[A].epoch
    assert told.partitions == {A: Reset(epoch=epoch, strategy=ResetStrategy.EARLIEST)}


def test_a_restarted_membership_is_joined_again_under_the_last_known_member_id() -> None:
    harness = a_member()
    listener = _Noting()
    harness.engine.rebalancing.listener = listener

    harness.hear(a_restart("membership", "commits", "positions", "fetch"))
    harness.poll()

    assert listener.lost == [{A}]
    assert harness.engine.delivery.partitions == {}
    assert harness.of(SubscriptionChanged) == [SubscriptionChanged(topics=ORDERS, member_id="m-1")]


def test_a_restarted_membership_is_told_as_whom_it_has_yet_to_leave() -> None:
    harness = a_member()
    former = frozenset({"m-0"})
    harness.hear(
        MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE, leaving=former)
    )

    harness.hear(a_restart("membership", "commits", "positions", "fetch"))
    harness.poll()

    (said,) = harness.of(SubscriptionChanged)
    assert said.leaving == former


def test_of_one_who_has_unsubscribed_it_is_told_as_well_and_joins_nothing() -> None:
    harness = a_consumer(group_id="g")
    former = frozenset({"m-0"})
    unjoined = MemberState.UNJOINED
    harness.hear(MemberChanged(member_id="", generation=-1, state=unjoined, leaving=former))

    harness.hear(a_restart("membership", "commits", "positions", "fetch"))
    harness.poll()

    (said,) = harness.of(SubscriptionChanged)
    assert said == SubscriptionChanged(topics=frozenset(), leaving=former)


class _Noting(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.lost: list[Any] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        raise AssertionError("they are lost, not revoked")

    def on_partitions_lost(self, lost: Any) -> None:
        self.lost.append(lost)

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise AssertionError("nothing is assigned")


def test_steps_of_a_membership_that_is_gone_are_not_taken() -> None:
    harness = a_member()
    harness.hear(an_assignment(A, B, rebalance=2), a_restart("membership", "fetch"))
    harness.port.events.rotate(1)  # the restart is read first, the step came before it

    harness.poll()

    assert harness.engine.delivery.partitions == {}
    assert harness.of(CallbackFinished) == []


def test_what_was_to_be_revoked_is_lost_if_the_membership_ended_before_the_user_came_back() -> None:
    harness = a_member()
    listener = harness.engine.rebalancing.listener = _Noting()
    harness.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        RevokePartitions(
            rebalance=2, partitions=frozenset({B}), loss=Loss.LOST, because="too late"
        ),
    )

    harness.poll()

    assert listener.lost == [{A}]


def test_what_was_to_be_revoked_is_lost_if_the_member_is_in_no_group_any_more() -> None:
    harness = a_member()
    listener = harness.engine.rebalancing.listener = _Noting()
    harness.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED),
    )

    harness.poll()

    assert listener.lost == [{A}]


def test_what_was_to_be_revoked_is_lost_if_the_session_has_run_out_unheard() -> None:
    """Simulation, seed 15000820: frozen before its callback ran, it gave up what others had."""
    harness = a_member(confirmed_until=145.0)
    listener = harness.engine.rebalancing.listener = _Noting()
    harness.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))
    harness.clock.now += 50.0

    harness.poll()

    assert listener.lost == [{A}]


def test_what_the_listener_raises_for_lost_partitions_is_raised_after_all_was_said() -> None:
    harness = a_member()
    harness.engine.rebalancing.set_listener(RaisingListener())

    harness.hear(a_restart("membership"))
    with pytest.raises(UserCallbackError):
        harness.poll()

    assert harness.of(SubscriptionChanged)
    assert harness.of(PausePartitions)


def test_a_callback_of_taking_on_that_finds_the_membership_restarted_loses_everything() -> None:
    harness = a_member()
    listener = harness.engine.rebalancing.listener = _LookingUp(harness, "assigned")
    harness.hear(an_assignment(A, B, rebalance=2))

    harness.poll()

    assert listener.heard == ["assigned", "lost"]
    assert harness.engine.delivery.partitions == {}
    assert harness.of(SubscriptionChanged) == [SubscriptionChanged(topics=ORDERS, member_id="m-1")]


def test_what_is_being_revoked_is_not_told_to_be_lost_too() -> None:
    """Simulation, seed 2200515: the membership was restarted while the callback committed."""
    for added, told in (((), []), ((B,), [("lost", {B})])):
        harness = a_member()
        if added:
            harness.hear(an_assignment(A, *added))
            harness.poll()
        listener = harness.engine.rebalancing.listener = _Revoked(harness)
        step = RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED)
        harness.hear(step)

        with pytest.raises(UserCallbackError) as raised:
            harness.poll()

        assert listener.told == [("revoked", {A}), *told]
        assert isinstance(raised.value.__cause__, CommitFailedError)
        assert harness.engine.delivery.partitions == {}


class _Revoked(ConsumerRebalanceListener):
    """Commits in vain when it is told that partitions are revoked: the membership is restarted."""

    def __init__(self, harness: EngineHarness) -> None:
        self.harness = harness
        self.told: list[tuple[str, Any]] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.told.append(("revoked", revoked))
        self.harness.hear(a_restart("membership"))
        self.harness.run(self.harness.engine.recovery.restore_if_restarted())
        raise CommitFailedError

    def on_partitions_lost(self, lost: Any) -> None:
        self.told.append(("lost", lost))

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise AssertionError("nothing is assigned")


def test_a_restart_that_a_callback_has_dealt_with_is_over() -> None:
    harness = a_member()
    harness.engine.rebalancing.listener = _LookingUp(harness, "lost")
    harness.hear(a_restart("membership"), a_restart("fetch"))

    harness.run(harness.engine.recovery.restore_if_restarted())

    assert harness.engine.delivery.partitions == {}
    assert len(harness.of(TrackTopics)) == 3


class _LookingUp(NotingListener):
    """Asks for something in this callback, during which an actor is restarted."""

    def __init__(self, harness: EngineHarness, callback: str) -> None:
        super().__init__()
        self.harness, self.callback = harness, callback

    def on_partitions_assigned(self, assigned: Any) -> None:
        super().on_partitions_assigned(assigned)
        self.look_up("assigned", a_restart("membership"))

    def on_partitions_lost(self, lost: Any) -> None:
        super().on_partitions_lost(lost)
        self.look_up("lost", a_restart("commits"))

    def look_up(self, callback: str, restart: ActorsRestarted) -> None:
        if callback == self.callback:
            self.harness.hear(restart)
            self.harness.run(self.harness.engine.recovery.restore_if_restarted())


def test_position_says_everything_again_before_it_waits() -> None:
    harness = EngineHarness()
    harness.assign([A])
    harness.hear(a_restart("positions", "fetch"))
    harness.forget()
    harness.hear_at(101.0, resolved(epoch=2, offset=6))

    assert harness.position(A, 110.0) == 6
    assert harness.of(AssignmentChanged) == [AssignmentChanged(partitions={A: Assigned(epoch=2)})]


class _Alarmed(NotingListener):
    """A signal handler raises just before it is called of a revocation, once."""

    armed = True

    def __getattribute__(self, name: str) -> Any:
        if name == "on_partitions_revoked" and self.armed:
            self.armed = False
            raise ZeroDivisionError
        return super().__getattribute__(name)


def test_who_only_attends_after_an_interrupted_unsubscribe_has_unsubscribed() -> None:
    """Also if the group has assigned partitions meanwhile: asyncio's `start` takes part so."""
    harness = a_member()
    listener = harness.engine.rebalancing.listener = _Alarmed()
    with pytest.raises(ZeroDivisionError):
        harness.unsubscribe(110.0)
    harness.hear(an_assignment(A, B, rebalance=2))

    harness.run(harness.engine.attend(100.0, lambda: True))

    assert listener.heard == ["revoked"]
    assert harness.engine.delivery.partitions == {}
    assert harness.engine.subscribed_topics is None


def test_what_the_listener_raises_when_a_poll_finishes_an_unsubscribe_is_raised_by_that() -> None:
    class Raising(_Alarmed):
        def on_partitions_revoked(self, revoked: Any) -> None:
            super().on_partitions_revoked(revoked)
            raise ValueError

    harness = a_member()
    listener = harness.engine.rebalancing.listener = Raising()
    with pytest.raises(ZeroDivisionError):
        harness.unsubscribe(110.0)

    with pytest.raises(UserCallbackError):
        harness.poll()

    assert harness.poll() == {}
    assert listener.heard == ["revoked"]
    assert harness.engine.subscribed_topics is None
