"""What is said on one connection, without its socket: bytes in, bytes out, and what to do next.

    conversation = Conversation(settings, diagnosis, scratch=bytearray(SCRATCH_SIZE))
    conversation.begin("broker.example")        ApiVersions, and a login if the settings ask for one
    conversation.send(1, request)               a request of the network actor's
    conversation.receive(sock.recv_into)        bytes in
    conversation.unsent                         bytes out: the owner of the socket sends them
    conversation.sent(count)                    the socket took so many of them
    conversation.news                           what to do next, as data: see `News`

`kafka_net` carries it over a socket (with TLS, or through a proxy), the simulation over a simulated
network. It has no clock: the owner of the socket measures the time until a login is to be renewed.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kafka.errors import IncompatibleBrokerVersion, KafkaError
from kafka.protocol.broker_version_data import BrokerVersionData

from aktor.actors.sockets.asked_versions import NEWEST_API_VERSIONS
from aktor.actors.sockets.diagnosis import Diagnosis, Phase
from aktor.actors.sockets.frames import BadLength, FrameCutter
from aktor.actors.sockets.handshake import Ask, AskRaw, Handshake, SayRaw, Steps, Work
from aktor.actors.sockets.in_flight import RAW_TOKEN, Agreed, InFlightRequest, write_request
from aktor.errors import AuthenticationError
from aktor.settings import Settings
from aktor.state_table import follow
from aktor.trace.plain import named
from aktor.values import Value

__all__ = [
    "ResponseRead",
    "Broken",
    "Conversation",
    "ConversationEvent",
    "ConversationState",
    "News",
    "Opened",
    "RenewAfter",
    "Work",
]

#: kafka-python's `receive_message_max_bytes`.
LONGEST_FRAME: Final = 100_000_000

#: The share of a login's lifetime after which it is renewed. It is drawn from this range, so that
#: clients do not all renew at once (KIP-368; `SaslClientAuthenticator` in Java).
RENEW_FROM: Final = 0.85
RENEW_TO: Final = 0.95

_WORD: Final = struct.Struct(">i")


class Opened(Value, kw_only=False):
    """Requests can be sent: the versions that the broker speaks are known, and we are logged in."""

    versions: BrokerVersionData


class ResponseRead(Value, kw_only=False):
    """A request of the network actor's is answered; see `wire.RequestAnswered`."""

    request_id: int
    response: Any
    version: int
    throttle: float
    sizes: tuple[int, int]


class Broken(Value, kw_only=False):
    """A request of the network actor's was not sent and cannot be."""

    request_id: int
    error: Exception


class RenewAfter(Value, kw_only=False):
    """Call `renew` when so many seconds have passed."""

    seconds: float


#: What to do next. `Work` may block: it is done on another thread, and `worked` takes its result.
News: TypeAlias = Opened | ResponseRead | Broken | RenewAfter | Work


class ConversationState(enum.Enum):
    """How far the conversation is."""

    SILENT = "silent"
    """Nothing was sent: there is no connection yet."""

    VERSIONING = "versioning"
    """ApiVersions was asked (KIP-35)."""

    LOGGING_IN = "logging in"
    """SaslHandshake and SaslAuthenticate are under way (KIP-43, KIP-152)."""

    OPEN = "open"
    """Requests are sent and answered."""

    RENEWING = "renewing"
    """As LOGGING_IN, on a connection that was open. Requests are held back until the login is done
    (KIP-368); requests sent before it are answered before it."""


class ConversationEvent(enum.Enum):
    """What moves the conversation from one state to the next."""

    BEGUN = "begun"
    """There is a connection."""
    LOGIN_WANTED = "login wanted"
    """The versions are known, and the settings ask for a login."""
    OPENED = "opened"
    """Requests can be sent: the versions are known, and we are logged in if that is asked for."""
    LOGIN_ENDS = "login ends"
    """The login ends soon."""


_S, _E = ConversationState, ConversationEvent

#: The whole machine. A pair that is not here is a bug in us.
TRANSITIONS: Final[Mapping[ConversationState, Mapping[ConversationEvent, ConversationState]]] = {
    _S.SILENT:     {_E.BEGUN: _S.VERSIONING, _E.OPENED: _S.OPEN},
    _S.VERSIONING: {_E.LOGIN_WANTED: _S.LOGGING_IN, _E.OPENED: _S.OPEN},
    _S.LOGGING_IN: {_E.OPENED: _S.OPEN},
    _S.OPEN:       {_E.LOGIN_ENDS: _S.RENEWING},
    _S.RENEWING:   {_E.OPENED: _S.OPEN},
}  # fmt: skip


class Conversation:
    """Owns what was said on one connection, and the answers that are due on it.

    Methods raise what ends the connection: the broker refuses us, or its bytes are not Kafka's.
    `scratch` may be shared by all conversations of a thread. `jitter`: random in [0, 1).
    """

    def __init__(
        self, settings: Settings, diagnosis: Diagnosis, *, scratch: bytearray, jitter: float = 0.5
    ) -> None:
        self.state = ConversationState.SILENT
        self.news: deque[News] = deque()
        self.unsent: deque[bytes | memoryview] = deque()
        #: The answers that the broker owes us, in the order in which they will come.
        self.in_flight: deque[InFlightRequest] = deque()
        self._settings = settings
        self._diagnosis = diagnosis
        self._jitter = jitter
        self._handshake = Handshake(settings, diagnosis)
        #: The part of the handshake that is under way, and what it waits for.
        self._steps: Steps[None] | None = None
        self._host = ""
        #: The versions that both sides speak, once the broker has said which ones it speaks.
        self._agreed: Agreed | None = None
        self._correlation_id = 0
        #: Requests that wait for the renewal of the login.
        self._held: deque[tuple[int, Any]] = deque()
        limit = settings.connection.get("receive_message_max_bytes") or LONGEST_FRAME
        self._cutter = FrameCutter(limit, scratch)

    # -- beginning

    def next_news(self) -> News:
        """Take the oldest news."""
        return self.news.popleft()

    def begin(self, host: str, api_versions: int = NEWEST_API_VERSIONS) -> None:
        """Ask for versions, then log in. `host` is the broker's name, as Kerberos knows it;
        `api_versions`: in which version of ApiVersions the broker is asked (`AskedVersions`)."""
        self._host = host
        self._move(ConversationEvent.BEGUN)
        self._take_up(self._shake_hands(api_versions))

    def begin_with(self, versions: BrokerVersionData) -> None:
        """Open without a handshake: the versions of the broker are known (in simulations)."""
        self._agreed = Agreed(versions)
        self._open(lifetime=0.0)

    def renew(self) -> None:
        """The login ends soon: log in again. Requests are held back meanwhile."""
        self._move(ConversationEvent.LOGIN_ENDS)
        self._take_up(self._log_in_again())

    def worked(self, result: Any, error: Exception | None) -> None:
        """The result or the error of the `Work` that was asked for."""
        self._go_on(result, error)

    def _move(self, event: ConversationEvent) -> None:
        self.state = follow(TRANSITIONS, self.state, event)

    def _shake_hands(self, api_versions: int) -> Steps[None]:
        self._diagnosis.enter(Phase.VERSIONING)
        self._agreed = Agreed((yield from self._handshake.learn_versions(api_versions)))
        lifetime = 0.0
        if self._settings.security_protocol.startswith("SASL_"):
            self._move(ConversationEvent.LOGIN_WANTED)
            self._diagnosis.enter(Phase.LOGGING_IN)
            lifetime = yield from self._handshake.log_in(self._host)
        self._open(lifetime)

    def _open(self, lifetime: float) -> None:
        assert self._agreed is not None, "open before the versions are known"
        self._move(ConversationEvent.OPENED)
        self._diagnosis.enter(Phase.UNPROVEN)
        self.news.append(Opened(self._agreed.versions))
        self._renew_in_time(lifetime)

    def _log_in_again(self) -> Steps[None]:
        # Answers still due come before those of the login, since a broker keeps the order.
        failure = None
        try:
            lifetime = yield from self._handshake.log_in(self._host)
        except Exception as error:
            reason = error.reason if isinstance(error, AuthenticationError) else str(error)
            failure = self._diagnosis.failed(f"the login could not be renewed: {reason}")
        if failure is not None:
            raise failure  # outside of `except`: it must not keep the first error and its frames
        self._move(ConversationEvent.OPENED)
        self._renew_in_time(lifetime)
        held, self._held = self._held, deque()
        for request_id, body in held:
            self.send(request_id, body)

    def _renew_in_time(self, lifetime: float) -> None:
        if lifetime > 0:
            share = RENEW_FROM + (RENEW_TO - RENEW_FROM) * self._jitter
            self.news.append(RenewAfter(max(lifetime, 1.0) * share))

    def _take_up(self, steps: Steps[None]) -> None:
        assert self._steps is None, "one part of the handshake is under way at a time"
        self._steps = steps
        self._go_on(None)

    def _go_on(self, result: Any, error: Exception | None = None) -> None:
        """Let the handshake go on until it waits for an answer or for `Work`."""
        steps = self._steps
        assert steps is not None, "nothing waits for that"
        try:
            step = steps.send(result) if error is None else steps.throw(error)
            while isinstance(step, SayRaw):
                self._say_raw(step.token)
                step = steps.send(None)
        except BaseException as end:
            self._steps = None
            if not isinstance(end, StopIteration):
                raise
            return
        match step:
            case Ask():
                self._write(step.body, None)
            case AskRaw():
                self.in_flight.append(
                    InFlightRequest(api_key=RAW_TOKEN, version=0, correlation_id=-1)
                )
                self._say_raw(step.token)
            case Work():
                self.news.append(step)

    # -- bytes out

    def send(self, request_id: int, body: Any) -> None:
        """Send a request of the network actor's, in the newest version that both sides speak."""
        if self.state is ConversationState.RENEWING:
            self._held.append((request_id, body))
            return
        try:
            self._write(body, request_id)
        except IncompatibleBrokerVersion as error:
            text = f"broker {self._diagnosis.broker}: {error}"
            self.news.append(Broken(request_id, IncompatibleBrokerVersion(text)))
        except Exception as error:
            text = f"{type(body).__name__} cannot be encoded: {named(error)}"
            self.news.append(Broken(request_id, KafkaError(text)))

    def _write(self, body: Any, request_id: int | None) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        data, due = write_request(
            body, self._agreed, self._correlation_id, self._settings.client_id, request_id
        )
        self.in_flight.append(due)
        self.unsent.append(data)

    def _say_raw(self, token: bytes) -> None:
        """A token outside of requests (before KIP-152)."""
        self.unsent.append(_WORD.pack(len(token)) + token)

    def sent(self, count: int) -> None:
        """The socket took so many bytes, all of them from the first of `unsent`."""
        data = self.unsent[0]
        if count == len(data):
            self.unsent.popleft()
        else:
            self.unsent[0] = memoryview(data)[count:]

    # -- bytes in

    def receive(
        self, recv_into: Callable[[memoryview], int], plain: int | None = None
    ) -> tuple[int, int]:
        """Receive once; returns how many bytes came and how many could have.

        `plain`: the descriptor, if `recv_into` is that of a socket without TLS.
        """
        try:
            got = self._cutter.receive(recv_into, plain)
        except BadLength:
            self._read_frames()  # the frames before it are sound
            raise
        self._read_frames()
        return got

    def take(self, data: bytes) -> None:
        """All of this was received."""
        rest = memoryview(data)

        def receive(space: memoryview) -> int:
            nonlocal rest
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            rest = rest[count:]
            return count

        while rest:
            self.receive(receive)

    def has_heard(self) -> bool:
        """Whether part of an answer is here, and some of it came since this was last asked."""
        return self._cutter.has_heard()

    def _read_frames(self) -> None:
        cutter = self._cutter
        while cutter.frames:
            frame = cutter.next_frame()
            if not self.in_flight:
                raise self._diagnosis.malformed("an answer to no request")
            due = self.in_flight.popleft()
            try:
                response = bytes(frame) if due.api_key == RAW_TOKEN else due.decode(frame)
            except Exception as error:  # kafka-python's decoder raises whatever comes
                reason = f"{due.name} of {len(frame)} bytes: {named(error)}"
                raise self._diagnosis.malformed(reason, error) from error
            if due.request_id is None:
                self._go_on(response)
            else:
                self._diagnosis.enter(Phase.PROVEN)
                self.news.append(
                    ResponseRead(
                        due.request_id,
                        response,
                        due.version,
                        self._throttle(response),
                        (due.size, len(frame) + _WORD.size),
                    )
                )

    def _throttle(self, response: Any) -> float:
        milliseconds = getattr(response, "throttle_time_ms", None)
        if not milliseconds or self._agreed is None:
            return 0.0
        # Before Kafka 2.0 the broker delayed its answer by the throttle time, so that time is over
        # when the answer comes. From 2.0 on the client must wait (KIP-219).
        return milliseconds / 1000.0 if self._agreed.versions.broker_version >= (2, 0) else 0.0
