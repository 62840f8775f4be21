"""What a broker lets transactions do: the `transaction.*` settings, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aktor.broker.limits import check_numbers

__all__ = ["TransactionSettings"]

#: What would not work with none, or would spin.
_ABOVE_ZERO: Final = frozenset({"max_timeout", "marker_retry_backoff", "offsets_topic_partitions"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Kafka's names and defaults; where a default differs, it is for quick tests.

    max_timeout: `transaction.max.timeout.ms`, the longest a producer may ask for.
    id_expiration: `transactional.id.expiration.ms`, since the id was last used.
    abort_check_interval: `transaction.abort.timed.out.transaction.cleanup.interval.ms`
        (Kafka: 10 s). 0: a transaction is aborted at its deadline, not up to an interval later.
    marker_retry_backoff: more than 0, until a marker that could not be written is tried again.
    offsets_topic_partitions: `offsets.topic.num.partitions`, for DescribeTransactions only.
    """

    max_timeout: float = 900.0
    id_expiration: float = 7 * 24 * 3600.0
    abort_check_interval: float = 0.0
    marker_retry_backoff: float = 0.1
    offsets_topic_partitions: int = 50

    def __post_init__(self) -> None:
        check_numbers(self, above_zero=_ABOVE_ZERO)
