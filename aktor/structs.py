"""kafka-python's `kafka.structs`, and its record: the tuples that a consumer takes and gives.

kafka-python says no types. So type checkers read the classes below in place of its ones; when the
program runs there is one class of each name, kafka-python's. `ConsumerRecord[str, Order]` is a
record with a key of str and a value of Order, as the deserializers of its consumer make them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "MemberState",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "TopicPartitionReplica",
]

if TYPE_CHECKING:
    from typing import Final, Generic, NamedTuple

    from typing_extensions import TypeVar

    #: What deserializers make of a record's key and value. If they are not named, they are
    #: anything: `def count(record: ConsumerRecord) -> None` takes the records of every consumer.
    K = TypeVar("K", covariant=True, default=object)
    V = TypeVar("V", covariant=True, default=object)

    class TopicPartition(NamedTuple):
        """A topic's name and the number of one of its partitions."""

        topic: str
        partition: int

    class TopicPartitionReplica(NamedTuple):
        """A partition, and the number of a broker that has a replica of it."""

        topic: str
        partition: int
        broker_id: int

    class OffsetAndMetadata(NamedTuple):
        """A committed offset: that of the record to read next; the text that was stored with it;
        and the leader epoch of the record before it, -1 if unknown."""

        offset: int
        metadata: str | None = ""
        leader_epoch: int | None = -1

    class OffsetAndTimestamp(NamedTuple):
        """An offset that was found by a time, and the record's own time (ms since the epoch)."""

        offset: int
        timestamp: int
        leader_epoch: int | None

    class MemberState:
        """What `ConsumerGroupMetadata.state` may be."""

        UNJOINED: Final = "<unjoined>"
        REBALANCING: Final = "<rebalancing>"
        STABLE: Final = "<stable>"

    class ConsumerGroupMetadata(NamedTuple):
        """A member of a group, as a producer's transaction names it (KIP-447)."""

        group_id: str | None = None
        generation_id: int = -1
        member_id: str = ""
        group_instance_id: str | None = None
        state: str = ""

    class ConsumerRecord(NamedTuple, Generic[K, V]):
        """A record. `timestamp` is in ms since the epoch, `timestamp_type` is 0 for the producer's
        time and 1 for the broker's; sizes are in bytes, -1 for None."""

        topic: str
        partition: int
        leader_epoch: int
        offset: int
        timestamp: int
        timestamp_type: int
        key: K
        value: V
        headers: list[tuple[str, bytes | None]]
        checksum: None
        serialized_key_size: int
        serialized_value_size: int
        serialized_header_size: int

else:
    from typing import TypeVar

    K = TypeVar("K", covariant=True)  # Python 3.13 is the first to know defaults
    V = TypeVar("V", covariant=True)

    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.structs import (
        ConsumerGroupMetadata,
        MemberState,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
        TopicPartitionReplica,
    )
