"""A fetch cursor: when its partition may be fetched again."""

from __future__ import annotations

import math

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import Backoff
from aktor.managers.fetch.cursor import FetchCursor
from aktor.trace import silent


def a_cursor() -> FetchCursor:
    partition = TopicPartition("orders", 0)
    return FetchCursor(partition, 1, None, backoff=Backoff(1.0, 8.0), log=silent())


def test_a_rest_makes_the_backoff_longer_and_never_shorter() -> None:
    cursor = a_cursor()
    cursor.retry_later(10.0, 0.5)

    cursor.rest(until=10.2)
    assert cursor.backoff.retry_at == 11.0

    cursor.rest(until=12.0)
    assert cursor.backoff.retry_at == 12.0


def test_a_refused_partition_is_tried_again_at_the_time_that_was_said() -> None:
    cursor = a_cursor()
    cursor.retry_later(10.0, 0.5)

    cursor.refused(until=10.2)

    assert cursor.backoff.retry_at == 10.2


def test_a_partition_that_is_tried_again_waits_for_nothing() -> None:
    cursor = a_cursor()
    cursor.retry_later(10.0, 0.5)
    cursor.refused(until=70.0)

    cursor.try_again()

    assert (cursor.backoff.retry_at, cursor.backoff.failures) == (-math.inf, 0)
