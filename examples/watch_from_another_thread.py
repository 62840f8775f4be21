"""An exporter's thread looks at a consumer while another thread reads: lag, group, figures.

Looking never disturbs the reading: `status()`, `metrics()` and whatever else only looks may be
called from any thread.

python -m examples.watch_from_another_thread localhost:9092 orders billing
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from aktor import KafkaConsumer


def watch(
    consumer: KafkaConsumer, tell: Callable[[str], None], ended: threading.Event, every_s: float
) -> None:
    """Tell how far the consumer is, every `every_s` seconds until `ended` is set."""
    while not ended.wait(every_s):
        status = consumer.status()
        lag = f"at least {status.lag_at_least}" if status.lag is None else status.lag
        read = consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"]
        tell(f"{status.state}: {status.member_state}, read {read:.0f}, lag {lag}")


def main(
    bootstrap: str,
    topic: str,
    group: str,
    *,
    tell: Callable[[str], None] = print,
    idle_ms: float = 10_000,
    every_s: float = 1.0,
) -> int:
    """Read until nothing has come for `idle_ms`, watched meanwhile; returns how many records."""
    done, ended = 0, threading.Event()
    with KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        exporter = threading.Thread(target=watch, args=(consumer, tell, ended, every_s))
        exporter.start()
        try:
            while batch := consumer.poll(timeout_ms=idle_ms):
                done += sum(len(records) for records in batch.values())
        finally:
            ended.set()
            exporter.join()
    return done


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
