"""The loop most services want: poll, work, commit; stop on Ctrl-C without losing a record.

python -m examples.poll_and_commit localhost:9092 orders billing
"""

from __future__ import annotations

import sys

from aktor import KafkaConsumer


def main(bootstrap: str, topic: str, group: str, idle_ms: float = 10_000) -> int:
    """Print records until none has come for `idle_ms`; returns how many."""
    done = 0
    with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while batch := consumer.poll(timeout_ms=idle_ms):
            for partition, records in batch.items():
                for record in records:
                    print(
                        f"{partition.topic}-{partition.partition} {record.offset} {record.value!r}"
                    )
                    done += 1
            consumer.commit()
    return done


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("stopped; what was committed will not be read again")
