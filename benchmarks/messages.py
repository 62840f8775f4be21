"""What a message between actors costs, and a whole round of the clockwork."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import pykka

from aktor.actors.runtime.dispatcher import Bell, Dispatcher, VirtualTime
from aktor.actors.runtime.handlers import handles
from aktor.actors.runtime.manager import RequestManager
from aktor.actors.sockets.wire import Net
from aktor.consumer.core.port import ApplicationPort, Port
from aktor.consumer.kind import kind_of
from aktor.consumer.system import ActorSystem, Host
from aktor.events.message import Message
from aktor.events.polling import Poll
from aktor.events.routes import Routes
from aktor.settings import Settings
from aktor.trace import Trace, silent
from benchmarks.site import Site
from benchmarks.tables import Table, at_most, ratio, spread

ROUNDS: Final = 51
BURST: Final = 1000
TARGET_US: Final = 1.0
TARGET_TICK_US: Final = 25.0


class Hello(Message):
    """Anybody ▶ Listener: a message with one field, as most have."""

    number: int


class Listener(RequestManager):
    """A manager that does nothing with what it hears."""

    name = "listener"

    @handles(Hello)
    def on_hello(self, hello: Hello) -> None:
        """Nothing."""


class PykkaListener(pykka.ThreadingActor):
    """The same as an ordinary Pykka actor, with a thread and a queue."""

    def __init__(self, all_heard: threading.Event) -> None:
        super().__init__()
        self.heard = 0
        self.all_heard = all_heard

    def on_receive(self, message: Any) -> None:
        """Count, and say when a burst has been heard."""
        self.heard += 1
        if self.heard % BURST == 0:
            self.all_heard.set()


class NoNet:
    """A network where nobody ever answers."""

    def connect(self, *_: Any, **__: Any) -> None: ...
    def send(self, *_: Any) -> None: ...
    def has_heard(self, key: str) -> bool:
        return False

    def close_connection(self, *_: Any) -> None: ...
    def close(self) -> None: ...
    def wait(self, timeout: float) -> None: ...
    def wake(self) -> None: ...


class Alone(Host):
    """A consumer's actors without a thread, in a time that stands still."""

    def make_dispatcher(self, routes: Routes, port: Port, trace: Trace) -> Dispatcher:
        dispatcher = Dispatcher(routes, clock=VirtualTime(1000.0), trace=trace)
        dispatcher.connect("application", port)
        return dispatcher

    def make_net(
        self, settings: Settings, tell: Callable[[Message], None], clock: Callable[[], float]
    ) -> Net:
        return NoNet()


def tables(site: Site) -> list[Table]:
    """The cost of one message, in three ways; of a round with the real managers."""
    all_heard = threading.Event()
    dispatcher, pykka_actor = _a_listener(), PykkaListener.start(all_heard)
    count_messages, turn_rounds = _a_system()
    measures: dict[str, tuple[Callable[[int], None], int]] = {
        "publish, then turn": (lambda count: _one_by_one(dispatcher, count), BURST),
        "publish 1,000, then turn": (lambda count: _in_a_burst(dispatcher, count), BURST),
        "Pykka's own ThreadingActor, 1,000": (
            lambda count: _by_pykka(pykka_actor, all_heard, count),
            BURST,
        ),
        "tick round": (turn_rounds, 100),
    }
    costs: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(ROUNDS):
        for name, (act, count) in measures.items():
            start = time.perf_counter()
            act(count)
            costs[name].append((time.perf_counter() - start) / count * 1e6)
    pykka_actor.stop()
    one, burst, peer, whole = costs.values()
    messages = count_messages()
    rows = [
        [name, spread(values, 2), f"{ratio(values, peer):.2f}", target]
        for (name, values), target in zip(
            list(costs.items())[:3],
            (at_most(median(one), TARGET_US), at_most(median(burst), TARGET_US), "peer"),
            strict=True,
        )
    ]
    tick = at_most(round(median(whole), 1), TARGET_TICK_US)
    rows.append([f"tick round: {messages} messages, 7 actors", spread(whole, 1), "", tick])
    return [
        Table(
            title=f"messages: µs each, median (least-most) of {ROUNDS} rounds",
            columns=["one message, from tell to handled", "µs", "x Pykka", "target"],
            rows=rows,
        )
    ]


def _a_listener() -> Dispatcher:
    dispatcher = Dispatcher({Hello: ("listener",)})
    dispatcher.connect("listener", Listener.launch(Settings(), dispatcher=dispatcher))
    for _ in range(2):  # the first round; there is no supervisor to ask anybody
        dispatcher.turn()
    return dispatcher


def _one_by_one(dispatcher: Dispatcher, count: int) -> None:
    hello = Hello(number=1)
    publish, turn = dispatcher.publish, dispatcher.turn
    for _ in range(count):
        publish(hello)
        turn()


def _in_a_burst(dispatcher: Dispatcher, count: int) -> None:
    hello = Hello(number=1)
    publish, turn = dispatcher.publish, dispatcher.turn
    for _ in range(count):
        publish(hello)
    for _ in range(count):
        turn()


def _by_pykka(actor: Any, all_heard: threading.Event, count: int) -> None:
    hello = Hello(number=1)
    all_heard.clear()
    for _ in range(count):
        actor.tell(hello)
    all_heard.wait()


def _a_system() -> tuple[Callable[[], int], Callable[[int], None]]:
    """How many messages a round is, and how to turn so many rounds."""
    trace = silent()
    settings = Settings(bootstrap_servers=(("127.0.0.1", 9092),), group_id="group")
    system = ActorSystem(
        kind_of(settings.group_protocol), settings, ApplicationPort(Bell(), trace), trace, Alone()
    )
    dispatcher = system.dispatcher
    poll = Poll(now=1000.0, positions={}, freed_bytes=0)

    def turn_rounds(count: int) -> None:
        for _ in range(count):
            dispatcher.publish(poll)
            while dispatcher.turn() is None:
                pass

    def messages() -> int:
        delivered: list[object] = []
        dispatcher.before_each = lambda _actor, message: delivered.append(message)
        turn_rounds(1)
        dispatcher.before_each = None
        return len(delivered)

    turn_rounds(10)
    return messages, turn_rounds
