"""Groups that begin at the end of their topics ("latest"), while these get partitions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import pytest
from kafka.errors import KafkaError

from aktor import KafkaConsumer, OffsetAndMetadata, TopicPartition
from aktor.simulation import Simulation
from aktor.simulation.faults.chaos import SURVIVABLE
from tests.gate import all_but_the_first

CALM = {"topic_grown": 1}

#: Everything that a group survives, mostly growth: its members die, are replaced and expelled
#: before they have committed for a new partition.
STORM = {**SURVIVABLE, "topic_grown": 20, "member_killed": 6, "session_expired": 4}

#: The traced one: the first owner of a new partition loses its coordinator and is replaced, the
#: topic grows again, and the partition's next owner has not seen it come.
FOUND = {"topic_grown": 2, "leader_move": 2, "coordinator_move": 1, "broker_crash": 1}


def go_through(
    protocol: str, weights: Mapping[str, float], seed: int, *, rate: float, **settings: Any
) -> Simulation:
    """KAFKA-12261. The topic is empty when the group begins, so the check that every record is
    finished demands all of them."""
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=1, records=0)
        sim.consumers(
            group="g",
            topics=[orders],
            count=2,
            group_protocol=protocol,
            auto_offset_reset="latest",
            **settings,
        )
        sim.run(for_=15)
        sim.trickle(orders, per_second=20, seconds=60)
        sim.chaos(rate=rate, for_=60, weights=weights).run(for_=60)
        sim.heal().progress().check()

        assert orders.partitions > 1
        return sim


@pytest.mark.parametrize(
    ("protocol", "kind", "seed"),
    all_but_the_first(
        1,
        [("consumer", "storm", 0), ("classic", "storm", 1), ("classic", "calm", 0)],
    ),
)
def test_no_record_is_lost_while_a_topic_grows(protocol: str, kind: str, seed: int) -> None:
    weights, rate = {"storm": (STORM, 0.3), "calm": (CALM, 0.2)}[kind]
    go_through(protocol, weights, seed, rate=rate)


def test_the_next_owner_of_a_new_partition_reads_what_the_first_one_did_not_commit() -> None:
    sim = go_through("consumer", FOUND, 2, rate=0.2)

    judged = {
        partition: (event["new"], event["because"])
        for event in sim.history.named("partition.judged")
        for partition in event["partitions"]
    }
    assert judged.pop("orders-0") == (False, "it is the first partition of its topic")
    assert (True, "its topic had 1 partitions when the group began to follow it") in judged.values()
    assert all(new for new, _ in judged.values())


#: How long the application handles what it was given, and after how much of that its topic is made
#: anew. The metadata knows by then that it is deleted, and not yet that there is another one.
TIMINGS = ((1.45, 0.95), (2.03, 1.56), (4.11, 3.34))


def given_while_the_topic_is_made_anew(
    protocol: str, commits: str, seed: int, *, busy: float, until_made_anew: float
) -> list[list[int]]:
    """The offsets that a consumer is given, poll by poll: first some of the old topic, then those
    of the new one, which has ten records from the start."""
    given: list[list[int]] = []

    def work() -> None:
        consumer = KafkaConsumer(
            "orders",
            group_id="g",
            group_protocol=protocol,
            auto_offset_reset="latest",
            enable_auto_commit=commits == "automatically",
            auto_commit_interval_ms=100,
            allow_auto_create_topics=False,
            metadata_max_age_ms=1000,
        )
        while True:
            for records in consumer.poll(timeout_ms=1000).values():
                given.append([record.offset for record in records])
                if len(given) == 1:
                    time.sleep(busy)
                with contextlib.suppress(KafkaError):
                    if commits == "its position":
                        consumer.commit(timeout_ms=500)
                    elif commits == "named offsets":
                        after = OffsetAndMetadata(records[-1].offset + 1, "", -1)
                        consumer.commit({TopicPartition("orders", 0): after}, 500)

    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=1, records=0)
        sim.member(work)
        sim.run(for_=15)
        orders.write(5)
        sim.run(until=lambda: bool(given), at_most=5)
        sim.brokers.delete_topic(orders)
        sim.run(for_=until_made_anew)
        sim.brokers.create_topic(orders, 1)
        orders.write(10)
        sim.run(for_=20)
    return given


@pytest.mark.parametrize(
    ("protocol", "commits"),
    [
        ("classic", "automatically"),
        pytest.param("classic", "its position", marks=pytest.mark.gate),
        ("classic", "named offsets"),
        pytest.param("consumer", "automatically", marks=pytest.mark.gate),
        pytest.param("consumer", "its position", marks=pytest.mark.gate),
        pytest.param("consumer", "named offsets", marks=pytest.mark.gate),
    ],
)
def test_no_record_of_a_topic_that_is_made_anew_is_lost_by_a_commit_of_the_old_one(
    protocol: str, commits: str
) -> None:
    """Found by a real Kafka: the last commit before a revocation named the topic by its name."""
    for seed, (busy, gap) in enumerate(TIMINGS, start=4):
        given = given_while_the_topic_is_made_anew(
            protocol, commits, seed, busy=busy, until_made_anew=gap
        )
        assert [offset for offsets in given[1:] for offset in offsets] == [*range(10)], seed
