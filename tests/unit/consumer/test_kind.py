"""A kind of consumer is a value: here one without a group, positions and records, which is made of
parts that are there, and of classes of its own, as a share consumer would be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from aktor.actors.network.actor import NetworkActor
from aktor.actors.network.metrics import METRICS as OF_NETWORK
from aktor.broker.embedded import EmbeddedKafka
from aktor.consumer.assembly import Ending, assemble
from aktor.consumer.configuration import configuration
from aktor.consumer.core.call import Call
from aktor.consumer.core.commits import CommitCallbacks
from aktor.consumer.core.guard import ThreadGuard
from aktor.consumer.core.guarded import Close, Guarded, closing, exclusive
from aktor.consumer.core.port import Port
from aktor.consumer.core.rebalancing import UserCode
from aktor.consumer.core.waiting import Bells, Blocking, Waiting
from aktor.consumer.measured import Measured
from aktor.consumer.metrics import Counted
from aktor.consumer.system import ConsumerKind, Host
from aktor.errors import ConsumerClosedError
from aktor.events.metadata import ClusterChanged, DescribeTopics
from aktor.events.metric import CONSUMER_METRICS, Metric
from aktor.events.routes import APPLICATION, KEPT, METADATA, NETWORK, ROUTES, SUPERVISOR
from aktor.managers.metadata.manager import MetadataManager

THERE: Final = {APPLICATION, KEPT, METADATA, NETWORK, SUPERVISOR}
ASKED: Final = Metric(
    name="asked-total", group=CONSUMER_METRICS, description="questions asked", kind="total"
)


class Nothing:
    """What it has of a consumer that reads: no records, no listener, no callbacks."""

    anything_ready = False

    def __init__(self, call: Call) -> None:
        self.user_code = UserCode()
        self.callbacks = CommitCallbacks(call, self.user_code, None)

    def take_back(self, _result: Any) -> bool:
        return True


class Describing:
    """The application's half: it asks which topics there are."""

    def __init__(self, wiring: Any) -> None:
        self.wiring = wiring
        self.call = Call(wiring.port)
        self.delivery = self.iteration = self.rebalancing = self.commits = Nothing(self.call)
        self.asked = 0

    def topics(self, deadline: float) -> Waiting[set[str]]:
        self.asked += 1
        ticket, reply = self.wiring.port.ask(METADATA, asked=self.call.asked)
        self.wiring.publish(DescribeTopics(ticket=ticket, topics=None, deadline=deadline))
        while not reply.done:
            self.call.raise_interruptions()
            yield self.call.until(math.inf)
        return set(reply.get(timeout=0))

    def begin_call(self) -> None:
        self.call.begin()

    def repair(self) -> None:
        self.call.repair()

    def close(self, _deadline: float, **_how: Any) -> Waiting[BaseException | None]:
        return None
        yield

    def spare_unfinished(self) -> None: ...


def measured(
    half: Describing, _of_actors: Mapping[Metric, float], _now: float
) -> Iterable[tuple[Metric, float]]:
    yield ASKED, half.asked


KIND: Final = ConsumerKind(
    actors=(MetadataManager, NetworkActor),
    routes={kind: tuple(name for name in heard if name in THERE) for kind, heard in ROUTES.items()},
    facts={ClusterChanged: METADATA},
    kept=lambda _host: {},
    port=Port,
    half=lambda wiring, _config, _key, _value: Describing(wiring),
    metrics=Counted(declared=(ASKED, *OF_NETWORK), measure=measured),
)


class Describer(Guarded, Measured):
    """What a user holds."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(ThreadGuard())
        config, settings = configuration.parse(configs)
        self._prepare_metrics(config, KIND.metrics)
        host = Host()
        self._make_bell = host.make_bell
        self._bell = Bells(self._make_bell)
        self._processor = None
        self._system = assemble(KIND, config, settings, host, self._bell, key=None, value=None)
        self._engine, self._dispatcher = self._system.half, self._system.dispatcher
        self._driver = Blocking(self._bell, self._dispatcher.clock)
        self._ending = Ending(self._system, self._guard, [])
        self._begin_to_show()
        self._system.start()

    def _patience(self, _method: str, _given: Mapping[str, Any]) -> float:
        return 10.0

    @exclusive
    def topics(self) -> set[str]:
        deadline = self._dispatcher.clock() + 10.0
        return self._driver.run(self._system.half.topics(deadline), self._wait_open)

    @closing
    def close(self) -> None:
        self._begin_close()
        self._close_now(Close(autocommit=False, timeout=10.0, operation="DEFAULT"))

    def _close_now(self, asked: Close) -> None:
        deadline = self._dispatcher.clock() + asked.timeout
        self._driver.run(self._ending.leave(deadline, commit=False))
        for step in self._ending.stop(deadline, self._close_reporters, "the test is over"):
            step()


def test_a_kind_of_consumer_without_positions_is_made_of_the_same_parts() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        describer = Describer(bootstrap_servers=kafka.bootstrap_servers, client_id="describer")
        told: list[str] = []
        describer.on_event(lambda event: told.append(event["event"]), level="debug")
        try:
            assert describer.topics() == {"orders"}
            assert "request.sent" in told
            assert describer.rebalances == []

            values = (describer.metrics() or {})["consumer-metrics"]
            assert values["asked-total"] == 1
            assert values["metadata-restarts-total"] == 0
            assert not [name for name in values if name.startswith(("fetch", "commits"))]
            assert [actor.name for actor in describer._dispatcher.running] == [
                "supervisor",
                "network",
                "metadata",
            ]
        finally:
            describer.close()

        with pytest.raises(ConsumerClosedError):
            describer.topics()
        assert describer._system.half.wiring.port.open_questions == 0


def test_after_a_crash_its_actors_start_afresh() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        describer = Describer(bootstrap_servers=kafka.bootstrap_servers)
        try:
            assert describer.topics() == {"orders"}
            port = describer._system.half.wiring.port
            describer._dispatcher._actors["network"].actor_ref.stop(block=False)
            bell = describer._bell.of_this_thread()
            while not port.events:  # that actors were restarted
                bell.wait(30.0)
            assert describer.topics() == {"orders"}
            restarts = {one.name: one.incarnation for one in describer._dispatcher.running}
            assert restarts["metadata"] == restarts["network"] == 2
        finally:
            describer.close()
