"""Stalls as events: partitions that get nothing, late heartbeats, late polls.

The dispatcher calls `look` on its thread about once a second. It wakes for it while something is
suspect, and sleeps for no longer than that while there are partitions: so it finds out when its
process stood still. A look that finds nothing suspect asks the partitions only whether one has an
error or an open transaction. Else it looks at each: more seldom if there are more than
`PARTITIONS_A_SECOND`.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aktor.actors.runtime.dispatcher import Dispatcher, Standstill, Wake
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.partition import Partition, Stage
from aktor.consumer.present import picture
from aktor.consumer.present.ends import end_known_at, is_lag_known
from aktor.consumer.present.picture import LATE_POLL, CallsNow, Picture
from aktor.consumer.present.reasons.application import held_up, lateness, unpolled_for
from aktor.consumer.present.reasons.brokers import is_down
from aktor.consumer.present.reasons.partition import (
    LEADER_CANNOT_TELL,
    is_fed,
    is_or_becomes_fault,
    is_paused_by_user,
    of_partitions,
)
from aktor.consumer.present.reasons.reason import FAULT_AFTER, Reason, WaitingFor
from aktor.consumer.present.seen import PartitionSeen
from aktor.consumer.present.stack import stack_of
from aktor.events.positions import LogEnd
from aktor.structs import TopicPartition
from aktor.trace import Trace
from aktor.trace.reasons import stood_still

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

#: A time of so many seconds in which nothing ran is a warning.
LONG_STILL: Final = 1.0

#: So many of these times are remembered until it is told who had to wait for them.
STANDSTILLS_KEPT: Final = 16

#: The part of `max_poll_interval_ms` after which a poll is told to be overdue.
OVERDUE_PART: Final = 0.5

#: What the application holds up, if there is anything.
_HELD_UP: Final = frozenset({WaitingFor.APPLICATION, WaitingFor.CALLBACK, WaitingFor.BUFFER})

#: Why a partition is held that will be taken away.
_GIVEN_UP: Final = frozenset({WaitingFor.CALLBACK, WaitingFor.GROUP})

#: No fault, and while it lasts the leader is not even asked whether there is anything new.
_QUOTA: Final = frozenset({WaitingFor.THROTTLED})


class _Stall:
    """One stall that was told: since when, the reason that was told last, and whether one of its
    reasons was a fault. `faulty_since`: since when only faults keep records back (inf: it is
    something else)."""

    __slots__ = ("fault", "faulty_since", "of", "reason", "since")

    def __init__(self, since: float, of: Partition) -> None:
        self.since = since
        self.of = of
        self.reason: WaitingFor | None = None
        self.fault = False
        self.faulty_since = math.inf

    def told(self, reason: Reason) -> None:
        """This reason was told."""
        self.reason, self.fault = reason.waiting_for, self.fault or reason.fault

    def unseen(self) -> None:
        """It is not known what keeps records back now."""
        self.faulty_since = math.inf

    def follow(self, reason: Reason, since: float) -> None:
        """What keeps records back now, and since when."""
        if reason.waiting_for in _HELD_UP | _QUOTA:
            self.faulty_since = math.inf
        elif self.faulty_since == math.inf and is_or_becomes_fault(reason):
            self.faulty_since = since


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
        #: Of a reason that does not know since when it holds: what it was, and when that was first
        #: seen.
        self._seen: dict[TopicPartition, tuple[WaitingFor, float]] = {}
        #: When a partition was last seen to be paused.
        self._paused: dict[TopicPartition, float] = {}
        #: The heartbeat and the poll that were told to be late: when they were sent, or made.
        self._late_heartbeat = math.inf
        self._late_poll = -math.inf
        #: The last time in which nothing of the consumer ran that was told; and those of which it
        #: is not told yet which partitions had to wait for their end.
        self._still: Standstill | None = None
        self._untold_standstills: deque[Standstill] = deque(maxlen=STANDSTILLS_KEPT)
        #: From when on the partitions may be looked at again.
        self._partitions_at = -math.inf
        #: By how much the wall clock was ahead of the monotonic one at the last look.
        self._ahead = ahead

    def look(self, now: float) -> tuple[float, Wake]:
        """Tell what has begun or ended; returns when to look again, and whether the thread wakes
        for it."""
        engine = self._engine()
        if engine is None or self._guard.closed:
            return math.inf, Wake.NEVER
        p = picture.take(engine, self._dispatcher, self._guard, now=now, partitions=False)
        self._look_at_clocks()
        self._look_at_standstill(p)
        self._look_at_heartbeat(p)
        self._look_at_poll(p, engine)
        partitions = engine.delivery.partitions
        count = len(partitions)
        suspect = bool(count) and (
            bool(self._untold_standstills)
            or _is_suspect(p)
            or _is_held(p, partitions)
            or (p.min_bytes > 1 and _is_behind(partitions, engine.core.port.ends))
        )
        if not suspect and not self._stalls:
            self._seen.clear()
            self._paused.clear()
            self._untold_standstills.clear()
            engine.note_faults({})
            return now + LOOK_EVERY, Wake.NOW_AND_THEN if count else Wake.NEVER
        if now < self._partitions_at:
            return min(self._partitions_at, now + LOOK_EVERY), Wake.FOR_LOOK
        p = picture.take(engine, self._dispatcher, self._guard, now=now)
        self._look_at_partitions(p, partitions)
        engine.note_faults(
            {
                tp: stall.faulty_since
                for tp, stall in self._stalls.items()
                if stall.faulty_since < math.inf
            }
        )
        if self._untold_standstills:
            self._partitions_at = self._untold_standstills[-1].until + LOOK_EVERY
        else:
            self._partitions_at = now + max(LOOK_EVERY, count / PARTITIONS_A_SECOND)
        return min(self._partitions_at, now + LOOK_EVERY), Wake.FOR_LOOK

    def failed(self) -> None:
        """A look has failed: nobody sees until the next one whether a fault goes on."""
        for stall in self._stalls.values():
            stall.unseen()
        if (engine := self._engine()) is not None:
            engine.note_faults({})

    # -- partitions

    def _look_at_partitions(
        self, p: Picture, partitions: Mapping[TopicPartition, Partition]
    ) -> None:
        waiting = {tp: _held(p, p.partitions[tp], one) for tp, one in of_partitions(p).items()}
        still = self._untold_standstills[-1] if self._untold_standstills else None
        # Fetch answers that came meanwhile are still in the sockets, and nobody could poll. (But if
        # the session is over, the partitions may be lost by the next look.)
        is_early = still is not None and p.now < still.until + LOOK_EVERY
        if not is_early:
            self._look_at_untold_standstills(p, partitions)
        #: By reason and text: the partitions that are stalled for it, and since when.
        told: dict[tuple[WaitingFor, str], list[tuple[TopicPartition, float]]] = {}
        for tp, reason in waiting.items():
            it = p.partitions[tp]
            if is_paused_by_user(p, tp, it):
                self._paused[tp] = p.now
            known = self._stalls.get(tp)
            if known is not None and known.of is not partitions.get(tp):
                self._taken_away(tp, p)  # and it is assigned again
                known = None
            elif known is not None and it.given_at > known.since:
                self._delivered(tp, p, it)
                known = None
            if is_early and known is None and reason.waiting_for is not WaitingFor.SESSION:
                continue
            if not _is_stalled(p, tp, it, reason):
                self._seen.pop(tp, None)
                if known is None:
                    continue
                if known.reason is WaitingFor.CONSUMER and self._still is not None:
                    # What is here now waits for no fault, but for its turn, say.
                    ran_at = max(known.since, self._still.until)
                    self._resumed(tp, p, "the process runs again", ran_at)
                elif over := _is_over(p, tp, it, reason, known.since):
                    wanted = is_paused_by_user(p, tp, it)
                    ended = max(known.since, it.paused_at) if wanted else None
                    self._resumed(tp, p, over, ended)
                else:
                    known.follow(reason, p.now)
                continue
            since = max(self._since(tp, p, reason), it.given_at, self._paused.get(tp, -math.inf))
            if still is not None and still.since < since <= still.until + LOOK_EVERY:
                since = max(still.since, it.given_at)  # nobody could say so before
            if p.now - since >= STALLED_AFTER and (
                known is None or known.reason is not reason.waiting_for
            ):
                if known is None:
                    if (of := partitions.get(tp)) is None:
                        continue  # it was taken away just now
                    known = self._stalls[tp] = _Stall(since, of)
                known.told(reason)
                told.setdefault((reason.waiting_for, reason.text), []).append((tp, known.since))
            if known is not None:
                known.follow(reason, since)
        for (tp, since), *others in told.values():
            self._tell(tp, p, waiting[tp], since, others=len(others))
            for other, begun in others:
                self._tell(other, p, waiting[other], begun)
        self._forget_gone(p, waiting)

    def _look_at_untold_standstills(
        self, p: Picture, partitions: Mapping[TopicPartition, Partition]
    ) -> None:
        """Tell which partitions were given nothing while nothing of the consumer ran, and had
        records: by the first look after what came meanwhile was read."""
        while self._untold_standstills:
            still = self._untold_standstills.popleft()
            silences = {
                tp: silence
                for tp, it in p.partitions.items()
                if not it.paused and (silence := _silence_over(still, it)) is not None
            }
            # The process ran as long as records of any partition were given out.
            since = max((begun for begun, _ in silences.values()), default=math.inf)
            for tp, (_, ended) in silences.items():
                if tp not in self._stalls and (of := partitions.get(tp)) is not None:
                    self._tell_who_waited(tp, p, still, _Stall(since, of), ended)

    def _tell_who_waited(
        self, tp: TopicPartition, p: Picture, still: Standstill, stall: _Stall, ended: float
    ) -> None:
        """Nothing of this partition was given out meanwhile, until `ended` (inf: still so). What
        follows a short standstill is not because of that."""
        if min(ended, still.until) - stall.since < STALLED_AFTER:
            return
        goes_on = ended == math.inf
        if not p.partitions[tp].is_here if goes_on else ended > still.until + LOOK_EVERY:
            return  # no record waited for its end
        reason = Reason(WaitingFor.CONSUMER, _words(still), stall.since, fault=False)
        self._stalls[tp] = stall
        stall.told(reason)
        self._tell(tp, p, reason, stall.since)
        if not goes_on:
            self._resumed(tp, p, "records were delivered", ended)

    def _since(self, tp: TopicPartition, p: Picture, reason: Reason) -> float:
        """Since when this reason holds, as far as is known."""
        if reason.since > -math.inf:
            self._seen.pop(tp, None)
            return reason.since
        kind, since = self._seen.get(tp, (None, p.now))
        if kind is not reason.waiting_for:
            since = p.now
        self._seen[tp] = reason.waiting_for, since
        return since

    def _forget_gone(self, p: Picture, waiting: Mapping[TopicPartition, Reason]) -> None:
        for tp in [tp for tp in self._seen if tp not in waiting]:
            del self._seen[tp]
        for tp in [tp for tp in self._paused if tp not in waiting]:
            del self._paused[tp]
        for tp in [tp for tp in self._stalls if tp not in waiting]:
            self._taken_away(tp, p)

    def _taken_away(self, tp: TopicPartition, p: Picture) -> None:
        """It is not assigned any more; some of its records may have been given out before."""
        stall = self._stalls[tp]
        if stall.of.given_at > stall.since:
            self._delivered(tp, p, stall.of)
        else:
            ended = min(p.now, stall.of.released_at)
            self._resumed(tp, p, "it is not assigned any more", ended)

    def _delivered(self, tp: TopicPartition, p: Picture, it: PartitionSeen | Partition) -> None:
        ended = _first_given(it.given_at, it.gaps, self._stalls[tp].since)
        self._resumed(tp, p, "records were delivered", ended)

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
            "lag": _lag(p, tp, p.partitions[tp]),
        }
        if reason.fault and others is not None:
            self._log.warning("delivery.stalled", **facts, others=others)
        else:
            self._log.debug("delivery.stalled", **facts)

    def _resumed(
        self, tp: TopicPartition, p: Picture, because: str, ended: float | None = None
    ) -> None:
        """It is over, now or at `ended`."""
        stall = self._stalls.pop(tp)
        ended = p.now if ended is None else ended
        facts = {
            "topic": tp.topic,
            "partition": tp,
            "reason": stall.reason,
            "seconds": round(ended - stall.since, 3),
            "ended_ago": round(p.now - ended, 3),
            "because": because,
        }
        if stall.fault:
            self._log.info("delivery.resumed", **facts)
        else:
            self._log.debug("delivery.resumed", **facts)

    # -- the clocks, the member and the application

    def _look_at_clocks(self) -> None:
        ahead = ahead_by(self._dispatcher.clock, self._dispatcher.wall)
        if ahead is None:
            return
        step, self._ahead = ahead - self._ahead, ahead
        if abs(step) >= CLOCK_SET:
            self._log.warning("clock.set", seconds=round(step, 3))

    def _look_at_standstill(self, p: Picture) -> None:
        still = self._dispatcher.standstill
        if still is None or still is self._still:
            return
        self._still = still
        self._untold_standstills.append(still)
        self._partitions_at = -math.inf
        lasted = still.until - still.due
        facts = {
            "seconds": round(lasted, 3),
            "since": round(p.wall - (p.now - still.since), 3),
            "because": _words(still),
        }
        if lasted >= LONG_STILL:
            self._log.warning("process.stood_still", **facts)
        else:
            self._log.debug("process.stood_still", **facts)

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
        late = lateness(p)
        if not p.in_group or late < p.max_poll_interval * OVERDUE_PART:
            return
        if p.application.polled_at == self._late_poll:
            return
        self._late_poll = p.application.polled_at
        running = engine.rebalancing.user_code.running
        caller = engine.poll_heartbeat.caller if running is None else running[2]
        frames = self._guard.frames(caller, in_callback=running is not None)
        self._log.warning(
            "poll.overdue",
            seconds=round(late, 3),
            callback=p.application.callback or None,
            stack=stack_of(frames) if self._dispatcher.on_threads else (),
        )


def _is_suspect(p: Picture) -> bool:
    """Whether any partition may be stalled. It costs the same for any number of partitions."""
    return bool(
        p.application.callback
        or p.application.handlers.paused
        or (p.member is not None and p.member.step)  # it may be about to give some up
        or p.fetch.hindered
        or p.fetch.late
        or p.positions.waiting
        or unpolled_for(p) >= LATE_POLL
        or (p.in_group and p.now > p.session_until)
        or p.buffered >= p.room * 9 // 10
        or any(
            is_down(one, p.now) or one.fetch_throttle.until > p.now
            for one in p.network.brokers.values()
        )
    )


def _is_held(p: Picture, partitions: Mapping[TopicPartition, Partition]) -> bool:
    """Whether poll raises an error of one of them, or its next records are of a transaction that
    is open."""
    states = list(partitions.values())  # at one go: another thread may assign partitions
    if any(one.error is not None for one in states):
        return True
    return p.isolated and any(one.open_at > -math.inf for one in states)


def _is_behind(
    partitions: Mapping[TopicPartition, Partition], listed: Mapping[TopicPartition, LogEnd]
) -> bool:
    """Whether there are records of one of them, as its leader was asked, that are not here."""
    for tp, end in listed.items():
        it = partitions.get(tp)
        if it is not None and not it.chunks and it.offset is not None and it.offset < end.offset:
            return True
    return False


def _words(still: Standstill) -> str:
    """For how long nothing ran at least, and why that may be."""
    lasted = still.until - still.due
    if still.in_turn:
        return (
            f"the background thread was busy in one turn for {lasted:.1f} s, or the process stood"
            " still"
        )
    return stood_still(lasted)


def _silence_over(still: Standstill, it: PartitionSeen) -> tuple[float, float] | None:
    """From when to when (inf: still) nothing of the partition was given out, if that was so while
    nothing ran, and it was not paused: not from before that on."""
    for begun, ended in (*it.gaps, (it.given_at, math.inf)):
        if begun <= still.due and ended >= still.until - SAME_TIME:
            if begun <= it.paused_at <= still.until:
                return None  # nobody knows when it was resumed
            return max(begun, still.since), ended
    return None


def _held(p: Picture, it: PartitionSeen, reason: Reason) -> Reason:
    """The reason of the partition; of what is here, and is given out in spite of that reason: why
    the application does not take it."""
    return (held_up(p) or reason) if is_fed(p, it, reason) else reason


def _lag(p: Picture, tp: TopicPartition, it: PartitionSeen) -> int | None:
    return it.lag if is_lag_known(p, tp, it, end_known_at(p, tp, it)) else None


def _first_given(given_at: float, gaps: Iterable[tuple[float, float]], since: float) -> float:
    """When the first record after `since` was given out, of a partition of which some were."""
    for begun, ended in gaps:
        if ended > since:
            return ended if begun <= since else begun
    return given_at


def _is_over(
    p: Picture, tp: TopicPartition, it: PartitionSeen, reason: Reason, since: float
) -> str:
    """Why a stall is over though no record was given out; "" if it is not.

    What follows an outage (another leader, a check of the position) begins anew, and is no fault
    for a second; or another fault is more important now (the session), and of that nobody knows
    whether it keeps back anything. Nothing can be delivered all the same.
    """
    if is_paused_by_user(p, tp, it):
        return "the application has paused it"
    if it.is_here or it.lag != 0 or is_or_becomes_fault(reason) or reason.waiting_for in _QUOTA:
        return ""
    # (What was told before the stall says nothing of now; nor does an answer to anything else, such
    # as whether a new leader has what was read.)
    return "there is nothing to deliver" if end_known_at(p, tp, it) > since else ""


def _is_stalled(p: Picture, tp: TopicPartition, it: PartitionSeen, reason: Reason) -> bool:
    """Whether the partition, which is owned and not paused, gets nothing though there is, or may
    be, something."""
    if is_paused_by_user(p, tp, it) or is_fed(p, it, reason):
        return False
    kind = reason.waiting_for
    some = bool(it.buffered or it.lag) or _lag(p, tp, it) is None
    if reason.fault and (some or kind in LEADER_CANNOT_TELL):
        return True
    if it.stage is Stage.PENDING_REVOCATION:
        return kind in _GIVEN_UP  # nobody asks for more
    if kind is WaitingFor.TRANSACTION or kind is WaitingFor.BYTES:
        return True
    if kind is WaitingFor.BUFFER:  # the others are read all the time, so nobody is late
        return bool(it.buffered or it.lag)
    return kind in _QUOTA or (kind in _HELD_UP and some)
