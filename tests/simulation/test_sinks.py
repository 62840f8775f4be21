"""Sinks: a loop is judged by what became of each record, and the judgement tells its story."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaError

from aktor import KafkaConsumer
from aktor.simulation import CheckFailedError, Guarantee, Simulation, Sink, Topic

PARTITION = re.compile(r"orders-\d")

Loop = Callable[[Sink], None]


def a_consumer() -> KafkaConsumer:
    return KafkaConsumer(
        "orders",
        bootstrap_servers="kafka:9092",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
    )


def commit_before(invoices: Sink) -> None:
    consumer = a_consumer()
    while True:
        for records in consumer.poll(timeout_ms=500).values():
            consumer.commit()
            for record in records:
                invoices.put(record)


def commit_after(invoices: Sink) -> None:
    consumer = a_consumer()
    while True:
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                invoices.put(record)
        consumer.commit()


def commit_after_and_recognise(invoices: Sink) -> None:
    consumer = a_consumer()
    while True:
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                invoices.put_once(record)
        consumer.commit()


def killed_at_work(loop: Loop, guarantee: str) -> Simulation:
    """Alice is killed amid her records, bob goes on."""
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", partitions=2, records=40)
        invoices = sim.sink(orders, guarantee)
        alice = sim.member(loop, invoices)
        sim.run(until=lambda: len(invoices.effects) == 5, at_most=10.0)
        alice.kill()
        sim.member(loop, invoices)
        return sim.progress()


def complaint_of(sim: Simulation) -> str:
    with pytest.raises(CheckFailedError) as caught:
        sim.check()
    assert caught.value.checks == {sim.sinks[0].guarantee}
    return str(caught.value)


def test_who_commits_first_and_dies_loses_records() -> None:
    sim = killed_at_work(commit_before, "at-least-once")

    said = complaint_of(sim)

    assert re.search(r"at-least-once: orders-\d:\d+ never had its effect, and still exists", said)
    assert len(sim.sinks[0].missing()) > 5


def test_the_story_says_who_had_the_record_and_what_happened_in_ten_lines() -> None:
    said = complaint_of(killed_at_work(commit_before, "at-least-once"))

    story = said.split("still exists")[1].split("at-least-once:")[0].splitlines()[1:]
    assert len(story) <= 10
    told = [re.sub(r"^ +[\d.]+  ", "", line) for line in story]
    place = r"orders-\d:\d+"
    assert re.fullmatch(f"{place} was written", told[0])
    assert re.fullmatch(rf"alice was given {place}\.\.\d+", told[1])
    assert re.fullmatch(f"group billing committed {place}", told[2])
    assert told[3:] == ["alice was killed", f"bob was assigned {PARTITION.findall(told[1])[0]}"]


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_each_order_of_commit_and_work_keeps_its_own_guarantee(guarantee: str) -> None:
    loop = commit_after if guarantee == "at-least-once" else commit_before
    killed_at_work(loop, guarantee).check()


def test_who_commits_last_and_dies_repeats_records() -> None:
    said = complaint_of(killed_at_work(commit_after, "exactly-once"))

    assert re.search(r"exactly-once: orders-\d:\d+ had its effect more than once", said)
    assert re.search(r"alice put orders-\d:\d+ into the sink\n.*\n.*bob put orders-", said, re.S)


def test_a_sink_that_recognises_records_makes_it_exactly_once() -> None:
    killed_at_work(commit_after_and_recognise, "exactly-once").check()


def test_records_are_known_by_their_values_too() -> None:
    def loop(invoices: Sink) -> None:
        consumer = a_consumer()
        while True:
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    if record.value != b"orders:7":
                        invoices.put(record.value)
            consumer.commit()

    said = complaint_of(killed_at_work(loop, "at-least-once"))

    assert "never had its effect, and still exists (b'orders:7')" in said
    assert "more records" not in said


def test_what_no_longer_exists_is_not_missing() -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", records=20)
        invoices = sim.sink(orders)
        sim.brokers.delete_topic(orders)
        sim.brokers.create_topic(orders, 1)
        orders.write(10)
        sim.run(for_=1.0)

        assert [one.value for one in invoices.missing()] == orders.values[-10:]


def test_a_record_is_judged_apart_from_the_one_that_had_its_offset_before() -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", records=20)
        invoices = sim.sink(orders)
        alice = sim.member(commit_after, invoices)
        sim.progress()
        alice.kill()
        sim.brokers.delete_topic(orders)
        sim.run(for_=1.0)
        sim.brokers.create_topic(orders, 1)
        orders.write(10)
        sim.run(for_=0.1)

        assert len(invoices.missing()) == 10


def test_aborted_and_open_transactions_have_no_effect() -> None:
    with Simulation(seed=3) as sim:
        orders = sim.topic("orders", partitions=2)
        invoices = sim.sink(orders)
        sim.transactions(orders, seconds=20.0)
        sim.run(for_=60.0)

        ended = {one["commit"] for one in sim.history.named("transaction.ended")}
        assert ended == {True, False}
        assert 0 < len(invoices.missing()) < len(orders.values)


def test_who_is_still_at_work_is_waited_for() -> None:
    """They commit at once and are slow then, and nobody dies."""

    def loop(sim: Simulation, invoices: Sink) -> None:
        consumer = a_consumer()
        while True:
            for records in consumer.poll(timeout_ms=500).values():
                consumer.commit()
                for record in records:
                    sim.sleep(2.0)
                    invoices.put(record)

    with Simulation(seed=1) as sim:
        invoices = sim.sink(sim.topic("orders", records=20))
        sim.member(loop, sim, invoices)

        sim.progress().check()

        assert len(invoices.effects) == 20


def test_nothing_is_lost_before_everything_is_committed() -> None:
    with Simulation(seed=1) as sim:
        sim.sink(sim.topic("orders", records=20))

        sim.run(for_=1.0).check()


def test_loops_that_keep_their_promise_survive_what_workers_die_of() -> None:
    def survives(invoices: Sink) -> None:
        while True:
            try:
                commit_after(invoices)
            except KafkaError:
                continue

    with Simulation(seed=5) as sim:
        orders = sim.topic("orders", partitions=4)
        sim.trickle(orders, per_second=10, seconds=30.0)
        invoices = sim.sink(orders)
        for _ in range(2):
            sim.member(survives, invoices)
        sim.chaos(for_=30.0, weights={"member_killed": 1, "member_frozen": 1}).run(for_=30.0)
        sim.heal().progress().check()

        assert not invoices.missing()


def misspelt(sim: Simulation, orders: Topic) -> None:
    sim.sink(orders, "at-least-ones")


def no_topic(sim: Simulation, _: Topic) -> None:
    sim.sink("orders")  # type: ignore[arg-type]


def no_record(sim: Simulation, orders: Topic) -> None:
    sim.sink(orders).put(7)


def of_another_topic(sim: Simulation, orders: Topic) -> None:
    record = next(sim.brokers.records(sim.topic("refunds", records=1)), None)
    sim.sink(orders).put(record)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (misspelt, "no guarantee 'at-least-ones'"),
        (no_topic, "a topic that Simulation.topic made"),
        (no_record, "a record that poll returned"),
        (of_another_topic, "the sink of orders, but the record is of refunds"),
    ],
)
def test_mistakes_are_named(mistake: Callable[[Simulation, Topic], Any], said: str) -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", records=1)
        sim.run(for_=1.0)

        with pytest.raises((TypeError, ValueError), match=said):
            mistake(sim, orders)


def test_the_guarantees_have_names() -> None:
    assert {str(one) for one in Guarantee} == {"at-least-once", "at-most-once", "exactly-once"}
