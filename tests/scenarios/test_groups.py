"""Groups of consumers: who owns what when members come, go, fall over and come back."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import TopicPartition

from tests.scenarios.history import History, Reader
from tests.scenarios.world import World

try:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
except ImportError:  # pragma: no cover
    from kafka.coordinator.assignors.sticky.cooperative_sticky import (  # type: ignore[no-redef]
        CooperativeStickyAssignor,
    )

SEEDS = range(10)
