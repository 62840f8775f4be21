"""Four incidents of a group, replayed in virtual time: the traces that its members write.

    python -m examples.incidents traces
    aktor why traces/slow-callback --svg pictures

Three members read the six partitions of the topic `orders`, to which ten records a second are
written. The same seed gives the same incident. docs/rebalances.md reads them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aktor.simulation import Member, Simulation, Topic

#: When they begin: 2027-01-15 08:00:00 UTC.
BEGAN = 1.8e9


class Group:
    """The group `billing`."""

    def __init__(self, sim: Simulation, protocol: str) -> None:
        self.sim = sim
        self.protocol = protocol
        self.orders: Topic = sim.topic("orders", partitions=6)
        sim.trickle(self.orders, per_second=10, seconds=60)

    def joins(self, name: str, **settings: Any) -> Member:
        """One more member."""
        config = {"client_id": name, "group_protocol": self.protocol, **settings}
        if self.protocol == "classic":  # in the other protocol the broker says it
            config |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}
        (member,) = self.sim.consumers(
            group="billing", topics=[self.orders], each=lambda given, _: {**given, **config}
        )
        return member


def slow_callback(sim: Simulation) -> None:
    """Bob's rebalance listener takes four seconds, in a group of KIP-848."""
    group = Group(sim, "consumer")
    _, bob = group.joins("alice"), group.joins("bob")
    sim.run(for_=10)
    bob.slow_listener = 4.0
    group.joins("carol")
    sim.run(for_=20)


def late_poll(sim: Simulation) -> None:
    """Bob works for seven seconds on what one poll gave it, and may take four."""
    group = Group(sim, "classic")
    _, bob, _ = (group.joins(one, max_poll_interval_ms=4000) for one in ("alice", "bob", "carol"))
    sim.run(for_=10)
    bob.busy_for = 7.0
    sim.run(for_=20)


def dead_coordinator(sim: Simulation) -> None:
    """The broker that looks after the group is dead when its members start."""
    group = Group(sim, "classic")
    sim.brokers.crash(sim.brokers.coordinator("billing"))
    for name in ("alice", "bob", "carol"):
        group.joins(name)
    sim.run(for_=30)


def killed_member(sim: Simulation) -> None:
    """Bob's process is killed."""
    group = Group(sim, "classic")
    _, bob, _ = (group.joins(one) for one in ("alice", "bob", "carol"))
    sim.run(for_=10)
    bob.kill()
    sim.run(for_=20)


INCIDENTS: dict[str, Callable[[Simulation], None]] = {
    "slow-callback": slow_callback,
    "late-poll": late_poll,
    "dead-coordinator": dead_coordinator,
    "killed-member": killed_member,
}


def replay(name: str, folder: Path, seed: int = 1) -> None:
    """Write the traces of this incident into the folder, a file for each member."""
    folder.mkdir(parents=True, exist_ok=True)
    traces: dict[str, list[str]] = {}
    with Simulation(seed) as sim:
        INCIDENTS[name](sim)
        for event in sim.history.traces(BEGAN):
            traces.setdefault(event["host"], []).append(json.dumps(event))
    for host, lines in traces.items():
        (folder / f"{host}.jsonl").write_text("\n".join(lines) + "\n")


def main(folder: str) -> None:
    """Replay all of them, each into a folder of its name."""
    for name in INCIDENTS:
        replay(name, Path(folder, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
