"""A schema registry for tests of decoders."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Registry(ThreadingHTTPServer):
    """Serves schemas over HTTP, and notes the paths that it is asked for."""

    def __init__(self, schemas: dict[int, Any], references: Any, hold: Any, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[str] = []
        #: By id; a number in place of a schema is an HTTP status.
        self.schemas = schemas
        self.references = references
        #: An event: before it is set there is no answer.
        self.hold = hold
        self.kind = kind
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """The status and the body."""
        self.asked.append(path)
        if self.hold is not None:
            self.hold.wait(60)
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[0] == "subjects":
            return 200, self._of_subject(parts[1], parts[3])
        schema = self.schemas.get(int(parts[2]), 404)
        if isinstance(schema, int):
            return schema, {"error_code": schema, "message": "no"}
        is_avro = self.kind == "AVRO"
        found = {"schema": json.dumps(schema)} if is_avro else {"schema": schema}
        found |= {} if is_avro else {"schemaType": self.kind}
        return 200, found | ({"references": [self.references[0]]} if self.references else {})

    def _of_subject(self, subject: str, version: str) -> dict[str, Any]:
        found = {"id": 1, "version": 1, "subject": subject, "schemaType": self.kind}
        if version != "latest":
            return found | {"schema": self.references[1]}
        found["schema"] = self.schemas[1]
        return found | ({"references": [self.references[0]]} if self.references else {})

    def stop(self) -> None:
        """Serve no more."""
        self.shutdown()
        self.server_close()


class _Answer(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        status, found = self.server.answer(self.path)
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Registries:
    """The registries of a test."""

    def __init__(self) -> None:
        self._all: list[Registry] = []

    def __call__(
        self, schemas: dict[int, Any], references: Any = (), hold: Any = None, kind: str = "AVRO"
    ) -> dict[str, str]:
        """Serve these schemas, or statuses; returns the settings for it."""
        registry = Registry(schemas, references, hold, kind)
        self._all.append(registry)
        return {"url": f"http://127.0.0.1:{registry.server_port}", "max.retries": "0"}

    @property
    def asked(self) -> list[str]:
        """The paths that the last one was asked for."""
        return self._all[-1].asked

    def stop(self) -> None:
        """Stop them all."""
        for registry in self._all:
            registry.stop()


@pytest.fixture
def a_registry() -> Iterator[Registries]:
    """Serves these schemas, or statuses, and gives the settings for it."""
    registries = Registries()
    yield registries
    registries.stop()
