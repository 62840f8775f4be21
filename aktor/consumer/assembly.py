"""What a consumer is made of, how it starts, and what it owes to the user when it is closed;
whatever drives it: threads with bells, or an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from aktor import kafka_python
from aktor.actors.runtime.dispatcher import Bell, Dispatcher
from aktor.consumer import deserializers
from aktor.consumer.core.core import Wiring
from aktor.consumer.core.guard import Guard
from aktor.consumer.core.half import ApplicationHalf
from aktor.consumer.core.port import Port
from aktor.consumer.core.waiting import Waiting
from aktor.consumer.system import ActorSystem, ConsumerKind, Host
from aktor.events.membership import Operation
from aktor.events.routes import APPLICATION
from aktor.records import Deserialize
from aktor.records import status as reader_in_use
from aktor.settings import Settings
from aktor.trace import open_trace
from aktor.version import __version__

__all__ = ["Assembly", "Ending", "assemble"]

#: The application's half of a kind of consumer.
H = TypeVar("H", bound=ApplicationHalf)
H_co = TypeVar("H_co", bound=ApplicationHalf, covariant=True)
P = TypeVar("P", bound=Port)

#: How long a consumer that cannot begin waits for the end of its thread, in seconds.
GIVE_UP_WAIT: Final = 5.0

#: How long `close` waits for the end of the thread at least, in seconds.
LEAST_STOP_WAIT: Final = 0.5

#: The driver calls each of these where it may block, and then goes on.
Blocking: TypeAlias = Iterator[Callable[[], object]]


class Assembly(NamedTuple, Generic[H_co]):
    """The parts of one consumer, of whatever kind. No thread runs before `start`."""

    host: Host
    dispatcher: Dispatcher
    half: H_co

    def start(self) -> None:
        """Start the background thread."""
        wiring = self.half.wiring
        self.host.start(self.dispatcher, f"aktor-{wiring.settings.client_id}")
        wiring.log.info(
            "consumer.started",
            aktor_version=__version__,
            reader=reader_in_use(),
            kafka_python=kafka_python.version(),
            heartbeat_interval_ms=_heartbeat_interval_ms(wiring.settings),
        )


def _heartbeat_interval_ms(settings: Settings) -> int | None:
    """What the analysis of traces expects of a member until it has sent some heartbeats."""
    is_classic = settings.group_id is not None and settings.group_protocol == "classic"
    return round(settings.heartbeat_interval * 1000) if is_classic else None


class Ending:
    """How a consumer ends, in which order, whatever drives it. Owns whether it has ended, and the
    first error that the user's code has raised in it.

    Each step may be done twice: `close` may be called again after an interrupt.
    """

    def __init__(
        self, made: Assembly[ApplicationHalf], guard: Guard[Any], deserializers: list[Any]
    ) -> None:
        self._made = made
        self._guard = guard
        self._to_close = deserializers
        #: All is done.
        self.over = False
        self.failed: Exception | None = None

    def leave(
        self, deadline: float, *, commit: bool, operation: Operation = Operation.DEFAULT
    ) -> Waiting[BaseException | None]:
        """Commit, run the listener, leave the group: `Engine.close`, unless an interrupted `close`
        has done that. Returns the listener's error."""
        if self._guard.closed:
            return None
        half = self._made.half
        return (yield from half.close(deadline, commit=commit, operation=operation))

    def stop(self, deadline: float, close_reporters: Callable[[], None], because: str) -> Blocking:
        """What is done in any case, also after an error: stop the thread, end what was asked of it,
        run the callbacks of commits, close the deserializers and the reporters of metrics."""
        wiring = self._made.half.wiring
        self._guard.close()
        yield partial(self._made.dispatcher.stop, max(LEAST_STOP_WAIT, deadline - wiring.clock()))
        wiring.port.close()
        self.failed = _run_last_callbacks(self._made.half, self._to_close)
        close_reporters()
        yield from self._is_over(because)

    def give_up(self, close_reporters: Callable[[], None], because: str) -> Blocking:
        """End a consumer that cannot begin. The user's deserializers are not closed: they may be
        given to the next consumer."""
        self._guard.close()
        yield partial(self._made.dispatcher.stop, GIVE_UP_WAIT)
        self._made.half.wiring.port.close()
        close_reporters()
        yield from self._is_over(because)

    def _is_over(self, because: str) -> Blocking:
        if self.over:
            return
        self.over = True
        log = self._made.half.wiring.log
        log.info("consumer.closed", because=because)
        if log.has_file:
            yield log.flush


def assemble(
    kind: ConsumerKind[H, P],
    config: Mapping[str, Any],
    settings: Settings,
    host: Host,
    bell: Bell,
    *,
    key: Deserialize | None,
    value: Deserialize | None,
) -> Assembly[H]:
    """Make the actors of this kind of consumer, and the application's half, which is told by `bell`
    that there is news."""
    trace = open_trace(consumer=settings.client_id, group=settings.group_id)
    port = kind.port(bell, trace)
    dispatcher = ActorSystem(kind, settings, port, trace, host).dispatcher
    wiring = Wiring(
        settings=settings,
        port=port,
        publish=dispatcher.publisher(trace.strand),
        clock=dispatcher.clock,
        trace=trace,
        log=trace.bind(actor=APPLICATION),
    )
    return Assembly(host, dispatcher, kind.half(wiring, config, key, value))


def _run_last_callbacks(half: ApplicationHalf, to_close: list[Any]) -> Exception | None:
    """Run the callbacks of commits, and `close` of these deserializers: all of them, even if some
    raise. Each is done once, also if an interrupt ends this and it is called again. Returns the
    first error."""
    failed, callbacks = None, half.commits.callbacks
    while callbacks.waiting or to_close:
        callbacks.begin_call()  # an interrupted callback does not run any more
        try:
            if callbacks.waiting:
                callbacks.run()
            else:
                deserializers.close(to_close.pop())
        except Exception as error:
            half.wiring.trace.warning("close.failed", because=error)
            failed = failed or error
    return failed
