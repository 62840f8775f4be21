"""A service that Kubernetes, systemd or Ctrl-C may stop at any moment: the work in hand is finished
and committed, the group hears that we leave, and nothing is read twice.

python -m examples.stop_on_sigterm localhost:9092 orders billing
"""

from __future__ import annotations

import signal
import sys

from aktor import KafkaConsumer
from aktor.errors import WakeupError


def main(bootstrap: str, topic: str, group: str) -> int:
    """Print records until SIGTERM or SIGINT comes; returns how many."""
    done = 0
    with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for stop in (signal.SIGTERM, signal.SIGINT):
            # It ends the call that waits (poll, commit) or the next one, never work on a record.
            signal.signal(stop, lambda *_: consumer.wakeup())
        print("reading", flush=True)
        try:
            while True:
                for records in consumer.poll(timeout_ms=60_000).values():
                    for record in records:
                        print(f"{record.offset} {record.value!r}", flush=True)
                        done += 1
                consumer.commit()
        except WakeupError:
            consumer.commit()  # all that was given out is done, and perhaps not committed yet
            print(f"stopped after {done} records", flush=True)
    return done


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
