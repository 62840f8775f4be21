"""Our sockets, connected to a broker that a script plays."""

from __future__ import annotations

import contextlib
import socket
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
)

from aktor.events.sockets import (
    ConnectionOpened,
)
from tests.unit.actors.sockets.net_client import LIMIT, Client
from tests.unit.actors.sockets.scripted_broker import (
    Peer,
    Script,
    ScriptedBroker,
)

SECRET = "hunter2-canary"


@contextlib.contextmanager
def open_to(script: Script, **settings: Any) -> Iterator[tuple[Client, ScriptedBroker]]:
    """A client with an open connection "a" to a broker which greets and then does `script`."""

    def greet_first(peer: Peer) -> None:
        peer.greet()
        script(peer)

    with ScriptedBroker(greet_first) as broker, Client(**settings) as client:
        assert isinstance(client.connect(broker.port), ConnectionOpened)
        yield client, broker
        assert broker.errors == []


def serve(peer: Peer) -> None:
    peer.serve()


def in_silence(peer: Peer) -> None:
    while peer.sock.recv(10_000):
        pass


def a_fetch() -> Any:
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )


def a_fetch_response(version: int, records: bytes) -> Any:
    topic = FetchResponse.FetchableTopicResponse
    return FetchResponse(
        version=version,
        throttle_time_ms=0,
        error_code=0,
        session_id=7,
        responses=[
            topic(
                version=version,
                topic="t",
                partitions=[
                    topic.PartitionData(
                        version=version,
                        partition_index=3,
                        error_code=0,
                        high_watermark=9,
                        last_stable_offset=9,
                        log_start_offset=0,
                        aborted_transactions=None,
                        preferred_read_replica=-1,
                        records=records,
                    )
                ],
            )
        ],
    )


class Names:
    """A resolver for tests: every name has these addresses, once the gate is open. It asks no DNS,
    which may take longer than any test where there is no network."""

    def __init__(self, *addresses: str) -> None:
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.addresses = addresses

    def __call__(self, host: str, port: int, **more: Any) -> Any:
        if more.get("flags", 0) & socket.AI_NUMERICHOST:
            return socket.getaddrinfo(host, port, **more)
        self.asked.append(host)
        self.gate.wait(LIMIT)
        more.pop("flags", None)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = [one for ip in self.addresses for one in socket.getaddrinfo(ip, port, **more)]
        return [(*one[:3], "canonical.example", one[4]) for one in found]


def text_of(error: BaseException) -> str:
    """Everything that is printed of an error: its text, its causes, its traceback."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
