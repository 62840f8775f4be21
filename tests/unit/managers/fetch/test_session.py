"""Fetch sessions: what is said to a broker that remembers (KIP-227)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kafka.errors import (
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    KafkaStorageError,
)
from kafka.structs import TopicPartition

from aktor.managers.fetch.session import (
    LAST_EPOCH,
    FetchSession,
    SessionRequest,
    Wanted,
    Watermarks,
)

A, B, C = (TopicPartition("orders", number) for number in range(3))
OTHER = TopicPartition("payments", 0)
ID, NEW_ID, OTHER_ID = (UUID(int=number) for number in (1, 2, 3))


def at(offset: int, topic_id: UUID | None = None, *, epoch: int = 1) -> Wanted:
    return Wanted(epoch=epoch, offset=offset, leader_epoch=5, max_bytes=1000, topic_id=topic_id)


def a_session_that_knows(wanted: Mapping[TopicPartition, Wanted]) -> FetchSession:
    session = FetchSession()
    session.answered(session.next_request(wanted), 77)
    return session


def test_the_first_request_is_full_and_begins_a_session() -> None:
    session = FetchSession()

    first = session.next_request({A: at(1), B: at(2)})

    assert first == SessionRequest(session_id=0, epoch=0, partitions={A: at(1), B: at(2)})
    assert first.full


def test_the_next_request_says_only_what_changed() -> None:
    session = a_session_that_knows({A: at(1), B: at(2), C: at(3)})

    second = session.next_request({A: at(1), B: at(9), C: at(3)})

    assert second == SessionRequest(session_id=77, epoch=1, partitions={B: at(9)})
    assert not second.full


def test_what_is_not_wanted_any_more_is_forgotten_once() -> None:
    session = a_session_that_knows({A: at(1), B: at(2)})

    second = session.next_request({A: at(1)})
    session.answered(second, 77)
    third = session.next_request({A: at(1)})

    assert second.forgotten == {B: at(2)}
    assert third.forgotten == {}


def test_what_was_forgotten_is_named_again_when_it_is_wanted_again() -> None:
    session = a_session_that_knows({A: at(1), B: at(2)})
    session.answered(session.next_request({A: at(1)}), 77)

    assert session.next_request({A: at(1), B: at(2)}).partitions == {B: at(2)}


def test_the_epoch_grows_with_every_answer_and_skips_zero() -> None:
    session = a_session_that_knows({A: at(1)})

    second = session.next_request({A: at(1)})
    session.answered(second, 77)
    third = session.next_request({A: at(1)})
    last = SessionRequest(session_id=77, epoch=LAST_EPOCH, partitions={})
    session.answered(last, 77)

    assert (second.epoch, third.epoch) == (1, 2)
    assert session.next_request({A: at(1)}).epoch == 1


def test_a_broker_that_keeps_no_session_gets_full_requests() -> None:
    session = FetchSession()
    session.answered(session.next_request({A: at(1)}), 0)

    again = session.next_request({A: at(1)})

    assert again == SessionRequest(session_id=0, epoch=0, partitions={A: at(1)})


def test_a_broker_that_ends_the_session_gets_a_full_request() -> None:
    session = a_session_that_knows({A: at(1)})
    session.answered(session.next_request({A: at(2)}), 0)

    assert session.next_request({A: at(2)}).full


def test_an_unknown_session_is_begun_anew() -> None:
    session = a_session_that_knows({A: at(1)})
    session.next_request({A: at(1)})

    assert session.refused(FetchSessionIdNotFoundError)

    again = session.next_request({A: at(1)})
    assert again == SessionRequest(session_id=0, epoch=0, partitions={A: at(1)})


def test_after_a_wrong_epoch_the_new_session_replaces_the_old_one() -> None:
    session = a_session_that_knows({A: at(1)})
    session.next_request({A: at(1)})

    assert session.refused(InvalidFetchSessionEpochError)

    again = session.next_request({A: at(1)})
    assert again == SessionRequest(session_id=77, epoch=0, partitions={A: at(1)})


def test_another_error_or_one_without_a_session_is_not_the_sessions_fault() -> None:
    known = a_session_that_knows({A: at(1)})
    fresh = FetchSession()
    fresh.next_request({A: at(1)})

    assert not known.refused(KafkaStorageError)
    assert not fresh.refused(FetchSessionIdNotFoundError)


def test_after_a_failure_everything_is_said_again() -> None:
    session = a_session_that_knows({A: at(1), B: at(2)})
    session.next_request({A: at(1)})

    session.restart()

    again = session.next_request({A: at(1), B: at(2)})
    assert again == SessionRequest(session_id=77, epoch=0, partitions={A: at(1), B: at(2)})


def test_without_sessions_everything_is_said_every_time() -> None:
    session = FetchSession(enabled=False)

    for _ in range(2):
        request = session.next_request({A: at(1)})
        session.answered(request, 0)
        assert request == SessionRequest(session_id=0, epoch=-1, partitions={A: at(1)})
        assert request.full


def test_the_marks_of_a_partition_hold_until_it_is_forgotten_or_the_session_ends() -> None:
    session = a_session_that_knows({A: at(1), B: at(2)})
    watermarks = Watermarks(10, 10, 0)
    session.note_watermarks(A, watermarks)
    session.note_watermarks(B, watermarks)

    session.next_request({A: at(1)})
    assert (session.watermarks(A), session.watermarks(B)) == (watermarks, None)

    session.restart()
    session.next_request({A: at(1)})
    assert session.watermarks(A) is None


# -- topics by their ids


def test_topics_are_named_by_their_ids_if_all_are_known() -> None:
    session = a_session_that_knows({A: at(1, ID)})

    second = session.next_request({A: at(1, ID), OTHER: at(1, OTHER_ID)})

    assert second.by_id
    assert not second.full
    assert session.name_of(ID.bytes) == "orders"
    assert session.name_of(OTHER_ID.bytes) == "payments"
    assert session.name_of(NEW_ID.bytes) is None


def test_an_equal_id_of_a_later_snapshot_is_the_same_topic() -> None:
    session = a_session_that_knows({A: at(1, ID), B: at(1, ID)})

    again = session.next_request({A: at(9, UUID(int=ID.int)), B: at(1, UUID(int=ID.int))})

    assert (again.full, again.partitions) == (False, {A: at(9, ID)})


def test_one_topic_without_a_known_id_makes_the_session_name_all_by_name() -> None:
    session = a_session_that_knows({A: at(1, ID)})

    without = session.next_request({A: at(1, ID), OTHER: at(1)})
    session.answered(without, 78)
    again = session.next_request({A: at(2, ID), OTHER: at(1)})

    assert (without.full, without.by_id, without.session_id) == (True, False, 77)
    assert (again.full, again.by_id) == (False, False)
    assert session.name_of("orders") == "orders"


def test_when_the_last_id_becomes_known_the_session_is_begun_anew_by_ids() -> None:
    session = a_session_that_knows({A: at(1, ID), OTHER: at(1)})

    known = session.next_request({A: at(1, ID), OTHER: at(1, OTHER_ID)})

    assert (known.full, known.by_id) == (True, True)
    assert session.name_of(OTHER_ID.bytes) == "payments"


def test_a_topic_that_was_created_anew_begins_the_session_anew() -> None:
    """The broker would go on with the old id, too."""
    session = a_session_that_knows({A: at(1, ID), OTHER: at(1, OTHER_ID)})

    anew = session.next_request({A: at(0, NEW_ID, epoch=2), OTHER: at(1, OTHER_ID)})

    assert (anew.full, anew.session_id, anew.by_id) == (True, 77, True)
    assert session.name_of(NEW_ID.bytes) == "orders"
    assert session.name_of(ID.bytes) is None


def test_what_is_forgotten_is_named_by_the_id_that_it_had() -> None:
    session = a_session_that_knows({A: at(1, ID), OTHER: at(1, OTHER_ID)})

    without = session.next_request({OTHER: at(1, OTHER_ID)})
    session.answered(without, 77)
    anew = session.next_request({A: at(0, NEW_ID), OTHER: at(1, OTHER_ID)})

    assert without.forgotten == {A: at(1, ID)}
    assert without.by_id
    assert (anew.full, anew.partitions) == (False, {A: at(0, NEW_ID)})
    assert session.name_of(ID.bytes) is None


def test_a_request_without_a_session_names_its_own_topics() -> None:
    session = FetchSession(enabled=False)
    session.next_request({A: at(1, ID)})

    request = session.next_request({OTHER: at(1, OTHER_ID)})

    assert request.by_id
    assert (session.name_of(OTHER_ID.bytes), session.name_of(ID.bytes)) == ("payments", None)
