"""What the rebalance listeners of readers do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.simulation.programs.loop import Loop

__all__ = ["LISTENERS", "Quiet"]


class Quiet(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """Says nothing, for that it was called is in the trace; a fault may make it slow."""

    def __init__(self, loop: Loop, consumer: KafkaConsumer) -> None:
        self.loop = loop
        self.consumer = consumer

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.loop.takes_time()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.loop.takes_time()

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.loop.takes_time()


class _KeepsOffsetsElsewhere(Quiet):
    """Goes to where the group's own database says."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        super().on_partitions_assigned(assigned)
        self.loop.go_where_it_was(self.consumer, assigned)


class _CommitsItself(Quiet):
    """Commits when partitions go; on the way it hears what may go wrong."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        super().on_partitions_revoked(revoked)
        self.consumer.commit(timeout_ms=2000)


class _Stumbles(Quiet):
    """Raises now and then, as user code does."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        super().on_partitions_assigned(assigned)
        if assigned and self.loop.draws(0.3):
            raise RuntimeError("the user's listener stumbled")


LISTENERS: Final[Mapping[str, type[Quiet]]] = {
    "quiet": Quiet,
    "keeps offsets elsewhere": _KeepsOffsetsElsewhere,
    "commits itself": _CommitsItself,
    "stumbles": _Stumbles,
}
