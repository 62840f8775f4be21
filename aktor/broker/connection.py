"""The broker's end of a client's connection, without its socket: bytes in, answers out.

    Wire (a socket; in a simulation, a link) ──take, go_on──▶ Connection ──Call──▶ the cluster
    Wire ◀──send, close── Connection ◀──Call.reply── the cluster

What the connections of all brokers share is their `Exchange`: the faults by command among it.
"""

from __future__ import annotations

import struct
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from aktor.broker.call import CLOSE, Call
from aktor.broker.faults import (
    Action,
    Corrupt,
    CorruptRecords,
    Delay,
    Drop,
    FailPartly,
    FailWith,
    Faults,
    Swallow,
    Throttle,
    Truncate,
    error_response,
)
from aktor.broker.wire import BadFrameError, Incoming, read_request, write_response
from aktor.trace import open_trace

if TYPE_CHECKING:
    from aktor.broker.sasl import Authentication

__all__ = ["Connection", "Exchange", "Wire"]

_trace = open_trace(actor="broker")

#: The largest request: as Kafka's `socket.request.max.bytes` for records, less for all else, since
#: what is small in bytes can be large in memory.
_LARGEST: Final = 100 * 1024 * 1024
_LARGEST_OTHER: Final = 8 * 1024 * 1024
_PRODUCE: Final = b"\0\0"

_LENGTH: Final = struct.Struct(">i")
#: So many requests of one connection are handled before it is the others' turn.
_IN_A_ROW: Final = 16
#: Take no more bytes when so many are here that are not handled yet.
_ENOUGH: Final = 1024 * 1024


class FrameTooLargeError(Exception):
    """A request claims to be larger than the broker takes, or smaller than nothing."""


class UnwritableError(Exception):
    """An answer cannot be encoded."""


class Wire(Protocol):
    """What carries the bytes of one connection."""

    @property
    def unsent(self) -> bool:
        """Whether something is left to send."""

    def send(self, frame: bytes) -> None:
        """Send it, or what of it can't be sent now, later. Raises OSError."""

    def close(self) -> None:
        """Close this end; what was sent may still arrive."""


class Exchange(Protocol):
    """What the connections of all brokers share.

    `faults` are applied to the requests that match. `log_in` makes the broker's side of a login,
    one for each connection; None: without login.
    """

    faults: Faults
    log_in: Callable[[], Authentication] | None

    def now(self) -> float:
        """Seconds since the epoch; never goes back."""

    def after(self, delay: float, act: Callable[[], None]) -> None:
        """Call `act` when so many seconds have passed."""

    def at_broker(self, node: int, act: Callable[[], None]) -> None:
        """Call `act` as soon as this broker does anything; never, if its connections break
        before."""

    def receive(self, call: Call, api: str) -> None:
        """Hand a request to the cluster."""

    def can_go_on(self, connection: Connection) -> None:
        """An answer was sent: `go_on` of this connection is to be called soon."""

    def ended(self, connection: Connection) -> None:
        """The connection is closed at the broker's end."""

    def hindered(self, connection: Connection, api: str, fault: Action) -> None:
        """A fault is done to a request."""


class Connection:
    """Owns what has come and is not handled. Requests are handled one at a time and in order, as
    Kafka does: `busy` is true while a request waits for its answer. The next request is handled
    when that answer is sent; so at most one answer is kept for a client that does not read.
    """

    def __init__(
        self, exchange: Exchange, wire: Wire, *, number: int, node: int, host: str
    ) -> None:
        self.number = number
        self.node = node
        self.host = host
        self.principal = "User:ANONYMOUS"
        self.busy = False
        #: An answer is or will be swallowed: no other one follows.
        self.silent = False
        self.open = True
        self.used_at = exchange.now()
        self._exchange = exchange
        self._wire = wire
        self._authentication = None if exchange.log_in is None else exchange.log_in()
        self._close_when_sent = False
        self._in = bytearray()

    def __repr__(self) -> str:
        return f"<Connection {self.number} of {self.host} to broker {self.node}>"

    @property
    def idle(self) -> bool:
        """Whether the next request may be handled."""
        return self.open and not (self.busy or self._wire.unsent or self._close_when_sent)

    @property
    def hungry(self) -> bool:
        """Whether more bytes are wanted: not while plenty waits to be handled."""
        return self.idle or len(self._in) < _ENOUGH

    # -- in

    def take(self, data: bytes) -> None:
        """These bytes have come."""
        self._in += data

    def go_on(self) -> None:
        """Handle a few of the requests that are here, each when the one before is answered, and
        that is sent."""
        self._handle_frames()
        if self._close_when_sent and not self._wire.unsent:
            self.close()

    def close(self) -> None:
        """It ends at this side. What waits for an answer here gets none."""
        if self.open:
            self.open = False
            self._wire.close()
            self._exchange.ended(self)

    def _handle_frames(self) -> None:
        for _ in range(_IN_A_ROW):
            if not self.idle:
                return
            try:
                frame = self._next_frame()
                if frame is None:
                    return
                incoming = read_request(memoryview(frame))
            except (FrameTooLargeError, BadFrameError) as error:
                _trace.info(
                    "broker.connection_refused",
                    node=self.node,
                    client=self.host,
                    because=str(error),
                )
                self.close()
                return
            self.busy = True
            self.used_at = self._exchange.now()
            self._handle(incoming)
        self._exchange.can_go_on(self)

    def _next_frame(self) -> bytes | None:
        """The next whole request without its length, None if there is none yet.

        Raises FrameTooLargeError: for a request above `_LARGEST` as soon as its length is known,
        for a large one of another API than Produce when all of its bytes are here.
        """
        if len(self._in) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._in)
        if not 0 <= size <= _LARGEST:
            raise FrameTooLargeError(f"a request of {size} bytes; at most {_LARGEST} are taken")
        end = _LENGTH.size + size
        if len(self._in) < end:
            return None
        with memoryview(self._in) as view:
            frame = bytes(view[_LENGTH.size : end])
        del self._in[:end]
        if size > _LARGEST_OTHER and frame[:2] != _PRODUCE:
            raise FrameTooLargeError(f"a request of {size} bytes that is no Produce")
        return frame

    # -- requests

    def _handle(self, incoming: Incoming) -> None:
        exchange, name = self._exchange, incoming.api.name
        fault = exchange.faults.match(
            name, self.node, incoming.client_id, incoming.request, incoming.version
        )
        if fault is not None:
            exchange.hindered(self, name, fault)
        match fault:
            case Drop(before=True):
                self.close()
            case FailWith(code=code) if incoming.request is not None:
                # A producer without answers (acks=0) learns of an error by the connection's end.
                heard = getattr(incoming.request, "acks", None) != 0
                refusal = error_response(incoming.request, incoming.version, code)
                self._answer(incoming, refusal if heard else CLOSE, None)
            case _:
                self._pass_on(incoming, fault)

    def _pass_on(self, incoming: Incoming, fault: Action | None) -> None:
        self.silent = isinstance(fault, Swallow)
        call = Call(
            incoming.request,
            answer=lambda response: self._exchange.at_broker(
                self.node, lambda: self._answer(incoming, response, fault)
            ),
            version=incoming.version,
            now=self._exchange.now(),
            node=self.node,
            client_id=incoming.client_id,
            client_host=f"/{self.host}",
            principal=self.principal,
            connection=self.number,
        )
        if self._authentication is None or not self._logs_in(self._authentication, call, incoming):
            self._exchange.receive(call, incoming.api.name)

    def _logs_in(self, authentication: Authentication, call: Call, incoming: Incoming) -> bool:
        """Whether the request was part of the login, or may not be asked before it."""
        name = incoming.api.name
        if name == "SaslHandshake":
            authentication.handshake(call)
        elif name == "SaslAuthenticate":
            authentication.authenticate(call)
            self.principal = authentication.principal or self.principal
            if authentication.failed:
                self._close_when_sent = True
        elif not authentication.may_ask(name):
            self.close()
        else:
            return False
        return True

    # -- answers

    def _answer(self, incoming: Incoming, response: Any, fault: Action | None) -> None:
        """Send an answer, unless a fault or the end of the connection comes between."""
        if not self.open:
            return
        if response is CLOSE or isinstance(fault, Drop):
            self.close()
            return
        if isinstance(fault, Swallow):
            return
        if isinstance(fault, Delay):
            self._later(fault.seconds, lambda: self._answer(incoming, response, None))
            return
        if response is not None and isinstance(fault, FailPartly | CorruptRecords):
            fault.apply(response)
        if isinstance(fault, Throttle) and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = round(fault.seconds * 1000)
        try:
            if response is not None:
                frame = self._frame(incoming, response)
                if isinstance(fault, Truncate | Corrupt):
                    frame = fault.apply(frame)
                    self._close_when_sent = isinstance(fault, Truncate)
                self._wire.send(frame)
        except (OSError, UnwritableError):
            self.close()
            return
        self.used_at = self._exchange.now()
        if isinstance(fault, Throttle):
            self._later(fault.seconds, self._take_the_next)
        else:
            self._take_the_next()

    def _take_the_next(self) -> None:
        self.busy = False
        self._exchange.can_go_on(self)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        exchange = self._exchange
        exchange.after(seconds, lambda: exchange.at_broker(self.node, act))

    def _frame(self, incoming: Incoming, response: Any) -> bytes:
        """Raises UnwritableError, and says why: that is a bug in us."""
        try:
            return write_response(incoming.api, incoming.version, incoming.correlation_id, response)
        except Exception as error:
            _trace.error(
                "broker.request_failed",
                api=incoming.api.name,
                api_version=incoming.version,
                node=-1,
                traceback=traceback.format_exc(),
            )
            raise UnwritableError(str(error)) from None
