"""Probes for Kubernetes: /live says whether a restart would help, /ready whether records are read.

`status()` may be asked from any thread, and never disturbs the one that polls.

python -m examples.health_check localhost:9092 orders billing 8080
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aktor import ConsumerStatus, KafkaConsumer


def live(status: ConsumerStatus) -> str:
    """Why this process should be started anew; "" if that would not help.

    A cluster that is down is no reason: the consumer goes on by itself when it is back.
    """
    return status.alive.because


def ready(status: ConsumerStatus) -> str:
    """Why no records are read; "" if they are, or would be if there were any.

    A member on its way into its group has the time of a session for that: rebalances are usual.
    """
    return status.healthy.because


@contextmanager
def probes(look: Callable[[], ConsumerStatus], port: int) -> Iterator[int]:
    """Answer /live and /ready in a thread; gives the port (0 chooses one)."""
    checks = {"/live": live, "/ready": ready}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            check = checks.get(self.path)
            trouble = "no such probe" if check is None else check(look())
            self.send_response(503 if trouble else 200)
            self.end_headers()
            self.wfile.write((trouble or "ok").encode())

        def log_message(self, *_: object) -> None:
            """Nothing: probes come every few seconds."""

    with ThreadingHTTPServer(("", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def main(bootstrap: str, topic: str, group: str, port: str) -> None:
    """Print records; ask http://localhost:PORT/ready meanwhile."""
    with (
        KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer,
        probes(consumer.status, int(port)),
    ):
        for record in consumer:
            print(record.value)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
