"""The way to a broker's socket: its name, its addresses, a proxy, and TLS.

Only a look-up of a name may block, and is done on a thread of its own.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from kafka.future import Future

from aktor.actors.sockets.addresses import (
    HEAD_START,
    Address,
    AddressBook,
    Race,
    Resolver,
    head_start,
)
from aktor.actors.sockets.diagnosis import Diagnosis, Phase
from aktor.actors.sockets.proxy import Proxy, ProxyError, Steps, parse_proxy, tunnel
from aktor.actors.sockets.threads import on_thread
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

    @property
    def ended(self) -> bool:
        """Whether the attempt was given up."""
        return self._ended

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        done = Future()

        def finish(result: Any, error: Exception | None) -> None:
            if not self._ended:
                done.success((result, error))

        on_thread(self._loop, work, finish)
        result, error = await done
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    # -- name and address

    async def _connect(self, timeout: float) -> None:
        connect = self._connect_to
        if url := self._config.get("proxy_url") or self._config.get("socks5_proxy"):
            proxy = parse_proxy(url)
            connect = functools.partial(self._connect_through, proxy, await self._find(proxy))
            found = [self._unresolved] if proxy.looks_up else await self._resolve()
        else:
            proxy, found = None, await self._resolve()
        self._diagnosis.enter(Phase.CONNECTING)
        addresses = self._addresses.ordered(self._name, self._port, found)
        self._race = Race(
            self._loop,
            addresses,
            connect,
            # A proxy is asked for one address after the other: it may count connections.
            head_start=None if proxy else head_start(len(addresses), timeout),
        )
        self._address, self.sock = await self._race.winner()

    async def _resolve(self) -> list[Address]:
        try:
            return self._look_up(socket.AI_NUMERICHOST)
        except socket.gaierror:
            pass  # a name, not an address
        if not self._canonical:
            return await self._in_thread(self._look_up)
        addresses = await self._in_thread(lambda: self._look_up(socket.AI_CANONNAME))
        self.host = next((address[3] for address in addresses if address[3]), self.host)
        return addresses

    def _look_up(self, flags: int = 0) -> list[Address]:
        # Looked up again for every attempt: brokers move, and a cached address would be wrong then.
        return list(self._resolver(self.host, self._port, type=socket.SOCK_STREAM, flags=flags))

    async def _connect_to(self, address: Address) -> socket.socket:
        family, kind, protocol, _, where = address
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in self._socket_options():
                sock.setsockopt(*option)
            while True:
                code = sock.connect_ex(where)
                if code in (0, errno.EISCONN):
                    return sock
                if code not in _CONNECTING:
                    raise OSError(code, os.strerror(code))
                await self._loop.wait_write(sock)
        except BaseException:  # also the end of the attempt while it waits
            sock.close()
            raise

    # -- a proxy

    @property
    def _unresolved(self) -> Address:
        """The broker's name, for a proxy that looks it up."""
        kind, protocol = socket.SOCK_STREAM, socket.IPPROTO_TCP
        return socket.AF_UNSPEC, kind, protocol, "", (self._name, self._port)

    async def _find(self, proxy: Proxy) -> list[Address]:
        def look_up() -> list[Address]:
            return list(self._resolver(proxy.host, proxy.port, type=socket.SOCK_STREAM, flags=0))

        try:
            return await self._in_thread(look_up)
        except OSError as error:
            raise _of_proxy(proxy, error) from error

    async def _connect_through(
        self, proxy: Proxy, addresses: list[Address], address: Address
    ) -> socket.socket:
        host, port = address[4][:2]
        race = Race(self._loop, addresses, self._connect_to, head_start=HEAD_START)
        try:
            _, sock = await race.winner()
        except OSError as error:
            raise _of_proxy(proxy, error) from error
        finally:
            race.end()
        try:
            await self._follow(tunnel(proxy, host, port), sock)
        except OSError as error:
            sock.close()
            raise _of_proxy(proxy, error) from error
        except BaseException:
            sock.close()
            raise
        return sock

    async def _follow(self, steps: Steps, sock: socket.socket) -> None:
        """Send and receive what a conversation wants, until it ends."""
        received = b""
        while True:
            try:
                step = steps.send(received) if received else next(steps)
            except StopIteration:
                return
            received = b""
            if isinstance(step, bytes):
                await self._send(sock, step)
            else:
                received = await self._receive(sock, step)

    async def _send(self, sock: socket.socket, data: bytes) -> None:
        while data:
            try:
                data = data[sock.send(data) :]
            except BlockingIOError:
                await self._loop.wait_write(sock)

    async def _receive(self, sock: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = sock.recv(count - len(data))
            except BlockingIOError:
                await self._loop.wait_read(sock)
                continue
            if not more:
                raise ProxyError("it has closed the connection")
            data += more
        return data

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


def _of_proxy(proxy: Proxy, error: OSError) -> OSError:
    """The error, which says that it is the proxy's. Without a number, so that it is not taken for
    one of the broker's connection."""
    return OSError(f"the proxy {proxy.host}:{proxy.port}: {error.strerror or error}")


def make_ssl_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """The TLS context for one connection. Each connection makes its own, so that certificates which
    were renewed on disk are used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = config.get("ssl_check_hostname", True)
    if config.get("ssl_cafile"):
        context.load_verify_locations(config["ssl_cafile"])
    else:
        context.load_default_certs()
    if config.get("ssl_certfile"):
        context.load_cert_chain(
            config["ssl_certfile"], config.get("ssl_keyfile"), config.get("ssl_password")
        )
    if config.get("ssl_crlfile"):
        context.load_verify_locations(config["ssl_crlfile"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if config.get("ssl_ciphers"):
        context.set_ciphers(config["ssl_ciphers"])
    return context
