"""KafkaNet: the sockets. It opens connections to brokers and carries their conversations.

`conversation` decides what is sent on a connection; here are the sockets and their bytes. The only
module that imports `kafka.net`, but for `sasl` (which has the mechanisms). Taken from there: the
loop (`NetworkSelector`, turned step by step by the dispatcher, never on a thread of its own); from
`kafka.protocol`: the messages and the negotiation of versions. Not taken: the proxies (see
`proxy`); `KafkaConnection`, its transport and its parser, because they read 4 KiB at a time and
copy each byte five times, leave a connection open after an answer they cannot read, look names up
on the loop's thread, and log what they send (SASL passwords included) and every lost connection as
an error. Since nothing here runs those classes, none of that is logged, and kafka-python's loggers
need no filter: an application that uses kafka-python beside us sees its log unchanged.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any, Final, assert_never

from kafka.errors import KafkaConnectionError
from kafka.net.selector import KernelEvent, NetworkSelector, Task, TaskState
from kafka.protocol.broker_version_data import BrokerVersionData

from aktor.actors.sockets.addresses import AddressBook, Resolver
from aktor.actors.sockets.asked_versions import AskedVersions
from aktor.actors.sockets.codecs import Codecs
from aktor.actors.sockets.conversation import (
    Broken,
    Conversation,
    News,
    Opened,
    RenewAfter,
    ResponseRead,
    Work,
)
from aktor.actors.sockets.diagnosis import Diagnosis, is_hang_up
from aktor.actors.sockets.dial import Dialer
from aktor.actors.sockets.frames import SCRATCH_SIZE
from aktor.actors.sockets.handshake import mechanism_of
from aktor.actors.sockets.threads import LoginThreads
from aktor.address import written
from aktor.events.message import Message
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from aktor.settings import Settings

__all__ = ["KafkaNet"]

#: Bytes read from one socket before the others get their turn.
READ_BUDGET: Final = 1024 * 1024

#: After so many seconds without news the thread may be used for writing the later codecs.
SILENCE: Final = 0.005

_BLOCKED: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

#: SO_LINGER for no seconds.
_RESET: Final = struct.pack("ii", 1, 0)


class _Reader(Task):  # type: ignore[misc]  # kafka-python is untyped
    """The task that reads a socket, which stays registered: see `_Loop.parked`."""

    def park(self) -> None:
        """Wait until the loop finds the socket readable."""
        self.state = TaskState.WAIT_IO


class _Loop(NetworkSelector):  # type: ignore[misc]  # kafka-python is untyped
    """kafka.net's loop, with a reader that stays registered (the loop's own `wait_read` registers
    the socket with the kernel again for every wait)."""

    def parked(self) -> KernelEvent:
        """A reader task awaits this event; the loop resumes it when its socket is readable."""
        return KernelEvent("_park")

    def turn(self, timeout: float) -> None:
        """Do what is ready, or sleep up to `timeout` seconds (inf: without limit) until it is."""
        # (`poll` of the base does no more than this if no future is given, but takes longer.)
        self._poll_once(None if timeout == math.inf else timeout)

    def again(self) -> KernelEvent:
        """A task awaits this in order to go on after the other ready tasks."""
        return KernelEvent("_rejoin")

    def _park(self) -> None:
        self._current.park()

    def _rejoin(self) -> None:
        self._add_ready_task(self._current)


class KafkaNet:
    """Owns the selector, the sockets, and the answers due on each connection (a `wire.Net`).

    Belongs to one thread, except for `wake`. It reports through `tell`, which must only queue the
    report, not handle it. `connection` of the settings: kafka-python's names for TLS, SASL, socket
    options, `client_dns_lookup`, `proxy_url`, `api_version`, `receive_message_max_bytes`. `clock`
    is the dispatcher's: it gives the time in each report. `resolve` looks names up, on a thread of
    its own.
    """

    def __init__(
        self,
        settings: Settings,
        tell: Callable[[Message], None],
        clock: Callable[[], float],
        *,
        resolve: Resolver = socket.getaddrinfo,
    ) -> None:
        self.settings = settings
        self.tell = tell
        self.clock = clock
        self.resolve = resolve
        self.addresses = AddressBook()
        self.asked_versions = AskedVersions()
        self.scratch = bytearray(SCRATCH_SIZE)
        self.loop = _Loop(
            client_id=settings.client_id,
            selector=settings.connection.get("selector") or selectors.DefaultSelector,
            slow_task_threshold_secs=0,  # otherwise the loop reads the clock twice for each step
        )
        self.logins = LoginThreads(self.loop, lambda: self.clock())
        self._connections: dict[str, _Connection] = {}
        self._codecs = Codecs()
        self._knows_versions = False
        self._closed = False
        self._pid = os.getpid()

    # -- the actor's side

    def connect(
        self,
        key: str,
        host: str,
        port: int,
        timeout: float,
        *,
        canonical: bool = False,
        jitter: float = 0.5,
    ) -> None:
        """Begin to open the connection `key`; ends in ConnectionOpened or ConnectionFailed."""
        connection = _Connection(self, key, host, port, canonical=canonical, jitter=jitter)
        self._connections[key] = connection
        connection.start(timeout)

    def send(self, key: str, request_id: int, body: Any) -> None:
        """Send `body`, a kafka-python request, in the newest version that both sides speak."""
        connection = self._connections.get(key)
        if connection is None:
            gone = KafkaConnectionError(f"connection {key} is closed")
            self.tell(RequestBroken(key=key, request_id=request_id, error=gone, now=self.clock()))
            return
        connection.send(request_id, body)

    def has_heard(self, key: str) -> bool:
        """Whether part of an answer is here, and some of it came since this was last asked."""
        connection = self._connections.get(key)
        return connection is not None and connection.has_heard()

    def close_connection(self, key: str) -> None:
        """Close `key`, or end the attempt; no more reports about it. Answers due are given up."""
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
        """In a forked child: close our copies only. The child shares the epoll set with the parent:
        if it unregistered a socket, the parent would hear no more from that socket."""
        for connection in self._connections.values():
            connection.let_go()
        for descriptor in (self.loop._wakeup_r, self.loop._wakeup_w, self.loop._selector):
            descriptor.close()

    # -- the dispatcher's side

    def wait(self, timeout: float) -> None:
        """Do what is ready on the sockets, or sleep up to `timeout` seconds (inf: no limit)."""
        if timeout > 0 and self._codecs.soon:
            # An answer that comes meanwhile waits for this codec, which will be needed before the
            # first record anyway.
            self.loop.turn(0.0)
            self._codecs.write_soon()
        elif timeout > SILENCE and self._codecs.later:
            self._write_codec_in_silence()
        else:
            self.loop.turn(timeout)

    def _write_codec_in_silence(self) -> None:
        """Sleep a little; if nothing has ended the sleep, there is time to write one codec."""
        began = self.clock()
        self.loop.turn(SILENCE)
        if self.clock() - began >= SILENCE:
            self._codecs.write_later()

    def wake(self) -> None:
        """End a `wait` early. From any thread, also after `close`."""
        self.loop.wakeup()

    def prepare_to_rest(self) -> None:
        """Write all codecs: for that kafka-python imports modules, which cannot be done any more
        when the interpreter has taken the dispatcher's thread away."""
        self._codecs.write_all()

    # -- the connections' side

    def note_versions(self, versions: BrokerVersionData) -> None:
        """A broker has told its versions; the other brokers will have the same."""
        if not self._knows_versions:
            self._knows_versions = True
            self._codecs.plan(versions, self.settings)

    def forget(self, key: str) -> None:
        """The connection `key` has closed itself."""
        self._connections.pop(key, None)


class _Connection:
    """Owns one socket, from the look-up of its name to its end. It carries the bytes of one
    conversation, and does what the conversation wants next."""

    def __init__(
        self, net: KafkaNet, key: str, host: str, port: int, *, canonical: bool, jitter: float
    ) -> None:
        self._net = net
        self._loop = net.loop
        self._key = key
        self._server = host, port
        self._diagnosis = Diagnosis(
            written(host, port),
            security_protocol=net.settings.security_protocol,
            mechanism=mechanism_of(net.settings),
            config=net.settings.connection,
        )
        self._talk = Conversation(net.settings, self._diagnosis, scratch=net.scratch, jitter=jitter)
        self._dial = Dialer(
            net.loop,
            net.settings,
            self._diagnosis,
            name=host,
            port=port,
            canonical=canonical,
            addresses=net.addresses,
            resolve=net.resolve,
        )
        self._closed = False
        self._tls = net.settings.security_protocol in ("SSL", "SASL_SSL")
        #: Bytes wait to be sent: for room in the socket or, with `_must_hear`, for the broker.
        self._is_writing = False
        self._must_hear = False
        self._tasks: dict[str, Task] = {}

    def has_heard(self) -> bool:
        """See `KafkaNet.has_heard`."""
        return self._talk.has_heard()

    # -- beginning

    def start(self, timeout: float) -> None:
        """Begin to connect; if the connection is not open after `timeout` seconds, it failed."""
        self._tasks["open"] = self._loop.call_soon(lambda: self._open(timeout))
        self._set_timer(timeout, lambda: self._give_up(timeout))

    async def _open(self, timeout: float) -> None:
        try:
            await self._dial.dial(timeout)
            self._start_reading()
        except Exception as error:
            self._lost(error)
            return
        api_versions = self._net.asked_versions.of(*self._server)
        self._say(lambda: self._talk.begin(self._dial.host, api_versions))

    def _give_up(self, timeout: float) -> None:
        whose = " from the token provider or the login library" if "work" in self._tasks else ""
        text = f"no answer{whose} within {timeout:g} s {self._diagnosis.phase.value}"
        self._lost(TimeoutError(text))

    def _set_timer(self, delay: float, then: Callable[[], Any]) -> None:
        self._stop_timer()
        self._tasks["timer"] = self._loop.call_later(delay, then)

    def _stop_timer(self) -> None:
        timer = self._tasks.pop("timer", None)
        if timer is not None:
            self._loop.cancel(timer)

    # -- the conversation

    def send(self, request_id: int, body: Any) -> None:
        """Send a request of the network actor's."""
        self._talk.send(request_id, body)
        self._go_on()

    def _say(self, say: Callable[[], None]) -> None:
        """Call a method of the conversation, then do what the conversation wants next."""
        try:
            say()
        except Exception as error:
            self._lost(error)
        else:
            self._go_on()

    def _go_on(self) -> None:
        talk = self._talk
        if talk.unsent and not self._is_writing:
            self._begin_to_write()
        while talk.news and not self._closed:
            self._act(talk.next_news())

    def _act(self, news: News) -> None:
        match news:
            case ResponseRead():
                self._net.tell(
                    RequestAnswered(
                        key=self._key,
                        request_id=news.request_id,
                        response=news.response,
                        version=news.version,
                        throttle=news.throttle,
                        sizes=news.sizes,
                        now=self._net.clock(),
                    )
                )
            case Broken(request_id, error):
                now = self._net.clock()
                self._net.tell(
                    RequestBroken(key=self._key, request_id=request_id, error=error, now=now)
                )
            case Opened(versions):
                self._stop_timer()
                self._dial.note(works=True)
                self._net.note_versions(versions)
                self._net.tell(
                    ConnectionOpened(
                        key=self._key,
                        broker_version=versions.broker_version,
                        now=self._net.clock(),
                    )
                )
            case RenewAfter(seconds):
                # The renewal has no timer of its own: requests held back meanwhile have the actor's
                # deadlines, and a JoinGroup in flight, whose answer comes first, may take minutes.
                self._set_timer(seconds, self._renew)
            case Work(work):
                self._tasks["work"] = self._loop.call_soon(lambda: self._work(work))
            case _:
                assert_never(news)

    def _renew(self) -> None:
        self._stop_timer()
        self._say(self._talk.renew)

    async def _work(self, work: Callable[[], Any]) -> None:
        try:
            done = self._net.logins.run(work, lambda: self._dial.ended)
            result, failure = await done, None
        except Exception as error:
            result, failure = None, error
        self._tasks.pop("work", None)
        self._say(lambda: self._talk.worked(result, failure))

    # -- sending

    def _begin_to_write(self) -> None:
        self._is_writing = True
        try:
            if not self._flush():
                self._tasks["write"] = self._loop.call_soon(self._write_rest)
        except OSError as error:
            self._lost_while_sending(error)

    def _flush(self) -> bool:
        """Send what the socket takes; True if no bytes are left that wait for room in it."""
        assert self._dial.sock is not None, "nothing is sent before there is a socket"
        talk = self._talk
        while talk.unsent:
            try:
                count = self._dial.sock.send(talk.unsent[0])
            except ssl.SSLWantReadError:
                # There is room, but TLS must hear from the broker first: the reader sends the rest.
                self._must_hear = True
                return True
            except _BLOCKED:
                return False
            talk.sent(count)
        self._is_writing = False
        return True

    async def _write_rest(self) -> None:
        try:
            while not self._flush():
                await self._loop.wait_write(self._dial.sock)
        except OSError as error:
            self._lost_while_sending(error)

    def _lost_while_sending(self, error: OSError) -> None:
        # Answers that the broker sent before it hung up may still be in the socket.
        try:
            while self._read_some():
                pass
        except Exception as last:
            self._lost(last if not isinstance(last, EOFError) else error)
        else:
            self._lost(error)

    # -- receiving

    def _start_reading(self) -> None:
        assert self._dial.sock is not None, "nothing is read before there is a socket"
        self._tasks["read"] = reader = _Reader(self._read)
        self._loop.add_reader(self._dial.sock, reader)

    async def _read(self) -> None:
        try:
            while True:
                # Decrypted bytes in TLS' own buffer do not make the socket readable again.
                more = self._read_some() and self._tls
                if self._must_hear:
                    self._must_hear = False
                    self._begin_to_write()
                if self._closed:
                    return
                await (self._loop.again() if more else self._loop.parked())
        except Exception as error:
            self._lost(error)

    def _read_some(self) -> bool:
        """Read what has arrived, up to the budget; True if the budget is used up."""
        left = READ_BUDGET
        while left > 0:
            sock = self._dial.sock
            if sock is None:
                return False
            try:
                plain = None if self._tls else sock.fileno()
                received, room = self._talk.receive(sock.recv_into, plain)
            except _BLOCKED:
                return False
            finally:
                self._go_on()
            if received == 0:
                raise EOFError
            left -= received
            if received < room and not self._tls:
                return False
        return True

    # -- ending

    def _lost(self, error: Exception) -> None:
        explained = self._diagnosis.explain(error)
        unanswered = self._diagnosis.unanswered_versions
        if unanswered is not None and is_hang_up(error):
            self._net.asked_versions.hung_up(*self._server, unanswered)
        # Our frames hold what was being sent: tools that print local variables would show it.
        error.__traceback__ = explained.__traceback__ = None
        self.close(explained)

    def close(self, error: Exception | None, *, abandon: bool = True) -> None:
        """Close the socket and end all tasks; `error` None: without a report. `abandon`: bytes of
        unanswered requests that the kernel has not sent yet are never sent."""
        if self._closed:
            return
        self._closed = True
        self._dial.note(works=False)  # the next attempt begins with the address after this one
        self._net.forget(self._key)
        if self._dial.sock is not None:
            self._loop.remove_reader(self._dial.sock)
        for task in self._tasks.values():
            self._loop.cancel(task)
        self._tasks.clear()
        self._dial.end()
        if abandon and self._talk.in_flight:
            self._discard_unsent()
        self.let_go()
        if error is None:
            return
        now = self._net.clock()
        if self._diagnosis.open:
            self._net.tell(ConnectionClosed(key=self._key, error=error, now=now))
        else:
            self._net.tell(ConnectionFailed(key=self._key, error=error, now=now))

    def _discard_unsent(self) -> None:
        """Let the socket end by a reset (RST), which discards its send buffer.

        The senders have been told that these requests failed, and ask again on another connection.
        If the link is cut, an orderly close would leave the old requests to the kernel, which sends
        them when the link heals: an old OffsetCommit would arrive after a newer one, and the
        group's offset would go back. What the broker's machine has received it may still handle.
        """
        if self._dial.sock is not None:
            with contextlib.suppress(OSError):  # it has ended already
                self._dial.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def let_go(self) -> None:
        """Close the descriptor and nothing else."""
        self._dial.let_go()
