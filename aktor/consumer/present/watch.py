"""Stalls as events: partitions that get nothing, late heartbeats, late polls.

The dispatcher calls `look` on its thread, at most once a second, when it turns anyway; it wakes for
it only while something is suspect. A look that finds nothing suspect looks at no partition.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from typing import Final

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.consumer.core.caller import thread_of
from aktor.consumer.core.engine import Engine
from aktor.consumer.present import picture
from aktor.consumer.present.picture import LATE_POLL, CallsNow, Picture
from aktor.consumer.present.reasons.brokers import is_down
from aktor.consumer.present.reasons.partition import is_fed, of_partitions
from aktor.consumer.present.reasons.reason import FAULT_AFTER, Reason, WaitingFor
from aktor.consumer.present.seen import PartitionSeen
from aktor.consumer.present.stack import stack_of
from aktor.structs import TopicPartition
from aktor.trace import Trace

__all__ = ["Watch", "ahead_by"]

#: Seconds between two looks, and how many partitions are looked at in a second at most.
LOOK_EVERY: Final = 1.0
PARTITIONS_A_SECOND: Final = 500

#: A partition is stalled after so many seconds without a record.
STALLED_AFTER: Final = 1.0

#: A wall clock that moved so many seconds against the monotonic one between two looks was set.
CLOCK_SET: Final = 1.0

#: Two clocks that are read within so many seconds are read at the same time.
SAME_TIME: Final = 0.1

#: The part of `max_poll_interval_ms` after which a poll is told to be overdue.
OVERDUE_PART: Final = 0.5

#: What a partition may wait for although its leader cannot tell whether there is anything new.
_UNTOLD: Final = frozenset(
    {WaitingFor.BROKER, WaitingFor.LEADER, WaitingFor.POSITION, WaitingFor.REFUSED}
)
_HELD_UP: Final = frozenset({WaitingFor.APPLICATION, WaitingFor.CALLBACK, WaitingFor.BUFFER})

#: What hinders even the question whether there is anything new, and is no fault.
_UNASKED: Final = frozenset({WaitingFor.THROTTLED})


class _Stall:
    """One stall that was told: since when, and the reason that was told last."""

    __slots__ = ("reason", "since")

    def __init__(self, since: float, reason: WaitingFor) -> None:
        self.since = since
        self.reason = reason


def ahead_by(clock: Callable[[], float], wall: Callable[[], float]) -> float | None:
    """By how much the wall clock is ahead of the monotonic one, in seconds; None: this thread stood
    still between the two, as on a machine that is too busy, and nobody knows."""
    now = clock()
    ahead = wall() - now
    return ahead if clock() - now < SAME_TIME else None


class Watch:
    """Owns which stalls were told. It keeps the engine by a weak reference: the dispatcher, which
    keeps the watch, must not keep a consumer alive that was dropped. `ahead`: by how much the wall
    clock was ahead of the monotonic one when the consumer was made."""

    def __init__(
        self, engine: Engine, dispatcher: Dispatcher, guard: CallsNow, log: Trace, *, ahead: float
    ) -> None:
        self._engine = weakref.ref(engine)
        self._dispatcher = dispatcher
        self._guard = guard
        self._log = log.aside()  # it only looks
        self._stalls: dict[TopicPartition, _Stall] = {}
        #: Of a reason that does not know since when it holds: what it was, where the partition
        #: stood, and when that was first seen.
        self._seen: dict[TopicPartition, tuple[WaitingFor, int | None, float]] = {}
        #: The heartbeat and the poll that were told to be late: when they were sent, or made.
        self._late_heartbeat = math.inf
        self._late_poll = -math.inf
        #: By how much the wall clock was ahead of the monotonic one at the last look.
        self._ahead = ahead

    def look(self, now: float) -> tuple[float, bool]:
        """Tell what has begun or ended; returns when to look again, and whether the thread must
        wake for it."""
        engine = self._engine()
        if engine is None or self._guard.closed:
            return math.inf, False
        p = picture.take(engine, self._dispatcher, self._guard, now=now, partitions=False)
        self._look_at_clocks()
        self._look_at_heartbeat(p)
        self._look_at_poll(p, engine)
        count = len(engine.delivery.partitions)
        suspect = bool(count) and _is_suspect(p)
        if not suspect and not self._stalls:
            self._seen.clear()
            # Without a group there are no heartbeats: nothing may wake the thread when the
            # application has not polled for a second.
            return now + LOOK_EVERY, bool(count) and not p.in_group and _lateness(p) > 0.0
        p = picture.take(engine, self._dispatcher, self._guard, now=now)
        self._look_at_partitions(p)
        return now + max(LOOK_EVERY, count / PARTITIONS_A_SECOND), True

    # -- partitions

    def _look_at_partitions(self, p: Picture) -> None:
        waiting = of_partitions(p)
        #: By reason and text: the partitions that are stalled for it, and since when.
        told: dict[tuple[WaitingFor, str], list[tuple[TopicPartition, float]]] = {}
        for tp, reason in waiting.items():
            it = p.partitions[tp]
            stalled = self._since(tp, p, it, reason) if _is_stalled(p, it, reason) else None
            known = self._stalls.get(tp)
            if stalled is None:
                self._seen.pop(tp, None)
                # What follows an outage (another leader, a check of the position) begins anew, and
                # is no fault for a second; or another fault is more important now (the session),
                # and of that nobody knows whether it keeps back anything. Nothing can be delivered
                # all the same.
                hindered = reason.fault or reason.waiting_for in _UNTOLD
                if known is not None and (is_fed(p, it, reason) or not hindered):
                    self._resumed(tp, p, "records can be delivered")
            elif p.now - stalled < STALLED_AFTER:
                continue
            elif known is None or known.reason is not reason.waiting_for:
                since = stalled if known is None else known.since
                self._stalls[tp] = _Stall(since, reason.waiting_for)
                told.setdefault((reason.waiting_for, reason.text), []).append((tp, since))
        for (tp, since), *others in told.values():
            self._tell(tp, p, waiting[tp], since, others=len(others))
            for other, begun in others:
                self._tell(other, p, waiting[other], begun)
        self._forget_gone(p, waiting)

    def _since(self, tp: TopicPartition, p: Picture, it: PartitionSeen, reason: Reason) -> float:
        """Since when the partition has got nothing for this reason, as far as is known."""
        if reason.since > -math.inf:
            self._seen.pop(tp, None)
            return reason.since
        kind, position, since = self._seen.get(tp, (None, None, p.now))
        if (kind, position) != (reason.waiting_for, it.position):
            if kind is reason.waiting_for and tp in self._stalls:
                self._resumed(tp, p, "records were delivered")
            since = p.now
        self._seen[tp] = reason.waiting_for, it.position, since
        return since

    def _forget_gone(self, p: Picture, waiting: Mapping[TopicPartition, Reason]) -> None:
        for tp in [tp for tp in self._seen if tp not in waiting]:
            del self._seen[tp]
        for tp in [tp for tp in self._stalls if tp not in waiting]:
            self._resumed(tp, p, "it is not assigned any more")

    def _tell(
        self,
        tp: TopicPartition,
        p: Picture,
        reason: Reason,
        since: float,
        *,
        others: int | None = None,
    ) -> None:
        """A warning for the first partition of a reason that is a fault, which says of how many
        `others` it is true: an outage would be hundreds of warnings with one meaning."""
        facts = {
            "topic": tp.topic,
            "partition": tp,
            "reason": reason.waiting_for,
            "because": reason.text,
            "since": round(p.wall - (p.now - since), 3),
            "lag": p.partitions[tp].lag,
        }
        if reason.fault and others is not None:
            self._log.warning("delivery.stalled", **facts, others=others)
        else:
            self._log.debug("delivery.stalled", **facts)

    def _resumed(self, tp: TopicPartition, p: Picture, because: str) -> None:
        stall = self._stalls.pop(tp)
        self._log.info(
            "delivery.resumed",
            topic=tp.topic,
            partition=tp,
            reason=stall.reason,
            seconds=round(p.now - stall.since, 3),
            because=because,
        )

    # -- the clocks, the member and the application

    def _look_at_clocks(self) -> None:
        ahead = ahead_by(self._dispatcher.clock, self._dispatcher.wall)
        if ahead is None:
            return
        step, self._ahead = ahead - self._ahead, ahead
        if abs(step) >= CLOCK_SET:
            self._log.warning("clock.set", seconds=round(step, 3))

    def _look_at_heartbeat(self, p: Picture) -> None:
        member, coordinator = p.member, p.coordinator
        if member is None or member.asked_at == self._late_heartbeat:
            return
        if p.now - max(member.asked_at, member.awake_since) < FAULT_AFTER:
            return
        self._late_heartbeat = member.asked_at
        self._log.warning(
            "heartbeat.late",
            node=None if coordinator is None else coordinator.node,
            address=None if coordinator is None else coordinator.address,
            seconds=round(p.now - member.asked_at, 3),
        )

    def _look_at_poll(self, p: Picture, engine: Engine) -> None:
        late = _lateness(p)
        if not p.in_group or late < p.max_poll_interval * OVERDUE_PART:
            return
        if p.application.polled_at == self._late_poll:
            return
        self._late_poll = p.application.polled_at
        running = engine.rebalancing.user_code.running
        thread = thread_of(engine.poll_heartbeat.caller if running is None else running[2])
        self._log.warning(
            "poll.overdue",
            seconds=round(late, 3),
            callback=p.application.callback or None,
            stack=stack_of(thread) if self._dispatcher.on_threads else (),
        )


def _lateness(p: Picture) -> float:
    app = p.application
    return 0.0 if app.waits or app.polled_at == -math.inf else p.now - app.polled_at


def _is_suspect(p: Picture) -> bool:
    """Whether any partition may be stalled. It costs the same for any number of partitions."""
    return bool(
        p.application.callback
        or p.fetch.hindered
        or p.fetch.late
        or p.positions.waiting
        or _lateness(p) >= LATE_POLL
        or (p.in_group and p.now > p.session_until)
        or p.buffered >= p.room * 9 // 10
        or any(
            is_down(one, p.now) or one.throttled_until > p.now for one in p.network.brokers.values()
        )
    )


def _is_stalled(p: Picture, it: PartitionSeen, reason: Reason) -> bool:
    """Whether the partition, which is owned and not paused, gets nothing though there is, or may
    be, something."""
    if it.paused or is_fed(p, it, reason):
        return False
    kind = reason.waiting_for
    some = bool(it.buffered or it.lag)
    if reason.fault and (some or it.lag is None or kind in _UNTOLD):
        return True
    return kind in _UNASKED or (kind in _HELD_UP and some)
