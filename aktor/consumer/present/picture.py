"""The picture of a consumer at one moment, of which `why()` and `status()` are made.

It is put together from what each owner has published: the actors' `present`, the snapshots of the
application's port, and the application's own half. To take it waits for nobody and asks nobody, so
that it can be taken from any thread, also while the background thread hangs or has ended.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping, Sized
from dataclasses import field
from typing import Any, Final, NamedTuple, Protocol

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.partition import Partition, Stage
from aktor.consumer.core.subscription import Subscription
from aktor.consumer.present.stack import line_of
from aktor.errors import RecordDeserializationError
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
from aktor.records.extent import newest_timestamp
from aktor.structs import TopicPartition
from aktor.values import Value

__all__ = ["ApplicationNow", "CallsNow", "PartitionSeen", "Picture", "take"]

#: An application that has not polled for so long, in seconds, holds up what is buffered.
LATE_POLL: Final = 1.0


class CallsNow(Protocol):
    """What a guard shows of the calls of its consumer."""

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


class ApplicationNow(Value):
    """The application's thread: when it last polled (-inf: never), whether a call of it waits for
    the cluster now (`waits_in`: which one, if that is none that reads), and which method of its
    rebalance listener runs, since when. `line` is where it is, if it is late: not in a call that
    waits, and it has not polled for a second."""

    polled_at: float
    waits: bool
    waits_in: str
    callback: str
    callback_since: float
    line: str
    delivered_at: float


class PartitionSeen(NamedTuple):
    """One assigned partition, as the application has it. `buffered` counts bytes, also those that
    no poll has taken over yet (`arrived`), `records` the offsets that are buffered, `in_hand` the
    records that an iteration has taken and not handed out yet. `error_is_yours`: the application's
    own code has raised what `error` says. `next_at` is the timestamp of what
    comes next, in ms, at the latest (-1: not known). `paused_at`, `failed_at`, `open_at`: since
    when it is paused, has its error, has an open transaction (-inf: it has not, or it is not
    known). `here_since`: since when at least its records are here, as the application knows (inf:
    it has none, or only such that no poll has taken over yet)."""

    position: int | None
    end: int | None
    lag: int | None
    high_watermark: int | None
    paused: bool
    stage: Stage
    subscribed: bool
    buffered: int
    arrived: int
    records: int
    next_at: int
    error: str
    in_hand: int
    error_is_yours: bool = False
    paused_at: float = -math.inf
    failed_at: float = -math.inf
    open_at: float = -math.inf
    here_since: float = math.inf

    @property
    def is_here(self) -> bool:
        """Whether there are records that the application need only take."""
        return bool(self.buffered or self.in_hand)


class Picture(Value):
    """All that is known of the consumer now. `now` is the dispatcher's clock, `wall` seconds since
    the epoch. `overdue`: for how long the background thread has not turned, and where it is.
    `buffered_of_paused`: those of the buffered bytes that are of paused partitions.
    `untold`: bytes that were read, and that no `Poll` has told to the fetch manager yet. `crowded`:
    partitions that are not fetched before the next `Poll`, if the application is late with it.
    `forked`: it is that of a parent process. `closing`: `close` is under way. `pattern`: the
    one that is subscribed to, if we evaluate it."""

    now: float
    wall: float
    closed: bool = False
    forked: bool = False
    closing: bool = False
    failure: str = ""
    overdue: float = 0.0
    background_line: str = ""
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
    crowded: frozenset[TopicPartition] = frozenset()
    positions: PositionsNow = field(default_factory=PositionsNow)
    commits: CommitsNow | None = None
    partitions: Mapping[TopicPartition, PartitionSeen] = field(default_factory=dict)


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
    is_late = now - engine.heartbeat.polled_at >= LATE_POLL
    seen = _partitions(engine) if partitions else {}
    return Picture(
        now=now,
        wall=dispatcher.wall(),
        closed=closed,
        forked=guard.forked,
        closing=engine.call.closing,
        failure="" if failure is None else str(failure),
        overdue=overdue,
        background_line=_line_of(dispatcher.thread_id, overdue),
        group_id=settings.group_id,
        in_group=subscription.in_group,
        topics=subscription.topics,
        pattern=_pattern(subscription),
        subscribed=subscription.is_subscribed,
        assigned_by_user=subscription.assigned_by_user,
        session_timeout=settings.session_timeout,
        max_poll_interval=settings.max_poll_interval,
        room=settings.max_buffered_bytes,
        buffered=engine.delivery.buffered_bytes,
        buffered_of_paused=sum([one.buffered for one in seen.values() if one.paused]),
        untold=engine.delivery.credit.unreported,
        isolated=settings.isolation_level == "read_committed",
        unreachable="" if unreachable is None else str(unreachable.args[0]),
        cluster=port.cluster,
        metadata=metadata if isinstance(metadata, MetadataNow) else MetadataNow(),
        session_until=port.membership.session_until,
        application=_application(engine, guard, dispatcher, now),
        network=network if isinstance(network, NetworkNow) else NetworkNow(),
        coordinator=_only(shown.get(COORDINATOR), CoordinatorNow),
        member=_only(shown.get(MEMBERSHIP), MemberNow),
        fetch=fetch,
        crowded=fetch.crowded() if is_late and partitions else frozenset(),
        positions=positions if isinstance(positions, PositionsNow) else PositionsNow(),
        commits=_only(shown.get(COMMITS), CommitsNow),
        partitions=seen,
    )


def _pattern(subscription: Subscription) -> str:
    return "" if subscription.pattern is None else subscription.pattern.pattern.pattern


def _line_of(background: int | None, overdue: float) -> str:
    # The watch looks on the background thread itself: where it is now says nothing.
    if overdue < LATE_POLL or background is None or background == threading.get_ident():
        return ""
    return line_of(background, ours=True)


def _only(value: Value | None, kind: type[Any]) -> Any:
    return value if isinstance(value, kind) else None


def _application(
    engine: Engine, guard: CallsNow, dispatcher: Dispatcher, now: float
) -> ApplicationNow:
    heartbeat, running = engine.heartbeat, engine.rebalancing.user_code.running
    callback, since, thread = running or ("", -math.inf, heartbeat.thread)
    waits = bool(guard.away) and running is None
    late = not waits and now - max(heartbeat.polled_at, since) >= LATE_POLL
    return ApplicationNow(
        polled_at=heartbeat.polled_at,
        waits=waits,
        waits_in=_other_call(guard) if waits else "",
        callback=callback,
        callback_since=since,
        line=line_of(thread) if (late or running) and thread and dispatcher.on_threads else "",
        delivered_at=engine.delivered_at,
    )


#: Calls that wait for the cluster and give out no records.
_NO_READERS: Final = frozenset(
    {
        "beginning_offsets",
        "bootstrap",
        "commit",
        "committed",
        "end_offsets",
        "look_up_topics",
        "offsets",
        "offsets_for_times",
        "position",
        "topics",
    }
)


def _other_call(guard: CallsNow) -> str:
    """The call that waits, if none that reads does."""
    calls = guard.waiting_calls
    others = sorted(_NO_READERS.intersection(calls))
    return others[0] if others and len(others) == len(calls) else ""


def _partitions(engine: Engine) -> dict[TopicPartition, PartitionSeen]:
    isolated = engine.core.settings.isolation_level == "read_committed"
    arrived: dict[TopicPartition, int] = {}
    for chunk in engine.core.port.chunks.copy():
        arrived[chunk.partition] = arrived.get(chunk.partition, 0) + chunk.size
    iteration = engine.iteration
    in_hand = iteration.in_hand()
    return {
        partition: _seen(
            state,
            iteration.offset_of(state),
            isolated,
            arrived.get(partition, 0),
            in_hand.get(state, 0),
        )
        for partition, state in engine.delivery.partitions.items()
    }


def _seen(
    state: Partition, position: int | None, isolated: bool, arrived: int, in_hand: int
) -> PartitionSeen:
    # Each field is read once: another thread may move the partition meanwhile.
    ends, error = state.log_ends, state.error
    chunks = state.chunks.copy() if state.chunks else ()
    end = None if ends is None else ends[1] if isolated else ends[0]
    lag = None if position is None or end is None else max(0, end - position)
    last = chunks[-1].end if chunks else -1
    return PartitionSeen(
        position=position,
        end=end,
        lag=lag,
        high_watermark=None if ends is None else ends[0],
        paused=state.paused,
        stage=state.stage,
        subscribed=state.subscribed,
        buffered=sum([chunk.size for chunk in chunks]) + arrived if chunks else arrived,
        arrived=arrived,
        records=max(0, last - position) if position is not None else 0,
        next_at=newest_timestamp(chunks[0].data) if chunks else state.read_until,
        error="" if error is None else str(error),
        in_hand=in_hand,
        error_is_yours=isinstance(error, RecordDeserializationError),
        paused_at=state.paused_at,
        failed_at=state.failed_at,
        open_at=state.open_at,
        here_since=state.log_ends_at if chunks or in_hand else math.inf,
    )
