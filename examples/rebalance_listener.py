"""A rebalance listener that commits what was worked on before partitions go to another member.

python -m examples.rebalance_listener localhost:9092 orders billing
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from aktor import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition


class CommitOnRevoke(ConsumerRebalanceListener):
    """Remembers what was finished; commits it when partitions are given back."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.finished: dict[TopicPartition, OffsetAndMetadata] = {}

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        for partition in sorted(assigned):
            print(
                f"{partition.topic}-{partition.partition}: from {self.consumer.position(partition)}"
            )

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        going = {one: self.finished.pop(one) for one in revoked if one in self.finished}
        if going:
            self.consumer.commit(going)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        for partition in lost:  # somebody else has them already: nothing may be committed
            self.finished.pop(partition, None)


def main(bootstrap: str, topic: str, group: str, idle_ms: float = 10_000) -> int:
    """Work until nothing has come for `idle_ms`; returns how many records were finished."""
    done = 0
    with KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        listener = CommitOnRevoke(consumer)
        consumer.subscribe([topic], listener=listener)
        while batch := consumer.poll(timeout_ms=idle_ms):
            for partition, records in batch.items():
                done += len(records)
                listener.finished[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
    return done


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
