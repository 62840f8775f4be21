"""What a consumer of any kind shows of itself: its metrics, its rebalances, the events of its
trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, overload

from kafka.errors import KafkaError

from aktor.consumer.metrics import ConsumerMetrics, Counted
from aktor.consumer.rebalance_history import RebalanceHistory
from aktor.events.lifecycle import ActorStatus, ReportStatus
from aktor.events.routes import SUPERVISOR
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.consumer.assembly import Assembly
    from aktor.trace.rebalances.rows import MemberPart

__all__ = ["Measured"]

S = TypeVar("S")
T = TypeVar("T")


class replaceable(Generic[S, T]):
    """A property whose name a subclass may take for an attribute of its own: kafka-python's
    consumer has none of this name. On a consumer of ours it is a fact, which nobody sets."""

    def __init__(self, read: Callable[[S], T]) -> None:
        self._read = read
        self._name = read.__name__
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: S, owner: type) -> T: ...
    def __get__(self, instance: S | None, owner: type) -> Self | T:
        if instance is None:
            return self
        own = vars(instance)
        return own[self._name] if self._name in own else self._read(instance)

    def __set__(self, instance: S, value: object) -> None:
        self._check_subclass(instance)
        vars(instance)[self._name] = value

    def __delete__(self, instance: S) -> None:
        self._check_subclass(instance)
        if vars(instance).pop(self._name, self) is self:
            raise AttributeError(self._name)

    def _check_subclass(self, instance: S) -> None:
        if type(instance).__module__.startswith("aktor."):
            raise AttributeError(
                f"{self._name} of a {type(instance).__name__} is what the consumer tells, and"
                " cannot be set: give what you keep another name"
            )


class Measured:
    """The methods that need no more of a consumer than its parts, whatever kind it is. They work in
    every state and from any thread."""

    _guard: Any  # each driver has one of its own
    _measured: ConsumerMetrics | None
    #: The consumer's parts.
    _system: Assembly[Any]

    #: How long `metrics` waits for what the actors have counted, in seconds.
    _look_wait: ClassVar = 1.0

    def _prepare_metrics(self, config: Mapping[str, Any], counted: Counted[Any]) -> None:
        """Before the consumer has its parts: reporters may refuse their settings."""
        self._measured = ConsumerMetrics(config, counted) if config["metrics_enabled"] else None

    def _begin_to_show(self) -> None:
        """The consumer has its parts."""
        wiring = self._system.half.wiring
        if self._measured is not None:
            self._measured.begin(self._measure, wiring.clock)
        self._rebalances = RebalanceHistory(wiring.trace)

    @replaceable
    def rebalances(self) -> list[MemberPart]:
        """This member's parts in the last 50 rebalances that are over, the oldest first; each with
        its trigger, how long each phase and each callback took, and how it ended.

        From any thread, also after `close`. What the other members did is in their traces:
        `aktor why` reads them together.
        """
        return self._rebalances.rows()

    def on_event(
        self, callback: Callable[[dict[str, Any]], object], *, level: str = "info"
    ) -> Callable[[], None]:
        """Call `callback(event)` for each event of the trace from now on, until the returned
        function is called. An event is a dict; docs/trace.md lists them.

        `level` is the least: "info" (changes of state), "warning", "error", or "debug", which has
        each request and each delivery as well, but no single record. It is called on the thread
        that tells the event, mostly the one that sends the heartbeats: return soon, and call no
        method of the consumer that waits. What it raises is printed on stderr and changes nothing.
        Raises ValueError for another level, TypeError if it cannot be called.
        """
        if not callable(callback):
            raise TypeError(f"on_event takes a function, not {callback!r}")
        trace: Trace = self._system.half.wiring.trace
        return trace.subscribe(callback, level=level)

    @overload
    def metrics(self, raw: Literal[False] = False) -> dict[str, dict[str, float]] | None: ...
    @overload
    def metrics(self, raw: Literal[True]) -> dict[object, object] | None: ...
    def metrics(self, raw: bool = False) -> Any:
        """`{group: {name: value}}`, or kafka-python's raw objects; None if not enabled.

        The names are kafka-python's, and Java's for what kafka-python does not measure. Averages,
        maxima and rates are over the last `metrics_num_samples` windows of
        `metrics_sample_window_ms`. What single brokers, topics and partitions have stands in groups
        that end in their names.

        Works in every state, as `status` does, but not in a forked child.
        """
        self._guard.check_process()
        if self._measured is None:
            return None
        self._measure()
        return self._measured.raw() if raw else self._measured.grouped()

    def _measure(self) -> None:
        if self._measured is not None:
            self._measured.update(self._system.half, self._actors())

    def _actors(self) -> tuple[ActorStatus, ...]:
        guard, dispatcher, wiring = self._guard, self._system.dispatcher, self._system.half.wiring
        if guard.closed or guard.forked or wiring.port.failure is not None:
            return ()
        if dispatcher.turns_here:
            return ()  # called by a callback of a Future: this thread would wait for itself
        if dispatcher.is_taken_away or dispatcher.fail_if_gone():
            return ()
        # A bell of its own: any thread may ask, and must not take the ring another one waits for.
        bell = self._system.host.make_bell()
        ticket, reply = wiring.port.ask(SUPERVISOR, bell)
        # (Not by the wiring, which says what has led the application to its messages.)
        dispatcher.publish(ReportStatus(ticket=ticket, now=wiring.clock()))
        try:
            bell.wait(self._look_wait)
            if not reply.done or wiring.port.failure is not None:
                return ()
            actors: tuple[ActorStatus, ...] = reply.get(timeout=0)
        except KafkaError:
            return ()  # it was closed, or crashed, while we looked
        finally:
            wiring.port.forget(ticket)
            if dispatcher.exits:
                self._rest()
        return actors

    def _rest(self) -> None:
        """The program exits, and a look is over."""

    def _close_reporters(self) -> None:
        if self._measured is not None:
            self._measured.close(self._system.half.wiring.trace)
