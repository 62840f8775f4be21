"""What the methods of a consumer take, and what they refuse, value by value."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor import KafkaConsumer
from aktor.consumer import arguments
from aktor.consumer.arguments import FOREVER, TEXT_MAX
from aktor.consumer.configuration import configuration
from aktor.consumer.configuration.checks import INT32_MAX, INT64_MAX

A = TopicPartition("orders", 0)


def committed(offset: Any = 0, metadata: Any = "", epoch: Any = -1) -> Any:
    return arguments.checked_offsets({A: OffsetAndMetadata(offset, metadata, epoch)})


def partition(topic: Any = "orders", number: Any = 0) -> Any:
    return arguments.checked_partitions([TopicPartition(topic, number)])


def subscription(topics: Any, pattern: Any) -> None:
    arguments.check_subscription(topics, pattern, None)


async def stored(_offsets: Any, _error: Any) -> None:
    """A callback of commits that nobody would await."""


def at(time: Any) -> Any:
    return arguments.checked_timestamps({A: time})


@pytest.mark.parametrize(
    ("take", "values"),
    [
        (arguments.seconds, [0, 1, 0.5, math.inf]),
        (arguments.record_limit, [1, INT32_MAX, 10**30]),
        (arguments.offset, [0, INT64_MAX]),
        (arguments.topic_name, ["a", "a.b_c-1", "x" * 249]),
        (subscription, [(["a"], None), ([], "a.*"), ([], re.compile("a")), (None, "a.*")]),
        (arguments.check_callback, [None, print]),
        (partition, [("orders", 0), ("orders", INT32_MAX)]),
        (committed, [0, INT64_MAX, (0, None), (0, "x" * TEXT_MAX), (0, "", 0), (0, "", INT32_MAX)]),
        (at, [0, 1.5, INT64_MAX]),
    ],
)
def test_what_can_be_is_taken(take: Callable[..., Any], values: list[Any]) -> None:
    for value in values:
        take(*value if isinstance(value, tuple) else (value,))


@pytest.mark.parametrize(
    ("take", "error", "values"),
    [
        (arguments.seconds, TypeError, [None, "1", True, object()]),
        (arguments.seconds, ValueError, [-1, -0.1, -math.inf, math.nan]),
        (arguments.record_limit, TypeError, [None, "1", 1.0, True]),
        (arguments.record_limit, ValueError, [0, -1]),
        (arguments.offset, ValueError, [None, "1", 1.0, True, -1, INT64_MAX + 1, 10**30]),
        (arguments.topic_name, TypeError, [None, b"orders", 7]),
        (arguments.topic_name, ValueError, ["", "a b", "..", "x" * 250]),
        (subscription, TypeError, [([], b"a"), ([], re.compile(b"a")), ("a", None)]),
        (subscription, ValueError, [([], None), ([], ""), (["a b"], None)]),
        (arguments.check_callback, TypeError, ["print", 7, stored]),
        (partition, TypeError, [("orders", "0"), ("orders", None), (b"orders", 0)]),
        (partition, ValueError, [("orders", -1), ("orders", INT32_MAX + 1), ("a b", 0)]),
        (committed, TypeError, ["0", None, 1.5, (0, b""), (0, 7), (0, "", "0")]),
        (committed, ValueError, [-1, INT64_MAX + 1, (0, "x" * (TEXT_MAX + 1)), (0, "", -2)]),
        (committed, ValueError, [(0, "\u00e9" * TEXT_MAX), (0, "", INT32_MAX + 1)]),
        (at, TypeError, [None, "0", True]),
        (at, ValueError, [-1, math.nan, math.inf, INT64_MAX + 1]),
        (arguments.checked_offsets, TypeError, [None, [A], ({("orders", 0): 0},), ({A: 0},)]),
        (arguments.checked_timestamps, TypeError, [None, [A], ({("orders", 0): 0},)]),
        (arguments.checked_partitions, TypeError, [[("orders", 0)], ["orders"], [None]]),
    ],
)
def test_what_cannot_be_is_refused_with_its_kind_of_error(
    take: Callable[..., Any], error: type[Exception], values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(error):
            take(*value if isinstance(value, tuple) else (value,))


def test_what_is_longer_than_anybody_waits_and_more_than_anybody_has_is_cut() -> None:
    assert arguments.seconds(math.inf) == arguments.seconds(10**300) == FOREVER
    assert arguments.record_limit(10**30) == INT32_MAX
    assert arguments.seconds(None, 2.0) == 2.0


#: `str()` of a member is its name, not its value: that is what kafka-python sends.
Topics = enum.Enum("Topics", {"ORDERS": "orders"}, type=str)


class Numbers(enum.IntEnum):
    FIRST = 0


NAMED = TopicPartition(Topics["ORDERS"], Numbers.FIRST)


@pytest.mark.parametrize(
    "names",
    [
        lambda: [arguments.topic_name(Topics["ORDERS"])],
        lambda: arguments.topic_names([Topics["ORDERS"]]),
        lambda: arguments.checked_topics([Topics["ORDERS"]]) or (),
        lambda: [partition.topic for partition in arguments.checked_partitions([NAMED])],
        lambda: [partition.topic for partition in arguments.checked_timestamps({NAMED: 0})],
        lambda: [
            partition.topic
            for partition in arguments.checked_offsets({NAMED: OffsetAndMetadata(0, "", -1)})
        ],
    ],
)
def test_a_name_of_an_enumeration_becomes_what_it_stands_for(
    names: Callable[[], Iterable[str]],
) -> None:
    assert [(name, type(name)) for name in names()] == [("orders", str)]


def test_a_partitions_number_becomes_an_int() -> None:
    [found] = arguments.checked_partitions([NAMED])
    assert (found.partition, type(found.partition)) == (0, int)


def test_no_topics_beside_a_pattern_are_none() -> None:
    assert arguments.topic_names(None) == arguments.topic_names(()) == frozenset()


@pytest.mark.parametrize(
    ("method", "usual"),
    [("commit", 30.0), ("end_offsets", 30.0), ("position", 60.0), ("bootstrap", FOREVER)],
)
def test_a_call_that_is_given_no_time_has_that_of_its_kind(method: str, usual: float) -> None:
    _, settings = configuration.parse({})

    assert arguments.timeout(method, settings) == usual
    assert arguments.timeout(method, settings, 1500) == 1.5


def test_who_waits_for_its_turn_to_bootstrap_waits_as_long_as_bootstrap_does() -> None:
    with KafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0) as consumer:
        assert consumer._patience("bootstrap", {"timeout_ms": None}) > FOREVER
