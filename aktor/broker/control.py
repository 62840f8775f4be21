"""The control port: HTTP and JSON on this machine, by which any language commands the cluster.

    curl http://127.0.0.1:8082/status
    curl http://127.0.0.1:8082/faults -d '{"api": "Fetch", "action": {"type": "Drop"}}'

Answers are JSON; what can't be done is a 4xx with {"error": "one line"}. `GET /` lists it all.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from aktor.broker.commands import CommandError, execute
from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.server import PortInUseError
from aktor.trace import open_trace

__all__ = ["ControlPort"]

_trace = open_trace(actor="control")

_HOST: Final = "127.0.0.1"
#: The largest body that is read, in bytes.
_LARGEST_BODY: Final = 64 * 1024
#: Of a body that is too large, so much is thrown away so that the client gets to read why.
_THROWN_AWAY: Final = 1024 * 1024
#: A client that says nothing for so many seconds is given up.
_PATIENCE: Final = 10.0

#: The Host header must be one of these. Any other name is refused: by DNS rebinding a web page
#: could give its own name to 127.0.0.1 and send commands.
_OUR_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


class ControlPort:
    """Owns the port and its thread; `start` and `stop`, or a `with` block.

    port: 0 for any that is free. Only this machine reaches it, and no web page in its browsers.
    """

    def __init__(self, kafka: EmbeddedKafka, port: int = 0) -> None:
        self._kafka = kafka
        self._port = port
        self._http: _Http | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<ControlPort {self.url if self._http else 'stopped'}>"

    @property
    def url(self) -> str:
        """Where it is, "http://127.0.0.1:8082". Raises RuntimeError if it is stopped."""
        if self._http is None:
            raise RuntimeError("the control port is not open: call start(), or use `with`")
        return f"http://{_HOST}:{self._http.server_address[1]}"

    def start(self) -> None:
        """Listen. Raises PortInUseError."""
        if self._http is not None:
            return
        try:
            self._http = _Http(self._kafka, self._port)
        except (OSError, OverflowError) as error:
            raise PortInUseError(
                f"the control port cannot listen on {_HOST}:{self._port}: "
                f"{getattr(error, 'strerror', None) or error}. Choose another port, or stop what "
                "uses it."
            ) from None
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self._run, args=(self._http,), name="aktor-broker-control", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close the port. Stopping what is stopped does nothing."""
        if self._http is None or self._thread is None:
            return
        self._stopping.set()
        try:  # it waits for a client: be one
            socket.create_connection((_HOST, self._http.server_port), timeout=1.0).close()
            self._thread.join()
        except OSError:
            pass  # so many clients wait already that it will notice by itself
        self._http.server_close()
        self._http = self._thread = None

    def _run(self, http: _Http) -> None:
        while not self._stopping.is_set():
            try:
                http.handle_request()
            except OSError:
                # No file descriptors left, or the port was closed under us: the next turn knows.
                self._stopping.wait(0.05)


class _Http(ThreadingHTTPServer):
    """Takes connections; each is answered on a thread of its own, so that none holds up others."""

    block_on_close = False

    def __init__(self, kafka: EmbeddedKafka, port: int) -> None:
        self.kafka = kafka
        super().__init__((_HOST, port), _Handler)

    def server_bind(self) -> None:
        """Without asking DNS for the machine's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client went away in the middle: nothing for the console."""
        _trace.debug("control.interrupted", because=sys.exception())


class _Handler(BaseHTTPRequestHandler):
    """One request, one answer, and the connection is closed."""

    server: _Http
    timeout = _PATIENCE
    default_request_version = "HTTP/1.0"
    server_version = "aktor"
    sys_version = ""

    def _act(self) -> None:
        try:
            body = self._body()
            self._check_origin()
            answer = self._execute(body)
        except CommandError as error:
            self._answer(error.status, {"error": str(error)}, error.allowed)
        else:
            self._answer(200, answer)

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_HEAD = do_OPTIONS = _act

    def _execute(self, body: bytes) -> Any:
        try:
            return execute(self.server.kafka, self.command, self.path, body)
        except CommandError:
            raise
        except Exception as error:
            # A bug in us: the log says what it was, the client that it was not its fault.
            _trace.error(
                "control.failed",
                command=f"{self.command} {self.path}",
                because=error,
                traceback=traceback.format_exc(),
            )
            raise CommandError(500, f"failed inside: {type(error).__name__}") from None

    def _check_origin(self) -> None:
        """Raises CommandError if a web page is behind it."""
        if "Origin" in self.headers:
            raise CommandError(403, "web pages may not command the cluster")
        host = self.headers.get("Host", _HOST)
        if host not in _OUR_NAMES and host.rpartition(":")[0] not in _OUR_NAMES:
            raise CommandError(403, f"this is {_HOST}, not {host[:100]!r}")

    def _body(self) -> bytes:
        """What follows the headers. Raises CommandError if that is too much or too little."""
        if "Transfer-Encoding" in self.headers:
            raise CommandError(411, "send the body with a Content-Length, not in chunks")
        length = self.headers.get("Content-Length", "0").strip()
        if not (length.isascii() and length.isdigit() and len(length) < 19):
            raise CommandError(400, f"a Content-Length of {length[:100]!r} is no number of bytes")
        if int(length) > _LARGEST_BODY:
            self.rfile.read(min(int(length), _THROWN_AWAY))
            raise CommandError(413, f"the body has {length} bytes, at most {_LARGEST_BODY} may be")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise CommandError(400, "the body ends before its Content-Length")
        return body

    def _answer(self, status: int, value: Any, allowed: tuple[str, ...] = ()) -> None:
        content = json.dumps(value, indent=2).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if allowed:
            self.send_header("Allow", ", ".join(allowed))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself has to say of a request that is none, as JSON too."""
        self._answer(code, {"error": " ".join((message or "this is no HTTP request").split())})

    def log_message(self, format: str, *args: Any) -> None:
        """Requests go to the log, not to the console."""
        _trace.debug("control.requested", command=repr(format % args))
