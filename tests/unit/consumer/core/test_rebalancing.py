"""Each step of a rebalance on the application's side: what is answered, what the listener sees."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import pytest
from kafka import ConsumerRebalanceListener
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.dispatcher import Bell, VirtualTime
from aktor.consumer.core.delivery import Delivery
from aktor.consumer.core.port import ApplicationPort
from aktor.consumer.core.rebalancing import Rebalancing
from aktor.consumer.core.subscription import TopicIds
from aktor.consumer.core.waiting import Blocking, Waiting
from aktor.errors import UserCallbackError, WakeupError
from aktor.events.fetching import PausePartitions
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    Loss,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
)
from aktor.events.metadata import Cluster, ClusterChanged, TopicInfo
from aktor.events.positions import Assigned, AssignmentChanged, Position
from aktor.trace import recording, silent
from aktor.values import replace
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, offsets, read
from tests.unit.consumer.core.builders_delivery import a_delivery, interrupted_at

T = TypeVar("T")


class Listener(ConsumerRebalanceListener):
    """Writes down what it is called with, and what is assigned at that moment."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.calls: list[tuple[str, set[TopicPartition], set[TopicPartition]]] = []

    def note(self, name: str, partitions: Any) -> None:
        self.calls.append((name, partitions, set(self.delivery.partitions)))

    def on_partitions_revoked(self, revoked: Any) -> Any:
        self.note("revoked", revoked)

    def on_partitions_assigned(self, assigned: Any) -> Any:
        self.note("assigned", assigned)

    def on_partitions_lost(self, lost: Any) -> None:
        self.note("lost", lost)


class AsyncListener(Listener):
    """The same, in coroutines that really wait."""

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await asyncio.sleep(0)
        self.note("revoked", revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await asyncio.sleep(0)
        self.note("assigned", assigned)


class Raising(ConsumerRebalanceListener):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def on_partitions_revoked(self, revoked: Any) -> Any:
        raise self.error

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise self.error


class AsyncRaising(Raising):
    async def on_partitions_revoked(self, revoked: Any) -> None:
        raise self.error


def drive(waiting: Waiting[T]) -> T:
    """Run it to its end."""
    return Blocking(Bell(), VirtualTime(0.0)).run(waiting)


def topic_ids() -> TopicIds:
    """None is known."""
    return TopicIds(ApplicationPort(Bell(), silent()))


def a_rebalancing(delivery: Delivery, listener: Any = None) -> tuple[Rebalancing, list[object]]:
    """And the list of what it says."""
    said: list[object] = []
    rebalancing = Rebalancing(delivery, said.append, silent(), VirtualTime(0.0), topic_ids())
    rebalancing.set_listener(listener)
    return rebalancing, said


def revoke(*partitions: TopicPartition, loss: Loss = Loss.REVOKED) -> RevokePartitions:
    return RevokePartitions(
        rebalance=7, partitions=frozenset(partitions), loss=loss, because="somebody joined"
    )


def revoked(*partitions: TopicPartition, loss: Loss = Loss.REVOKED) -> RunRevokedCallback:
    return RunRevokedCallback(rebalance=7, partitions=frozenset(partitions), loss=loss)


def assign(*added: TopicPartition, kept: tuple[TopicPartition, ...] = ()) -> AssignPartitions:
    return AssignPartitions(
        rebalance=7, assigned=frozenset(added + kept), added=frozenset(added), generation=3
    )


def must_succeed(step: AssignPartitions) -> AssignPartitions:
    """As the consumer protocol asks for it."""
    return replace(step, must_succeed=True)


def a_delivery_that_gave_two_records() -> Delivery:
    """A stands at 2 with one more record buffered, B at 0."""
    delivery = a_delivery(A, B)
    delivery.put(a_chunk(A))
    delivery.take(2)
    return delivery


# -- stop delivering


def test_revoking_answers_with_the_consumed_positions_and_stops_delivery_and_fetching() -> None:
    delivery = a_delivery_that_gave_two_records()
    rebalancing, said = a_rebalancing(delivery)

    assert drive(rebalancing.run(revoke(A))) is None

    positions = {A: OffsetAndMetadata(2, "", 5)}
    assert said == [
        PartitionsReleased(rebalance=7, positions=positions),
        PausePartitions(partitions=frozenset({A})),
    ]
    assert delivery.take(10) == {}


def test_nothing_is_committed_for_what_is_lost() -> None:
    rebalancing, said = a_rebalancing(a_delivery_that_gave_two_records())

    drive(rebalancing.run(revoke(A, loss=Loss.LOST)))

    assert said[0] == PartitionsReleased(rebalance=7, positions={})


def test_stopping_delivery_runs_no_callback_and_keeps_the_assignment() -> None:
    delivery = a_delivery(A, B)
    listener = Listener(delivery)
    rebalancing, _ = a_rebalancing(delivery, listener)

    drive(rebalancing.run(revoke(A)))

    assert listener.calls == []
    assert set(delivery.partitions) == {A, B}


# -- what is taken and given back


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("now", [1, 2, None], ids=["the same topic", "anew", "not known"])
def test_where_we_stood_is_told_with_what_is_given_back_of_the_same_topic(
    loss: Loss, now: int | None
) -> None:
    port = ApplicationPort(Bell(), silent())
    delivery, said = a_delivery_that_gave_two_records(), list[Any]()
    ids = TopicIds(port)
    rebalancing = Rebalancing(delivery, said.append, silent(), VirtualTime(0.0), ids)
    port.tell(a_cluster_with(1))
    ids.note({A.topic})

    drive(rebalancing.run(revoked(A, loss=loss)))
    port.tell(a_cluster_with(now))
    drive(rebalancing.run(assign(A, kept=(B,))))
    first = said[-2].partitions[A]
    drive(rebalancing.run(revoked(A, loss=loss)))  # before its position was found
    drive(rebalancing.run(assign(A, kept=(B,))))

    left = Position(offset=2, leader_epoch=5) if now == 1 else None
    assert (first.position, first.left) == (None, left)
    assert said[-2].partitions[A].left == left
    assert said[-2].partitions[B].left is None


def test_where_we_stood_does_not_count_after_another_assignment_or_once_all_is_given_up() -> None:
    port = ApplicationPort(Bell(), silent())
    port.tell(a_cluster_with(1))
    delivery, said = a_delivery_that_gave_two_records(), list[Any]()
    ids = TopicIds(port)
    ids.note({A.topic})
    rebalancing = Rebalancing(delivery, said.append, silent(), VirtualTime(0.0), ids)
    drive(rebalancing.run(revoked(A)))
    drive(rebalancing.run(assign(kept=(B,))))
    drive(rebalancing.run(assign(A, kept=(B,))))
    assert said[-2].partitions[A].left is None

    drive(rebalancing.run(revoked(B)))
    rebalancing.forget_left()
    drive(rebalancing.run(assign(B, kept=(A,))))
    assert said[-2].partitions[B].left is None


def a_cluster_with(topic_id: int | None) -> ClusterChanged:
    """A cluster that has the topic with this id, or does not have it."""
    info = TopicInfo(topic_id=UUID(int=topic_id or 0), partitions={})
    return ClusterChanged(cluster=Cluster(topics={} if topic_id is None else {A.topic: info}))


# -- the revoked callback


def test_the_revoked_callback_sees_the_partitions_still_assigned_and_then_they_go() -> None:
    delivery = a_delivery(A, B)
    listener = Listener(delivery)
    rebalancing, said = a_rebalancing(delivery, listener)

    assert drive(rebalancing.run(revoked(A))) is None

    assert listener.calls == [("revoked", {A}, {A, B})]
    assert said == [
        AssignmentChanged(
            partitions={B: Assigned(epoch=2, position=Position(offset=0))}, by_group=True
        ),
        CallbackFinished(rebalance=7),
    ]


def test_lost_partitions_are_told_to_the_lost_callback() -> None:
    delivery = a_delivery(A)
    listener = Listener(delivery)
    rebalancing, _ = a_rebalancing(delivery, listener)

    drive(rebalancing.run(revoked(A, loss=Loss.LOST)))

    assert [name for name, *_ in listener.calls] == ["lost"]


def test_a_listener_without_a_lost_callback_is_told_of_lost_partitions_as_revoked() -> None:
    class Plain(ConsumerRebalanceListener):
        def __init__(self) -> None:
            self.revoked: list[Any] = []

        def on_partitions_revoked(self, revoked: Any) -> None:
            self.revoked.append(revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            raise AssertionError("nothing was assigned")

    delivery, listener = a_delivery(A), Plain()
    rebalancing, _ = a_rebalancing(delivery, listener)

    assert drive(rebalancing.run(revoked(A, loss=Loss.LOST))) is None

    assert listener.revoked == [{A}]


def test_partitions_that_are_not_owned_are_not_told_to_the_listener() -> None:
    delivery = a_delivery(A)
    listener = Listener(delivery)
    rebalancing, said = a_rebalancing(delivery, listener)

    drive(rebalancing.run(revoked(B)))
    assert listener.calls == []
    assert said[-1] == CallbackFinished(rebalance=7)

    drive(rebalancing.run(revoked(A, B)))
    assert [partitions for _, partitions, _ in listener.calls] == [{A}]


def test_nothing_is_delivered_of_what_goes_while_its_callback_runs() -> None:
    delivery = a_delivery(A, B)
    seen: list[frozenset[TopicPartition]] = []

    class Looking(Listener):
        def on_partitions_lost(self, lost: Any) -> None:
            seen.append(delivery.fetchable(delivery.partitions))

    rebalancing, _ = a_rebalancing(delivery, Looking(delivery))

    drive(rebalancing.revoke(frozenset({A}), Loss.LOST))

    assert seen == [{B}]


def test_a_listener_without_a_method_for_lost_partitions_is_told_that_they_are_revoked() -> None:
    """aiokafka's have none, and are told of every loss so."""
    seen: list[Any] = []

    class Old:
        def on_partitions_assigned(self, assigned: Any) -> None:
            """Not of interest."""

        def on_partitions_revoked(self, revoked: Any) -> None:
            seen.append(revoked)

    rebalancing, _ = a_rebalancing(a_delivery(A), Old())

    assert drive(rebalancing.revoke(frozenset({A}), Loss.LOST)) is None

    assert seen == [{A}]


def test_after_an_interrupt_at_any_line_of_a_revocation_the_listener_hears_of_the_next() -> None:
    """Simulation, seed 2600191: else it would hear of no revocation any more."""
    for line in itertools.count(1):
        delivery = a_delivery(A)
        listener = Listener(delivery)
        rebalancing, _ = a_rebalancing(delivery, listener)
        with interrupted_at(line, Rebalancing.revoke) as happened:
            drive(rebalancing.revoke(frozenset({A}), Loss.LOST))
        rebalancing.repair()
        delivery.assign([A])

        drive(rebalancing.run(revoked(A)))

        assert listener.calls[-1][:2] == ("revoked", {A})
        if not happened:
            return


def test_positions_can_be_read_in_the_revoked_callback() -> None:
    delivery = a_delivery_that_gave_two_records()
    seen: list[Any] = []

    class Committing(Listener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            seen.append(delivery.consumed(revoked))

    rebalancing, _ = a_rebalancing(delivery, Committing(delivery))

    drive(rebalancing.run(revoke(A)))
    drive(rebalancing.run(revoked(A)))

    assert seen == [{A: OffsetAndMetadata(2, "", 5)}]


# -- the assigned callback


def test_assigning_tells_the_background_before_the_callback_and_answers_after_it() -> None:
    delivery = Delivery(read, silent())
    said: list[object] = []
    listener = Listener(delivery)
    rebalancing = Rebalancing(delivery, said.append, silent(), VirtualTime(0.0), topic_ids())
    rebalancing.set_listener(listener)
    listener.note = lambda name, partitions: said.append((name, partitions))  # type: ignore[method-assign]

    assert drive(rebalancing.run(assign(A, B))) is None

    both = {A: Assigned(epoch=1), B: Assigned(epoch=2)}
    assert said == [
        AssignmentChanged(partitions=both, by_group=True),
        ("assigned", {A, B}),
        CallbackFinished(rebalance=7, assigned=True),
    ]


def test_the_assigned_callback_sees_all_partitions_and_is_told_the_new_ones() -> None:
    delivery = a_delivery(A)
    listener = Listener(delivery)
    rebalancing, _ = a_rebalancing(delivery, listener)

    drive(rebalancing.run(assign(B, kept=(A,))))

    assert listener.calls == [("assigned", {B}, {A, B})]


def test_the_assigned_callback_runs_also_if_nothing_is_new() -> None:
    delivery = a_delivery(A)
    listener = Listener(delivery)
    rebalancing, _ = a_rebalancing(delivery, listener)

    drive(rebalancing.run(assign(kept=(A,))))

    assert listener.calls == [("assigned", set(), {A})]


def test_new_partitions_give_nothing_while_the_callback_runs_and_kept_ones_stay_open() -> None:
    delivery = a_delivery(A)
    seen: list[dict[TopicPartition, bool]] = []

    class Looking(Listener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            seen.append({one: state.open for one, state in self.delivery.partitions.items()})

    rebalancing, _ = a_rebalancing(delivery, Looking(delivery))

    drive(rebalancing.run(assign(B, kept=(A,))))

    assert seen == [{A: True, B: False}]
    assert all(state.open for state in delivery.partitions.values())


def test_a_seek_in_the_assigned_callback_wins_over_what_was_fetched_meanwhile() -> None:
    delivery = Delivery(read, silent())

    class Seeking(Listener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            self.delivery.put(a_chunk(A, 0, epoch=1))
            self.delivery.seek(A, Position(offset=40))

    rebalancing, _ = a_rebalancing(delivery, Seeking(delivery))

    drive(rebalancing.run(assign(A)))
    delivery.put(a_chunk(A, 3, epoch=1))
    delivery.put(a_chunk(A, 40, epoch=2))

    assert offsets(delivery.take(10)) == {A: [40, 41, 42]}


def test_without_a_listener_every_step_is_answered_all_the_same() -> None:
    delivery = a_delivery(A)
    rebalancing, said = a_rebalancing(delivery)

    for step in (revoke(A), revoked(A), assign(B)):
        assert drive(rebalancing.run(step)) is None

    answers = [one for one in said if isinstance(one, PartitionsReleased | CallbackFinished)]
    assert len(answers) == 3
    assert set(delivery.partitions) == {B}


# -- a callback that must succeed


def test_nothing_of_what_was_added_is_given_out_if_the_callback_fails_that_must_succeed() -> None:
    """Scenarios 47 and 123."""
    delivery = a_delivery(A)
    rebalancing, said = a_rebalancing(delivery, Raising(ValueError("mine")))

    error = drive(rebalancing.run(must_succeed(assign(B, kept=(A,)))))

    assert {one: state.open for one, state in delivery.partitions.items()} == {A: True, B: False}
    assert said[-1] == CallbackFinished(rebalance=7, error=error, assigned=True)


def test_what_was_fetched_of_it_meanwhile_waits() -> None:
    delivery = a_delivery(A)
    rebalancing, _ = a_rebalancing(delivery, Raising(ValueError("mine")))
    drive(rebalancing.run(must_succeed(assign(B, kept=(A,)))))
    delivery.put(a_chunk(B, epoch=2))

    assert delivery.take(10) == {}


def test_it_is_given_out_when_the_callback_has_succeeded_another_time() -> None:
    delivery = a_delivery(A)
    listener = Raising(ValueError("mine"))
    rebalancing, _ = a_rebalancing(delivery, listener)
    drive(rebalancing.run(must_succeed(assign(B, kept=(A,)))))

    rebalancing.listener = Listener(delivery)
    assert drive(rebalancing.run(must_succeed(assign(B, kept=(A,))))) is None

    assert rebalancing.listener.calls == [("assigned", {B}, {A, B})]
    assert all(state.open for state in delivery.partitions.values())


def test_a_callback_that_need_not_succeed_holds_nothing_back() -> None:
    """The classic protocol has told the group already."""
    delivery = a_delivery(A)
    rebalancing, _ = a_rebalancing(delivery, Raising(ValueError("mine")))

    assert drive(rebalancing.run(assign(B, kept=(A,)))) is not None

    assert all(state.open for state in delivery.partitions.values())


# -- coroutines and errors


def test_a_listener_may_be_written_in_coroutines_and_is_waited_for() -> None:
    delivery = a_delivery(A)
    listener = AsyncListener(delivery)
    rebalancing, said = a_rebalancing(delivery, listener)

    drive(rebalancing.run(revoked(A)))
    drive(rebalancing.run(assign(B)))

    assert listener.calls == [("revoked", {A}, {A}), ("assigned", {B}, {B})]
    assert [one.assigned for one in said if isinstance(one, CallbackFinished)] == [False, True]


def test_an_asynchronous_listener_is_finished_where_an_event_loop_runs_already() -> None:
    """As in Jupyter; that loop, and its task, go on afterwards as if nothing had been."""
    delivery = a_delivery()
    listener = AsyncListener(delivery)
    rebalancing, said = a_rebalancing(delivery, listener)
    went_on: list[bool] = []

    async def application() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert drive(rebalancing.run(revoked(A))) is None
        went_on.append(asyncio.get_running_loop() is loop and asyncio.current_task() is task)
        await asyncio.sleep(0.001)
        went_on.append(asyncio.get_event_loop() is loop)

    asyncio.run(application())

    assert [name for name, *_ in listener.calls] == ["revoked"]
    assert said[-1] == CallbackFinished(rebalance=7)
    assert went_on == [True, True]


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("step", [revoked, assign])
def test_the_answer_says_how_long_the_listener_ran(
    step: Callable[..., Any], *, raises: bool
) -> None:
    delivery, said, clock = a_delivery(A), list[Any](), VirtualTime(0.0)

    class Slow(Listener):
        def note(self, name: str, partitions: Any) -> None:
            clock.jump_to(clock() + 3.0)
            if raises:
                raise ZeroDivisionError

    rebalancing = Rebalancing(delivery, said.append, silent(), clock, topic_ids())
    rebalancing.set_listener(Slow(delivery))
    drive(rebalancing.run(step(A)))
    assert said[-1].seconds == 3.0

    drive(rebalancing.run(revoked(B)))  # for which the listener is not called
    assert said[-1].seconds == 0.0


@pytest.mark.parametrize("kind", [Raising, AsyncRaising])
def test_what_the_revoked_callback_raises_is_kept_and_answered_and_the_partitions_go(
    kind: type[Raising],
) -> None:
    delivery = a_delivery(A)
    bug = ZeroDivisionError("in the callback")
    rebalancing, said = a_rebalancing(delivery, kind(bug))

    error = drive(rebalancing.run(revoked(A)))

    assert isinstance(error, UserCallbackError)
    assert (error.callback, error.__cause__) == ("on_partitions_revoked", bug)
    assert said[-1] == CallbackFinished(rebalance=7, error=error)
    assert delivery.partitions == {}


def test_what_the_assigned_callback_raises_is_kept_and_the_partitions_are_delivered() -> None:
    delivery = Delivery(read, silent())
    rebalancing, said = a_rebalancing(delivery, Raising(ZeroDivisionError()))

    error = drive(rebalancing.run(assign(A)))

    assert isinstance(error, UserCallbackError)
    assert error.callback == "on_partitions_assigned"
    assert said[-1] == CallbackFinished(rebalance=7, error=error, assigned=True)
    assert delivery.partitions[A].open


def test_a_wakeup_in_a_callback_passes_as_it_is_and_the_step_is_answered() -> None:
    delivery = a_delivery(A)
    wakeup = WakeupError()
    rebalancing, said = a_rebalancing(delivery, Raising(wakeup))

    assert drive(rebalancing.run(revoked(A))) is wakeup
    assert said[-1] == CallbackFinished(rebalance=7, error=wakeup)
    assert delivery.partitions == {}


@pytest.mark.parametrize("kind", [Raising, AsyncRaising])
def test_an_interrupt_in_a_callback_passes_once_the_step_is_done_and_answered(
    kind: type[Raising],
) -> None:
    delivery = a_delivery(A)
    interrupt = KeyboardInterrupt()
    rebalancing, said = a_rebalancing(delivery, kind(interrupt))

    assert isinstance(drive(rebalancing.run(revoked(A))), KeyboardInterrupt)
    assert isinstance(drive(rebalancing.run(assign(B))), KeyboardInterrupt)

    assert [type(one.error) for one in said if isinstance(one, CallbackFinished)] == [
        KeyboardInterrupt,
        KeyboardInterrupt,
    ]
    assert set(delivery.partitions) == {B}
    assert delivery.partitions[B].open


def test_callbacks_are_traced_with_what_they_raised() -> None:
    trace, events = recording()
    rebalancing = Rebalancing(a_delivery(A), lambda _: None, trace, VirtualTime(0.0), topic_ids())

    rebalancing.listener = Raising(ZeroDivisionError("a bug"))
    drive(rebalancing.run(revoked(A)))
    rebalancing.listener = AsyncListener(a_delivery())
    drive(rebalancing.run(assign(B)))

    calls = [one for one in events if one["event"].startswith("callback.")]
    assert [(one["event"], one["callback"], one["partitions"]) for one in calls] == [
        ("callback.failed", "on_partitions_revoked", ["orders-0"]),
        ("callback.finished", "on_partitions_assigned", ["orders-1"]),
    ]
    assert calls[0]["because"] == "ZeroDivisionError: a bug"


def test_the_trace_tells_what_goes_before_its_listener_hears_of_it() -> None:
    trace, events = recording()
    delivery = Delivery(read, trace)
    rebalancing = Rebalancing(delivery, lambda _: None, trace, VirtualTime(0.0), topic_ids())
    rebalancing.listener = AsyncListener(delivery)
    delivery.assign([A])
    delivery.seek(A, Position(offset=3))
    events.clear()

    drive(rebalancing.run(revoke(A)))
    drive(rebalancing.run(revoked(A)))

    assert [one["event"] for one in events] == [
        "partitions.held_back",
        "partitions.revoking",
        "callback.finished",
        "partitions.released",
    ]
    assert [one["partitions"] for one in events if "callback" not in one] == [{"orders-0": 3}] * 3
    assert events[1]["loss"] == "revoked"
