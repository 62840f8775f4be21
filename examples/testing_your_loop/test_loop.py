"""The loop, tested on a cluster that each test has for itself, also while things go wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaProducer

from aktor.broker import EmbeddedKafka
from aktor.broker.codes import Code
from aktor.broker.faults import FailWith, Fault
from examples.testing_your_loop import loop

pytestmark = pytest.mark.embedded_kafka(brokers=3, topics={loop.TOPIC: 1, loop.DEAD_LETTERS: 1})


def write(kafka: EmbeddedKafka, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in values:
            producer.send(loop.TOPIC, value)


def work(kafka: EmbeddedKafka, count: int, *, at: dict[int, Callable[[], Any]]) -> list[int]:
    """Run the loop until it has done this many orders; `at` an order, something happens."""
    done: list[int] = []
    deadline = time.monotonic() + 30

    def work_on(order: int) -> None:
        done.append(order)
        at.pop(order, lambda: None)()

    loop.run(
        kafka.bootstrap_servers,
        work_on,
        stop=lambda: len(done) >= count or time.monotonic() > deadline,
    )
    return done


def test_what_is_no_order_is_put_aside(embedded_kafka: EmbeddedKafka) -> None:
    write(embedded_kafka, b"1", b"poison", b"3")

    assert work(embedded_kafka, 2, at={}) == [1, 3]

    assert embedded_kafka.end_offset(loop.DEAD_LETTERS) == 1
    assert embedded_kafka.committed(loop.GROUP) == {(loop.TOPIC, 0): 3}


def test_a_commit_that_is_refused_for_a_while_is_made(embedded_kafka: EmbeddedKafka) -> None:
    kafka = embedded_kafka
    write(kafka, b"1", b"2")
    refused = FailWith(Code.COORDINATOR_LOAD_IN_PROGRESS)
    kafka.inject(Fault(api="OffsetCommit", action=refused, times=3))

    assert work(kafka, 2, at={2: lambda: kafka.move_coordinator(loop.GROUP)}) == [1, 2]

    assert kafka.committed(loop.GROUP) == {(loop.TOPIC, 0): 2}


def test_who_is_put_out_of_the_group_works_on_the_orders_again(
    embedded_kafka: EmbeddedKafka,
) -> None:
    kafka = embedded_kafka
    write(kafka, b"1", b"2")

    def expire() -> None:
        kafka.expire_session(loop.GROUP, *kafka.members(loop.GROUP))

    assert work(kafka, 4, at={2: expire}) == [1, 2, 1, 2]

    assert kafka.committed(loop.GROUP) == {(loop.TOPIC, 0): 2}


def test_no_order_is_lost_when_the_leader_dies(embedded_kafka: EmbeddedKafka) -> None:
    kafka = embedded_kafka
    write(kafka, *(b"%d" % number for number in range(100)))

    def stop_the_leader() -> None:
        kafka.stop_broker(kafka.leader(loop.TOPIC))
        write(kafka, b"100")

    assert work(kafka, 101, at={50: stop_the_leader}) == list(range(101))
