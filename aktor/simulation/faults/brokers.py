"""Faults of brokers, and of the replicas that they lead or follow."""

from __future__ import annotations

import random

from aktor.broker import faults as rules
from aktor.broker.faults import (
    Delay,
    Throttle,
)
from aktor.simulation.faults.disturbed import (
    Disturbed,
    End,
    nothing,
    some_broker,
    some_partition,
)

__all__ = [
    "broker_crash",
    "broker_fenced",
    "broker_moved",
    "broker_outdated",
    "broker_slow",
    "clients_throttled",
    "follower_held",
    "leader_move",
    "unclean_election",
]


def broker_crash(sim: Disturbed, draw: random.Random) -> End:
    """It stops or dies; its connections are closed, or half-open since its machine is gone."""
    brokers = sim.brokers
    node = draw.choice(sorted(brokers.model.nodes))
    if node not in brokers.running or len(brokers.running) < len(brokers.model.nodes) - 1:
        return nothing
    sim.brokers.crash(node, clean=draw.random() < 0.5, silent=draw.random() < 0.3)
    return lambda: sim.brokers.restart(node)


def broker_moved(sim: Disturbed, draw: random.Random) -> End:
    """The broker is started again at another address, as a container may be. In one simulation it
    is always the same broker: a consumer without connections knows only the bootstrap addresses,
    and those of the other brokers must still work."""
    brokers, network = sim.brokers, sim.network
    node = next(iter(network.moved), None) or draw.choice(sorted(brokers.model.nodes))
    if len(brokers.running) < len(brokers.model.nodes):
        return nothing
    brokers.crash(node, clean=draw.random() < 0.5, silent=draw.random() < 0.3)

    def start() -> None:
        network.move_broker(node)
        brokers.restart(node)

    return start


def broker_fenced(sim: Disturbed, draw: random.Random) -> End:
    """Alive, and not for the controller. One at a time, and only while no other is gone."""
    brokers = sim.brokers
    if not all(broker.up for broker in brokers.model.nodes.values()):
        return nothing
    node = draw.choice(sorted(brokers.model.nodes))
    brokers.fence(node)
    return lambda: brokers.unfence(node)


def leader_move(sim: Disturbed, draw: random.Random) -> End:
    """Another replica in sync leads a partition."""
    topic = draw.choice(sim.topics)
    if topic.partitions:
        sim.brokers.move_leader(topic, some_partition(sim, topic, draw))
    return nothing


def broker_slow(sim: Disturbed, draw: random.Random) -> End:
    """A broker takes its time for everything."""
    node = some_broker(sim, draw)
    slow = Delay(draw.choice([0.05, 0.3, 1.0, 3.0]))
    return sim.network.disturb(rules.Fault(action=slow, node=node, times=None))


def clients_throttled(sim: Disturbed, draw: random.Random) -> End:
    """A quota is used up, of an API or of everything that is asked of a broker."""
    node = some_broker(sim, draw)
    throttle = Throttle(draw.choice([0.1, 1.0, 4.0]))
    api = draw.choice([None, "Fetch", "Fetch", "OffsetCommit", "Metadata"])
    return sim.network.disturb(
        rules.Fault(action=throttle, node=node, api=api, times=draw.randint(1, 20))
    )


def broker_outdated(sim: Disturbed, draw: random.Random) -> End:
    """A broker hears nothing new about leaders and coordinators, and tells what it knows."""
    node = draw.choice(sorted(sim.brokers.model.nodes))
    sim.network.outdated.setdefault(node, {})
    return lambda: sim.network.outdated.pop(node, None)


def follower_held(sim: Disturbed, draw: random.Random) -> End:
    """While the follower is in the ISR, the high watermark waits for it; and if it becomes the
    leader, it truncates the log to what it has."""
    topic, partition, node = _some_follower(sim, draw)
    if node is None:
        return nothing
    return lambda: sim.brokers.release_follower(topic, partition, node)


def unclean_election(sim: Disturbed, draw: random.Random) -> End:
    """A follower falls behind, and leads in the end: what was replicated without it is lost."""
    topic, partition, node = _some_follower(sim, draw)
    if node is None:
        return nothing

    def elect() -> None:
        sim.brokers.elect_uncleanly(topic, partition, node)
        sim.brokers.release_follower(topic, partition, node)

    return elect


def _some_follower(sim: Disturbed, draw: random.Random) -> tuple[str, int, int | None]:
    topic = draw.choice(sim.topics)
    if not topic.partitions:
        return topic, 0, None
    partition = some_partition(sim, topic, draw)
    return topic, partition, sim.brokers.hold_follower(topic, partition, draw)
