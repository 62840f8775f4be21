"""Two loops for the same work: one commits before it has processed a batch, the other after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafka.errors import KafkaError

from aktor import KafkaConsumer

__all__ = ["commit_after", "commit_before"]

Process = Callable[[bytes], None]


def commit_before(bootstrap: Sequence[str], process: Process) -> None:
    """The bug: whoever dies in the middle of a batch leaves the rest of it to nobody."""
    consumer = _consumer(bootstrap)
    while True:
        try:
            for records in consumer.poll(timeout_ms=500).values():
                consumer.commit()
                for record in records:
                    process(record.value)
        except KafkaError:
            continue  # the group rebalances, or the cluster is away: go on polling


def commit_after(bootstrap: Sequence[str], process: Process) -> None:
    """Mended: what was not committed is read again by somebody else."""
    consumer = _consumer(bootstrap)
    while True:
        try:
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    process(record.value)
            consumer.commit()
        except KafkaError:
            continue


def _consumer(bootstrap: Sequence[str]) -> KafkaConsumer:
    return KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
    )
