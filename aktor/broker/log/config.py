"""The settings of a topic that its logs heed, by Kafka's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aktor.broker.codes import Code, Refused

__all__ = ["LogConfig"]

_LONG: Final = 2**63 - 1
_INT: Final = 2**31 - 1
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Sizes in bytes, times in milliseconds; -1 is no limit."""

    max_message_bytes: int = 1_048_588
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * _DAY_MS
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    min_cleanable_dirty_ratio: float = 0.5
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _LONG
    message_timestamp_after_max_ms: int = _HOUR_MS

    @property
    def compacted(self) -> bool:
        """Whether old values of a key may go."""
        return "compact" in self.cleanup_policy

    @property
    def deleted(self) -> bool:
        """Whether old records may go."""
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's clock counts, not the producer's."""
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> LogConfig:
        """From a topic's settings by Kafka's names; others are not looked at.

        Raises Refused with INVALID_CONFIG for what Kafka would not take.
        """
        return cls(
            **{
                name.replace(".", "_"): parse(name, settings[name])
                for name, parse in _PARSERS.items()
                if name in settings
            }
        )


def _invalid(name: str, value: str, why: str) -> Refused:
    return Refused(Code.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {why}")


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    kind = "INT" if high == _INT else "LONG"

    def parse(name: str, value: str) -> int:
        try:
            number = int(value.strip())
        except ValueError:
            raise _invalid(name, value, f"Not a number of type {kind}") from None
        if number < low:
            raise _invalid(name, value, f"Value must be at least {low}")
        if number > high:
            raise _invalid(name, value, f"Not a number of type {kind}")
        return number

    return parse


def _ratio(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise _invalid(name, value, "Not a number of type DOUBLE") from None
    if not 0 <= number <= 1:
        raise _invalid(name, value, "Value must be between 0 and 1")
    return number


def _policy(name: str, value: str) -> frozenset[str]:
    policies = [policy.strip() for policy in value.split(",") if policy.strip()]
    for policy in policies:
        if policy not in ("compact", "delete"):
            raise _invalid(name, policy, "String must be one of: compact, delete")
    return frozenset(policies)


def _timestamp_type(name: str, value: str) -> str:
    if value not in ("CreateTime", "LogAppendTime"):
        raise _invalid(name, value, "String must be one of: CreateTime, LogAppendTime")
    return value


_PARSERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "max.message.bytes": _whole(0, _INT),
    "retention.ms": _whole(-1, _LONG),
    "retention.bytes": _whole(-_LONG, _LONG),
    # Kafka asks for 1 MiB (KIP-1030); small segments are for tests.
    "segment.bytes": _whole(14, _INT),
    "segment.ms": _whole(1, _LONG),
    "cleanup.policy": _policy,
    "delete.retention.ms": _whole(0, _LONG),
    "min.compaction.lag.ms": _whole(0, _LONG),
    "min.cleanable.dirty.ratio": _ratio,
    "message.timestamp.type": _timestamp_type,
    "message.timestamp.before.max.ms": _whole(0, _LONG),
    "message.timestamp.after.max.ms": _whole(0, _LONG),
}
