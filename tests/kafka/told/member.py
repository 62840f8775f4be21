"""A member of a group, as a process that can be killed and stopped.

It reads, and notes when it was given what. On stdin it is told what to do, a JSON object in each
line; on stdout it answers "why" at any time, from another thread than the one that reads.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from aktor import ConsumerRebalanceListener, KafkaConsumer, TopicPartition


class Orders:
    """What the member was told to do next. Each is done once."""

    def __init__(self) -> None:
        self.leave = False
        #: So many seconds of work between two polls, and in the next on_partitions_revoked.
        self.nap = 0.0
        self.slow = 0.0
        #: Seconds of work after each poll.
        self.work = 0.0
        self.subscribe: list[str] | None = None
        self.pause: bool | None = None

    def listen(self, consumer: KafkaConsumer) -> None:
        """Hear what comes on stdin; run on a thread of its own."""
        for line in sys.stdin:
            for name, value in json.loads(line).items():
                if name == "why":
                    status = consumer.status()
                    told = {
                        "why": status.why,
                        "owns": len(status.partitions),
                        "state": status.member_state,
                        "lag": status.lag,
                    }
                    print(json.dumps(told), flush=True)
                else:
                    setattr(self, name, value)


class Listener(ConsumerRebalanceListener):
    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Nothing is to be done."""

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Take long, if it was told."""
        seconds, self._orders.slow = self._orders.slow, 0.0
        time.sleep(seconds)


def main(settings: dict[str, Any], topics: list[str], given: str | None) -> None:
    """Read until told to leave. `given`: the file that says when which records were given to it:
    time, partition, first and last offset, first and last timestamp (in seconds)."""
    orders = Orders()
    file = None if given is None else os.open(given, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.closing(KafkaConsumer(**settings)) as consumer:
        threading.Thread(target=orders.listen, args=(consumer,), daemon=True).start()
        consumer.subscribe(topics, listener=Listener(orders))
        while not orders.leave:
            try:
                batches = consumer.poll(timeout_ms=100)
            except Exception:
                # `why` says it.
                time.sleep(0.1)
                batches = {}
            if file is not None and batches:
                note(file, batches)
            obey(orders, consumer)


def note(file: int, batches: Mapping[TopicPartition, list[Any]]) -> None:
    """Append lines by one call, so that a member that is killed has noted all or nothing."""
    now = time.time()
    lines = [
        f"{now:.6f} {tp.topic}-{tp.partition} {some[0].offset} {some[-1].offset}"
        f" {some[0].timestamp / 1000:.3f} {some[-1].timestamp / 1000:.3f}\n"
        for tp, some in batches.items()
    ]
    os.write(file, "".join(lines).encode())


def obey(orders: Orders, consumer: KafkaConsumer) -> None:
    """Do what was told, between two polls."""
    if orders.nap:
        seconds, orders.nap = orders.nap, 0.0
        time.sleep(seconds)
    time.sleep(orders.work)
    if orders.subscribe is not None:
        consumer.subscribe(orders.subscribe, listener=Listener(orders))
        orders.subscribe = None
    if orders.pause is not None:
        if orders.pause:
            consumer.pause(*consumer.assignment())
        else:
            consumer.resume(*consumer.paused())
        orders.pause = None


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
