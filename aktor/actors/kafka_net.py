"""KafkaNet: the sockets. It opens connections to brokers and carries requests and answers.

The only module that imports `kafka.net`, but for `handshake`, which has its SASL mechanisms. Taken
from there: the loop (`NetworkSelector`, turned step by step by the dispatcher, never on a thread of
its own), the proxies; from `kafka.protocol`: the messages and the negotiation of versions. Not
taken: `KafkaConnection`, its transport and its parser, because they read 4 KiB at a time and copy
each byte five times, leave a connection open after an answer they cannot read, look names up on the
loop's thread, and log what they send (SASL passwords included) and every lost connection as an
error. Since nothing here runs those classes, none of that is logged, and kafka-python's loggers
need no filter: whoever uses kafka-python beside us sees its log unchanged.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import random
import selectors
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError, KafkaError
from kafka.future import Future
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import KernelEvent, NetworkSelector, Task, TaskState
from kafka.protocol.broker_version_data import BrokerVersionData

from aktor.actors.addresses import Address, AddressBook, Race, Resolver, head_start
from aktor.actors.codecs import codecs_to_write
from aktor.actors.diagnosis import Diagnosis, Phase
from aktor.actors.due import RAW_TOKEN, Due, write_request
from aktor.actors.frames import SCRATCH_SIZE, FrameCutter
from aktor.actors.handshake import Handshake, mechanism_of
from aktor.actors.tls import make_ssl_context
from aktor.actors.wire import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from aktor.errors import AuthenticationError
from aktor.settings import Settings

__all__ = ["KafkaNet"]

#: Bytes read from one socket before the others get their turn.
READ_BUDGET: Final = 1024 * 1024

#: kafka-python's `receive_message_max_bytes`.
LONGEST_FRAME: Final = 100_000_000

#: After so many seconds without news the thread may be used for writing codecs.
SILENCE: Final = 0.005

_BLOCKED: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CONNECTING: Final = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)
_WORD: Final = struct.Struct(">i")
#: SO_LINGER for no seconds.
_RESET: Final = struct.pack("ii", 1, 0)

_T = TypeVar("_T")


class _Loop(NetworkSelector):  # type: ignore[misc]  # kafka-python is untyped
    """kafka.net's loop, with a reader that stays registered (its own `wait_read` registers anew
    with the kernel for every wait)."""

    def parked(self) -> KernelEvent:
        """Await this to be called when the registered socket is readable."""
        return KernelEvent("_park")

    def again(self) -> KernelEvent:
        """Await this to be called after the others had their turn."""
        return KernelEvent("_rejoin")

    def _park(self) -> None:
        self._current.state = TaskState.WAIT_IO

    def _rejoin(self) -> None:
        self._add_ready_task(self._current)


class KafkaNet:
    """Owns the selector, the sockets, and what is due on each connection (a `wire.Net`).

    Belongs to one thread, except for `wake`. Reports through `tell`, which must only note the
    report down. `connection` of the settings: kafka-python's names for TLS, SASL, socket options,
    `client_dns_lookup`, `proxy_url`, `api_version`, `receive_message_max_bytes`. `resolve` looks
    names up, on a thread of its own.
    """

    def __init__(
        self,
        settings: Settings,
        tell: Callable[[object], None],
        *,
        resolve: Resolver = socket.getaddrinfo,
    ) -> None:
        self.settings = settings
        self.tell = tell
        self.resolve = resolve
        self.addresses = AddressBook()
        self.scratch = bytearray(SCRATCH_SIZE)
        self.loop = _Loop(
            client_id=settings.client_id,
            selector=settings.connection.get("selector") or selectors.DefaultSelector,
            slow_task_threshold_secs=0,  # else two clock readings for each step
        )
        self._connections: dict[str, _Connection] = {}
        #: Codecs to be written while there is nothing else to do.
        self._unwritten: deque[Callable[[], None]] = deque()
        self._knows_versions = False
        self._closed = False
        self._pid = os.getpid()

    # -- the actor's side

    def connect(
        self, key: str, host: str, port: int, timeout: float, *, canonical: bool = False
    ) -> None:
        """Begin to open the connection `key`; ends in ConnectionOpened or ConnectionFailed."""
        connection = _Connection(self, key, host, port, canonical=canonical)
        self._connections[key] = connection
        connection.start(timeout)

    def send(self, key: str, request_id: int, body: Any) -> None:
        """Send `body`, a kafka-python request, in the newest version that both sides speak."""
        connection = self._connections.get(key)
        if connection is None:
            gone = KafkaConnectionError(f"connection {key} is closed")
            self.tell(
                RequestBroken(key=key, request_id=request_id, error=gone, now=time.monotonic())
            )
            return
        connection.send(request_id, body)

    def has_heard(self, key: str) -> bool:
        """Whether part of an answer is here, and some of it came since this was last asked."""
        connection = self._connections.get(key)
        return connection is not None and connection.has_heard()

    def close_connection(self, key: str, because: str) -> None:
        """Close `key`, or end the attempt; no more reports about it. What is due is abandoned."""
        connection = self._connections.pop(key, None)
        if connection is not None:
            connection.close(None)

    def close(self) -> None:
        """Close every descriptor. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid:
            self._let_go()
            return
        for connection in list(self._connections.values()):
            connection.close(None, abandon=False)  # a LeaveGroup may still be on its way
        self._connections.clear()
        self.loop.close()

    def _let_go(self) -> None:
        """In a forked child: close our copies only. The epoll set is still the parent's, and to
        unregister a socket here would deafen the parent."""
        for connection in self._connections.values():
            connection.let_go()
        for descriptor in (self.loop._wakeup_r, self.loop._wakeup_w, self.loop._selector):
            descriptor.close()

    # -- the dispatcher's side

    def wait(self, timeout: float) -> None:
        """Do what the sockets ask for, or sleep up to `timeout` seconds (inf: without limit)."""
        if self._unwritten and timeout > SILENCE:
            self._write_codecs_in_silence()
            return
        self.loop.poll(None if timeout == float("inf") else timeout * 1000.0)

    def _write_codecs_in_silence(self) -> None:
        """Sleep a little; if nothing ended that, there is time to write one codec."""
        began = time.monotonic()
        self.loop.poll(SILENCE * 1000.0)
        if time.monotonic() - began >= SILENCE:
            self._unwritten.popleft()()

    def wake(self) -> None:
        """End a `wait` early. From any thread, also after `close`."""
        self.loop.wakeup()

    # -- the connections' side

    def note_versions(self, versions: BrokerVersionData) -> None:
        """A broker has told what it speaks; the others will speak the same."""
        if not self._knows_versions:
            self._knows_versions = True
            self._unwritten = codecs_to_write(versions)

    def forget(self, key: str) -> None:
        """The connection `key` has closed itself."""
        self._connections.pop(key, None)


class _Connection:
    """Owns one socket, from the look-up of its name to its end, and the answers due on it."""

    def __init__(self, net: KafkaNet, key: str, host: str, port: int, *, canonical: bool) -> None:
        self._net = net
        self._loop = net.loop
        self._config = net.settings.connection
        self._key = key
        self._host = host
        self._port = port
        self._canonical = canonical
        self._diagnosis = Diagnosis(
            f"{host}:{port}",
            security_protocol=net.settings.security_protocol,
            mechanism=mechanism_of(net.settings),
            config=self._config,
        )
        self._handshake = Handshake(net.settings, self._diagnosis, self)
        self._closed = False
        #: What the name was, before it was made canonical; and which of its addresses it became.
        self._name = host
        self._address: Address | None = None
        self._race: Race[socket.socket] | None = None
        self._sock: socket.socket | None = None
        self._tls = net.settings.security_protocol in ("SSL", "SASL_SSL")
        self._sasl = net.settings.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        self._correlation_id = 0
        self._versions: BrokerVersionData | None = None
        self._cutter = FrameCutter(
            self._config.get("receive_message_max_bytes") or LONGEST_FRAME, net.scratch
        )
        self._due: deque[Due] = deque()
        self._unsent: deque[bytes | memoryview] = deque()
        self._must_hear = False
        self._held: deque[tuple[int, Any]] | None = None
        self._tasks: dict[str, Task] = {}

    def has_heard(self) -> bool:
        """See `KafkaNet.has_heard`."""
        return self._cutter.has_heard()

    # -- beginning

    def start(self, timeout: float) -> None:
        """Begin; what is not open after `timeout` seconds has failed."""
        self._tasks["open"] = self._loop.call_soon(lambda: self._open(timeout))
        self._set_timer(timeout, lambda: self._give_up(timeout))

    async def _open(self, timeout: float) -> None:
        try:
            await self._connect(timeout)
            if self._tls:
                self._diagnosis.phase = Phase.SECURING
                await self._secure()
            self._start_reading()
            self._diagnosis.phase = Phase.VERSIONING
            self._versions = await self._handshake.learn_versions()
            self._net.note_versions(self._versions)
            if self._sasl:
                self._diagnosis.phase = Phase.LOGGING_IN
            lifetime = await self._handshake.log_in(self._host) if self._sasl else 0.0
        except Exception as error:
            self._lost(error)
            return
        self._diagnosis.phase = Phase.UNPROVEN
        self._note_address(works=True)
        self._renew_after(lifetime)
        self._net.tell(ConnectionOpened(key=self._key, now=time.monotonic()))

    def _give_up(self, timeout: float) -> None:
        self._lost(TimeoutError(f"no answer within {timeout:g} s {self._diagnosis.phase.value}"))

    def _set_timer(self, delay: float, then: Callable[[], Any]) -> None:
        self._stop_timer()
        self._tasks["timer"] = self._loop.call_at(time.monotonic() + delay, then)

    def _stop_timer(self) -> None:
        timer = self._tasks.pop("timer", None)
        if timer is not None:
            self._loop.cancel(timer)

    # -- name, address, TLS

    async def _connect(self, timeout: float) -> None:
        # A proxy looks names up when it is made, so it is made by the thread that may wait.
        factory, found = await self._resolve()
        self._diagnosis.phase = Phase.CONNECTING
        addresses = self._net.addresses.ordered(self._name, self._port, found)
        self._race = Race(
            self._loop,
            addresses,
            functools.partial(self._connect_to, factory),
            # A proxy converses with one address at a time.
            head_start=None if self._proxy else head_start(len(addresses), timeout),
        )
        self._address, self._sock = await self._race.winner()

    def _note_address(self, *, works: bool) -> None:
        latest = self._race.latest if self._race is not None else None
        address = self._address or latest
        if address is not None:
            self._net.addresses.note(self._name, self._port, address, works=works)

    async def _resolve(self) -> tuple[Any, list[Address]]:
        if self._proxy:
            return await self.in_thread(self._resolve_proxy)
        factory = KafkaNetSocket()
        try:
            return factory, self._look_up(socket.AI_NUMERICHOST)
        except socket.gaierror:
            pass  # a name, not an address
        if not self._canonical:
            return factory, await self.in_thread(self._look_up)
        addresses = await self.in_thread(lambda: self._look_up(socket.AI_CANONNAME))
        # The name that certificates and Kerberos principals are checked against from here on.
        self._host = next((one[3] for one in addresses if one[3]), self._host)
        return factory, addresses

    @property
    def _proxy(self) -> Any:
        return self._config.get("proxy_url") or self._config.get("socks5_proxy")

    def _look_up(self, flags: int = 0) -> list[Address]:
        # Anew for every attempt: brokers move, and a cached address would outlive them.
        return list(self._net.resolve(self._host, self._port, type=socket.SOCK_STREAM, flags=flags))

    def _resolve_proxy(self) -> tuple[Any, list[Address]]:
        try:
            factory = KafkaNetSocket(self._proxy)
        except ValueError:
            # kafka-python's text quotes the address, which may contain a password.
            raise OSError("proxy_url is not a socks5://, socks5h:// or http:// address") from None
        return factory, factory.dns_lookup(self._host, self._port)

    async def _connect_to(self, factory: Any, address: Address) -> socket.socket:
        family, kind, protocol, _, where = address
        sock: socket.socket = factory.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in self._socket_options():
                sock.setsockopt(*option)
            while True:
                try:
                    code = factory.connect_ex(sock, where)
                except BlockingIOError:
                    code = errno.EWOULDBLOCK  # a proxy between two steps of its conversation
                if code in (0, errno.EISCONN):
                    return sock
                if code not in _CONNECTING:
                    raise OSError(code, os.strerror(code))
                await self._loop.wait_write(sock)
        except BaseException:  # also the end of the attempt while it waits
            sock.close()
            raise

    def _socket_options(self) -> list[tuple[int, int, int]]:
        options = self._config.get("socket_options")
        if options is None:
            options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        sizes = (
            (socket.SO_RCVBUF, self._config.get("receive_buffer_bytes")),
            (socket.SO_SNDBUF, self._config.get("send_buffer_bytes")),
        )
        # -1 is Kafka's word for the system's default.
        return [*options, *((socket.SOL_SOCKET, name, n) for name, n in sizes if n and n > 0)]

    async def _secure(self) -> None:
        assert self._sock is not None, "TLS before there is a socket"
        try:
            context = self._config.get("ssl_context") or make_ssl_context(self._config)
        except (OSError, ValueError, TypeError) as error:
            text = f"the certificate settings cannot be used: {error}"
            raise self._diagnosis.refused(text, error) from error
        self._sock = sock = context.wrap_socket(
            self._sock, server_hostname=self._host.rstrip("."), do_handshake_on_connect=False
        )
        while True:
            try:
                sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._loop.wait_read(sock)
            except ssl.SSLWantWriteError:
                await self._loop.wait_write(sock)

    # -- versions and login

    async def ask_raw(self, token: bytes) -> bytes:
        """A token outside of requests, and its answer (before KIP-152)."""
        waiter = Future()
        self._due.append(Due(api_key=RAW_TOKEN, version=0, correlation_id=-1, waiter=waiter))
        self.say_raw(token)
        return await waiter  # type: ignore[no-any-return]

    def say_raw(self, token: bytes) -> None:
        """A token outside of requests."""
        self._write(_WORD.pack(len(token)) + token)

    def _renew_after(self, lifetime: float) -> None:
        """Log in again before the login ends (KIP-368), at a random moment lest all do at once."""
        self._stop_timer()
        if lifetime > 0:
            delay = max(lifetime, 1.0) * random.uniform(0.85, 0.95)
            self._set_timer(delay, self._begin_renewal)

    def _begin_renewal(self) -> None:
        # Without a timer of its own: what is held back meanwhile has the actor's deadlines, and
        # a JoinGroup in flight, whose answer comes first, may take minutes.
        self._held = deque()
        self._tasks["open"] = self._loop.call_soon(self._renew)

    async def _renew(self) -> None:
        # Answers still due come before those of the login, since a broker keeps the order.
        try:
            lifetime = await self._handshake.log_in(self._host)
        except Exception as error:
            reason = error.reason if isinstance(error, AuthenticationError) else str(error)
            self._lost(self._diagnosis.failed(f"the login could not be renewed: {reason}"))
            return
        self._renew_after(lifetime)
        held, self._held = self._held or (), None
        for request_id, body in held:
            self.send(request_id, body)

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run on a thread of its own what may block; the loop goes on."""
        done = Future()

        def finish(result: Any, error: Exception | None) -> None:
            if not self._closed:  # else nobody waits any more
                done.success((result, error))

        def run() -> None:
            try:
                result, error = work(), None
            except Exception as caught:
                result, error = None, caught
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(lambda: finish(result, error))

        threading.Thread(target=run, name="aktor-look-up", daemon=True).start()
        result, error = await done
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    # -- sending

    def send(self, request_id: int, body: Any) -> None:
        """Send for the actor."""
        if self._held is not None:
            self._held.append((request_id, body))
            return
        try:
            data, due = self._encode(body)
        except IncompatibleBrokerVersion as error:
            self._break(
                request_id, IncompatibleBrokerVersion(f"broker {self._diagnosis.broker}: {error}")
            )
        except Exception as error:
            text = f"{type(body).__name__} cannot be encoded: {type(error).__name__}: {error}"
            self._break(request_id, KafkaError(text))
        else:
            due.request_id = request_id
            self._due.append(due)
            self._write(data)

    def _break(self, request_id: int, error: Exception) -> None:
        self._net.tell(
            RequestBroken(key=self._key, request_id=request_id, error=error, now=time.monotonic())
        )

    async def ask(self, body: Any) -> Any:
        """Send for ourselves, wait for the answer."""
        data, due = self._encode(body)
        waiter = due.waiter = Future()
        self._due.append(due)
        self._write(data)
        return await waiter

    def _encode(self, body: Any) -> tuple[bytes, Due]:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return write_request(
            body, self._versions, self._correlation_id, self._net.settings.client_id
        )

    def _write(self, data: bytes) -> None:
        self._unsent.append(data)
        if len(self._unsent) > 1:
            return  # something waits already, and the writer for it
        self._begin_to_write()

    def _begin_to_write(self) -> None:
        try:
            if not self._flush():
                self._tasks["write"] = self._loop.call_soon(self._write_rest)
        except OSError as error:
            self._lost_while_sending(error)

    def _flush(self) -> bool:
        """Send what the socket takes; True when nothing is left that waits for room in it."""
        assert self._sock is not None, "nothing is sent before there is a socket"
        while self._unsent:
            data = self._unsent[0]
            try:
                sent = self._sock.send(data)
            except ssl.SSLWantReadError:
                # There is room, but TLS must hear from the broker first: the reader goes on here.
                self._must_hear = True
                return True
            except _BLOCKED:
                return False
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = memoryview(data)[sent:]
        return True

    async def _write_rest(self) -> None:
        try:
            while not self._flush():
                await self._loop.wait_write(self._sock)
        except OSError as error:
            self._lost_while_sending(error)

    def _lost_while_sending(self, error: OSError) -> None:
        # What the broker said before it hung up may still lie in the socket.
        try:
            while self._read_some():
                pass
        except Exception as last:
            self._lost(last if not isinstance(last, EOFError) else error)
        else:
            self._lost(error)

    # -- receiving

    def _start_reading(self) -> None:
        assert self._sock is not None, "nothing is read before there is a socket"
        self._tasks["read"] = reader = Task(self._read)
        self._loop.add_reader(self._sock, reader)

    async def _read(self) -> None:
        try:
            while True:
                # Decrypted bytes in TLS' own buffer do not make the socket readable again.
                more = self._read_some() and self._tls
                if self._must_hear:
                    self._must_hear = False
                    self._begin_to_write()
                await (self._loop.again() if more else self._loop.parked())
        except Exception as error:
            self._lost(error)

    def _read_some(self) -> bool:
        """Take what is there, up to the budget; True if the budget ended it."""
        left = READ_BUDGET
        while left > 0:
            if self._sock is None:
                return False
            try:
                received, room = self._cutter.receive(self._sock.recv_into)
            except _BLOCKED:
                return False
            finally:
                self._answer()
            if received == 0:
                raise EOFError
            left -= received
            if received < room and not self._tls:
                return False
        return True

    def _answer(self) -> None:
        frames = self._cutter.frames
        while frames and not self._closed:
            frame = frames.popleft()
            if not self._due:
                raise self._diagnosis.malformed("an answer to no request")
            due = self._due.popleft()
            try:
                response = bytes(frame) if due.api_key == RAW_TOKEN else due.decode(frame)
            except Exception as error:  # kafka-python's decoder raises whatever comes
                reason = f"{due.name} of {len(frame)} bytes: {type(error).__name__}: {error}"
                raise self._diagnosis.malformed(reason, error) from error
            self._deliver(due, response)

    def _deliver(self, due: Due, response: Any) -> None:
        if due.waiter is not None:
            due.waiter.success(response)
            return
        assert due.request_id is not None, "an answer is due to the actor or to ourselves"
        self._diagnosis.phase = Phase.PROVEN
        self._net.tell(
            RequestAnswered(
                key=self._key,
                request_id=due.request_id,
                response=response,
                version=due.version,
                now=time.monotonic(),
                throttle=self._throttle(response),
            )
        )

    def _throttle(self, response: Any) -> float:
        milliseconds = getattr(response, "throttle_time_ms", None)
        if not milliseconds or self._versions is None:
            return 0.0
        # Before 2.0 the broker itself waited, and the time is history (KIP-219).
        return milliseconds / 1000.0 if self._versions.broker_version >= (2, 0) else 0.0

    # -- ending

    def _lost(self, error: Exception) -> None:
        explained = self._diagnosis.explain(error)
        # Our frames hold what was being sent: tools that print local variables would show it.
        error.__traceback__ = explained.__traceback__ = None
        self.close(explained)

    def close(self, error: Exception | None, *, abandon: bool = True) -> None:
        """Close the socket, end what is under way; `error` None: without a report. `abandon`: what
        the kernel has not sent of requests that are not answered never arrives."""
        if self._closed:
            return
        self._closed = True
        self._note_address(works=False)  # the next attempt goes on from there
        self._net.forget(self._key)
        if self._sock is not None:
            self._loop.remove_reader(self._sock)
        for task in self._tasks.values():
            self._loop.cancel(task)
        self._tasks.clear()
        if self._race is not None:
            self._race.end()
        if abandon and self._due:
            self._discard_unsent()
        self.let_go()
        if error is None:
            return
        report = ConnectionClosed if self._diagnosis.open else ConnectionFailed
        self._net.tell(report(key=self._key, error=error, now=time.monotonic()))

    def _discard_unsent(self) -> None:
        """Let the socket end by a reset (RST), which discards its send buffer.

        The senders have been told that these requests failed, and ask again on another connection.
        If the link is cut, an orderly close would leave the old requests to the kernel, which sends
        them when the link heals: an old OffsetCommit would arrive after a newer one, and the
        group's offset would go back. What the broker's machine has received it may still handle.
        """
        if self._sock is not None:
            with contextlib.suppress(OSError):  # it has ended already
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def let_go(self) -> None:
        """Close the descriptor and nothing else (no shutdown: a forked parent may use it)."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
