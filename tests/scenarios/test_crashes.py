"""Every actor falls over every message it understands: the consumer recovers, and nothing hangs.

One scenario provokes (nearly) all messages; for each actor and each message type it is run with a
fault that makes the actor raise when it gets the first (and the second) of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.errors import (
    IllegalStateError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.errors import ActorCrashedError, ActorRestartedError
from aktor.events.commits import CommitOffsets, FetchCommittedOffsets
from aktor.events.lifecycle import ActorsRestarted, Tick
from aktor.events.metadata import DescribeTopics, LeaderEpochsUnknown, NameTopics
from aktor.events.network import Rebootstrap, ReportBootstrap
from aktor.events.positions import ListOffsets
from aktor.events.routes import ROUTES
from aktor.simulation.world.crashes import HEARS_OF, in_start_order
from tests.gate import all_but_the_first
from tests.scenarios.harness import T0, Harness
from tests.scenarios.reading import a_member, read
from tests.scenarios.world import Sabotage, World, seeds

#: Every supervised actor, in start order.
ACTORS: tuple[Any, ...] = in_start_order("classic")

POINTS: list[tuple[str, type]] = [
    (actor.name, message)
    for actor in ACTORS
    for message in sorted(actor.understands(), key=lambda one: one.__name__)
]

#: What the scenario does not provoke; the list must not grow unseen. The news of a crash has a test
#: of its own, below; only a member of a KIP-848 group asks for the names of topics; only who never
#: reached a broker asks what came of the attempts (tests/scenarios/test_trouble.py); and only a
#: cluster that has told too high leader epochs is refused them (a drill of the simulation).
NOT_PROVOKED = {(actor, ActorsRestarted) for actor in HEARS_OF} | {
    ("metadata", NameTopics),
    ("metadata", LeaderEpochsUnknown),
    ("network", ReportBootstrap),
    ("network", Rebootstrap),
    ("coordinator", Rebootstrap),
}

PROVOKED = [point for point in POINTS if point not in NOT_PROVOKED]
#: In an order of which each third has each actor.
BY_TURNS = [*PROVOKED[::3], *PROVOKED[1::3], *PROVOKED[2::3]]
#: How often each of them falls over. Twice it is one of each actor: what a restarted actor does if
#: it falls over again depends on the actor, and hardly on the message. Drills of the simulation
#: let others crash twice (tests/simulation/test_enumerated_crashes.py). For the same reason the
#: scenario always goes on to its end after these; after a single crash it may end with the part in
#: which it happened.
TWICE = dict(PROVOKED[1::3])
CRASHES = [(*point, 1) for point in BY_TURNS] + [(*point, 2) for point in TWICE.items()]


def test_the_scenario_provokes_every_message_but_the_ones_that_are_listed() -> None:
    harness = Harness(seed=0)
    seen: set[tuple[str, type]] = set()
    harness.host.before_each = lambda actor, message: seen.add((actor.name, type(message)))

    harness.run()
    harness.must_have_recovered()
    harness.end()

    assert {point for point in POINTS if point not in seen} == NOT_PROVOKED


def test_the_scenario_goes_well_when_nobody_falls_over() -> None:
    harness = Harness(seed=0)

    harness.run()
    harness.must_have_recovered()
    harness.end()

    assert [one for one in harness.errors if isinstance(one, ActorRestartedError)] == []
    assert harness.host.named("actor.crashed", "actor.restarted") == []


def in_words(one: object) -> str:
    """For the name of a test."""
    return one.__name__ if isinstance(one, type) else {1: "once", 2: "twice"}.get(one, str(one))


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(
    ("actor", "message", "times"), all_but_the_first(len(PROVOKED[::3]), CRASHES), ids=in_words
)
def test_a_consumer_recovers_when(actor: str, message: type, times: int, seed: int) -> None:
    """... this actor falls over the first (two) messages of this type."""
    harness = Harness(seed)
    happened = harness.host.crash(actor, message, times=times)

    harness.run(ends_after=lambda: bool(happened) and times == 1)
    harness.must_have_recovered()
    harness.end()

    assert happened, "nothing was tested"


#: How Pykka can be asked to stop an actor, from outside or from within.
STOPS: dict[str, Callable[[CooperativeActor], object]] = {
    "its reference": lambda actor: actor.actor_ref.stop(block=False),
    "itself": lambda actor: actor.stop(),
    "its event": lambda actor: actor.actor_stopped.set(),
}

#: Each actor in each way. Of the first ones each has another actor, and each way comes.
STOPPED = [
    (actor.name, [*STOPS][(number + turn) % len(STOPS)])
    for turn in range(len(STOPS))
    for number, actor in enumerate(ACTORS)
]


@pytest.mark.parametrize(("actor", "how"), all_but_the_first(len(ACTORS), STOPPED))
def test_a_consumer_recovers_when_pykka_stops_an_actor(actor: str, how: str) -> None:
    """Its supervisor has not ordered it, so it is a crash."""
    harness = Harness(seed=0)
    stopped: list[str] = []

    def before(receiver: CooperativeActor, message: object) -> None:
        if not stopped and receiver.name == actor and type(message) is not Tick:
            stopped.append(actor)
            STOPS[how](receiver)

    harness.host.before_each = before
    harness.run(ends_after=lambda: bool(stopped))
    harness.must_have_recovered()
    harness.end()

    assert [one["child"] for one in harness.host.named("actor.crashed")] == stopped == [actor]


def test_an_actor_that_a_program_stops_by_its_reference_is_started_again() -> None:
    with World(0) as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.fill("orders", 10)
        consumer = a_member(world)
        assert len(read(world, consumer, 10)) == 10

        consumer._system.dispatcher._actors["fetch"].actor_ref.stop(block=False)
        world.cluster.fill("orders", 10)

        assert len(read(world, consumer, 10)) == 10


@pytest.mark.parametrize(("actor", "first_of"), HEARS_OF.items())
def test_a_consumer_recovers_when_an_actor_crashes_at_the_news_that_another_was_restarted(
    actor: str, first_of: str
) -> None:
    harness = Harness(seed=0)
    fallen: list[str] = []

    def before(receiver: CooperativeActor, message: object) -> None:
        first = not fallen and receiver.name == first_of and type(message) is Tick
        second = (
            fallen == [first_of] and receiver.name == actor and isinstance(message, ActorsRestarted)
        )
        if first or second:
            fallen.append(receiver.name)
            raise Sabotage(receiver.name)

    harness.host.before_each = before
    harness.run(ends_after=lambda: len(fallen) == 2)
    harness.must_have_recovered()
    harness.end()

    assert fallen == [first_of, actor]


def test_a_look_up_goes_on_when_a_lost_listener_looks_something_up_before_it() -> None:
    """The inner one is over first; what the outer one asks for is followed until it is answered."""
    ends: dict[TopicPartition, int] = {}
    bills, notes = TopicPartition("bills", 0), TopicPartition("notes", 0)
    with World() as world:
        for topic in ("orders", "bills", "notes"):
            world.cluster.create_topic(topic, partitions=1)
        consumer = world.consumer(group_id="g", auto_offset_reset="earliest")

        class Looking(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                pass

            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_lost(self, lost: Any) -> None:
                ends.update(consumer.end_offsets([notes]))

        consumer.subscribe(["orders"], listener=Looking())
        consumer.poll(timeout_ms=5_000)
        assert consumer.assignment()
        happened = world.host(consumer).crash("membership", Tick)
        world.sleep(10.0)
        assert happened

        assert consumer.end_offsets([bills], timeout_ms=5_000) == {bills: 0}
        assert ends == {notes: 0}


ASKED: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "commit": (CommitOffsets, lambda consumer: consumer.commit()),
    "committed": (FetchCommittedOffsets, lambda consumer: consumer.committed(T0)),
    "end_offsets": (ListOffsets, lambda consumer: consumer.end_offsets([T0])),
    "topics": (DescribeTopics, lambda consumer: consumer.topics()),
}


@pytest.mark.parametrize("call", ASKED)
def test_a_question_to_an_actor_that_falls_over_it_ends_at_once_and_can_be_asked_again(
    call: str,
) -> None:
    harness = Harness(seed=0)
    message, ask = ASKED[call]
    (actor,) = ROUTES[message]
    harness.host.crash(actor, message)

    began = harness.world.now
    with pytest.raises(ActorRestartedError, match=actor) as raised:
        ask(harness.consumer)
    took = harness.world.now - began
    harness.drive(1.0)
    ask(harness.consumer)

    assert took < 0.01
    assert isinstance(raised.value.__cause__, Sabotage)
    assert raised.value.retriable
    harness.end()


def a_consumer_without_budget(actor: str) -> Harness:
    """One whose actor falls over every message."""
    harness = Harness(seed=0)
    harness.host.crash(actor, Tick, times=1000)
    harness.host.dispatcher.tell(actor, Tick(now=harness.world.now, jitter=0.0))
    return harness


@pytest.mark.parametrize("actor", [one.name for one in ACTORS])
def test_when_an_actor_falls_over_too_often_every_call_ends_in_the_reason(actor: str) -> None:
    harness = a_consumer_without_budget(actor)
    consumer = harness.consumer
    future = consumer.commit_async({T0: OffsetAndMetadata(1, "", -1)})

    with pytest.raises(ActorCrashedError, match=actor) as raised:
        harness.drive(60.0)
    later = []
    for call in (
        lambda: consumer.poll(timeout_ms=100),
        consumer.commit,
        lambda: consumer.committed(T0),
        lambda: consumer.end_offsets([T0]),
        consumer.topics,
        lambda: next(consumer),
    ):
        with pytest.raises(ActorCrashedError) as again:
            call()
        later.append(again.value)

    assert isinstance(raised.value.__cause__, Sabotage)
    assert {type(one.__cause__) for one in later} == {Sabotage}
    assert future.is_done
    assert consumer.status().state.startswith("failed")
    harness.end()


def test_a_position_of_what_a_restarted_member_gave_up_is_refused_by_its_name() -> None:
    """Found by a simulation: it was a KeyError."""
    harness = Harness(seed=0)
    harness.host.crash("membership", Tick)
    harness.world.sleep(1.0)

    with pytest.raises(IllegalStateError, match="orders-0 is not assigned any more"):
        harness.consumer.position(T0)
    harness.consumer.pause()
    assert harness.host.named("call.repaired") == [], "it is no interrupt"
    harness.end()


def test_a_call_that_waits_when_an_actor_is_given_up_ends_at_once() -> None:
    harness = Harness(seed=0)
    harness.world.cluster.drop_next("OffsetFetch", times=100)
    harness.world.after(0.5, lambda: harness.host.crash("fetch", Tick, times=1000))

    began = harness.world.now
    with pytest.raises(ActorCrashedError) as raised:
        harness.consumer.committed(T0, timeout_ms=30_000)

    assert harness.world.now - began < 3.0
    assert isinstance(raised.value.__cause__, Sabotage)
    harness.end()


def test_a_consumer_that_was_given_up_closes_at_once_and_leaves_nothing_behind() -> None:
    harness = a_consumer_without_budget("metadata")
    with pytest.raises(ActorCrashedError):
        harness.drive(60.0)

    began = harness.world.now
    harness.consumer.close()

    assert harness.world.now == began
    assert harness.host.dispatcher.ended
    harness.end()


@pytest.mark.parametrize("actor", ["network", "fetch"])
def test_the_listener_of_a_consumer_that_was_given_up_hears_at_close_what_is_lost(
    actor: str,
) -> None:
    """Found by a crash drill: it heard nothing, and kept what it had of its partitions."""
    harness = Harness(seed=0)
    harness.drive(1.0)
    owned = harness.consumer.assignment()
    harness.host.crash(actor, Tick, times=1000)
    with pytest.raises(ActorCrashedError):
        harness.drive(60.0)

    harness.end()

    assert owned
    assert harness.reader.calls[-1] == ("lost", owned)
