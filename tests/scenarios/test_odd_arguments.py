"""Whatever a method is given: a typed error on the calling thread, and nobody else suffers."""

from __future__ import annotations

import decimal
import itertools
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.facade import KafkaConsumer
from tests.scenarios.reading import T0, T1
from tests.scenarios.world import World, WorldHost


class Offsets(dict[Any, Any]):
    """A dict of a kind of its own."""


#: Things of the wrong kind, or of the right kind and impossible.
ODD: list[Any] = [
    None, True, -1, 10**30, 10**400, 1.5, math.nan, math.inf, -math.inf, 2**31, 2**63, "", "a b",
    "orders", "x" * 300, "\ud800", b"", b"orders", object(), [], {}, set(), (), ("orders", 0),
    lambda: None, decimal.Decimal("NaN"), Fraction(1, 3), re.compile(b"a"), KafkaConsumer,
]  # fmt: skip

ODD_PARTITIONS: list[Any] = [
    TopicPartition(topic, partition)
    for topic, partition in (
        *(("orders", number) for number in ("0", -1, 2**31, 10**30, None, 0.0, True, [], b"0")),
        *((name, 0) for name in (None, "", "a b", "\ud800", b"orders", 7, "x" * 300, "..", [])),
    )
]

ODD_OFFSETS: list[Any] = [
    *(OffsetAndMetadata(offset, "", -1) for offset in (None, -1, 2**63, 1.5, "0", True, [])),
    *(OffsetAndMetadata(0, text, -1) for text in (b"", 7, "x" * 40_000, "\ud800", [])),
    *(OffsetAndMetadata(0, "", epoch) for epoch in ("0", -2, 2**31, 1.5, [])),
]

#: Every public method, called with something odd in the place of one argument.
CALLS: dict[str, Callable[[KafkaConsumer, Any], Any]] = {
    "subscribe": lambda one, odd: one.subscribe(odd),
    "subscribe to it": lambda one, odd: one.subscribe([odd]),
    "subscribe by pattern": lambda one, odd: one.subscribe(pattern=odd),
    "subscribe with listener": lambda one, odd: one.subscribe(["orders"], listener=odd),
    "assign": lambda one, odd: one.assign(odd),
    "assign it": lambda one, odd: one.assign([odd]),
    "assign one": lambda one, odd: one.assign(itertools.repeat(odd, 1)),
    "poll": lambda one, odd: one.poll(timeout_ms=odd, max_records=1),
    "poll for so many": lambda one, odd: one.poll(max_records=odd),
    "position": lambda one, odd: one.position(odd),
    "position for so long": lambda one, odd: one.position(T0, timeout_ms=odd),
    "seek": lambda one, odd: one.seek(odd, 0),
    "seek there": lambda one, odd: one.seek(T0, odd),
    "seek_to_beginning": lambda one, odd: one.seek_to_beginning(odd),
    "seek_to_end": lambda one, odd: one.seek_to_end(odd),
    "pause": lambda one, odd: one.pause(odd),
    "resume": lambda one, odd: one.resume(odd),
    "highwater": lambda one, odd: one.highwater(odd),
    "commit": lambda one, odd: one.commit(odd),
    "commit of it": lambda one, odd: one.commit({odd: OffsetAndMetadata(0, "", -1)}),
    "commit there": lambda one, odd: one.commit(Offsets({T0: odd})),
    "commit for so long": lambda one, odd: one.commit(timeout_ms=odd),
    "commit_async": lambda one, odd: one.commit_async(odd),
    "commit_async there": lambda one, odd: one.commit_async({T0: odd}),
    "commit_async with callback": lambda one, odd: one.commit_async(callback=odd),
    "committed": lambda one, odd: one.committed(odd),
    "committed for so long": lambda one, odd: one.committed(T0, timeout_ms=odd),
    "partitions_for_topic": lambda one, odd: one.partitions_for_topic(odd),
    "look_up_topics": lambda one, odd: one.look_up_topics(odd),
    "look_up_topics of it": lambda one, odd: one.look_up_topics([odd]),
    "beginning_offsets": lambda one, odd: one.beginning_offsets(odd),
    "beginning_offsets of it": lambda one, odd: one.beginning_offsets([odd]),
    "end_offsets of it": lambda one, odd: one.end_offsets([odd]),
    "end_offsets for so long": lambda one, odd: one.end_offsets([T0], timeout_ms=odd),
    "offsets_for_times": lambda one, odd: one.offsets_for_times(odd),
    "offsets_for_times of it": lambda one, odd: one.offsets_for_times({odd: 0}),
    "offsets_for_times then": lambda one, odd: one.offsets_for_times({T0: odd}),
    "close": lambda one, odd: one.close(group_membership_operation=odd),
    "close for so long": lambda one, odd: one.close(timeout_ms=odd),
}

#: What may come of it. A time-out, or an unknown topic, is what asking a broker came to.
TYPED = (TypeError, ValueError, KeyError, IllegalStateError, re.error)


@contextmanager
def reading() -> Iterator[tuple[World, KafkaConsumer]]:
    """A consumer of two partitions by hand, in a group to commit for."""
    with World(2) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 5)
        yield world, a_consumer(world)


def a_consumer(world: World) -> KafkaConsumer:
    consumer = world.consumer(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([T0, T1])
    return consumer


def nobody_suffered(host: WorldHost) -> None:
    """No actor crashed, nobody was told what nobody knows."""
    assert not host.named("actor.crashed", "actor.restarted"), host.recent()
    assert not host.named("message.dropped"), host.recent()


def call(world: World, consumer: KafkaConsumer, name: str, odd: Any) -> None:
    if name.startswith("subscribe"):
        consumer.unsubscribe()  # else it is refused for being assigned by hand
    began = world.now
    refused = False
    try:
        with suppress(KafkaTimeoutError if name.endswith("for so long") else ()):
            CALLS[name](consumer, odd)
    except TYPED:
        refused = True
    assert not refused or world.now == began, f"{name} of {odd!r} took {world.now - began} s"
    world.sleep(0.0 if refused else 0.1)  # the background hears of it


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments_are_typed_errors_of_the_caller_at_once(name: str) -> None:
    with reading() as (world, consumer):
        for odd in (*ODD, *ODD_PARTITIONS, *ODD_OFFSETS):
            if name == "poll" and odd == math.inf:
                consumer.seek(T0, 0)  # it waits for as long as it takes
            call(world, consumer, name, odd)
            nobody_suffered(world.host(consumer))
            if consumer.status().state == "closed":
                consumer = a_consumer(world)
            elif consumer.assignment() != {T0, T1}:
                consumer.unsubscribe()
                consumer.assign([T0, T1])
        consumer.seek_to_beginning(T0, T1)
        consumer.resume(T0, T1)

        assert len(consumer.poll(timeout_ms=5000, max_records=100)) >= 1
        consumer.commit()
        assert consumer.committed(T0) is not None or consumer.committed(T1) is not None
        nobody_suffered(world.host(consumer))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(CALLS)),
            st.sampled_from(
                [*ODD[:3], *ODD[5:], *ODD_PARTITIONS, *ODD_OFFSETS, T0, T1, [T0], 0, 7]
            ),
        ),
        max_size=12,
    )
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_odd_arguments_in_any_order_leave_a_consumer_that_works(
    calls: list[tuple[str, Any]],
) -> None:
    with reading() as (world, consumer):
        for name, odd in calls:
            if name == "poll" and isinstance(odd, float | int) and odd > 60_000:
                continue  # with nothing to read it waits for as long as it takes
            if name == "commit_async with callback" and callable(odd):
                continue  # what it raises is its own matter
            with suppress(KafkaError):  # what a broker says to odd things is typed, too
                call(world, consumer, name, odd)
            nobody_suffered(world.host(consumer))
            if consumer.status().state == "closed":
                consumer = a_consumer(world)
        with suppress(KafkaError):
            consumer.unsubscribe()
        consumer.assign([T0, T1])
        consumer.seek_to_beginning()

        assert consumer.poll(timeout_ms=20_000)
        nobody_suffered(world.host(consumer))
