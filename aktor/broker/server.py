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
from typing import TYPE_CHECKING, Final, TypeVar

from aktor.address import written
from aktor.broker.call import Call
from aktor.broker.cluster import Cluster
from aktor.broker.connection import Connection
from aktor.broker.faults import Action, Faults
from aktor.broker.stream import Stream
from aktor.trace import open_trace

if TYPE_CHECKING:
    from aktor.broker.sasl import Authentication

__all__ = ["Clock", "PortInUseError", "Server"]

_trace = open_trace(actor="broker")
T = TypeVar("T")

_BACKLOG: Final = 1024
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


class Clock:
    """Seconds since the epoch that never go back."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


class Server:
    """Owns the sockets and the thread; the cluster is touched by this thread only. It is what its
    connections share, their `Exchange`.

    `log_in` makes the server's side of a login, one per connection; None: without login.
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
        self.log_in = log_in
        self._clock = clock
        self._host = host
        self._selector = selectors.DefaultSelector()
        self._listeners: dict[int, socket.socket] = {}
        #: Of brokers that are down: bound to their ports, and without a listener, so that
        #: connections are refused, and nobody else is given the port before the broker is back.
        self._kept_ports: dict[int, socket.socket] = {}
        self._streams: dict[Connection, Stream] = {}
        self._paused: set[int] = set()
        #: Brokers that were killed or paused and whose session has not ended: the number of that
        #: event, so that the timer of an earlier one does nothing.
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
            self.cluster.broker_up(node_id, self.now())

        self.ask(act)

    def pause_broker(self, node_id: int, *, session_timeout: float = 9.0) -> None:
        """Paused: it takes connections and answers nothing. Others take over after a while."""

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
                    connection.close()
                self._take_connections(node_id, True)
                self._silent.pop(node_id, None)
                self.cluster.broker_up(node_id, self.now())

        self.ask(act)

    def _fall_silent(self, node_id: int, session_timeout: float) -> None:
        """The others hear nothing of it from now on, and give it up when that lasts too long."""
        this_time = self._silent[node_id] = next(self._numbers)
        self.cluster.broker_silent(node_id, self.now())

        def lose_patience() -> None:
            if self._silent.get(node_id) == this_time:
                self._give_up(node_id)

        self.after(session_timeout, lose_patience)

    def _give_up(self, node_id: int) -> None:
        self._silent.pop(node_id, None)
        self.cluster.broker_down(node_id, self.now())

    def disconnect(self, which: Callable[[Connection], bool] = lambda _: True) -> int:
        """Break connections; how many."""

        def act() -> int:
            broken = [stream for stream in self._streams if which(stream)]
            for connection in broken:
                connection.close()
            return len(broken)

        return self.ask(act)

    def _of(self, node_id: int) -> list[Connection]:
        return [stream for stream in self._streams if stream.node == node_id]

    def _hang_up(self, node_id: int) -> None:
        self._take_connections(node_id, False)
        self._paused.discard(node_id)
        if listener := self._listeners.pop(node_id, None):
            listener.close()
            with contextlib.suppress(OSError, PortInUseError):  # else it is not kept
                self._kept_ports[node_id] = self._bound(node_id)
        for connection in self._of(node_id):
            connection.close()

    def _listen(self, node_id: int) -> None:
        if kept := self._kept_ports.pop(node_id, None):
            kept.close()
        listener = self._bound(node_id, _BACKLOG)
        listener.setblocking(False)
        self.cluster.nodes[node_id].port = listener.getsockname()[1]
        self._listeners[node_id] = listener
        self._take_connections(node_id, True)

    def _bound(self, node_id: int, backlog: int | None = None) -> socket.socket:
        """A socket at the broker's port, which listens if a backlog is given."""
        node = self.cluster.nodes[node_id]
        listener = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        where = written(self._host, node.port)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, node.port))
            if backlog is not None:
                listener.listen(backlog)
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
        return listener

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
        self.after(_IDLE / 10, self._sweep)
        try:
            while self._running:
                try:
                    self._turn()
                except Exception:
                    # A bug in us: the brokers go on. The pause keeps an error that comes at each
                    # turn from filling the disk with log lines.
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
        now = self.now()
        while self._agenda and self._agenda[0][0] <= now:
            heapq.heappop(self._agenda)[2]()
        if self.cluster.wake_at() <= now:
            self.cluster.tick(now)
        ready, self._ready = self._ready, {}
        for connection in ready:
            self._go_on(connection)

    def _run_commands(self) -> None:
        while self._commands:
            self._commands.popleft()()

    def _patience(self) -> float | None:
        """How long nothing is due, in seconds; None: nothing ever is."""
        if self._ready:
            return 0.0
        due = min(self.cluster.wake_at(), self._agenda[0][0] if self._agenda else math.inf)
        return None if due == math.inf else max(0.0, due - self.now())

    def after(self, delay: float, act: Callable[[], None]) -> None:
        """Call `act` on the thread when so many seconds have passed."""
        heapq.heappush(self._agenda, (self.now() + delay, next(self._numbers), act))

    def _sweep(self) -> None:
        """Close connections that were not used for long."""
        before = self.now() - _IDLE
        for connection in list(self._streams):
            if not connection.busy and connection.used_at < before:
                connection.close()
        self.after(_IDLE / 10, self._sweep)

    def _close_all(self) -> None:
        for connection in list(self._streams):
            connection.close()
        for listener in (*self._listeners.values(), *self._kept_ports.values()):
            listener.close()
        self._listeners.clear()
        self._kept_ports.clear()
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
                self.after(_ROOM_MAY_BE, lambda: self._take_again(node_id))
            return
        try:
            stream = Stream(sock, self._unwatch)
        except OSError:  # gone already
            sock.close()
            return
        connection = Connection(
            self, stream, number=next(self._numbers), node=node_id, host=address[0]
        )
        self._streams[connection] = stream
        self._watch(connection)

    def _take_again(self, node_id: int) -> None:
        if node_id not in self._paused:
            self._take_connections(node_id, True)

    def _serve(self, connection: Connection, events: int) -> None:
        """Something can be read or written."""
        if not connection.open:
            return
        stream = self._streams[connection]
        try:
            if events & _WRITE:
                stream.flush()
            data = stream.receive() if events & _READ else None
        except OSError:
            data = b""
        if data == b"":
            connection.close()
            return
        connection.take(data or b"")
        self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """Handle what is there, then wait for what may come."""
        if connection.open and connection.node not in self._paused:
            connection.go_on()
            self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Wait for what this connection needs from now on: to be read, to be written, nothing."""
        stream = self._streams.get(connection)
        if stream is None:
            return
        wanted = 0
        if connection.node not in self._paused:
            wanted = (_READ if connection.hungry else 0) | (_WRITE if stream.unsent else 0)
        if wanted == stream.watched:
            return
        if not wanted:
            self._unwatch(stream)
            return
        if not stream.watched:
            self._selector.register(stream.sock, wanted, connection)
        else:
            self._selector.modify(stream.sock, wanted, connection)
        stream.watched = wanted

    def _unwatch(self, stream: Stream) -> None:
        if stream.watched:
            self._selector.unregister(stream.sock)
            stream.watched = 0

    # -- what connections ask of their exchange

    def now(self) -> float:
        """Seconds since the epoch; never goes back."""
        return self._clock()

    def at_broker(self, node: int, act: Callable[[], None]) -> None:
        """A broker that is paused answers nothing, and later its connections break."""
        if node not in self._paused:
            act()

    def receive(self, call: Call, api: str) -> None:
        """Hand a request to the cluster."""
        self.cluster.receive(call, api)

    def can_go_on(self, connection: Connection) -> None:
        """It may have another request here, at its turn."""
        self._ready[connection] = None

    def ended(self, connection: Connection) -> None:
        """Nothing of it is left."""
        del self._streams[connection]
        self.cluster.forget(lambda call: call.connection == connection.number)

    def hindered(self, connection: Connection, api: str, fault: Action) -> None:
        """No warning: the fault was asked for."""
