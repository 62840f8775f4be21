"""Children, budgets, incarnations, escalation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aktor.actors.runtime.dispatcher import (
    CooperativeActor,
    Dispatcher,
    Seeded,
    VirtualTime,
    run_until,
)
from aktor.actors.runtime.handlers import after_restart_of, handles
from aktor.actors.runtime.manager import Duty, RequestManager
from aktor.actors.runtime.supervision import (
    Child,
    GiveUp,
    LastFacts,
    Restart,
    after_crash,
    start_order,
)
from aktor.actors.runtime.supervisor import Supervisor
from aktor.consumer.kind import kind_of
from aktor.consumer.system import Host, composition
from aktor.errors import ActorCrashedError
from aktor.events.coordinator import CoordinatorFound, CoordinatorLost
from aktor.events.lifecycle import ActorsRestarted, ConsumerFailed, ReportStatus, Tick, Ticked
from aktor.events.message import Message
from aktor.events.metadata import Broker, Cluster, ClusterChanged
from aktor.events.metric import CONSUMER_METRICS, Metric
from aktor.events.network import SendRequests
from aktor.events.routes import FACTS, ROUTES
from aktor.settings import Settings
from aktor.trace import recording, silent

BROKER = Broker(node_id=1, host="b1", port=9092)


def a_child(name: str, *needs: str) -> Child:
    return Child(name, lambda _: CooperativeActor(), needs=needs, restarts=2, within=60.0)


FAMILY = (
    a_child("network"),
    a_child("metadata", "network"),
    a_child("commits", "network"),
    a_child("fetch", "commits"),
)


@pytest.mark.parametrize(
    ("crashed", "restarted"),
    [
        ("network", ["network", "metadata", "commits", "fetch"]),
        ("metadata", ["metadata"]),
        ("commits", ["commits", "fetch"]),
        ("fetch", ["fetch"]),
    ],
)
def test_a_crash_restarts_the_child_and_those_that_need_it(
    crashed: str, restarted: Sequence[str]
) -> None:
    decision = after_crash(FAMILY, crashed, [], now=0.0)

    assert isinstance(decision, Restart)
    assert [child.name for child in decision.children] == restarted


#: Who starts afresh when an actor of a real consumer crashes. Only metadata outlives a crash of
#: the coordinator, the membership and the commit manager: it needs none of them.
RESTARTED = {
    "network": "network coordinator metadata membership commits positions fetch",
    "coordinator": "coordinator membership commits positions fetch",
    "metadata": "metadata positions fetch",
    "membership": "membership commits positions fetch",
    "commits": "commits positions fetch",
    "positions": "positions fetch",
    "fetch": "fetch",
}


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
@pytest.mark.parametrize("crashed", RESTARTED)
def test_the_actors_of_a_consumer_that_a_crash_restarts(protocol: str, crashed: str) -> None:
    settings, dispatcher = Settings(group_protocol=protocol), Dispatcher(ROUTES)
    children = composition(kind_of(protocol), settings, Host(), dispatcher, silent())
    supervisor = Supervisor(children, dispatcher=dispatcher)

    decision = after_crash(supervisor.children, crashed, [], now=0.0)

    assert isinstance(decision, Restart)
    assert " ".join(child.name for child in decision.children) == RESTARTED[crashed]


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_a_tick_asks_the_actors_of_a_consumer_in_the_order_of_the_java_client(
    protocol: str,
) -> None:
    names = [kind.name for kind in kind_of(protocol).actors]

    assert names == [
        *("coordinator", "commits", "membership", "positions", "metadata", "fetch"),
        "network",
    ]


def test_a_child_starts_after_those_that_it_needs_and_else_in_the_order_given() -> None:
    needs = {"fetch": ["commits"], "metadata": [], "commits": ["network"], "network": []}

    assert start_order(needs) == ("metadata", "network", "commits", "fetch")


@pytest.mark.parametrize(
    "needs", [{"fetch": ["commits"], "commits": ["fetch"]}, {"fetch": ["comits"], "commits": []}]
)
def test_children_that_can_never_start_are_refused(needs: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r"^fetch.* can never start: see what they need$"):
        start_order(needs)


@pytest.mark.parametrize("takers", [[], ["first"], ["first", "last"]])
def test_the_last_child_must_take_the_requests_and_no_other(takers: list[str]) -> None:
    children = [
        Child(name, lambda _: CooperativeActor(), takes_requests=name in takers)
        for name in ("first", "last")
    ]

    with pytest.raises(ValueError, match="the last child takes the requests, and no other"):
        Supervisor(children, dispatcher=Dispatcher(ROUTES))


def test_an_actor_that_asks_one_that_is_not_there_is_refused() -> None:
    children = [
        Child("first", lambda _: CooperativeActor(), asks=("lst",)),
        Child("last", lambda _: CooperativeActor(), takes_requests=True),
    ]

    with pytest.raises(ValueError, match="first asks lst: there is no such child"):
        Supervisor(children, dispatcher=Dispatcher(ROUTES))


def test_the_last_fact_of_each_teller_is_kept_until_it_starts_afresh() -> None:
    facts = LastFacts(FACTS)
    facts.tell(CoordinatorFound(broker=BROKER))
    facts.tell(ClusterChanged(cluster=Cluster()))
    facts.tell(CoordinatorLost(because="it moved"))

    assert facts.known() == (
        ClusterChanged(cluster=Cluster()),
        CoordinatorLost(because="it moved"),
    ), "in the order in which they were told"

    facts.forget(["coordinator", "fetch"])

    assert facts.known() == (ClusterChanged(cluster=Cluster()),)


def test_a_child_is_given_up_when_its_budget_is_spent_and_not_before() -> None:
    assert isinstance(after_crash(FAMILY, "fetch", [1.0], now=2.0), Restart)
    assert isinstance(after_crash(FAMILY, "fetch", [1.0, 2.0], now=3.0), GiveUp)


def test_old_crashes_do_not_count() -> None:
    assert isinstance(after_crash(FAMILY, "fetch", [1.0, 2.0], now=100.0), Restart)


TICKS = Metric(name="ticks-total", group=CONSUMER_METRICS, description="ticks", kind="total")
LAST = Metric(name="tick-now", group=CONSUMER_METRICS, description="the last one", kind="gauge")


class Worker(RequestManager):
    """Crashes when told to; notes and counts the ticks."""

    def __init__(self, name: str, log: list[Any], **kwargs: Any) -> None:
        self.name = name  # type: ignore[misc]
        super().__init__(Settings(), **kwargs)
        self.events = log
        self.ticks = 0
        self.cannot_count = False

    def measure(self, now: float) -> dict[Metric, float]:
        if self.cannot_count:
            raise ZeroDivisionError
        return {TICKS: self.ticks, LAST: now}

    @handles(str)
    def on_word(self, word: str) -> None:
        raise ValueError(word)

    @handles(ClusterChanged)
    def on_cluster_changed(self, _changed: ClusterChanged) -> None:
        self.events.append((self.name, "knows the cluster", self.incarnation))

    @after_restart_of("fetch")
    def on_fetch_restarted(self) -> None:
        self.events.append((self.name, "heard of", "fetch"))

    def duties(self) -> tuple[Duty, ...]:
        return (self._note,)

    def _note(self, now: float, _jitter: float) -> float:
        self.events.append((self.name, "ticked", now))
        self.ticks += 1
        return now + 10.0


class Network(CooperativeActor):
    name = "network"

    @handles(Tick)
    def on_tick(self, _tick: Tick) -> None:
        self._say(Ticked(actor="network", incarnation=self.incarnation, requests=(), wake_at=1e9))

    @handles(SendRequests, ActorsRestarted, ClusterChanged)
    def on_anything(self, _message: SendRequests | ActorsRestarted | ClusterChanged) -> None: ...

    def drop(self, message: Message) -> None:
        raise ValueError(message)


class Port:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def tell(self, message: object) -> None:
        self.heard.append(message)


class SupervisorHarness:
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
                Child(
                    "metadata",
                    self._worker("metadata"),
                    needs=("network",),
                    asks=("fetch",),
                    restarts=2,
                ),
                Child("fetch", self._worker("fetch"), needs=("metadata",), restarts=2),
                Child("network", self._network, takes_requests=True, restarts=2),
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

    def measured(self, name: str) -> dict[Metric, float]:
        self.dispatcher.publish(ReportStatus(ticket=1, now=7.0))
        self.run(0.1)
        (found,) = [one for one in self.port.heard[-1].value if one.name == name]
        return dict(found.counters)


@pytest.mark.parametrize("seed", range(10))
def test_managers_are_ticked_in_their_fixed_order_under_any_seed(seed: int) -> None:
    harness = SupervisorHarness(seed)

    harness.run(25.0)

    ticked = [name for name, what, _ in harness.log if what == "ticked"]
    assert ticked == ["metadata", "fetch"] * 3


@pytest.mark.parametrize("seed", range(10))
def test_a_crashed_child_is_replaced_and_the_others_hear_of_it(seed: int) -> None:
    harness = SupervisorHarness(seed)
    harness.run(1.0)

    harness.crash("metadata")

    assert harness.supervisor.incarnations == {"network": 1, "metadata": 2, "fetch": 2}
    restarted = [one for one in harness.port.heard if isinstance(one, ActorsRestarted)]
    assert [one.actors for one in restarted] == [("metadata", "fetch")]
    assert isinstance(restarted[0].because, ValueError)


def test_a_child_above_the_crashed_one_lives_on_and_hears_of_it() -> None:
    harness = SupervisorHarness()
    harness.run(1.0)

    harness.crash("fetch")

    assert ("metadata", "heard of", "fetch") in harness.log
    assert harness.supervisor.incarnations["metadata"] == 1


@pytest.mark.parametrize("seed", range(10))
def test_who_starts_afresh_is_told_the_facts_and_nobody_else_hears_them_again(seed: int) -> None:
    harness = SupervisorHarness(seed)
    harness.run(1.0)
    harness.dispatcher.publish(ClusterChanged(cluster=Cluster()))
    harness.run(1.0)

    harness.crash("fetch")

    known = [(name, number) for name, what, number in harness.log if what == "knows the cluster"]
    assert known == [("fetch", 1), ("fetch", 2)]


@pytest.mark.parametrize("seed", range(10))
def test_a_fact_that_is_told_between_a_crash_and_the_restart_is_not_missed(seed: int) -> None:
    harness = SupervisorHarness(seed)
    harness.run(1.0)

    harness.dispatcher.tell("fetch", "boom")
    while not any(one["event"] == "actor.crashed" for one in harness.events):
        harness.dispatcher.turn()
    harness.dispatcher.publish(ClusterChanged(cluster=Cluster()))
    harness.run(1.0)

    assert ("fetch", "knows the cluster", 2) in harness.log


def test_facts_of_an_actor_that_starts_afresh_are_forgotten() -> None:
    harness = SupervisorHarness()
    harness.run(1.0)
    harness.dispatcher.publish(ClusterChanged(cluster=Cluster()))
    harness.run(1.0)

    harness.crash("metadata")

    assert ("fetch", "knows the cluster", 2) not in harness.log


def test_after_a_restart_the_clock_goes_on() -> None:
    harness = SupervisorHarness()
    harness.run(1.0)
    harness.crash("network")
    harness.log.clear()

    harness.run(21.0)

    assert [name for name, what, _ in harness.log if what == "ticked"][:4] == [
        "metadata",
        "fetch",
    ] * 2


@pytest.mark.parametrize("name", ["network", "metadata", "fetch"])
def test_when_the_budget_is_spent_the_consumer_fails_with_one_typed_error(name: str) -> None:
    harness = SupervisorHarness()
    harness.run(1.0)

    for _ in range(3):
        harness.crash(name)

    failed = [one.error for one in harness.port.heard if isinstance(one, ConsumerFailed)]
    assert len(failed) == 1
    assert isinstance(failed[0], ActorCrashedError)
    assert failed[0].actor == name
    assert isinstance(failed[0].__cause__, ValueError)
    assert harness.dispatcher.failure is failed[0]


def test_every_crash_and_restart_is_traced_with_its_cause() -> None:
    harness = SupervisorHarness()
    harness.run(1.0)

    harness.crash("fetch")

    names = [one["event"] for one in harness.events]
    assert "actor.crashed" in names
    restarted = next(one for one in harness.events if one["event"] == "actor.restarted")
    assert restarted["because"] == "ValueError: boom"
    assert restarted["message_type"] == "str"


def test_a_total_goes_on_over_restarts_and_a_gauge_is_of_now() -> None:
    """Programs compute rates from totals: one that began again would look like a negative rate."""
    harness = SupervisorHarness()
    for _ in range(2):
        harness.run(1.0)
        harness.crash("fetch")

    assert harness.measured("fetch") == {TICKS: 3, LAST: 7.0}


def test_an_actor_that_cannot_count_any_more_is_restarted_all_the_same() -> None:
    harness = SupervisorHarness()
    harness.run(1.0)
    harness.crash("fetch")
    fetch = harness.supervisor._running["fetch"]
    fetch.cannot_count = True

    harness.crash("fetch")

    assert harness.measured("fetch")[TICKS] == 2  # the first and the third incarnation's
    failed = [one for one in harness.events if one["event"] == "actor.stop_failed"]
    assert [one["child"] for one in failed] == ["fetch"]


def test_status_names_each_actor_with_its_incarnation() -> None:
    harness = SupervisorHarness()
    harness.run(1.0)
    harness.crash("fetch")

    harness.dispatcher.publish(ReportStatus(ticket=1, now=0.0))
    harness.run(0.1)

    answer = harness.port.heard[-1]
    assert {one.name: one.incarnation for one in answer.value} == {
        "network": 1,
        "metadata": 1,
        "fetch": 2,
    }
