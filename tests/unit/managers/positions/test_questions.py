"""Offsets by time: questions of the application that leaders answer."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from kafka.errors import (
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.events.answers import Answered, Failed
from aktor.events.metadata import Cluster, ClusterChanged, RefreshMetadata
from aktor.events.network import Request
from aktor.events.positions import ListOffsets
from aktor.managers.positions.manager import PositionManager
from tests.unit.managers.builders import (
    NOT_LEADER,
    T0,
    T1,
    T2,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC,
    Turn,
    answer,
    fail,
    tick,
)
from tests.unit.managers.positions.builders import (
    a_cluster,
    a_manager,
    a_manager_resetting,
    asked_of,
    at,
    offsets,
    resolved_in,
)


def a_question(
    timestamps: Mapping[TopicPartition, int], *, deadline: float = 10.0, ticket: int = 7
) -> ListOffsets:
    return ListOffsets(ticket=ticket, timestamps=timestamps, deadline=deadline)


def ask(manager: PositionManager, question: ListOffsets, now: float = 0.0) -> Request:
    """Put a question that one leader can answer."""
    manager.handle(question)
    return tick(manager, now).request


def test_offsets_are_looked_up_of_any_partition_assigned_or_not() -> None:
    manager = a_manager()

    request = ask(manager, a_question({T0: 1000, T1: -2, T2: -1}))
    (said,) = answer(manager, request, offsets({T0: (5, 1003), T1: 0, T2: 9}))

    assert asked_of(request) == {T0: 1000, T1: -2, T2: -1}
    assert said == Answered(
        ticket=7,
        value={
            T0: OffsetAndTimestamp(5, 1003, 5),
            T1: OffsetAndTimestamp(0, -1, 5),
            T2: OffsetAndTimestamp(9, -1, 5),
        },
    )
    assert tick(manager, 0.0) == Turn((), math.inf, [])


@pytest.mark.parametrize("known", [True, False], ids=["known before", "found out"])
def test_a_question_about_a_topic_that_we_may_not_describe_ends_at_once(known: bool) -> None:
    manager = a_manager()
    forbidden = ClusterChanged(cluster=Cluster(version=2, forbidden=frozenset({"t"})))
    first, then = (forbidden, a_question({T0: -1})) if known else (a_question({T0: -1}), forbidden)

    manager.handle(first)
    (said,) = manager.handle(then)

    assert isinstance(said, Failed)
    assert said.ticket == 7
    assert isinstance(said.error, TopicAuthorizationFailedError)
    assert said.error.args == ({"t"},)


def test_where_no_record_is_that_young_there_is_no_offset() -> None:
    manager = a_manager()

    (said,) = answer(manager, ask(manager, a_question({T0: 1000})), offsets({T0: None}))

    assert said == Answered(ticket=7, value={T0: None})


def test_records_without_timestamps_have_no_offset_by_time() -> None:
    manager = a_manager()

    (said,) = answer(manager, ask(manager, a_question({T0: 1000})), offsets(errors={T0: 43}))

    assert said == Answered(ticket=7, value={T0: None})


def test_who_asks_for_an_end_of_a_log_hears_at_once_that_its_format_is_refused() -> None:
    manager = a_manager()

    (said,) = answer(
        manager, ask(manager, a_question({T0: -1, T1: 1000})), offsets(errors={T0: 43, T1: 43})
    )

    assert isinstance(said, Failed)
    assert isinstance(said.error, UnsupportedForMessageFormatError)
    assert "t-0" in str(said.error)
    assert "t-1" not in str(said.error)


def test_an_end_of_the_log_without_an_offset_is_asked_for_again() -> None:
    manager = a_manager()

    answer(manager, ask(manager, a_question({T0: -1})), offsets({T0: None}))

    assert tick(manager, 0.1).requests


def test_a_question_about_nothing_is_answered_at_once() -> None:
    manager = a_manager()

    assert manager.handle(a_question({})) == [Answered(ticket=7, value={})]


def test_a_question_about_several_leaders_is_answered_when_all_have_answered() -> None:
    manager = a_manager(knows=a_cluster({T0: (1, 5), T1: (2, 5)}))
    manager.handle(a_question({T0: -1, T1: -1}))
    first, second = tick(manager, 0.0).requests

    assert answer(manager, first, offsets({T0: 1})) == []
    (said,) = answer(manager, second, offsets({T1: 2}))

    assert isinstance(said, Answered)
    assert {tp: one.offset for tp, one in said.value.items()} == {T0: 1, T1: 2}


def test_only_what_failed_is_asked_again_after_a_refresh_and_the_backoff() -> None:
    manager = a_manager()
    request = ask(manager, a_question({T0: -1, T1: -1}))

    said = answer(manager, request, offsets({T0: 1}, errors={T1: NOT_LEADER}), now=1.0)

    assert [type(one) for one in said] == [RefreshMetadata]
    assert tick(manager, 1.05).wake_at == pytest.approx(1.1)
    again = tick(manager, 1.1).request
    assert asked_of(again) == {T1: -1}
    (end,) = answer(manager, again, offsets({T1: 2}), now=1.2)
    assert isinstance(end, Answered)


def test_what_an_answer_leaves_out_of_a_question_is_asked_again_after_the_backoff() -> None:
    manager = a_manager()
    request = ask(manager, a_question({T0: -1, T1: -1}))

    said = answer(manager, request, offsets({T0: 1}), now=1.0)

    assert [type(one) for one in said] == [RefreshMetadata]
    assert tick(manager, 1.05).requests == ()
    assert asked_of(tick(manager, 1.1).request) == {T1: -1}


def test_a_question_about_an_unknown_partition_waits_for_the_snapshot() -> None:
    manager = a_manager(knows=a_cluster({}))
    manager.handle(a_question({T0: -1}))

    turn = tick(manager, 0.0)
    manager.handle(a_cluster(version=2))

    assert turn.said == [RefreshMetadata(because="no leader is known of t-0")]
    assert turn.wake_at == pytest.approx(0.1)
    assert tick(manager, 0.01).request.to == 1


def test_a_question_ends_at_its_deadline_naming_what_was_not_found() -> None:
    manager = a_manager(knows=a_cluster({T0: (1, 5)}))
    request = ask(manager, a_question({T0: -1, T1: -1}, deadline=2.0), now=0.5)
    answer(manager, request, offsets({T0: 1}), now=0.6)

    assert not any(isinstance(one, Failed) for one in tick(manager, 1.99).said)
    (failed,) = tick(manager, 2.0).said

    assert isinstance(failed, Failed)
    assert isinstance(failed.error, KafkaTimeoutError)
    assert "within 1.5 s for t-1: the topic has no such partition (it has 1)" in str(failed.error)
    assert "t-0" not in str(failed.error)
    assert tick(manager, 2.0) == Turn((), math.inf, [])


def test_the_deadline_of_a_question_is_a_wake_time_and_the_limit_of_its_requests() -> None:
    manager = a_manager()
    manager.handle(a_question({T0: -1}, deadline=2.0))

    turn = tick(manager, 0.0)

    assert turn.wake_at == 2.0
    assert turn.request.deadline == 2.0


def test_an_answer_after_the_deadline_is_no_second_end() -> None:
    manager = a_manager()
    request = ask(manager, a_question({T0: -1}, deadline=2.0))
    tick(manager, 2.0)

    assert answer(manager, request, offsets({T0: 1}), now=2.1) == []
    assert fail(manager, request, UnsupportedVersionError("old"), now=2.1) == []


def test_an_unauthorised_topic_fails_the_question_at_once() -> None:
    manager = a_manager()
    request = ask(manager, a_question({T0: -1, T1: -1}))
    response = offsets({T1: 1}, errors={T0: TOPIC_AUTHORIZATION_FAILED})

    (said,) = answer(manager, request, response)

    assert isinstance(said, Failed)
    assert isinstance(said.error, TopicAuthorizationFailedError)
    assert said.error.args == ({"t"},)


def test_an_error_of_one_attempt_is_named_if_it_was_the_last() -> None:
    manager = a_manager()
    request = ask(manager, a_question({T0: -1}, deadline=1.0))
    answer(manager, request, offsets(errors={T0: UNKNOWN_TOPIC}), now=0.95)

    (failed,) = tick(manager, 1.0).said

    assert isinstance(failed, Failed)
    assert "UnknownTopicOrPartitionError" in str(failed.error)


def test_a_question_does_not_disturb_a_reset_of_the_same_partition() -> None:
    manager = a_manager_resetting(T0)
    manager.handle(a_question({T0: -2}))
    of_reset, of_question = tick(manager, 0.0).requests

    (answered,) = answer(manager, of_question, offsets({T0: 0}))
    said = answer(manager, of_reset, offsets({T0: 17}))

    assert isinstance(answered, Answered)
    assert resolved_in(said) == {T0: at(17)}
