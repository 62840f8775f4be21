"""The commit manager: the coordinator is looked for and moves; everything at once."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaConnectionError
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.structs import TopicPartition

from aktor.events.answers import Answered, Failed
from aktor.events.commits import RevocationCommitted, StartingOffsetsFailed
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.network import Request
from aktor.trace import recording
from tests.unit.managers.commits.builders import (
    LOAD_IN_PROGRESS,
    LOST,
    NOT_COORDINATOR,
    T0,
    T1,
    U0,
    UNKNOWN_TOPIC,
    answer,
    asked_to_commit,
    asked_to_fetch,
    assigned,
    auto,
    before_revocation,
    commit,
    commit_async,
    committed,
    committing,
    fail,
    fetch,
    fetched,
    find,
    found,
    polled,
    succeed,
    tick,
)

REFUSED = CoordinatorRefused(error=GroupAuthorizationFailedError("group 'g'"))


# -- the coordinator


def test_what_waits_goes_when_the_coordinator_is_found() -> None:
    manager = committing(T0, T1, node=None)
    manager.handle(commit({T0: 10}))
    manager.handle(find(T1))
    before = tick(manager, 0.0)

    manager.handle(found(1))

    assert before.requests == ()
    assert len(tick(manager, 0.0).requests) == 2


def test_a_lost_coordinator_holds_back_what_was_not_sent() -> None:
    manager = committing(T0)
    manager.handle(LOST)

    manager.handle(commit({T0: 10}))

    assert tick(manager, 0.0).requests == ()


@pytest.mark.parametrize(("next_one", "waits_until"), [(2, 9.0), (1, 9.8)])
def test_another_coordinator_is_asked_at_once_whatever_the_first_one_did(
    next_one: int, waits_until: float
) -> None:
    """The backoff is for the coordinator that has failed."""
    manager = committing(T0, retry_backoff=0.8, retry_backoff_max=0.8)
    manager.handle(commit({T0: 10}))
    fail(manager, tick(manager, 9.0).request, KafkaConnectionError("refused"), now=9.0)
    manager.handle(LOST)
    manager.handle(found(next_one))

    turn = tick(manager, 9.0)

    sent_at = 9.0 if turn.requests else turn.wake_at
    assert sent_at == pytest.approx(waits_until)


def test_a_refusing_coordinator_ends_everything_that_waits() -> None:
    """Scenario 34."""
    manager = committing(T0, node=None)
    manager.handle(commit({T0: 10}, ticket=1))
    manager.handle(commit_async({T0: 11}, ticket=2))
    manager.handle(before_revocation({T0: 12}))
    manager.handle(fetch(T1, ticket=3))
    manager.handle(find(T0))

    said = manager.handle(REFUSED)

    error = REFUSED.error
    assert said == [
        RevocationCommitted(rebalance=7),
        Failed(ticket=1, error=error),
        Failed(ticket=2, error=error),
        Failed(ticket=3, error=error),
        StartingOffsetsFailed(partitions=frozenset({T0}), error=error),
    ]
    assert tick(manager, 0.0).wake_at == math.inf


def test_what_is_in_flight_ends_by_its_own_answer_after_a_refusal() -> None:
    manager = committing(T0)
    manager.handle(commit({T0: 10}))
    turn = tick(manager, 0.0)

    assert manager.handle(REFUSED) == []

    assert succeed(manager, turn) == [Answered(ticket=1)]


def test_an_idle_manager_sleeps() -> None:
    manager = auto(T0)
    manager.handle(fetch(T0))
    answer(manager, tick(manager, 0.0).request, fetched({T0: 10}))

    turn = tick(manager, 1.0)

    assert (turn.requests, turn.wake_at, turn.said) == ((), 5.0, [])


def test_a_commit_is_traced_from_sending_to_success() -> None:
    trace, events = recording()
    manager = committing(T0, trace=trace)
    manager.handle(commit({T0: 10}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, LOAD_IN_PROGRESS), now=0.5)

    succeed(manager, tick(manager, 1.0), now=1.25)

    story = [one["event"] for one in events]
    assert story == ["commit.sent", "commit.retried", "commit.sent", "commit.succeeded"]
    assert events[0]["offsets"] == {"t-0": 10}
    assert (events[-1]["ms"], events[-1]["attempts"]) == (250, 2)


# -- everything at once


class Storm:
    """Random questions, answers and troubles; a broker that stores in the order of sending."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.manager = auto(T0, T1, U0)
        self.now = 0.0
        self.value = self.position = 0
        self.asked: set[tuple[str, int]] = set()
        self.answered: list[tuple[str, int]] = []
        self.stored: dict[TopicPartition, int] = {}
        self.in_flight: list[tuple[Request, int]] = []

    def hear(self, said: list[object]) -> None:
        for one in said:
            if isinstance(one, (Answered, Failed)):
                self.answered.append(("ticket", one.ticket))
            elif isinstance(one, RevocationCommitted):
                self.answered.append(("rebalance", one.rebalance))

    def ask(self) -> None:
        self.value += 1
        some = self.random.sample([T0, U0], self.random.randint(1, 2))
        values = dict.fromkeys(some, self.value)
        deadline = self.now + self.random.choice([0.0, 0.5, 5.0, 60.0])
        message, name = self.random.choice(
            [
                (commit(values, ticket=self.value, deadline=deadline), "ticket"),
                (commit_async(values, ticket=self.value), "ticket"),
                (fetch(*some, ticket=self.value, deadline=deadline), "ticket"),
                (
                    before_revocation(
                        values | {T1: self.position}, rebalance=self.value, deadline=deadline
                    ),
                    "rebalance",
                ),
            ]
        )
        self.asked.add((name, self.value))
        self.hear(self.manager.handle(message))

    def disturb(self) -> None:
        trouble: Any = self.random.choice([LOST, found(1), found(2), find(T0, U0), None])
        if trouble is None:
            self.position += 1
            trouble = polled(self.now, {T1: self.position})
        self.hear(self.manager.handle(trouble))

    def turn(self) -> None:
        turn = tick(self.manager, self.now)
        self.hear(turn.said)
        assert turn.requests or turn.said or turn.wake_at > self.now
        for request in turn.requests:
            code = self.random.choice([0, 0, LOAD_IN_PROGRESS, NOT_COORDINATOR, UNKNOWN_TOPIC])
            if isinstance(request.body, OffsetCommitRequest) and code == 0:
                for one, value in asked_to_commit(request).items():
                    assert value >= self.stored.get(one, 0), "a committed offset went back"
                    self.stored[one] = value
            self.in_flight.append((request, code))

    def reply(self, *, calm: bool = False) -> None:
        if not self.in_flight:
            return
        request, code = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        if not calm and self.random.random() < 0.2:
            self.hear(fail(self.manager, request, KafkaConnectionError("reset"), now=self.now))
        elif isinstance(request.body, OffsetCommitRequest):
            self.hear(answer(self.manager, request, committed(request, code), now=self.now))
        else:
            response = fetched(dict.fromkeys(asked_to_fetch(request), 1), group_code=code)
            self.hear(answer(self.manager, request, response, now=self.now))

    def settle(self) -> None:
        """The cluster recovers and time passes."""
        for _ in range(200):
            self.now += 5.0
            self.manager.handle(found(1))
            self.turn()
            while self.in_flight:
                self.reply(calm=True)


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_each_question_ends_once_and_no_committed_offset_goes_back(
    seed: int,
) -> None:
    storm = Storm(seed)

    for _ in range(80):
        storm.random.choice([storm.ask, storm.disturb, storm.reply, storm.reply])()
        storm.turn()
        storm.now += storm.random.choice([0.0, 0.01, 0.2, 3.0])
    storm.settle()

    assert sorted(storm.answered) == sorted(storm.asked)
    storm.manager.handle(assigned())
    assert tick(storm.manager, storm.now).wake_at == math.inf
