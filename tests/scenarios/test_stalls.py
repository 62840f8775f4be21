"""Partitions that get nothing though there are records, since the application, its listener or its
process holds them up: each such stall is told, with who holds them up."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import KafkaError

from aktor import ConsumerRebalanceListener
from aktor.actors.runtime.dispatcher import LONGEST_SLEEP
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.present import watch
from aktor.consumer.status import ConsumerStatus, WaitingFor
from aktor.errors import RecordDeserializationError
from aktor.simulation import Simulation
from aktor.structs import TopicPartition
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_member, read
from tests.scenarios.world import Event, World, seeds


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    """A topic of two partitions, into which records are written all the time."""
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        world.trickle("orders", 600, over=60.0)
        yield world


def of(world: World, consumer: KafkaConsumer, name: str) -> dict[str, list[Event]]:
    """The events of this name, by partition."""
    told: dict[str, list[Event]] = {"orders-0": [], "orders-1": []}
    for event in world.host(consumer).named(name):
        told[event["partition"]].append(event)
    return told


def poll_for(world: World, consumer: KafkaConsumer, seconds: float) -> None:
    until = world.now + seconds
    while world.now < until:
        consumer.poll(timeout_ms=200)


#: Calls that wait for the cluster and give out no records: what they ask for, and how they are made
#: so that they wait for six seconds.
CALLS: dict[str, tuple[str, Callable[[KafkaConsumer], object]]] = {
    "commit": ("OffsetCommit", lambda one: one.commit(timeout_ms=6000)),
    "committed": ("OffsetFetch", lambda one: one.committed(T0, timeout_ms=6000)),
    "position": ("ListOffsets", lambda one: one.position(T0, timeout_ms=6000)),
    "beginning_offsets": ("ListOffsets", lambda one: one.beginning_offsets([T0], timeout_ms=6000)),
    "end_offsets": ("ListOffsets", lambda one: one.end_offsets([T0], timeout_ms=6000)),
    "offsets_for_times": (
        "ListOffsets",
        lambda one: one.offsets_for_times({T0: 1}, timeout_ms=6000),
    ),
    "topics": ("Metadata", lambda one: one.topics()),
    "look_up_topics": ("Metadata", lambda one: one.look_up_topics({"others"})),
    "partitions_for_topic": ("Metadata", lambda one: one.partitions_for_topic("others")),
    "bootstrap": ("Metadata", lambda one: one.bootstrap(timeout_ms=6000, refresh=True)),
}


@pytest.mark.parametrize(
    ("name", "group_id"),
    [(name, "g") for name in CALLS]
    + [(name, None) for name in CALLS if name not in ("commit", "committed")],
)
def test_who_waits_in_a_call_that_gives_out_no_records_is_told_to_hold_them_up(
    world: World, name: str, group_id: str | None
) -> None:
    times = {"heartbeat_interval_ms": 15_000, "session_timeout_ms": 45_000}
    consumer = a_member(world, group_id=group_id, default_api_timeout_ms=6000, **times)
    poll_for(world, consumer, 2.0)
    api, call = CALLS[name]
    if name == "position":
        consumer.seek_to_end(T0)
    world.cluster.drop_next(api, times=1000)
    said: list[ConsumerStatus] = []
    world.after(4.0, lambda: said.append(consumer.status()))

    with contextlib.suppress(KafkaError):
        call(consumer)
    world.cluster.answer(api)
    poll_for(world, consumer, 3.0)

    (status,) = said
    words = f"the application waits in {name}, and has not polled for "
    assert words in status.why
    assert status.partitions[T1].waiting_for is WaitingFor.APPLICATION
    (told,) = of(world, consumer, "delivery.stalled")["orders-1"]
    assert told["reason"] == "application"
    # (`position` asks again after a second: a look at that moment finds it at its line.)
    at_its_line = "the application has not polled for 1.0 s (it is at "
    assert told["because"].startswith((words, at_its_line) if name == "position" else words)
    assert told["lag"] > 0
    (over,) = of(world, consumer, "delivery.resumed")["orders-1"]
    assert over["because"] == "records were delivered"
    assert 6.0 <= over["seconds"] < 8.5


def test_while_a_call_waits_nobody_says_that_records_are_delivered(world: World) -> None:
    """The coordinator does not answer: neither the commit, nor the heartbeat."""
    consumer = a_member(world, heartbeat_interval_ms=1000, session_timeout_ms=10_000)
    poll_for(world, consumer, 2.0)
    world.cluster.drop_next("OffsetCommit", times=1000)
    world.cluster.drop_next("Heartbeat", times=1000)
    said: list[str] = []
    for at in (2.5, 3.0, 3.5, 4.0):
        world.after(at, lambda: said.append(consumer.why()))

    with pytest.raises(KafkaError):
        consumer.commit(timeout_ms=4500)

    for one in said:
        assert re.match(
            r"Nothing is delivered: the application waits in commit, and has not polled for"
            r" [234]\.\d s; and the coordinator \(broker \d, .*\) has not answered ",
            one,
        ), one
        assert "The session (10.0 s) is over in " in one


class Slow(ConsumerRebalanceListener):
    """Takes five seconds for one of its methods."""

    def __init__(self, sleep: Callable[[float], None], method: str) -> None:
        self._sleep = sleep
        self.method = method

    def _take_time(self, method: str) -> None:
        if method == self.method:
            self._sleep(5.0)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._take_time("on_partitions_revoked")

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._take_time("on_partitions_assigned")

    def on_partitions_lost(self, lost: Any) -> None:
        self._take_time("on_partitions_lost")


def the_ends(world: World) -> int:
    """How many records were written."""
    return sum(log.end for log in world.cluster.topics["orders"].values())


@pytest.mark.parametrize("by", ["unsubscribe", "close", "a rebalance"])
def test_a_listener_that_takes_long_over_a_revocation_is_told_to_hold_the_partitions_up(
    world: World, by: str
) -> None:
    """No Fetch asks for their records any more, so what it told last says nothing of now."""
    consumer = world.consumer(
        group_id="g", auto_offset_reset="earliest", heartbeat_interval_ms=1000
    )
    consumer.subscribe(["orders"], listener=Slow(world.sleep, "on_partitions_revoked"))
    poll_for(world, consumer, 4.0)
    before = world.now
    said: list[tuple[float, ConsumerStatus]] = []
    ends = {0.0: the_ends(world)}

    def look() -> None:
        said.append((world.now - before, consumer.status()))
        ends[world.now - before] = the_ends(world)

    for at in range(1, 10):
        world.after(at / 2, look)
    if by == "close":
        consumer.close()
    elif by == "unsubscribe":
        consumer.unsubscribe()
    else:
        a_member(world).poll(timeout_ms=0)
        poll_for(world, consumer, 8.0)

    with_lag = 0
    for at, status in said:
        assert "on_partitions_revoked has not returned" in status.why or at < 1.2
        if status.lag is not None and status.partitions:
            with_lag += 1
            read = sum(one.position or 0 for one in status.partitions.values())
            known = max(end for when, end in ends.items() if when <= max(0.0, at - 2.1))
            assert status.lag >= known - read, "it is no older than two seconds"
    assert with_lag
    for (told,) in of(world, consumer, "delivery.stalled").values():
        assert told["reason"] == "callback"
        assert "on_partitions_revoked has not returned for " in told["because"]
        assert told["lag"] is None or told["lag"] > 0
        assert by == "a rebalance" or 1.0 <= told["at"] - before < 2.2
    if by == "a rebalance":
        for (over,) in of(world, consumer, "delivery.resumed").values():
            assert over["because"] == "it is not assigned any more"
            assert 4.9 < over["seconds"] < 5.3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    "method", ["on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"]
)
def test_each_slow_method_of_a_listener_is_a_stall_in_both_protocols(
    protocol: str, method: str
) -> None:
    with Simulation(1) as sim:
        orders = sim.topic("orders", partitions=4)
        sim.trickle(orders, per_second=40, seconds=60.0)
        given: dict[str, Any] = {"group_protocol": protocol}
        given |= {"heartbeat_interval_ms": 1000} if protocol == "classic" else {}
        (bob,) = sim.consumers(group="g", topics=[orders], each=lambda config, _: config | given)
        sim.run(for_=10)
        bob.consumer._engine.rebalancing.listener = Slow(sim.sleep, method)
        if method == "on_partitions_lost":
            sim.brokers.expire("g", bob.name)
        else:
            sim.consumers(group="g", topics=[orders], each=lambda config, _: config | given)
        sim.run(for_=20)
        told = [one for one in sim.history.events if one["event"] == "delivery.stalled"]

    of_bob = [one for one in told if one["reason"] == "callback"]
    assert of_bob
    assert all(f"{method} has not returned for " in one["because"] for one in of_bob)


@pytest.mark.parametrize("lasts", [1.6, 3.0, 8.0])
@pytest.mark.parametrize("group", ["g", None])
def test_a_process_that_stood_still_within_its_session_says_so_when_it_goes_on(
    world: World, group: str | None, lasts: float
) -> None:
    """No heartbeat is due meanwhile, and the next poll finds all that was written."""
    times = {"heartbeat_interval_ms": 15_000, "session_timeout_ms": 45_000}
    consumer = a_member(world, group_id=group, **times)
    poll_for(world, consumer, 4.0)
    frozen_at = world.now
    world.freeze(consumer)
    world.sleep(lasts)
    world.thaw(consumer)
    thawed_at = world.now
    poll_for(world, consumer, 4.0)

    (told,) = world.host(consumer).named("process.stood_still")
    assert lasts - LONGEST_SLEEP - 0.01 < told["seconds"] <= lasts + 0.01
    assert told["level"] == ("warning" if told["seconds"] >= 1.0 else "debug")
    assert told["because"].startswith("the process stood still for at least ")
    for (stalled,) in of(world, consumer, "delivery.stalled").values():
        assert stalled["reason"] == "consumer"
        assert stalled["because"] == told["because"]
        assert stalled["level"] == "debug"
    for (over,) in of(world, consumer, "delivery.resumed").values():
        assert over["because"] == "records were delivered"
        ended = over["at"] - over["ended_ago"]
        assert thawed_at <= ended < thawed_at + 0.5
        assert frozen_at - LONGEST_SLEEP - 0.01 < ended - over["seconds"] <= frozen_at + 0.01


@pytest.mark.parametrize(("lasts", "tells"), [(0.6, False), (3.0, True)])
def test_what_waits_for_its_turn_after_its_process_stood_still_does_not_wait_for_that(
    world: World, lasts: float, tells: bool
) -> None:
    """Each of thirty partitions has its turn every nine seconds, with or without a standstill."""
    world.cluster.create_topic("many", partitions=30)
    world.cluster.fill("many", 3000)
    options = {"auto_offset_reset": "earliest", "max_poll_records": 1}
    consumer = world.consumer("many", group_id="g", **options)

    def take_slowly(seconds: float) -> None:
        until = world.now + seconds
        while world.now < until:
            consumer.poll(timeout_ms=200)
            world.sleep(0.3)

    take_slowly(12.0)
    world.freeze(consumer)
    world.sleep(lasts)
    world.thaw(consumer)
    thawed_at = world.now
    take_slowly(12.0)

    assert len(world.host(consumer).named("process.stood_still")) == 1
    stalls = world.host(consumer).named("delivery.stalled")
    assert {one["reason"] for one in stalls} == ({"consumer"} if tells else set())
    over = world.host(consumer).named("delivery.resumed")
    assert len(over) == len(stalls)
    assert all(one["at"] - one["ended_ago"] < thawed_at + 1.0 for one in over)
    assert {one["because"] for one in over} >= ({"the process runs again"} if tells else set())


@pytest.mark.parametrize("earlier", [0.0, 4.0])
def test_what_was_paused_while_its_process_stood_still_did_not_wait_for_that(
    world: World, earlier: float
) -> None:
    consumer = a_member(world)
    poll_for(world, consumer, 4.0)
    consumer.pause(T0)
    poll_for(world, consumer, 0.4 + earlier)
    world.freeze(consumer)
    world.sleep(3.0)
    world.thaw(consumer)
    world.sleep(0.01)
    consumer.resume(T0)
    poll_for(world, consumer, 4.0)

    stalled = of(world, consumer, "delivery.stalled")
    assert stalled["orders-0"] == []
    assert [one["reason"] for one in stalled["orders-1"]] == ["consumer"]


def test_who_stands_still_twice_within_a_second_tells_of_both(world: World) -> None:
    consumer = a_member(world)
    poll_for(world, consumer, 4.0)
    for _ in range(2):
        world.freeze(consumer)
        world.sleep(3.0)
        world.thaw(consumer)
        poll_for(world, consumer, 0.3)
    poll_for(world, consumer, 4.0)

    assert len(world.host(consumer).named("process.stood_still")) == 2
    told = of(world, consumer, "delivery.resumed")
    assert [len(one) for one in told.values()] == [2, 2]
    assert all(2.0 < one["seconds"] < 3.6 for some in told.values() for one in some)


def test_who_stood_still_and_missed_nothing_was_not_kept_from_any_record(world: World) -> None:
    world.cluster.create_topic("quiet", partitions=2)
    consumer = world.consumer("quiet", group_id="g")
    poll_for(world, consumer, 4.0)
    world.freeze(consumer)
    world.sleep(4.0)
    world.thaw(consumer)
    poll_for(world, consumer, 4.0)

    assert len(world.host(consumer).named("process.stood_still")) == 1
    assert world.host(consumer).named("delivery.stalled") == []


def test_an_application_that_did_not_poll_because_its_process_stood_still_is_not_blamed(
    world: World,
) -> None:
    """It stood still between two polls, and goes on with its work for a moment."""
    consumer = a_member(world)
    poll_for(world, consumer, 4.0)
    world.freeze(consumer)
    world.sleep(4.0)
    world.thaw(consumer)
    world.sleep(0.5)
    poll_for(world, consumer, 4.0)

    assert {one["reason"] for one in world.host(consumer).named("delivery.stalled")} == {"consumer"}
    assert all(4.0 < one["seconds"] < 6.0 for one in world.host(consumer).named("delivery.resumed"))


def test_who_stood_still_for_longer_than_its_session_counts_from_when_it_ran_last(
    world: World,
) -> None:
    consumer = a_member(world, heartbeat_interval_ms=1000, session_timeout_ms=6000)
    poll_for(world, consumer, 4.0)
    world.cluster.drop_next("Heartbeat", times=3)
    frozen_at = world.now
    world.freeze(consumer)
    world.sleep(9.0)
    world.thaw(consumer)
    poll_for(world, consumer, 2.0)

    for stalled, *_ in of(world, consumer, "delivery.stalled").values():
        assert "the process stood still for at least " in stalled["because"]
        assert abs(stalled["since"] - frozen_at) < 1.2


def test_who_never_stands_still_does_not_say_so(world: World) -> None:
    consumer = a_member(world)
    poll_for(world, consumer, 4.0)
    world.sleep(20.0)
    for _ in range(20):
        consumer.poll(timeout_ms=0)
        world.sleep(0.7)

    assert world.host(consumer).named("process.stood_still") == []


def test_with_thousands_of_partitions_all_but_these_are_looked_at_once_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one stalls. Neither a late heartbeat nor a standstill had a look for ten seconds."""
    monkeypatch.setattr(watch, "PARTITIONS_A_SECOND", 0.1)  # two count as 10,000 do
    times = {"heartbeat_interval_ms": 1000, "session_timeout_ms": 45_000}
    consumer = a_member(world, **times)
    poll_for(world, consumer, 4.0)
    world.sleep(3.0)
    assert any(of(world, consumer, "delivery.stalled").values())
    world.cluster.drop_next("Heartbeat", times=1)
    world.sleep(3.2)
    (late,) = world.host(consumer).named("heartbeat.late")
    assert 1.0 <= late["seconds"] < 2.2

    world.freeze(consumer)
    world.sleep(3.0)
    world.thaw(consumer)
    world.sleep(1.2)

    assert len(world.host(consumer).named("process.stood_still")) == 1
    began = world.now
    poll_for(world, consumer, 22.0)
    for *_, over in of(world, consumer, "delivery.resumed").values():
        assert over["at"] - over["ended_ago"] < began + 0.5, "it is told later, and when it was"


def refuses_one() -> Callable[[bytes], bytes]:
    """A deserializer that cannot read the 31st value that it is given, however often."""
    seen: list[bytes] = []

    def deserialize(raw: bytes) -> bytes:
        if raw not in seen:
            seen.append(raw)
        if seen.index(raw) == 30:
            raise ValueError("not this one")
        return raw

    return deserialize


def test_a_record_that_cannot_be_read_stalls_its_partition_until_it_is_passed(
    world: World,
) -> None:
    consumer = a_member(world, value_deserializer=refuses_one())
    until, refused = world.now + 8.0, T0
    while world.now < until:
        try:
            consumer.poll(timeout_ms=200)
        except RecordDeserializationError as error:
            refused = TopicPartition(error.topic, error.partition)
            world.sleep(0.2)
    consumer.seek(refused, (consumer.position(refused) or 0) + 1)
    poll_for(world, consumer, 3.0)

    name = f"orders-{refused.partition}"
    (stalled,) = of(world, consumer, "delivery.stalled")[name]
    (resumed,) = of(world, consumer, "delivery.resumed")[name]
    assert (stalled["reason"], resumed["reason"]) == ("refused", "refused")
    assert 7.5 < resumed["seconds"] < 9.5


def test_a_pause_is_no_part_of_a_stall(world: World) -> None:
    """The leader is gone, and meanwhile the application pauses the partition for three seconds."""
    consumer = a_member(world)
    poll_for(world, consumer, 2.0)
    for node in tuple(world.cluster.up):
        world.cluster.unreachable[f"b{node}"] = "Connection refused"
    world.host(consumer).cut()
    began = world.now
    poll_for(world, consumer, 4.3)
    consumer.pause(T0)
    paused = world.now
    poll_for(world, consumer, 3.0)
    consumer.resume(T0)
    resumed = world.now
    poll_for(world, consumer, 4.0)
    world.cluster.unreachable.clear()
    poll_for(world, consumer, 5.0)

    first, second = of(world, consumer, "delivery.resumed")["orders-0"]
    assert first["because"] == "the application has paused it"
    assert first["seconds"] == pytest.approx(paused - began, abs=0.6)
    assert first["at"] - first["ended_ago"] == pytest.approx(paused, abs=0.05)
    assert second["at"] - second["ended_ago"] - second["seconds"] >= resumed - 1.05


@pytest.mark.parametrize("seed", all_but_the_first(1, seeds(3)))
def test_a_late_poll_stalls_also_a_partition_of_which_nobody_knows_whether_there_is_more(
    seed: int,
) -> None:
    """The buffer is full of the other one's records, so that its leader is asked for no more."""
    with World(seed) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 10)
        consumer = a_member(world, max_poll_interval_ms=10_000, max_buffered_bytes=20_000)
        poll_for(world, consumer, 3.0)
        world.cluster.produce("orders", 0, *[b"x" * 1000] * 100)
        world.sleep(3.0)
        world.cluster.fill("orders", 10)
        world.sleep(12.0)
        told = of(world, consumer, "delivery.stalled")["orders-1"]
        poll_for(world, consumer, 10.0)

        assert [(one["reason"], one["lag"]) for one in told] == [("application", None)]
        assert of(world, consumer, "delivery.resumed")["orders-1"]


@pytest.mark.parametrize("seed", seeds(3))
def test_an_application_that_has_read_all_and_polls_late_stalls_what_is_not_fetched_meanwhile(
    seed: int,
) -> None:
    """It has not told that it has read the other one's records, so for the consumer the buffer is
    full. Nobody looks: so nobody knows that there are records."""
    with World(seed) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 10)
        consumer = a_member(world, max_buffered_bytes=20_000)
        poll_for(world, consumer, 3.0)
        world.cluster.produce("orders", 0, *[b"x" * 1000] * 100)
        read(world, consumer, 100)
        world.sleep(2.0)
        world.cluster.fill("orders", 10)
        world.sleep(5.0)
        told = of(world, consumer, "delivery.stalled")["orders-1"]
        poll_for(world, consumer, 3.0)

        assert [(one["reason"], one["lag"]) for one in told] == [("application", None)]
        (over,) = of(world, consumer, "delivery.resumed")["orders-1"]
        assert over["because"] == "records were delivered"


def gaps_of(world: World, consumer: KafkaConsumer, seconds: float) -> dict[str, float]:
    """The longest time in which the application was given nothing, by partition."""
    last = dict.fromkeys(("orders-0", "orders-1"), world.now)
    longest, until = dict.fromkeys(last, 0.0), world.now + seconds
    while world.now < until:
        for tp in consumer.poll(timeout_ms=20):
            name = f"{tp.topic}-{tp.partition}"
            longest[name] = max(longest[name], world.now - last[name])
            last[name] = world.now
    return longest


def test_a_stall_by_a_dead_leader_is_not_over_before_the_new_one_has_answered_a_fetch(
    world: World,
) -> None:
    """It has said before that it has what was read."""
    consumer = a_member(world)
    poll_for(world, consumer, 3.0)
    world.trickle("orders", 2000, over=40.0)
    dead = world.cluster.log("orders", 0).leader

    def die() -> None:
        world.cluster.unreachable[f"b{dead}"] = "Connection refused"
        world.host(consumer).cut()

    def elect() -> None:
        world.cluster.down(dead)
        world.cluster.drop_next("Fetch", times=1000)

    world.after(1.0, die)
    world.after(4.0, elect)
    world.after(7.0, lambda: world.cluster.answer("Fetch"))

    longest = gaps_of(world, consumer, 15.0)
    poll_for(world, consumer, 1.5)

    (resumed,) = of(world, consumer, "delivery.resumed")["orders-0"]
    assert resumed["because"] == "records were delivered"
    assert resumed["seconds"] == pytest.approx(longest["orders-0"], abs=0.5)
    assert world.host(consumer).named("position.validated")


@pytest.mark.parametrize("fetch_min_bytes", [1, 100_000])
def test_a_stall_with_nothing_to_deliver_is_over_once_a_fetch_was_answered(
    world: World, fetch_min_bytes: int
) -> None:
    world.sleep(62.0)
    consumer = a_member(world, fetch_min_bytes=fetch_min_bytes)
    poll_for(world, consumer, 3.0)
    dead = world.cluster.log("orders", 0).leader
    world.cluster.unreachable[f"b{dead}"] = "Connection refused"
    world.host(consumer).cut()
    world.after(4.0, lambda: world.cluster.down(dead))

    poll_for(world, consumer, 12.0)

    (resumed,) = of(world, consumer, "delivery.resumed")["orders-0"]
    assert resumed["because"] == "there is nothing to deliver"
    assert 4.0 < resumed["seconds"] < 6.0


def test_records_that_their_leader_keeps_for_fetch_min_bytes_are_a_stall(world: World) -> None:
    """Somebody looks, so it is known that there are records."""
    consumer = a_member(world, fetch_min_bytes=100_000, fetch_max_wait_ms=8000)
    said: list[ConsumerStatus] = []
    for _ in range(20):
        poll_for(world, consumer, 1.0)
        said.append(consumer.status())

    held = [one for one in said if one.partitions[T0].waiting_for is WaitingFor.BYTES]
    assert len(held) > 10
    for one in held:
        assert re.search(
            r"^Nothing is delivered from .*its leader keeps the Fetch that was sent \d\.\d s ago"
            r" until it has 100000 bytes \(fetch_min_bytes\), or 8\.0 s are over",
            one.why,
        ) or one.why.startswith("Records are "), one.why
        assert one.partitions[T0].lag
        assert one.healthy
    stalled = of(world, consumer, "delivery.stalled")["orders-0"]
    assert {one["reason"] for one in stalled} == {"more bytes"}
    assert all(one["lag"] and one["level"] == "debug" for one in stalled)
    resumed = of(world, consumer, "delivery.resumed")["orders-0"]
    assert {one["because"] for one in resumed} == {"records were delivered"}
    assert all(3.0 < one["seconds"] < 8.1 for one in resumed)


def test_what_all_partitions_wait_for_the_whole_consumer_waits_for(world: World) -> None:
    consumer = a_member(world)
    poll_for(world, consumer, 2.0)
    consumer.pause(T0)
    assert consumer.status().waiting_for is None
    consumer.pause(T1)

    assert consumer.status().waiting_for is WaitingFor.PAUSED
