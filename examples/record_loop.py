"""The loop of a command that reads until it is told to stop.

It knows no framework: `with_django` and `with_celery` show what they give it. SIGTERM and Ctrl-C
end it when the records of a poll are done, and they are committed then.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aktor import ConsumerRecord, KafkaConsumer
from aktor.errors import WakeupError

Record = ConsumerRecord[bytes | None, bytes | None]


@contextmanager
def waking_on_signals(consumer: KafkaConsumer) -> Iterator[None]:
    """SIGTERM and Ctrl-C wake the consumer up; before and after they do what they did."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {one: signal.signal(one, lambda *_: consumer.wakeup()) for one in signals}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def run(
    consumer: KafkaConsumer[bytes | None, bytes | None],
    handle: Callable[[Record], object],
    *,
    before_batch: Callable[[], object] = lambda: None,
) -> int:
    """Handle each record, and commit after each poll; returns how many there were."""
    done = 0
    with waking_on_signals(consumer):
        try:
            while True:
                polled = consumer.poll(timeout_ms=60_000)
                before_batch()
                for records in polled.values():
                    for record in records:
                        handle(record)
                        done += 1
                consumer.commit()
        except WakeupError:
            consumer.commit()
    return done
