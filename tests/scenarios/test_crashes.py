"""Every actor falls over every message it understands: the consumer recovers, and nothing hangs.

One scenario provokes (nearly) all messages; for each actor and each message type it is run with a
fault that makes the actor raise when it gets the first (and the second) of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    IncompatibleBrokerVersion,
    KafkaStorageError,
    KafkaTimeoutError,
    RebalanceInProgressError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.network import NetworkActor
from aktor.actors.runtime import CooperativeActor
from aktor.consumer.system import MANAGERS
from aktor.errors import ActorCrashedError, ActorRestartedError, BootstrapError
from aktor.events.commits import CommitOffsets, FetchCommittedOffsets
from aktor.events.lifecycle import ActorsRestarted, Tick
from aktor.events.metadata import LookUpTopics
from aktor.events.positions import LookUpOffsets
from aktor.events.routes import ROUTES
from tests.scenarios.history import History, Reader
from tests.scenarios.world import Sabotage, World, seeds

T0 = TopicPartition("orders", 0)
PARTITIONS = 4

#: Every supervised actor, in start order.
ACTORS: tuple[Any, ...] = (NetworkActor, *MANAGERS)

POINTS: list[tuple[str, type]] = [
    (actor.name, message)
    for actor in ACTORS
    for message in sorted(actor.understands(), key=lambda one: one.__name__)
]

#: What the scenario does not provoke; the list must not grow unseen. The news of a crash has a test
#: of its own, below.
NOT_PROVOKED = {(actor.name, ActorsRestarted) for actor in ACTORS}

#: What a caller may be told when an actor below it falls over, or is asked in a bad moment.
TYPED = (
    ActorRestartedError,
    BootstrapError,
    CommitFailedError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaTimeoutError,
    RebalanceInProgressError,
)


class Play:
    """One consumer that is asked everything, in a cluster that goes through everything."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.cluster.create_topic("orders", partitions=PARTITIONS)
        self.world.cluster.create_topic("bills")
        self.world.cluster.fill("orders", 30)
        self.world.cluster.names_leaders = True
        self.history = History(self.world)
        self.errors: list[Exception] = []
        self.reader = self._reader()
        self.consumer = self.reader.consumer
        self.site = self.world.site(self.consumer)
        self.history.drive(1.0)

    def _reader(self) -> Reader:
        return self.history.reader(
            "orders",
            group_id="g",
            auto_commit_interval_ms=300,
            heartbeat_interval_ms=500,
            session_timeout_ms=6_000,
            request_timeout_ms=5_000,
            default_api_timeout_ms=5_000,
            metadata_max_age_ms=3_000,
            max_poll_interval_ms=20_000,
            max_poll_records=10,
            fetch_max_wait_ms=1_500,
        )

    def attempt(self, call: Callable[[], Any]) -> None:
        """A call may end in a typed error; anything else is a bug."""
        try:
            call()
        except TYPED as error:
            self.errors.append(error)
            if isinstance(error, GroupAuthorizationFailedError):
                self._begin_again()
        assert len(self.errors) < 1000, self.errors[-1]

    def drive(self, seconds: float) -> None:
        """Poll, whatever the polls raise."""
        until = self.world.now + seconds
        while self.world.now < until:
            for reader in [one for one in self.history.readers if not one.gone]:
                began = self.world.now
                self.attempt(functools.partial(reader.poll, 0.2))
                if self.world.now == began:
                    self.world.sleep(0.05)

    def run(self) -> None:
        """Everything, one after the other."""
        self._ask_everything()
        self._let_others_come_and_go()
        self._shake_the_cluster()
        self._stop_and_begin_again()

    def _ask_everything(self) -> None:
        consumer = self.consumer
        self.world.cluster.fill("orders", 30)
        for call in (
            lambda: self.drive(0.5),
            consumer.commit,
            consumer.commit_async,
            lambda: consumer.committed(T0),
            lambda: consumer.end_offsets([T0]),
            consumer.topics,
            consumer.status,
            lambda: self._seek(7),
            lambda: T0 in consumer.assignment() and consumer.position(T0),
            lambda: self.drive(0.3),
            lambda: self._seek(None),
            lambda: self.drive(0.5),
            lambda: consumer.pause(*consumer.assignment()),
            lambda: self.drive(0.3),
            lambda: consumer.resume(*consumer.paused()),
            lambda: self.drive(0.5),
        ):
            self.attempt(call)

    def _seek(self, offset: int | None) -> None:
        if T0 not in self.consumer.assignment():
            return
        if offset is None:
            self.consumer.seek_to_beginning(T0)
        else:
            self.consumer.seek(T0, offset)
        self.reader.next.pop(T0, None)

    def _begin_again(self) -> None:
        """Who cannot know what is committed has to be told where to read."""
        if self.consumer.assignment():
            self.consumer.seek_to_beginning()
            self.reader.next.clear()

    def _let_others_come_and_go(self) -> None:
        other = self._reader()
        self.world.cluster.fill("orders", 10)
        self.drive(3.0)
        self.attempt(other.close)
        self.drive(2.0)

    def _shake_the_cluster(self) -> None:
        cluster = self.world.cluster
        cluster.move_leader("orders", 1)
        self.drive(1.0)
        cluster.fail_next("FindCoordinator", GroupAuthorizationFailedError)
        cluster.move_coordinator("g")
        self.drive(3.0)
        cluster.fail_next("Fetch", KafkaStorageError)
        node = cluster.coordinator("g")
        cluster.fail_next("OffsetCommit", CoordinatorNotAvailableError)
        cluster.down(node)
        self.attempt(self.consumer.commit)
        self.drive(2.0)
        cluster.back(node)
        cluster.fill("orders", 10)
        self._lose_answers()

    def _lose_answers(self) -> None:
        """No broker is there for a moment, while everybody asks something."""
        cluster = self.world.cluster
        for api in ("Metadata", "FindCoordinator", "ListOffsets", "OffsetCommit", "Fetch"):
            cluster.drop_next(api)
        cluster.move_coordinator("g")
        self.attempt(lambda: self.consumer.end_offsets([T0], timeout_ms=2_000))
        self.attempt(lambda: self._seek(None))
        self.drive(2.0)
        cluster.down(*cluster.up)
        self.attempt(lambda: self.consumer.commit(timeout_ms=500))
        self.attempt(lambda: self.consumer.committed(T0, timeout_ms=500))
        self.attempt(lambda: self.consumer.end_offsets([T0], timeout_ms=500))
        self.drive(1.0)
        cluster.back(*cluster.up)
        self.drive(5.0)
        cluster.too_old_for.add("ListOffsets")
        self.attempt(lambda: self.consumer.end_offsets([T0]))
        cluster.too_old_for.clear()

    def _stop_and_begin_again(self) -> None:
        self.world.freeze(self.consumer)
        self.reader.gone = True
        self.world.sleep(8.0)
        self.world.thaw(self.consumer)
        self.reader.gone = False
        self.world.cluster.fill("orders", 10)
        self.drive(3.0)
        self.attempt(self.consumer.unsubscribe)
        self.reader.next.clear()
        self.world.cluster.fail_next("OffsetFetch", GroupAuthorizationFailedError)
        self.consumer.subscribe(["orders"], listener=self.reader)
        self.drive(3.0)

    def must_have_recovered(self) -> None:
        """Within a minute it reads on, commits, and has lost nothing."""
        self.world.cluster.fill("orders", 10)
        deadline = self.world.now + 60.0
        while self.history.lost("orders") and self.world.now < deadline:
            self.drive(0.5)
        assert self.history.lost("orders") == {}
        assert self.history.broken == []
        self.drive(1.0)
        self.consumer.commit(timeout_ms=10_000)
        stored = {p: self.world.cluster.committed("g", "orders", p) for p in range(PARTITIONS)}
        assert stored == {p: log.end for p, log in self.world.cluster.topics["orders"].items()}

    def end(self) -> None:
        """Close within its time; nothing is left open."""
        began = self.world.now
        self.attempt(lambda: self.consumer.close(timeout_ms=5_000))
        assert self.world.now - began <= 5.01
        self.world.check()
        self.site.end()


def test_the_scenario_provokes_every_message_but_the_ones_that_are_listed() -> None:
    play = Play(seed=0)
    seen: set[tuple[str, type]] = set()
    play.site.before_each = lambda actor, message: seen.add((actor.name, type(message)))

    play.run()
    play.must_have_recovered()
    play.end()

    assert {point for point in POINTS if point not in seen} == NOT_PROVOKED


def test_the_scenario_goes_well_when_nobody_falls_over() -> None:
    play = Play(seed=0)

    play.run()
    play.must_have_recovered()
    play.end()

    assert [one for one in play.errors if isinstance(one, ActorRestartedError)] == []
    assert play.site.named("actor.crashed", "actor.restarted") == []


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
@pytest.mark.parametrize(
    ("actor", "message"),
    [point for point in POINTS if point not in NOT_PROVOKED],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_consumer_recovers_when(actor: str, message: type, times: int, seed: int) -> None:
    """... this actor falls over the first (two) messages of this type."""
    play = Play(seed)
    happened = play.site.crash(actor, message, times=times)

    play.run()
    play.must_have_recovered()
    play.end()

    assert happened, "nothing was tested"


@pytest.mark.parametrize("actor", [one.name for one in ACTORS[:-1]])
def test_a_consumer_recovers_when_an_actor_falls_over_the_news_that_another_did(
    actor: str,
) -> None:
    """The last one, fetch, never hears such news: it is always among the restarted."""
    play = Play(seed=0)
    fallen: list[str] = []

    def before(receiver: CooperativeActor, message: object) -> None:
        first = not fallen and receiver.name == "fetch" and type(message) is Tick
        second = (
            fallen == ["fetch"] and receiver.name == actor and isinstance(message, ActorsRestarted)
        )
        if first or second:
            fallen.append(receiver.name)
            raise Sabotage(receiver.name)

    play.site.before_each = before
    play.run()
    play.must_have_recovered()
    play.end()

    assert fallen == ["fetch", actor]


ASKED: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "commit": (CommitOffsets, lambda consumer: consumer.commit()),
    "committed": (FetchCommittedOffsets, lambda consumer: consumer.committed(T0)),
    "end_offsets": (LookUpOffsets, lambda consumer: consumer.end_offsets([T0])),
    "topics": (LookUpTopics, lambda consumer: consumer.topics()),
}


@pytest.mark.parametrize("call", ASKED)
def test_a_question_to_an_actor_that_falls_over_it_ends_at_once_and_can_be_asked_again(
    call: str,
) -> None:
    play = Play(seed=0)
    message, ask = ASKED[call]
    (actor,) = ROUTES[message]
    play.site.crash(actor, message)

    began = play.world.now
    with pytest.raises(ActorRestartedError, match=actor) as raised:
        ask(play.consumer)
    took = play.world.now - began
    play.drive(1.0)
    ask(play.consumer)

    assert took < 0.01
    assert isinstance(raised.value.__cause__, Sabotage)
    assert raised.value.retriable
    play.end()


def a_consumer_without_budget(actor: str) -> Play:
    """One whose actor falls over every message."""
    play = Play(seed=0)
    play.site.crash(actor, Tick, times=1000)
    return play


@pytest.mark.parametrize("actor", [one.name for one in ACTORS])
def test_when_an_actor_falls_over_too_often_every_call_ends_in_the_reason(actor: str) -> None:
    play = a_consumer_without_budget(actor)
    consumer = play.consumer
    future = consumer.commit_async({T0: OffsetAndMetadata(1, "", -1)})

    with pytest.raises(ActorCrashedError, match=actor) as raised:
        play.drive(60.0)
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
    play.end()


def test_a_position_of_what_a_restarted_member_gave_up_is_refused_by_its_name() -> None:
    """Found by a simulation: it was a KeyError."""
    play = Play(seed=0)
    play.site.crash("membership", Tick)
    play.world.sleep(1.0)

    with pytest.raises(IllegalStateError, match="orders-0 is not assigned any more"):
        play.consumer.position(T0)
    play.end()


def test_a_call_that_waits_when_an_actor_is_given_up_ends_at_once() -> None:
    play = Play(seed=0)
    play.world.cluster.drop_next("OffsetFetch", times=100)
    play.world.after(0.5, lambda: play.site.crash("fetch", Tick, times=1000))

    began = play.world.now
    with pytest.raises(ActorCrashedError) as raised:
        play.consumer.committed(T0, timeout_ms=30_000)

    assert play.world.now - began < 3.0
    assert isinstance(raised.value.__cause__, Sabotage)
    play.end()


def test_a_consumer_that_was_given_up_closes_at_once_and_leaves_nothing_behind() -> None:
    play = a_consumer_without_budget("metadata")
    with pytest.raises(ActorCrashedError):
        play.drive(60.0)

    began = play.world.now
    play.consumer.close()

    assert play.world.now == began
    assert play.site.dispatcher.ended
    play.end()


@pytest.mark.parametrize("actor", ["network", "fetch"])
def test_the_listener_of_a_consumer_that_was_given_up_hears_at_close_what_is_lost(
    actor: str,
) -> None:
    """Found by a crash drill: it heard nothing, and kept what it had of its partitions."""
    play = Play(seed=0)
    play.drive(1.0)
    owned = play.consumer.assignment()
    play.site.crash(actor, Tick, times=1000)
    with pytest.raises(ActorCrashedError):
        play.drive(60.0)

    play.end()

    assert owned
    assert play.reader.calls[-1] == ("lost", owned)
