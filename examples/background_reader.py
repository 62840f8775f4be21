"""A consumer beside a web application: a thread reads from the start of the application to its end.

It knows no framework, which calls `start` and `stop`. One thread owns the consumer, others look at
it (`status`) and end it (`stop`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from aktor import ConsumerRecord, ConsumerStatus, KafkaConsumer
from aktor.errors import WakeupError

Handle = Callable[[ConsumerRecord[bytes | None, bytes | None]], object]


class BackgroundReader:
    """Owns a consumer, and the thread that calls `handle` for each record."""

    def __init__(self, handle: Handle, *topics: str, **settings: Any) -> None:
        self._handle = handle
        self._make = lambda: KafkaConsumer(*topics, enable_auto_commit=False, **settings)
        self._consumer: KafkaConsumer[bytes | None, bytes | None] | None = None
        self._thread = threading.Thread(target=self._run, name="reader")
        #: Why the thread has ended, if `handle` or the consumer raised.
        self.error: BaseException | None = None

    def start(self) -> None:
        """Make the consumer, and begin to read."""
        self._consumer = self._make()
        self._thread.start()

    def stop(self) -> None:
        """The record in hand is finished and committed, and the group is left."""
        if self._consumer is not None:
            self._consumer.wakeup()
            self._thread.join()

    def status(self) -> ConsumerStatus | None:
        """As `KafkaConsumer.status`; None before the start."""
        return None if self._consumer is None else self._consumer.status()

    def _run(self) -> None:
        assert self._consumer is not None, "start() makes it"
        try:
            with self._consumer as consumer:
                try:
                    while True:
                        for records in consumer.poll(timeout_ms=60_000).values():
                            for record in records:
                                self._handle(record)
                        consumer.commit()
                except WakeupError:
                    consumer.commit()
        except Exception as error:
            self.error = error
