"""What `consumer.status()` returns: one frozen picture of the consumer, readable as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aktor.events.lifecycle import ActorStatus
from aktor.structs import TopicPartition

__all__ = ["ConsumerStatus", "PartitionStatus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One assigned partition: its consumed position, its end as last told, the records between.

    None means not known yet. `lag` counts from the position to the high watermark (or the last
    stable offset, with read_committed).
    """

    position: int | None
    end: int | None
    lag: int | None
    paused: bool
    buffered_bytes: int
    #: Why no records come: its leader has not been reached for 30 s.
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """The actors, the member's state in its group, the assignment, and how far it was read.

    `state` is "running", "running, but <why no broker can be reached>", "closed", "failed: <error>"
    or "unresponsive" (the background thread did not answer within a second). `group_protocol` is
    "classic", "consumer", or "auto" while that setting has not been decided; `generation` is the
    member's epoch in the second. `reader` is what reads record batches: "compiled", or "Python"
    and why (`aktor.records`).
    """

    client_id: str
    state: str
    group_id: str | None
    group_protocol: str
    member_id: str
    generation: int
    member_state: str
    subscription: frozenset[str]
    partitions: Mapping[TopicPartition, PartitionStatus]
    actors: tuple[ActorStatus, ...]
    reader: str

    @property
    def lag(self) -> int | None:
        """Records still to be read over all partitions, None while any of them is unknown."""
        lags = [state.lag for state in self.partitions.values()]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    def __str__(self) -> str:
        lines = [f"consumer {self.client_id}: {self.state}"]
        if self.group_id is not None:
            member = self.member_id or "not a member"
            lines.append(
                f"group {self.group_id} ({self.group_protocol}): {member},"
                f" generation {self.generation}, {self.member_state}"
            )
        if self.subscription:
            lines.append(f"subscribed to {', '.join(sorted(self.subscription))}")
        for partition, status in sorted(self.partitions.items()):
            paused = ", paused" if status.paused else ""
            lines.append(
                f"  {partition.topic}-{partition.partition}: position {_or(status.position)},"
                f" end {_or(status.end)}, lag {_or(status.lag)}{paused}"
                f"{f', {status.trouble}' if status.trouble else ''}"
            )
        lines.append(f"reader: {self.reader}")
        for actor in self.actors:
            lines.append(f"  actor {actor.name}: incarnation {actor.incarnation}")
        return "\n".join(lines)


def _or(value: int | None) -> str:
    return "unknown" if value is None else str(value)
