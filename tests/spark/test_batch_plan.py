"""The ranges of a batch query, on a cluster whose records are deleted meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.structs import TopicPartition

from aktor.spark.offsets.bounds import Offsets
from tests.spark.harness import a_source, the_schema

OPTIONS = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}
ORDERS = TopicPartition("orders", 0)


class BusyCluster:
    """Owns a partition that loses a record and gains one at each look-up."""

    def __init__(self) -> None:
        self.first, self.last = 3, 10

    def partitions(self) -> tuple[list[TopicPartition], dict[str, str | None]]:
        return [ORDERS], {"orders": None}

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        self.first += 1
        self.last += 1
        return {ORDERS: self.first}

    def end_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        self.first += 1
        self.last += 1
        return {ORDERS: self.last}


def test_records_deleted_while_the_query_is_planned_are_no_loss_for_one_from_earliest() -> None:
    reader: Any = a_source(OPTIONS).reader(schema=the_schema(OPTIONS))

    [found] = reader.ranges(BusyCluster())

    assert (found.start, found.end) == (5, 13)
