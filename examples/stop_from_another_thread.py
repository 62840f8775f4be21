"""A consumer reads on a thread of its own, beside a web server or whatever else the main thread
does; on SIGTERM or Ctrl-C the main thread closes it, and the loop ends.

python -m examples.stop_from_another_thread localhost:9092 orders billing
"""

from __future__ import annotations

import signal
import sys
import threading

from aktor import KafkaConsumer


def read(consumer: KafkaConsumer, done: list[int]) -> None:
    """Print records until the consumer is closed."""
    for record in consumer:
        print(f"{record.offset} {record.value!r}", flush=True)
        done.append(record.offset)


def main(bootstrap: str, topic: str, group: str) -> int:
    """Print records until SIGTERM or SIGINT comes; returns how many."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    done: list[int] = []
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    reader = threading.Thread(target=read, args=(consumer, done), name="reader")
    reader.start()
    print("reading", flush=True)
    stop.wait()  # a web server would serve here
    # The loop ends. A record that it has in hand is finished, and read again at the next start:
    # close() commits only what the loop has come back from.
    consumer.close()
    reader.join()
    print(f"stopped after {len(done)} records", flush=True)
    return len(done)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
