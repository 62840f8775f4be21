"""Brokers die, hang, are bounced and move: the group goes on as if little had happened.

Three nodes, three members, 300 records a second into twelve partitions with three replicas each.
The controller notices a dead broker after 3 s (`broker.session.timeout.ms`), and until then Kafka
itself neither elects leaders nor acknowledges a commit: no client can be faster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from kafka.errors import KafkaTimeoutError

from tests.kafka.embedded import Cluster
from tests.kafka.fault_support import PARTITIONS, Manner, Verdict, World
from tests.kafka.support import PROMPT_S, poll_until, quick, wait_until

MEMBERS = ("a", "b", "c")
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 4
OURS = pytest.mark.ours("what a real one does then, others show")
PROTOCOLS = pytest.mark.parametrize("manner", [pytest.param("eager", marks=OURS), "consumer"])

#: Where a coordinator is frozen: a heartbeat waits for half of it.
SESSION_S = 12.0

#: From the death of a broker until its partitions flow again: 3 s until the controller notices, up
#: to a second to elect and spread the news, and a client that looks every half second.
RESUME_AFTER_DEATH_S = 10.0

#: From an orderly shutdown: well under a second, unless the active controller is shut down, whose
#: successor must be elected first (3 s were measured), on a machine that takes its time.
RESUME_AFTER_SHUTDOWN_S = 3.0 + PROMPT_S

#: A frozen broker's connections stay open, and only patience tells: half a session (6 s) for a
#: heartbeat. From when Kafka has elected another leader: metadata is asked once a second while a
#: fetch is late; a heartbeat that went to the frozen one once more has up to half a session.
RESUME_AFTER_FREEZE_S = 5.0 + SESSION_S / 2
FETCHED_AFTER_ELECTION_S = 1.0 + PROMPT_S
COMMITTED_AFTER_ELECTION_S = SESSION_S / 2 + PROMPT_S
FREEZE_S = 3.0 + SESSION_S / 2
FREEZING = pytest.mark.once("it takes 12 s; a frozen broker is met below in 3 s")


def settled_and_loaded(world: World) -> None:
    """Three members share the partitions, and records flow."""
    world.join(*MEMBERS)
    world.settled(*MEMBERS)
    world.load()


def assert_undisturbed(world: World, verdict: Verdict) -> None:
    """Nothing lost or repeated, no rebalance, no partition lost, no commit that failed."""
    assert verdict.faults == []
    assert verdict.repeated == 0
    assert world.unrest == []


def assert_resumed(world: World, verdict: Verdict, within: float) -> None:
    """No partition stood still for longer, or not for us alone: then Kafka had none for anybody."""
    longest = max(verdict.waits, key=verdict.waits.__getitem__)
    waited, alike = verdict.waits[longest], world.witnessed(longest)
    assert waited < within + alike, world.story(longest, verdict)


def others_lead(world: World, node: int, topic: str) -> float:
    """Wait until nothing of the topic is led by this broker, which is gone; how long Kafka took.

    About 3 s on an idle machine; up to 6.6 s were seen where it was the active controller.
    """
    other = next(one for one in world.kafka.node_ids if one != node)

    def led() -> bool:
        try:
            return any(one.leader == node for one in world.kafka.view(other).of_topic(topic))
        except OSError:  # too busy to say
            return True

    began = time.monotonic()
    wait_until(lambda: not led(), f"others lead what broker {node} led", within=30)
    return time.monotonic() - began


def freeze_until_others_lead(world: World, node: int, topic: str) -> float:
    """Stop a broker, and give clients the time to go on; how long Kafka took to go on itself."""
    world.kafka.pause(node)
    elected_after = others_lead(world, node, topic)
    time.sleep(max(FREEZE_S - elected_after, FETCHED_AFTER_ELECTION_S + 0.5))
    return elected_after


def longest_commit(world: World) -> float:
    """How long the slowest commit took, in seconds."""
    return max(float(report["took"]) for report in world.ensemble.said("committed"))


def offsets_partition(group: str) -> int:
    """Where Kafka keeps a group: Java's hash of its name, modulo the offsets topic's partitions."""
    number = 0
    for character in group:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >= 1 << 31 else number
    return abs(signed) % OFFSETS_PARTITIONS


@pytest.mark.once("it takes ten seconds; brokers that go are met on both elsewhere")
def test_a_broker_that_is_killed_and_restarted_costs_seconds_and_no_record_and_no_rebalance(
    kafka3: Cluster, topic: str, group: str
) -> None:
    with World(kafka3, topic, group) as world:
        settled_and_loaded(world)
        world.watch_coordinator()

        # It leads partitions of the topic, too.
        node = world.coordinator()
        kafka3.kill(node)
        elected_after = others_lead(world, node, OFFSETS_TOPIC)
        kafka3.restart(node)
        verdict = world.finish()

        assert_undisturbed(world, verdict)
        # Kafka takes its time when the machine is busy; then no client can be faster. (A member
        # that commits polls when that is done.)
        taken_over_after = max(elected_after, world.nobody_for())
        longest = max(RESUME_AFTER_DEATH_S, taken_over_after + FETCHED_AFTER_ELECTION_S)
        assert verdict.resume < longest
        longest = max(RESUME_AFTER_DEATH_S, taken_over_after + COMMITTED_AFTER_ELECTION_S)
        assert longest_commit(world) < longest


@pytest.mark.timeout(400)  # brokers start one after the other: 140 s at a load of 40
def test_a_rolling_bounce_of_all_brokers_is_hardly_noticed(
    kafka3: Cluster, topic: str, group: str
) -> None:
    with World(kafka3, topic, group) as world:
        settled_and_loaded(world)
        world.call_witness()

        for node in kafka3.node_ids:
            kafka3.restart(node)
        verdict = world.finish()

        # Among the faults it looks for: a member's position that is not what it was given.
        assert_undisturbed(world, verdict)
        assert_resumed(world, verdict, RESUME_AFTER_SHUTDOWN_S)


@PROTOCOLS
def test_commits_are_retried_until_the_new_coordinator_has_them_when_it_moves(
    kafka3: Cluster, topic: str, group: str, manner: Manner
) -> None:
    with World(kafka3, topic, group, manner=manner) as world:
        settled_and_loaded(world)
        world.call_witness()

        before = world.coordinator()
        after = world.bystander()
        partition = offsets_partition(group)
        kafka3.move_leader(OFFSETS_TOPIC, partition, after)
        time.sleep(1)
        moved_to = world.coordinator()
        verdict = world.finish()

        assert moved_to == after != before
        assert_undisturbed(world, verdict)
        assert_resumed(world, verdict, RESUME_AFTER_SHUTDOWN_S)
        assert longest_commit(world) < RESUME_AFTER_SHUTDOWN_S


@OURS
def test_a_commit_waits_for_a_coordinator_that_shuts_down_and_the_application_sees_no_error(
    kafka3: Cluster, topic: str, group: str
) -> None:
    with World(kafka3, topic, group) as world:
        settled_and_loaded(world)
        world.call_witness()
        world.watch_coordinator()

        node = world.coordinator()
        began = time.monotonic()
        kafka3.terminate(node)
        others_lead(world, node, OFFSETS_TOPIC)
        elected_after = time.monotonic() - began
        kafka3.restart(node)
        verdict = world.finish()

        assert_undisturbed(world, verdict)
        assert_resumed(world, verdict, RESUME_AFTER_SHUTDOWN_S)
        # Kafka takes its time when the machine is busy; then no client can be faster.
        taken_over_after = max(elected_after, world.nobody_for())
        assert longest_commit(world) < max(RESUME_AFTER_SHUTDOWN_S, taken_over_after + PROMPT_S)


@OURS
def test_another_coordinator_is_found_at_once_however_long_fetches_wait(
    kafka3: Cluster, topic: str, group: str
) -> None:
    with (
        World(kafka3, topic, group) as world,
        quick(
            kafka3, topic, group_id=group, fetch_max_wait_ms=25_000, session_timeout_ms=30_000
        ) as consumer,
    ):
        poll_until(consumer, consumer.assignment, "the consumer owns the partitions")
        consumer.poll(1000)  # now each broker keeps a Fetch
        world.watch_coordinator()

        node = world.coordinator()
        kafka3.terminate(node)
        elected_after = others_lead(world, node, OFFSETS_TOPIC)
        began = time.monotonic()
        consumer.commit(timeout_ms=30_000)

        # Kafka takes its time when the machine is busy; then no client can be faster.
        taken_over_after = max(elected_after, world.nobody_for())
        assert time.monotonic() - began < max(RESUME_AFTER_SHUTDOWN_S, taken_over_after + PROMPT_S)


@FREEZING
def test_a_broker_that_freezes_takes_no_partition_from_anybody_and_other_partitions_flow(
    kafka3: Cluster, topic: str, group: str
) -> None:
    # Auto-commit: what a member does then depends on the leaders of its partitions alone.
    with World(kafka3, topic, group, session_s=SESSION_S, enable_auto_commit=True) as world:
        settled_and_loaded(world)
        world.call_witness()

        node = world.bystander()  # the next test freezes the coordinator
        led = world.led_by(node)
        elected_after = freeze_until_others_lead(world, node, topic)
        kafka3.resume(node)
        verdict = world.finish()

        assert_undisturbed(world, verdict)
        others = {one: wait for one, wait in verdict.waits.items() if one not in led}
        assert len(others) == PARTITIONS - len(led) < PARTITIONS
        longest = max(others, key=others.__getitem__)
        # A live node may stand still too, for the machine's reasons; then everybody waits for it.
        assert others[longest] < PROMPT_S + world.witnessed(longest), world.story(longest, verdict)
        # Kafka takes its time when the machine is busy; then no client can be faster.
        assert verdict.resume < max(RESUME_AFTER_FREEZE_S, elected_after + FETCHED_AFTER_ELECTION_S)


@FREEZING
def test_commits_go_to_another_coordinator_when_theirs_freezes(
    kafka3: Cluster, topic: str, group: str
) -> None:
    with World(kafka3, topic, group, session_s=SESSION_S) as world:
        settled_and_loaded(world)
        world.watch_coordinator()

        node = world.coordinator()
        kafka3.pause(node)
        elected_after = others_lead(world, node, OFFSETS_TOPIC)
        elected_at = time.monotonic()
        # All of them find the new coordinator: the old one comes back only then.
        for member in MEMBERS:
            wait_until(
                lambda member=member: world.ensemble.said("committed", by=member, since=elected_at),
                f"{member} commits while the old coordinator is frozen",
            )
        kafka3.resume(node)
        verdict = world.finish()

        assert_undisturbed(world, verdict)
        taken_over_after = max(elected_after, world.nobody_for())
        longest = max(RESUME_AFTER_FREEZE_S, taken_over_after + COMMITTED_AFTER_ELECTION_S)
        assert longest_commit(world) < longest


@OURS
def test_committed_keeps_its_deadline_while_the_coordinator_is_frozen(
    kafka3: Cluster, topic: str, group: str
) -> None:
    with World(kafka3, topic, group) as world:
        node = world.coordinator()
        consumer = quick(kafka3, topic, group_id=group, session_timeout_ms=30_000)
        poll_until(consumer, consumer.assignment, "the consumer owns the partitions")
        one = next(iter(consumer.assignment()))
        assert consumer.committed(one) is None

        # The controller takes 3 s to give the group to another broker.
        kafka3.pause(node)
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError):
            consumer.committed(one, timeout_ms=1500)
        looked_up_at = time.monotonic()
        consumer.close(timeout_ms=1000)
        closed_at = time.monotonic()

        assert looked_up_at - began < PROMPT_S
        assert closed_at - looked_up_at < PROMPT_S


@pytest.mark.timeout(400)  # 117 s were seen at a load of 40
@pytest.mark.once("it takes ten seconds; brokers that go are met on both elsewhere")
def test_while_all_brokers_are_down_polls_end_in_time_and_afterwards_everything_is_delivered(
    kafka3: Cluster, topic: str, group: str, unique: Callable[[str], str]
) -> None:
    with World(kafka3, topic, group, enable_auto_commit=True) as world:
        settled_and_loaded(world)
        other = quick(kafka3, topic, group_id=unique("group"))
        poll_until(other, other.assignment, "the other consumer owns the partitions")

        killers = [threading.Thread(target=kafka3.kill, args=(n,)) for n in kafka3.node_ids]
        for killer in killers:
            killer.start()
        for killer in killers:
            killer.join()
        down_at = time.monotonic()
        other.close(timeout_ms=3000)
        closed_after = time.monotonic() - down_at

        def in_vain(member: str) -> bool:
            """Whether it has polled after all that was fetched before was given to it."""
            polls = world.ensemble.said("polled", by=member, since=down_at)
            return len(polls) > 3 and not any(poll["got"] for poll in polls[-3:])

        wait_until(lambda: all(map(in_vain, MEMBERS)), "everybody polls in vain")
        polls = world.ensemble.said("polled", since=down_at)
        kafka3.restart(*kafka3.node_ids)
        verdict = world.finish()

        assert closed_after < 3 + PROMPT_S
        assert max(poll["took"] for poll in polls) < PROMPT_S
        assert verdict.faults == []
