"""What happens to topics and their logs."""

from __future__ import annotations

import random

from aktor.simulation.faults.disturbed import (
    Disturbed,
    End,
    nothing,
)

__all__ = ["log_compacted", "log_start_moved", "topic_grown", "topic_recreated"]


def log_start_moved(sim: Disturbed, draw: random.Random) -> End:
    """Retention, or DeleteRecords: of what every group has committed."""
    topic = draw.choice(sim.topics)
    for partition in range(topic.partitions):
        committed = [sim.brokers.committed(group, topic, partition) or 0 for group in sim.groups]
        sim.brokers.delete_records(topic, partition, min(committed, default=0))
    return nothing


def log_compacted(sim: Disturbed, draw: random.Random) -> End:
    """The log cleaner was here: of one key a topic's logs have one record."""
    topic = draw.choice([topic for topic in sim.topics if topic.keys] or sim.topics)
    for partition in range(topic.partitions):
        sim.brokers.compact(topic, partition)
    return nothing


def topic_grown(sim: Disturbed, draw: random.Random) -> End:
    """It gets one more partition."""
    topic = draw.choice(sim.topics)
    if 0 < topic.partitions < 8:
        sim.brokers.grow_topic(topic, topic.partitions + 1)
    return nothing


def topic_recreated(sim: Disturbed, draw: random.Random) -> End:
    """Deleted, and created anew under another id when the fault is over, maybe smaller; or before,
    with one partition, by a member that looks for it."""
    topic = draw.choice(sim.topics)
    count = topic.partitions
    if not count:
        return nothing
    sim.brokers.delete_topic(topic)
    again = draw.randint(max(1, count - 1), count)

    def create() -> None:
        if topic.partitions:
            sim.brokers.grow_topic(topic, again)
        else:
            sim.brokers.create_topic(topic, again)

    return create
