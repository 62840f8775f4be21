"""`process` in simulated storms: each record has its effect, in order, and then is committed."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from kafka.errors import KafkaError

from aktor import ConsumerRebalanceListener, KafkaConsumer, WaitingFor
from aktor.broker.faults import CorruptRecords, Fault
from aktor.consumer.core.partition_errors import TRIES
from aktor.errors import ConsumerClosedError, CorruptBatchError
from aktor.processing import HandlerError, Retries
from aktor.simulation import Simulation, Sink
from aktor.simulation.programs.loop import ONLY_A_NEW_ONE_HELPS
from aktor.simulation.world.interrupts import HANDLERS, INTERRUPTS
from aktor.structs import TopicPartition
from tests.gate import all_but_the_first
from tests.scenarios.world import seeds

PROTOCOLS = ("classic", "consumer")


def process(invoices: Sink, protocol: str, **options: Any) -> None:
    """A service: it goes on after errors, with the same consumer unless only a new one helps."""
    draw = random.Random(7)

    def bill(record: Any) -> None:
        if draw.random() < 0.03:
            raise ValueError("the database is away")
        invoices.put(record)

    while True:
        with suppress(*ONLY_A_NEW_ONE_HELPS), a_consumer(protocol) as consumer:
            while True:
                try:
                    consumer.process(bill, retries=Retries(8, backoff_ms=20), **options)
                except (ConsumerClosedError, *ONLY_A_NEW_ONE_HELPS):
                    raise
                except (HandlerError, KafkaError, *INTERRUPTS):
                    time.sleep(0.1)
        time.sleep(1.0)  # else thousands of consumers are made while a right is withdrawn


def a_consumer(protocol: str) -> KafkaConsumer:
    """As a service makes it."""
    return KafkaConsumer(
        "orders",
        bootstrap_servers="kafka:9092",
        group_id="billing",
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        auto_commit_interval_ms=500,
        **({"session_timeout_ms": 6000} if protocol == "classic" else {}),
    )


def process_interrupted(invoices: Sink) -> None:
    """The same in a process that gets signals: it goes on after each, with a new consumer if the
    handler has closed it."""
    while True:
        with suppress(*INTERRUPTS, ConsumerClosedError):
            process(invoices, "classic", concurrency=3, max_pending=40)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_not_begun_when_a_member_is_expelled_is_handled_though_nothing_is_committed(
    protocol: str,
) -> None:
    """It goes on where it stood, and that is not behind what no handler has had."""
    handled: list[int] = []

    def work(sim: Simulation) -> None:
        def handle(record: Any) -> None:
            if record.offset == 0 and not handled:
                sim.brokers.expire_somebody("g", sim.random)
                time.sleep(8.0)
            handled.append(record.offset)

        with KafkaConsumer(
            "orders",
            bootstrap_servers="kafka:9092",
            group_id="g",
            group_protocol=protocol,
            enable_auto_commit=False,
        ) as consumer:
            consumer.process(handle, concurrency=1, order="partition", commit_interval_ms=3_600_000)

    with Simulation(5) as sim:
        orders = sim.topic("orders", partitions=1)
        sim.member(work, sim)
        sim.run(for_=5)
        orders.write(5)
        sim.run(for_=40)
    assert {*handled} == {0, 1, 2, 3, 4}


#: Each order with one protocol, by turns; with more seeds (AKTOR_SEEDS) also with the other one.
BILLED = [
    (order, PROTOCOLS[(number + turn) % 2], seed)
    for turn, seed in enumerate(seeds(1))
    for number, order in enumerate(["key", "partition", "none"])
]


@pytest.mark.parametrize(("order", "protocol", "seed"), all_but_the_first(1, BILLED))
def test_every_record_is_billed_in_its_order_whatever_happens(
    order: str, protocol: str, seed: int
) -> None:
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=4, keys=6)
        sim.trickle(orders, per_second=20, seconds=30)
        invoices = sim.sink(orders, "at-least-once", takes=0.05)
        for _ in range(3):
            sim.member(process, invoices, protocol, order=order, concurrency=3, max_pending=40)
        sim.chaos(for_=30).run(for_=30)
        sim.heal().progress().check()


@pytest.mark.parametrize("seed", all_but_the_first(1, seeds(3)))
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


def handle_in_order(slow: set[int], ended: list[tuple[int, float]], **options: Any) -> None:
    """Handle records in the order of their partition: 50 ms each, 1 s if that is `slow`."""

    def handle(record: Any) -> None:
        time.sleep(1.0 if record.partition in slow else 0.05)
        ended.append((record.partition, time.monotonic()))

    KafkaConsumer(
        "orders",
        bootstrap_servers="kafka:9092",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ).process(handle, order="partition", **options)


@pytest.mark.parametrize(("seed", "max_pending"), all_but_the_first(1, [(0, 80), (1, 1000)]))
def test_all_partitions_of_a_backlog_are_worked_on_all_the_time(
    seed: int, max_pending: int
) -> None:
    ended: list[tuple[int, float]] = []
    with Simulation(seed) as sim:
        sim.topic("orders", partitions=8, records=16_000)
        sim.member(handle_in_order, set(), ended, concurrency=8, max_pending=max_pending)
        sim.run(for_=30.0)

    began = ended[0][1]
    possible = 20 * 20  # twenty seconds, and twenty records of a partition in each
    for partition in range(8):
        handled = [at for one, at in ended if one == partition and at < began + 20.0]
        assert len(handled) > 0.9 * possible, f"partition {partition}: {len(handled)}"


def test_partitions_whose_records_take_long_keep_the_others_not_waiting() -> None:
    ended: list[tuple[int, float]] = []
    with Simulation(3) as sim:
        sim.topic("orders", partitions=8, records=16_000)
        sim.member(handle_in_order, set(range(7)), ended, concurrency=8, max_pending=80)
        sim.run(for_=60.0)

    quick = [at for one, at in ended if one == 7]
    longest = max(after - at for at, after in itertools.pairwise(quick))
    assert longest < 1.0


@pytest.mark.parametrize("seed", all_but_the_first(1, range(6, 8)))
def test_what_was_handled_when_a_process_goes_on_is_committed_by_its_close(seed: int) -> None:
    """It stood still for longer than `close` and its handlers had time."""
    raised: list[Exception] = []

    def work(sim: Simulation) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers="kafka:9092",
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=45_000,
        )
        sim.members[0].also(lambda: close(sim, consumer))
        consumer.subscribe(["orders"])
        consumer.process(lambda _: time.sleep(10.0), concurrency=1, drain_timeout_ms=5000)

    def close(sim: Simulation, consumer: KafkaConsumer) -> None:
        time.sleep(8.0)
        try:
            consumer.close(timeout_ms=5000)
        except KafkaError as error:
            raised.append(error)

    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=1)
        orders.write(1)
        member = sim.member(work, sim)
        sim.run(for_=9)
        member.freeze()
        sim.run(for_=12)
        member.thaw()
        sim.run(for_=5)
    assert raised == []
    assert sim.brokers.committed("billing", "orders", 0) == 1


def test_why_says_how_many_records_the_handlers_have_yet_to_finish() -> None:
    said: list[str] = []

    def work() -> None:
        with a_consumer("classic") as consumer:

            def slowly(_record: Any) -> None:
                time.sleep(2.0)
                said.append(consumer.why())

            consumer.process(slowly, concurrency=1)

    with Simulation(1) as sim:
        sim.topic("orders", partitions=1, records=10)
        sim.member(work)
        sim.run(for_=15.0)

    finished = [
        re.search(r"he handlers of process\(\) have yet to finish (\d+) delivered records", one)
        for one in said[:5]
    ]
    assert [one and one[1] for one in finished] == ["10", "9", "8", "7", "6"]
    for one, left in zip(said, (10, 9, 8, 7, 6), strict=False):
        assert f"the first was given to one 2.0 s ago; {left - 1} wait for one" in one
    assert all("nothing new" in one for one in said[:5])


def test_a_partition_that_process_has_paused_waits_for_the_handlers() -> None:
    """And the one that the user has paused for the user."""
    seen: list[Any] = []
    told: list[Mapping[str, Any]] = []

    def work() -> None:
        with a_consumer("classic") as consumer:
            consumer.on_event(told.append, level="debug")

            def slowly(record: Any) -> None:
                if record.partition == 0 and record.offset == 0:
                    for _ in range(8):
                        time.sleep(1.0)
                        seen.append(consumer.status())

            class PausesOne(ConsumerRebalanceListener):
                def on_partitions_assigned(self, _assigned: Any) -> None:
                    consumer.pause(TopicPartition("orders", 1))

                def on_partitions_revoked(self, _revoked: Any) -> None:
                    """Not of interest."""

            consumer.subscribe(["orders"], listener=PausesOne())
            consumer.process(slowly, concurrency=1, max_pending=10)

    with Simulation(1) as sim:
        sim.trickle(sim.topic("orders", partitions=2, records=60), per_second=10, seconds=20)
        sim.member(work)
        sim.run(for_=15.0)

    of_process, of_user = (TopicPartition("orders", number) for number in range(2))
    for number, status in enumerate(seen[2:8], 3):
        assert status.partitions[of_process].waiting_for is WaitingFor.APPLICATION
        assert status.partitions[of_process].because.startswith(
            f"the handlers of process() have yet to finish 10 delivered records: the first was"
            f" given to one {number}.0 s ago; 9 wait for one"
        )
        assert status.why.count("the handlers of process()") == 1
        assert "the application has paused reading" not in status.why
        assert status.healthy
        assert status.partitions[of_user].waiting_for is WaitingFor.PAUSED
    stalls = [one for one in told if one["event"] == "delivery.stalled"]
    assert {(one["partition"], one["reason"]) for one in stalls} == {("orders-0", "application")}
    (over, *_) = [one for one in told if one["event"] == "delivery.resumed"]
    assert over["because"] == "records were delivered"
    assert 7.0 < over["seconds"] < 9.0
