"""What a consumer shows of itself: status, why nothing comes, rebalances, events, metrics."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    overload,
)

from kafka.errors import KafkaError

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.consumer.core.core import Core
from aktor.consumer.core.engine import Engine
from aktor.consumer.inside import Inside
from aktor.consumer.metrics import ConsumerMetrics, Counted
from aktor.consumer.rebalance_history import RebalanceHistory
from aktor.events.lifecycle import ActorStatus, ReportStatus
from aktor.events.routes import SUPERVISOR
from aktor.settings import Settings
from aktor.structs import ConsumerGroupMetadata
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.consumer.present.picture import CallsNow, Picture
    from aktor.consumer.present.watch import Watch
    from aktor.consumer.status import ConsumerStatus
    from aktor.consumer.system import Host
    from aktor.trace.rebalances.rows import MemberPart

__all__ = ["Shown"]


S = TypeVar("S")
T = TypeVar("T")


class replaceable(Generic[S, T]):
    """A property whose name a subclass may take for an attribute of its own: kafka-python's
    consumer has none of this name. (What has no `__set__` gives way to an attribute.)"""

    def __init__(self, read: Callable[[S], T]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: S, owner: type) -> T: ...
    def __get__(self, instance: S | None, owner: type) -> Self | T:
        return self if instance is None else self._read(instance)


class Shown(Inside):
    """The methods of a consumer that only look, in every state and from any thread."""

    _core: Core
    _dispatcher: Dispatcher
    _engine: Engine
    _guard: Any  # each driver has one of its own
    _host: Host
    _measured: ConsumerMetrics | None
    _settings: Settings

    #: How long `metrics` waits for what the actors have counted, in seconds.
    _look_wait: ClassVar = 1.0

    def _prepare_metrics(self, config: Mapping[str, Any], counted: Counted[Engine]) -> None:
        """Before the consumer has its parts: reporters may refuse their settings."""
        self._measured = ConsumerMetrics(config, counted) if config["metrics_enabled"] else None

    def _begin_to_show(self) -> None:
        """The consumer has its parts."""
        if self._measured is not None:
            self._measured.begin(self._measure, self._dispatcher.clock)
        self._rebalances = RebalanceHistory(self._core.trace)
        look = _looks_later(self._engine, self._dispatcher, self._guard, self._core.log)
        self._dispatcher.watch_by(look)

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
        return self._core.trace.subscribe(callback, level=level)

    def status(self) -> ConsumerStatus:
        """How the consumer is now: what it waits for, ages, the member, the assignment, how far it
        was read, whether it is well.

        Works in every state, also after `close` and after a failure, in any thread, and asks
        nobody: the facts are noted in less than a millisecond for 200 partitions (0.4 to 1.7 µs
        for each), also if the background thread hangs. What follows from them is worked out when
        it is read (`state`, `why`, `waiting_for`, `healthy`, `partitions`), and tells of the moment
        of the call, too. `str()` of it reads well.
        """
        return _loaded().make_status(
            self._picture(),
            client_id=self._settings.client_id,
            group_protocol=self._group_protocol(),
            member=self._core.port.membership.member,
            actors=[one for one in self._dispatcher.running if one.name != SUPERVISOR],
        )

    def why(self) -> str:
        """Why nothing is delivered now, in a sentence made of facts: what is not happening, since
        when, because of whom (a broker and its address, the group, the application's own poll or
        listener with its line), what happens next and when.

        As `status`: in every state, in any thread.
        """
        return _loaded().why(self._picture())

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The member's id and generation, for transactions; a snapshot, no request.

        If the member was expelled, these are the id and generation that it had: the group refuses
        commits with them.
        """
        group_id = self._settings.group_id
        if group_id is None:
            return ConsumerGroupMetadata(group_id=None)
        member = self._core.port.membership.was_member
        return ConsumerGroupMetadata(
            group_id,
            member.generation,
            member.member_id,
            self._settings.group_instance_id,
            self._core.port.membership.member.state.value,
        )

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has been reached, and the consumer is not closed."""
        return not self._guard.closed and self._core.port.cluster.version > 0

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
            self._measured.update(self._engine, self._actors())

    def _actors(self) -> tuple[ActorStatus, ...]:
        if self._guard.closed or self._guard.forked or self._core.port.failure is not None:
            return ()
        if self._dispatcher.turns_here:
            return ()  # called by a callback of a Future: this thread would wait for itself
        if self._dispatcher.is_taken_away or self._dispatcher.fail_if_gone():
            return ()
        # A bell of its own: any thread may ask, and must not take the ring another one waits for.
        bell = self._host.make_bell()
        ticket, reply = self._core.port.ask(SUPERVISOR, bell)
        self._dispatcher.publish(ReportStatus(ticket=ticket, now=self._core.clock()))
        try:
            bell.wait(self._look_wait)
            if not reply.done or self._core.port.failure is not None:
                return ()
            actors: tuple[ActorStatus, ...] = reply.get(timeout=0)
        except KafkaError:
            return ()  # it was closed, or crashed, while we looked
        finally:
            self._core.port.forget(ticket)
            if self._dispatcher.exits:
                self._rest()
        return actors

    def _rest(self) -> None:
        """The program exits, and a look is over."""

    def _close_reporters(self) -> None:
        if self._measured is not None:
            self._measured.close(self._core.trace)

    def _picture(self) -> Picture:
        return _loaded().take(self._engine, self._dispatcher, self._guard)

    def _group_protocol(self) -> str:
        """The protocol that the group speaks; "auto" as long as that is not decided."""
        setting = self._settings.group_protocol
        return (self._core.port.membership.spoken or setting) if setting == "auto" else setting


class _Loaded(NamedTuple):
    take: Callable[..., Picture]
    why: Callable[[Picture], str]
    make_status: Callable[..., ConsumerStatus]
    make_watch: Callable[..., Watch]


@functools.cache
def _loaded() -> _Loaded:
    """The modules that look at a consumer. They are loaded once, when they are first needed, and
    kept here: when the interpreter ends, nothing can be imported any more, and a consumer may still
    be asked for its status."""
    from aktor.consumer import status
    from aktor.consumer.present import picture, watch
    from aktor.consumer.present.reasons import sentence

    return _Loaded(picture.take, sentence.why, status.make, watch.Watch)


def _looks_later(
    of: Engine, dispatcher: Dispatcher, guard: CallsNow, log: Trace
) -> Callable[[float], tuple[float, bool]]:
    """The looks of a watch that is loaded when it first looks, a second after the consumer was
    made: neither an import nor the first record waits for it. What `status` and `why` need is
    loaded then, too: when they are needed most, a program may have no file left to open."""
    engine = weakref.ref(of)  # as `Watch` keeps it
    ahead = dispatcher.wall() - dispatcher.clock()
    watch: Watch | None = None

    def look(now: float) -> tuple[float, bool]:
        nonlocal watch
        if watch is None:
            loaded = _loaded()
            if (alive := engine()) is None:
                return math.inf, False
            watch = loaded.make_watch(alive, dispatcher, guard, log, ahead=ahead)
        return watch.look(now)

    return look
