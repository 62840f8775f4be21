"""What a poll owes to the group: `Poll`, and the question whether the member is still in it.

`Poll` tells the background that the application is alive, and what it has read and freed.
`max_poll_interval_ms` counts from the last `Poll` (KIP-62). A `Poll` wakes the background only if
the background has something to do; otherwise the background reads it at its next turn, so that a
busy application does not pay for a switch of threads with every poll. It has something to do if the
poll was hurried (a rebalance step or an error was acted on, the subscription or assignment
changed), if nothing is buffered and there are positions or freed bytes to tell, if a quarter of the
buffer was freed, or if the group is not stable.

A member whose process was suspended for longer than its session may have lost its partitions to
another member. The group must confirm the member before records are given out again: see
`GroupSession`.
"""

from __future__ import annotations

import math
from typing import Final

from aktor.consumer.core.caller import CallerRef, nobody, this_caller
from aktor.consumer.core.delivery import Delivery
from aktor.consumer.core.port import ApplicationPort, Publish
from aktor.consumer.core.subscription import Subscription
from aktor.events.membership import ConfirmSession, MemberState
from aktor.events.polling import Poll
from aktor.settings import Settings
from aktor.trace import Strand, Trace

__all__ = ["CONFIRM_REPEAT", "POLL_REPEAT", "GroupSession", "PollHeartbeat"]

#: How often an unchanged Poll is repeated, in seconds, or more often (see `max_poll_interval_ms`).
POLL_REPEAT: Final = 0.25

#: If positions or freed bytes have changed, and the background need not be woken for them: seconds
#: from the last `Poll` to the next. An application may poll some thousand times a second; the
#: background would not act sooner on more messages.
NEWS_EVERY: Final = 0.01

#: The background is woken when this part of the fetch buffer has been freed: 1 / WAKE_SHARE.
WAKE_SHARE: Final = 4


class PollHeartbeat:
    """Owns when the last `Poll` was sent, and how many freed bytes were sent without waking the
    background thread."""

    def __init__(
        self,
        settings: Settings,
        port: ApplicationPort,
        publish: Publish,
        delivery: Delivery,
        subscription: Subscription,
        strand: Strand,
    ) -> None:
        #: A poll that waits sends a `Poll` at least this often, in seconds: if none is sent for
        #: three times as long, the member leaves its group.
        self._poll_interval = settings.max_poll_interval / 3
        self._repeat = min(POLL_REPEAT, self._poll_interval)
        self._wake_bytes = settings.max_buffered_bytes // WAKE_SHARE
        self._port = port
        self._delivery = delivery
        self._subscription = subscription
        self._publish = publish
        self._strand = strand
        self._urgent = False
        self._told_at = -math.inf
        #: When the application was last in a poll, and in which thread. (The thread is noted with
        #: each `Poll` that is told: to ask for it costs more than the time.)
        self.polled_at = -math.inf
        #: When the application has subscribed: since then it is expected to poll.
        self.subscribed_at = -math.inf
        self.caller: CallerRef = nobody
        #: Whether positions or freed bytes were sent without a wake, and the background was not
        #: woken since; and how many bytes.
        self._unread = False
        self._unread_bytes = 0

    def subscribed(self, now: float) -> None:
        """The application has subscribed: it is expected to poll, and the next `Poll` wakes the
        background."""
        self.subscribed_at = now
        self._urgent = True

    def hurry(self) -> None:
        """The next `Poll` wakes the background: it was told something on which it should act."""
        self._urgent = True

    def polls(self, now: float) -> None:
        """The application is in a poll."""
        self.polled_at = now

    @property
    def last_told_at(self) -> float:
        """When the last `Poll` was told; -inf: none was."""
        return self._told_at

    def due_after(self, _now: float) -> float:
        """When a poll that waits must send the next `Poll`: else the member leaves its group."""
        return self._told_at + self._poll_interval

    def tell(self, now: float, *, force: bool = False) -> None:
        """Tell a `Poll` if there is news, or if it is time for one; `force`: in any case."""
        self.polled_at = now
        delivery = self._delivery
        credit = delivery.credit
        freed = credit.unreported
        news = bool(freed or delivery.moved)
        repeats = now >= self._told_at + self._repeat
        if not (news or force or self._urgent or repeats):
            return  # most polls that find nothing end here
        wake = (
            force
            or self._urgent
            or (news and self.has_run_dry)
            or self._unread_bytes + freed >= self._wake_bytes
            or (repeats and self._rebalances)
        )
        if news and not wake and now < self._told_at + NEWS_EVERY:
            return
        self.caller = this_caller()
        moved = delivery.take_moved()
        incarnation, given_back = credit.incarnation, credit.given_back
        self._told_at = now
        self._urgent = False
        self._unread_bytes = 0 if wake else self._unread_bytes + freed
        self._unread = not wake and (self._unread or news)
        poll = Poll(
            now=now,
            positions=moved,
            freed_bytes=given_back,
            incarnation=incarnation,
            topic_ids=self._subscription.topic_ids.ids,
        )
        self._strand.beat()
        self._publish(poll, wake=wake)
        credit.report(incarnation, given_back)

    def be_heard(self, now: float) -> None:
        """Make the background read all messages: wake it if it may not have read the last ones.

        A poll that gives out records may leave that for later, since the next poll comes soon.
        Every other poll calls this before it waits, returns or raises: if the fetch manager does
        not know that there is room again, records for which the application waits may never come.
        """
        delivery = self._delivery
        if self._unread or self._urgent or delivery.moved or delivery.credit.unreported:
            self.tell(now, force=True)

    @property
    def has_run_dry(self) -> bool:
        """Whether no fetched bytes are here. A poll waits then, unless an iteration has put records
        back."""
        return not (self._delivery.buffered_bytes or self._port.chunks)

    @property
    def _rebalances(self) -> bool:
        """Whether the group has yet to make us a stable member."""
        state = self._port.membership.member.state
        return self._subscription.in_group and state is not MemberState.STABLE


#: How often the group is asked to confirm the session, in seconds.
CONFIRM_REPEAT: Final = 0.2


class GroupSession:
    """Owns when the group is asked again to confirm the member.

    Until when the member is confirmed the membership manager says (`SessionExtended`): by each
    answered heartbeat. For a new classic member it says so before the first heartbeat, too: its
    first session begins with the JoinGroup that gave it its id (`HeartbeatState.member_since`).
    """

    __slots__ = ("_ask_again_at", "_log", "_port", "_publish", "_subscription")

    def __init__(
        self, port: ApplicationPort, publish: Publish, log: Trace, subscription: Subscription
    ) -> None:
        self._ask_again_at = math.inf
        self._subscription = subscription
        self._port = port
        self._publish = publish
        self._log = log

    def is_confirmed(self, now: float) -> bool:
        """Whether records may be given out; if not, ask the group to confirm the member."""
        until = self._port.membership.session_until
        if not self._subscription.in_group or now <= until:
            self._ask_again_at = math.inf
            return True
        if now >= self._ask_again_at or self._ask_again_at == math.inf:
            self._ask_again_at = now + CONFIRM_REPEAT
            self._log.info("session.unconfirmed", seconds=round(now - until, 3))
            self._publish(ConfirmSession())
        return False

    def due_after(self, _now: float) -> float:
        """When a poll that waits has to ask the group again."""
        return self._ask_again_at

    @property
    def holds_back(self) -> bool:
        """Whether records are held back because the group has yet to confirm the member."""
        return self._ask_again_at != math.inf

    def forget(self) -> None:
        """No records wait for the group's confirmation any more."""
        self._ask_again_at = math.inf
