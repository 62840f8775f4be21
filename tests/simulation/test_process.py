"""`process` in simulated storms: each record has its effect, in order, and then is committed."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

import pytest
from kafka.errors import KafkaError

from aktor import KafkaConsumer
from aktor.broker.faults import CorruptRecords, Fault
from aktor.consumer.corrupt_batches import TRIES
from aktor.errors import ConsumerClosedError, CorruptBatchError
from aktor.processing import HandlerError, Retries
from aktor.simulation import Simulation, Sink
from aktor.simulation.interrupts import HANDLERS, INTERRUPTS
from tests.scenarios.world import seeds

PROTOCOLS = ("classic", "consumer")


def process(invoices: Sink, protocol: str, **options: Any) -> None:
    """A service: it goes on after errors, with the same consumer."""
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers="kafka:9092",
        group_id="billing",
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        auto_commit_interval_ms=500,
        **({"session_timeout_ms": 6000} if protocol == "classic" else {}),
    )
    draw = random.Random(7)

    def bill(record: Any) -> None:
        if draw.random() < 0.03:
            raise ValueError("the database is away")
        invoices.put(record)

    while True:
        try:
            consumer.process(bill, retries=Retries(8, backoff_ms=20), **options)
        except ConsumerClosedError:
            raise
        except (HandlerError, KafkaError, *INTERRUPTS):
            time.sleep(0.1)


def process_interrupted(invoices: Sink) -> None:
    """The same in a process that gets signals: it goes on after each, with a new consumer if the
    handler has closed it."""
    while True:
        with suppress(*INTERRUPTS, ConsumerClosedError):
            process(invoices, "classic", concurrency=3, max_pending=40)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("order", ["key", "partition", "none"])
@pytest.mark.parametrize("seed", seeds(4))
def test_every_record_is_billed_in_its_order_whatever_happens(
    seed: int, order: str, protocol: str
) -> None:
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=4, keys=6)
        sim.trickle(orders, per_second=20, seconds=30)
        invoices = sim.sink(orders, "at-least-once", takes=0.05)
        for _ in range(3):
            sim.member(process, invoices, protocol, order=order, concurrency=3, max_pending=40)
        sim.chaos(for_=30).run(for_=30)
        sim.heal().progress().check()


@pytest.mark.parametrize("seed", seeds(12))
def test_no_record_is_lost_or_out_of_order_whatever_line_a_signal_hits(seed: int) -> None:
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=4, keys=6)
        sim.trickle(orders, per_second=20, seconds=30)
        invoices = sim.sink(orders, "at-least-once", takes=0.05)
        members = [sim.member(process_interrupted, invoices) for _ in range(2)]
        for _ in range(60):
            sim.run(for_=0.5)
            draw = sim.random
            member = draw.choice(members)
            member.interrupt(draw.randrange(400), draw.choice(sorted(HANDLERS)))
        sim.progress().check()


def process_once(invoices: Sink) -> None:
    """Without any error handling."""
    consumer = KafkaConsumer(
        "orders", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.process(invoices.put, commit_interval_ms=500)


@pytest.mark.parametrize("times", [1, TRIES])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_batch_that_was_damaged_on_the_way_does_not_end_it(seed: int, times: int) -> None:
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=2, records=40)
        invoices = sim.sink(orders, "at-least-once", takes=0.01)
        sim.network.disturb(Fault(action=CorruptRecords(), api="Fetch", times=times))
        sim.member(process_once, invoices)
        sim.run(for_=20.0)
        sim.progress().check()

        assert list(sim.history.named("batch.corrupt"))
        assert len(list(sim.history.named("process.started"))) == 1


def test_a_batch_that_stays_corrupt_ends_it_when_the_others_are_read() -> None:
    raised: list[CorruptBatchError] = []

    def process(invoices: Sink) -> None:
        try:
            process_once(invoices)
        except CorruptBatchError as error:
            raised.append(error)

    with Simulation(2) as sim:
        orders = sim.topic("orders", partitions=2)
        for partition in range(2):
            for _ in range(10):
                orders.append(partition, 4)
        sim.brokers.spoil(orders, 0, 18)
        invoices = sim.sink(orders, "at-least-once", takes=0.01)
        sim.member(process, invoices)
        sim.run(for_=20.0)

        assert [(one.partition, one.offset) for one in raised] == [(0, 16)]
        assert len(list(sim.history.named("batch.corrupt"))) == TRIES + 1
