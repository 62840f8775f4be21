"""A delivery with positions, and an interrupt at one of its lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from kafka.structs import TopicPartition

from aktor.consumer.core.delivery import Delivery
from aktor.events.positions import Assigned, Position, PositionsResolved
from aktor.trace import silent
from tests.unit.consumer.core.builders_chunks import A, read


def a_delivery(*partitions: TopicPartition, at: int = 0) -> Delivery:
    """These (default: A) are assigned, in epochs 1, 2, ..., and stand at this offset."""
    delivery = Delivery(read, silent())
    delivery.assign(partitions or [A])
    resolve(delivery, at=at)
    delivery.take_moved()
    return delivery


def resolve(delivery: Delivery, *, at: int = 0) -> None:
    """Every partition without a position gets this one."""
    found = {
        one: Assigned(epoch=state.epoch, position=Position(offset=at))
        for one, state in delivery.partitions.items()
        if state.offset is None
    }
    delivery.apply(PositionsResolved(partitions=found))


@contextlib.contextmanager
def interrupted_at(line: int, function: Any) -> Iterator[list[int]]:
    """An interrupt at this line that the function runs, if it runs so many; it is passed over."""
    run = 0
    happened: list[int] = []

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal run
        if frame.f_code is not function.__code__:
            return None
        run += event == "line"
        if event == "line" and run == line:
            happened.append(line)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield happened
    finally:
        sys.settrace(before)
