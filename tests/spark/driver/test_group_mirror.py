"""Progress as committed offsets of a group, without harm to the query."""

from __future__ import annotations

import logging

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition

from aktor.spark.driver.group_mirror import GroupMirror
from aktor.spark.offsets.bounds import Offsets

ORDERS = TopicPartition("orders", 0)


class Group:
    """Owns what was committed, and whether the coordinator answers."""

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.asked = 0
        self.away = False
        self.now = 100.0

    def commit(self, offsets: Offsets) -> None:
        self.asked += 1
        if self.away:
            raise KafkaTimeoutError("no coordinator")
        self.commits.append(offsets[ORDERS])

    def clock(self) -> float:
        return self.now

    def mirror(self) -> GroupMirror:
        return GroupMirror(self.commit, "mirror", clock=self.clock)


def test_offsets_are_committed_once() -> None:
    group = Group()
    mirror = group.mirror()

    for offset in (5, 5, 8):
        mirror.show({ORDERS: offset})
    mirror.show({})

    assert group.commits == [5, 8]


def test_a_coordinator_that_is_away_is_not_asked_at_each_trigger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = Group()
    mirror = group.mirror()
    group.away = True

    with caplog.at_level(logging.WARNING, "aktor.spark"):
        for offset in range(10):
            mirror.show({ORDERS: offset})
    assert group.asked == 1
    assert "for 'mirror': KafkaTimeoutError: no coordinator" in caplog.text

    group.away = False
    group.now += 30.0
    mirror.show({ORDERS: 10})
    mirror.show({ORDERS: 11})
    assert group.commits == [10, 11]
