"""Each thing that can go wrong does what it says, and the members keep their promises."""

from __future__ import annotations

import random
from inspect import getmodule
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition

from aktor import KafkaConsumer
from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.broker.faults import CorruptRecords, Drop, Fault
from aktor.errors import CorruptBatchError
from aktor.events.sockets import RequestAnswered
from aktor.settings import Settings
from aktor.simulation import Simulation
from aktor.simulation.faults import groups, members, requests
from aktor.simulation.faults.chaos import (
    COMPACTION_WEIGHTS,
    CONSUMER_WEIGHTS,
    HANDSHAKE_WEIGHTS,
    KINDS,
    LOSSY,
    NAME_WEIGHTS,
    STANDING,
    SURVIVABLE,
    WEIGHTS,
)
from aktor.simulation.programs.habits import go_back
from aktor.simulation.programs.loop import TRIES
from aktor.simulation.programs.ways import WAYS
from aktor.simulation.world.connections import SimulatedNet
from aktor.simulation.world.crashes import Crash
from aktor.simulation.world.member import Member
from aktor.simulation.world.topic import Topic
from tests.gate import all_but_the_first

#: Kinds of faults that only some storms have.
WORLDLY = HANDSHAKE_WEIGHTS.keys() | COMPACTION_WEIGHTS.keys() | NAME_WEIGHTS.keys()

PROTOCOLS = ("classic", "consumer")

#: Each kind with one protocol, by turns. What hits requests, members or their group, comes with the
#: other one, too: of a network, of brokers and of topics both hear alike.
ALONE = [(kind, PROTOCOLS[number % 2]) for number, kind in enumerate(sorted(KINDS))]
ALONE += [
    (kind, PROTOCOLS[protocol == "classic"])
    for kind, protocol in ALONE
    if getmodule(KINDS[kind]) in (groups, members, requests)
]


def reading(sim: Simulation, *, count: int = 1, keys: int = 0, **settings: Any) -> Topic:
    """A topic with records that members of group "g" have read."""
    orders = sim.topic("orders", partitions=2, records=40, keys=keys)
    sim.consumers(group="g", topics=[orders], count=count, **settings)
    sim.run(until=lambda: orders.lag("g") == 0, at_most=60.0)
    return orders


def crash(member: Member, actor: str) -> None:
    """At the next message that it gets."""

    def before(one: CooperativeActor, message: object) -> None:
        if one.name == actor:
            member.before_each = None
            raise Crash(f"{actor} on {type(message).__name__}")

    member.before_each = before


def offsets_given(sim: Simulation, partition: str) -> set[int]:
    return {
        offset
        for event in sim.history.named("records.delivered")
        if event["partition"] == partition
        for first, last in event["offsets"]
        for offset in range(first, last + 1)
    }


def test_every_kind_of_fault_is_drawn() -> None:
    assert CONSUMER_WEIGHTS.items() >= WEIGHTS.items()
    assert all(weight > 0 for weight in CONSUMER_WEIGHTS.values())
    kinds = SURVIVABLE.keys() | LOSSY.keys() | STANDING | WORLDLY
    assert KINDS.keys() == kinds
    assert not SURVIVABLE.keys() & (LOSSY.keys() | STANDING)


def kinds_drawn(**asked: Any) -> set[str]:
    with Simulation(seed=1) as sim:
        sim.topic("orders")
        sim.chaos(rate=20.0, for_=60.0, **asked)
        return {fault.kind for fault in sim.faults.faults}


def test_data_is_lost_only_if_it_is_asked_for() -> None:
    assert kinds_drawn() == SURVIVABLE.keys()
    survivable_or_lossy = KINDS.keys() - STANDING - WORLDLY
    assert kinds_drawn(losing_data=True) == survivable_or_lossy
    assert kinds_drawn(unclean_election=1) == SURVIVABLE.keys() | {"unclean_election"}


def test_progress_waits_until_a_partition_that_was_added_is_known() -> None:
    """Metadata may be five minutes old, and progress takes two if nobody has to wait for it."""
    with Simulation(seed=1) as sim:
        orders = reading(sim, count=1, metadata_max_age_ms=300_000)
        sim.run(for_=10.0)
        sim.brokers.grow_topic(orders, orders.partitions + 1)
        orders.write(10, partition=orders.partitions - 1)

        sim.progress().check()

        assert 200.0 < sim.now < 320.0


@pytest.mark.few_cases
@pytest.mark.parametrize(("kind", "protocol"), all_but_the_first(len(KINDS) // 2, ALONE))
def test_one_fault_alone_is_survived(kind: str, protocol: str) -> None:
    with Simulation(seed=3) as sim:
        sim.network.with_handshakes = kind in HANDSHAKE_WEIGHTS
        sim.network.names.addresses = 2 if kind in NAME_WEIGHTS else 1
        keys = 5 if kind in COMPACTION_WEIGHTS else 0
        orders = reading(sim, count=2, keys=keys, group_protocol=protocol)
        sim.trickle(orders, per_second=5.0, seconds=8.0)
        sim.chaos(rate=0.5, for_=8.0, weights={kind: 1.0}).run(for_=8.0)

        sim.heal().progress().check()

        assert any(event["kind"] == kind for event in sim.history.named("fault.began"))


def test_a_suspended_machines_clock_stands_still_and_a_stopped_process_has_one_that_goes_on() -> (
    None
):
    with Simulation(seed=1) as sim:
        reading(sim, count=2)
        alice, bob = sim.members
        for one in (alice, bob):
            one.freeze()
        sim.run(for_=5.0)
        alice.thaw(asleep=True)
        bob.thaw()

        assert (alice.ahead, bob.ahead) == (pytest.approx(-5.0), 0.0)


def test_a_clock_that_jumps_ahead_lets_timers_go_off() -> None:
    with Simulation(seed=1) as sim:
        reading(sim, heartbeat_interval_ms=3000, session_timeout_ms=10_000)
        (alice,) = sim.members
        before = sum(one["api"] == "Heartbeat" for one in sim.history.named("request.sent"))
        alice.jump_clock(3.0)
        sim.run(for_=0.01)

        after = sum(one["api"] == "Heartbeat" for one in sim.history.named("request.sent"))
        assert after == before + 1


def test_a_member_is_killed_in_place_of_its_next_turn_but_two() -> None:
    with Simulation(seed=1) as sim:
        steps: list[int] = []

        def work() -> None:
            while True:
                steps.append(len(steps))
                sim.sleep(1.0)

        alice = sim.member(work)
        sim.run(for_=1.5)
        alice.kill_after(2)
        sim.run(for_=10.0)

        assert alice.gone
        assert len(steps) == 4


def test_a_listener_may_take_its_time() -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", partitions=2, records=10)
        (alice,) = sim.consumers(group="g", topics=[orders])
        alice.slow_listener = 4.0
        sim.run(until=lambda: orders.lag("g") == 0, at_most=60.0).check()

        (called,) = sim.history.named("callback.finished")
        assert called["ms"] == pytest.approx(4000.0, abs=100.0)


def test_a_join_group_that_vanished_is_repeated_before_the_group_has_waited_for_long() -> None:
    """Heartbeats that go round it keep its sender in the group, which waits for it."""
    with Simulation(seed=1) as sim:
        orders = reading(sim, count=2, session_timeout_ms=45_000, max_poll_interval_ms=300_000)
        alice = sim.members[0]
        sim.consumers(group="g", topics=[orders], count=1)
        began = sim.now

        def joins() -> bool:
            return any(
                event["api"] == "JoinGroup" and event["member"] == alice.name
                for event in sim.history.named("request.sent")
                if event["at"] > began
            )

        sim.run(until=joins, at_most=10.0)
        alice.hosts[0].swallow("join-")
        sim.run(until=sim.now_and_then(sim.everybody_is_in), at_most=300.0)

        orders.write(20)
        sim.progress().check()
        assert sim.now - began < 45.0


@pytest.mark.parametrize("fetch_max_wait_ms", [500, 25_000])
def test_what_is_answered_at_once_waits_for_neither_a_join_group_nor_a_fetch(
    fetch_max_wait_ms: int,
) -> None:
    """Though the coordinator keeps JoinGroup, and a leader the Fetch of what a member kept."""
    settings: dict[str, Any] = {
        "partition_assignment_strategy": (CooperativeStickyAssignor,),
        "fetch_max_wait_ms": fetch_max_wait_ms,
        "auto_commit_interval_ms": 1000,
        "metadata_max_age_ms": 2000,
    }
    with Simulation(seed=1) as sim:
        orders = reading(sim, count=2, **settings)
        sim.run(for_=30.0)
        sim.members[0].freeze()  # who joins waits for it, until its session is over
        sim.consumers(group="g", topics=[orders], count=1, **settings)
        for _ in range(25):
            orders.write(1)
            sim.run(for_=1.0)
        sim.run(for_=30.0)

        took: dict[str, float] = {}
        for event in sim.history.named("request.answered"):
            took[event["api"]] = max(event["ms"], took.get(event["api"], 0.0))
        kept = {api: took.pop(api) for api in ("JoinGroup", "SyncGroup", "Fetch")}
        assert kept["JoinGroup"] > 10_000 or kept["Fetch"] > 20_000
        assert took.keys() >= {"Heartbeat", "OffsetCommit", "OffsetFetch", "Metadata"}
        assert max(took.values()) < 100.0, took


def test_look_ups_do_not_wait_for_the_first_join_group_of_a_member() -> None:
    """It waits for a member that takes its time, and a connection's answers come in order."""
    with Simulation(seed=1) as sim:
        reading(sim)
        sim.members[0].busy_for = 60.0
        sim.run(for_=1.0)
        took: list[float] = []

        def look() -> None:
            servers = sim.bootstrap_servers
            with KafkaConsumer("orders", group_id="g", bootstrap_servers=servers) as consumer:
                consumer.poll(timeout_ms=2000)
                began = sim.now
                assert consumer.committed(TopicPartition("orders", 0)) is not None
                took.append(sim.now - began)

        sim.member(look)
        sim.run(until=lambda: bool(took), at_most=60.0)

        assert took[0] < 1.0


def test_who_was_about_to_leave_when_its_membership_crashed_leaves_all_the_same() -> None:
    """Else its former self would hold each rebalance of the group up, until its session is over."""
    with Simulation(seed=1) as sim:
        reading(sim, count=2, session_timeout_ms=45_000, max_poll_interval_ms=10_000)
        alice = sim.members[0]
        alice.busy_for = 15.0
        sim.run(until=lambda: any(sim.history.named("poll.late")), at_most=20.0)
        alice.hosts[0].swallow("coordinator-")

        crash(alice, "membership")
        sim.run(until=sim.now_and_then(sim.everybody_is_in), at_most=20.0)

        assert [len(sim.brokers.members_of("g", one.name)) for one in sim.members] == [1, 1]
        sim.check()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_are_committed_aborted_and_left_open_by_the_dead(isolation: str) -> None:
    with Simulation(seed=5) as sim:
        orders = reading(sim, isolation_level=isolation)
        sim.transactions(orders, 60.0, timeout=2.0)
        sim.run(for_=70.0).progress().check()

        log = sim.brokers.model.topics.partition("orders", 0).log  # type: ignore[union-attr]
        ends = {event["commit"] for event in sim.history.named("transaction.ended")}
        assert ends == {True, False}
        assert log.last_stable_offset == log.end_offset

        aborted: set[int] = set()
        open_: dict[int, list[int]] = {}
        for event in sim.history.named("records.written", "transaction.ended"):
            if event["partition"] != "orders-0" or event["producer"] is None:
                continue
            if event["event"] == "records.written":
                offsets = open_.setdefault(event["producer"], [])
                offsets += range(event["first"], event["last"] + 1)
            else:
                offsets = open_.pop(event["producer"], [])
                aborted.update(() if event["commit"] else offsets)
        assert aborted
        assert bool(aborted & offsets_given(sim, "orders-0")) == (isolation == "read_uncommitted")


def test_a_dead_writers_transaction_is_aborted_when_its_time_is_up() -> None:
    with Simulation(seed=5) as sim:
        orders = reading(sim)
        sim.transactions(orders, 60.0, writers=1, timeout=2.0)
        sim.run(for_=70.0)

        written: dict[int, float] = {}
        late = []
        for event in sim.history.named("records.written", "transaction.ended"):
            if event["producer"] is None:
                continue
            if event["event"] == "records.written":
                written.setdefault(event["producer"], event["at"])
            elif (began := written.pop(event["producer"], None)) is not None:
                late.append(event["at"] - began > 1.9 and not event["commit"])
        assert any(late)


def test_an_unclean_election_loses_what_the_new_leader_did_not_have() -> None:
    with Simulation(seed=1) as sim:
        orders = reading(sim)
        before = sim.brokers.end(orders, 0)
        node = sim.brokers.hold_follower(orders, 0, random.Random(1))
        assert node is not None
        sim.run(for_=1.0)
        orders.write(10, partition=0)
        sim.run(for_=5.0)
        assert sim.brokers.end(orders, 0) == before + 10

        sim.brokers.elect_uncleanly(orders, 0, node)
        assert sim.brokers.end(orders, 0) == before
        assert sim.brokers.leader(orders, 0) == node

        orders.write(30, partition=0)
        sim.progress().check()
        assert sim.brokers.end(orders, 0) == before + 30


def test_a_follower_that_is_in_sync_by_name_is_waited_for() -> None:
    with Simulation(seed=1) as sim:
        orders = reading(sim)
        before = sim.brokers.end(orders, 0)
        node = sim.brokers.hold_follower(orders, 0, random.Random(1))
        assert node is not None
        orders.write(10, partition=0)
        sim.run(for_=1.0)
        assert sim.brokers.end(orders, 0) == before

        sim.brokers.release_follower(orders, 0, node)
        assert sim.brokers.end(orders, 0) == before + 10


def test_a_topic_that_is_created_anew_is_read_from_its_start() -> None:
    with Simulation(seed=0) as sim:
        orders = reading(sim)
        sim.brokers.delete_topic(orders)
        sim.run(for_=1.0)
        if not orders.partitions:  # a look-up may have created it
            sim.brokers.create_topic(orders, 1)
        orders.write(5)
        sim.progress().check()

        times = [
            event["times"][0]
            for event in sim.history.named("records.delivered")
            if event["partition"] == "orders-0" and event["offsets"][0][0] == 0
        ]
        assert len(times) == 2


def test_of_a_group_that_is_not_there_nobody_is_expelled() -> None:
    with Simulation(seed=1) as sim:
        sim.brokers.expire_somebody("nobodys", random.Random(1))

        assert not list(sim.history.named("session.expired"))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_answer_that_is_lost_is_that_of_a_request_that_was_handled(protocol: str) -> None:
    with Simulation(seed=1) as sim:
        orders = reading(sim, group_protocol=protocol)
        sim.network.disturb(Fault(action=Drop(before=False), api="OffsetCommit"))
        orders.write(20)

        sim.run(until=lambda: orders.lag("g") == 0, at_most=60.0)

        (lost,) = sim.history.named("request.hindered")
        committed = [one["at"] for one in sim.history.named("offset.committed")]
        assert max(one for one in committed if one <= lost["at"]) == lost["at"]
        sim.progress().check()


def test_a_silent_broker_handles_later_what_it_was_asked() -> None:
    with Simulation(seed=1) as sim:
        orders = reading(sim, group_protocol="consumer", request_timeout_ms=20_000)
        node = sim.brokers.coordinator("g")
        sim.network.silence(node)
        asked = sim.now
        orders.write(20)

        sim.run(for_=4.0)
        silence = [one for one in sim.history.named("request.answered") if one["at"] > asked + 0.1]
        sim.network.speak(node)
        sim.progress().check()

        assert silence
        assert all(one["node"] != node for one in silence)


@pytest.mark.parametrize("protocol", all_but_the_first(1, ["consumer", "classic"]))
def test_who_is_frozen_while_it_hands_back_gives_nothing_out_that_others_have(
    protocol: str,
) -> None:
    with Simulation(seed=10) as sim:
        orders = reading(sim, count=3, group_protocol=protocol)
        sim.trickle(orders, per_second=10.0, seconds=60.0)
        sim.chaos(rate=0.3, for_=60.0, weights={"frozen_while_handing_back": 1.0}).run(for_=60.0)

        sim.heal().progress().check()

        assert any(one.get("hands_back") for one in sim.history.named("member.frozen"))


def a_net(sim: Simulation) -> tuple[SimulatedNet, list[Any]]:
    """Connections of alice's, one of which is open; and what they tell."""
    told: list[Any] = []
    net = SimulatedNet(
        sim.network,
        "alice",
        told.append,
        consumer="alice",
        settings=Settings(client_id="alice"),
        clock=lambda: sim.scheduler.now,
    )
    net.connect("bootstrap", "b1", 9092, timeout=10.0)
    sim.run(for_=0.1)
    return net, told


def answered(told: list[Any]) -> list[int]:
    """The requests that were answered, by their numbers."""
    return [one.request_id for one in told if isinstance(one, RequestAnswered)]


def test_what_a_slow_link_carries_is_there_when_all_is_well_again() -> None:
    """What a killed process had sent would arrive after the commits of the one in its place, and
    nobody would commit again."""
    with Simulation(seed=1) as sim:
        net, told = a_net(sim)
        sim.network.slower = 5.0
        net.send("bootstrap", 1, MetadataRequest(topics=None))
        net.send("bootstrap", 2, MetadataRequest(topics=None))
        sim.run(for_=0.1)

        sim.network.mend()
        net.send("bootstrap", 3, MetadataRequest(topics=None))
        sim.run(for_=0.1)
        net.send("bootstrap", 4, MetadataRequest(topics=None))
        sim.run(for_=0.1)
        assert answered(told) == [1, 2, 3, 4]

        sim.run(for_=10.0)
        assert answered(told) == [1, 2, 3, 4], "nothing comes twice"
        assert not sim.network.carrying


def test_what_is_held_back_by_a_cut_link_arrives_before_what_is_sent_later() -> None:
    """It is let go with a latency of its own, which may be longer than that of what follows."""
    with Simulation(seed=1) as sim:
        net, told = a_net(sim)
        sim.network.cut_link("alice", 1)
        net.send("bootstrap", 1, MetadataRequest(topics=None))
        sim.run(for_=0.1)

        net.send("bootstrap", 2, MetadataRequest(topics=None))
        sim.network.slower = 0.5
        sim.network.mend_link("alice", 1)
        sim.network.slower = 0.0
        sim.run(for_=1.0)

        assert answered(told) == [1, 2]


def test_a_commit_that_was_given_up_does_not_pass_a_newer_one() -> None:
    """It lies in the send buffer of a connection over a cut link, the newer one goes to another
    coordinator, and the link heals when the first broker coordinates again."""
    with Simulation(1) as sim:
        orders = reading(sim, request_timeout_ms=5000, session_timeout_ms=60_000)
        (alice,) = sim.members
        sim.run(for_=1.0)
        old, new = (node := sim.brokers.coordinator("g")), node % 3 + 1
        sim.network.cut_link(alice.name, old)
        orders.write(40)
        sim.run(for_=8.0)
        sim.brokers.move_coordinator("g", new)
        orders.write(40)
        sim.run(for_=20.0)
        lag = orders.lag("g")

        sim.brokers.move_coordinator("g", old)
        sim.network.mend_link(alice.name, old)
        sim.run(for_=0.1)

        assert orders.lag("g") <= lag
        sim.check()


def test_a_broker_that_is_fenced_leads_nothing_and_answers() -> None:
    with Simulation(seed=2) as sim:
        orders = sim.topic("orders", partitions=3, records=60)
        sim.consumers(group="g", topics=[orders])
        sim.run(for_=5)

        sim.brokers.fence(2)
        orders.write(30)
        sim.run(for_=5)

        assert all(sim.brokers.leader(orders, one) != 2 for one in range(3))
        assert 2 in sim.brokers.running
        sim.progress().check()
        sim.brokers.unfence(2)
        orders.write(30)
        sim.progress().check()


def test_who_goes_back_behind_the_start_of_a_log_goes_on_there() -> None:
    with Simulation(seed=2) as sim:
        orders = sim.topic("orders", records=60)
        (member,) = sim.consumers(group="g", topics=[orders])
        sim.progress()

        sim.brokers.delete_records(orders, 0, sim.brokers.committed("g", orders, 0) or 0)
        member.does_next = go_back
        sim.run(for_=5)
        orders.write(30)
        sim.progress().check()

        resets = [one["from_offsets"] for one in sim.history.named("position.reset")]
    assert {"orders-0": 57} in resets


def test_of_the_records_with_one_key_compaction_leaves_the_last() -> None:
    with Simulation(seed=2) as sim:
        orders = sim.topic("orders", records=40, keys=3)
        sim.brokers.compact(orders, 0)
        (event,) = sim.history.named("log.compacted")
        left = {one.offset for one in sim.brokers.records(orders)}
        sim.consumers(group="g", topics=[orders])

        sim.progress().check()

        assert offsets_given(sim, "orders-0") == left == set(range(40)) - set(event["gone"])
        assert len(left) == 3
        assert 39 in left


def test_a_reader_goes_on_behind_what_was_compacted_away_while_it_read() -> None:
    with Simulation(seed=2) as sim:
        orders = sim.topic("orders", records=300, keys=3)
        sim.consumers(group="g", topics=[orders], max_poll_records=5, max_buffered_bytes=1000)
        sim.run(until=lambda: len(offsets_given(sim, "orders-0")) > 20)
        sim.brokers.compact(orders, 0)

        sim.progress().check()

        assert len(offsets_given(sim, "orders-0")) < 200
        assert sim.brokers.committed("g", orders, 0) == 300


def test_a_log_is_not_compacted_while_a_replica_lacks_the_later_records() -> None:
    with Simulation(seed=2) as sim:
        orders = sim.topic("orders", records=40, keys=3)
        node = sim.brokers.hold_follower(orders, 0, random.Random(1))
        assert node is not None
        orders.write(10)

        sim.brokers.compact(orders, 0)
        assert not list(sim.history.named("log.compacted"))
        sim.brokers.release_follower(orders, 0, node)
        sim.brokers.compact(orders, 0)
        assert list(sim.history.named("log.compacted"))


@pytest.mark.parametrize(("protocol", "by_itself"), [("classic", True), ("consumer", False)])
def test_a_topic_that_may_not_be_read_does_not_keep_the_others_from_being_read(
    protocol: str, by_itself: bool
) -> None:
    with Simulation(seed=2) as sim:
        orders, bills = (sim.topic(one, partitions=2, records=40) for one in ("orders", "bills"))
        settings: dict[str, Any] = {"group_protocol": protocol, "enable_auto_commit": by_itself}
        sim.consumers(group="g", topics=[orders, bills], count=2, **settings)
        sim.run(until=lambda: orders.lag("g") + bills.lag("g") == 0, at_most=60.0)
        sim.brokers.forbid("bills")
        for topic in (orders, bills):
            sim.trickle(topic, per_second=4, seconds=20.0)
        sim.run(for_=25.0)

        assert orders.lag("g") == 0
        assert bills.lag("g") > 60
        heard = [one["error"] for one in sim.history.named("user.hears")]
        assert heard
        assert all("TopicAuthorizationFailedError" in one and "bills" in one for one in heard)

        sim.brokers.permit("bills")
        sim.progress().check()


def poll_on(sim: Simulation, topic: str) -> None:
    """Catch what is raised, and poll on: never a seek."""
    consumer = KafkaConsumer(topic, group_id="g", auto_offset_reset="earliest")
    while True:
        try:
            consumer.poll(timeout_ms=500)
        except CorruptBatchError as error:
            sim.history.note("user.hears", sim.me.name, error=repr(error))


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_damaged_on_the_way_is_read_by_who_only_polls_on(seed: int, times: int) -> None:
    with Simulation(seed=seed) as sim:
        orders = sim.topic("orders", partitions=2, records=40)
        sim.network.disturb(Fault(action=CorruptRecords(), api="Fetch", times=times))
        sim.member(poll_on, sim, orders)
        sim.run(for_=10.0)
        sim.progress().check()

        heard = [one["error"] for one in sim.history.named("user.hears")]
        assert len(heard) >= times
        assert all(one.startswith("CorruptBatchError") for one in heard)
        assert offsets_given(sim, "orders-0") | offsets_given(sim, "orders-1") >= set(range(20))
        assert list(sim.history.named("batch.corrupt"))
        assert not list(sim.history.named("position.sought"))


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_batch_that_is_corrupt_for_good_is_passed_over_and_the_rest_is_read(way: str) -> None:
    with Simulation(seed=2) as sim:
        orders = sim.topic("orders", partitions=2)
        for partition in range(2):
            for _ in range(10):
                orders.append(partition, 4)
        sim.brokers.spoil(orders, 0, 18)
        sim.consumers(group="g", topics=[orders], way=way, enable_auto_commit=False)

        sim.progress().check()

        assert offsets_given(sim, "orders-0") == set(range(40)) - {16, 17, 18, 19}
        assert offsets_given(sim, "orders-1") == set(range(40))
        passed = [one["offset"] for one in sim.history.named("user.passes_over")]
        assert passed == [16, 17, 18, 19]
        heard = [one["error"] for one in sim.history.named("user.hears")]
        assert len(heard) == TRIES + 4
        assert all(one.startswith("CorruptBatchError") for one in heard)


def test_compressed_and_bulky_batches_are_read_as_they_were_written() -> None:
    with Simulation(seed=2) as sim:
        sim.brokers.codecs = (0, 1, 2, 3, 4)
        orders = sim.topic("orders", partitions=2)
        orders.bulk = 20_000
        orders.write(200)
        sim.consumers(group="g", topics=[orders], max_buffered_bytes=10_000, fetch_max_bytes=500)
        sim.progress().check()

        assert max(map(len, orders.values)) > 10_000


def test_a_member_that_two_faults_kill_is_replaced_by_one() -> None:
    with Simulation(1) as sim:
        reading(sim)
        begun = [KINDS["killed_at_line"](sim, random.Random(1)) for _ in range(2)]

        for end in begun:
            end()

        assert [member.running for member in sim.members] == [False, True]
