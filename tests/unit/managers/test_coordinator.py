"""The coordinator manager finds the coordinator, doubts it when told to, and never hurries."""

from __future__ import annotations

import itertools
import math

import pytest
from kafka.errors import (
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    KafkaConnectionError,
    KafkaTimeoutError,
    UnknownError,
    UnsupportedVersionError,
)

from aktor.errors import AuthenticationError
from aktor.events.coordinator import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorMissing,
    CoordinatorRefused,
    SuspectCoordinator,
)
from aktor.events.metadata import RefreshMetadata
from aktor.events.network import Destination, Rebootstrap
from aktor.managers.coordinator import (
    SOON_FOR,
    TRANSITIONS,
    CoordinatorEvent,
    CoordinatorManager,
    CoordinatorState,
)
from aktor.settings import Settings
from aktor.state_table import IllegalTransitionError
from aktor.trace import recording
from tests.unit.managers.builders_coordinator import coordinating
from tests.unit.managers.commits.builders import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    LOAD_IN_PROGRESS,
    answer,
    at_every_version,
    coordinator_is,
    fail,
    found,
    no_coordinator,
    tick,
)


def knowing(node: int = 1, *, at: float = 0.0) -> CoordinatorManager:
    """A coordinator manager that found this node."""
    manager = coordinating()
    answer(manager, tick(manager, at).request, coordinator_is(node), now=at)
    return manager


def test_a_coordinator_of_before_a_new_bootstrap_is_looked_up_again() -> None:
    """KIP-1102: it may be a broker of another cluster."""
    manager = knowing()

    said = manager.handle(Rebootstrap(because="a test"))

    assert said == [CoordinatorLost(because="a test")]
    assert tick(manager, 60.0).request.to is Destination.ANY
    assert coordinating().handle(Rebootstrap(because="none is known")) == []


def suspect(node: int = 1) -> SuspectCoordinator:
    return SuspectCoordinator(node_id=node, because="it is silent")


def test_without_a_group_nothing_is_looked_up() -> None:
    manager = coordinating(group_id=None)

    turn = tick(manager, 0.0)

    assert turn.requests == ()
    assert turn.wake_at == math.inf


def test_the_look_up_starts_at_once_and_only_one_is_in_flight() -> None:
    manager = coordinating()

    first, second = tick(manager, 0.0), tick(manager, 0.1)

    assert first.request.to is Destination.ANY
    assert first.request.deadline == pytest.approx(5.0)
    assert second.requests == ()
    assert second.wake_at == math.inf


def test_every_version_of_the_request_names_the_group() -> None:
    body = tick(coordinating(), 0.0).request.body

    old, new = at_every_version(body, range(4)), at_every_version(body, range(4, 7))

    assert [one.key for one in old] == ["g"] * 4
    assert [(one.key_type, one.coordinator_keys) for one in new] == [(0, ["g"])] * 3


@pytest.mark.parametrize("version", range(7))
def test_an_answer_of_every_version_is_understood(version: int) -> None:
    manager = coordinating()
    request = tick(manager, 0.0).request

    said = answer(manager, request, coordinator_is(3, version=version))

    assert said == [found(3)]
    assert tick(manager, 1.0).wake_at == math.inf


@pytest.mark.parametrize("code", [COORDINATOR_NOT_AVAILABLE, LOAD_IN_PROGRESS])
@pytest.mark.parametrize("version", [2, 6])
def test_a_retriable_refusal_is_retried_after_the_backoff_and_not_before(
    code: int, version: int
) -> None:
    manager = coordinating()

    said = answer(manager, tick(manager, 0.0).request, no_coordinator(code, version=version))

    (missing,) = said
    assert isinstance(missing, CoordinatorMissing)
    assert "the coordinator of group 'g' could not be found" in missing.because
    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)
    assert tick(manager, 0.09).requests == ()
    assert len(tick(manager, 0.11).requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        KafkaConnectionError("reset"),
        KafkaTimeoutError("silent"),
        AuthenticationError(broker="b:1", mechanism="PLAIN", reason="no"),
    ],
)
def test_a_request_without_an_answer_is_repeated_at_a_growing_backoff(error: Exception) -> None:
    manager = coordinating()

    missing = CoordinatorMissing(because=str(error.args[0]))

    assert fail(manager, tick(manager, 0.0).request, error, now=1.0) == [missing]
    second = tick(manager, 2.0)
    assert fail(manager, second.request, error, now=2.0) == [missing]

    assert tick(manager, 2.0).wake_at == pytest.approx(2.2)


def test_an_answer_without_our_group_is_retried() -> None:
    manager = coordinating()

    said = answer(manager, tick(manager, 0.0).request, coordinator_is(1, group="another"))

    assert [type(one) for one in said] == [CoordinatorMissing]
    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailedError, "ACL"),
        (INVALID_GROUP_ID, InvalidGroupIdError, "check group_id"),
        (-1, UnknownError, "log"),
    ],
)
def test_a_refusal_that_no_retry_mends_is_told_and_tried_again_slowly(
    code: int, kind: type[Exception], remedy: str
) -> None:
    manager = coordinating(retry_backoff_max=0.2)

    (refused,) = answer(manager, tick(manager, 0.0).request, no_coordinator(code), now=0.0)

    assert isinstance(refused, CoordinatorRefused)
    assert isinstance(refused.error, kind)
    assert "'g'" in str(refused.error)
    assert remedy in str(refused.error)
    assert tick(manager, 0.99).requests == ()
    assert len(tick(manager, 1.2).requests) == 1


def test_a_right_granted_later_is_noticed() -> None:
    manager = coordinating()
    answer(manager, tick(manager, 0.0).request, no_coordinator(GROUP_AUTHORIZATION_FAILED))

    said = answer(manager, tick(manager, 2.0).request, coordinator_is(1), now=2.0)

    assert said == [found(1)]


def test_brokers_that_do_not_know_the_request_are_told_of() -> None:
    manager = coordinating()

    (refused,) = fail(manager, tick(manager, 0.0).request, UnsupportedVersionError("old"))

    assert isinstance(refused, CoordinatorRefused)
    assert isinstance(refused.error, UnsupportedVersionError)


def test_a_suspicion_is_a_state_until_the_next_poll_knows_the_time() -> None:
    manager = knowing()

    manager.handle(SuspectCoordinator(node_id=1, because="NOT_COORDINATOR"))
    suspected = manager.state
    tick(manager, 1.0)

    assert suspected is CoordinatorState.SUSPECTED
    assert manager.state is CoordinatorState.ASKED


@pytest.mark.parametrize("state", CoordinatorState)
@pytest.mark.parametrize("event", CoordinatorEvent)
def test_it_moves_as_its_table_says_or_refuses(
    state: CoordinatorState, event: CoordinatorEvent
) -> None:
    manager = coordinating()
    manager.state = state

    if event in TRANSITIONS[state]:
        manager._move(event)
        assert manager.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{event.name} while {state.name}"):
            manager._move(event)


def test_a_suspected_coordinator_is_lost_and_looked_up_at_once() -> None:
    manager = knowing(1)

    said = manager.handle(suspect(1))

    assert said == [CoordinatorLost(because="it is silent")]
    assert len(tick(manager, 100.0).requests) == 1


def test_the_first_suspicion_is_followed_at_once_even_soon_after_the_start() -> None:
    manager = knowing(1, at=0.0)

    manager.handle(suspect(1))

    assert len(tick(manager, 0.5).requests) == 1


def test_a_success_forgives_the_failures_before_it() -> None:
    manager = coordinating()
    fail(manager, tick(manager, 0.0).request, KafkaConnectionError("reset"), now=0.0)
    answer(manager, tick(manager, 1.0).request, coordinator_is(1), now=1.0)
    manager.handle(suspect(1))

    fail(manager, tick(manager, 50.0).request, KafkaConnectionError("reset"), now=50.0)

    assert tick(manager, 50.0).wake_at == pytest.approx(50.1)


def test_suspicions_in_a_row_wait_a_tenth_of_a_second_and_longer_when_none_comes_for_long() -> None:
    """Another broker takes over within the time that the controller gives a dead one; if none
    does, the cluster is not asked ten times a second by each member."""
    manager = knowing(1)

    waits = []
    now = 0.0
    while now < 15.0:
        manager.handle(suspect(1))
        turn = tick(manager, now)
        if not turn.requests:
            waits.append((now, round(turn.wake_at - now, 3)))
            now = turn.wake_at
            turn = tick(manager, now)
        answer(manager, turn.request, coordinator_is(1), now=now)

    assert {wait for at, wait in waits if at < SOON_FOR} == {0.1}
    assert {wait for at, wait in waits if at >= SOON_FOR} == {0.25}


def test_the_look_for_a_lost_coordinator_is_no_faster_than_the_backoff_that_was_set() -> None:
    manager = coordinating(retry_backoff=0.2)
    answer(manager, tick(manager, 0.0).request, coordinator_is(1), now=0.0)
    manager.handle(suspect(1))

    fail(manager, tick(manager, 0.0).request, KafkaConnectionError("reset"), now=0.0)

    assert tick(manager, 0.0).wake_at == pytest.approx(0.2)


def test_a_calm_time_forgives_earlier_suspicions() -> None:
    manager = knowing(1)
    for now in (0.0, 1.0, 2.0):
        manager.handle(suspect(1))
        tick_until_asked = tick(manager, now).requests or tick(manager, now + 0.5).requests
        answer(manager, tick_until_asked[0], coordinator_is(1), now=now + 0.5)

    manager.handle(suspect(1))

    assert len(tick(manager, 60.0).requests) == 1


def unreachable(retry_at: float, node: int = 1) -> SuspectCoordinator:
    return SuspectCoordinator(node_id=node, because="Connection refused", retry_at=retry_at)


def test_a_coordinator_that_cannot_be_reached_is_looked_for_until_another_is_named() -> None:
    """Brokers name a dead one until its session with the controller ends."""
    manager, now = knowing(1), 0.0
    manager.handle(unreachable(retry_at=60.0))

    asked = []
    for named in (1, 1, 1, 2):
        turn = tick(manager, now)
        if not turn.requests:
            now = turn.wake_at
            turn = tick(manager, now)
        asked.append(now)
        said = answer(manager, turn.request, coordinator_is(named), now=now)
        assert any(isinstance(one, CoordinatorFound) for one in said) == (named == 2)
        assert any(isinstance(one, CoordinatorMissing) for one in said) == (named == 1)

    assert asked[0] == 0.0
    assert max(b - a for a, b in itertools.pairwise(asked)) <= 0.101


def test_the_same_coordinator_is_tried_again_as_soon_as_a_connection_may_be() -> None:
    manager = knowing(1)
    manager.handle(unreachable(retry_at=0.05))
    answer(manager, tick(manager, 0.0).request, coordinator_is(1), now=0.01)

    assert tick(manager, 0.02).wake_at == pytest.approx(0.05)
    said = answer(manager, tick(manager, 0.05).request, coordinator_is(1), now=0.05)

    assert [type(one) for one in said] == [CoordinatorFound]


def test_the_same_coordinator_at_another_address_is_tried_at_once() -> None:
    manager = knowing(1)
    manager.handle(unreachable(retry_at=60.0))

    said = answer(manager, tick(manager, 0.0).request, coordinator_is(1, host="moved"), now=0.01)

    assert [type(one) for one in said] == [CoordinatorFound]


def test_leaders_are_asked_for_when_another_broker_has_taken_over() -> None:
    """The broker that cannot be reached led partitions, too. While brokers still name it nothing
    has changed; and the news is told once."""
    manager = knowing(1)
    manager.handle(unreachable(retry_at=0.05))
    news = []
    for now, named in ((0.0, 1), (1.0, 1), (2.0, 2), (30.0, 3)):
        turn = tick(manager, now)
        request = (turn if turn.requests else tick(manager, turn.wake_at)).request
        said = answer(manager, request, coordinator_is(named), now=now + 0.5)
        news.append([one.because for one in said if isinstance(one, RefreshMetadata)])
        manager.handle(suspect(named))

    assert news == [[], [], ["broker 2 has taken over from broker 1"], []]


def test_a_suspicion_of_another_node_is_ignored() -> None:
    manager = knowing(1)

    said = manager.handle(suspect(2))

    assert said == []
    assert tick(manager, 0.0).requests == ()


def test_a_second_suspicion_during_the_look_up_changes_nothing() -> None:
    manager = knowing(1)
    manager.handle(suspect(1))
    request = tick(manager, 50.0).request

    assert manager.handle(suspect(1)) == []

    assert answer(manager, request, coordinator_is(2), now=50.0) == [found(2)]


def test_finding_and_losing_are_traced_with_the_reason() -> None:
    trace, events = recording()
    manager = CoordinatorManager(Settings(group_id="g"), trace=trace)

    answer(manager, tick(manager, 0.0).request, coordinator_is(1))
    manager.handle(suspect(1))

    assert [(one["event"], one["node"]) for one in events] == [
        ("coordinator.found", 1),
        ("coordinator.lost", 1),
    ]
    assert events[1]["because"] == "it is silent"


def test_found_carries_where_the_broker_is_reached() -> None:
    manager = coordinating()

    (one,) = answer(manager, tick(manager, 0.0).request, coordinator_is(9))

    assert isinstance(one, CoordinatorFound)
    assert (one.broker.node_id, one.broker.host, one.broker.port) == (9, "b9", 9092)


def test_it_shows_since_when_another_broker_is_the_coordinator() -> None:
    manager = knowing(node=1, at=1.0)
    manager.note_present(1.0)

    for node, at in ((1, 5.0), (2, 9.0)):
        manager.handle(suspect(node=1))
        turn = tick(manager, at - 1.0)
        request = (turn if turn.requests else tick(manager, turn.wake_at)).request
        manager.note_present(at - 0.5)
        answer(manager, request, coordinator_is(node), now=at)
        manager.note_present(at)

    assert manager.present is not None
    assert (manager.present.node, manager.present.moved_at) == (2, 9.0)
