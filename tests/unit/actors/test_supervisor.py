"""Children, budgets, incarnations, escalation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from aktor.actors.manager import PollResult, RequestManager
from aktor.actors.runtime import CooperativeActor, Dispatcher, Seeded, VirtualTime, run_until
from aktor.actors.supervision import Child, GiveUp, Restart, after_crash
from aktor.actors.supervisor import TICK_ORDER, Supervisor
from aktor.errors import ActorCrashedError
from aktor.events.lifecycle import ActorsRestarted, ConsumerFailed, ReportStatus, Tick
from aktor.events.network import SendRequests
from aktor.events.routes import ROUTES
from aktor.settings import Settings
from aktor.trace import recording


def a_child(name: str, restarts: int = 2) -> Child:
    return Child(name, make=lambda _: CooperativeActor(), restarts=restarts, within=60.0)


FAMILY = (a_child("network"), a_child("metadata"), a_child("fetch"))


@pytest.mark.parametrize(
    ("crashed", "restarted"),
    [
        ("network", ["network", "metadata", "fetch"]),
        ("metadata", ["metadata", "fetch"]),
        ("fetch", ["fetch"]),
    ],
)
def test_a_crash_restarts_the_child_and_those_below_it(
    crashed: str, restarted: Sequence[str]
) -> None:
    decision = after_crash(FAMILY, crashed, [], now=0.0)

    assert isinstance(decision, Restart)
    assert [child.name for child in decision.children] == restarted


def test_a_child_is_given_up_when_its_budget_is_spent_and_not_before() -> None:
    assert isinstance(after_crash(FAMILY, "fetch", [1.0], now=2.0), Restart)
    assert isinstance(after_crash(FAMILY, "fetch", [1.0, 2.0], now=3.0), GiveUp)


def test_old_crashes_do_not_count() -> None:
    assert isinstance(after_crash(FAMILY, "fetch", [1.0, 2.0], now=100.0), Restart)


class Worker(RequestManager):
    """Crashes when told to; notes the ticks."""

    HANDLERS: ClassVar[Mapping[type, str]] = {
        str: "on_word",
        ActorsRestarted: "on_actors_restarted",
    }

    def __init__(self, name: str, log: list[Any], **kwargs: Any) -> None:
        self.name = name  # type: ignore[misc]
        super().__init__(Settings(), **kwargs)
        self.events = log

    def on_word(self, word: str) -> None:
        raise ValueError(word)

    def on_actors_restarted(self, restarted: ActorsRestarted) -> None:
        self.events.append((self.name, "heard of", restarted.actors))

    def poll(self, now: float, jitter: float) -> PollResult:
        self.events.append((self.name, "ticked", now))
        return PollResult(wake_at=now + 10.0)


class Network(CooperativeActor):
    name = "network"

    def on_receive(self, message: object) -> None:
        from aktor.events.lifecycle import Ticked

        if isinstance(message, Tick):
            self.say(
                Ticked(actor="network", incarnation=self.incarnation, requests=(), wake_at=1e9)
            )
        elif not isinstance(message, (SendRequests, ActorsRestarted)):
            raise ValueError(message)


class Port:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def tell(self, message: object) -> None:
        self.heard.append(message)


class World:
    """A supervisor over a network and two workers, in virtual time."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = VirtualTime()
        self.trace, self.events = recording()
        self.dispatcher = Dispatcher(
            {**ROUTES}, clock=self.clock, order=Seeded(seed), trace=self.trace, seed=seed
        )
        self.port = Port()
        self.log: list[Any] = []
        self.dispatcher.connect("application", self.port)
        self.supervisor = Supervisor.launch(
            [
                Child("network", self._network, restarts=2),
                Child("metadata", self._worker("metadata"), restarts=2),
                Child("fetch", self._worker("fetch"), restarts=2),
            ],
            dispatcher=self.dispatcher,
            trace=self.trace,
        )

    def _network(self, incarnation: int) -> Network:
        actor = Network.launch(dispatcher=self.dispatcher)
        actor.incarnation = incarnation
        return actor  # type: ignore[no-any-return]

    def _worker(self, name: str) -> Any:
        return lambda incarnation: Worker.launch(
            name, self.log, incarnation=incarnation, dispatcher=self.dispatcher
        )

    def crash(self, name: str) -> None:
        self.dispatcher.tell(name, "boom")
        self.run(0.5)

    def run(self, seconds: float) -> None:
        run_until(self.dispatcher, self.clock, self.clock.now + seconds)


@pytest.mark.parametrize("seed", range(10))
def test_managers_are_ticked_in_their_fixed_order_under_any_seed(seed: int) -> None:
    world = World(seed)

    world.run(25.0)

    ticked = [name for name, what, _ in world.log if what == "ticked"]
    assert ticked == ["metadata", "fetch"] * 3
    assert TICK_ORDER.index("metadata") < TICK_ORDER.index("fetch")


@pytest.mark.parametrize("seed", range(10))
def test_a_crashed_child_is_replaced_and_the_others_hear_of_it(seed: int) -> None:
    world = World(seed)
    world.run(1.0)

    world.crash("metadata")

    assert world.supervisor.incarnations == {"network": 1, "metadata": 2, "fetch": 2}
    restarted = [one for one in world.port.heard if isinstance(one, ActorsRestarted)]
    assert [one.actors for one in restarted] == [("metadata", "fetch")]
    assert isinstance(restarted[0].because, ValueError)


def test_a_child_above_the_crashed_one_lives_on_and_hears_of_it() -> None:
    world = World()
    world.run(1.0)

    world.crash("fetch")

    assert ("metadata", "heard of", ("fetch",)) in world.log
    assert world.supervisor.incarnations["metadata"] == 1


def test_after_a_restart_the_clock_goes_on() -> None:
    world = World()
    world.run(1.0)
    world.crash("network")
    world.log.clear()

    world.run(21.0)

    assert [name for name, what, _ in world.log if what == "ticked"][:4] == [
        "metadata",
        "fetch",
    ] * 2


@pytest.mark.parametrize("name", ["network", "metadata", "fetch"])
def test_when_the_budget_is_spent_the_consumer_fails_with_one_typed_error(name: str) -> None:
    world = World()
    world.run(1.0)

    for _ in range(3):
        world.crash(name)

    failed = [one.error for one in world.port.heard if isinstance(one, ConsumerFailed)]
    assert len(failed) == 1
    assert isinstance(failed[0], ActorCrashedError)
    assert failed[0].actor == name
    assert isinstance(failed[0].__cause__, ValueError)
    assert world.dispatcher.failure is failed[0]


def test_every_crash_and_restart_is_traced_with_its_cause() -> None:
    world = World()
    world.run(1.0)

    world.crash("fetch")

    names = [one["event"] for one in world.events]
    assert "actor.crashed" in names
    restarted = next(one for one in world.events if one["event"] == "actor.restarted")
    assert restarted["because"] == "ValueError: boom"
    assert restarted["handling"] == "str"


def test_status_names_each_actor_with_its_incarnation() -> None:
    world = World()
    world.run(1.0)
    world.crash("fetch")

    world.dispatcher.publish(ReportStatus(ticket=1))
    world.run(0.1)

    answer = world.port.heard[-1]
    assert {one.name: one.incarnation for one in answer.value} == {
        "network": 1,
        "metadata": 1,
        "fetch": 2,
    }
