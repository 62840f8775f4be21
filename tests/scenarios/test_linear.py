"""No call costs more than what it is given: work is counted in lines, never in seconds.

What is done for one partition must cost the same whether it is one of a hundred or of a thousand;
what is done for all may cost so much for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

import aktor
from aktor.consumer.facade import KafkaConsumer
from tests.executed import lines
from tests.scenarios.world import World

AKTOR = Path(aktor.__file__).parent
CLIENT = tuple(str(AKTOR / part) for part in ("actors", "consumer", "events", "managers"))
FEW, MANY = 100, 400

Act = Callable[[KafkaConsumer, list[TopicPartition]], Any]


@contextmanager
def reading(partitions: int) -> Iterator[tuple[World, KafkaConsumer, list[TopicPartition]]]:
    """A consumer with so many partitions, all at their ends, and nothing left to do."""
    with World(1, brokers=1) as world:
        world.cluster.create_topic("orders", partitions=partitions)
        consumer = world.consumer(group_id="g", enable_auto_commit=False)
        every = [TopicPartition("orders", number) for number in range(partitions)]
        consumer.assign(every)
        consumer.position(every[-1])
        consumer.poll(timeout_ms=2000)
        yield world, consumer, every


def cost(act: Act, partitions: int) -> int:
    """Lines that `act` executes on the application's thread, the background standing still."""
    with reading(partitions) as (world, consumer, every):
        act(consumer, every)  # what is done only once is not counted
        world.stand_still = True
        try:
            return lines(lambda: act(consumer, every), of=CLIENT)
        finally:
            world.stand_still = False


ONE: dict[str, Act] = {
    "seek": lambda consumer, every: consumer.seek(every[7], 0),
    "seek_to_beginning": lambda consumer, every: consumer.seek_to_beginning(every[7]),
    "seek_to_end": lambda consumer, every: consumer.seek_to_end(every[7]),
    "pause": lambda consumer, every: consumer.pause(every[7]),
    "resume": lambda consumer, every: consumer.resume(every[7]),
    "position": lambda consumer, every: consumer.position(every[6]),
    "highwater": lambda consumer, every: consumer.highwater(every[7]),
    "commit_async": lambda consumer, every: consumer.commit_async({every[7]: at(0)}),
    "poll": lambda consumer, every: consumer.poll(0),
}

ALL: dict[str, Act] = {
    "assign": lambda consumer, every: consumer.assign(every),
    "seek": lambda consumer, every: [consumer.seek(one, 0) for one in every],
    "pause": lambda consumer, every: consumer.pause(*every),
    "resume": lambda consumer, every: consumer.resume(*every),
    "position": lambda consumer, every: [consumer.position(one) for one in every],
    "commit_async": lambda consumer, every: consumer.commit_async(),
    "metrics": lambda consumer, every: consumer.metrics(),
    "status": lambda consumer, every: consumer.status(),
}


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", -1)


@pytest.mark.parametrize("name", ONE)
def test_what_is_done_for_one_partition_costs_the_same_among_many(name: str) -> None:
    assert cost(ONE[name], MANY) <= cost(ONE[name], FEW) + 20


def all_of_it(act: Act, partitions: int) -> int:
    """Lines that `act` executes on both sides, with whatever the background does meanwhile."""
    with reading(partitions) as (_world, consumer, every):
        act(consumer, every)
        return lines(lambda: act(consumer, every), of=CLIENT)


def go_to_the_end(consumer: KafkaConsumer, every: list[TopicPartition]) -> None:
    for one in every[5:25]:
        consumer.seek_to_end(one)
        consumer.position(one)


def pause_between_polls(consumer: KafkaConsumer, every: list[TopicPartition]) -> None:
    for one in every[5:25]:
        consumer.pause(one)
        consumer.poll(0)
        consumer.resume(one)


@pytest.mark.parametrize("act", [go_to_the_end, pause_between_polls])
def test_the_background_looks_at_none_but_the_partitions_that_something_happened_to(
    act: Act,
) -> None:
    assert all_of_it(act, MANY) <= 1.5 * all_of_it(act, FEW)


def busy_poll(partitions: int, *, filled: slice) -> int:
    """Lines of a poll: these partitions have records buffered, and only three are not paused."""
    with reading(partitions) as (world, consumer, every):
        for one in every[filled]:
            world.cluster.log("orders", one.partition).append([b"value"] * 10)
        world.sleep(2.0)
        consumer.pause(*every[3:])
        consumer.poll(0, max_records=2)
        world.stand_still = True
        try:
            return lines(lambda: consumer.poll(0, max_records=100), of=CLIENT)
        finally:
            world.stand_still = False


@pytest.mark.parametrize("filled", [slice(3), slice(None)], ids=["three have records", "all have"])
def test_a_poll_costs_what_is_ready(filled: slice) -> None:
    assert busy_poll(MANY, filled=filled) <= busy_poll(FEW, filled=filled) + 20


@pytest.mark.parametrize("name", ALL)
def test_what_is_done_for_all_partitions_costs_so_much_for_each(name: str) -> None:
    assert cost(ALL[name], MANY) <= 1.2 * MANY / FEW * cost(ALL[name], FEW)
