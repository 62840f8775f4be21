"""kafka-python's producer in the hands of a member: its own code, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.partitioner import murmur2
from kafka.structs import OffsetAndMetadata

from aktor import KafkaConsumer
from aktor.broker.faults import Drop, Fault
from aktor.simulation import CheckFailedError, Simulation, Stored

VALUES = [b"%d" % number for number in range(30)]


def producer(**configs: Any) -> KafkaProducer:
    return KafkaProducer(**{"bootstrap_servers": "kafka:9092", **configs})


def values(sim: Simulation, topic: str = "orders") -> list[bytes | None]:
    return sorted((one.value for one in sim.brokers.records(topic)), key=VALUES.index)  # type: ignore[arg-type]


def run(work: Callable[[], None], seed: int = 1, partitions: int = 3) -> Simulation:
    """One member does this, to its end."""
    with Simulation(seed) as sim:
        sim.topic("orders", partitions=partitions)
        sim.member(work)
        sim.run().check()
        return sim


def test_what_is_sent_is_written_where_its_key_says_and_when_the_simulation_says() -> None:
    metadata: list[Any] = []

    def work() -> None:
        with producer(key_serializer=str.encode) as one:
            assert one.partitions_for("orders") == {0, 1, 2}
            sent = [one.send("orders", value, key=value.decode()) for value in VALUES]
            metadata.extend(future.get(timeout=5) for future in sent)

    sim = run(work)

    stored = {(one.partition, one.offset): one for one in sim.brokers.records("orders")}
    assert len(stored) == len(VALUES)
    for value, meta in zip(VALUES, metadata, strict=True):
        one = stored[meta.partition, meta.offset]
        assert (one.key, one.value, one.timestamp) == (value, value, meta.timestamp)
        assert meta.partition == (murmur2(value) & 0x7FFFFFFF) % 3
        assert 0 <= one.timestamp / 1000 - 1_700_000_000 <= sim.now


def test_headers_are_what_was_sent() -> None:
    headers = [("of", b"1"), ("none", b"")]

    sim = run(lambda: producer().send("orders", b"1", headers=headers).get(timeout=5))

    [one] = sim.brokers.records("orders")
    assert list(one.headers) == headers


@pytest.mark.parametrize(("idempotent", "times"), [(True, 1), (False, 2)])
def test_a_batch_whose_answer_is_lost_is_sent_again(idempotent: bool, times: int) -> None:
    """By its sequence number a broker knows it again; without one it is there twice."""
    with Simulation(1) as sim:
        sim.topic("orders")
        sim.network.disturb(Fault(action=Drop(before=False), api="Produce"))
        sim.member(
            lambda: (
                producer(enable_idempotence=idempotent, retries=5)
                .send("orders", b"1")
                .get(timeout=30)
            )
        )
        sim.run().check()

        assert values(sim) == [b"1"] * times


def test_a_producer_goes_on_with_the_next_leader() -> None:
    def work() -> None:
        one = producer()
        for value in VALUES:
            one.send("orders", value).get(timeout=60)
            if value == VALUES[9]:
                sim.brokers.crash(sim.brokers.leader("orders", 0))

    with Simulation(1) as sim:
        sim.topic("orders")
        sim.member(work)
        sim.run().check()

        assert values(sim) == VALUES


def test_who_is_cut_off_cannot_send() -> None:
    def work() -> None:
        one = producer(delivery_timeout_ms=8_000, request_timeout_ms=3_000)
        one.send("orders", b"0").get(timeout=5)
        for node in (1, 2, 3):
            sim.network.cut_link("alice", node)
        with pytest.raises(KafkaTimeoutError):
            one.send("orders", b"1").get(timeout=20)
        one.close(timeout=1)
        with pytest.raises(KafkaTimeoutError):
            producer(bootstrap_timeout_ms=4_000)

    with Simulation(1) as sim:
        sim.topic("orders")
        sim.member(work)
        sim.run()
        assert 10 < sim.now < 40


def test_callbacks_are_called_as_the_member_and_may_wait() -> None:
    with Simulation(1) as sim:
        orders = sim.topic("orders", records=3)
        sink = sim.sink(orders, "exactly-once")

        def work() -> None:
            one = producer()
            for value in orders.values:
                one.send("orders", b"again").add_callback(lambda _, value=value: sink.put(value))
            one.flush()
            sim.sleep(1.0)

        sim.member(work)
        sim.run()

        assert [effect.member for effect in sink.effects] == ["alice"] * 3


def open_a_transaction(transactional_id: str = "billing", **configs: Any) -> KafkaProducer:
    one = producer(transactional_id=transactional_id, transaction_timeout_ms=5_000, **configs)
    one.init_transactions()
    one.begin_transaction()
    return one


def test_a_transaction_is_committed_or_aborted_as_a_whole() -> None:
    def work() -> None:
        one = open_a_transaction()
        for value in VALUES[:10]:
            one.send("orders", value)
        one.commit_transaction()
        one.begin_transaction()
        for value in VALUES[10:]:
            one.send("orders", value)
        one.flush()
        one.abort_transaction()

    assert values(run(work)) == VALUES[:10]


def test_who_is_killed_leaves_its_transaction_open_until_it_times_out() -> None:
    def dies() -> None:
        one = open_a_transaction()
        one.send("orders", b"0").get(timeout=5)
        sim.me.kill()
        sim.sleep(1.0)

    with Simulation(1) as sim:
        orders = sim.topic("orders")
        sim.member(dies)
        sim.run(for_=2.0)
        orders.write(1)

        assert list(sim.brokers.records("orders")) == []  # nothing behind it is stable
        sim.run(for_=20.0)
        assert [one.value for one in sim.brokers.records("orders")] == orders.values
        sim.check()


def test_the_next_producer_of_a_transactional_id_fences_the_one_before() -> None:
    def first() -> None:
        one = open_a_transaction()
        one.send("orders", b"0").get(timeout=5)
        sim.sleep(3.0)
        with pytest.raises(ProducerFencedError):
            one.commit_transaction()

    def second() -> None:
        sim.sleep(2.0)
        one = open_a_transaction()
        one.send("orders", b"1")
        one.commit_transaction()

    with Simulation(1) as sim:
        sim.topic("orders")
        for work in (first, second):
            sim.member(work)
        sim.run().check()

        assert values(sim) == [b"1"]


def test_a_frozen_process_sends_nothing() -> None:
    def work() -> None:
        one = producer(linger_ms=500)
        one.send("orders", b"0")
        sim.sleep(60.0)

    with Simulation(1) as sim:
        sim.topic("orders")
        alice = sim.member(work)
        sim.run(for_=0.4)
        alice.freeze()
        sim.run(for_=5.0)
        assert values(sim) == []
        alice.thaw()
        sim.run(for_=1.0)
        assert values(sim) == [b"0"]


def copy() -> None:
    """Consumes orders, and copies them to invoices."""
    one = producer(transactional_id="billing", transaction_timeout_ms=5_000)
    one.init_transactions()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers="kafka:9092",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    while True:
        batches = consumer.poll(timeout_ms=500)
        if not batches:
            continue
        one.begin_transaction()
        for record in (record for records in batches.values() for record in records):
            one.send("invoices", record.value)
        read = {at: OffsetAndMetadata(some[-1].offset + 1, "", -1) for at, some in batches.items()}
        one.send_offsets_to_transaction(read, consumer.group_metadata())
        one.commit_transaction()


def judge(work: Callable[[], None], seed: int, **configs: Any) -> Simulation:
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=2, records=50)
        sim.sink(orders, "exactly-once", into=sim.topic("invoices", partitions=2), **configs)
        sim.member(work)
        sim.progress().check()
        return sim


def test_a_topic_is_a_sink() -> None:
    sim = judge(copy, 1)

    [sink] = sim.sinks
    assert (sink.missing(), sink.repeated()) == ([], [])


def test_a_record_that_is_copied_twice_has_a_story() -> None:
    def work() -> None:
        with producer() as one:
            one.send("invoices", b"orders:7").get(timeout=5)
        copy()

    with pytest.raises(CheckFailedError) as found:
        judge(work, 1)

    assert found.value.checks == {"exactly-once"}
    story = str(found.value)
    assert "had its effect more than once (b'orders:7')" in story
    assert story.count(" for it") == 2
    assert "alice wrote invoices-" in story
    assert "alice was given orders-" in story
    assert "group billing committed orders-" in story


def test_results_may_look_otherwise() -> None:
    def place(result: Stored) -> tuple[int, int]:
        return places[result.value or b""]

    with Simulation(1) as sim:
        orders = sim.topic("orders", partitions=2, records=50)
        stored = sim.brokers.records(orders)
        places = {one.value or b"": (one.partition, one.offset) for one in stored}
        sink = sim.sink(orders, "exactly-once", into=sim.topic("invoices"), of=place)
        sim.member(copy)
        sim.progress().check()

        assert (sink.missing(), sink.repeated()) == ([], [])


def test_results_that_are_of_no_record_are_a_mistake_of_the_test() -> None:
    with pytest.raises(ValueError, match="no record of invoices is the result of one of orders"):
        judge(copy, 1, of=lambda result: b"?" + (result.value or b""))


def test_nothing_is_put_into_a_topic() -> None:
    with Simulation(1) as sim:
        orders = sim.topic("orders", records=1)
        sink = sim.sink(orders, into=sim.topic("invoices"))
        with pytest.raises(TypeError, match="send to it by a KafkaProducer"):
            sink.put(b"orders:0")
        with pytest.raises(TypeError, match=r"a topic that Simulation\.topic made"):
            sim.sink(orders, into="invoices")  # type: ignore[arg-type]


def test_the_same_seed_has_the_same_history() -> None:
    def story(seed: int) -> str:
        with Simulation(seed) as sim:
            sim.topic("invoices", partitions=3)
            sim.topic("orders", partitions=3, records=100)
            sim.member(copy)
            sim.network.loss = 0.02
            sim.run(for_=5.0)
            return sim.history.text()

    assert story(1) == story(1) != story(2)


def test_nobody_else_has_a_simulated_producer() -> None:
    real = KafkaProducer.__init__

    def outside() -> None:
        with pytest.raises(KafkaError):
            KafkaProducer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=200)

    with Simulation(1) as sim:
        sim.topic("orders")
        sim.member(lambda: producer().send("orders", b"1").get(timeout=5))
        sim.run()
        outside()
        assert KafkaProducer.__init__ is not real
    assert KafkaProducer.__init__ is real
