"""Questions and their answers: look-ups, the position, seeks and resets."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.partition_errors import POSITION_RETRY
from aktor.consumer.core.questions import ANSWER_GRACE
from aktor.errors import ActorRestartedError, UserCallbackError, WakeupError
from aktor.events.answers import Answered, Failed
from aktor.events.commits import CommitOffsets
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
from tests.unit.consumer.core.builders import CRASH, Site, a_failure, a_restart, a_site, resolved
from tests.unit.consumer.core.builders_chunks import A, B, C, a_chunk

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


# -- asking


def test_an_answer_is_returned_and_the_question_is_closed() -> None:
    site = a_site()
    site.on_said = lambda ticket: site.hear_at(101.0, Answered(ticket=ticket, value="found"))

    answer = site.ask("metadata", lambda ticket: ticket, deadline=105.0, what="it")

    assert answer == "found"
    assert site.clock.now == 101.0
    assert site.port.open_questions == 0


def test_an_error_is_raised_and_the_question_is_closed() -> None:
    site = a_site()
    error = GroupAuthorizationFailedError()
    site.on_said = lambda ticket: site.hear(Failed(ticket=ticket, error=error))

    with pytest.raises(GroupAuthorizationFailedError):
        site.ask("metadata", lambda ticket: ticket, deadline=105.0, what="it")
    assert site.port.open_questions == 0


def test_the_actor_says_at_the_deadline_why_there_is_no_answer() -> None:
    site = a_site()
    error = KafkaTimeoutError("the coordinator is not known")
    site.on_said = lambda ticket: site.hear_at(105.01, Failed(ticket=ticket, error=error))

    with pytest.raises(KafkaTimeoutError, match="the coordinator is not known"):
        site.ask("commits", lambda ticket: ticket, deadline=105.0, what="it")

    assert site.clock.now == 105.01
    assert site.port.open_questions == 0


def test_a_question_without_a_time_is_answered_by_the_actor_as_well() -> None:
    site = a_site()
    site.on_said = lambda ticket: site.hear_at(100.01, Answered(ticket=ticket, value="found"))

    assert site.ask("commits", lambda ticket: ticket, deadline=99.0, what="it") == "found"
    assert site.clock.now == 100.01


def test_a_question_without_an_answer_ends_soon_after_its_deadline() -> None:
    site = a_site()

    with pytest.raises(
        KafkaTimeoutError,
        match="the commit of 1 partitions was not done within 5 s, and the commits actor does not",
    ):
        site.commit({A: OffsetAndMetadata(1, "", -1)}, 105.0)

    assert site.clock.now == 105.0 + ANSWER_GRACE
    assert site.port.open_questions == 0


def test_a_question_ends_when_its_actor_is_restarted() -> None:
    site = a_site()
    site.hear_at(101.0, a_restart("commits"))

    with pytest.raises(ActorRestartedError) as raised:
        site.commit({}, 105.0)
    assert raised.value.__cause__ is CRASH


def test_a_wakeup_ends_a_question_and_nobody_waits_for_it_any_more() -> None:
    site = a_site()
    site.bell.at(101.0, site.engine.call.wakeup)

    with pytest.raises(WakeupError):
        site.commit({}, 105.0)
    assert site.port.open_questions == 0


def test_restarted_actors_hear_what_they_must_know_before_they_are_asked() -> None:
    site = a_site()
    site.hear(a_restart("commits"))
    site.on_said = lambda message: (
        site.hear(Answered(ticket=message.ticket)) if isinstance(message, CommitOffsets) else None
    )

    site.commit({}, 105.0)

    kinds = [type(one) for one in site.said]
    assert kinds.index(AssignmentChanged) < kinds.index(CommitOffsets)
    site.forget()
    site.commit({}, 105.0)
    assert [type(one) for one in site.said] == [CommitOffsets]


def test_an_asynchronous_commit_is_said_at_once_and_settled_when_answered() -> None:
    site = a_site()
    endings: list[Any] = []

    site.run(
        site.engine.commits.commit_async(
            {A: OffsetAndMetadata(1, "", -1)}, lambda *end: endings.append(end)
        )
    )

    (said,) = site.of(CommitOffsets)
    assert (said.offsets, said.retry) == ({A: OffsetAndMetadata(1, "", -1)}, False)
    assert endings == []
    site.hear(Answered(ticket=said.ticket))
    assert endings == [(None, None)]


def test_a_commit_callback_that_raises_stop_iteration_ends_no_loop_of_the_user() -> None:
    """Inside our generators it would become a RuntimeError that names none of the user's code
    (PEP 479); raised as it is, it would end `for record in consumer` as if that were over."""
    site = a_site()
    raised = StopIteration("the user's")

    def on_commit() -> None:
        raise raised

    site.engine.commits.callbacks.add(on_commit)
    with pytest.raises(UserCallbackError, match="commit callback throws an error") as caught:
        site.poll()

    assert caught.value.__cause__ is raised
    assert site.poll() == {}


def test_callbacks_of_finished_commits_run_in_poll_and_after_a_commit() -> None:
    site = a_site()
    ran: list[str] = []
    site.engine.commits.callbacks.add(lambda: ran.append("in poll"))
    site.poll()

    site.on_said = lambda message: site.hear(Answered(ticket=message.ticket))
    site.engine.commits.callbacks.add(lambda: ran.append("after a commit"))
    site.commit({}, 105.0)

    assert ran == ["in poll", "after a commit"]


# -- position


def test_a_known_position_is_told_without_waiting() -> None:
    site = a_site()

    assert site.position(A, site.clock.now) == 0
    assert site.bell.waits == []


def test_position_waits_for_the_position() -> None:
    site = Site()
    site.assign([A])
    site.hear_at(102.0, resolved(epoch=1, offset=7))

    assert site.position(A, 110.0) == 7
    assert site.clock.now == 102.0


def test_position_is_none_at_the_deadline() -> None:
    site = Site()
    site.assign([A])

    assert site.position(A, 110.0) is None
    assert site.clock.now == 110.0


def test_a_wakeup_ends_the_wait_for_a_position_but_not_a_look_at_one_that_is_known() -> None:
    site = Site()
    site.assign([A, B])
    site.found(B, offset=3)
    site.engine.call.wakeup()

    assert site.position(B, 110.0) == 3
    with pytest.raises(WakeupError):
        site.position(A, 110.0)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_missing_offset_is_raised_each_time_because_only_a_seek_helps(ask: str) -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(NoOffsetForPartitionError({A})))

    for _ in range(3):
        with pytest.raises(NoOffsetForPartitionError):
            _ask(site, ask)
        site.clock.now += 2 * POSITION_RETRY

    assert site.of(AssignmentChanged)[1:] == []
    site.engine.seek(A, Position(offset=0))
    _ask(site, ask)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_an_error_that_may_pass_is_raised_once_an_attempt(ask: str) -> None:
    site = Site()
    site.assign([A, B])
    site.found(B)
    site.hear(a_failure(TopicAuthorizationFailedError()))

    with pytest.raises(TopicAuthorizationFailedError):
        _ask(site, ask)

    assert _ask(site, ask) in ({}, None)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_position_that_could_not_be_found_is_asked_for_anew_after_a_second(ask: str) -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        _ask(site, ask)
    site.forget()

    _ask(site, ask, 0.9 * POSITION_RETRY)
    assert site.of(AssignmentChanged) == []

    _ask(site, ask, 0.2 * POSITION_RETRY)
    assert [one.partitions for one in site.of(AssignmentChanged)] == [{A: Assigned(epoch=2)}]


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_each_attempt_that_fails_is_raised_and_the_one_that_succeeds_is_taken(ask: str) -> None:
    site = Site()
    site.assign([A])
    for epoch in (1, 2):
        site.hear(a_failure(TopicAuthorizationFailedError(), epoch=epoch))
        with pytest.raises(TopicAuthorizationFailedError):
            _ask(site, ask, 10.0)
        _ask(site, ask, POSITION_RETRY)

    site.hear(resolved(epoch=3, offset=4))

    assert _ask(site, ask) in ({}, 4)
    assert site.position(A, site.clock.now) == 4


def test_errors_of_one_attempt_for_several_partitions_are_raised_once() -> None:
    site = Site()
    site.assign([A, B])
    error = TopicAuthorizationFailedError()
    site.hear(a_failure(error, 1, A), a_failure(error, 2, B))

    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    assert site.poll() == {}
    site.poll(1.1 * POSITION_RETRY)

    asked = site.of(AssignmentChanged)[-1].partitions
    assert {one: assigned.epoch > 2 for one, assigned in asked.items()} == {A: True, B: True}


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_call_that_waits_longer_asks_anew_in_time(ask: str) -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        _ask(site, ask)
    asked_at: list[float] = []
    site.on_said = lambda message: (
        asked_at.append(site.clock.now) if isinstance(message, AssignmentChanged) else None
    )

    _ask(site, ask, 10.0)

    assert asked_at == [100.0 + POSITION_RETRY]


def test_an_error_that_comes_later_in_the_same_attempt_is_not_raised_again() -> None:
    site = Site()
    site.assign([A, B])
    error = TopicAuthorizationFailedError()

    for _ in range(2):
        for one, epoch in _epochs(site).items():
            site.hear(a_failure(error, epoch, one))
            if one == A:
                with pytest.raises(TopicAuthorizationFailedError):
                    site.poll()
            assert site.poll() == {}
        site.poll(1.1 * POSITION_RETRY)


def test_each_error_of_an_attempt_is_raised_if_they_differ() -> None:
    site = Site()
    site.assign([A, B])
    first, second = TopicAuthorizationFailedError({"a"}), GroupAuthorizationFailedError("g")
    site.hear(a_failure(first, 1, A), a_failure(second, 2, B))

    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    with pytest.raises(GroupAuthorizationFailedError):
        site.poll()
    assert site.poll() == {}


def _epochs(site: Site) -> dict[TopicPartition, int]:
    return {one: said.epoch for one, said in site.engine.delivery.as_assigned().items()}


def test_a_reset_that_could_not_be_looked_up_is_asked_for_anew_as_a_reset() -> None:
    site = a_site()
    site.engine.reset([A], ResetStrategy.EARLIEST)
    site.hear(a_failure(TopicAuthorizationFailedError(), epoch=2))
    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    site.forget()

    site.poll(1.1 * POSITION_RETRY)

    (told,) = site.of(ResetPositions)
    assert told.partitions == {A: Reset(epoch=3, strategy=ResetStrategy.EARLIEST)}


def test_a_partition_that_was_sought_meanwhile_is_not_asked_for_anew() -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()

    site.engine.seek(A, Position(offset=9))
    site.poll(1.1 * POSITION_RETRY)

    assert site.engine.delivery.as_assigned() == {A: Assigned(epoch=2, position=Position(offset=9))}


def _ask(site: Site, how: str, timeout: float = 0.0) -> Any:
    if how == "poll":
        return site.poll(timeout)
    return site.position(A, site.clock.now + timeout)


# -- seek and reset


def test_a_seek_is_said_at_once_with_a_new_epoch() -> None:
    site = a_site()

    site.engine.seek(A, Position(offset=40))

    assert site.said == [
        SeekPartitions(partitions={A: Assigned(epoch=2, position=Position(offset=40))})
    ]


def test_a_seek_forward_in_what_is_buffered_is_not_said() -> None:
    site = a_site()
    site.fetched(a_chunk(count=6))

    site.engine.seek(A, Position(offset=4))

    assert site.said == []
    assert site.poll() == {A: [4, 5]}
    site.poll()
    assert site.of(Poll)[-1].positions[A].offset == 6


def test_a_seek_with_a_leader_epoch_is_said_wherever_it_goes() -> None:
    site = a_site()
    site.fetched(a_chunk(count=6))

    site.engine.seek(A, Position(offset=4, leader_epoch=5))

    assert [type(message) for message in site.said] == [SeekPartitions]
    assert site.engine.delivery.buffered_bytes == 0


@pytest.mark.parametrize("go", ["seek", "reset"])
def test_what_came_before_a_seek_is_let_go_of_at_once(go: str) -> None:
    """Who seeks again and again and does not poll: the buffer would grow without bound."""
    site = a_site()
    for epoch in range(1, 4):
        site.fetched(a_chunk(epoch=epoch))
        if go == "seek":
            site.engine.seek(A, Position(offset=100))
        else:
            site.engine.reset([A], ResetStrategy.EARLIEST)

        assert not site.port.chunks
        assert site.engine.delivery.buffered_bytes == 0

    site.poll()
    assert site.of(Poll)[-1].freed_bytes == 3 * a_chunk().size


def test_paused_partitions_keep_what_is_buffered_but_for_what_is_beyond_the_bound() -> None:
    size = a_chunk(count=1).size
    site = a_site(A, B, max_buffered_bytes=2 * size)
    site.fetched(a_chunk(count=1), a_chunk(count=1, partition=B, epoch=2))
    site.engine.pause([A], paused=True)
    assert not site.of(SeekPartitions)

    site.fetched(a_chunk(offset=1, count=1, partition=B, epoch=2))
    site.engine.pause([B], paused=True)

    assert site.engine.delivery.buffered_bytes == size
    (sought,) = site.of(SeekPartitions)
    assert sought.partitions == {B: Assigned(epoch=3, position=Position(offset=0))}
    site.engine.pause([A, B], paused=False)
    site.fetched(a_chunk(count=2, partition=B, epoch=3))
    assert site.poll() == {A: [0], B: [0, 1]}


def test_what_came_for_a_paused_partition_is_beyond_the_bound_when_another_one_is_paused() -> None:
    size = a_chunk(count=1).size
    site = a_site(A, B, C, max_buffered_bytes=size)
    site.engine.pause([A], paused=True)
    site.fetched(a_chunk(count=1), a_chunk(count=1, partition=B, epoch=2))

    site.engine.pause([C], paused=True)

    assert site.engine.delivery.buffered_bytes == size
    (sought,) = site.of(SeekPartitions)
    assert sought.partitions.keys() == {A}


class _NotWalked(dict[Any, Any]):
    def __iter__(self) -> Any:
        raise AssertionError("all partitions are walked")

    items = values = keys = __iter__


def test_a_pause_looks_at_the_partitions_that_are_paused_and_at_no_others() -> None:
    """Who pauses thousands one by one, while the buffer is full, does not walk all each time."""
    site = a_site(A, B, C, max_buffered_bytes=a_chunk(count=1).size)
    site.fetched(a_chunk(count=9, partition=C, epoch=3))
    site.engine.delivery.partitions = _NotWalked(site.engine.delivery.partitions)

    site.engine.pause([A], paused=True)
    site.engine.pause([B], paused=True)
    assert not site.of(SeekPartitions)
    site.engine.pause([C], paused=True)

    assert len(site.of(SeekPartitions)) == 1


def test_a_reset_is_said_at_once_and_leaves_no_position() -> None:
    site = a_site(A, B)

    site.engine.reset([B], ResetStrategy.LATEST)

    (told,) = site.of(ResetPositions)
    assert told.partitions == {B: Reset(epoch=3, strategy=ResetStrategy.LATEST)}
    assert site.position(B, site.clock.now) is None
    assert site.position(A, site.clock.now) == 0
