"""kafka-python's `kafka.consumer.subscription_state`: the base classes of rebalance listeners."""

from __future__ import annotations

from kafka.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)

__all__ = ["AsyncConsumerRebalanceListener", "ConsumerRebalanceListener"]
