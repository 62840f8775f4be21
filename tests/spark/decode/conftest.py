"""A schema registry for tests of decoders."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@pytest.fixture
def a_registry() -> Iterator[Callable[..., dict[str, str]]]:
    """Serves these schemas, or statuses, and gives the settings for it."""
    servers = []

    def serve(
        schemas: dict[int, Any], references: Any = (), hold: Any = None, kind: str = "AVRO"
    ) -> dict[str, str]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)  # type: ignore[attr-defined]
                if hold is not None:
                    hold.wait(60)
                parts = self.path.partition("?")[0].strip("/").split("/")
                status, answer = 200, {}
                if parts[0] == "subjects":
                    answer = {"id": 1, "version": 1, "subject": parts[1]}
                    if parts[3] == "latest":
                        answer |= {"schema": schemas[1], "schemaType": kind}
                        answer |= {"references": [references[0]]} if references else {}
                    else:
                        answer |= {"schema": references[1], "schemaType": kind}
                else:
                    schema = schemas.get(int(parts[2]), 404)
                    if isinstance(schema, int):
                        status, answer = schema, {"error_code": schema, "message": "no"}
                    else:
                        answer = {"schema": json.dumps(schema) if kind == "AVRO" else schema}
                        answer |= {} if kind == "AVRO" else {"schemaType": kind}
                        if references:
                            answer["references"] = [references[0]]
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.asked = []  # type: ignore[attr-defined]
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        serve.asked = server.asked  # type: ignore[attr-defined]
        return {"url": f"http://127.0.0.1:{server.server_port}", "max.retries": "0"}

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()
