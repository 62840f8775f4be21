"""Faults of groups: their coordinators, and members that are expelled."""

from __future__ import annotations

import random

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.broker.partition import NO_LEADER
from aktor.events.membership import PartitionsReleased
from aktor.simulation.faults.disturbed import (
    Disturbed,
    End,
    nothing,
)
from aktor.simulation.world.cluster import SESSION
from aktor.simulation.world.member import Member

__all__ = [
    "coordinator_move",
    "coordinator_refuses",
    "coordinator_silent",
    "frozen_while_handing_back",
    "member_fenced",
    "session_expired",
]


def coordinator_move(sim: Disturbed, draw: random.Random) -> End:
    """Another broker coordinates a group."""
    if sim.groups:
        sim.brokers.move_coordinator(draw.choice(sim.groups))
    return nothing


def coordinator_silent(sim: Disturbed, draw: random.Random) -> End:
    """The broker that coordinates a group is paused, for less time than makes it dead."""
    node = sim.brokers.coordinator(draw.choice(sim.groups)) if sim.groups else NO_LEADER
    if node == NO_LEADER:
        return nothing
    sim.network.silence(node)
    sim.scheduler.after(SESSION - 1.0, lambda: sim.network.speak(node))
    return lambda: sim.network.speak(node)


def coordinator_refuses(sim: Disturbed, draw: random.Random) -> End:
    """The broker that coordinates a group dies and stays dead: connections to it are refused, and
    the others name it as the coordinator, until the controller gives it up. It is started again
    long after that, when another one is the coordinator."""
    brokers = sim.brokers
    node = brokers.coordinator(draw.choice(sim.groups)) if sim.groups else NO_LEADER
    if node not in brokers.running or len(brokers.running) < len(brokers.model.nodes):
        return nothing
    brokers.crash(node)

    def give_up() -> None:
        brokers.give_up(node)
        sim.scheduler.after(SESSION, lambda: brokers.restart(node))

    return give_up


def frozen_while_handing_back(sim: Disturbed, draw: random.Random) -> End:
    """The next member that releases partitions in a rebalance is frozen at that moment and
    expelled. When it goes on, it cannot reach its coordinator for a while. The rebalance may come
    long after the fault was drawn."""
    if not sim.groups:
        return nothing
    group = draw.choice(sim.groups)
    stands, unheard = draw.choice([0.5, 5.0, 10.0]), draw.choice([0.0, 2.0, 5.0])
    watched = [member for member in sim.members if member.running and member.before_each is None]

    def stop(member: Member) -> None:
        if not member.running or not sim.faults.raging:
            return
        member.freeze(hands_back=True)
        sim.scheduler.after(stands, member.thaw)
        node = sim.brokers.coordinator(group)
        if node != NO_LEADER:
            sim.network.cut_link(member.name, node)
            sim.scheduler.after(stands + unheard, lambda: sim.network.mend_link(member.name, node))
        sim.brokers.expire(group, member.name)

    def watch(member: Member) -> None:
        def before(actor: CooperativeActor, message: object) -> None:
            if isinstance(message, PartitionsReleased) and message.positions:
                for candidate in watched:
                    candidate.before_each = None
                sim.scheduler.after(0.0, lambda: stop(member))

        member.before_each = before

    for member in watched:
        watch(member)
    sim.brokers.expire_somebody(group, draw)  # who comes back to have a part again
    return nothing


def session_expired(sim: Disturbed, draw: random.Random) -> End:
    """The coordinator expels a member for no reason."""
    if sim.groups:
        sim.brokers.expire_somebody(draw.choice(sim.groups), draw)
    return nothing


def member_fenced(sim: Disturbed, draw: random.Random) -> End:
    """The coordinator goes by another epoch than a member: it takes it out, and says so."""
    if sim.groups:
        sim.brokers.fence_somebody(draw.choice(sim.groups), draw)
    return nothing
