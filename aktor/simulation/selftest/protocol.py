"""Which group protocol the members of a storm speak, and how: drawn from the seed.

The draw has a stream of its own, so that storms of the classic protocol are what they would be
without a choice, and a storm of the mix is the same one as when its protocol is asked for by name.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.coordinator.assignors.range import RangePartitionAssignor

from aktor.broker.groups.settings import GroupSettings
from aktor.broker.settings import ClusterSettings
from aktor.simulation.world.cluster import SETTINGS as CLUSTER

__all__ = ["CHOICES", "MIX", "Protocol", "draw_protocol"]

#: Each storm its own.
MIX: Final = "mix"

#: How often each is drawn in a mix. "migration" is a group whose members are restarted with the
#: other protocol, one after the other (KIP-848, online migration).
_ODDS: Final[Mapping[str, float]] = {"classic": 5, "consumer": 3, "auto": 1, "migration": 1}

#: What may be asked for.
CHOICES: Final = (*_ODDS, MIX)

#: `group.consumer.heartbeat.interval.ms` and `.session.timeout.ms`, in seconds. Members are not
#: told the session; they count on nine intervals, up to 45 s.
_BEATS: Final = ((0.5, 4.5), (1.0, 9.0), (5.0, 45.0))

#: Settings that the brokers decide on.
_OF_CLASSIC: Final = (
    "partition_assignment_strategy",
    "session_timeout_ms",
    "heartbeat_interval_ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What the group of one storm speaks, by `name`.

    remote_assignor: `group_remote_assignor`.
    cluster: the brokers' settings.
    is_static: whether members have names of their own (`group_instance_id`).
    has_regex: whether they subscribe by a pattern that the brokers evaluate.
    upgrades: of a migration, whether it leads to the consumer protocol or back.
    begins, takes: of a migration, when the first member's restart changes its protocol, and how
        many seconds later the next one's.
    """

    name: str
    remote_assignor: str | None
    cluster: ClusterSettings
    is_static: bool
    has_regex: bool
    upgrades: bool
    begins: float
    takes: float

    @property
    def is_classic(self) -> bool:
        """Whether no member ever speaks the other protocol."""
        return self.name == "classic"

    def spoken(self, number: int, now: float) -> str:
        """`group_protocol` of a consumer that the member with this number makes now."""
        if self.name != "migration":
            return self.name
        is_restarted = now >= self.begins + number * self.takes
        return "consumer" if is_restarted is self.upgrades else "classic"

    def configs(self, settings: Mapping[str, Any], number: int, now: float) -> dict[str, Any]:
        """These settings of a classic member, for one that speaks what this one does."""
        spoken = self.spoken(number, now)
        made = dict(settings)
        if self.name == "migration":
            # Kafka drops the assignments of a classic group that rebalances again before its leader
            # has assigned, and converts the group by what is left: what cooperative members still
            # own meanwhile, others get as well.
            made["partition_assignment_strategy"] = [RangePartitionAssignor]
        if self.is_static:
            made["group_instance_id"] = f"reader-{number}"
        if spoken == "classic":
            return made
        for name in _OF_CLASSIC:
            del made[name]
        made["group_protocol"] = spoken
        made["group_remote_assignor"] = self.remote_assignor
        return made


def draw_protocol(seed: int, choice: str = MIX) -> Protocol:
    """What the storm of this seed speaks; `choice` is one of `CHOICES`."""
    draw = random.Random(f"{seed} protocol")
    (drawn,) = draw.choices(list(_ODDS), list(_ODDS.values()))
    name = drawn if choice == MIX else choice
    interval, session = draw.choice(_BEATS)
    groups = GroupSettings(
        initial_rebalance_delay=CLUSTER.groups.initial_rebalance_delay,
        consumer_heartbeat_interval=interval,
        consumer_session_timeout=session,
        consumer_assignment_interval=draw.choice([0.0, 1.0]),
    )
    remote_assignor = draw.choice([None, None, "uniform", "range"])
    is_static, has_regex = draw.random() < 0.2, draw.random() < 0.2
    by_name = name in ("consumer", "auto")
    return Protocol(
        name=name,
        remote_assignor=remote_assignor,
        cluster=CLUSTER if name == "classic" else replace(CLUSTER, groups=groups),
        is_static=is_static and name != "migration",
        has_regex=has_regex and by_name,
        upgrades=draw.random() < 0.7,
        begins=draw.uniform(5.0, 20.0),
        takes=draw.uniform(2.0, 10.0),
    )
