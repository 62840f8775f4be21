"""What a broker remembers of who reads what."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from aktor.broker.codes import Code, Refused
from aktor.broker.fetch_sessions import FetchSession, FetchSessions
from tests.kafka.recorded.messages import request

GREATEST = 2**31 - 1
ID = UUID(int=7)


def a_request(
    session_id: int = 0,
    epoch: int = 0,
    wanted: dict[int, int] | None = None,
    forgotten: tuple[int, ...] = (),
    topic_id: UUID | None = None,
) -> Any:
    """`wanted`: {partition of "orders": offset}."""
    return request(
        "Fetch",
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            {
                "topic": "orders",
                "topic_id": topic_id,
                "partitions": [
                    {"partition": index, "fetch_offset": offset, "partition_max_bytes": 100}
                    for index, offset in (wanted or {}).items()
                ],
            }
        ]
        if wanted
        else [],
        forgotten_topics_data=[
            {"topic": "orders", "topic_id": topic_id, "partitions": list(forgotten)}
        ]
        if forgotten
        else [],
    )


class Client:
    """Opens a session at the broker, and goes on in it."""

    def __init__(self, sessions: FetchSessions, version: int = 12) -> None:
        self.sessions = sessions
        self.version = version
        self.session: FetchSession = sessions.open(a_request(wanted={0: 5, 1: 6}), version, 0.0)
        self.id = self.session.session_id
        self.epoch = 1

    def go_on(self, **details: Any) -> FetchSession:
        session = self.sessions.open(a_request(self.id, self.epoch, **details), self.version, 1.0)
        self.epoch += 1
        return session


def some_sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots=slots, rng=random.Random(1))


def code_of(sessions: FetchSessions, message: Any, version: int = 12) -> Code:
    with pytest.raises(Refused) as refused:
        sessions.open(message, version, 0.0)
    return refused.value.code


def offsets(session: FetchSession) -> dict[Any, int]:
    return {place: wanted.fetch_offset for place, wanted in session.wanted.items()}


def test_a_session_remembers_what_is_read() -> None:
    client = Client(some_sessions())

    session = client.go_on()

    assert client.id > 0
    assert session.incremental
    assert offsets(session) == {("orders", 0): 5, ("orders", 1): 6}


def test_a_request_changes_adds_and_forgets_partitions() -> None:
    client = Client(some_sessions())

    session = client.go_on(wanted={1: 60, 2: 7}, forgotten=(0,))

    assert offsets(session) == {("orders", 1): 60, ("orders", 2): 7}


def test_forgetting_what_is_not_there_does_nothing() -> None:
    client = Client(some_sessions())

    assert offsets(client.go_on(forgotten=(8,))) == {("orders", 0): 5, ("orders", 1): 6}


def test_what_is_wanted_and_forgotten_at_once_is_forgotten() -> None:
    client = Client(some_sessions())

    assert offsets(client.go_on(wanted={0: 9}, forgotten=(0,))) == {("orders", 1): 6}


@pytest.mark.parametrize("epoch", [2, 3, 17])
def test_only_the_next_epoch_goes_on(epoch: int) -> None:
    sessions = some_sessions()
    client = Client(sessions)

    assert code_of(sessions, a_request(client.id, epoch)) is Code.INVALID_FETCH_SESSION_EPOCH

    assert client.go_on().session_id == client.id


def test_an_epoch_does_not_count_twice() -> None:
    sessions = some_sessions()
    client = Client(sessions)
    client.go_on()

    assert code_of(sessions, a_request(client.id, 1)) is Code.INVALID_FETCH_SESSION_EPOCH


def test_after_the_greatest_epoch_comes_1() -> None:
    sessions = some_sessions()
    client = Client(sessions)
    client.session.epoch = GREATEST - 1
    client.epoch = GREATEST

    client.go_on()
    client.epoch = 1

    assert client.go_on().epoch == 1


def test_a_session_nobody_knows_is_refused() -> None:
    assert code_of(some_sessions(), a_request(5, 1)) is Code.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_minus_1_ends_the_session_and_is_answered_without_one() -> None:
    sessions = some_sessions()
    client = Client(sessions)

    session = sessions.open(a_request(client.id, -1, {0: 1}), 12, 0.0)

    assert (session.session_id, session.incremental, len(sessions)) == (0, False, 0)
    assert code_of(sessions, a_request(client.id, 1)) is Code.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_0_replaces_the_session_by_a_new_one() -> None:
    sessions = some_sessions()
    client = Client(sessions)

    session = sessions.open(a_request(client.id, 0, {0: 1}), 12, 0.0)

    assert session.session_id not in (0, client.id)
    assert len(sessions) == 1


def test_old_clients_get_no_session() -> None:
    sessions = some_sessions()

    assert sessions.open(a_request(wanted={0: 1}), 6, 0.0).session_id == 0
    assert len(sessions) == 0


def test_a_session_that_wants_nothing_any_more_ends() -> None:
    sessions = some_sessions()
    client = Client(sessions)

    session = client.go_on(forgotten=(0, 1))

    assert (session.session_id, len(sessions)) == (0, 0)


def test_the_session_that_was_not_used_for_longest_makes_room() -> None:
    sessions = some_sessions(slots=2)
    old, young = Client(sessions), Client(sessions)
    old.go_on()

    Client(sessions)

    assert len(sessions) == 2
    assert old.go_on().session_id == old.id
    assert code_of(sessions, a_request(young.id, 1)) is Code.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("before", "after"), [(12, 13), (13, 12)])
def test_a_session_does_not_change_between_names_and_ids(before: int, after: int) -> None:
    sessions = some_sessions()
    client = Client(sessions, version=before)

    code = code_of(sessions, a_request(client.id, 1), version=after)

    assert code is Code.FETCH_SESSION_TOPIC_ID_ERROR


def test_from_version_13_on_topics_are_known_by_their_ids() -> None:
    sessions = some_sessions()

    session = sessions.open(a_request(wanted={0: 1}, topic_id=ID), 13, 0.0)

    assert offsets(session) == {(ID, 0): 1}


def test_a_broker_that_starts_anew_knows_no_session() -> None:
    sessions = some_sessions()
    client = Client(sessions)

    sessions.clear()

    assert code_of(sessions, a_request(client.id, 1)) is Code.FETCH_SESSION_ID_NOT_FOUND
