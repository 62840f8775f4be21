"""A server that does what a script says: the other end of a connection, in a test."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from tests.unit.actors.sockets.net_client import LIMIT

#: The newest version of each API that the scripts speak, by API key.
SPOKEN = {1: 12, 3: 12, 17: 1, 18: 3, 36: 2}

API_VERSIONS, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 17, 36


class Request:
    """What a client sent: its header's numbers, and the bytes after them."""

    def __init__(self, frame: bytes) -> None:
        self.api_key, self.version, self.correlation_id = struct.unpack_from(">hhi", frame)
        self.frame = frame


class Peer:
    """One accepted connection, as a script sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def read(self) -> Request:
        """The next request; EOFError when the client hung up."""
        (length,) = struct.unpack(">i", self._read_exactly(4))
        return Request(self._read_exactly(length))

    def read_token(self) -> bytes:
        """The next frame, whatever it is."""
        (length,) = struct.unpack(">i", self._read_exactly(4))
        return self._read_exactly(length)

    def _read_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def write(self, data: bytes) -> None:
        """Raw bytes."""
        self.sock.sendall(data)

    def answer(self, request: Request, response: Any) -> None:
        """A sound answer."""
        self.write(framed(request, response))

    def greet(self, spoken: dict[int, int] | None = None) -> None:
        """Answer ApiVersions, until it is asked in a version that we know."""
        spoken = spoken or SPOKEN
        while True:
            request = self.read()
            assert request.api_key == API_VERSIONS, "a client begins with ApiVersions"
            self.answer(request, api_versions(request.version, spoken))
            if request.version <= spoken[API_VERSIONS]:
                return

    def serve(self) -> None:
        """Answer ApiVersions and Metadata until the client hangs up."""
        while True:
            request = self.read()
            if request.api_key == API_VERSIONS:
                self.answer(request, api_versions(request.version))
            else:
                self.answer(request, metadata(request.version))


Script = Callable[[Peer], None]


class ScriptedBroker:
    """Listens on a free port of 127.0.0.1, or where it is told to, and runs the script for each
    connection."""

    def __init__(
        self,
        script: Script,
        *,
        tls: ssl.SSLContext | None = None,
        address: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(address)
        self._open: list[socket.socket] = []
        self._scripts: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.errors: list[BaseException] = []
        self._accepting = threading.Thread(target=self._accept, name="scripted-broker", daemon=True)
        self._accepting.start()

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(self, *_: object) -> None:
        """Each thread closes its own socket. One that was closed from here, amid a call of another
        thread, would give its number to the next file: OpenSSL would read and write that one."""
        _hang_up(self._listener)
        self._accepting.join(LIMIT)
        self._listener.close()
        for sock in self._open:
            _hang_up(sock)
        for script in self._scripts:
            script.join(LIMIT)
        assert not any(script.is_alive() for script in self._scripts), "a script does not end"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(sock)
            script = threading.Thread(target=self._run, args=(sock,), daemon=True)
            self._scripts.append(script)
            script.start()

    def _run(self, sock: socket.socket) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._open.append(sock)
            self._script(Peer(sock))
        except (EOFError, OSError):
            pass  # the client hung up, or the test is over
        except BaseException as error:
            self.errors.append(error)
        finally:
            sock.close()


def _hang_up(sock: socket.socket) -> None:
    """Whoever waits for it hears that it is over."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def framed(request: Request, response: Any) -> bytes:
    """`response` as the answer to `request`, with length and header."""
    response.with_header(correlation_id=request.correlation_id)
    return bytes(response.encode(header=True, framed=True))


def api_versions(version: int, spoken: dict[int, int] | None = None) -> Any:
    """What the scripted broker speaks; an error in version 0 if it was asked in a newer one."""
    spoken = spoken or SPOKEN
    known = version <= spoken[API_VERSIONS]
    return ApiVersionsResponse(
        version=version if known else 0,
        error_code=0 if known else 35,
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=newest)
            for key, newest in spoken.items()
        ],
    )


def metadata(version: int, nodes: Iterable[int] = (1,)) -> Any:
    """A small answer with strings, numbers and (from version 9) tags in it."""
    return MetadataResponse(
        version=version,
        throttle_time_ms=0,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node, host="broker.example", port=9092, rack="a"
            )
            for node in nodes
        ],
        cluster_id="a-cluster",
        controller_id=1,
        topics=[],
    )
