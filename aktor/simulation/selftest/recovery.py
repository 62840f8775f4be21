"""Recovery: how long a group needs after a single fault is over, by kind of fault.

Each simulation has one fault, so nothing else helps or hinders: a group reads and commits by hand,
the fault begins and ends, and from its end it is measured how long it takes until each partition's
newest record is given out and committed, and each member is known to the coordinator.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aktor.simulation.faults.chaos import COMPACTION_WEIGHTS, HANDSHAKE_WEIGHTS, KINDS, NAME_WEIGHTS
from aktor.simulation.faults.refusals import CONSUMER_REFUSALS, REFUSALS
from aktor.simulation.simulation import Simulation
from aktor.simulation.world.cluster import SETTINGS
from aktor.simulation.world.topic import Topic

__all__ = ["ALONE", "PROTOCOLS", "Distribution", "head", "recovery_time", "row"]

PROTOCOLS: Final = ("classic", "consumer")

#: All kinds that can be judged alone. Two are left out that need another fault to begin with (a
#: follower out of sync that is elected, a rebalance in which a member is frozen); and a kill at a
#: line of the user's code, of which there is none here.
ALONE: Final = tuple(
    kind
    for kind in KINDS
    if kind not in ("frozen_while_handing_back", "killed_at_line", "unclean_election")
)

PARTITIONS: Final = 4
MEMBERS: Final = 3

#: Records that come in a second until the fault is over.
PER_SECOND: Final = 20.0

#: Virtual seconds after which the group is settled, and in which it has to recover.
SETTLED: Final = 6.0
AT_MOST: Final = 120.0

#: How long a fault may last that does not end as soon as it has begun.
LASTS: Final = (0.5, 2.0, 5.0)

#: Sessions are short, so that what waits for one to run out shows as that, and new partitions are
#: soon known.
BEAT, SESSION, METADATA_AGE = 0.5, 6.0, 5.0

_BROKERS: Final = replace(
    SETTINGS,
    groups=replace(
        SETTINGS.groups, consumer_heartbeat_interval=BEAT, consumer_session_timeout=SESSION
    ),
)
_COMMON: Final[Mapping[str, Any]] = {
    "enable_auto_commit": False,
    "metadata_max_age_ms": round(METADATA_AGE * 1000),
}
_OF_PROTOCOL: Final[Mapping[str, Mapping[str, Any]]] = {
    "classic": {
        "session_timeout_ms": round(SESSION * 1000),
        "heartbeat_interval_ms": round(BEAT * 1000),
    },
    "consumer": {"group_protocol": "consumer"},
}


def recovery_time(kind: str, seed: int, protocol: str) -> float:
    """Virtual seconds from the end of a fault of this kind until its group is well.

    Raises TimeIsUpError if it is not within `AT_MOST` seconds, and CheckFailedError if a promise
    was broken."""
    with Simulation(seed, settings=_BROKERS) as sim:
        sim.network.with_handshakes = kind in HANDSHAKE_WEIGHTS
        sim.network.names.addresses = 2 if kind in NAME_WEIGHTS else 1
        sim.faults.refusals = REFUSALS if protocol == "classic" else CONSUMER_REFUSALS
        keys = 2 if kind in COMPACTION_WEIGHTS else 0
        orders = sim.topic("orders", partitions=PARTITIONS, records=20, keys=keys)
        settings = {**_COMMON, **_OF_PROTOCOL[protocol]}
        sim.consumers(group="g", topics=[orders], count=MEMBERS, **settings)
        seconds = random.Random(f"{seed} recovery").choice(LASTS)
        sim.trickle(orders, PER_SECOND, SETTLED + seconds)
        sim.run(for_=SETTLED)
        if sim.faults.begin(kind, seconds):
            sim.run(until=lambda: any(sim.history.named("fault.ended")))
        ended = sim.now
        _write_everywhere(orders)
        sim.run(until=sim.now_and_then(lambda: _is_well(sim, orders)), at_most=AT_MOST)
        recovered = sim.now
        sim.check()
        return recovered - ended


def _write_everywhere(topic: Topic) -> None:
    for partition in range(topic.partitions):
        topic.append(partition, 1)


def _is_well(sim: Simulation, topic: Topic) -> bool:
    return topic.lag("g") == 0 and sim.everybody_is_in()


@dataclass(frozen=True, slots=True)
class Distribution:
    """How long several recoveries from one kind of fault took, in order."""

    seconds: Sequence[float]

    @classmethod
    def of(cls, kind: str, protocol: str, seeds: Sequence[int]) -> Distribution:
        """Measured with each of these seeds."""
        return cls(sorted(recovery_time(kind, seed, protocol) for seed in seeds))

    def quantile(self, share: float) -> float:
        """The time that this share of the recoveries did not exceed."""
        return self.seconds[max(0, math.ceil(share * len(self.seconds)) - 1)]

    def cells(self) -> list[str]:
        """Median, p90, p99 and the longest, as in the table."""
        return [f"{self.quantile(share):.1f}" for share in (0.5, 0.9, 0.99, 1.0)]


def head(protocols: Sequence[str]) -> str:
    """The first two lines of the table, which is Markdown."""
    titles = [
        f"{protocol}: {quantile}"
        for protocol in protocols
        for quantile in ("median", "p90", "p99", "max")
    ]
    return f"| fault | {' | '.join(titles)} |\n{'|---' * (len(titles) + 1)}|"


def row(kind: str, distributions: Sequence[Distribution]) -> str:
    """The line of one kind of fault: a distribution for each protocol."""
    cells = [cell for distribution in distributions for cell in distribution.cells()]
    return f"| `{kind}` | {' | '.join(cells)} |"
