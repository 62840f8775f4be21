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
    NotingListener,
    RaisingListener,
    Site,
    a_member,
    a_restart,
    a_site,
    an_assignment,
    resolved,
)
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


def test_a_repair_tells_which_partitions_are_paused_and_which_are_not() -> None:
    """The interrupted call may have been `pause` or `resume`."""
    site = a_site(A, B)
    site.engine.pause([B], paused=True)
    site.forget()

    site.engine.recovery.repair()

    assert site.of(PausePartitions) == [
        PausePartitions(partitions=frozenset({B}), resumed=frozenset({A}))
    ]


def test_a_call_that_acts_on_a_restart_has_changed_something() -> None:
    """So it is repaired if it is interrupted then, even if it is one that only asks."""
    site = a_site(A)
    site.hear(a_restart("fetch"))
    site.engine.begin_call()

    site.run(site.engine.recovery.restore_if_restarted())

    assert site.engine.call.touched


def test_restarted_actors_hear_everything_again_in_new_epochs() -> None:
    site = a_site(A, B)
    site.engine.seek(B, Position(offset=40))
    site.engine.delivery.partitions[B].paused = True
    site.forget()

    site.hear(a_restart("fetch"))
    site.poll()

    again = {
        A: Assigned(epoch=4, position=Position(offset=0)),
        B: Assigned(epoch=5, position=Position(offset=40)),
    }
    assert site.said == [
        TrackTopics(owner="application", topics=ORDERS),
        AssignmentChanged(partitions=again),
        PausePartitions(partitions=frozenset({B})),
        Poll(
            now=100.0,
            positions={A: OffsetAndMetadata(0, "", -1), B: OffsetAndMetadata(40, "", -1)},
            freed_bytes=0,
        ),
    ]
    assert site.wakes[-1]


def test_what_was_buffered_before_a_restart_is_dropped_and_fetched_again() -> None:
    site = a_site()
    site.fetched(a_chunk())
    site.hear(a_restart("fetch"))

    assert site.poll() == {}

    site.fetched(a_chunk(epoch=2))
    assert site.poll() == {A: [0, 1, 2]}


def test_a_restarted_fetch_manager_is_not_told_what_was_freed_of_its_predecessors() -> None:
    """It has counted none of that: it would fetch as much too much."""
    site = a_site(A, B)
    site.fetched(a_chunk(partition=B))
    site.engine.positions.drain_buffer()
    site.fetched(a_chunk())  # has come and was not looked at
    site.hear(a_restart("fetch"))

    site.poll()
    assert {one.incarnation for one in site.of(Poll)} == {1}

    epoch = site.engine.delivery.partitions[A].epoch
    site.fetched(replace(a_chunk(epoch=epoch, count=5), incarnation=2))
    site.poll()
    site.poll()
    last = site.of(Poll)[-1]
    assert (last.incarnation, last.freed_bytes) == (2, a_chunk(count=5).size)


def test_what_a_new_fetch_manager_sent_before_its_start_was_heard_of_is_given_back() -> None:
    """It may have fetched by an assignment that was told before. It would have less room for ever
    if that were forgotten with what its predecessor sent."""
    site = a_site(A, B)
    site.fetched(a_chunk(partition=B))
    site.engine.positions.drain_buffer()
    site.fetched(new := replace(a_chunk(), incarnation=2))
    site.hear(a_restart("fetch"))

    site.poll()
    site.poll()

    last = site.of(Poll)[-1]
    assert (last.incarnation, last.freed_bytes) == (2, new.size)


def test_a_reset_that_was_not_answered_is_repeated_after_a_restart() -> None:
    site = a_site(A, B)
    site.engine.reset([A], ResetStrategy.EARLIEST)
    site.engine.reset([B], ResetStrategy.LATEST)
    site.found(B, offset=9)
    site.poll()
    site.forget()

    site.hear(a_restart("positions", "fetch"))
    site.poll()

    (told,) = site.of(ResetPositions)
    (assigned,) = site.of(AssignmentChanged)
    epoch = assigned.partitions[A].epoch
    assert told.partitions == {A: Reset(epoch=epoch, strategy=ResetStrategy.EARLIEST)}


def test_a_restarted_membership_is_joined_again_under_the_last_known_member_id() -> None:
    site = a_member()
    listener = _Noting()
    site.engine.rebalancing.listener = listener

    site.hear(a_restart("membership", "commits", "positions", "fetch"))
    site.poll()

    assert listener.lost == [{A}]
    assert site.engine.delivery.partitions == {}
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=ORDERS, member_id="m-1")]


def test_a_restarted_membership_is_told_as_whom_it_has_yet_to_leave() -> None:
    site = a_member()
    former = frozenset({"m-0"})
    site.hear(
        MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE, leaving=former)
    )

    site.hear(a_restart("membership", "commits", "positions", "fetch"))
    site.poll()

    (said,) = site.of(SubscriptionChanged)
    assert said.leaving == former


def test_of_one_who_has_unsubscribed_it_is_told_as_well_and_joins_nothing() -> None:
    site = a_site(group_id="g")
    former = frozenset({"m-0"})
    unjoined = MemberState.UNJOINED
    site.hear(MemberChanged(member_id="", generation=-1, state=unjoined, leaving=former))

    site.hear(a_restart("membership", "commits", "positions", "fetch"))
    site.poll()

    (said,) = site.of(SubscriptionChanged)
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
    site = a_member()
    site.hear(an_assignment(A, B, rebalance=2), a_restart("membership", "fetch"))
    site.port.events.rotate(1)  # the restart is read first, the step came before it

    site.poll()

    assert site.engine.delivery.partitions == {}
    assert site.of(CallbackFinished) == []


def test_what_was_to_be_revoked_is_lost_if_the_membership_ended_before_the_user_came_back() -> None:
    site = a_member()
    listener = site.engine.rebalancing.listener = _Noting()
    site.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        RevokePartitions(
            rebalance=2, partitions=frozenset({B}), loss=Loss.LOST, because="too late"
        ),
    )

    site.poll()

    assert listener.lost == [{A}]


def test_what_was_to_be_revoked_is_lost_if_the_member_is_in_no_group_any_more() -> None:
    site = a_member()
    listener = site.engine.rebalancing.listener = _Noting()
    site.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED),
    )

    site.poll()

    assert listener.lost == [{A}]


def test_what_was_to_be_revoked_is_lost_if_the_session_has_run_out_unheard() -> None:
    """Simulation, seed 15000820: frozen before its callback ran, it gave up what others had."""
    site = a_member(confirmed_until=145.0)
    listener = site.engine.rebalancing.listener = _Noting()
    site.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))
    site.clock.now += 50.0

    site.poll()

    assert listener.lost == [{A}]


def test_what_the_listener_raises_for_lost_partitions_is_raised_after_all_was_said() -> None:
    site = a_member()
    site.engine.rebalancing.tell(RaisingListener())

    site.hear(a_restart("membership"))
    with pytest.raises(UserCallbackError):
        site.poll()

    assert site.of(SubscriptionChanged)
    assert site.of(PausePartitions)


def test_a_callback_of_taking_on_that_finds_the_membership_restarted_loses_everything() -> None:
    site = a_member()
    listener = site.engine.rebalancing.listener = _LookingUp(site, "assigned")
    site.hear(an_assignment(A, B, rebalance=2))

    site.poll()

    assert listener.heard == ["assigned", "lost"]
    assert site.engine.delivery.partitions == {}
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=ORDERS, member_id="m-1")]


def test_what_is_being_revoked_is_not_told_to_be_lost_too() -> None:
    """Simulation, seed 2200515: the membership was restarted while the callback committed."""
    for added, told in (((), []), ((B,), [("lost", {B})])):
        site = a_member()
        if added:
            site.hear(an_assignment(A, *added))
            site.poll()
        listener = site.engine.rebalancing.listener = _Revoked(site)
        step = RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED)
        site.hear(step)

        with pytest.raises(UserCallbackError) as raised:
            site.poll()

        assert listener.told == [("revoked", {A}), *told]
        assert isinstance(raised.value.__cause__, CommitFailedError)
        assert site.engine.delivery.partitions == {}


class _Revoked(ConsumerRebalanceListener):
    """Commits in vain when it is told that partitions are revoked: the membership is restarted."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.told: list[tuple[str, Any]] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.told.append(("revoked", revoked))
        self.site.hear(a_restart("membership"))
        self.site.run(self.site.engine.recovery.restore_if_restarted())
        raise CommitFailedError

    def on_partitions_lost(self, lost: Any) -> None:
        self.told.append(("lost", lost))

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise AssertionError("nothing is assigned")


def test_a_restart_that_a_callback_has_dealt_with_is_over() -> None:
    site = a_member()
    site.engine.rebalancing.listener = _LookingUp(site, "lost")
    site.hear(a_restart("membership"), a_restart("fetch"))

    site.run(site.engine.recovery.restore_if_restarted())

    assert site.engine.delivery.partitions == {}
    assert len(site.of(TrackTopics)) == 3


class _LookingUp(NotingListener):
    """Asks for something in this callback, during which an actor is restarted."""

    def __init__(self, site: Site, callback: str) -> None:
        super().__init__()
        self.site, self.callback = site, callback

    def on_partitions_assigned(self, assigned: Any) -> None:
        super().on_partitions_assigned(assigned)
        self.look_up("assigned", a_restart("membership"))

    def on_partitions_lost(self, lost: Any) -> None:
        super().on_partitions_lost(lost)
        self.look_up("lost", a_restart("commits"))

    def look_up(self, callback: str, restart: ActorsRestarted) -> None:
        if callback == self.callback:
            self.site.hear(restart)
            self.site.run(self.site.engine.recovery.restore_if_restarted())


def test_position_says_everything_again_before_it_waits() -> None:
    site = Site()
    site.assign([A])
    site.hear(a_restart("positions", "fetch"))
    site.forget()
    site.hear_at(101.0, resolved(epoch=2, offset=6))

    assert site.position(A, 110.0) == 6
    assert site.of(AssignmentChanged) == [AssignmentChanged(partitions={A: Assigned(epoch=2)})]
