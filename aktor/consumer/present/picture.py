"""The picture of a consumer at one moment, of which `why()` and `status()` are made.

It is put together from what each owner has published: the actors' `present`, the snapshots of the
application's port, and the application's own half. To take it waits for nobody and asks nobody, so
that it can be taken from any thread, also while the background thread hangs or has ended.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Mapping, Sized
from dataclasses import field
from types import FrameType
from typing import Any, Final, Protocol

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.consumer.core.caller import CallerRef, frames_of
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.handlers import HandlersNow
from aktor.consumer.core.subscription import Subscription
from aktor.consumer.present.seen import PartitionSeen, see, with_records
from aktor.consumer.present.stack import line_of
from aktor.events.metadata import Cluster
from aktor.events.present import (
    CommitsNow,
    CoordinatorNow,
    FetchNow,
    MemberNow,
    MetadataNow,
    NetworkNow,
    PositionsNow,
)
from aktor.events.routes import (
    COMMITS,
    COORDINATOR,
    FETCH,
    MEMBERSHIP,
    METADATA,
    NETWORK,
    POSITIONS,
)
from aktor.managers.positions.ends import EVERY
from aktor.structs import TopicPartition
from aktor.trace.hooks import runs_hook
from aktor.values import Value

__all__ = ["ApplicationNow", "CallsNow", "Picture", "take"]

#: An application that has not polled for so long, in seconds, holds up what is buffered.
LATE_POLL: Final = 1.0


class CallsNow(Protocol):
    """What a guard shows of the calls of its consumer."""

    @property
    def started(self) -> bool:
        """Calls may enter."""

    @property
    def closed(self) -> bool:
        """No call may enter any more."""

    @property
    def forked(self) -> bool:
        """It is that of a parent process."""

    @property
    def away(self) -> Sized:
        """The calls that wait for the cluster, and let others in."""

    @property
    def waiting_calls(self) -> Collection[str]:
        """The names of these calls."""

    @property
    def call_inside(self) -> str:
        """The name of the call that is at work, and lets no others in; "": there is none."""

    def frames(self, caller: CallerRef, *, in_callback: bool) -> Iterable[FrameType]:
        """See `Guard.frames`."""


class ApplicationNow(Value):
    """The application's thread: when it last polled and subscribed (-inf: never), whether a call of
    it waits for the cluster now (`waits_in`: which one, if that is none that reads), and which
    method of its rebalance listener runs, since when. `in_poll`: a call that reads is at work, in a
    deserializer, say. `line` is where it is, if it is late: not in a call that waits, and it has
    not polled for a second. `handlers`: those of `process`."""

    polled_at: float
    waits: bool
    waits_in: str
    callback: str
    callback_since: float
    line: str
    delivered_at: float
    subscribed_at: float = -math.inf
    in_poll: bool = False
    handlers: HandlersNow = HandlersNow()


class Picture(Value):
    """All that is known of the consumer now. `now` is the dispatcher's clock, `wall` seconds since
    the epoch. `overdue`: for how long the background thread has not turned, where it is, and
    whether that is `in_hook`, a hook of `on_event`.
    `awake_since`: when it last went on after its process had stood still.
    `buffered_of_paused`: those of the buffered bytes that are of paused partitions.
    `untold`: bytes that were read, and that no `Poll` has told to the fetch manager yet. `crowded`:
    partitions that are not fetched before the next `Poll`, if the application is late with it.
    `answers`: when brokers have last answered a Fetch, and for which partitions; `fetch_wait`: how
    long they may keep one that brings nothing. (With `fetch_min_bytes` they keep it though there is
    something: then it is how often somebody who looks has them asked.) `asked`: since when they
    have a Fetch, and for which partitions; `min_bytes` and `max_wait` say how long they may keep
    that though there are records.
    `faulty_since`: since when faults have kept records of these partitions back, one or several in
    a row. `started`: False for an asynchronous one before its `start`. `forked`: it is that of a
    parent process. `closing`: `close` is under way. `pattern`: the one that is subscribed to, if
    we evaluate it."""

    now: float
    wall: float
    started: bool = True
    closed: bool = False
    forked: bool = False
    closing: bool = False
    failure: str = ""
    overdue: float = 0.0
    awake_since: float = -math.inf
    background_line: str = ""
    in_hook: bool = False
    group_id: str | None = None
    in_group: bool = False
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    subscribed: bool = False
    assigned_by_user: bool = False
    session_timeout: float
    max_poll_interval: float
    room: int = 0
    buffered: int = 0
    buffered_of_paused: int = 0
    untold: int = 0
    isolated: bool = False
    unreachable: str = ""
    cluster: Cluster = field(default_factory=Cluster)
    metadata: MetadataNow = field(default_factory=MetadataNow)
    session_until: float = -math.inf
    application: ApplicationNow
    network: NetworkNow = field(default_factory=NetworkNow)
    coordinator: CoordinatorNow | None = None
    member: MemberNow | None = None
    fetch: FetchNow = field(default_factory=FetchNow)
    answers: Mapping[int, tuple[float, Collection[TopicPartition]]] = field(default_factory=dict)
    fetch_wait: float = 0.0
    asked: Mapping[int, tuple[float, Collection[TopicPartition]]] = field(default_factory=dict)
    min_bytes: int = 1
    max_wait: float = 0.5
    crowded: frozenset[TopicPartition] = frozenset()
    positions: PositionsNow = field(default_factory=PositionsNow)
    commits: CommitsNow | None = None
    partitions: Mapping[TopicPartition, PartitionSeen] = field(default_factory=dict)
    faulty_since: Mapping[TopicPartition, float] = field(default_factory=dict)


def take(
    engine: Engine,
    dispatcher: Dispatcher,
    guard: CallsNow,
    *,
    now: float | None = None,
    partitions: bool = True,
) -> Picture:
    """The picture of the consumer to which these belong; without its partitions, if so asked. From
    any thread."""
    settings, port = engine.core.settings, engine.core.port
    subscription = engine.subscription
    now = dispatcher.clock() if now is None else now
    closed, failure = guard.closed, port.failure
    ended = closed or failure is not None
    overdue = 0.0 if ended or guard.forked else dispatcher.overdue(now)
    shown = {} if ended else {one.name: one.present for one in dispatcher.running}
    unreachable = port.connections.unreachable
    network, fetch = shown.get(NETWORK), shown.get(FETCH)
    positions, metadata = shown.get(POSITIONS), shown.get(METADATA)
    fetch = fetch if isinstance(fetch, FetchNow) else FetchNow()
    application = _application(engine, guard, dispatcher, now)
    is_late = now - application.polled_at >= LATE_POLL
    still = dispatcher.standstill
    tells_all = settings.fetch_min_bytes <= 1
    # (Before the partitions are seen: an answer that comes meanwhile is younger than their ends.)
    answers = {node: it.last for node, it in fetch.answered.items()}
    seen: Mapping[TopicPartition, PartitionSeen] = see(engine) if partitions else {}
    held = with_records(seen).values()
    background = _frames_of_late(dispatcher.thread_id, overdue)
    in_hook = runs_hook(background)
    return Picture(
        now=now,
        wall=dispatcher.wall(),
        started=ended or guard.started,
        closed=closed,
        forked=guard.forked,
        closing=engine.call.closing,
        failure="" if failure is None else str(failure),
        overdue=overdue,
        awake_since=-math.inf if still is None else still.until,
        background_line=line_of(background, ours=not in_hook),
        in_hook=in_hook,
        group_id=settings.group_id,
        in_group=subscription.in_group,
        topics=subscription.topics,
        pattern=_pattern(subscription),
        subscribed=subscription.is_subscribed,
        assigned_by_user=subscription.assigned_by_user,
        session_timeout=settings.session_timeout,
        max_poll_interval=settings.max_poll_interval,
        room=settings.max_buffered_bytes,
        buffered=engine.delivery.buffered_bytes + sum([one.arrived for one in held]),
        buffered_of_paused=sum([one.buffered for one in held if one.paused]),
        untold=engine.delivery.credit.unreported,
        isolated=settings.isolation_level == "read_committed",
        unreachable="" if unreachable is None else str(unreachable.args[0]),
        cluster=port.cluster,
        metadata=metadata if isinstance(metadata, MetadataNow) else MetadataNow(),
        session_until=port.membership.session_until,
        application=application,
        network=network.at_rest() if isinstance(network, NetworkNow) else NetworkNow(),
        coordinator=_only(shown.get(COORDINATOR), CoordinatorNow),
        member=_only(shown.get(MEMBERSHIP), MemberNow),
        fetch=fetch,
        answers=answers,
        asked={node: it.asked for node, it in fetch.answered.items()},
        min_bytes=settings.fetch_min_bytes,
        max_wait=settings.fetch_max_wait,
        fetch_wait=max(settings.fetch_max_wait, settings.fetch_idle_wait) if tells_all else EVERY,
        crowded=fetch.crowded.now if is_late and partitions else frozenset(),
        positions=positions if isinstance(positions, PositionsNow) else PositionsNow(),
        commits=_only(shown.get(COMMITS), CommitsNow),
        partitions=seen,
        faulty_since=engine.faulty_since,
    )


def _pattern(subscription: Subscription) -> str:
    return "" if subscription.pattern is None else subscription.pattern.pattern.pattern


def _frames_of_late(background: int | None, overdue: float) -> list[FrameType]:
    # The watch looks on the background thread itself: where it is now says nothing.
    if overdue < LATE_POLL or background is None or background == threading.get_ident():
        return []
    return [*frames_of(background)]


def _only(value: Value | None, kind: type[Any]) -> Any:
    return value if isinstance(value, kind) else None


def _application(
    engine: Engine, guard: CallsNow, dispatcher: Dispatcher, now: float
) -> ApplicationNow:
    heartbeat, running = engine.poll_heartbeat, engine.rebalancing.user_code.running
    callback, since, caller = running or ("", -math.inf, heartbeat.caller)
    waits = bool(guard.away) and running is None
    handlers = engine.handlers
    handed_at = engine.iteration.handed_at
    polled_at = max(heartbeat.polled_at, handed_at)
    late = not waits and now - max(polled_at, since) >= LATE_POLL
    line = ""
    if (late or running) and dispatcher.on_threads:
        line = line_of(guard.frames(caller, in_callback=running is not None))
    return ApplicationNow(
        polled_at=polled_at,
        waits=waits,
        waits_in=_other_call(guard) if waits else "",
        callback=callback,
        callback_since=since,
        line=line,
        delivered_at=max(engine.delivered_at, handed_at),
        subscribed_at=heartbeat.subscribed_at,
        in_poll=late and running is None and guard.call_inside in _POLLS,
        handlers=HandlersNow() if handlers is None else handlers(),
    )


#: Calls that give out records.
_POLLS: Final = frozenset(
    {
        *("__next__", "_next", "_poll_arrow", "_poll_once", "poll", "poll_arrow"),
        *("getmany", "getone", "iteration"),
    }
)

#: Calls that wait for records. (The attendance of the asyncio consumer polls in their place.)
_READERS: Final = _POLLS | {"process", "process (poll)", "start"}


def _other_call(guard: CallsNow) -> str:
    """The call that waits, if none that reads does."""
    calls = guard.waiting_calls
    return min(calls, default="") if _READERS.isdisjoint(calls) else ""
