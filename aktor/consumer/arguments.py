"""The checks of the arguments of a consumer's methods.

They are made on the caller's thread, before an actor gets the argument: a value that an actor
cannot send, or cannot compare with its clock, would crash that actor, far from the line to blame.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import reprlib
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Final

from kafka.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from kafka.errors import IllegalStateError
from kafka.structs import OffsetAndMetadata, TopicPartition
from kafka.util import ensure_valid_topic_name

from aktor.consumer.configuration.checks import INT32_MAX, INT64_MAX, is_number
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.errors import ConfigurationError
from aktor.events.metadata import TopicPattern
from aktor.events.positions import Position
from aktor.protocol.group_protocols import CLASSIC
from aktor.settings import Settings

__all__ = [
    "assigned_or_all",
    "check_assigned",
    "check_callback",
    "check_each_given",
    "check_group",
    "check_partition",
    "check_subscription",
    "checked_offsets",
    "checked_partitions",
    "checked_timestamps",
    "checked_topics",
    "not_assigned",
    "offset",
    "offsets_to_begin_at",
    "offsets_to_commit",
    "position",
    "record_limit",
    "seconds",
    "subscription",
    "timeout",
    "topic_name",
    "topic_names",
]

#: The longest wait, in seconds: it can still be added to a clock, and a lock can wait for it.
FOREVER: Final = 1e9

#: Methods that wait for `request_timeout_ms` if they are given no time, as in kafka-python. Others
#: wait for `default_api_timeout_ms`, and `bootstrap` for ever.
_REQUESTS: Final = frozenset(
    {"commit", "unsubscribe", "close", "beginning_offsets", "end_offsets", "offsets_for_times"}
    | {"seek_to_beginning", "seek_to_end"}  # where they wait (asyncio)
)

#: The longest text that every version of the protocol can carry, in bytes.
TEXT_MAX: Final = 32_767


def seconds(timeout_ms: Any, default: float | None = None) -> float:
    """A timeout in seconds, from milliseconds, or the default. Infinity becomes `FOREVER`."""
    if timeout_ms is None and default is not None:
        return default
    if not is_number(timeout_ms):
        raise TypeError(f"timeout_ms is {reprlib.repr(timeout_ms)}, but must be a number")
    if not timeout_ms >= 0:  # nor NaN
        raise ValueError(
            f"timeout_ms is {reprlib.repr(timeout_ms)}, but a timeout must not be negative"
        )
    return FOREVER if timeout_ms >= FOREVER * 1000 else float(timeout_ms) / 1000


def timeout(method: str, settings: Settings, timeout_ms: Any = None) -> float:
    """For how many seconds a call of this method may wait, if it is given this `timeout_ms`."""
    usual = FOREVER if method == "bootstrap" else settings.default_api_timeout
    return seconds(timeout_ms, settings.request_timeout if method in _REQUESTS else usual)


def record_limit(max_records: Any) -> int:
    """How many records a poll may give out."""
    limit = _whole_number("max_records", max_records)
    if limit <= 0:
        raise ValueError(f"max_records is {reprlib.repr(limit)}, but must be positive")
    return min(limit, INT32_MAX)


def byte_limit(max_bytes: Any) -> int | None:
    """How many bytes a batch may have; None is no limit."""
    if max_bytes is None:
        return None
    limit = _whole_number("max_bytes", max_bytes)
    if limit <= 0:
        raise ValueError(f"max_bytes is {reprlib.repr(limit)}, but must be positive, or None")
    return limit


def topic_name(name: Any) -> str:
    """A topic's name, checked. A member of an enumeration becomes what it stands for: kafka-python
    writes `Topics.ORDERS` for it."""
    if not isinstance(name, str):
        raise TypeError(f"a topic's name must be a str, not {reprlib.repr(name)}")
    plain = str.__str__(name)
    _check_name(plain)
    return plain


def topic_names(topics: Iterable[Any] | None) -> frozenset[str]:
    """The names of topics to subscribe to, checked; None: none, beside a pattern."""
    return frozenset(map(topic_name, topics or ()))


#: Names that were found valid are remembered: many partitions have the same topic.
_check_name = functools.lru_cache(maxsize=1000)(ensure_valid_topic_name)


def check_group(settings: Settings) -> None:
    """Refuse what needs a group in a consumer without one."""
    if settings.group_id is None:
        raise IllegalStateError("Requires group_id")


def check_each_given(method: str, partitions: tuple[Any, ...]) -> None:
    """Check that partitions were given one by one: other clients' methods take a list of them."""
    for one in partitions:
        if isinstance(one, list | set | frozenset | Mapping):
            raise TypeError(
                f"partition must be a TopicPartition namedtuple, not {reprlib.repr(one)}: each is"
                f" an argument of its own, {method}(*partitions)"
            )


def check_partition(partition: Any) -> None:
    """Check that it is a TopicPartition (aiokafka's is one, too) with a valid topic and number."""
    if not isinstance(partition, TopicPartition) and not _is_named_alike(partition):
        raise TypeError(
            f"partition must be a TopicPartition namedtuple, not {reprlib.repr(partition)}"
        )
    topic_name(partition.topic)
    number = partition.partition
    if type(number) is not int:
        _whole_number("the partition's number", number)
    if not 0 <= number <= INT32_MAX:
        raise ValueError(f"{partition} cannot be: partitions are numbered from 0 to {INT32_MAX}")


def _is_named_alike(partition: Any) -> bool:
    """Whether it is a namedtuple with the same fields: it is equal to a TopicPartition."""
    fields = getattr(partition, "_fields", None)
    return isinstance(partition, tuple) and fields == TopicPartition._fields


def not_assigned(partition: TopicPartition) -> Exception:
    """The error of a method that needs an assigned partition."""
    name = f"{partition.topic}-{partition.partition}"
    error: Exception = IllegalStateError(f"Partition is not assigned: {name}")
    return error


def check_assigned(
    partitions: Iterable[Any],
    assigned: Container[TopicPartition],
    refused: Callable[[TopicPartition], Exception] = not_assigned,
) -> None:
    """Check that these are partitions, and assigned ones. `refused` makes the error of one that is
    not: kafka-python has another one in nearly each method."""
    for partition in partitions:
        check_partition(partition)
        if partition not in assigned:
            raise refused(partition)


def assigned_or_all(
    partitions: tuple[Any, ...],
    assigned: Collection[TopicPartition],
    refused: Callable[[TopicPartition], Exception] = not_assigned,
    *,
    nothing: type[Exception] = IllegalStateError,
) -> list[TopicPartition]:
    """These partitions, which must be assigned, or all that are if none is named; there must be
    one, else the error is of the class `nothing`."""
    chosen = partitions or tuple(assigned)
    if not chosen:
        raise nothing("No partitions are currently assigned")
    check_assigned(chosen, assigned, refused)
    return list(chosen)


def checked_partitions(partitions: Iterable[Any]) -> list[TopicPartition]:
    """These partitions as a list of TopicPartitions, each of them checked."""
    found = list(partitions)
    for partition in found:
        check_partition(partition)
    return [one if _is_plain(one) else _plain(one) for one in found]


def _is_plain(partition: Any) -> bool:
    number, topic = partition.partition, partition.topic
    return type(partition) is TopicPartition and type(number) is int and type(topic) is str


def _plain(partition: Any) -> TopicPartition:
    """It with a str and an int: an application may write what its records have as JSON, which knows
    no integers of numpy, or into a text."""
    return TopicPartition(topic_name(partition.topic), int(partition.partition))


def checked_topics(topics: Any) -> frozenset[str] | None:
    """The names of topics to look up; None: all."""
    if topics is None:
        return None
    if isinstance(topics, str):
        raise TypeError(f"topics must be a list of names, not {topics!r}")
    return topic_names(topics)


def offsets_to_begin_at(partitions: Any) -> dict[TopicPartition, int]:
    """The offsets that `assign` was given, if it was given a dict; None stands for no offset."""
    offsets = partitions if isinstance(partitions, Mapping) else {}
    return {partition: offset(at) for partition, at in offsets.items() if at is not None}


def position(value: Any) -> Position:
    """An offset to seek, perhaps with the leader epoch of the record before it, as a commit has."""
    if not isinstance(value, OffsetAndMetadata):
        return Position(offset=offset(value))
    epoch = -1
    if value.leader_epoch is not None:
        epoch = _whole_number("the leader epoch", value.leader_epoch)
    if not -1 <= epoch <= INT32_MAX:
        raise ValueError(f"the leader epoch {epoch} is not valid: -1 means unknown")
    return Position(offset=offset(value.offset), leader_epoch=epoch)


def offset(value: Any) -> int:
    """An offset to seek."""
    try:
        number = _whole_number("offset", value)
    except TypeError:
        raise ValueError(f"Offset must be int >= 0, not {reprlib.repr(value)}") from None
    if not 0 <= number <= INT64_MAX:
        raise ValueError(f"Offset must be int >= 0 and <= {INT64_MAX}, not {reprlib.repr(value)}")
    return number


def offsets_to_commit(
    offsets: Any, settings: Settings, *, in_process: bool
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """The offsets that are named; None: the consumed positions are meant. While `process` runs
    they are not: it commits what is finished."""
    check_group(settings)
    if offsets is not None:
        return checked_offsets(offsets)
    if in_process:
        raise IllegalStateError(
            "process() commits what is finished; a listener may only commit offsets that it names:"
            " the positions are past what handlers have in hand"
        )
    return None


def checked_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets that can be committed."""
    if not isinstance(offsets, Mapping):
        raise TypeError(
            "offsets must be a dict of TopicPartition: OffsetAndMetadata. For a record it is"
            " {TopicPartition(record.topic, record.partition):"
            " OffsetAndMetadata(record.offset + 1)}"
        )
    try:
        chosen = dict(zip(checked_partitions(offsets), offsets.values(), strict=True))
    except TypeError:
        raise TypeError("keys must be TopicPartition namedtuples") from None
    for partition, value in chosen.items():
        if not isinstance(value, OffsetAndMetadata):
            raise TypeError("values must be OffsetAndMetadata namedtuples")
        _check_committable(f"{partition.topic}-{partition.partition}", value)
    return chosen


def _check_committable(name: str, value: OffsetAndMetadata) -> None:
    number = _whole_number(f"the offset of {name}", value.offset)
    if number < 0:
        raise ValueError(f"the offset {number} of {name} is negative and cannot be committed")
    if number > INT64_MAX:
        raise ValueError(f"the offset of {name} is larger than {INT64_MAX}")
    if value.metadata is not None:
        if not isinstance(value.metadata, str):
            raise TypeError(f"the metadata of {name} must be a str or None")
        if len(value.metadata.encode()) > TEXT_MAX:
            raise ValueError(f"the metadata of {name} is longer than {TEXT_MAX} bytes")
    if value.leader_epoch is not None:
        epoch = _whole_number(f"the leader epoch of {name}", value.leader_epoch)
        if not -1 <= epoch <= INT32_MAX:
            raise ValueError(f"the leader epoch {epoch} of {name} is not valid: -1 means unknown")


def checked_timestamps(timestamps: Any) -> dict[TopicPartition, int]:
    """Times to look up, in milliseconds."""
    if not isinstance(timestamps, Mapping):
        raise TypeError("timestamps must be a dict of TopicPartition: milliseconds")
    times = [_timestamp(partition, value) for partition, value in timestamps.items()]
    return dict(zip(checked_partitions(timestamps), times, strict=True))


def _timestamp(partition: Any, value: Any) -> int:
    check_partition(partition)
    if not is_number(value):
        raise TypeError(f"The target time for partition {partition} is no number")
    if value < 0:
        raise ValueError(
            f"The target time for partition {partition} is {reprlib.repr(value)}."
            " The target time cannot be negative."
        )
    if not value <= INT64_MAX:  # nor NaN
        raise ValueError(f"The target time for partition {partition} is no time")
    return int(value)


def check_subscription(topics: Any, pattern: Any, listener: Any) -> None:
    """Check that either topics or a pattern is given, and that a listener is one."""
    if not topics and not pattern:
        raise ValueError("Must provide topics or pattern")
    if topics and pattern:
        raise IllegalStateError(
            "You must choose only one way to configure your consumer: (1) subscribe to specific"
            " topics by name, (2) subscribe to topics matching a regex pattern, (3) assign"
            " itself specific topic-partitions."
        )
    if topics is not None:  # beside a pattern
        if isinstance(topics, str) or not isinstance(topics, Sequence):
            raise TypeError("Topics must be a list (or non-str sequence)")
        topic_names(topics)
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(text, str | SubscriptionPattern | None):  # names of topics are not bytes
        raise TypeError("pattern must be a str, a re.Pattern of str, or a SubscriptionPattern")
    if listener is not None and not isinstance(
        listener, (ConsumerRebalanceListener, AsyncConsumerRebalanceListener)
    ):
        raise TypeError(
            "listener must be a ConsumerRebalanceListener or AsyncConsumerRebalanceListener"
        )


def subscription(
    topics: Any, pattern: Any, listener: Any, settings: Settings
) -> tuple[frozenset[str], TopicPattern | None, str]:
    """What `subscribe` was given, checked: the topics, the pattern that we evaluate, and the one
    that the brokers evaluate."""
    check_subscription(topics, pattern, listener)
    return topic_names(topics), *_pattern(pattern, settings)


def _pattern(
    given: str | re.Pattern[str] | SubscriptionPattern | None, settings: Settings
) -> tuple[TopicPattern | None, str]:
    """The pattern that we evaluate, or the one that the brokers evaluate."""
    if not given:
        return None, ""
    if not isinstance(given, SubscriptionPattern):
        internal = not settings.exclude_internal_topics
        return TopicPattern(pattern=re.compile(given), internal=internal), ""
    if settings.group_id is None or settings.group_protocol == CLASSIC:
        raise ConfigurationError(
            "a SubscriptionPattern is evaluated by the brokers, which takes a group_id and"
            " group_protocol 'consumer'; give a pattern of Python's re as a str instead"
        )
    return None, given.pattern


def check_callback(callback: Any) -> None:
    """Check that the callback can be called, if there is one."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, not {reprlib.repr(callback)}")
    if inspect.iscoroutinefunction(callback):
        raise TypeError(
            f"callback must be an ordinary function, not {reprlib.repr(callback)}: a coroutine"
            " would not be awaited"
        )


def _whole_number(what: str, value: Any) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{what} is {reprlib.repr(value)}, but must be an int")
