"""Orders that are written to Kafka, and what their sums must be."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from typing import Final

from kafka import KafkaProducer

SHOPS: Final = ("Athens", "Bergen", "Cork", "Delft", "Evora")

#: How much of the orders each shop has.
SHARES: Final = (8, 5, 3, 2, 1)

#: A window of the aggregation, in seconds of the orders' own time.
WINDOW: Final = 10

#: The orders' own time goes faster than ours by this factor.
SPEED: Final = 5


class Orders:
    """Owns the producer, which writes in a thread of its own, and the sums of what it wrote."""

    def __init__(self, bootstrap: str, topic: str, *, per_second: int) -> None:
        #: Cents by (begin of the window, shop).
        self.sums: Counter[tuple[int, str]] = Counter()
        self.count = 0
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)
        self._topic = topic
        self._per_second = per_second
        self._stopped = threading.Event()
        self._began = int(time.time()) // WINDOW * WINDOW
        self._thread = threading.Thread(target=self._write, name="orders", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def finish(self) -> None:
        """Write no more, but for one order of the next day: it moves the watermark past the others.

        The window of that one stays open, so it is not among the sums.
        """
        self._stopped.set()
        self._thread.join()
        self._send(self._began + 86_400.0, SHOPS[0], 0)
        self._producer.flush()

    def close(self) -> None:
        """Write no more, and end the producer."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.close()

    def _write(self) -> None:
        drawn = random.Random(1)
        begun = time.monotonic()
        while not self._stopped.wait(0.05):
            passed = time.monotonic() - begun
            for _ in range(max(1, self._per_second // 20)):
                # Some come a little late.
                at = round(self._began + passed * SPEED - drawn.random(), 3)
                [shop] = drawn.choices(SHOPS, SHARES)
                cents = drawn.randint(100, 20_000)
                self._send(at, shop, cents)
                self.sums[int(at) // WINDOW * WINDOW, shop] += cents
                self.count += 1

    def _send(self, at: float, shop: str, cents: int) -> None:
        value = json.dumps({"ordered_at": at, "shop": shop, "cents": cents})
        self._producer.send(self._topic, key=shop.encode(), value=value.encode())
