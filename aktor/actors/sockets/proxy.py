"""The conversation with a proxy before the broker's: SOCKS5 (RFC 1928, 1929) or HTTP CONNECT
(RFC 9110).

It has no socket: `tunnel` is a generator that yields what it wants done (bytes to send, or the
number of bytes to receive) and is sent what was received.

kafka-python's proxies are not used. They send names and passwords without decoding the address
(`p%40ss`), and lengths of characters as those of bytes; a name of more than 127 bytes, a host name
that is not ASCII, or an IPv6 address in a CONNECT breaks the request; SOCKS5 takes answers with an
IPv4 address only; they use one address of the proxy, at random; and while they wait for an answer
they ask a whole core whether the socket is writable.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import struct
from collections.abc import Generator
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from aktor.values import Value

__all__ = ["Proxy", "ProxyError", "Steps", "parse_proxy", "tunnel"]

SCHEMES: Final = ("socks5", "socks5h", "http")

#: The longest head of an answer to CONNECT.
MOST_BYTES: Final = 65_536

#: What a length of one byte can say.
_BYTE: Final = 255

_VERSION: Final = 5
_NO_LOGIN: Final = 0
_PASSWORD: Final = 2
_CONNECT: Final = 1
_IPV4, _DOMAIN, _IPV6 = 1, 3, 4

#: Why a SOCKS5 proxy does not connect (RFC 1928, section 6).
_REPLIES: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "connection refused",
    6: "TTL expired",
    7: "it does not know the command",
    8: "it does not know the type of address",
}

#: Send these bytes; or receive exactly so many, and go on with them.
Steps: TypeAlias = Generator[bytes | int, bytes, None]


class ProxyError(OSError):
    """The proxy does not connect us to the broker."""


class Proxy(Value):
    """Where a proxy is, and how it is spoken to. Shows no password."""

    scheme: str
    host: str
    port: int
    user: str | None
    password: str

    def __repr__(self) -> str:
        return f"<Proxy {self.scheme}://{self.host}:{self.port}>"

    @property
    def looks_up(self) -> bool:
        """Whether the proxy looks the broker's name up, and not we."""
        return self.scheme != "socks5"


def parse_proxy(url: str) -> Proxy:
    """The proxy at "scheme://[user:password@]host:port"; user and password are percent-encoded
    where they have characters of their own meaning there. Raises ProxyError, which quotes nothing:
    the address may contain a password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in SCHEMES:
        raise ProxyError("proxy_url is not a socks5://, socks5h:// or http:// address") from None
    return Proxy(
        scheme=parts.scheme,
        host=host,
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=unquote(parts.password or ""),
    )


def tunnel(proxy: Proxy, host: str, port: int) -> Steps:
    """Ask the proxy for a connection to the broker; when it ends, the socket is the broker's.

    `host` is an address, or (if the proxy looks names up) a name. Raises ProxyError.
    """
    return _http(proxy, host, port) if proxy.scheme == "http" else _socks5(proxy, host, port)


# -- SOCKS5


def _socks5(proxy: Proxy, host: str, port: int) -> Steps:
    ways = bytes([_NO_LOGIN]) if proxy.user is None else bytes([_NO_LOGIN, _PASSWORD])
    yield bytes([_VERSION, len(ways)]) + ways
    version, way = yield 2
    if version != _VERSION:
        raise ProxyError("it is no SOCKS5 proxy")
    if way == _PASSWORD and proxy.user is not None:
        yield b"\x01" + _counted(proxy.user) + _counted(proxy.password)
        _, refused = yield 2
        if refused:
            raise ProxyError("it refuses the user name or password of proxy_url")
    elif way != _NO_LOGIN:
        wanted = "no login that we know" if proxy.user is not None else "a user name and password"
        raise ProxyError(f"it wants {wanted}")
    yield bytes([_VERSION, _CONNECT, 0]) + _destination(host) + struct.pack(">H", port)
    _, reply, _, kind = yield 4
    if reply:
        raise ProxyError(_REPLIES.get(reply, f"reply {reply}"))
    if kind not in (_IPV4, _DOMAIN, _IPV6):
        raise ProxyError(f"its answer has an unknown type of address, {kind}")
    size = {_IPV4: 4, _IPV6: 16}.get(kind) or (yield 1)[0]
    yield size + 2  # the proxy's own address, and its port


def _counted(text: str) -> bytes:
    data = text.encode()
    if len(data) > _BYTE:
        raise ProxyError(f"the user name or password of proxy_url has more than {_BYTE} bytes")
    return bytes([len(data)]) + data


def _destination(host: str) -> bytes:
    address = _address(host)
    if address is not None:
        return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed
    name = _ascii(host)
    if len(name) > _BYTE:
        raise ProxyError(f"the broker's name has more than {_BYTE} bytes")
    return bytes([_DOMAIN, len(name)]) + name


# -- HTTP


def _http(proxy: Proxy, host: str, port: int) -> Steps:
    address = _address(host)
    name = _ascii(host) if address is None else str(address).encode()
    target = b"[%b]:%d" % (name, port) if b":" in name else b"%b:%d" % (name, port)
    head = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (target, target)
    if proxy.user is not None:
        login = base64.b64encode(f"{proxy.user}:{proxy.password}".encode())
        head += b"Proxy-Authorization: Basic %b\r\n" % login
    yield head + b"\r\n"
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):  # byte by byte: what follows is the broker's
        answer += yield 1
        if len(answer) > MOST_BYTES:
            raise ProxyError("its answer has no end")
        if not b"HTTP/".startswith(answer[:5]):
            raise ProxyError("it is no HTTP proxy")
    status = answer.split(b"\r\n", 1)[0].decode("latin-1")
    code = "".join(status.split()[1:2])
    if code == "407":
        raise ProxyError(f"it wants another user name or password in proxy_url ({status})")
    if not re.fullmatch("2[0-9][0-9]", code):
        raise ProxyError(f"it answers {status[:200]!r}")


# -- both


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _ascii(host: str) -> bytes:
    """A name as DNS knows it."""
    try:
        return host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError:
        raise ProxyError(f"{host!r} is no name of a host") from None
