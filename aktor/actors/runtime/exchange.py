"""One outstanding request, and when the next attempt may be made (Java: `RequestState`).

The sender of a request asks `due`, calls `sent`, and then one of `answered`, `failed`, `ended` or
`abandon`. Nothing else decides when such a request is repeated. Some requests have a `Backoff`
and no exchange: FindCoordinator, and those that go to several brokers at once (Fetch, and
ListOffsets for a call of the user's). The sessionless Fetch, which is repeated because it brought
no records and not because it failed, has a growing wait of its own (`managers/fetch/sessionless`).
"""

from __future__ import annotations

from typing import Final

from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.settings import Settings

__all__ = ["Exchange", "attempt_time"]

#: How long one attempt may take, in seconds, for a request that the coordinator answers at once
#: (not JoinGroup or SyncGroup). A broker waits up to 5 s for its replicas before it answers a
#: commit (`offsets.commit.timeout.ms`). A broker that is silent for twice as long is gone, or the
#: connection is half-open. Then there must be time left to find the next coordinator and to ask
#: it. This time does not depend on the asker's deadline: a request that times out closes the
#: connection, which other requests of the group share.
ATTEMPT: Final = 10.0


def attempt_time(settings: Settings) -> float:
    """How long one attempt of such a request may take with these settings, in seconds."""
    return min(settings.request_timeout, ATTEMPT)


class Exchange:
    """Owns whether an answer is expected, the number of the attempt, and the backoff.

    An answer comes with the number of its attempt, so the answer to an attempt that was given up is
    not taken for the answer to the next attempt.
    """

    __slots__ = ("_backoff", "_most", "in_flight", "number")

    def __init__(self, settings: Settings) -> None:
        self._backoff = Backoff(settings.retry_backoff, settings.retry_backoff_max)
        self._most = settings.request_timeout
        #: Whether an answer is expected.
        self.in_flight = False
        self.number = 0

    @property
    def failures(self) -> int:
        """How many attempts in a row have failed."""
        return self._backoff.failures

    @property
    def retry_at(self) -> float:
        """When the backoff is over; -inf if the last attempt did not fail."""
        return self._backoff.retry_at

    @property
    def due(self) -> float:
        """When the next attempt may be made: not while an answer is expected."""
        return NEVER if self.in_flight else self._backoff.retry_at

    def patience(self, first: float) -> float:
        """How long the next attempt may take: doubled with each failure, up to the request timeout.

        A half-open connection then costs `first` seconds and not 30; a broker that is only slow
        gets more time with each attempt, until its answer comes.
        """
        return self._backoff.doubled(first, self._most)

    def sent(self) -> int:
        """An attempt is made; returns its number."""
        self.number += 1
        self.in_flight = True
        return self.number

    def expects(self, number: int) -> bool:
        """Whether the answer to this attempt is expected, and was not given up."""
        return self.in_flight and number == self.number

    def ends(self, number: int) -> bool:
        """This attempt was answered or failed; False if its answer was given up before."""
        if not self.expects(number):
            return False
        self.in_flight = False
        return True

    def answered(self) -> None:
        """The attempt has succeeded."""
        self.in_flight = False
        self._backoff.reset()

    def ended(self) -> None:
        """The attempt is over. The backoff stays as it is: `failed`, if called next, counts it."""
        self.in_flight = False

    def failed(self, now: float, jitter: float) -> float:
        """The attempt has failed, or could not be made; returns when the next may be made."""
        self.in_flight = False
        return self._backoff.failed(now, jitter)

    def pause(self, until: float) -> None:
        """Make no attempt before `until`: the broker would refuse an earlier one again."""
        self._backoff.pause(until)

    def abandon(self) -> None:
        """Give the attempt in flight up: its answer will be dropped."""
        self.number += 1
        self.in_flight = False

    def hurry(self) -> None:
        """Forget the failures: the next attempt may be made at once."""
        self._backoff.reset()
