"""What the membership manager shows of its member: `MemberNow`, for `status()` and `why()`."""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

from aktor.events.present import MemberNow
from aktor.managers.membership.heartbeat_state import HeartbeatState, StandstillDetector

__all__ = ["Present"]

#: A member that has waited so long, in seconds, for the application to poll begins its way anew.
RESTED: Final = 1.0


class Present:
    """Owns how the last request to the coordinator ended, and whether the group wants the member;
    since when the member is in its step; and whether what was shown last may be out of date.

    These are not attributes of the manager itself, because Python takes longer to read an attribute
    of an object that has more than thirty.
    """

    __slots__ = (
        "_fenced_after",
        "_joining_since",
        "_left_late_at",
        "_since",
        "_trouble",
        "_unwanted",
        "_was_answered",
        "may_differ",
        "state",
    )

    def __init__(self) -> None:
        #: Whether what is shown may differ from what is so, and the state that is shown.
        self.may_differ = True
        self.state: Enum | None = None
        #: How the last request to the coordinator ended; "": it was answered.
        self._trouble = ""
        #: Whether the coordinator has answered that request, and why the group does not want the
        #: member, until it has confirmed it: the error, and since when it says so.
        self._was_answered = False
        self._unwanted: tuple[Exception, float] | None = None
        #: When the member came to this step.
        self._since: tuple[tuple[Enum | None, str], float] = (None, ""), -math.inf
        #: Since when it is on its way into the group, by many steps perhaps; -inf: it is not.
        self._joining_since = -math.inf
        #: When it left the group because of a late poll, until the group has confirmed it again.
        self._left_late_at = -math.inf
        #: What has led to it that the group does not know the member, until it has confirmed it.
        self._fenced_after = ""

    def differs(self) -> None:
        """Something has happened: what is shown may be out of date."""
        self.may_differ = True

    def confirmed(self) -> None:
        """The group has confirmed the member."""
        self._trouble = ""
        self._was_answered, self._unwanted = False, None
        self._left_late_at = -math.inf
        self._fenced_after = ""

    def fenced(self, after: str) -> None:
        """The group does not know the member any more, and this has led to it, as far as is known
        here."""
        self._fenced_after = after

    def left_late(self, now: float) -> None:
        """The member leaves the group, because the application polls too late."""
        self._left_late_at = now

    def unanswered(self, error: str) -> None:
        """A request to the coordinator has failed."""
        self._trouble, self._was_answered = error, False

    def answered_with(self, error: str) -> None:
        """The coordinator has answered a request with this error."""
        self._trouble, self._was_answered = error, True

    def refused(self, error: Exception, now: float) -> None:
        """The group does not want the member, and only the user can mend that."""
        self._unwanted = error, now if self._unwanted is None else self._unwanted[1]

    def show(
        self,
        state: Enum,
        step: str,
        beats: HeartbeatState,
        still: StandstillDetector,
        now: float,
        *,
        joins_at: float,
        stops_when_refused: bool,
    ) -> MemberNow:
        """The member as it is at `now`. If the group does not want it, it may stop for good, or
        join again at this time."""
        self.may_differ, self.state = False, state
        here = state, step
        if here != self._since[0]:
            rested = self._since[0][1] == "poll" and now - self._since[1] >= RESTED
            if not step:
                self._joining_since = -math.inf
            elif rested or self._joining_since == -math.inf:
                self._joining_since = now
            self._since = here, now
        unwanted = self._unwanted
        return MemberNow(
            state=state.value,
            step=step,
            since=self._since[1],
            joining_since=self._joining_since,
            asked_at=beats.asked_at if beats.in_flight else math.inf,
            answered_at=beats.answered_at,
            failing_since=beats.failing_since,
            failures=beats.failures,
            session=beats.session,
            session_is_known=beats.session_is_known,
            rebalance_until=beats.rebalance_until,
            trouble=self._trouble,
            refused=self._was_answered,
            refusal="" if unwanted is None else _text_of(unwanted[0]),
            refusal_since=-math.inf if unwanted is None else unwanted[1],
            joins_at=joins_at,
            for_good=unwanted is not None and stops_when_refused,
            left_late_at=self._left_late_at,
            stood_still=still.words,
            awake_since=still.found_at,
            fenced_after=self._fenced_after,
        )


def _text_of(error: Exception) -> str:
    """The error's own words, without its name and number."""
    return str(error.args[0]) if error.args else str(error)
