"""A container that is started beside its Kafka: wait until a broker answers, then begin.

python -m examples.wait_for_kafka localhost:9092 60
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from kafka.errors import KafkaTimeoutError

from aktor import KafkaConsumer

#: How long one constructor waits for a broker.
ATTEMPT_S: Final = 5.0


def wait_for_kafka(patience_s: float, **settings: Any) -> KafkaConsumer:
    """A consumer with these settings as soon as a broker answers; the last error if none does."""
    deadline = time.monotonic() + patience_s
    while True:
        left = max(0.001, deadline - time.monotonic())
        try:
            return KafkaConsumer(bootstrap_timeout_ms=1000 * min(ATTEMPT_S, left), **settings)
        except KafkaTimeoutError as error:
            # It names each server, and what came of it. A login that is refused is another error:
            # waiting does not help.
            if time.monotonic() >= deadline:
                raise
            print(f"not yet: {error}", flush=True)


def main(bootstrap: str, patience_s: str) -> None:
    """Print the topics of a cluster that may still be starting."""
    with wait_for_kafka(float(patience_s), bootstrap_servers=bootstrap) as consumer:
        print("topics:", *sorted(consumer.topics()), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
