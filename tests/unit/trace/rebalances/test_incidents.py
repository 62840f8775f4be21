"""The sentence of an incident names what caused it."""

from __future__ import annotations

import pytest

from aktor.simulation import Simulation
from aktor.trace.rebalances.lines import Event
from tests.gate import all_but_the_first
from tests.unit.trace.rebalances.incidents import Incident, sentences_of, slow_callback, tables_of
from tests.unit.trace.rebalances.told import BEGAN

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])

#: Where one of them shows nearly all that the other does.
ONE = pytest.mark.parametrize("protocol", all_but_the_first(1, ["classic", "consumer"]))


@BOTH
def test_a_slow_callback_is_named_though_the_others_are_done_last(protocol: str) -> None:
    events = slow_callback(protocol)
    (sentence,) = sentences_of(events, since=9)
    told = tables_of(events).silences

    # (What a consumer tells of a callback is as of then.)
    words = [row.sentence for row in told if (row.duration_ms or 0) > 3500]
    of_then = [one for one in words if ": the listener's on_partitions_" in one]
    assert all("; it said after " in one for one in of_then)
    assert of_then
    assert "triggered by carol on host-carol: first join" in sentence
    assert (
        "bob on host-bob held it: its revoked callback took 4.0 s, its assigned callback took 4.0 s"
    ) in sentence


@BOTH
def test_who_is_fenced_because_of_a_late_poll_and_a_slow_callback_says_so(protocol: str) -> None:
    """Neither is too long by itself."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        _, bob = (group.joins(max_poll_interval_ms=4000) for _ in range(2))
        sim.run(for_=10)
        bob.busy_for = 3.0
        sim.run(for_=0.3)
        bob.slow_listener = 3.0
        group.joins(max_poll_interval_ms=4000)
        sim.run(for_=20)

        sentences = [one for one in group.sentences(since=9) if "fenced" in one]

    waited = {
        "classic": (
            "UNKNOWN_MEMBER_ID after the rebalance had waited 1.8 s for a poll, 2.2 s for"
            " on_partitions_revoked to end (or a poll to begin it) (max_poll_interval_ms: it waits"
            " for 4.0 s at most, and may have begun 1.0 s before the member heard of it);"
        ),
        "consumer": (
            " is not a member of group g after the rebalance had waited 3.0 s for"
            " on_partitions_revoked, 3.0 s for on_partitions_assigned (max_poll_interval_ms: it"
            " waits for 4.0 s at most);"
        ),
    }
    assert "triggered by bob on host-bob: fenced: UNKNOWN_MEMBER_ID" in sentences[0]
    assert waited[protocol] in sentences[0]


def test_a_group_that_waited_for_a_member_that_does_not_poll_names_it() -> None:
    with Simulation(1) as sim:
        group = Incident(sim, "classic")
        alice = group.joins(max_poll_interval_ms=4000)
        sim.run(for_=5)
        alice.busy_for = 7.0
        sim.run(for_=0.5)
        group.joins()
        sim.run(for_=0.1)
        group.joins()
        sim.run(for_=6)

        (sentence,) = group.sentences(since=5)

    assert "triggered by bob on host-bob: first join" in sentence
    assert (
        "alice on host-alice held it: its application did not poll for 2.8 s, it left the group: no"
        " poll for 4.000 s (max_poll_interval_ms)"
    ) in sentence


@ONE
def test_a_member_that_polls_too_late_has_triggered_the_rebalance_and_its_return(
    protocol: str,
) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        _, bob, _ = (group.joins(max_poll_interval_ms=4000) for _ in range(3))
        sim.run(for_=10)
        # Away for longer than a heartbeat interval: the others hear that it left before it returns.
        bob.busy_for = 11.0
        sim.run(for_=20)

        first, second = group.sentences(since=9)

    late = "triggered by bob on host-bob: no poll for 4.000 s (max_poll_interval_ms)"
    assert late in first
    assert "triggered by bob on host-bob: the application polls again" in second


@BOTH
def test_members_that_join_while_the_coordinator_is_dead_wait_for_it(protocol: str) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        sim.brokers.crash(sim.brokers.coordinator("g"))
        for _ in range(3):
            group.joins()
        sim.run(for_=30)

        sentences = group.sentences()

    assert sentences
    for sentence in sentences:
        assert "first join" in sentence
        assert "s for the coordinator, broker 1 at b1:9092: connection refused" in sentence


@BOTH
def test_a_commit_before_a_revocation_waits_for_a_dead_coordinator(protocol: str) -> None:
    """The member that commits was said to hold the rebalance."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        group.joins(metadata_max_age_ms=2000)
        group.joins(metadata_max_age_ms=2000)
        sim.run(for_=10)
        if protocol == "classic":
            sim.brokers.grow_topic("orders", 8)
        else:
            group.joins()
            while not gives_up(group):
                sim.run(for_=0.001)
        sim.brokers.crash(sim.brokers.coordinator("g"))
        sim.run(for_=6)
        early = group.sentences(since=9)
        sim.run(for_=20)
        tables = tables_of(group.events())

    late = [row.sentence for row in tables.rebalances if row.began >= BEGAN + 9]
    for sentences, waits in ((early, "has waited 6.0 s"), (late, "waited 9.")):
        (sentence,) = sentences
        assert f"; it {waits}" in sentence
        assert " s for the coordinator, broker 1 at b1:9092: " in sentence
        assert "commit" not in sentence
    why = "it is about to be revoked, after a last commit: the coordinator (broker 1, b1:9092) has"
    assert any(why in row.sentence for row in tables.silences)


def gives_up(group: Incident) -> bool:
    return any(
        event["event"] == "partitions.held_back" and event["t"] > BEGAN + 10
        for event in group.events()
    )


@ONE
def test_a_member_that_was_killed_is_named_by_what_the_coordinator_did(protocol: str) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        _, bob, _ = group.joins(), group.joins(), group.joins()
        sim.run(for_=10)
        bob.kill()
        sim.run(for_=60)

        (sentence,) = group.sentences(since=11)

    assert (
        "triggered by bob on host-bob: the coordinator took it out of the group, and it had not"
        " said that it leaves (it was killed, stopped or cut off)"
    ) in sentence


def test_a_member_whose_clock_is_ahead_is_not_said_to_be_expelled() -> None:
    """It leaves, by its clock, ten seconds after others have its partitions."""
    with Simulation(1) as sim:
        group = Incident(sim, "consumer")
        members = []
        for _ in range(3):
            members.append(group.joins())
            sim.run(for_=3)
        sim.run(for_=7)
        _, bob, _ = members
        bob.does_next = lambda loop, consumer: (consumer.close(), sim.sleep(1000))
        sim.run(for_=20)
        events = group.events()
    of_bob = [event for event in events if event["consumer"] == "bob"]
    shifted = [{**event, "t": event["t"] + 10.0} for event in of_bob]

    told = sentences_of([event for event in events if event not in of_bob] + shifted)

    assert "the coordinator took it out" not in " ".join(told)
    (sentence,) = (one for one in told if "bob on host-bob: the consumer was closed" in one)
    assert "apart: causes and times are in doubt" in sentence


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("by", [-5.0, 5.0])
def test_a_member_whose_clock_differs_has_a_trace_and_is_in_the_rebalance(
    by: float, slow: bool
) -> None:
    """The leader was answered before carol asked to join, or carol before the leader did, by their
    own clocks: one generation shows it. A group that waits for long hides it."""
    events = slow_callback("classic") if slow else join_of_a_third()
    shifted = [
        {**event, "t": event["t"] + by} if event["consumer"] == "carol" else event
        for event in events
    ]

    (sentence,) = sentences_of(shifted, since=4)

    assert "triggered by carol on host-carol: first join" in sentence
    assert "taken" not in sentence
    assert "no trace" not in sentence
    ahead, behind = ("carol", "bob") if by > 0 else ("bob", "carol")
    apart = f"The clocks of {ahead} on host-{ahead} and {behind} on host-{behind} are at least "
    assert (apart in sentence) is not slow


def join_of_a_third() -> list[Event]:
    with Simulation(1) as sim:
        group = Incident(sim, "classic")
        group.joins()
        group.joins()
        sim.run(for_=10)
        group.joins()
        sim.run(for_=20)
        return group.events()


def test_a_static_member_that_is_back_has_no_other_clock() -> None:
    """It is told the generation that the group has (KIP-345)."""
    with Simulation(1) as sim:
        group = Incident(sim, "classic")
        members = [group.joins(group_instance_id=f"i{number}") for number in range(2)]
        sim.run(for_=10)
        for number, member in enumerate(members):
            member.kill()
            sim.run(for_=2.5)
            group.joins(group_instance_id=f"i{number}")
            sim.run(for_=5)
        tables = tables_of(group.events())

    assert len({row.last_generation for row in tables.rebalances}) < len(tables.rebalances)
    assert not any("apart" in row.sentence for row in tables.rebalances)


def test_a_member_without_a_trace_is_named_by_the_leaders_list() -> None:
    with Simulation(1) as sim:
        group = Incident(sim, "classic")
        for _ in range(3):
            group.joins()
            sim.run(for_=10)
        events = group.events()
    of_carol = [event for event in events if event["consumer"] == "carol"]

    (sentence,) = sentences_of([event for event in events if event not in of_carol], since=19)

    (carol,) = {event["member"] for event in of_carol if event.get("member")}
    assert f"triggered by {carol}: a new member, says alice on host-alice, which leads" in sentence


def test_a_member_is_in_one_rebalance_however_many_parts_it_has_in_it() -> None:
    """A KIP-848 member has a part for each target: they were counted as rebalances, and carol, who
    was done after 12.7 s, was said to have been in three of 15 ms."""
    tables = tables_of(slow_callback("consumer"))

    (carol,) = [row for row in tables.members if row.consumer == "carol"]
    its = [row for row in tables.parts if row.consumer == "carol"]
    (rebalance,) = [row for row in tables.rebalances if row.initiator == "carol"]
    assert len(its) == 3
    assert {row.rebalance for row in its} == {rebalance.rebalance}
    assert (carol.rebalances, carol.initiated) == (1, 1)
    assert carol.rebalancing_ms == rebalance.duration_ms > 12_000
