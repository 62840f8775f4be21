"""Faults between members and brokers: links, connections, addresses."""

from __future__ import annotations

import random

from aktor.simulation.faults.disturbed import (
    Disturbed,
    End,
    hosts,
    nothing,
    some_broker,
    some_member,
)
from aktor.simulation.world.network import NOWHERE, Direction

__all__ = [
    "address_lost",
    "address_nowhere",
    "connection_half_open",
    "connections_reset",
    "link_cut",
    "link_half_cut",
    "loss",
    "member_cut_off",
    "slow_network",
    "torn_frames",
]


def link_cut(sim: Disturbed, draw: random.Random) -> End:
    """Nothing passes between a member and a broker."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    node = draw.choice(sorted(sim.brokers.model.nodes))
    sim.network.cut_link(member.name, node)
    return lambda: sim.network.mend_link(member.name, node)


def link_half_cut(sim: Disturbed, draw: random.Random) -> End:
    """One direction between a member and a broker is cut; the other one works."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    node = draw.choice(sorted(sim.brokers.model.nodes))
    directions: tuple[Direction, Direction] = ((member.name, node), (node, member.name))
    sim.network.cut_way(draw.choice(directions))
    return lambda: sim.network.mend_link(member.name, node)


def torn_frames(sim: Disturbed, draw: random.Random) -> End:
    """Frames come in pieces."""
    sim.network.tearing = draw.uniform(0.1, 0.6)
    return lambda: setattr(sim.network, "tearing", 0.0)


def member_cut_off(sim: Disturbed, draw: random.Random) -> End:
    """Nothing passes between a member and all brokers."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    nodes = sorted(sim.brokers.model.nodes)
    for node in nodes:
        sim.network.cut_link(member.name, node)

    def mend() -> None:
        for node in nodes:
            sim.network.mend_link(member.name, node)

    return mend


def connections_reset(sim: Disturbed, draw: random.Random) -> End:
    """A member's connections to a broker, or to all, are reset."""
    member = some_member(sim, draw)
    if member is not None:
        for host in member.hosts:
            host.break_connections(draw.choice([None, *sorted(sim.brokers.model.nodes)]))
        if member.producers.connected:
            nodes = sorted(sim.brokers.model.nodes)
            member.producers.break_connections(draw.choice([None, *nodes]))
    return nothing


def connection_half_open(sim: Disturbed, draw: random.Random) -> End:
    """A firewall forgets a connection, and tells neither end: often that to a coordinator."""
    member = some_member(sim, draw)
    if member is not None:
        node = draw.choice(sorted(sim.brokers.model.nodes))
        name = draw.choice(["coordinator-", "join-", f"{node}#", f"{node}-fetch#"])
        for host in member.hosts:
            host.swallow(name)
        member.producers.swallow(node)
    return nothing


def loss(sim: Disturbed, draw: random.Random) -> End:
    """Frames are lost, and sent again."""
    sim.network.loss = draw.uniform(0.01, 0.2)
    return lambda: setattr(sim.network, "loss", 0.0)


def slow_network(sim: Disturbed, draw: random.Random) -> End:
    """Frames take longer."""
    sim.network.slower = draw.choice([0.01, 0.1, 1.0])
    return lambda: setattr(sim.network, "slower", 0.0)


def address_nowhere(sim: Disturbed, draw: random.Random) -> End:
    """What a broker advertises drops all packets; connections that are there go on."""
    node = sim.brokers.model.nodes[draw.choice(sorted(sim.brokers.model.nodes))]
    node.host = NOWHERE
    return lambda: setattr(node, "host", sim.network.address(node.node_id))


def address_lost(sim: Disturbed, draw: random.Random) -> End:
    """One of the addresses of a broker's name leads nowhere; so do connections by it, until they
    are reset in the end. From then on all its addresses lead there."""
    names, node = sim.network.names, some_broker(sim, draw)
    if names.addresses == 1:
        return nothing
    names.dead[node] = draw.randrange(names.addresses)
    for host in hosts(sim):
        host.swallow_what_is_dead()

    def find() -> None:
        names.dead.pop(node, None)
        for host in hosts(sim):
            host.break_swallowed(node)

    return find
