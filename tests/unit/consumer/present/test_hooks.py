"""A hook of `on_event` is the application's own code, also on the background thread."""

from __future__ import annotations

import threading
import time
from typing import Any

from aktor import KafkaConsumer, WaitingFor
from aktor.broker.embedded import EmbeddedKafka
from aktor.errors import IllegalStateError

DEADLINE = 20.0


def test_a_hook_that_does_not_return_is_named_and_not_blamed_on_us() -> None:
    ends, refused = threading.Event(), list[str]()
    with (
        EmbeddedKafka(topics={"orders": 1}) as kafka,
        KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers) as consumer,
    ):

        def hangs(_event: dict[str, Any]) -> None:
            if threading.current_thread() is not threading.main_thread() and not ends.is_set():
                try:
                    consumer.poll()
                except IllegalStateError as error:
                    refused.append(str(error))
                ends.wait(DEADLINE)

        consumer.on_event(hangs, level="debug")
        until = time.monotonic() + DEADLINE
        try:
            while "has not turned" not in consumer.why() and time.monotonic() < until:
                consumer.poll(timeout_ms=100)
            why, status = consumer.why(), consumer.status()
        finally:
            ends.set()

    assert "(it is at present/test_hooks.py:" in why
    assert " hangs): it waits for a hook of on_event() to return." in why
    assert "Not your code" not in why
    assert status.waiting_for is WaitingFor.APPLICATION
    assert "by a callback of a Future or a hook of on_event()" in refused[0]
