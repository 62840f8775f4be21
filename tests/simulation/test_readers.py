"""Readers: in whatever way they take their records, and whatever they do besides."""

from __future__ import annotations

import time

import pytest

from aktor import KafkaConsumer
from aktor.simulation import Simulation
from aktor.simulation.programs.ways import WAYS, WAYS_BY_TURNS
from aktor.simulation.selftest.books import Books
from aktor.simulation.world.interrupts import HANDLERS
from tests.gate import all_but_the_first


@pytest.mark.parametrize("way", [*WAYS, *WAYS_BY_TURNS])
def test_everything_is_read_in_every_way(way: str) -> None:
    with Simulation(3) as sim:
        orders = sim.topic("orders", partitions=3, records=300)
        sim.consumers(group="g", topics=[orders], count=2, way=way, looked_at=True)
        sim.chaos(rate=0.3, for_=20).run(for_=20)
        sim.heal().progress().check()


def test_elections_in_what_an_iteration_has_left_show_in_no_commit() -> None:
    """Each committed offset has the leader epoch of the record before it: the check compares."""
    with Simulation(3) as sim:
        orders = sim.topic("orders", partitions=1)
        for _ in range(5):
            orders.write(20)
            sim.brokers.move_leader(orders, 0)
        sim.consumers(group="g", topics=[orders], way="leaves some", enable_auto_commit=False)

        sim.progress().check()

        stored = {one["epoch"] for one in sim.history.named("offset.committed")}
        assert len(stored) == 5


def test_a_thread_that_looks_at_the_consumer_looks_on() -> None:
    with Simulation(3) as sim:
        orders = sim.topic("orders", records=10)
        (member,) = sim.consumers(group="g", topics=[orders], looked_at=True)
        sim.run(for_=20)

        assert [task.over for task in member.tasks] == [False, False]


@pytest.mark.parametrize("group", ["h", None])
def test_who_assigns_itself_its_partitions_reads_those_that_come_as_well(group: str | None) -> None:
    with Simulation(5) as sim:
        orders = sim.topic("orders", partitions=2, records=100)
        sim.consumers(group=group, topics=[orders], by_hand=True)
        sim.run(for_=5)
        sim.brokers.grow_topic(orders, 3)
        orders.write(50, partition=2)
        sim.run(for_=20)
        sim.run(until=lambda: sim.members[0].hosts[-1].has_read_all, at_most=30)
        if group is not None:
            sim.progress(at_most=10)
        sim.check()


@pytest.mark.parametrize(
    ("by_hand", "commits"),
    all_but_the_first(1, [(False, True), (True, False)]),
)
def test_each_habit_leaves_a_loop_that_reads_on(by_hand: bool, commits: bool) -> None:
    with Simulation(7) as sim:
        orders = sim.topic("orders", partitions=3, records=100)
        sim.trickle(orders, per_second=20, seconds=30)
        (member,) = sim.consumers(
            group="g", topics=[orders], by_hand=by_hand, enable_auto_commit=commits
        )
        # What readers do besides they do while there are faults: a mild one.
        sim.chaos(rate=0.1, for_=30, weights={"seek": 1}).run(for_=30)
        sim.heal().progress().check()

        asked = {one["event"] for one in sim.history.events if one["member"] == member.name}
        assert {"position.sought", "partitions.paused", "partitions.resumed"} <= asked


#: Each handler in one way or the other, which take turns.
HANDLED = [(["polls", "iterates"][number % 2], handler) for number, handler in enumerate(HANDLERS)]


@pytest.mark.parametrize(
    ("way", "handler"),
    all_but_the_first(2, [("takes one", "close"), *HANDLED]),
)
def test_whatever_a_signal_handler_does_everything_is_read(way: str, handler: str) -> None:
    with Simulation(9) as sim:
        orders = sim.topic("orders", partitions=3, records=50)
        sim.trickle(orders, per_second=20, seconds=20)
        (member,) = sim.consumers(group="g", topics=[orders], way=way)
        for signal in range(20):
            sim.run(for_=1.0)
            member.interrupt(signal * 20, handler)
        sim.progress().check()

        assert len(list(sim.history.named("user.interrupted"))) > 10


def test_no_signal_comes_where_a_consumer_is_being_made() -> None:
    with Simulation(9) as sim:
        orders = sim.topic("orders", records=50)
        (member,) = sim.consumers(group="g", topics=[orders])
        member.interrupt(0, "ctrl-c")
        sim.progress().check()

        (interrupted,) = sim.history.named("user.interrupted")
    assert interrupted["member"] == member.name


def test_bytes_are_counted_once_though_a_call_was_interrupted_while_it_filed_them() -> None:
    def reader() -> None:
        consumer = KafkaConsumer("orders", bootstrap_servers="kafka:9092", group_id="g")
        while True:
            try:
                consumer.poll(timeout_ms=500)
            except KeyboardInterrupt:
                time.sleep(1.5)  # nothing is asked of the consumer meanwhile

    with Simulation(9) as sim:
        orders = sim.topic("orders")
        member = sim.member(reader)
        Books(sim).watch()
        for line in range(60):
            member.interrupt(line, "ctrl-c")
            orders.write(1)
            sim.run(for_=3.0)
        sim.check()
