"""How old the knowledge of where a partition ends is, and whether its lag follows from that."""

from __future__ import annotations

from typing import Final

from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.reason import FAULT_AFTER
from aktor.consumer.present.seen import PartitionSeen
from aktor.structs import TopicPartition

__all__ = ["READ_FOR", "end_known_at", "is_lag_known"]

#: While records of a partition are here, its leader may be asked for no more. The lag is known for
#: so many seconds all the same: what comes meanwhile is a part of what is read anyway.
READ_FOR: Final = 10.0


def end_known_at(p: Picture, tp: TopicPartition, it: PartitionSeen) -> float:
    """When the broker that it is read from has told its end, or has answered a Fetch for it and so
    said that nothing has changed; -inf: never."""
    if tp in p.fetch.hindered:
        return it.told_at  # it may have been refused in that answer
    leader = p.cluster.leader(*tp)
    source = p.fetch.replicas.get(tp, None if leader is None else leader.leader)
    if source is None or source not in p.answers:
        return it.told_at
    answered_at, asked = p.answers[source]
    return max(it.told_at, answered_at) if tp in asked else it.told_at


def is_lag_known(p: Picture, tp: TopicPartition, it: PartitionSeen, known_at: float) -> bool:
    """Whether its end was told so lately that the lag is known now. A broker may keep a Fetch for a
    while if there is nothing new; one that is not asked tells nothing."""
    age = p.now - known_at
    if it.paused or tp in p.fetch.hindered:
        return age < FAULT_AFTER
    if it.is_here:
        return age < READ_FOR
    return age < p.fetch_wait + FAULT_AFTER
