"""A link: the way to one broker, with its connection, its queue and its backoff."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.address import written
from aktor.errors import AuthenticationError
from aktor.events.network import Request
from aktor.events.present import Heard, Throttle, was_unused
from aktor.state_table import follow

__all__ = ["ConnectionAttempts", "ClientRequest", "Link", "LinkEvent", "LinkState"]


class ConnectionAttempts:
    """Owns the backoff of one link, and why its last attempt failed.

    An attempt has succeeded when the broker has answered a request. An open connection is not
    enough: a listener that wants a login accepts each connection and closes it at the first
    request, again and again.
    """

    __slots__ = (
        "_backoff",
        "begun_at",
        "ended",
        "failed_at",
        "failing_since",
        "failure",
        "refused_since",
        "silent_since",
    )

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.begun_at = -math.inf
        #: When an attempt, a connection or an answer last failed.
        self.failed_at = -math.inf
        #: When the first of the failures in a row was; None once the broker has answered again.
        self.failing_since: float | None = None
        #: The same, but if that failure was an answer which did not come: when it was asked for.
        self.silent_since: float | None = None
        #: When the broker first refused our login; None: its last failure was another one.
        self.refused_since: float | None = None
        #: How the last attempt ended, until one succeeds.
        self.failure: Exception | None = None
        #: How the last attempt or connection ended, also one on which the broker had answered.
        self.ended: Exception | None = None

    @property
    def retry_at(self) -> float:
        """No attempt may be begun before this time."""
        return self._backoff.retry_at

    @property
    def failures(self) -> int:
        """How many attempts in a row have failed."""
        return self._backoff.failures

    def was_unused(self, now: float) -> bool:
        """Whether, after the last failure, there was time for an attempt, and nobody needed one."""
        return was_unused(self.retry_at, now)

    def begin(self, now: float) -> None:
        """An attempt begins. If the broker was not needed for long, another row of failures
        begins with it."""
        if self.was_unused(now):
            self.failing_since = self.silent_since = self.refused_since = None
        self.begun_at = now

    def failed(
        self,
        now: float,
        jitter: float,
        ended: Exception,
        *,
        proven: bool = False,
        asked_at: float | None = None,
    ) -> None:
        """The attempt has failed; `proven`: a connection was lost on which the broker had answered
        before. `asked_at`: when what it has not answered in time was sent, if it is that."""
        self.ended = ended
        self.failure = None if proven else ended
        if not isinstance(self.failure, AuthenticationError):
            self.refused_since = None
        elif self.refused_since is None:
            self.refused_since = now
        if self.failing_since is None:
            self.failing_since = now
            self.silent_since = now if asked_at is None else asked_at
        self.failed_at = now
        self._backoff.failed(now, jitter)

    def succeeded(self) -> None:
        """The broker has answered."""
        self.failure = self.ended = None
        self.failing_since = self.silent_since = self.refused_since = None
        self._backoff.reset()

    def pause(self, until: float) -> None:
        """Begin no attempt before `until`, whatever the backoff says."""
        self._backoff.pause(until)

    def begin_anew(self) -> None:
        """Forget the failures: the next attempt may be begun at once (it is to another address)."""
        self._backoff.reset()

    def end_wait(self, now: float) -> None:
        """The next attempt may be begun at once, and if it fails, the one after it waits longer."""
        self._backoff.pause(min(self.retry_at, now))


class LinkState(enum.Enum):
    """Whether requests can be sent."""

    IDLE = "idle"
    """No connection. A request begins one, once the backoff is over."""

    CONNECTING = "connecting"
    """An attempt is under way: requests wait for it, and fail if it does."""

    READY = "ready"
    """Requests are sent, at most `max_in_flight` at a time."""


class LinkEvent(enum.Enum):
    """What moves a link from one state to the next."""

    WANTED = "wanted"
    """A request waits for a connection, or one is opened in advance."""
    OPENED = "opened"
    """The attempt has become a connection."""
    FAILED = "failed"
    """The attempt has failed."""
    LOST = "lost"
    """The connection has broken, or the broker has closed it."""
    DROPPED = "dropped"
    """We have closed the connection, or given up the attempt."""
    ADOPTED = "adopted"
    """The open connection of another link to the same address is taken over."""
    GIVEN = "given"
    """Another link has taken the connection over."""


_S, _E = LinkState, LinkEvent

#: The whole machine. A pair that is not here is a bug in us.
TRANSITIONS: Final[Mapping[LinkState, Mapping[LinkEvent, LinkState]]] = {
    _S.IDLE:       {_E.WANTED: _S.CONNECTING, _E.ADOPTED: _S.READY},
    _S.CONNECTING: {_E.OPENED: _S.READY, _E.FAILED: _S.IDLE, _E.DROPPED: _S.IDLE},
    _S.READY:      {_E.LOST: _S.IDLE, _E.DROPPED: _S.IDLE, _E.GIVEN: _S.IDLE},
}  # fmt: skip


class ClientRequest:
    """A request on its way: in a queue, or sent and unanswered."""

    __slots__ = ("body_name", "came_at", "cause", "request", "request_id", "sent_at", "was_sent")

    def __init__(self, request: Request, request_id: int, now: float) -> None:
        self.request = request
        self.request_id = request_id
        self.came_at = now
        self.sent_at = now
        self.was_sent = False
        #: The event that led to it; from when it was sent, the event that says so.
        self.cause = request.cause
        self.body_name = type(request.body).__name__.removesuffix("Request")

    def sent(self, now: float) -> None:
        """The request is on its way to the broker."""
        self.sent_at = now
        self.was_sent = True

    def was_told(self, event: int) -> None:
        """The event of the trace that says that it was sent: its end is led to by it."""
        self.cause = event


class Link:
    """Owns what is known about one way to a broker, and the requests which wait for it.

    `node` is the broker's id as answers carry it; a bootstrap server, whose id nobody knows yet,
    has a negative one, as in Java's client.
    """

    def __init__(self, name: str, node: int, host: str, port: int, backoff: Backoff) -> None:
        self.name = name
        self.node = node
        self.host = host
        self.port = port
        self.state = LinkState.IDLE
        self.key = ""
        self.unsent: deque[ClientRequest] = deque()
        self.in_flight: dict[int, ClientRequest] = {}
        self.attempts = ConnectionAttempts(backoff)
        self.used_at = -math.inf
        #: When the last answer came.
        self.heard = Heard()
        #: From when on, and until when, the broker wants no requests.
        self.throttle = Throttle()
        #: If an answer is late, but some of its bytes have come, it is waited for until this time.
        self.patient_until = -math.inf
        #: The current connection has brought an answer: the listener is the right one.
        self.proven = False
        #: When a connection of this link last brought its first answer.
        self.proven_at = -math.inf
        #: The link is for JoinGroup and SyncGroup, which the broker keeps on purpose: if an answer
        #: is late, that does not mean that the broker is down.
        self.holds = False

    @property
    def address(self) -> str:
        """host:port, as errors and traces name the broker."""
        return written(self.host, self.port)

    @property
    def failure(self) -> Exception | None:
        """How the last attempt ended, until one succeeds."""
        return self.attempts.failure

    @property
    def busy(self) -> bool:
        """True while a request is queued or in flight."""
        return bool(self.unsent or self.in_flight)

    @property
    def load(self) -> int:
        """Requests queued or in flight."""
        return len(self.unsent) + len(self.in_flight)

    @property
    def is_open(self) -> bool:
        """True while there is a connection, and its listener has not hung up on us before."""
        return self.state is LinkState.READY and self.failure is None

    def on(self, event: LinkEvent) -> None:
        """The only place where `state` is assigned."""
        self.state = follow(TRANSITIONS, self.state, event)

    # -- what happens to it

    def begin(self, key: str, now: float) -> None:
        """An attempt to connect begins; reports about it have this key."""
        self.on(LinkEvent.WANTED)
        self.attempts.begin(now)
        self.proven = False
        self.key = key

    def opened(self, now: float) -> None:
        """The attempt has become a connection."""
        self.on(LinkEvent.OPENED)
        self.used_at = now
        self.throttle = Throttle()

    def queue(self, waiting: ClientRequest) -> None:
        """This request is to be sent on this link."""
        self.unsent.append(waiting)

    def next_unsent(self) -> ClientRequest:
        """Take the first request out of the queue."""
        return self.unsent.popleft()

    def unqueue(self, waiting: ClientRequest) -> None:
        """This request is not sent any more."""
        self.unsent.remove(waiting)

    def take(self, request_id: int) -> ClientRequest | None:
        """This request is over; None if it was not in flight."""
        return self.in_flight.pop(request_id, None)

    def sent(self, waiting: ClientRequest, now: float) -> None:
        """This request is sent."""
        waiting.sent(now)
        self.in_flight[waiting.request_id] = waiting
        self.used_at = now
        self.heard.ask(now)

    def answered(self, now: float, throttle: float) -> None:
        """An answer came; the broker wants no request for `throttle` seconds."""
        self.used_at = now
        self.heard.note(now)
        if throttle:
            begun = now if now > self.throttle.until else self.throttle.since
            self.throttle = Throttle(since=begun, until=now + throttle)

    def prove(self, now: float) -> None:
        """The connection has brought its first answer."""
        self.proven = True
        self.proven_at = now
        self.attempts.succeeded()

    def be_patient(self, until: float) -> None:
        """A late answer is arriving: wait for it up to the time `until`."""
        self.patient_until = until

    def move_to(self, host: str, port: int) -> None:
        """The broker is at another address."""
        self.host, self.port = host, port
        self.proven_at = -math.inf
        self.attempts.begin_anew()

    def keep_for_joins(self) -> None:
        """Only JoinGroup and SyncGroup are sent on it."""
        self.holds = True

    def adopt(self, other: Link) -> None:
        """Take over the open connection of another link to the same address."""
        self.on(LinkEvent.ADOPTED)
        self.key, self.in_flight = other.give()
        self.proven, self.proven_at = other.proven, other.proven_at
        self.used_at = other.used_at
        self.heard.note(other.heard.at)
        self.heard.ask(other.heard.asked_at)
        self.throttle = other.throttle

    def give(self) -> tuple[str, dict[int, ClientRequest]]:
        """Another link takes over the connection: returns its key and what is in flight on it."""
        self.on(LinkEvent.GIVEN)
        given = self.key, self.in_flight
        self.key, self.in_flight = "", {}
        return given

    @property
    def connect_at(self) -> float:
        """When a connection may be begun: after the backoff, if there is neither a connection nor
        an attempt (else NEVER)."""
        return self.attempts.retry_at if self.state is LinkState.IDLE else NEVER

    def send_at(self, max_in_flight: int) -> float:
        """When the first request in the queue may be sent; NEVER: not before a message comes."""
        if (
            not self.unsent
            or self.state is not LinkState.READY
            or len(self.in_flight) >= max_in_flight
        ):
            return NEVER
        return self.throttle.until

    @property
    def expires_at(self) -> float:
        """When a request in the queue is to be given up."""
        return min([waiting.request.deadline for waiting in self.unsent], default=NEVER)

    def late_at(self, longest: float) -> float:
        """When the first answer is late, and the network actor must look whether to wait on. An
        answer that is arriving is waited for, at most `longest` seconds after it was asked for."""
        late_at = NEVER
        for waiting in self.in_flight.values():
            patient_until = min(self.patient_until, waiting.sent_at + longest)
            late_at = min(late_at, max(waiting.request.deadline, patient_until))
        return late_at

    def free_at(self, max_in_flight: int) -> float:
        """When another request may be sent, after those in the queue; NEVER: not before a message
        comes."""
        is_full = len(self.unsent) + len(self.in_flight) >= max_in_flight
        return NEVER if is_full or self.state is not LinkState.READY else self.throttle.until

    def owes_since(self, moment: float) -> bool:
        """Whether something that was sent before `moment` has not been answered."""
        return any(waiting.sent_at < moment for waiting in self.in_flight.values())

    def take_unsent(self, of: Any = None) -> list[ClientRequest]:
        """Empty the queue; with `of`, a set of senders, of their requests only."""
        taken = [waiting for waiting in self.unsent if of is None or waiting.request.sender in of]
        gone = {waiting.request_id for waiting in taken}
        self.unsent = deque(waiting for waiting in self.unsent if waiting.request_id not in gone)
        return taken

    def take_in_flight(self) -> list[ClientRequest]:
        """Forget the requests in flight, and return them: no answer will come."""
        taken = list(self.in_flight.values())
        self.in_flight = {}
        return taken
