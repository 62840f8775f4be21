"""Where logs end at which somebody looks: what leaders are asked, and how often."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from kafka.errors import KafkaConnectionError
from kafka.structs import TopicPartition

from aktor.events.metadata import LeaderEpochsUnknown, RefreshMetadata
from aktor.events.network import Request
from aktor.events.positions import Assigned, AssignmentChanged, EndsListed, FollowEnds, LogEnd
from aktor.managers.positions.manager import PositionManager
from tests.unit.managers.builders import (
    NOT_LEADER,
    T0,
    T1,
    T2,
    TOPIC_AUTHORIZATION_FAILED,
    answer,
    fail,
    tick,
)
from tests.unit.managers.positions.builders import a_cluster, a_manager, asked_of, at, offsets

UNKNOWN_LEADER_EPOCH = 75

#: Broker 1 leads t-0 and t-1, broker 2 t-2.
LEADERS = {T0: (1, 5), T1: (1, 5), T2: (2, 5)}


def a_manager_of(*partitions: TopicPartition, **settings: str) -> PositionManager:
    manager = a_manager(knows=a_cluster(LEADERS), **settings)
    assign(manager, *partitions)
    return manager


def assign(manager: PositionManager, *partitions: TopicPartition) -> None:
    manager.handle(AssignmentChanged(partitions={tp: at(7) for tp in partitions}))


def look(manager: PositionManager, *partitions: TopicPartition, now: float = 0.0) -> list[Request]:
    """Somebody looks; what is sent then."""
    manager.handle(FollowEnds(partitions=frozenset(partitions), now=now))
    return list(tick(manager, now).requests)


def ends_in(said: list[object]) -> Mapping[TopicPartition, LogEnd]:
    (told,) = (one for one in said if isinstance(one, EndsListed))
    return told.ends


def test_each_leader_is_asked_once_for_all_its_partitions() -> None:
    manager = a_manager_of(T0, T1, T2)

    requests = look(manager, T0, T1, T2)

    assert [(one.to, asked_of(one)) for one in requests] == [(1, {T0: -1, T1: -1}), (2, {T2: -1})]
    assert [one.body.topics[0].partitions[0].current_leader_epoch for one in requests] == [5, 5]


@pytest.mark.parametrize(("level", "number"), [("read_committed", 1), ("read_uncommitted", 0)])
def test_the_end_is_asked_for_by_the_isolation_level(level: str, number: int) -> None:
    (request,) = look(a_manager_of(T0, isolation_level=level), T0)

    assert request.body.isolation_level == number


def test_an_end_is_as_old_as_the_question() -> None:
    """Records may have come while the answer was on its way."""
    manager = a_manager_of(T0, T1)
    (request,) = look(manager, T0, T1, now=3.0)

    said = answer(manager, request, offsets({T0: 60, T1: None}), now=7.5)

    assert ends_in(said) == {T0: LogEnd(offset=60, at=3.0)}


def test_a_leader_is_asked_once_a_second_while_somebody_looks_and_for_a_while_after() -> None:
    manager = a_manager_of(T0)
    sent, now = list[float](), 0.0
    while now < math.inf:
        if now < 10.0:
            manager.handle(FollowEnds(partitions=frozenset({T0}), now=now))
        turn = tick(manager, now)
        for request in turn.requests:
            sent.append(now)
            answer(manager, request, offsets({T0: 60}), now=now)
        now = min(turn.wake_at, now + 0.25) if now < 10.0 else turn.wake_at

    assert sent == [float(second) for second in range(100)]


def test_a_leader_that_has_not_answered_is_not_asked_again() -> None:
    manager = a_manager_of(T0, T2)
    late, other = look(manager, T0, T2)
    answer(manager, other, offsets({T2: 5}))

    assert [one.to for one in look(manager, T0, T2, now=1.0)] == [2]
    answer(manager, late, offsets({T0: 5}), now=1.5)
    assert [one.to for one in look(manager, T0, T2, now=2.0)] == [1]


def test_a_leader_that_fails_is_asked_ever_more_seldom_and_metadata_is_refreshed() -> None:
    manager = a_manager_of(T0)
    manager.handle(FollowEnds(partitions=frozenset({T0}), now=0.0))
    sent: list[float] = []
    for second in range(60):
        for request in tick(manager, second).requests:
            sent.append(second)
            said = fail(manager, request, KafkaConnectionError("refused"), now=second)
            assert [type(one) for one in said] == [RefreshMetadata]

    assert sent == [0, 1, 3, 7, 15, 25, 35, 45, 55]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (NOT_LEADER, [RefreshMetadata]),
        (UNKNOWN_LEADER_EPOCH, [LeaderEpochsUnknown, RefreshMetadata]),
        (TOPIC_AUTHORIZATION_FAILED, []),
    ],
)
def test_a_refusal_tells_no_end_and_is_told_to_nobody(code: int, says: list[type]) -> None:
    """If nothing is fetched, nobody else would notice that another broker leads by now."""
    manager = a_manager_of(T0, T1)
    (request,) = look(manager, T0, T1)

    said = answer(manager, request, offsets({T1: 9}, errors={T0: code}))

    assert ends_in(said).keys() == {T1}
    assert [type(one) for one in said if not isinstance(one, EndsListed)] == says


def test_nobody_is_asked_about_what_is_not_assigned_or_has_no_leader() -> None:
    manager = a_manager_of(T0, T1)
    manager.handle(a_cluster({T0: (1, 5), T1: (-1, 5), T2: (2, 5)}, version=2))

    (request,) = look(manager, T0, T1, T2)
    assign(manager, T1)
    said = answer(manager, request, offsets({T0: 60}))

    assert asked_of(request) == {T0: -1}
    assert ends_in(said) == {}
    assert tick(manager, 1.0).requests == ()


def test_who_looks_says_what_is_followed_from_now_on() -> None:
    manager = a_manager_of(T0, T2)
    (request,) = look(manager, T0)
    answer(manager, request, offsets({T0: 60}))

    (request,) = look(manager, T2, now=1.0)
    said = answer(manager, request, offsets({T2: 5}), now=1.0)

    assert asked_of(request) == {T2: -1}
    assert ends_in(said) == {T0: LogEnd(offset=60, at=0.0), T2: LogEnd(offset=5, at=1.0)}
    assert look(manager, now=2.0) == []
    assert tick(manager, 9.0).wake_at == math.inf


def test_a_partition_that_is_assigned_again_keeps_no_end() -> None:
    manager = a_manager_of(T0, T1)
    (request,) = look(manager, T0, T1)
    answer(manager, request, offsets({T0: 60, T1: 5}))
    assign(manager, T1)
    manager.handle(AssignmentChanged(partitions={T0: Assigned(epoch=2), T1: at(7)}))

    (request,) = look(manager, T1, now=1.0)

    assert ends_in(answer(manager, request, offsets({T1: 6}), now=1.0)) == {
        T1: LogEnd(offset=6, at=1.0)
    }
