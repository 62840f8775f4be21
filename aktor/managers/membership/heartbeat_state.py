"""A member's times: its next heartbeat, the end of its session (Java: `Heartbeat`), until when a
rebalance waits for it, and by when the application must poll (KIP-62; Java: `pollTimer`).
"""

from __future__ import annotations

import math
from typing import Final

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.manager import NEVER
from aktor.settings import Settings
from aktor.trace.reasons import stood_still

__all__ = ["HeartbeatState", "PollTimer", "StandstillDetector"]

#: The part of the session that a heartbeat may take, after 0, 1, 2, ... failures in a row. The
#: first may take half of the session: if the connection is half-open, there is time left to find
#: another coordinator. The second may take little: FindCoordinator may find the same broker again.
#: The next ones may take more: otherwise a slow connection would never be opened.
SHARES: Final = (1 / 2, 1 / 6, 1 / 3, 1 / 2)

#: Times between heartbeats, in seconds, after a cooperative assignment, and in a KIP-848 group
#: after joining or a new target. Other members may have to give partitions up first. As soon as
#: they have, the group rebalances again, or the coordinator assigns these partitions to us, and a
#: member hears of it only by the answer to a heartbeat. Eight requests in four seconds.
QUICK_BEATS: Final = (0.015, 0.03, 0.06, 0.12, 0.24, 0.48, 0.96, 1.92)

#: A tick that comes so late, in seconds, or a wall clock that has moved so much against the
#: monotonic one between two ticks, is no delay of a busy machine.
STILL_AFTER: Final = 2.0


class HeartbeatState:
    """Owns when the next heartbeat is due, which one is in flight, the session: when it began and
    when it ends; and since when a rebalance may wait for this member.

    A group removes a member in two ways. Its session ends; or it rebalances and has waited for the
    member for the rebalance timeout (`max_poll_interval_ms`): for its JoinGroup or SyncGroup
    (GroupCoordinator.onCompleteJoin, onPendingSyncExpiration), or in a KIP-848 group for the news
    that it has given partitions up (scheduleConsumerGroupRebalanceTimeout). Until the coordinator
    removes the member in the second way, it answers the member's heartbeats as before, even if the
    JoinGroup that it waits for was lost on another connection. So an answered heartbeat does not
    show that this time is running out, and records are given out until `records_until` at most.
    """

    def __init__(self, settings: Settings) -> None:
        #: When the next heartbeat is to be sent. NEVER while one is in flight, unless `start` was
        #: called since: the heartbeats of a new generation do not wait for the answer to one of the
        #: old generation.
        self.due = NEVER
        #: When a coordinator that knows the member answered a heartbeat last.
        self.answered_at = -math.inf
        #: When the last heartbeat was sent, and the first of those that have failed in a row.
        self.asked_at = -math.inf
        self._failing_since = math.inf
        #: When the request was sent that gave the member its id: its first session begins then.
        self.member_since = -math.inf
        #: When JoinGroup or SyncGroup was answered last.
        self.started_at = -math.inf
        #: Whether a heartbeat was answered with REBALANCE_IN_PROGRESS since `started_at`.
        self.rebalances_again = False
        #: When a heartbeat was first refused since JoinGroup or SyncGroup was sent; inf: none was.
        self.refused_since = math.inf
        #: Whether one of these said that the coordinator does not know the member.
        self._is_disowned = False
        #: Seconds between heartbeats; seconds without a heartbeat until the group expels a member.
        self.interval = settings.heartbeat_interval
        self.session = settings.session_timeout
        #: Whether `session` is what the coordinator goes by, or only what is assumed.
        self.session_is_known = True
        self._settings = settings
        self._exchange = Exchange(settings)
        self._quick: list[float] = []
        self._session_until = -math.inf
        self._rebalance_timeout = settings.max_poll_interval
        #: The earliest time since when a rebalance may wait for this member; inf: none waits.
        self._awaited_since = math.inf

    @property
    def in_flight(self) -> bool:
        """Whether a heartbeat is in flight."""
        return self._exchange.in_flight

    @property
    def attempt(self) -> int:
        """The number of the last heartbeat."""
        return self._exchange.number

    @property
    def failures(self) -> int:
        """How many heartbeats in a row have failed."""
        return self._exchange.failures

    @property
    def failing_since(self) -> float:
        """When the first of the heartbeats was sent that have failed in a row; inf: the last one
        has not failed."""
        return self._failing_since if self.failures else math.inf

    @property
    def session_until(self) -> float:
        """When the session ends, if no heartbeat is answered; -inf: there is none."""
        return self._session_until

    @property
    def awaited_since(self) -> float:
        """The earliest time since when a rebalance may wait for this member; inf: none waits."""
        return self._awaited_since

    @property
    def rebalance_until(self) -> float:
        """Until when a rebalance waits for this member at least; inf: none waits."""
        return self._awaited_since + self._rebalance_timeout

    @property
    def records_until(self) -> float:
        """Until when no other member can own our partitions, as far as is known here."""
        return min(self._session_until, self.rebalance_until)

    @property
    def retry_at(self) -> float:
        """When the backoff is over: from then on a heartbeat need not wait for its interval."""
        return self._exchange.retry_at

    def set_times(self, *, interval: float, session: float) -> None:
        """The coordinator decides both times for members of KIP-848 groups. It tells them the
        interval; how long the session is, is assumed."""
        self.interval = interval
        self.session = session
        self.session_is_known = False

    def named(self, asked_at: float) -> None:
        """The group has given the member its id, in answer to a request sent at `asked_at`."""
        self.member_since = asked_at

    def start(self, now: float, *, quick: bool = False) -> None:
        """Send heartbeats from `now` on; `quick`: at first at the distances of `QUICK_BEATS`."""
        self._quick = [beat for beat in QUICK_BEATS if beat < self.interval] if quick else []
        self._exchange.hurry()
        self.started_at = now
        self.rebalances_again = False
        self.due = self._after(now)

    def sent(self, now: float) -> int:
        """A heartbeat is sent; returns its number."""
        self.due = NEVER
        self.asked_at = now
        return self._exchange.sent()

    def expects(self, number: int) -> bool:
        """Whether this heartbeat is in flight, and was not given up."""
        return self._exchange.expects(number)

    @property
    def heard_by(self) -> float:
        """By when the heartbeat in flight is answered, or fails; NEVER if there is none."""
        return self.asked_at + self.patience() if self.in_flight else NEVER

    def patience(self) -> float:
        """How long the next heartbeat may take, in seconds."""
        share = SHARES[min(self._exchange.failures, len(SHARES) - 1)]
        return min(self._settings.request_timeout, self.session * share)

    def answered(self, now: float) -> None:
        """The heartbeat was answered, and the coordinator knows the member."""
        self.answered_at = now
        self._exchange.answered()
        self.due = self._after(now)

    def failed(self, now: float, jitter: float) -> None:
        """The heartbeat was not answered, or it was refused."""
        if not self.failures:
            self._failing_since = self.asked_at
        self.due = self._exchange.failed(now, jitter)

    def refused(self, now: float, *, disowned: bool) -> None:
        """A heartbeat was refused while JoinGroup is in flight; `disowned`: the coordinator does
        not know the member."""
        self.refused_since = min(self.refused_since, now)
        self._is_disowned = self._is_disowned or disowned

    def forget_refusals(self) -> None:
        """JoinGroup or SyncGroup is sent."""
        self.refused_since, self._is_disowned = math.inf, False

    @property
    def was_overtaken(self) -> bool:
        """Whether heartbeats were refused since JoinGroup was sent, all for an old generation."""
        return self.refused_since < math.inf and not self._is_disowned

    def note_rebalance(self) -> None:
        """A heartbeat was answered with REBALANCE_IN_PROGRESS before SyncGroup was answered."""
        self.rebalances_again = True

    def end_session(self, now: float) -> float:
        """End the session: another member may own our partitions by now, until the answer to a
        later heartbeat confirms the member. Returns the session's end."""
        self.member_since = -math.inf
        self._session_until = math.nextafter(now, -math.inf)
        return self._session_until

    def extend(self, asked_at: float) -> bool:
        """The group has confirmed the member, in answer to a request sent at `asked_at`; returns
        whether the session ends later now."""
        until = asked_at + self.session
        if until <= self._session_until:
            return False
        self._session_until = until
        return True

    def not_awaited_before(self, at: float) -> None:
        """No rebalance waited for this member at `at`: the coordinator has answered a request that
        was sent then. A rebalance that waits now may have begun right after that."""
        known = -math.inf if self._awaited_since == math.inf else self._awaited_since
        self._awaited_since = max(known, at)

    def may_be_awaited_from(self, at: float) -> None:
        """From `at` on a rebalance may wait for this member. If one may have waited earlier, the
        earlier time counts."""
        self._awaited_since = min(self._awaited_since, at)

    def not_awaited(self) -> None:
        """No rebalance waits for this member any more: it has sent what the group waited for, or
        it sends no more heartbeats."""
        self._awaited_since = math.inf

    def is_over(self, now: float) -> bool:
        """Whether the session has run out, as far as is known here."""
        return now > self._session_until

    def silent_for(self, now: float) -> float:
        """For how long all heartbeats have failed, if a session may have ended by that, which
        begins with the heartbeat before them; else 0."""
        silent = now - self.failing_since
        return silent if silent + self.interval >= self.session else 0.0

    def hurry(self) -> None:
        """Send the next heartbeat as soon as possible, unless one is in flight."""
        if not self._exchange.in_flight:
            self.due = -math.inf

    def abandon(self) -> None:
        """Give the heartbeat in flight up: its answer will be dropped."""
        self._exchange.abandon()

    def stop(self) -> None:
        """Send no more heartbeats, and ignore the answer to the one in flight."""
        self.abandon()
        self.not_awaited()
        self.due = NEVER

    def _after(self, now: float) -> float:
        return now + (self._quick.pop(0) if self._quick else self.interval)


class PollTimer:
    """Owns the last time that a message or a tick brought, and the time of the last `Poll`."""

    __slots__ = ("_longest", "_polled_at", "_stood_still", "now")

    def __init__(self, settings: Settings) -> None:
        self.now = -math.inf
        self._longest = settings.max_poll_interval
        self._polled_at = math.inf
        #: Seconds since the last `Poll` in which nothing of the consumer ran.
        self._stood_still = 0.0

    def update(self, now: float) -> None:
        """Take over the time now."""
        self.now = now

    def polled(self, now: float) -> None:
        """The application polls; the timer starts again."""
        self.now = now
        self._polled_at = now
        self._stood_still = 0.0

    def stood_still(self, seconds: float) -> None:
        """Nothing of the consumer ran for so long, as `StandstillDetector` has found."""
        self._stood_still += seconds

    @property
    def standstill(self) -> float:
        """For how long nothing of the consumer ran, if there would be no late poll without that;
        else 0."""
        would_be_late = self.elapsed - self._stood_still >= self._longest
        return 0.0 if would_be_late else self._stood_still

    @property
    def expires_at(self) -> float:
        """When the timer expires: `max_poll_interval_ms` after the last `Poll`."""
        return self._polled_at + self._longest

    @property
    def elapsed(self) -> float:
        """Seconds since the last poll."""
        return self.now - self._polled_at


class StandstillDetector:
    """Finds when nothing of the consumer ran: a process that was stopped, a machine that slept.

    Owns when the next tick is due, by when an answer is heard, by how much the wall clock is ahead
    of the monotonic one, and what was found since the group has last confirmed the member. While a
    machine sleeps, Linux lets its monotonic clock stand still (CLOCK_MONOTONIC): then only the wall
    clock shows it, which somebody may have set as well. And a monotonic clock that jumps looks as a
    process that stood still. So the words leave both open.
    """

    __slots__ = ("_ahead", "_at", "_due", "_heard_by", "_words")

    def __init__(self) -> None:
        self._due = math.inf
        self._heard_by = math.inf
        self._ahead = math.inf
        self._words = ""
        self._at = -math.inf

    def tick(self, now: float, wall: float) -> float:
        """A tick has come; returns for how many seconds nothing ran before it, by the monotonic
        clock."""
        overslept, ahead = now - self._due, wall - now
        before, self._ahead = self._ahead, ahead
        if overslept < STILL_AFTER and ahead - before < STILL_AFTER:
            return 0.0  # most ticks end here
        self.hear(now)
        if ahead - before >= STILL_AFTER:
            self._words, self._at = f"the machine slept for {ahead - before:.1f} s", now
            self._words += ", or its clock was set"
        return overslept if overslept >= STILL_AFTER else 0.0

    def hear(self, now: float) -> None:
        """An answer or a failure has come. After a standstill what is in the sockets comes before
        the tick; and while an answer is awaited, there may be no tick due for minutes."""
        if (overslept := now - min(self._due, self._heard_by)) >= STILL_AFTER:
            # (It may have stopped at any time since the tick before.)
            self._words, self._at = stood_still(overslept), now

    def wakes_at(self, due: float, heard_by: float = math.inf) -> None:
        """When the next tick is due if nothing happens before; and by when something is heard."""
        self._due, self._heard_by = due, heard_by

    def confirmed(self, asked_at: float) -> None:
        """The group has confirmed the member, in answer to a request sent at this time."""
        if asked_at >= self._at:
            self._words = ""

    @property
    def words(self) -> str:
        """What was found since the group has last confirmed the member; "": nothing."""
        return self._words

    @property
    def found_at(self) -> float:
        """When that was found; -inf: nothing was."""
        return self._at if self._words else -math.inf
