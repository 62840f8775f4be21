"""Faults of members: their processes, clocks, actors and code."""

from __future__ import annotations

import random
from typing import Final

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.simulation.faults.disturbed import (
    Disturbed,
    End,
    nothing,
    some_member,
)
from aktor.simulation.programs.habits import go_back
from aktor.simulation.world.crashes import Crash
from aktor.simulation.world.interrupts import HANDLERS
from aktor.simulation.world.member import Member

__all__ = [
    "MOST_LINES",
    "actor_crash",
    "busy_member",
    "clock_jump",
    "interrupted",
    "killed_at_line",
    "member_frozen",
    "member_killed",
    "member_suspended",
    "slow_listener",
    "sought",
]

#: A signal comes within so many lines, as a power of two: some 200 are run for a poll.
MOST_LINES: Final = 13


def member_frozen(sim: Disturbed, draw: random.Random) -> End:
    """Its process stands still; its clock goes on."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    member.freeze()
    return member.thaw


def member_suspended(sim: Disturbed, draw: random.Random) -> End:
    """Its machine sleeps, and its monotonic clock with it."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    member.freeze()
    return lambda: member.thaw(asleep=True)


def clock_jump(sim: Disturbed, draw: random.Random) -> End:
    """Its monotonic clock jumps ahead."""
    member = some_member(sim, draw)
    if member is not None:
        member.jump_clock(draw.choice([0.3, 3.0, 20.0, 600.0]))
    return nothing


def member_killed(sim: Disturbed, draw: random.Random) -> End:
    """At once, or at any of its next turns: in the middle of whatever it does then."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    if draw.random() < 0.3:
        member.kill()
    else:
        member.kill_after(draw.randint(0, 300))

    return lambda: _replace(sim, member)


def interrupted(sim: Disturbed, draw: random.Random) -> End:
    """A signal in the middle of one of a consumer's methods, of a poll or of many."""
    member = some_member(sim, draw)
    if member is not None:
        lines = int(2 ** draw.uniform(0.0, MOST_LINES))
        member.interrupt(lines, draw.choice(list(HANDLERS)))
    return nothing


def killed_at_line(sim: Disturbed, draw: random.Random) -> End:
    """In place of one of the next lines of its own code, mostly of those after it was given
    records: between the work and the commit, say."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    if draw.random() < 0.2:
        member.kill_at_line(draw.randint(0, 100))
    else:
        member.kill_at_work(draw.random())

    return lambda: _replace(sim, member)


def _replace(sim: Disturbed, member: Member) -> None:
    """Start a new process in the place of a killed one: one, however many faults have killed it.

    Two with the name of one static member would fight for ever, and two drivers of one streaming
    query would both write its checkpoint.
    """
    member.kill()
    if not member.replaced:
        member.replaced = True
        sim.replace(member)


def actor_crash(sim: Disturbed, draw: random.Random) -> End:
    """One of its actors crashes over one of its next messages."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    left = [draw.randint(0, 60)]

    def before(actor: CooperativeActor, message: object) -> None:
        if actor.name == "supervisor":
            return
        left[0] -= 1
        if left[0] < 0:
            member.before_each = None
            raise Crash(f"{actor.name} on {type(message).__name__}")

    member.before_each = before
    return lambda: setattr(member, "before_each", None)


def busy_member(sim: Disturbed, draw: random.Random) -> End:
    """Its loop is busy for a while before it polls again."""
    member = some_member(sim, draw)
    if member is not None:
        member.busy_for = draw.choice([1.0, 5.0, 15.0])
    return nothing


def slow_listener(sim: Disturbed, draw: random.Random) -> End:
    """Its rebalance listener takes its time."""
    member = some_member(sim, draw)
    if member is None:
        return nothing
    member.slow_listener = draw.choice([0.5, 3.0, 12.0])
    return lambda: setattr(member, "slow_listener", 0.0)


def sought(sim: Disturbed, draw: random.Random) -> End:
    """Its loop seeks three records back in one partition."""
    member = some_member(sim, draw)
    if member is not None:
        member.does_next = go_back
    return nothing
