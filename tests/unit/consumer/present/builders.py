"""Pictures of a consumer, of which `why()` and `status()` are worked out."""

from __future__ import annotations

import math
from typing import Any

from kafka.structs import TopicPartition

from aktor.consumer.core.partition import Stage
from aktor.consumer.present.picture import ApplicationNow, Picture
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.consumer import of_consumer
from aktor.consumer.present.reasons.partition import of_partitions
from aktor.consumer.present.reasons.reason import WaitingFor
from aktor.consumer.present.seen import PartitionSeen
from aktor.events.metadata import Broker, Cluster, PartitionInfo, TopicInfo
from aktor.events.present import (
    BrokerNow,
    CoordinatorNow,
    Heard,
    MemberNow,
    MetadataNow,
    NetworkNow,
    Throttle,
    TopicTrouble,
)

NOW = 1000.0


T0 = TopicPartition("orders", 0)


T1 = TopicPartition("orders", 1)


def heard(at: float) -> tuple[Heard, ...]:
    one = Heard()
    one.note(at)
    return (one,)


def a_broker(node: int = 1, *, answered: float = NOW - 0.1, **said: Any) -> BrokerNow:
    known: dict[str, Any] = {
        "node": node,
        "address": f"kafka-{node}:9092",
        "connected": True,
        "connecting_since": None,
        "failing_since": None,
        "failed_at": -math.inf,
        "attempts": 0,
        "error": "",
        "retry_at": -math.inf,
        "refused_since": None,
        "throttle": Throttle(),
        "fetch_throttle": Throttle(),
        "group_throttle": Throttle(),
        "heard": heard(answered),
    }
    return BrokerNow(**known | said)


def a_dead_broker(
    node: int = 1, *, since: float = 7.2, refused: bool = False, **said: Any
) -> BrokerNow:
    failing: dict[str, Any] = {
        "connected": False,
        "answered": NOW - since - 0.1,
        "failing_since": NOW - since,
        "failed_at": NOW - 0.2,
        "attempts": 14,
        "error": "Connection refused",
        "retry_at": NOW + 0.3,
        "refused_since": NOW - since if refused else None,
    }
    return a_broker(node, **failing | said)


def a_throttling_broker(node: int) -> BrokerNow:
    throttle = Throttle(since=NOW - 2.0, until=NOW + 3.0)
    return a_broker(node, throttle=throttle, fetch_throttle=throttle, group_throttle=throttle)


def trouble(**said: Any) -> MetadataNow:
    return MetadataNow(troubles={"orders": TopicTrouble(**said)})


def network(*brokers: BrokerNow) -> NetworkNow:
    return NetworkNow(brokers={one.node: one for one in brokers})


def a_member(**said: Any) -> MemberNow:
    known: dict[str, Any] = {
        "state": "stable",
        "step": "",
        "since": NOW - 100.0,
        "asked_at": math.inf,
        "answered_at": NOW - 0.5,
        "failing_since": math.inf,
        "failures": 0,
        "session": 6.0,
        "rebalance_until": math.inf,
        "trouble": "",
    }
    return MemberNow(**known | said)


def a_coordinator(**said: Any) -> CoordinatorNow:
    known: dict[str, Any] = {
        "known": True,
        "node": 1,
        "address": "kafka-1:9092",
        "since": -math.inf,
        "asked": 0,
        "trouble": "",
        "retry_at": -math.inf,
        "refused": False,
    }
    return CoordinatorNow(**known | said)


def an_application(**said: Any) -> ApplicationNow:
    known: dict[str, Any] = {
        "polled_at": NOW - 0.2,
        "waits": False,
        "waits_in": "",
        "callback": "",
        "callback_since": -math.inf,
        "line": "",
        "delivered_at": NOW - 10.0,
        "subscribed_at": NOW - 400.0,
    }
    return ApplicationNow(**known | said)


def seen(**said: Any) -> PartitionSeen:
    known: dict[str, Any] = {
        "position": 5,
        "end": 5,
        "lag": 0,
        "high_watermark": 5,
        "paused": False,
        "stage": Stage.OWNED,
        "subscribed": True,
        "buffered": 0,
        "arrived": 0,
        "records": 0,
        "next_at": -1,
        "error": "",
        "in_hand": 0,
        "told_at": NOW - 0.1,
    }
    return PartitionSeen(**known | said)


def cluster(*leaders: int) -> Cluster:
    """The topic has a partition for each of these leaders."""
    return Cluster(
        version=1,
        brokers={n: Broker(node_id=n, host=f"kafka-{n}", port=9092) for n in (1, 2)},
        topics={
            "orders": TopicInfo(
                topic_id=None,
                partitions={
                    number: PartitionInfo(leader=leader, leader_epoch=1)
                    for number, leader in enumerate(leaders or (2,))
                },
            )
        },
    )


def a_picture(**said: Any) -> Picture:
    """A stable member that owns one partition, led by broker 2; its coordinator is broker 1."""
    known: dict[str, Any] = {
        "now": NOW,
        "wall": 1_700_000_000.0,
        "group_id": "g",
        "in_group": True,
        "subscribed": True,
        "topics": frozenset({"orders"}),
        "cluster": cluster(),
        "session_until": NOW + 5.0,
        "session_timeout": 10.0,
        "max_poll_interval": 300.0,
        "application": an_application(),
        "network": network(a_broker(1), a_broker(2)),
        "coordinator": a_coordinator(),
        "member": a_member(),
        "partitions": {T0: seen()},
        "room": 1000,
    }
    return Picture(**known | said)


def changed(p: Picture, **said: Any) -> Picture:
    return Picture(**{name: getattr(p, name) for name in p.FIELDS} | said)


def wrong(p: Picture) -> str:
    return sentence.wrong(sentence.Findings.of(p))


def waits(p: Picture) -> WaitingFor:
    waiting = of_partitions(p)
    reason = waiting[T0] if waiting else of_consumer(p)
    assert reason is not None
    return reason.waiting_for
