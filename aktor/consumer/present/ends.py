"""How old the knowledge of where a partition ends is, and whether its lag follows from that."""

from __future__ import annotations

from typing import Final

from aktor.consumer.core.engine import Engine
from aktor.consumer.core.partition import Stage
from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.reason import FAULT_AFTER
from aktor.consumer.present.seen import PartitionSeen
from aktor.events.metadata import Cluster
from aktor.events.present import FetchNow
from aktor.managers.positions.ends import EVERY
from aktor.structs import TopicPartition

__all__ = ["FOLLOWED", "READ_FOR", "end_known_at", "is_lag_known", "source_of", "unasked"]

#: While records of a partition are here, its leader may be asked for no more. The lag is known for
#: so many seconds all the same: what comes meanwhile is a part of what is read anyway.
READ_FOR: Final = 10.0

#: A partition that is not fetched: while somebody looks its leader is asked once a second, and may
#: take a second for its answer. So long after it was told, in seconds, its end is known.
FOLLOWED: Final = EVERY + FAULT_AFTER


def unasked(engine: Engine, fetch: FetchNow, now: float) -> frozenset[TopicPartition]:
    """The partitions with a position whose ends were not told for a second, since they are paused
    or about to be revoked, there is no room for more, or brokers wait for `fetch_min_bytes`. (What
    a fault hinders has leaders that tell nothing.) From any thread."""
    settings, cluster = engine.core.settings, engine.core.port.cluster
    fetched_until = now - max(settings.fetch_max_wait, settings.fetch_idle_wait) - FAULT_AFTER
    # (With `fetch_min_bytes` a broker that is asked may be silent though there are records.)
    lasts = [node.last for node in fetch.answered.values() if settings.fetch_min_bytes <= 1]
    fetched: set[TopicPartition] = set()
    fetched.update(*[partitions for at, partitions in lasts if at >= fetched_until])
    told_until, hindered = now - EVERY, fetch.hindered
    faulty = {None, *fetch.late, *fetch.failed}
    return frozenset(
        [
            tp
            for tp, it in engine.delivery.partitions.items()
            if it.log_ends_at <= told_until
            and it.offset is not None
            and (
                it.paused
                or it.stage is Stage.PENDING_REVOCATION
                or not (tp in fetched or tp in hindered or source_of(fetch, cluster, tp) in faulty)
            )
        ]
    )


def source_of(fetch: FetchNow, cluster: Cluster, tp: TopicPartition) -> int | None:
    """The broker from which it is read: a replica near us (KIP-392), else its leader; None: no
    leader is known."""
    leader = cluster.leader(*tp)
    return fetch.replicas.get(tp, None if leader is None else leader.leader)


def end_known_at(p: Picture, tp: TopicPartition, it: PartitionSeen) -> float:
    """When the broker that it is read from has told its end, or has answered a Fetch for it and so
    said that nothing has changed; -inf: never."""
    if tp in p.fetch.hindered or it.stage is Stage.PENDING_REVOCATION:
        return it.told_at  # it may have been refused in that answer, or what came was dropped
    source = source_of(p.fetch, p.cluster, tp)
    if source is None or source not in p.answers:
        return it.told_at
    answered_at, asked = p.answers[source]
    return max(it.told_at, answered_at) if tp in asked else it.told_at


def is_lag_known(
    p: Picture, tp: TopicPartition, it: PartitionSeen, known_at: float, *, asked: bool = True
) -> bool:
    """Whether its end was told so lately that the lag is known now. A broker may keep a Fetch for a
    while if there is nothing new; one that is not asked (by a Fetch) tells nothing."""
    age = p.now - known_at
    if it.paused or it.stage is Stage.PENDING_REVOCATION or not asked:
        return age < FOLLOWED
    if tp in p.fetch.hindered:
        return age < FAULT_AFTER  # its leader tells nothing, and is asked by no other way
    if it.is_here:
        return age < READ_FOR
    return age < (p.fetch_wait + FAULT_AFTER if _may_be_asked(p, tp) else FAULT_AFTER)


def _may_be_asked(p: Picture, tp: TopicPartition) -> bool:
    """Whether a Fetch for it may be with the broker now: so that the broker tells what is new."""
    source = source_of(p.fetch, p.cluster, tp)
    if source is None or source in p.fetch.failed or p.overdue >= FAULT_AFTER:
        return False
    broker = p.network.brokers.get(source)
    return broker is None or broker.fetch_throttle.until <= p.now
