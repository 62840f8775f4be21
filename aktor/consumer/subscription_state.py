"""kafka-python's `kafka.consumer.subscription_state`: the base classes of rebalance listeners.

As in `aktor.structs`: type checkers read the classes below, and when the program runs there are
kafka-python's only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["AsyncConsumerRebalanceListener", "ConsumerRebalanceListener"]

if TYPE_CHECKING:
    from abc import ABC, abstractmethod

    from aktor.structs import TopicPartition

    class ConsumerRebalanceListener(ABC):
        """Told of partitions that come and go. Its methods run inside `poll`, on the thread that
        called it, and may call the consumer."""

        @abstractmethod
        def on_partitions_revoked(self, revoked: set[TopicPartition], /) -> object:
            """They are about to go; their offsets can still be committed."""

        @abstractmethod
        def on_partitions_assigned(self, assigned: set[TopicPartition], /) -> object:
            """They have come; nothing of them was given out yet."""

        def on_partitions_lost(self, lost: set[TopicPartition], /) -> object:
            """They are gone: another member may have them. By default `on_partitions_revoked`."""
            return self.on_partitions_revoked(lost)

    class AsyncConsumerRebalanceListener(ABC):
        """The same with coroutine functions."""

        @abstractmethod
        async def on_partitions_revoked(self, revoked: set[TopicPartition], /) -> object:
            """They are about to go; their offsets can still be committed."""

        @abstractmethod
        async def on_partitions_assigned(self, assigned: set[TopicPartition], /) -> object:
            """They have come; nothing of them was given out yet."""

        async def on_partitions_lost(self, lost: set[TopicPartition], /) -> object:
            """They are gone: another member may have them. By default `on_partitions_revoked`."""
            return await self.on_partitions_revoked(lost)

else:
    from kafka.consumer.subscription_state import (
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
    )
