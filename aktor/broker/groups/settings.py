"""What a broker lets groups do: the limits and intervals of server.properties, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aktor.broker.limits import check_numbers

__all__ = ["GroupSettings"]

#: What would not work with none, or would spin.
_ABOVE_ZERO: Final = frozenset(
    {
        "max_session_timeout",
        "max_size",
        "consumer_session_timeout",
        "consumer_heartbeat_interval",
        "consumer_max_size",
        "consumer_regex_refresh_interval",
        "offsets_retention_check",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Kafka's `group.*` and `offsets.*` settings; where a default differs, it is for quick tests.

    initial_rebalance_delay: `group.initial.rebalance.delay.ms` (Kafka: 3 s).
    min_session_timeout: `group.min.session.timeout.ms` (Kafka: 6 s).
    consumer_assignment_interval: `group.consumer.assignment.interval.ms` (Kafka: 1 s), between two
        target assignments: members that join together need only one.
    consumer_regex_min_interval: between two looks at which topics match a pattern (Kafka: 10 s).
    offsets_retention: `offsets.retention.minutes`, counted from when a group became empty.
    """

    initial_rebalance_delay: float = 0.0
    min_session_timeout: float = 0.5
    max_session_timeout: float = 1800.0
    max_size: int = 2**31 - 1

    consumer_session_timeout: float = 45.0
    consumer_min_session_timeout: float = 0.5
    consumer_max_session_timeout: float = 60.0
    consumer_heartbeat_interval: float = 5.0
    consumer_min_heartbeat_interval: float = 0.1
    consumer_max_heartbeat_interval: float = 15.0
    consumer_max_size: int = 2**31 - 1
    consumer_assignment_interval: float = 0.0
    consumer_regex_min_interval: float = 0.0
    consumer_regex_refresh_interval: float = 600.0
    consumer_assignors: tuple[str, ...] = ("uniform", "range")

    offset_metadata_max_bytes: int = 4096
    offsets_retention: float = 7 * 24 * 3600.0
    offsets_retention_check: float = 600.0

    def __post_init__(self) -> None:
        check_numbers(self, above_zero=_ABOVE_ZERO)
