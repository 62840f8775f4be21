"""How long things take, in virtual time: exactly ours, whatever the machine and Kafka do.

The tests on brokers look at the same calls, and allow for a machine that others share.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from aktor import KafkaConsumer
from aktor.errors import WakeupError
from aktor.simulation import Simulation
from aktor.simulation.world.cluster import SETTINGS
from tests.gate import all_but_the_first

Manner = Literal["eager", "cooperative", "consumer"]
EAGER_FIRST = pytest.mark.parametrize(
    "manner", all_but_the_first(1, ["eager", "consumer", "cooperative"])
)
CONSUMER_FIRST = pytest.mark.parametrize(
    "manner", all_but_the_first(1, ["consumer", "eager", "cooperative"])
)
SEEDS = pytest.mark.parametrize("seed", all_but_the_first(1, range(2)))
ONE_SEED = pytest.mark.parametrize("seed", [0])

PARTITIONS = 6
BEAT_S, SESSION_S, MAX_POLL_S = 0.5, 6.0, 3.0

#: All that a rebalance takes once everybody has heard of it: polls of 100 ms, work of 20 ms.
TURNS_S = 0.4

BROKERS = replace(
    SETTINGS,
    groups=replace(
        SETTINGS.groups, consumer_heartbeat_interval=BEAT_S, consumer_session_timeout=SESSION_S
    ),
)
COMMON: dict[str, Any] = {
    "group_id": "g",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "max_poll_interval_ms": round(MAX_POLL_S * 1000),
}
CLASSIC = {
    "session_timeout_ms": round(SESSION_S * 1000),
    "heartbeat_interval_ms": round(BEAT_S * 1000),
}
SETTINGS_OF: dict[Manner, dict[str, Any]] = {
    "eager": {**COMMON, **CLASSIC},
    "cooperative": {
        **COMMON,
        **CLASSIC,
        "partition_assignment_strategy": [CooperativeStickyAssignor],
    },
    "consumer": {**COMMON, "group_protocol": "consumer"},
}


@dataclass
class Watched:
    """Three members under load; when each partition's records were delivered, and to whom."""

    sim: Simulation
    topic: str
    manner: Manner
    leaves: set[str] = field(default_factory=set)
    dawdles: set[str] = field(default_factory=set)
    shares: dict[str, set[int]] = field(default_factory=dict)
    delivered: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    def work(self, name: str) -> None:
        """What each member runs."""
        settings = SETTINGS_OF[self.manner]
        servers = self.sim.bootstrap_servers
        with KafkaConsumer(self.topic, bootstrap_servers=servers, **settings) as consumer:
            while name not in self.leaves:
                batches = consumer.poll(timeout_ms=100)
                self.shares[name] = {one.partition for one in consumer.assignment()}
                for one in batches:
                    self.delivered[one.partition].append(self.sim.now)
                if batches and name in self.dawdles:
                    self.dawdles.discard(name)
                    self.sim.sleep(2 * MAX_POLL_S)
                elif batches:
                    self.sim.sleep(0.02)
        del self.shares[name]

    def longest_waits(self, partitions: set[int], since: float) -> tuple[float, float]:
        """Between two deliveries of these partitions since then, or after the last, and of the
        others."""
        inside, outside = 0.0, 0.0
        for partition, times in self.delivered.items():
            later = [*(time for time in times if time >= since), self.sim.now]
            wait = max(b - a for a, b in itertools.pairwise(later))
            if partition in partitions:
                inside = max(inside, wait)
            else:
                outside = max(outside, wait)
        return inside, outside


def after_this_happens_to_a(
    seed: int, manner: Manner, happens: Callable[[Watched, Any], None], *, within: float
) -> tuple[float, float]:
    """The longest waits of its partitions and of those of others, so many seconds long."""
    with Simulation(seed, settings=BROKERS) as sim:
        watched = Watched(sim, sim.topic("orders", partitions=PARTITIONS), manner)
        members = {name: sim.member(watched.work, name, name=name) for name in "abc"}
        sim.run(until=lambda: sorted(map(len, watched.shares.values())) == [2, 2, 2])
        sim.trickle(sim.topics[0], per_second=20.0 * PARTITIONS, seconds=3.0 + within)
        sim.run(for_=2.0 + sim.random.random())
        owned, since = watched.shares["a"], sim.now - 1.0

        happens(watched, members["a"])
        sim.run(for_=within)

        return watched.longest_waits(owned, since)


@ONE_SEED
@CONSUMER_FIRST
def test_a_member_that_leaves_is_replaced_with_the_next_heartbeats(
    manner: Manner, seed: int
) -> None:
    of_a, of_others = after_this_happens_to_a(
        seed, manner, lambda watched, _: watched.leaves.add("a"), within=3.0
    )

    assert of_a < BEAT_S + TURNS_S
    assert of_others < BEAT_S + TURNS_S


@pytest.mark.gate
@ONE_SEED
@EAGER_FIRST
def test_a_killed_members_partitions_wait_for_its_session_and_those_of_others_do_not(
    manner: Manner, seed: int
) -> None:
    of_a, of_others = after_this_happens_to_a(
        seed, manner, lambda _, a: a.kill(), within=SESSION_S + 2.0
    )

    assert SESSION_S - BEAT_S < of_a < SESSION_S + BEAT_S + TURNS_S
    assert of_others < BEAT_S + TURNS_S


@pytest.mark.gate
@ONE_SEED
@CONSUMER_FIRST
def test_a_member_that_takes_too_long_is_replaced_while_it_is_still_at_work(
    manner: Manner, seed: int
) -> None:
    of_a, of_others = after_this_happens_to_a(
        seed, manner, lambda watched, _: watched.dawdles.add("a"), within=2 * MAX_POLL_S + 2.0
    )

    assert MAX_POLL_S < of_a < MAX_POLL_S + BEAT_S + TURNS_S
    assert of_others < BEAT_S + TURNS_S


# -- one call of one consumer


def one_member(
    seed: int,
    work: Callable[[Simulation, KafkaConsumer], Any],
    *,
    partitions: int = 1,
    **settings: Any,
) -> Any:
    """What this returns, done with a consumer that has read ten records of "orders"."""
    with Simulation(seed) as sim:
        topic = sim.topic("orders", partitions=partitions, records=10)

        def run() -> Any:
            together = {**SETTINGS_OF["eager"], **settings}
            servers = sim.bootstrap_servers
            with KafkaConsumer(topic, bootstrap_servers=servers, **together) as consumer:
                count = 0
                while count < 10:
                    count += sum(map(len, consumer.poll(timeout_ms=1000).values()))
                return work(sim, consumer)

        member = sim.member(run)
        sim.run(until=lambda: member.task.over)
        return member.task.result


def took(sim: Simulation, call: Callable[[], Any]) -> float:
    """How many seconds this call takes."""
    began = sim.now
    call()
    return sim.now - began


@SEEDS
@pytest.mark.parametrize("timeout_ms", [0, 1, 50, 300, 5000])
def test_a_poll_that_finds_nothing_takes_its_timeout_to_the_millisecond(
    timeout_ms: int, seed: int
) -> None:
    seconds = one_member(
        seed, lambda sim, consumer: took(sim, lambda: consumer.poll(timeout_ms=timeout_ms))
    )

    assert seconds == pytest.approx(timeout_ms / 1000, abs=0.001)


@SEEDS
def test_a_wakeup_ends_a_poll_at_once(seed: int) -> None:
    def wait(sim: Simulation, consumer: KafkaConsumer) -> float:
        sim.scheduler.after(0.3, consumer.wakeup)
        began = sim.now
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=2000)
        return sim.now - began

    assert one_member(seed, wait) == pytest.approx(0.3, abs=0.001)


@SEEDS
def test_a_call_that_no_broker_answers_takes_its_timeout_and_close_its_own(seed: int) -> None:
    def ask(sim: Simulation, consumer: KafkaConsumer) -> tuple[float, float]:
        for node in (1, 2, 3):
            sim.brokers.crash(node)
        began = sim.now
        with pytest.raises(KafkaTimeoutError):
            consumer.committed(TopicPartition("orders", 0), timeout_ms=1500)
        asked_at = sim.now
        consumer.close(timeout_ms=1000)
        return asked_at - began, sim.now - asked_at

    asked, closed = one_member(seed, ask)
    assert asked == pytest.approx(1.5, abs=0.01)
    assert closed <= 1.01


#: So long may a broker keep a Fetch; then whatever waits behind one is seen to.
LONG = {"fetch_max_wait_ms": 25_000}
ASKED: dict[str, Callable[[KafkaConsumer], Any]] = {
    "topics": lambda consumer: consumer.topics(),
    "end_offsets": lambda consumer: consumer.end_offsets([FIRST]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({FIRST: 0}),
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(FIRST),
    "position": lambda consumer: (consumer.seek_to_end(FIRST), consumer.position(FIRST)),
}
FIRST = TopicPartition("orders", 0)


@SEEDS
@pytest.mark.parametrize("question", ASKED)
def test_what_is_asked_does_not_wait_for_a_fetch(question: str, seed: int) -> None:
    def ask(sim: Simulation, consumer: KafkaConsumer) -> float:
        consumer.poll(timeout_ms=1000)
        return took(sim, lambda: ASKED[question](consumer))

    assert one_member(seed, ask, **LONG) < 0.1


@SEEDS
def test_another_coordinator_is_found_however_long_fetches_wait(seed: int) -> None:
    def commit(sim: Simulation, consumer: KafkaConsumer) -> float:
        consumer.poll(timeout_ms=1000)
        sim.brokers.crash(sim.brokers.coordinator("g"), clean=True)
        return took(sim, consumer.commit)

    assert one_member(seed, commit, partitions=6, **LONG) < 1.0


@SEEDS
def test_polls_take_their_time_while_all_brokers_are_down(seed: int) -> None:
    def look(sim: Simulation, consumer: KafkaConsumer) -> list[float]:
        for node in (1, 2, 3):
            sim.brokers.crash(node)
        return [took(sim, lambda: consumer.poll(timeout_ms=100)) for _ in range(100)]

    assert one_member(seed, look) == pytest.approx([0.1] * 100, abs=0.001)


@SEEDS
@pytest.mark.parametrize("partitions", all_but_the_first(1, [6, 1]))
def test_records_flow_again_within_seconds_after_all_brokers_were_down_for_a_minute(
    partitions: int, seed: int
) -> None:
    """Though the backoff of a connection that has failed for so long is half a minute."""

    def wait(sim: Simulation, consumer: KafkaConsumer) -> float:
        for node in (1, 2, 3):
            sim.brokers.crash(node)
        back_at = sim.now + 60.0
        while sim.now < back_at:
            consumer.poll(timeout_ms=100)
        for node in (1, 2, 3):
            sim.brokers.restart(node)
        began = sim.now
        sim.topics[0].write(100)
        missing = set(range(partitions))
        while missing:
            missing -= {one.partition for one in consumer.poll(timeout_ms=100)}
        return sim.now - began

    seconds = one_member(seed, wait, partitions=partitions, reconnect_backoff_max_ms=30_000)

    assert seconds < 2.0


@SEEDS
def test_a_topic_that_is_not_there_is_told_in_seconds(seed: int) -> None:
    def look(sim: Simulation, consumer: KafkaConsumer) -> float:
        consumer.subscribe(["no-such-topic"])
        began = sim.now
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.poll(timeout_ms=20_000)
        return sim.now - began

    assert one_member(seed, look, allow_auto_create_topics=False) < 4.0


#: What a question to a broker takes at most, there and back, once its connection is open.
TRIP_S = 0.01


@SEEDS
@pytest.mark.parametrize("wait_ms", [500, 25_000])
def test_a_record_that_is_sought_comes_at_once_though_a_fetch_is_in_its_long_poll(
    wait_ms: int, seed: int
) -> None:
    orders = TopicPartition("orders", 0)

    def look(sim: Simulation, consumer: KafkaConsumer) -> list[float]:
        consumer.poll(timeout_ms=300)  # at the end: the long poll has begun
        times = []
        for offset in (9, 5, 0, 7):
            consumer.seek(orders, offset)
            began = sim.now
            ((first, *_),) = consumer.poll(timeout_ms=60_000).values()
            times.append(sim.now - began)
            assert first.offset == offset
            consumer.seek(orders, 10)
            consumer.poll(timeout_ms=30)
        return times[1:]  # before the first, a connection had to be made

    assert max(one_member(seed, look, fetch_max_wait_ms=wait_ms)) < 2 * TRIP_S


@SEEDS
def test_the_end_is_found_at_once_though_a_fetch_is_in_its_long_poll(seed: int) -> None:
    orders = TopicPartition("orders", 0)

    def look(sim: Simulation, consumer: KafkaConsumer) -> list[float]:
        times = []
        for _ in range(4):
            consumer.poll(timeout_ms=300)
            consumer.seek_to_end(orders)
            times.append(took(sim, lambda: consumer.position(orders)))
        return times[1:]

    assert max(one_member(seed, look, fetch_max_wait_ms=25_000)) < 2 * TRIP_S
