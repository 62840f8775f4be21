"""`shrink` leaves out the faults that a user's failing seed does not need."""

from __future__ import annotations

import functools
import re
import time

import pytest

from aktor import KafkaConsumer
from aktor.simulation import (
    CheckFailedError,
    MemberFailedError,
    Shrunk,
    Simulation,
    Sink,
    TimeIsUpError,
    shrink,
)


def commit_before(invoices: Sink) -> None:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers="kafka:9092",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
    )
    while True:
        for records in consumer.poll(timeout_ms=500).values():
            consumer.commit()
            for record in records:
                invoices.put(record)


def judge(seed: int) -> None:
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=2, records=100)
        invoices = sim.sink(orders)
        sim.member(commit_before, invoices)
        sim.chaos(rate=0.5, for_=20.0, weights=dict.fromkeys(HARMLESS, 1), killed_at_line=1)
        sim.run(for_=20.0).heal().progress().check()


HARMLESS = ("leader_move", "connections_reset", "slow_network", "loss")


def a_seed_that_fails() -> int:
    for seed in range(20):
        try:
            judge(seed)
        except CheckFailedError:
            return seed
    raise AssertionError("no seed fails")


@functools.cache
def shrunk_once() -> tuple[int, Shrunk, list[tuple[int, int]]]:
    """A seed, what is left of its faults, and what was heard meanwhile. It takes seconds."""
    heard: list[tuple[int, int]] = []
    seed = a_seed_that_fails()
    return seed, shrink(judge, seed, lambda left, tries: heard.append((left, tries))), heard


def test_only_the_fault_that_matters_is_left() -> None:
    seed, shrunk, heard = shrunk_once()

    assert [one.kind for one in shrunk.faults] == ["killed_at_line"]
    assert isinstance(shrunk.error, CheckFailedError)
    assert heard[-1] == (1, shrunk.tries)
    said = str(shrunk)
    assert said.startswith(f"seed {seed} fails alike with 1 of ")
    assert f"again: Simulation({seed}, without={{" in said
    assert "never had its effect" in said


@pytest.mark.gate
def test_what_is_said_to_be_left_out_may_be_left_out_by_hand() -> None:
    seed, shrunk, _ = shrunk_once()
    without = shrunk.without

    with Simulation(seed, without=without) as sim:
        orders = sim.topic("orders", partitions=2, records=100)
        invoices = sim.sink(orders)
        sim.member(commit_before, invoices)
        sim.chaos(rate=0.5, for_=20.0, weights=dict.fromkeys(HARMLESS, 1), killed_at_line=1)
        sim.run(for_=20.0).heal().progress()

        with pytest.raises(CheckFailedError, match="never had its effect"):
            sim.check()


def test_a_seed_that_needs_no_fault_is_left_without() -> None:
    def stumbles(seed: int) -> None:
        def work() -> None:
            time.sleep(5.0)
            raise KeyError("orders")

        with Simulation(seed) as sim:
            sim.topic("orders")
            sim.member(work)
            sim.chaos(rate=1.0, for_=20.0, weights={"leader_move": 1}).run(for_=20.0)

    shrunk = shrink(stumbles, 1)

    assert shrunk.faults == ()
    assert isinstance(shrunk.error, MemberFailedError)
    assert "fails alike with 0 of " in str(shrunk)


def test_another_failure_is_not_the_same() -> None:
    """Without its fault it fails as well, but otherwise."""

    def fails(seed: int) -> None:
        with Simulation(seed) as sim:
            sim.topic("orders")
            sim.chaos(rate=1.0, for_=5.0, weights={"leader_move": 1}).run(for_=5.0)
            began = len(list(sim.history.named("fault.began")))
            assert began < 2, "two"
            raise LookupError

    assert len(shrink(fails, 1).faults) == 2


def test_who_does_not_fail_cannot_be_shrunk() -> None:
    def passes(seed: int) -> None:
        Simulation(seed).end()

    with pytest.raises(ValueError, match="seed 7 does not fail"):
        shrink(passes, 7)


# -- what is waited for in vain


def reads(topic: str, *, commit: bool = False) -> None:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers="kafka:9092",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=commit,
    )
    while True:
        consumer.poll(timeout_ms=1000)


def test_time_that_is_up_says_who_owns_what_is_left_and_what_that_waits_for() -> None:
    with Simulation(seed=1) as sim:
        sim.member(reads, sim.topic("orders", records=10))

        with pytest.raises(TimeIsUpError) as raised:
            sim.progress(at_most=10.0)

    assert "10 of orders by group billing" in str(raised.value)
    assert re.search(
        r"orders-0 \(end 10, leader b\d\): nothing committed; alice owns it, is at 10 and waits",
        str(raised.value),
    )


def test_time_that_is_up_says_that_nobody_owns_it() -> None:
    with Simulation(seed=1) as sim:
        alice = sim.member(reads, sim.topic("orders", records=10), commit=True)
        sim.run(for_=1.0)
        alice.freeze()

        with pytest.raises(TimeIsUpError, match="alice owns it, is at 10 and stands still"):
            sim.progress(at_most=10.0)

        alice.kill()
        with pytest.raises(TimeIsUpError, match=r"members of billing are .*; no process"):
            sim.progress(at_most=10.0)


def test_a_condition_that_does_not_come_says_who_waits() -> None:
    with Simulation(seed=1) as sim:
        sim.member(lambda: time.sleep(60.0))

        with pytest.raises(TimeIsUpError, match=r"alice waits for its own sleep of 60 s"):
            sim.run(until=lambda: False, at_most=10.0)
