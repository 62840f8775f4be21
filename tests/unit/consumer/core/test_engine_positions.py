"""Questions and their answers: look-ups, the position, seeks and resets."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import (
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.partition_errors import POSITION_RETRY
from aktor.consumer.core.questions import ANSWER_GRACE
from aktor.errors import ActorRestartedError, UserCallbackError, WakeupError
from aktor.events.answers import Answered, Failed
from aktor.events.commits import CommitOffsets, FetchCommittedOffsets
from aktor.events.polling import Poll
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Position,
    Reset,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
)
from tests.unit.consumer.core.builders import (
    CRASH,
    EngineHarness,
    a_consumer,
    a_failure,
    a_restart,
    resolved,
)
from tests.unit.consumer.core.builders_chunks import A, B, C, a_chunk

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


# -- asking


def test_an_answer_is_returned_and_the_question_is_closed() -> None:
    harness = a_consumer()
    harness.on_said = lambda ticket: harness.hear_at(101.0, Answered(ticket=ticket, value="found"))

    answer = harness.ask("metadata", lambda ticket: ticket, deadline=105.0, what="it")

    assert answer == "found"
    assert harness.clock.now == 101.0
    assert harness.port.open_questions == 0


def test_an_error_is_raised_and_the_question_is_closed() -> None:
    harness = a_consumer()
    error = GroupAuthorizationFailedError()
    harness.on_said = lambda ticket: harness.hear(Failed(ticket=ticket, error=error))

    with pytest.raises(GroupAuthorizationFailedError):
        harness.ask("metadata", lambda ticket: ticket, deadline=105.0, what="it")
    assert harness.port.open_questions == 0


def test_the_actor_says_at_the_deadline_why_there_is_no_answer() -> None:
    harness = a_consumer()
    error = KafkaTimeoutError("the coordinator is not known")
    harness.on_said = lambda ticket: harness.hear_at(105.01, Failed(ticket=ticket, error=error))

    with pytest.raises(KafkaTimeoutError, match="the coordinator is not known"):
        harness.ask("commits", lambda ticket: ticket, deadline=105.0, what="it")

    assert harness.clock.now == 105.01
    assert harness.port.open_questions == 0


def test_a_question_without_a_time_is_answered_by_the_actor_as_well() -> None:
    harness = a_consumer()
    harness.on_said = lambda ticket: harness.hear_at(100.01, Answered(ticket=ticket, value="found"))

    assert harness.ask("commits", lambda ticket: ticket, deadline=99.0, what="it") == "found"
    assert harness.clock.now == 100.01


def test_a_question_without_an_answer_ends_soon_after_its_deadline() -> None:
    harness = a_consumer()

    with pytest.raises(
        KafkaTimeoutError,
        match="the commit of 1 partitions was not done within 5 s, and the commits actor does not",
    ):
        harness.commit({A: OffsetAndMetadata(1, "", -1)}, 105.0)

    assert harness.clock.now == 105.0 + ANSWER_GRACE
    assert harness.port.open_questions == 0


def test_a_question_ends_when_its_actor_is_restarted() -> None:
    harness = a_consumer()
    harness.hear_at(101.0, a_restart("commits"))

    with pytest.raises(ActorRestartedError) as raised:
        harness.commit({}, 105.0)
    assert raised.value.__cause__ is CRASH


def test_a_wakeup_ends_a_question_and_nobody_waits_for_it_any_more() -> None:
    harness = a_consumer()
    harness.bell.at(101.0, harness.engine.call.wakeup)

    with pytest.raises(WakeupError):
        harness.commit({}, 105.0)
    assert harness.port.open_questions == 0


def test_restarted_actors_hear_what_they_must_know_before_they_are_asked() -> None:
    harness = a_consumer()
    harness.hear(a_restart("commits"))
    harness.on_said = lambda message: (
        harness.hear(Answered(ticket=message.ticket))
        if isinstance(message, CommitOffsets)
        else None
    )

    harness.commit({}, 105.0)

    kinds = [type(one) for one in harness.said]
    assert kinds.index(AssignmentChanged) < kinds.index(CommitOffsets)
    harness.forget()
    harness.commit({}, 105.0)
    assert [type(one) for one in harness.said] == [CommitOffsets]


def test_an_asynchronous_commit_is_said_at_once_and_settled_when_answered() -> None:
    harness = a_consumer()
    endings: list[Any] = []

    harness.run(
        harness.engine.commits.commit_async(
            {A: OffsetAndMetadata(1, "", -1)}, lambda *end: endings.append(end)
        )
    )

    (said,) = harness.of(CommitOffsets)
    assert (said.offsets, said.retry) == ({A: OffsetAndMetadata(1, "", -1)}, False)
    assert endings == []
    harness.hear(Answered(ticket=said.ticket))
    assert endings == [(None, None)]


def test_a_commit_callback_that_raises_stop_iteration_ends_no_loop_of_the_user() -> None:
    """Inside our generators it would become a RuntimeError that names none of the user's code
    (PEP 479); raised as it is, it would end `for record in consumer` as if that were over."""
    harness = a_consumer()
    raised = StopIteration("the user's")

    def on_commit() -> None:
        raise raised

    harness.engine.commits.callbacks.add(on_commit)
    with pytest.raises(UserCallbackError, match="commit callback throws an error") as caught:
        harness.poll()

    assert caught.value.__cause__ is raised
    assert harness.poll() == {}


def test_callbacks_of_finished_commits_run_in_poll_and_after_a_commit() -> None:
    harness = a_consumer()
    ran: list[str] = []
    harness.engine.commits.callbacks.add(lambda: ran.append("in poll"))
    harness.poll()

    harness.on_said = lambda message: harness.hear(Answered(ticket=message.ticket))
    harness.engine.commits.callbacks.add(lambda: ran.append("after a commit"))
    harness.commit({}, 105.0)

    assert ran == ["in poll", "after a commit"]


# -- position


def test_a_known_position_is_told_without_waiting() -> None:
    harness = a_consumer()

    assert harness.position(A, harness.clock.now) == 0
    assert harness.bell.waits == []


def test_position_waits_for_the_position() -> None:
    harness = EngineHarness()
    harness.assign([A])
    harness.hear_at(102.0, resolved(epoch=1, offset=7))

    assert harness.position(A, 110.0) == 7
    assert harness.clock.now == 102.0


def test_position_is_none_at_the_deadline() -> None:
    harness = EngineHarness()
    harness.assign([A])

    assert harness.position(A, 110.0) is None
    assert harness.clock.now == 110.0


def test_a_wakeup_ends_the_wait_for_a_position_but_not_a_look_at_one_that_is_known() -> None:
    harness = EngineHarness()
    harness.assign([A, B])
    harness.found(B, offset=3)
    harness.engine.call.wakeup()

    assert harness.position(B, 110.0) == 3
    with pytest.raises(WakeupError):
        harness.position(A, 110.0)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_missing_offset_is_raised_each_time_because_only_a_seek_helps(ask: str) -> None:
    harness = EngineHarness()
    harness.assign([A])
    harness.hear(a_failure(NoOffsetForPartitionError({A})))

    for _ in range(3):
        with pytest.raises(NoOffsetForPartitionError):
            _ask(harness, ask)
        harness.clock.now += 2 * POSITION_RETRY

    assert harness.of(AssignmentChanged)[1:] == []
    harness.engine.seek(A, Position(offset=0))
    _ask(harness, ask)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_an_error_that_may_pass_is_raised_once_an_attempt(ask: str) -> None:
    harness = EngineHarness()
    harness.assign([A, B])
    harness.found(B)
    harness.hear(a_failure(TopicAuthorizationFailedError()))

    with pytest.raises(TopicAuthorizationFailedError):
        _ask(harness, ask)

    assert _ask(harness, ask) in ({}, None)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_position_that_could_not_be_found_is_asked_for_anew_after_a_second(ask: str) -> None:
    harness = EngineHarness()
    harness.assign([A])
    harness.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        _ask(harness, ask)
    harness.forget()

    _ask(harness, ask, 0.9 * POSITION_RETRY)
    assert harness.of(AssignmentChanged) == []

    _ask(harness, ask, 0.2 * POSITION_RETRY)
    assert [one.partitions for one in harness.of(AssignmentChanged)] == [{A: Assigned(epoch=2)}]


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_each_attempt_that_fails_is_raised_and_the_one_that_succeeds_is_taken(ask: str) -> None:
    harness = EngineHarness()
    harness.assign([A])
    for epoch in (1, 2):
        harness.hear(a_failure(TopicAuthorizationFailedError(), epoch=epoch))
        with pytest.raises(TopicAuthorizationFailedError):
            _ask(harness, ask, 10.0)
        _ask(harness, ask, POSITION_RETRY)

    harness.hear(resolved(epoch=3, offset=4))

    assert _ask(harness, ask) in ({}, 4)
    assert harness.position(A, harness.clock.now) == 4


def test_errors_of_one_attempt_for_several_partitions_are_raised_once() -> None:
    harness = EngineHarness()
    harness.assign([A, B])
    error = TopicAuthorizationFailedError()
    harness.hear(a_failure(error, 1, A), a_failure(error, 2, B))

    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()
    assert harness.poll() == {}
    harness.poll(1.1 * POSITION_RETRY)

    asked = harness.of(AssignmentChanged)[-1].partitions
    assert {one: assigned.epoch > 2 for one, assigned in asked.items()} == {A: True, B: True}


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_call_that_waits_longer_asks_anew_in_time(ask: str) -> None:
    harness = EngineHarness()
    harness.assign([A])
    harness.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        _ask(harness, ask)
    asked_at: list[float] = []
    harness.on_said = lambda message: (
        asked_at.append(harness.clock.now) if isinstance(message, AssignmentChanged) else None
    )

    _ask(harness, ask, 10.0)

    assert asked_at == [100.0 + POSITION_RETRY]


def test_an_error_that_comes_later_in_the_same_attempt_is_not_raised_again() -> None:
    harness = EngineHarness()
    harness.assign([A, B])
    error = TopicAuthorizationFailedError()

    for _ in range(2):
        for one, epoch in _epochs(harness).items():
            harness.hear(a_failure(error, epoch, one))
            if one == A:
                with pytest.raises(TopicAuthorizationFailedError):
                    harness.poll()
            assert harness.poll() == {}
        harness.poll(1.1 * POSITION_RETRY)


def test_each_error_of_an_attempt_is_raised_if_they_differ() -> None:
    harness = EngineHarness()
    harness.assign([A, B])
    first, second = TopicAuthorizationFailedError({"a"}), GroupAuthorizationFailedError("g")
    harness.hear(a_failure(first, 1, A), a_failure(second, 2, B))

    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()
    with pytest.raises(GroupAuthorizationFailedError):
        harness.poll()
    assert harness.poll() == {}


def _epochs(harness: EngineHarness) -> dict[TopicPartition, int]:
    return {one: said.epoch for one, said in harness.engine.delivery.as_assigned().items()}


def test_a_reset_that_could_not_be_looked_up_is_asked_for_anew_as_a_reset() -> None:
    harness = a_consumer()
    harness.engine.reset([A], ResetStrategy.EARLIEST)
    harness.hear(a_failure(TopicAuthorizationFailedError(), epoch=2))
    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()
    harness.forget()

    harness.poll(1.1 * POSITION_RETRY)

    (told,) = harness.of(ResetPositions)
    assert told.partitions == {A: Reset(epoch=3, strategy=ResetStrategy.EARLIEST)}


def test_a_partition_that_was_sought_meanwhile_is_not_asked_for_anew() -> None:
    harness = EngineHarness()
    harness.assign([A])
    harness.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()

    harness.engine.seek(A, Position(offset=9))
    harness.poll(1.1 * POSITION_RETRY)

    assert harness.engine.delivery.as_assigned() == {
        A: Assigned(epoch=2, position=Position(offset=9))
    }


def _ask(harness: EngineHarness, how: str, timeout: float = 0.0) -> Any:
    if how == "poll":
        return harness.poll(timeout)
    return harness.position(A, harness.clock.now + timeout)


# -- seek and reset


def test_a_seek_is_said_at_once_with_a_new_epoch() -> None:
    harness = a_consumer()

    harness.engine.seek(A, Position(offset=40))

    assert harness.said == [
        SeekPartitions(partitions={A: Assigned(epoch=2, position=Position(offset=40))})
    ]


def test_a_seek_forward_in_what_is_buffered_is_not_said() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=6))

    harness.engine.seek(A, Position(offset=4))

    assert harness.said == []
    assert harness.poll() == {A: [4, 5]}
    harness.poll()
    assert harness.of(Poll)[-1].positions[A].offset == 6


def test_a_seek_with_a_leader_epoch_is_said_wherever_it_goes() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=6))

    harness.engine.seek(A, Position(offset=4, leader_epoch=5))

    assert [type(message) for message in harness.said] == [SeekPartitions]
    assert harness.engine.delivery.buffered_bytes == 0


@pytest.mark.parametrize("go", ["seek", "reset"])
def test_what_came_before_a_seek_is_let_go_of_at_once(go: str) -> None:
    """Who seeks again and again and does not poll: the buffer would grow without bound."""
    harness = a_consumer()
    for epoch in range(1, 4):
        harness.fetched(a_chunk(epoch=epoch))
        if go == "seek":
            harness.engine.seek(A, Position(offset=100))
        else:
            harness.engine.reset([A], ResetStrategy.EARLIEST)

        assert not harness.port.chunks
        assert harness.engine.delivery.buffered_bytes == 0

    harness.poll()
    assert harness.of(Poll)[-1].freed_bytes == 3 * a_chunk().size


def test_paused_partitions_keep_what_is_buffered_but_for_what_is_beyond_the_bound() -> None:
    size = a_chunk(count=1).size
    harness = a_consumer(A, B, max_buffered_bytes=2 * size)
    harness.fetched(a_chunk(count=1), a_chunk(count=1, partition=B, epoch=2))
    harness.engine.pause([A], paused=True)
    assert not harness.of(SeekPartitions)

    harness.fetched(a_chunk(offset=1, count=1, partition=B, epoch=2))
    harness.engine.pause([B], paused=True)

    assert harness.engine.delivery.buffered_bytes == size
    (sought,) = harness.of(SeekPartitions)
    assert sought.partitions == {B: Assigned(epoch=3, position=Position(offset=0))}
    harness.engine.pause([A, B], paused=False)
    harness.fetched(a_chunk(count=2, partition=B, epoch=3))
    assert harness.poll() == {A: [0], B: [0, 1]}


def test_what_came_for_a_paused_partition_is_beyond_the_bound_when_another_one_is_paused() -> None:
    size = a_chunk(count=1).size
    harness = a_consumer(A, B, C, max_buffered_bytes=size)
    harness.engine.pause([A], paused=True)
    harness.fetched(a_chunk(count=1), a_chunk(count=1, partition=B, epoch=2))

    harness.engine.pause([C], paused=True)

    assert harness.engine.delivery.buffered_bytes == size
    (sought,) = harness.of(SeekPartitions)
    assert sought.partitions.keys() == {A}


def test_a_position_that_is_on_its_way_is_not_lost_when_the_buffer_is_full() -> None:
    """The background finds a position and fetches; its messages may come while we look for one of
    them, so that records are seen before the position."""
    harness = EngineHarness(max_buffered_bytes=1)
    harness.assign([A])
    harness.poll()
    harness.fetched(a_chunk(count=2))

    harness.engine.pause([A], paused=True)

    assert not harness.of(SeekPartitions)
    harness.found(A)
    harness.engine.pause([A], paused=False)
    assert harness.poll() == {A: [0, 1]}


class _NotWalked(dict[Any, Any]):
    def __iter__(self) -> Any:
        raise AssertionError("all partitions are walked")

    items = values = keys = __iter__


def test_a_pause_looks_at_the_partitions_that_are_paused_and_at_no_others() -> None:
    """Who pauses thousands one by one, while the buffer is full, does not walk all each time."""
    harness = a_consumer(A, B, C, max_buffered_bytes=a_chunk(count=1).size)
    harness.fetched(a_chunk(count=9, partition=C, epoch=3))
    harness.engine.delivery.partitions = _NotWalked(harness.engine.delivery.partitions)

    harness.engine.pause([A], paused=True)
    harness.engine.pause([B], paused=True)
    assert not harness.of(SeekPartitions)
    harness.engine.pause([C], paused=True)

    assert len(harness.of(SeekPartitions)) == 1


def test_a_reset_is_said_at_once_and_leaves_no_position() -> None:
    harness = a_consumer(A, B)

    harness.engine.reset([B], ResetStrategy.LATEST)

    (told,) = harness.of(ResetPositions)
    assert told.partitions == {B: Reset(epoch=3, strategy=ResetStrategy.LATEST)}
    assert harness.position(B, harness.clock.now) is None
    assert harness.position(A, harness.clock.now) == 0


# -- a seek that waits (asyncio)


def answer_with(harness: EngineHarness, committed: dict[TopicPartition, int]) -> None:
    """The group has committed these offsets."""
    found = {one: OffsetAndMetadata(offset, "", -1) for one, offset in committed.items()}

    def answer(message: Any) -> None:
        if isinstance(message, FetchCommittedOffsets):
            harness.hear(Answered(ticket=message.ticket, value=found))

    harness.on_said = answer


def test_a_seek_to_what_is_committed_leaves_a_partition_alone_that_has_nothing() -> None:
    harness = a_consumer(A, B)
    answer_with(harness, {A: 7})

    sought = harness.run(harness.engine.seek_to_committed([A, B], harness.clock.now + 1))

    assert sought == {A: 7, B: None}
    (told,) = harness.of(SeekPartitions)
    assert told.partitions == {A: Assigned(epoch=3, position=Position(offset=7))}


def test_a_seek_to_what_is_committed_goes_nowhere_if_a_partition_was_given_up_meanwhile() -> None:
    harness = a_consumer(A)
    answer_with(harness, {A: 7, B: 7})

    with pytest.raises(IllegalStateError, match="orders-1 is not assigned any more"):
        harness.run(harness.engine.seek_to_committed([A, B], harness.clock.now + 1))

    assert not harness.of(SeekPartitions)


def test_a_reset_that_waits_ends_when_the_offsets_are_known() -> None:
    harness = a_consumer(A)
    harness.bell.at(harness.clock.now + 0.5, lambda: harness.found(A, offset=9))

    harness.run(harness.engine.reset_and_find([A], ResetStrategy.LATEST, harness.clock.now + 1))

    assert harness.position(A, harness.clock.now) == 9


def test_a_reset_that_waits_is_not_begun_if_a_partition_was_given_up_before_its_turn() -> None:
    harness = a_consumer(A)

    with pytest.raises(IllegalStateError, match="orders-1 is not assigned any more"):
        harness.run(
            harness.engine.reset_and_find([A, B], ResetStrategy.LATEST, harness.clock.now + 1)
        )

    assert not harness.of(ResetPositions)
