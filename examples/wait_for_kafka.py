"""A container that is started beside its Kafka: wait until the cluster answers, then begin.

python -m examples.wait_for_kafka localhost:9092 60
"""

from __future__ import annotations

import sys
import time

from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from aktor import KafkaConsumer


def wait_for_kafka(consumer: KafkaConsumer, patience_s: float) -> set[str]:
    """The names of the topics as soon as the cluster answers; the last error if it never does."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return consumer.topics()
        except (KafkaConnectionError, KafkaTimeoutError) as error:
            # BootstrapError is one of these: it names each server, and what came of it.
            if time.monotonic() >= deadline:
                raise
            print(f"not yet: {error}", flush=True)


def main(bootstrap: str, patience_s: str) -> None:
    """Print the topics of a cluster that may still be starting."""
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        print("topics:", *sorted(wait_for_kafka(consumer, float(patience_s))), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
