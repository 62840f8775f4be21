"""A cluster behind sockets: one thread that reads requests, lets time pass and sends answers."""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import math
import selectors
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aktor.broker.call import CLOSE, Call
from aktor.broker.cluster import Cluster
from aktor.broker.connection import Connection, FrameTooLargeError
from aktor.broker.faults import (
    Corrupt,
    Delay,
    Drop,
    FailWith,
    Faults,
    Swallow,
    Truncate,
    error_response,
)
from aktor.broker.wire import BadFrameError, Incoming, read_request, write_response
from aktor.trace import open_trace

if TYPE_CHECKING:
    from aktor.broker.sasl import Authentication

__all__ = ["Clock", "PortInUseError", "Server"]

_trace = open_trace(actor="broker")
T = TypeVar("T")

#: The largest request: as Kafka's `socket.request.max.bytes` for records, less for all else, since
#: what is small in bytes can be large in memory.
_LARGEST: Final = 100 * 1024 * 1024
_LARGEST_OTHER: Final = 8 * 1024 * 1024
_PRODUCE: Final = b"\0\0"

_BACKLOG: Final = 1024
#: So many requests of one connection are handled before it is the others' turn.
_IN_A_ROW: Final = 16
#: No file descriptors or no memory for one more connection; and when to look again.
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ROOM_MAY_BE: Final = 0.1
_AFTER_FAILURE: Final = 0.05
#: As Kafka's `connections.max.idle.ms`.
_IDLE: Final = 600.0
_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE


class PortInUseError(OSError):
    """A broker cannot listen where it should."""


class UnwritableError(Exception):
    """An answer cannot be encoded."""


class Clock:
    """Seconds since the epoch that never go back."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


class Server:
    """Owns the sockets and the thread; the cluster is touched by this thread only.

    `log_in` makes the server's side of a login, one per connection; None: nobody logs in.
    `ask(act)` runs a function there and waits for it. After `start` the brokers listen, and their
    nodes know their ports.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        log_in: Callable[[], Authentication] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.cluster = cluster
        self.faults = Faults()
        self._clock = clock
        self._log_in_anew = log_in
        self._host = host
        self._selector = selectors.DefaultSelector()
        self._listeners: dict[int, socket.socket] = {}
        self._connections: dict[int, Connection] = {}
        self._authentications: dict[int, Authentication] = {}
        self._paused: set[int] = set()
        #: Brokers that were killed or paused and are not given up yet: which time that was.
        self._silent: dict[int, int] = {}
        self._numbers = itertools.count(1)
        #: Functions to run on the thread. They are taken, and then run, as long as it goes on.
        self._commands: deque[Callable[[], None]] = deque()
        self._gate = threading.Lock()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        #: Connections that may have another request here: they take turns.
        self._ready: dict[Connection, None] = {}
        self._bell, self._ear = socket.socketpair()
        self._running = False
        self._thread: threading.Thread | None = None

    # -- life

    def start(self) -> None:
        """Listen on every broker's port (0: any that is free). Raises PortInUseError."""
        self._ear.setblocking(False)
        self._selector.register(self._ear, _READ, None)
        try:
            for node_id in self.cluster.nodes:
                self._listen(node_id)
        except BaseException:
            self._close_all()
            raise
        self._running = True
        self._thread = threading.Thread(target=self._run, name="aktor-broker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close everything; the thread is gone when this returns."""
        if self._thread is None:
            return
        with self._gate:
            if self._running:
                self._running = False
                self._ring()
        self._thread.join()

    def ask(self, act: Callable[[], T]) -> T:
        """Run a function on the server's thread; returns what it returns, raises what it raises.

        Raises RuntimeError if the server does not run.
        """
        if threading.current_thread() is self._thread:
            return act()
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(act())
            except BaseException as error:
                future.set_exception(error)

        with self._gate:
            if not self._running:
                raise RuntimeError("the embedded Kafka is not running")
            self._commands.append(run)
            self._ring()
        return future.result()

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it rings already
            self._bell.send(b"!")

    # -- brokers

    def stop_broker(self, node_id: int) -> None:
        """It closes its port and its connections; others take over what it led."""

        def act() -> None:
            self._hang_up(node_id)
            self._give_up(node_id)

        self.ask(act)

    def kill_broker(self, node_id: int, *, session_timeout: float = 9.0) -> None:
        """Its port and its connections are gone without a word. Others take over after a while."""

        def act() -> None:
            self._hang_up(node_id)
            self._fall_silent(node_id, session_timeout)

        self.ask(act)

    def start_broker(self, node_id: int) -> None:
        """It listens where it did before; if it was killed, the others hear of that now."""

        def act() -> None:
            if node_id in self._listeners:
                return
            self._listen(node_id)
            self._give_up(node_id)
            self.cluster.broker_up(node_id, self._clock())

        self.ask(act)

    def pause_broker(self, node_id: int, *, session_timeout: float = 9.0) -> None:
        """It stands still: takes connections, answers nobody. Others take over after a while."""

        def act() -> None:
            if node_id not in self._listeners or node_id in self._paused:
                return
            self._paused.add(node_id)
            self._take_connections(node_id, False)
            for connection in self._of(node_id):
                self._watch(connection)
            self._fall_silent(node_id, session_timeout)

        self.ask(act)

    def resume_broker(self, node_id: int) -> None:
        """It goes on. What waited there is over: its connections break."""

        def act() -> None:
            if node_id in self._paused:
                self._paused.discard(node_id)
                for connection in self._of(node_id):
                    self._close(connection)
                self._take_connections(node_id, True)
                self._silent.pop(node_id, None)
                self.cluster.broker_up(node_id, self._clock())

        self.ask(act)

    def _fall_silent(self, node_id: int, session_timeout: float) -> None:
        """The others hear nothing of it from now on, and give it up when that lasts too long."""
        this_time = self._silent[node_id] = next(self._numbers)
        self.cluster.broker_silent(node_id, self._clock())

        def lose_patience() -> None:
            if self._silent.get(node_id) == this_time:
                self._give_up(node_id)

        self._after(session_timeout, lose_patience)

    def _give_up(self, node_id: int) -> None:
        self._silent.pop(node_id, None)
        self.cluster.broker_down(node_id, self._clock())

    def disconnect(self, which: Callable[[Connection], bool] = lambda _: True) -> int:
        """Break connections; how many."""

        def act() -> int:
            broken = [one for one in self._connections.values() if which(one)]
            for connection in broken:
                self._close(connection)
            return len(broken)

        return self.ask(act)

    def _of(self, node_id: int) -> list[Connection]:
        return [one for one in self._connections.values() if one.node == node_id]

    def _hang_up(self, node_id: int) -> None:
        self._take_connections(node_id, False)
        self._paused.discard(node_id)
        if listener := self._listeners.pop(node_id, None):
            listener.close()
        for connection in self._of(node_id):
            self._close(connection)

    def _listen(self, node_id: int) -> None:
        node = self.cluster.nodes[node_id]
        listener = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        where = f"{self._host}:{node.port}"
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, node.port))
            listener.listen(_BACKLOG)
        except OverflowError:
            listener.close()
            raise PortInUseError(
                f"broker {node_id} cannot listen on {where}: ports end at 65535. Choose another."
            ) from None
        except OSError as error:
            listener.close()
            raise PortInUseError(
                f"broker {node_id} cannot listen on {where}: {error.strerror}. "
                "Choose another port, or stop what uses it."
            ) from None
        listener.setblocking(False)
        node.port = listener.getsockname()[1]
        self._listeners[node_id] = listener
        self._take_connections(node_id, True)

    def _take_connections(self, node_id: int, wanted: bool) -> None:
        """Whether to take connections there, or let them wait with the operating system."""
        listener = self._listeners.get(node_id)
        if listener is None or (listener in self._selector.get_map()) == wanted:
            return
        if wanted:
            self._selector.register(listener, _READ, node_id)
        else:
            self._selector.unregister(listener)

    # -- the thread

    def _run(self) -> None:
        self._after(_IDLE / 10, self._sweep)
        try:
            while self._running:
                try:
                    self._turn()
                except Exception:
                    # A bug in us: the brokers go on. What fails each time is not to fill disks.
                    _trace.error("broker.turn_failed", traceback=traceback.format_exc())
                    time.sleep(_AFTER_FAILURE)
        finally:
            with self._gate:
                self._running = False
            self._run_commands()
            self._close_all()

    def _turn(self) -> None:
        for key, events in self._selector.select(self._patience()):
            if key.fileobj is self._ear:
                self._ear.recv(4096)
            elif isinstance(key.data, Connection):
                self._serve(key.data, events)
            else:
                self._accept(key.data)
        self._run_commands()
        now = self._clock()
        while self._agenda and self._agenda[0][0] <= now:
            heapq.heappop(self._agenda)[2]()
        if self.cluster.wake_at() <= now:
            self.cluster.tick(now)
        ready, self._ready = self._ready, {}
        for connection in ready:
            self._continue(connection)

    def _run_commands(self) -> None:
        while self._commands:
            self._commands.popleft()()

    def _patience(self) -> float | None:
        """How long nothing is due, in seconds; None: nothing ever is."""
        if self._ready:
            return 0.0
        due = min(self.cluster.wake_at(), self._agenda[0][0] if self._agenda else math.inf)
        return None if due == math.inf else max(0.0, due - self._clock())

    def _after(self, delay: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self._clock() + delay, next(self._numbers), act))

    def _sweep(self) -> None:
        """Close what nobody has used for long."""
        before = self._clock() - _IDLE
        for connection in list(self._connections.values()):
            if not connection.busy and connection.used_at < before:
                self._close(connection)
        self._after(_IDLE / 10, self._sweep)

    def _close_all(self) -> None:
        for connection in list(self._connections.values()):
            self._close(connection)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self._selector.close()
        self._ear.close()
        self._bell.close()

    # -- connections

    def _accept(self, node_id: int) -> None:
        listener = self._listeners.get(node_id)
        if listener is None:
            return
        try:
            sock, address = listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                # It stays in the queue: look again when others may have closed.
                self._take_connections(node_id, False)
                self._after(_ROOM_MAY_BE, lambda: self._take_again(node_id))
            return
        try:
            connection = Connection(sock, number=next(self._numbers), node=node_id, host=address[0])
        except OSError:  # gone already
            sock.close()
            return
        connection.used_at = self._clock()
        self._connections[connection.number] = connection
        if self._log_in_anew is not None:
            self._authentications[connection.number] = self._log_in_anew()
        self._watch(connection)

    def _take_again(self, node_id: int) -> None:
        if node_id not in self._paused:
            self._take_connections(node_id, True)

    def _close(self, connection: Connection) -> None:
        if not connection.open:
            return
        connection.open = False
        del self._connections[connection.number]
        self._authentications.pop(connection.number, None)
        self._watch(connection)
        connection.sock.close()
        self.cluster.forget(lambda call: call.connection == connection.number)

    def _serve(self, connection: Connection, events: int) -> None:
        """Something can be read or written."""
        if not connection.open:
            return
        try:
            if events & _WRITE:
                connection.flush()
            if events & _READ and not connection.receive():
                self._close(connection)
                return
        except OSError:
            self._close(connection)
            return
        self._continue(connection)

    def _continue(self, connection: Connection) -> None:
        """Handle what is there, then wait for what may come."""
        if not connection.open or connection.node in self._paused:
            return
        self._handle_frames(connection)
        if connection.close_when_sent and not connection.unsent:
            self._close(connection)
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Wait for what this connection needs from now on: to be read, to be written, nothing."""
        wanted = 0
        if connection.open and connection.node not in self._paused:
            wanted = (_READ if connection.hungry else 0) | (_WRITE if connection.unsent else 0)
        if wanted == connection.watched:
            return
        if not connection.watched:
            self._selector.register(connection.sock, wanted, connection)
        elif not wanted:
            self._selector.unregister(connection.sock)
        else:
            self._selector.modify(connection.sock, wanted, connection)
        connection.watched = wanted

    def _handle_frames(self, connection: Connection) -> None:
        """Handle a few requests; each when the one before is answered, and that is sent."""
        for _ in range(_IN_A_ROW):
            if not connection.idle:
                return
            try:
                frame = connection.next_frame(_LARGEST)
                if frame is None:
                    return
                if len(frame) > _LARGEST_OTHER and frame[:2] != _PRODUCE:
                    raise FrameTooLargeError(f"a request of {len(frame)} bytes that is no Produce")
                incoming = read_request(memoryview(frame))
            except (FrameTooLargeError, BadFrameError) as error:
                _trace.info(
                    "broker.connection_refused",
                    broker=connection.node,
                    client=connection.host,
                    reason=str(error),
                )
                self._close(connection)
                return
            connection.busy = True
            connection.used_at = self._clock()
            self._handle(connection, incoming)
        self._ready[connection] = None

    # -- requests

    def _handle(self, connection: Connection, incoming: Incoming) -> None:
        fault = self.faults.match(
            incoming.api.name, connection.node, incoming.client_id, incoming.request
        )
        match fault:
            case Drop(before=True):
                self._close(connection)
            case FailWith(code=code) if incoming.request is not None:
                # Who wants no answer to a Produce learns of an error by the connection's end.
                heard = getattr(incoming.request, "acks", None) != 0
                refusal = error_response(incoming.request, incoming.version, code)
                self._answer(connection, incoming, refusal if heard else CLOSE, None)
            case _:
                self._pass_on(connection, incoming, fault)

    def _pass_on(self, connection: Connection, incoming: Incoming, fault: Any) -> None:
        call = Call(
            incoming.request,
            answer=lambda response: self._answer(connection, incoming, response, fault),
            version=incoming.version,
            now=self._clock(),
            node=connection.node,
            client_id=incoming.client_id,
            client_host=f"/{connection.host}",
            principal=connection.principal,
            connection=connection.number,
        )
        authentication = self._authentications.get(connection.number)
        if authentication is not None and self._log_in(authentication, connection, call, incoming):
            return
        self.cluster.receive(call, incoming.api.name)

    def _log_in(
        self,
        authentication: Authentication,
        connection: Connection,
        call: Call,
        incoming: Incoming,
    ) -> bool:
        """Whether the request was about who the client is, or may not be asked before that."""
        name = incoming.api.name
        if name == "SaslHandshake":
            authentication.handshake(call)
        elif name == "SaslAuthenticate":
            authentication.authenticate(call)
            connection.principal = authentication.principal or connection.principal
            if authentication.failed:
                connection.close_when_sent = True
        elif not authentication.may_ask(name):
            self._close(connection)
        else:
            return False
        return True

    def _answer(
        self, connection: Connection, incoming: Incoming, response: Any, fault: Any
    ) -> None:
        """Send an answer, unless a fault or the end of the connection comes between. A broker that
        is paused answers nobody, and later its connections break."""
        if not connection.open or connection.node in self._paused:
            return
        if response is CLOSE or isinstance(fault, Drop):
            self._close(connection)
            return
        if isinstance(fault, Swallow):
            return
        if isinstance(fault, Delay):
            self._after(fault.seconds, lambda: self._answer(connection, incoming, response, None))
            return
        try:
            if response is not None:
                frame = self._frame(incoming, response)
                if isinstance(fault, Truncate | Corrupt):
                    frame = fault.apply(frame)
                    connection.close_when_sent = isinstance(fault, Truncate)
                connection.send(frame)
        except (OSError, UnwritableError):
            self._close(connection)
            return
        connection.busy = False
        connection.used_at = self._clock()
        self._ready[connection] = None

    def _frame(self, incoming: Incoming, response: Any) -> bytes:
        """Raises UnwritableError, and says why: that is a bug in us."""
        try:
            return write_response(incoming.api, incoming.version, incoming.correlation_id, response)
        except Exception as error:
            _trace.error(
                "broker.request_failed",
                api=incoming.api.name,
                version=incoming.version,
                broker=-1,
                traceback=traceback.format_exc(),
            )
            raise UnwritableError(str(error)) from None
