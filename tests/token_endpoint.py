"""A token endpoint (RFC 6749) in a thread of this process, for logins with client credentials."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["TokenEndpoint"]


class TokenEndpoint:
    """Owns a token endpoint: what it was asked, and what it answers next (status, body, headers).

    Without orders it answers with a token of `make`, which is good for a hundred seconds.
    """

    def __init__(self, make: Callable[[int], str] = "token-{}".format) -> None:
        self._make = make
        self.asked: list[tuple[str, dict[str, str], dict[str, list[str]]]] = []
        self.answers: list[tuple[int, Any, dict[str, str]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((self.path, dict(self.headers), urllib.parse.parse_qs(body)))
                status, said, headers = endpoint._next()
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                made = {"Content-Length": str(len(data)), "Content-Type": "application/json"}
                self.send_response(status)
                for name, text in (made | headers).items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/realm/token"

    def close(self) -> None:
        """Answer no more."""
        self.server.shutdown()
        self.server.server_close()

    def will(self, status: int, said: Any = b"", **headers: str) -> None:
        """Answer the next request so."""
        self.answers.append((status, said, headers))

    def _next(self) -> tuple[int, Any, dict[str, str]]:
        if self.answers:
            return self.answers.pop(0)
        return 200, {"access_token": self._make(len(self.asked)), "expires_in": 100}, {}
