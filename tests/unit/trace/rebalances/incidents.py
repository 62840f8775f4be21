"""Incidents of simulated groups, in virtual time: what their traces hold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from aktor.simulation import Member, Simulation, Topic
from aktor.trace.rebalances import Tables, read
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import Rebalance
from tests.unit.trace.rebalances.told import BEGAN

NAMES = ("alice", "bob", "carol", "dave")

#: Of a classic member. In a KIP-848 group the broker says how long a session is: 45 s.
SESSION = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}


class Incident:
    """A group `g` that reads the six partitions of `orders`, to which ten records a second are
    written."""

    def __init__(self, sim: Simulation, protocol: str, seconds: float = 60.0) -> None:
        self.sim = sim
        self.protocol = protocol
        self.orders: Topic = sim.topic("orders", partitions=6)
        sim.trickle(self.orders, per_second=10, seconds=seconds)

    def joins(self, **configs: Any) -> Member:
        """Another member: alice is the first, then bob, carol and dave."""
        name = NAMES[len(self.sim.members)]
        session = SESSION if self.protocol == "classic" else {}
        settings = {"client_id": name, "group_protocol": self.protocol, **session, **configs}
        (member,) = self.sim.consumers(
            group="g", topics=[self.orders], each=lambda config, _: {**config, **settings}
        )
        return member

    def events(self) -> list[Event]:
        """The traces of all members."""
        return list(self.sim.history.traces(BEGAN))

    def sentences(self, since: float = 0.0) -> list[str]:
        """Of the rebalances that began so many seconds after the beginning, or later."""
        return sentences_of(self.events(), since)


@cache
def slow_callback(protocol: str) -> tuple[Event, ...]:
    """Bob's listener takes four seconds when carol joins."""
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        _, bob = group.joins(), group.joins()
        sim.run(for_=10)
        bob.slow_listener = 4.0
        group.joins()
        sim.run(for_=20)
        return tuple(group.events())


def sentences_of(events: Iterable[Event], since: float = 0.0) -> list[str]:
    """Of the rebalances that began so many seconds after the beginning, or later."""
    rows, _ = read(json.dumps(event) for event in events)
    rebalances = [row for row in rows if isinstance(row, Rebalance)]
    return [row.sentence for row in rebalances if row.began >= BEGAN + since]


def tables_of(events: Iterable[Event]) -> Tables:
    """What these traces say."""
    return Tables(read(json.dumps(event) for event in events)[0])


def closes(sim: Simulation, member: Member) -> None:
    """The member closes its consumer, and does nothing more."""

    def close(_: Any, consumer: Any) -> None:
        consumer.close()
        sim.sleep(1000)

    member.does_next = close


@cache
def without_a_group() -> list[Event]:
    """Two consumers without a group read all of `orders`: one does not poll for 5 s, and a broker
    of the other is not there for some seconds."""
    with Simulation(1) as sim:
        orders = sim.topic("orders", partitions=6)
        sim.trickle(orders, per_second=10, seconds=60.0)
        names = ["alice", "bob"]
        alice, _ = sim.consumers(
            group=None,
            topics=[orders],
            count=2,
            by_hand=True,
            each=lambda config, number: {**config, "client_id": names[number]},
        )
        sim.run(for_=10)
        alice.busy_for = 5.0
        sim.run(for_=10)
        sim.brokers.crash(1)
        sim.run(for_=20)
        return list(sim.history.traces(BEGAN))
