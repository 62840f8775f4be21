"""Whether the lag of a partition is known now, and how old that knowledge is."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.consumer.core.partition import Stage
from aktor.consumer.present.ends import end_known_at, is_lag_known
from aktor.events.present import FetchNow, Hindrance, NetworkNow, Throttle
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    T1,
    a_broker,
    a_picture,
    cluster,
    network,
    seen,
)


def looked(told: float, it: dict[str, Any] | None = None, **said: Any) -> tuple[float, bool]:
    """How old the end is, and whether the lag is known, of a partition of broker 2."""
    partition = seen(told_at=NOW - told, **it or {})
    p = a_picture(partitions={T0: partition}, **{"fetch_wait": 2.0} | said)
    at = end_known_at(p, T0, partition)
    return round(NOW - at, 3), is_lag_known(p, T0, partition, at)


def answered(ago: float, *partitions: Any, node: int = 2) -> dict[int, Any]:
    return {node: (NOW - ago, partitions or (T0, T1))}


def hindered(trouble: str) -> FetchNow:
    why = Hindrance(state="failing", since=NOW - 9.0, node=2, until=NOW, trouble=trouble)
    return FetchNow(hindered={T0: why})


def throttled(until: float) -> NetworkNow:
    """The broker that leads it wants no Fetch for so many seconds."""
    return network(a_broker(2, fetch_throttle=Throttle(since=NOW - 9.0, until=NOW + until)))


PAUSED = {"paused": True}
REVOKED = {"stage": Stage.PENDING_REVOCATION}
FAILED = FetchNow(failed={2: (NOW - 1.0, "refused")})
HERE = {"buffered": 9, "records": 3}


@pytest.mark.parametrize(
    ("told", "it", "said", "found"),
    [
        (3600.0, {}, {"answers": answered(1.9)}, (1.9, True)),
        (0.3, {}, {"answers": answered(1.9)}, (0.3, True)),
        (3600.0, {}, {"answers": answered(3.1)}, (3.1, False)),
        (3600.0, {}, {}, (3600.0, False)),
        (3600.0, {}, {"answers": answered(0.1, T1)}, (3600.0, False)),
        (3600.0, {}, {"answers": answered(0.1, node=1)}, (3600.0, False)),
        (3600.0, {}, {"answers": answered(0.1), "cluster": cluster(-1)}, (3600.0, False)),
        (
            3600.0,
            {},
            {"answers": answered(0.1, node=1), "fetch": FetchNow(replicas={T0: 1})},
            (0.1, True),
        ),
        (3600.0, {}, {"answers": answered(0.1), "fetch": hindered("NOT_LEADER")}, (3600.0, False)),
        (0.9, {}, {"fetch": hindered("NOT_LEADER")}, (0.9, True)),
        (1.1, {}, {"fetch": hindered("NOT_LEADER")}, (1.1, False)),
        (1.9, PAUSED, {"fetch": hindered("NOT_LEADER")}, (1.9, True)),
        (3600.0, PAUSED, {"answers": answered(0.1, T1)}, (3600.0, False)),
        (3600.0, PAUSED, {"answers": answered(1.9)}, (1.9, True)),
        (3600.0, PAUSED, {"answers": answered(2.1)}, (2.1, False)),
        (1.9, REVOKED, {"answers": answered(0.1)}, (1.9, True)),
        (2.1, REVOKED, {"answers": answered(0.1)}, (2.1, False)),
        (3600.0, {}, {"answers": answered(1.1), "overdue": 1.1}, (1.1, False)),
        (3600.0, {}, {"answers": answered(1.1), "fetch": FAILED}, (1.1, False)),
        (3600.0, {}, {"answers": answered(0.9), "network": throttled(3.0)}, (0.9, True)),
        (3600.0, {}, {"answers": answered(1.1), "network": throttled(3.0)}, (1.1, False)),
        (3600.0, {}, {"answers": answered(1.1), "network": throttled(-0.1)}, (1.1, True)),
        (9.9, HERE, {"answers": answered(0.1, T1)}, (9.9, True)),
        (10.1, HERE, {"answers": answered(0.1, T1)}, (10.1, False)),
        (9.9, HERE | PAUSED, {"answers": answered(0.1, T1)}, (9.9, False)),
    ],
    ids=[
        "nothing new for long, and it is asked",
        "told since the last answer",
        "no answer",
        "nobody was asked yet",
        "not asked",
        "another broker answers",
        "no leader",
        "a replica answers",
        "the answer refused it",
        "the answer has just refused it",
        "the answers have refused it for a second",
        "it is paused, so the answer does not matter",
        "paused, others are read",
        "paused now",
        "paused, and so all others",
        "it is about to be revoked",
        "it has been about to be revoked for long",
        "the background thread hangs",
        "the last Fetch has failed",
        "the broker throttles us",
        "the broker has throttled us for long",
        "the broker throttles us no more",
        "enough of it is here",
        "enough of it has been here for long",
        "paused, and some of it is here",
    ],
)
def test_the_lag_is_known_if_the_leader_has_told_it_lately(
    told: float, it: dict[str, Any], said: dict[str, Any], found: tuple[float, bool]
) -> None:
    assert looked(told, it, **said) == found
