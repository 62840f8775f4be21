"""One fault at a time, with three members in virtual time: the traces name what went wrong."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest

from aktor.broker.faults import Fault as Rule
from aktor.broker.faults import Throttle
from aktor.simulation import Member, Simulation
from aktor.trace.rebalances import Tables, read
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.incidents import Incident
from tests.unit.trace.rebalances.told import BEGAN

#: One of them shows nearly all that the other does.
ONE = pytest.mark.parametrize("protocol", all_but_the_first(1, ["classic", "consumer"]))

#: When the three have settled, in seconds: classic members hear of each other each second.
SETTLED = {"classic": 6.0, "consumer": 10.0}

#: What the broker adds to UNKNOWN_MEMBER_ID in a KIP-848 group.
MORE = r"(: Member \S+ is not a member of group g)?"

Fault = Callable[[Simulation, list[Member]], object]


class Told(Tables):
    """What the traces of three members tell of a fault."""

    #: When it was.
    since: float


def told_of(protocol: str, fault: Fault, seconds: float = 10.0, after: Fault | None = None) -> Told:
    """For so long; then `after` follows."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol, seconds=2 * seconds)
        members = []
        for _ in range(3):
            members.append(group.joins())
            sim.run(for_=1)
        sim.run(for_=SETTLED[protocol] - 3)
        fault(sim, members)
        sim.run(for_=seconds)
        if after is not None:
            after(sim, members)
            sim.run(for_=10)
        rows, _ = read(json.dumps(event) for event in group.events())
    told = Told(rows)
    told.since = BEGAN + SETTLED[protocol]
    return told


def triggers(tables: Told) -> list[str]:
    """The first part of each sentence, without its times, of what began after the fault."""
    told = [row.sentence for row in tables.rebalances if row.began >= tables.since]
    return [re.sub(r"^g: [\d.]+ m?s, ", "", sentence).partition("; ")[0] for sentence in told]


@ONE
def test_a_member_that_leaves_is_named(protocol: str) -> None:
    def leaves(sim: Simulation, members: list[Member]) -> None:
        members[1].does_next = lambda loop, consumer: (consumer.close(), sim.sleep(1000))

    assert triggers(told_of(protocol, leaves)) == [
        "triggered by bob on host-bob: the consumer was closed"
    ]


@ONE
def test_a_stopped_process_is_named_when_its_session_ends_and_when_it_goes_on(
    protocol: str,
) -> None:
    tables = told_of(
        protocol,
        lambda _, members: members[1].freeze(),
        seconds=15.0 if protocol == "classic" else 60.0,
        after=lambda _, members: members[1].thaw(),
    )

    gone, back = triggers(tables)
    stood_still = r"the process stood still for at least \d\d\.\d s, or its clock jumped"
    assert re.fullmatch(
        "triggered by bob on host-bob: the coordinator took it out of the group, and it had not"
        f" said that it leaves: {stood_still}",
        gone,
    )
    assert re.fullmatch(
        rf"triggered by bob on host-bob: fenced: UNKNOWN_MEMBER_ID{MORE} after {stood_still}", back
    )


@ONE
def test_a_member_with_another_subscription_is_named(protocol: str) -> None:
    def subscribes(sim: Simulation, members: list[Member]) -> None:
        sim.topic("invoices", partitions=2)
        members[1].does_next = lambda _, consumer: consumer.subscribe(["orders", "invoices"])

    assert triggers(told_of(protocol, subscribes)) == [
        "triggered by bob on host-bob: the subscription changed"
    ]


@ONE
def test_a_topic_with_more_partitions_is_named(protocol: str) -> None:
    tables = told_of(protocol, lambda sim, _: sim.brokers.grow_topic("orders", 8), seconds=25)

    (told,) = triggers(tables)
    counts = {"classic": "(orders: 6, now 8)", "consumer": "(6, now 8)"}[protocol]
    assert re.fullmatch(
        rf"triggered by .*: the partitions of orders changed {re.escape(counts)}", told
    )


@ONE
def test_a_topic_that_was_deleted_is_named(protocol: str) -> None:
    # The brokers make it anew, with one partition, as soon as a member asks for it.
    first, *more = triggers(told_of(protocol, lambda sim, _: sim.brokers.delete_topic("orders")))

    if protocol == "classic":
        assert first.endswith("a topic was deleted and created anew (orders: 6, now 1)")
        assert more == []
    else:
        assert first.endswith("a topic was deleted and created anew")


@ONE
def test_a_fenced_member_is_named(protocol: str) -> None:
    told = triggers(told_of(protocol, lambda sim, _: sim.brokers.expire("g", "bob")))

    assert told
    for one in told:
        fenced = "triggered by bob on host-bob: fenced: UNKNOWN_MEMBER_ID"
        assert re.fullmatch(f"{fenced}{MORE}", one)


@ONE
def test_a_clock_that_jumps_ahead_is_told_apart_from_an_application_that_does_not_poll(
    protocol: str,
) -> None:
    first, *_ = triggers(told_of(protocol, lambda _, members: members[1].jump_clock(600.0)))

    assert re.fullmatch(
        r"triggered by bob on host-bob: the process stood still for at least (600|599)\.\d s, or"
        r" its clock jumped",
        first,
    )


@ONE
def test_a_machine_that_slept_is_named_when_it_goes_on(protocol: str) -> None:
    seconds = 15.0 if protocol == "classic" else 60.0
    tables = told_of(
        protocol,
        lambda _, members: members[1].freeze(),
        seconds=seconds,
        after=lambda _, members: members[1].thaw(asleep=True),
    )

    back = triggers(tables)[-1]
    assert re.fullmatch(
        rf"triggered by bob on host-bob: fenced: UNKNOWN_MEMBER_ID{MORE} after the machine slept"
        rf" for ({seconds - 1:.0f}|{seconds:.0f})\.\d s, or its clock was set",
        back,
    )


@ONE
def test_partitions_that_the_application_paused_are_silent_because_of_it(protocol: str) -> None:
    def pauses(_: Simulation, members: list[Member]) -> None:
        members[1].does_next = lambda loop, consumer: (
            consumer.pause(*consumer.assignment()),
            loop.later(20, lambda: consumer.resume(*consumer.paused())),
        )

    tables = told_of(protocol, pauses)

    assert triggers(tables) == []
    assert {row.consumer for row in tables.silences} == {"bob"}
    for row in tables.silences:
        assert re.fullmatch(
            rf"g: bob on host-bob was given nothing from {row.partition} for \d\.\d s:"
            r" the application had paused it\.",
            row.sentence,
        )


@ONE
def test_a_coordinator_that_moved_costs_a_commit_and_no_rebalance(protocol: str) -> None:
    tables = told_of(protocol, lambda sim, _: sim.brokers.move_coordinator("g"))

    assert triggers(tables) == []
    assert tables.refused_commits
    for row in tables.refused_commits:
        assert row.because is not None
        assert row.because.startswith("NotCoordinatorError")
        assert row.retriable


@ONE
def test_records_that_an_unclean_election_lost_are_named_by_the_reset(protocol: str) -> None:
    node: list[int | None] = []

    def falls_behind(sim: Simulation, _: list[Member]) -> None:
        node.append(sim.brokers.hold_follower("orders", 0, random.Random(1)))

    def leads(sim: Simulation, _: list[Member]) -> None:
        assert node[0] is not None
        sim.brokers.elect_uncleanly("orders", 0, node[0])
        sim.brokers.release_follower("orders", 0, node[0])

    tables = told_of(protocol, falls_behind, after=leads)

    assert triggers(tables) == []
    (reset,) = (row for row in tables.resets if row.at > tables.since)
    assert (reset.partition, reset.because) == ("orders-0", "the log was truncated")
    assert reset.skipped is not None
    assert reset.skipped < 0


# -- silences without a rebalance


def silences(tables: Told) -> set[str]:
    """Why partitions stood still, without the times; each sentence ends with it."""
    for row in tables.silences:
        assert row.because is not None
        assert row.sentence.rstrip(".").endswith(row.because.rstrip("."))
        assert f"was given nothing from {row.partition} for" in row.sentence
    return {
        re.sub(r"\d+(\.\d+)? s|\d+ attempts?", "_", row.because or "") for row in tables.silences
    }


@ONE
def test_a_dead_coordinator_is_named_with_its_address(protocol: str) -> None:
    # Broker 1 leads partitions, too.
    tables = told_of(
        protocol, lambda sim, _: sim.brokers.crash(sim.brokers.coordinator("g")), seconds=25
    )

    assert triggers(tables) == []
    told = silences(tables)
    assert "its leader (broker 1, b1:9092) has not answered for _ (connection refused, _)" in told
    if protocol == "classic":
        assert (
            "the session (_) may have been over for _: no heartbeat was answered: the coordinator"
            " (broker 1, b1:9092) has not answered for _ (connection refused, _)"
        ) in told


@ONE
def test_a_broker_that_is_lost_is_named_with_its_address(protocol: str) -> None:
    tables = told_of(protocol, lambda sim, _: sim.brokers.crash(2, silent=True), seconds=25)

    assert triggers(tables) == []
    assert {row.reason for row in tables.silences} == {"broker"}
    for one in silences(tables):
        assert one.startswith("its leader (broker 2, b2:9092) has not answered")


@ONE
def test_partitions_without_a_leader_name_who_led_them(protocol: str) -> None:
    def leaves_none(sim: Simulation, _: list[Member]) -> None:
        for node in {1, 2, 3} - {sim.brokers.coordinator("g")}:
            sim.brokers.crash(node)

    told = silences(told_of(protocol, leaves_none, seconds=25))

    for broker in ("broker 2, b2:9092", "broker 3, b3:9092"):
        assert any(one.startswith(f"its leader ({broker}) has not answered") for one in told)


@ONE
def test_a_right_that_was_withdrawn_is_named_by_the_silences_and_the_refused_commits(
    protocol: str,
) -> None:
    tables = told_of(protocol, lambda sim, _: sim.brokers.forbid("orders"))

    assert {row.reason for row in tables.silences} == {"refused"}
    for one in silences(tables):
        assert "Fetch for the topic 'orders' was refused by broker" in one
        assert one.endswith("grant this principal READ on the topic (an ACL)")
    assert triggers(tables) == []
    assert {(row.because or "").partition(":")[0] for row in tables.refused_commits} == {
        "TopicAuthorizationFailedError"
    }


@ONE
def test_a_quota_that_is_used_up_is_named_and_no_broker_is_blamed(protocol: str) -> None:
    tables = told_of(
        protocol,
        lambda sim, _: sim.brokers.faults.add(Rule(action=Throttle(8.0), api="Fetch", node=2)),
    )

    assert triggers(tables) == []
    assert {row.reason for row in tables.silences} == {"throttled"}
    assert silences(tables) == {
        "broker 2, b2:9092 has throttled us for _ (a quota is used up); _ are left"
    }
