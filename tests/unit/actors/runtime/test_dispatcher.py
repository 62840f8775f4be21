"""Pykka actors that take turns on a dispatcher."""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
import threading
from importlib import metadata
from typing import Any

import pykka
import pytest

from aktor.actors.runtime.dispatcher import (
    Bell,
    CooperativeActor,
    Dispatcher,
    Reply,
    Seeded,
    Standstill,
    VirtualTime,
    Wake,
    run_until,
)
from aktor.actors.runtime.handlers import handles
from aktor.actors.runtime.manager import NEVER, Backoff, Duty, RequestManager
from aktor.actors.runtime.supervision import Child
from aktor.actors.runtime.supervisor import Supervisor
from aktor.errors import ActorCrashedError, BackgroundThreadError
from aktor.events.metadata import RefreshMetadata
from aktor.events.network import Destination, Request, ResponseReceived
from aktor.settings import Settings
from aktor.trace import recording


class Listener(CooperativeActor):
    """Writes down what it hears."""

    def __init__(self, name: str, heard: list[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.heard = heard

    @handles(str)
    def on_text(self, message: str) -> None:
        self.heard.append((self.name, message))


def a_dispatcher(*names: str, order: Any = None) -> tuple[Dispatcher, list[Any]]:
    heard: list[Any] = []
    dispatcher = Dispatcher({str: names}, order=order)
    for name in names:
        dispatcher.connect(name, Listener.launch(name, heard, dispatcher=dispatcher))
    return dispatcher, heard


def drain(dispatcher: Dispatcher, turns: int = 1000) -> None:
    for _ in range(turns):
        dispatcher.turn()


class Refresher(RequestManager):
    """A manager that counts, and wakes every five seconds."""

    name = "metadata"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refreshed = 0
        self.polled_at: list[float] = []

    @handles(RefreshMetadata)
    def on_refresh(self, message: RefreshMetadata) -> None:
        self.refreshed += 1

    def duties(self) -> tuple[Duty, ...]:
        return (self._note,)

    def _note(self, now: float, _jitter: float) -> float:
        self.polled_at.append(now)
        return now + 5.0


def a_supervised_refresher(
    trace: Any = None,
) -> tuple[Dispatcher, VirtualTime, list[Refresher]]:
    clock = VirtualTime()
    dispatcher = Dispatcher({}, clock=clock, trace=trace)
    made: list[Refresher] = []

    def make(incarnation: int) -> Refresher:
        made.append(Refresher.launch(Settings(), incarnation=incarnation, dispatcher=dispatcher))
        return made[-1]

    dispatcher._routes = {**_clockwork_routes(), RefreshMetadata: ("metadata",)}
    Supervisor.launch([Child("metadata", make, takes_requests=True)], dispatcher=dispatcher)
    return dispatcher, clock, made


def _clockwork_routes() -> dict[type, tuple[str, ...]]:
    from aktor.events.routes import ROUTES

    return dict(ROUTES)


def test_the_hooks_of_pykka_that_the_runtime_stands_on_are_there() -> None:
    for hook in ("_create_actor_inbox", "_create_future", "_start_actor_loop", "_handle_receive"):
        assert callable(getattr(pykka.Actor, hook))
    assert metadata.version("pykka").startswith("4.5")


def test_every_receiver_that_the_routes_name_hears_a_message() -> None:
    dispatcher, heard = a_dispatcher("one", "two")

    dispatcher.publish("hello")
    drain(dispatcher, 2)

    assert heard == [("one", "hello"), ("two", "hello")]


def test_nobody_hears_an_answer_before_what_another_thread_said_to_all() -> None:
    class Answering(Listener):
        def on_text(self, message: str) -> None:
            self.tell("two", f"answer to {message}")

    dispatcher, heard = a_dispatcher("one", "two")
    dispatcher.connect("one", Answering.launch("one", heard, dispatcher=dispatcher))
    said = [str(number) for number in range(3000)]
    # Threads take turns so often that one is interrupted between any two of its steps.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    sayer = threading.Thread(target=lambda: [dispatcher.publish(one) for one in said])
    sayer.start()
    while len(heard) < 2 * len(said):
        dispatcher.turn()
    sayer.join()
    sys.setswitchinterval(interval)

    places = {message: place for place, (_, message) in enumerate(heard)}
    early = [one for one in said if places[f"answer to {one}"] < places[one]]
    assert early == []


def test_a_message_nobody_is_named_for_is_counted_and_traced() -> None:
    trace, events = recording()
    dispatcher = Dispatcher({}, trace=trace)

    dispatcher.publish(42)

    assert dispatcher.dead_letters == 1
    assert [one["event"] for one in events] == ["message.dropped"]


def test_a_message_that_is_declared_for_listeners_to_come_is_no_dead_letter() -> None:
    trace, events = recording()
    dispatcher = Dispatcher({int: ()}, trace=trace)

    dispatcher.publish(42)

    assert (dispatcher.dead_letters, events) == (0, [])


def test_a_message_to_an_actor_that_is_not_there_is_counted_and_traced() -> None:
    trace, events = recording()
    dispatcher = Dispatcher({}, trace=trace)

    dispatcher.tell("fetch", RefreshMetadata(because="a test"))

    assert dispatcher.dead_letters == 1
    assert [one["because"] for one in events] == ["there is no fetch"]


@pytest.mark.parametrize("seed", range(20))
def test_under_any_seed_each_actor_reads_its_own_mail_in_order(seed: int) -> None:
    dispatcher, heard = a_dispatcher("one", "two", "three", order=Seeded(seed))

    for number in range(10):
        dispatcher.publish(str(number))
    drain(dispatcher, 30)

    for name in ("one", "two", "three"):
        assert [said for who, said in heard if who == name] == [str(n) for n in range(10)]


def test_the_same_seed_gives_the_same_history_and_another_seed_another() -> None:
    def history(seed: int) -> list[Any]:
        dispatcher, heard = a_dispatcher("one", "two", "three", order=Seeded(seed))
        for number in range(10):
            dispatcher.publish(str(number))
        drain(dispatcher, 30)
        return heard

    assert history(7) == history(7)
    assert history(7) != history(8)


def test_a_global_stop_of_pykka_actors_does_not_stop_ours() -> None:
    dispatcher, heard = a_dispatcher("one")

    pykka.ActorRegistry.stop_all()
    dispatcher.publish("still there?")
    drain(dispatcher, 2)

    assert heard == [("one", "still there?")]


def test_an_actor_starts_though_a_log_handler_raises_at_what_pykka_logs() -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ConnectionError("no log server")

    logger, handler = logging.getLogger("pykka"), Raising()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        dispatcher, heard = a_dispatcher("one")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    dispatcher.publish("there?")
    drain(dispatcher, 2)

    assert heard == [("one", "there?")]


@pytest.mark.parametrize("of", [CooperativeActor, Listener, None])
def test_each_message_passes_the_public_hook_that_a_program_has_put_in_its_place(
    of: type[CooperativeActor] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    take = CooperativeActor.on_receive

    def look(self: CooperativeActor, message: Any) -> None:
        seen.append(message)
        take(self, message)

    class Looking(Listener):
        on_receive = look

    kind = Listener if of else Looking
    if of is not None:
        monkeypatch.setattr(of, "on_receive", look)
    heard: list[Any] = []
    dispatcher = Dispatcher({str: ("one",)})
    dispatcher.connect("one", kind.launch("one", heard, dispatcher=dispatcher))
    dispatcher.publish("hello")
    drain(dispatcher, 2)

    assert heard == [("one", "hello")]
    assert seen == ["hello"]


def test_a_hook_of_all_actors_may_be_put_in_its_place_at_any_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dispatcher, heard = a_dispatcher("one", "two")
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(
        CooperativeActor, "on_receive", lambda self, message: seen.append((self.name, message))
    )
    dispatcher.publish("hello")
    drain(dispatcher, 2)

    assert heard == []
    assert [message for _, message in seen] == ["hello", "hello"]


def test_pykka_ask_works_on_a_cooperative_actor() -> None:
    class Echo(CooperativeActor):
        def on_receive(self, message: object) -> object:
            return message

    dispatcher = Dispatcher({})
    future = Echo.start(dispatcher=dispatcher).ask("hello", block=False)
    dispatcher.turn()

    assert future.get(timeout=0) == "hello"


class Asked(CooperativeActor):
    """Does what the message says."""

    def on_receive(self, message: Any) -> object:
        return message()


def refuse() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "act",
    [
        lambda actor, asks: asks.append(actor.actor_ref.ask(refuse, block=False)),
        lambda actor, asks: asks.append(actor.actor_ref.ask(lambda: sys.exit(1), block=False)),
        lambda actor, asks: asks.append(actor.actor_ref.ask(actor.stop, block=False)),
        lambda actor, asks: asks.append(actor.actor_ref.stop(block=False)),
        lambda actor, asks: actor.actor_stopped.set(),
    ],
    ids=["it raises", "it exits", "it stops itself", "it is stopped", "it counts as stopped"],
)
def test_whoever_asks_an_actor_by_pykka_hears_its_end(act: Any) -> None:
    dispatcher = Dispatcher({})
    actor = Asked.launch(dispatcher=dispatcher)
    dispatcher.connect("actor", actor)
    asks: list[Any] = []

    asks.append(actor.actor_ref.ask(lambda: "hello", block=False))
    act(actor, asks)
    if actor.actor_ref.is_alive():
        asks.append(actor.actor_ref.ask(str, block=False))
    drain(dispatcher, 5)

    for one in asks:
        with contextlib.suppress(pykka.ActorDeadError, ZeroDivisionError, SystemExit):
            one.get(timeout=0)


@pytest.mark.parametrize(
    "stop",
    [
        lambda actor: actor.actor_ref.stop(block=False),
        lambda actor: actor.stop(),
        lambda actor: actor.actor_stopped.set(),
        lambda actor: actor.actor_ref.proxy().stop(),
    ],
    ids=["its reference", "itself", "its event", "its proxy"],
)
def test_an_actor_that_pykka_stops_is_restarted_as_after_a_crash(stop: Any) -> None:
    trace, events = recording()
    dispatcher, clock, made = a_supervised_refresher(trace)
    run_until(dispatcher, clock, 1.0)

    stop(made[0])
    dispatcher.publish(RefreshMetadata(because="it is heard or dropped"))
    run_until(dispatcher, clock, 2.0)
    dispatcher.publish(RefreshMetadata(because="a test"))
    run_until(dispatcher, clock, 3.0)

    assert [one.incarnation for one in made] == [1, 2]
    assert made[1].refreshed == 1
    (crash,) = [event for event in events if event["event"] == "actor.crashed"]
    assert "not by its supervisor" in crash["because"]


def test_a_consumer_whose_supervisor_is_stopped_by_pykka_has_failed() -> None:
    dispatcher, clock, _ = a_supervised_refresher()
    run_until(dispatcher, clock, 1.0)

    dispatcher._actors["supervisor"].actor_ref.stop(block=False)
    run_until(dispatcher, clock, 2.0)

    assert isinstance(dispatcher.failure, ActorCrashedError)
    assert dispatcher.failure.actor == "supervisor"


def test_virtual_time_jumps_from_wake_to_wake() -> None:
    dispatcher, clock, made = a_supervised_refresher()

    run_until(dispatcher, clock, 21.0)

    assert made[0].polled_at == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert clock.now == 21.0


def test_a_message_is_followed_by_a_tick_at_once() -> None:
    dispatcher, clock, made = a_supervised_refresher()
    run_until(dispatcher, clock, 1.0)

    dispatcher.publish(RefreshMetadata(because="a test"))
    run_until(dispatcher, clock, 2.0)

    assert made[0].refreshed == 1
    assert made[0].polled_at == [0.0, 1.0]


def test_what_is_raised_before_an_actor_is_given_a_message_is_a_crash_of_this_actor() -> None:
    dispatcher, clock, made = a_supervised_refresher()
    run_until(dispatcher, clock, 1.0)

    def before_each(actor: CooperativeActor, message: object) -> None:
        if isinstance(message, RefreshMetadata):
            raise RuntimeError("a fault of a test")

    dispatcher.before_each = before_each
    dispatcher.publish(RefreshMetadata(because="a test"))
    run_until(dispatcher, clock, 2.0)

    assert [one.refreshed for one in made] == [0, 0]
    assert made[1].incarnation == 2


def test_a_thread_wakes_the_dispatcher_and_stops_it() -> None:
    dispatcher, heard = a_dispatcher("one")

    class Nap:
        def __init__(self) -> None:
            self.woken = threading.Event()

        def wait(self, timeout: float) -> None:
            self.woken.wait(min(timeout, 60.0))
            self.woken.clear()

        def wake(self) -> None:
            self.woken.set()

        def prepare_to_rest(self) -> None:
            pass

    dispatcher.sleeper = Nap()
    dispatcher._routes = {**_clockwork_routes(), str: ("one",)}

    def make(incarnation: int) -> Refresher:
        return Refresher.launch(Settings(), incarnation=incarnation, dispatcher=dispatcher)

    Supervisor.launch([Child("metadata", make, takes_requests=True)], dispatcher=dispatcher)
    dispatcher.start_thread("test")
    for number in range(100):
        dispatcher.publish(str(number))

    assert dispatcher.stop(timeout=30.0)
    assert len(heard) <= 100


class Stopped:
    """Sockets of a process that is stopped for 14 s and continued: in a wait, or between two of
    them. An answer is there then, and is read by the next look. A wait that was stopped ends with
    nothing, since its time has passed (PEP 475)."""

    def __init__(self, dispatcher: Dispatcher, clock: VirtualTime) -> None:
        self.dispatcher = dispatcher
        self.clock = clock
        self.stops_in_wait = False
        self.has_answer = False

    def stop(self) -> None:
        self.clock.now += 14.0
        self.has_answer = True

    def wait(self, timeout: float) -> None:
        if self.has_answer:
            self.has_answer = False
            self.dispatcher.publish("an answer")
        elif timeout > 0 and self.stops_in_wait:
            self.stops_in_wait = False
            self.stop()
        else:
            self.clock.now += timeout

    def wake(self) -> None:
        pass

    def prepare_to_rest(self) -> None:
        pass


@pytest.mark.parametrize("where", ["in a wait", "while a message is handled"])
def test_who_was_stopped_reads_what_came_before_it_judges_by_the_time(where: str) -> None:
    """Else brokers that have answered count as dead: their requests are given up by the tick."""
    clock, heard, bell = VirtualTime(), list[Any](), Bell()
    dispatcher = Dispatcher({**_clockwork_routes(), str: ("one",)}, clock=clock)
    dispatcher.sleeper = sockets = Stopped(dispatcher, clock)

    class Ticked(Refresher):
        def _note(self, now: float, _jitter: float) -> float:
            heard.append(now)
            return now + 5.0

    class Hears(Listener):
        def on_text(self, message: str) -> None:
            super().on_text(message)
            if message == "stop":
                sockets.stop()

    dispatcher.connect("one", Hears.launch("one", heard, dispatcher=dispatcher))

    def make(incarnation: int) -> Refresher:
        return Ticked.launch(Settings(), incarnation=incarnation, dispatcher=dispatcher)

    Supervisor.launch([Child("metadata", make, takes_requests=True)], dispatcher=dispatcher)
    dispatcher.turn_until_rung(bell, 2.0)
    assert heard == [0.0]

    if where == "in a wait":
        sockets.stops_in_wait = True
    else:
        dispatcher.publish("stop")
    dispatcher.turn_until_rung(bell, 14.5)

    expected = [] if where == "in a wait" else [("one", "stop")]
    assert heard[1:] == [*expected, ("one", "an answer"), 16.0]


class Slept:
    """Sockets of a thread that sleeps by a clock in hand: each of its first waits ends so many
    seconds late, and the others when it is woken."""

    def __init__(self, clock: VirtualTime, late: list[float]) -> None:
        self.clock = clock
        self.late = list(late)
        self.sleeps = threading.Event()
        self.woken = threading.Event()

    def wait(self, timeout: float) -> None:
        if not timeout:
            return
        if not self.late:
            self.sleeps.set()
            self.woken.wait(30.0)
            self.woken.clear()
            return
        self.clock.now += timeout + self.late.pop(0)

    def wake(self) -> None:
        self.woken.set()

    def prepare_to_rest(self) -> None:
        pass


@pytest.mark.parametrize(
    ("late", "busy", "found"),
    [
        ([0.0, 0.0, 0.4], 0.0, None),
        ([0.0, 3.0], 0.0, Standstill(5.0, 10.0, 13.0)),
        ([0.0, 3.0, 0.0], 0.0, Standstill(5.0, 10.0, 13.0)),
        ([0.0], 0.4, None),
        ([0.0], 2.0, Standstill(5.0, 5.0, 7.0, in_turn=True)),
    ],
    ids=["never", "in a wait", "in the wait before", "never for long", "in a turn"],
)
def test_a_time_in_which_nothing_ran_is_found_by_the_thread(
    late: list[float], busy: float, found: Standstill | None
) -> None:
    clock = VirtualTime()
    dispatcher = Dispatcher(_clockwork_routes(), clock=clock)
    dispatcher.sleeper = sockets = Slept(clock, late)

    class Ticked(Refresher):
        def _note(self, now: float, _jitter: float) -> float:
            if now == 5.0:
                clock.now += busy
            return now + 5.0

    def make(incarnation: int) -> Refresher:
        return Ticked.launch(Settings(), incarnation=incarnation, dispatcher=dispatcher)

    Supervisor.launch([Child("metadata", make, takes_requests=True)], dispatcher=dispatcher)
    dispatcher.start_thread("test")
    assert sockets.sleeps.wait(30.0)
    assert dispatcher.standstill == found

    if found is None:  # a thread that rests does not stand still
        dispatcher.rest()
        clock.now += 60.0
        sockets.sleeps.clear()
        assert dispatcher.fail_if_gone() is None  # as a call of the consumer begins
        assert sockets.sleeps.wait(30.0)
        assert dispatcher.standstill is None
    assert dispatcher.stop(timeout=30.0)


class _Sleeper:
    """Raises, or ends its thread, as soon as the thread would sleep."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def wait(self, timeout: float) -> None:
        raise self.error

    def wake(self) -> None:
        pass

    def prepare_to_rest(self) -> None:
        pass


@pytest.mark.parametrize("error", [OSError("no descriptors"), SystemExit(1), KeyboardInterrupt()])
def test_a_thread_that_ends_in_its_loop_says_so_in_a_typed_error(error: BaseException) -> None:
    failures: queue.SimpleQueue[Any] = queue.SimpleQueue()

    class Application:
        def tell(self, message: Any) -> None:
            failures.put(message.error)

    dispatcher = Dispatcher(_clockwork_routes())
    dispatcher.connect("application", Application())
    dispatcher.sleeper = _Sleeper(error)
    dispatcher.start_thread("test")

    failure = failures.get(timeout=30.0)
    assert isinstance(failure, BackgroundThreadError)
    assert type(error).__name__ in str(failure)
    assert failure.__cause__ is error
    assert dispatcher.stop(timeout=30.0)


def test_a_new_thread_with_the_id_of_the_one_that_ended_is_not_taken_for_it() -> None:
    """Which the operating system gives it soon: `close` on it was refused as on the dispatcher's
    own thread."""
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    turned_here: list[bool] = []

    class Ends(_Sleeper):
        def wait(self, timeout: float) -> None:
            turned_here.append(dispatcher.turns_here)
            super().wait(timeout)

    class Application:
        def tell(self, message: Any) -> None:
            ended.put(message)

    dispatcher = Dispatcher(_clockwork_routes())
    dispatcher.connect("application", Application())
    dispatcher.sleeper = Ends(SystemExit())
    dispatcher.start_thread("test")
    ended.get(timeout=30.0)
    assert dispatcher.stop(timeout=30.0)
    dispatcher._thread.join(30.0)

    dispatcher._thread_id = threading.get_ident()

    assert (turned_here, dispatcher.turns_here) == ([True], False)


def test_an_idle_thread_wakes_for_the_first_look() -> None:
    """What `status` and `why` need is loaded then: of a consumer that nobody polls, too."""
    slept: queue.SimpleQueue[float] = queue.SimpleQueue()
    woken = threading.Event()

    class Nap:
        def wait(self, timeout: float) -> None:
            slept.put(timeout)
            woken.wait(min(timeout, 30.0))
            woken.clear()

        def wake(self) -> None:
            woken.set()

        def prepare_to_rest(self) -> None:
            pass

    dispatcher = Dispatcher(_clockwork_routes())
    dispatcher.sleeper = Nap()

    def make(incarnation: int) -> Refresher:
        return Refresher.launch(Settings(), incarnation=incarnation, dispatcher=dispatcher)

    Supervisor.launch([Child("metadata", make, takes_requests=True)], dispatcher=dispatcher)
    dispatcher.watch_by(lambda now: (now + 1.0, Wake.NEVER))

    dispatcher.start_thread("test")

    assert 0.0 < slept.get(timeout=30.0) <= 1.0
    assert dispatcher.stop(timeout=30.0)


def test_at_the_exit_the_thread_rests_until_a_call_comes() -> None:
    """It must neither end, for a function of `atexit` may yet use the consumer, nor run on."""
    slept: queue.SimpleQueue[float] = queue.SimpleQueue()
    woken = threading.Event()

    class Nap:
        def wait(self, timeout: float) -> None:
            slept.put(timeout)
            woken.wait(30.0)
            woken.clear()

        def wake(self) -> None:
            woken.set()

        def prepare_to_rest(self) -> None:
            pass

    dispatcher = Dispatcher(_clockwork_routes())
    dispatcher.sleeper = Nap()
    dispatcher.start_thread("test")
    slept.get(timeout=30.0)
    assert dispatcher.runs_elsewhere

    dispatcher.rest()
    with pytest.raises(queue.Empty):
        slept.get(timeout=0.2)
    assert dispatcher.alive
    assert not dispatcher.runs_elsewhere

    assert dispatcher.fail_if_gone() is None
    slept.get(timeout=30.0)
    assert not dispatcher.runs_elsewhere  # there may be another rest: each call looks closely
    dispatcher.rest()
    assert slept.empty(), "it rests when `rest` returns"
    assert dispatcher.stop(timeout=30.0)


def test_who_waits_turns_the_actors_after_the_interpreter_has_taken_the_thread_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has prepared for that before its rest, and only if it rested is nothing half done."""
    prepared: queue.SimpleQueue[None] = queue.SimpleQueue()
    bell, heard = Bell(), list[Any]()

    class Ringing(Listener):
        def on_text(self, message: str) -> None:
            super().on_text(message)
            bell.ring()

    class Nap:
        def __init__(self) -> None:
            self.woken = threading.Event()

        def wait(self, timeout: float) -> None:
            self.woken.wait(min(timeout, 60.0))
            self.woken.clear()

        def wake(self) -> None:
            self.woken.set()

        def prepare_to_rest(self) -> None:
            prepared.put(None)

    dispatcher = Dispatcher({str: ("one",)})
    dispatcher.connect("one", Ringing.launch("one", heard, dispatcher=dispatcher))
    dispatcher.sleeper = Nap()
    dispatcher.start_thread("test")
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    assert not dispatcher.is_taken_away

    dispatcher.rest()
    prepared.get(timeout=30.0)
    assert dispatcher.is_taken_away
    assert not dispatcher.turn_until_rung(bell, 0.05)
    dispatcher.publish("a message")
    assert dispatcher.turn_until_rung(bell, 30.0)
    assert heard == [("one", "a message")]

    monkeypatch.undo()
    assert dispatcher.stop(timeout=30.0)
    assert not dispatcher.is_taken_away


def test_an_interrupt_on_any_line_of_the_look_at_the_thread_leaves_it_as_it_is() -> None:
    """`Thread.is_alive` does not bear that in Python 3.11: the running thread counts as ended."""
    ran = queue.SimpleQueue[None]()

    class Nap:
        def __init__(self) -> None:
            self.woken = threading.Event()

        def wait(self, timeout: float) -> None:
            ran.put(None)
            self.woken.wait(30.0)

        def wake(self) -> None:
            self.woken.set()

        def prepare_to_rest(self) -> None:
            pass

    dispatcher = Dispatcher(_clockwork_routes())
    dispatcher.sleeper = Nap()
    dispatcher.start_thread("test")
    ran.get(timeout=30.0)

    lines = 0
    for at in range(100):
        left = at

        def interrupt(_frame: Any, event: str, _argument: Any) -> Any:
            nonlocal left
            left -= event == "line"
            if left < 0:
                raise KeyboardInterrupt
            return interrupt

        tracing = sys.gettrace()
        sys.settrace(interrupt)
        try:
            found = None if dispatcher.runs_elsewhere else dispatcher.fail_if_gone()
            sys.settrace(tracing)
            assert found is None
            break
        except KeyboardInterrupt:
            lines += 1
        finally:
            sys.settrace(tracing)
        assert dispatcher.fail_if_gone() is None

    assert lines >= 5
    assert dispatcher.stop(timeout=30.0)


def test_a_thread_that_could_not_be_started_need_not_be_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    dispatcher = Dispatcher({})
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            dispatcher.start_thread("test")

    assert dispatcher.stop(timeout=30.0)
    assert dispatcher.fail_if_gone() is None


def test_a_bell_rung_before_the_wait_is_not_lost_and_rings_once() -> None:
    bell = Bell()

    bell.ring()
    bell.ring()

    assert bell.wait(0.0)
    assert not bell.wait(0.0)


def test_a_reply_rings_the_bell_when_it_is_done() -> None:
    bell = Bell()
    reply = Reply(bell)

    reply.fail(ValueError("no"))

    assert reply.done
    assert bell.wait(0.0)
    with pytest.raises(ValueError, match="no"):
        reply.get(timeout=0)


def test_a_manager_without_a_dispatcher_is_an_object_whose_handlers_are_called() -> None:
    manager = Refresher(Settings())

    assert manager.handle(RefreshMetadata(because="a test")) == []
    assert manager.refreshed == 1


def test_a_message_that_a_manager_does_not_know_is_a_dead_letter() -> None:
    trace, events = recording()
    manager = Refresher(Settings(), trace=trace)

    assert manager.handle("gibberish") == []

    assert manager.dead_letters == 1
    assert events[0]["event"] == "message.dropped"


def test_an_answer_asked_for_by_an_earlier_incarnation_is_dropped_and_traced() -> None:
    trace, events = recording()
    manager = Refresher(Settings(), incarnation=2, trace=trace)
    request = Request(
        body=object(), to=Destination.ANY, deadline=1.0, sender="metadata", incarnation=1
    )

    said = manager.handle(
        ResponseReceived(request=request, response=None, node=1, now=0.0, jitter=0.5)
    )

    assert said == []
    assert [one["event"] for one in events] == ["answer.dropped"]


def test_a_backoff_doubles_up_to_its_limit_and_starts_over_after_a_success() -> None:
    backoff = Backoff(0.1, 1.0)

    waits = [backoff.failed(0.0, jitter=0.5) for _ in range(6)]
    backoff.reset()

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert backoff.failed(0.0, jitter=0.5) == pytest.approx(0.1)
    assert NEVER > 1e308
