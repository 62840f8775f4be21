"""Partitions that differ in one fact are not told the same, though most of thousands are alike."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest

from aktor.consumer.core.handlers import HandlersNow
from aktor.consumer.core.partition import Stage
from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.partition import of_partition, of_partitions
from aktor.consumer.present.seen import Partitions, _Own
from aktor.events.positions import LogEnd
from aktor.events.present import FetchNow, Hindrance, PositionNow, PositionsNow
from aktor.structs import TopicPartition
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    T1,
    a_broker,
    a_dead_broker,
    a_picture,
    a_throttling_broker,
    an_application,
    cluster,
    network,
)

#: What a partition is like that has read all, in the order in which that is noted (see `seen`).
READ_ALL: Final[dict[str, Any]] = {
    "offset": 5,
    "ends": (5, 5),
    "paused": False,
    "stage": Stage.OWNED,
    "subscribed": True,
    "read_until": -1,
    "paused_at": -math.inf,
    "failed_at": -math.inf,
    "open_at": -math.inf,
    "told_at": NOW - 5.0,
    "given_at": NOW - 5.0,
    "gaps": (),
}


def a_hindrance(**said: Any) -> Hindrance:
    known: dict[str, Any] = {"state": "failing", "since": NOW - 4.0, "node": 2, "until": NOW + 1.0}
    return Hindrance(**known | {"trouble": "FENCED"} | said)


def a_look_up(**said: Any) -> PositionNow:
    known: dict[str, Any] = {"stage": "reset", "since": NOW - 4.0, "node": 2, "asked_at": NOW - 4.0}
    return PositionNow(**known | {"trouble": "", "retry_at": math.inf} | said)


def looked(
    *noted: dict[str, Any],
    own: dict[TopicPartition, _Own] | None = None,
    listed: dict[TopicPartition, LogEnd] | None = None,
    positions: dict[TopicPartition, int | None] | None = None,
    waiting: dict[TopicPartition, PositionNow] | None = None,
    isolated: bool = False,
    **said: Any,
) -> Picture:
    partitions = Partitions(
        {tp: tuple((READ_ALL | one).values()) for tp, one in zip((T0, T1), noted, strict=True)},
        own or {},
        positions or {},
        {},
        listed or {},
        isolated=isolated,
    )
    known: dict[str, Any] = {"cluster": cluster(2, 2), "partitions": partitions}
    known |= {"isolated": isolated, "positions": PositionsNow(waiting=waiting or {})}
    return a_picture(**known | said)


#: Records that came at this time.
def here(since: float) -> _Own:
    return _Own([(100, 9, since)])


BEHIND: Final = {"ends": (9, 9)}

#: Two partitions of one leader that differ in one fact.
DIFFER: Final[dict[str, Picture]] = {
    "the stage": looked({}, {"stage": Stage.PENDING_CALLBACK}),
    "the stage, of two": looked(
        {"stage": Stage.PENDING_REVOCATION}, {"stage": Stage.PENDING_CALLBACK}
    ),
    "whether it is subscribed": looked({}, {"subscribed": False}),
    "whether it is paused": looked({}, {"paused": True, "paused_at": NOW - 4.0}),
    "since when it is paused": looked(
        {"paused": True, "paused_at": NOW - 4.0}, {"paused": True, "paused_at": NOW - 9.0}
    ),
    "who has paused it": looked(
        {"paused": True, "paused_at": NOW - 4.0},
        {"paused": True, "paused_at": NOW - 4.0},
        application=an_application(handlers=HandlersNow(9, paused=frozenset({T1}))),
    ),
    "whether it has a position": looked({}, {"offset": None}),
    "whether it is behind": looked({}, BEHIND),
    "whether an end is known": looked({}, {"ends": None}),
    "whether it is behind, as was listed": looked({}, {}, listed={T1: LogEnd(offset=9, at=NOW)}),
    "which end was told last": looked(
        {}, {}, listed={T0: LogEnd(offset=9, at=NOW), T1: LogEnd(offset=9, at=NOW - 9.0)}
    ),
    "whether a transaction is open": looked(
        {}, {"ends": (9, 5), "open_at": NOW - 4.0}, isolated=True
    ),
    "how many records are of a transaction": looked(
        {"ends": (8, 5)}, {"ends": (9, 5)}, isolated=True
    ),
    "where an iteration is": looked(BEHIND, BEHIND, positions={T1: 9}),
    "whether records are here": looked(
        {}, {}, own={T1: here(NOW)}, application=an_application(polled_at=NOW - 9.0)
    ),
    "since when records are here": looked({}, {}, own={T0: here(NOW - 4.0), T1: here(NOW - 9.0)}),
    "whether records are in hand": looked({}, {}, own={T1: _Own([], in_hand=2)}),
    "an error": looked({}, {}, own={T1: _Own([(100, 9, NOW)], error="refused"), T0: here(NOW)}),
    "whether it is hindered": looked({}, {}, fetch=FetchNow(hindered={T1: a_hindrance()})),
    "by what it is hindered": looked(
        {}, {}, fetch=FetchNow(hindered={T0: a_hindrance(), T1: a_hindrance(trouble="OFFLINE")})
    ),
    "until when it is hindered": looked(
        {}, {}, fetch=FetchNow(hindered={T0: a_hindrance(), T1: a_hindrance(until=NOW + 9.0)})
    ),
    "what its position waits for": looked(
        {},
        {},
        waiting={T0: a_look_up(), T1: a_look_up(stage="failed")},
    ),
    "whether a Fetch for it is on its way": looked(
        {},
        {},
        buffered=800,
        application=an_application(polled_at=NOW - 9.0),
        asked={2: (NOW - 1.0, {T0})},
    ),
    "whether that Fetch is with its leader": looked(
        {},
        {},
        buffered=800,
        application=an_application(polled_at=NOW - 9.0),
        asked={1: (NOW - 1.0, {T1}), 2: (NOW - 1.0, {T0})},
    ),
    "from where it is read": looked(
        BEHIND,
        BEHIND,
        fetch=FetchNow(replicas={T0: 2, T1: 1}),
        network=network(a_broker(2), a_dead_broker(1), a_broker(3)),
    ),
    "whether its leader is read, or a replica": looked(
        BEHIND,
        BEHIND,
        fetch=FetchNow(replicas={T1: 2}),
        network=network(a_dead_broker(2), a_broker(1)),
    ),
    "whether it is crowded": looked(
        {},
        {},
        crowded=frozenset({T1}),
        fetch=FetchNow(replicas={T0: 2, T1: 2}),
        application=an_application(polled_at=NOW - 9.0),
    ),
    "who leads it": looked(
        {}, {}, cluster=cluster(1, 2), network=network(a_dead_broker(2), a_broker(1))
    ),
    "whether anybody leads it": looked({}, {}, cluster=cluster(2, -1)),
    "whether the topic has it": looked({}, {}, cluster=cluster(-1)),
    "the quota of its leader": looked(
        {}, {}, cluster=cluster(1, 2), network=network(a_throttling_broker(2), a_broker(1))
    ),
}


@pytest.mark.parametrize("what", DIFFER)
def test_each_partition_is_told_what_it_would_be_told_alone(what: str) -> None:
    p = DIFFER[what]

    alone = {tp: of_partition(p, tp, it) for tp, it in p.partitions.items()}

    assert alone[T0] != alone[T1]
    assert of_partitions(p) == alone
