"""The producer: writes numbered orders at a steady rate. `python -m aktor.demo.producer`.

Orders are numbered from 0 over all partitions, so within a partition the numbers rise; each goes to
a partition by chance, and says which.
"""

from __future__ import annotations

import itertools
import json
import logging
import random
import signal
import sys
import threading
import time
from collections import defaultdict
from typing import Any

from kafka import KafkaProducer

from aktor.demo.reports import Reporter

TICK_S = 0.02
REPORT_EVERY_S = 0.1
FLUSH_TIMEOUT_S = 30


class Orders:
    """Owns the orders that Kafka acknowledged and nobody was told of yet."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._topic = settings["topic"]
        self._partitions = settings["partitions"]
        self._chance = random.Random(settings["topic"])
        self._numbers = itertools.count()
        self._acknowledged: list[tuple[int, int, int]] = []
        self._lock = threading.Lock()
        self.failure: Exception | None = None
        self.producer = KafkaProducer(bootstrap_servers=settings["bootstrap"], linger_ms=5)

    def send(self, count: int) -> None:
        """Write `count` orders, without waiting for them."""
        for order in itertools.islice(self._numbers, count):
            partition = self._chance.randrange(self._partitions)
            value = f"{order} {partition}".encode()
            future = self.producer.send(self._topic, value, partition=partition)
            future.add_callback(self._on_acknowledged, order)
            future.add_errback(self._on_failed)

    def _on_acknowledged(self, order: int, metadata: Any) -> None:
        with self._lock:
            self._acknowledged.append((metadata.partition, metadata.offset, order))

    def _on_failed(self, error: Exception) -> None:
        self.failure = error

    def take_runs(self) -> list[list[Any]]:
        """What was acknowledged since the last time, as runs: [partition, first offset, orders]."""
        with self._lock:
            acknowledged, self._acknowledged = self._acknowledged, []
        runs: list[list[Any]] = []
        after: dict[int, tuple[int, list[Any]]] = defaultdict(lambda: (-1, []))
        for partition, offset, order in sorted(acknowledged):
            expected, run = after[partition]
            if offset != expected:
                run = [partition, offset, []]
                runs.append(run)
            run[2].append(order)
            after[partition] = (offset + 1, run)
        return runs


def main(settings: dict[str, Any]) -> None:
    """Write until SIGTERM, then wait for what is under way. An order that fails ends it all."""
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    logging.getLogger("kafka").setLevel(logging.ERROR)
    reporter, orders = Reporter(), Orders(settings)
    began = report_at = time.monotonic()
    sent = 0
    while not told_to_stop.wait(TICK_S) and orders.failure is None:
        now = time.monotonic()
        due = int((now - began) * settings["rate"]) - sent
        orders.send(due)
        sent += due
        if now >= report_at:
            report_at = now + REPORT_EVERY_S
            reporter.say("wrote", runs=orders.take_runs())
    orders.producer.flush(timeout=FLUSH_TIMEOUT_S)
    reporter.say("wrote", runs=orders.take_runs())
    orders.producer.close()
    if orders.failure is not None:
        raise orders.failure
    reporter.say("closed")


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except BrokenPipeError:
        sys.exit(1)  # who started us is gone
