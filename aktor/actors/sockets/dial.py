"""The way to a broker's socket: its name, its addresses, a proxy, and TLS.

Only a look-up of a name may block, and is done on a thread of its own.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka.future import Future
from kafka.net.inet import KafkaNetSocket

from aktor.actors.sockets.addresses import Address, AddressBook, Race, Resolver, head_start
from aktor.actors.sockets.diagnosis import Diagnosis, Phase
from aktor.actors.sockets.tls import make_ssl_context
from aktor.settings import Settings

__all__ = ["Dialer"]

_CONNECTING: Final = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)

_T = TypeVar("_T")


class Dialer:
    """Owns one attempt to reach a broker, and its socket, `sock`.

    `loop` is `kafka.net`'s; what is awaited here is awaited on it. `addresses` are known to all
    attempts. `canonical`: ask the resolver for the full name and go on with that (for Kerberos).
    """

    def __init__(
        self,
        loop: Any,
        settings: Settings,
        diagnosis: Diagnosis,
        *,
        name: str,
        port: int,
        canonical: bool,
        addresses: AddressBook,
        resolve: Resolver,
    ) -> None:
        #: The broker's name in certificates and Kerberos principals.
        self.host = name
        self.sock: socket.socket | None = None
        self._loop = loop
        self._settings = settings
        self._config = settings.connection
        self._diagnosis = diagnosis
        #: The name as it was given, before it was made canonical; and its address that connected.
        self._name = name
        self._port = port
        self._canonical = canonical
        self._address: Address | None = None
        self._race: Race[socket.socket] | None = None
        self._addresses = addresses
        self._resolver = resolve
        self._ended = False

    async def dial(self, timeout: float) -> None:
        """Connect, and encrypt if the settings want that. Raises what the socket or TLS raises."""
        await self._connect(timeout)
        if self._settings.security_protocol in ("SSL", "SASL_SSL"):
            self._diagnosis.enter(Phase.SECURING)
            await self._secure()

    def note(self, *, works: bool) -> None:
        """A connection to the address was opened (`works`), or has ended. The next attempt begins
        with this address, or with the one after it."""
        latest = self._race.latest if self._race is not None else None
        address = self._address or latest
        if address is not None:
            self._addresses.note(self._name, self._port, address, works=works)

    def end(self) -> None:
        """Give up the attempt under way; the socket stays open."""
        self._ended = True
        if self._race is not None:
            self._race.end()

    def let_go(self) -> None:
        """Close the descriptor and nothing else (no shutdown: a forked parent may use it)."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run `work`, which may block, on a thread of its own; the loop goes on."""
        done = Future()

        def finish(result: Any, error: Exception | None) -> None:
            if not self._ended:  # else the attempt was given up
                done.success((result, error))

        def run() -> None:
            try:
                result, error = work(), None
            except Exception as caught:
                result, error = None, caught
            except BaseException as caught:  # a token provider exits: only this attempt ends by it
                result, error = None, RuntimeError(f"{type(caught).__name__}: {caught}")
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(lambda: finish(result, error))

        threading.Thread(target=run, name="aktor-look-up", daemon=True).start()
        result, error = await done
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    # -- name and address

    async def _connect(self, timeout: float) -> None:
        # A proxy object looks names up when it is made, so a thread that may wait makes it.
        factory, found = await self._resolve()
        self._diagnosis.enter(Phase.CONNECTING)
        addresses = self._addresses.ordered(self._name, self._port, found)
        self._race = Race(
            self._loop,
            addresses,
            functools.partial(self._connect_to, factory),
            # A proxy converses with one address at a time.
            head_start=None if self._proxy else head_start(len(addresses), timeout),
        )
        self._address, self.sock = await self._race.winner()

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
        self.host = next((address[3] for address in addresses if address[3]), self.host)
        return factory, addresses

    @property
    def _proxy(self) -> Any:
        return self._config.get("proxy_url") or self._config.get("socks5_proxy")

    def _look_up(self, flags: int = 0) -> list[Address]:
        # Looked up again for every attempt: brokers move, and a cached address would be wrong then.
        return list(self._resolver(self.host, self._port, type=socket.SOCK_STREAM, flags=flags))

    def _resolve_proxy(self) -> tuple[Any, list[Address]]:
        try:
            factory = KafkaNetSocket(self._proxy)
        except ValueError:
            # kafka-python's text quotes the address, which may contain a password.
            raise OSError("proxy_url is not a socks5://, socks5h:// or http:// address") from None
        return factory, factory.dns_lookup(self.host, self._port)

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
        # In Kafka's settings -1 means the system's default.
        return [*options, *((socket.SOL_SOCKET, name, n) for name, n in sizes if n and n > 0)]

    # -- TLS

    async def _secure(self) -> None:
        assert self.sock is not None, "TLS before there is a socket"
        try:
            context = self._config.get("ssl_context") or make_ssl_context(self._config)
        except (OSError, ValueError, TypeError) as error:
            text = f"the certificate settings cannot be used: {error}"
            raise self._diagnosis.refused(text, error) from error
        self.sock = sock = context.wrap_socket(
            self.sock, server_hostname=self.host.rstrip("."), do_handshake_on_connect=False
        )
        while True:
            try:
                sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._loop.wait_read(sock)
            except ssl.SSLWantWriteError:
                await self._loop.wait_write(sock)
