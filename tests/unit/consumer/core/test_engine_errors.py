"""What a poll raises, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import (
    CorruptRecordError,
    GroupAuthorizationFailedError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata

from aktor.errors import (
    ActorCrashedError,
    BootstrapError,
    RecordDeserializationError,
    UserCallbackError,
    WakeupError,
)
from aktor.events.commits import AutoCommitFinished
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.fetching import Chunk
from aktor.events.lifecycle import ConsumerFailed
from aktor.events.membership import CallbackFinished, GroupFailed, Loss, RunRevokedCallback
from aktor.events.metadata import TopicsRefused
from aktor.events.network import BootstrapFailed
from aktor.events.positions import Position, Reset, ResetPositions
from tests.unit.consumer.core.builders import (
    CRASH,
    ORDERS,
    EngineHarness,
    RaisingListener,
    a_consumer,
    a_failure,
    a_member,
)
from tests.unit.consumer.core.builders_chunks import A, B, C, a_chunk, a_chunk_of, a_refusal
from tests.unit.records.building import a_batch, values

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


def test_a_wakeup_comes_before_records_and_takes_none() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())
    harness.engine.call.wakeup()

    with pytest.raises(WakeupError):
        harness.poll()
    assert harness.poll() == {A: [0, 1, 2]}


def test_a_wakeup_ends_a_poll_that_waits() -> None:
    harness = a_consumer()
    harness.bell.at(103.0, harness.engine.call.wakeup)

    with pytest.raises(WakeupError):
        harness.poll(10.0)
    assert harness.clock.now == 103.0


def test_a_wakeup_outside_of_a_call_is_kept_for_the_next_one_and_spent_there() -> None:
    harness = a_consumer()
    harness.engine.call.wakeup()
    harness.engine.call.wakeup()

    with pytest.raises(WakeupError):
        harness.ask("commits", lambda ticket: ticket, deadline=200.0, what="a commit")
    assert harness.poll() == {}


def test_a_wakeup_does_not_end_a_close() -> None:
    harness = a_consumer()
    harness.engine.call.wakeup()
    harness.engine.call.begin_close()

    assert harness.poll() == {}


def test_a_failed_consumer_raises_before_anything_else_and_for_ever() -> None:
    harness = a_consumer()
    failure = ActorCrashedError(actor="fetch", reason="a bug")
    harness.fetched(a_chunk())
    harness.engine.call.wakeup()
    harness.hear(ConsumerFailed(error=failure))

    for _ in range(2):
        with pytest.raises(ActorCrashedError):
            harness.poll()
    with pytest.raises(ActorCrashedError):
        harness.run(harness.engine.commits.commit_async({}, lambda value, error: None))


def test_a_connection_error_is_raised_once_and_before_records() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())
    harness.hear(BootstrapFailed(error=BootstrapError(attempts={})))

    with pytest.raises(BootstrapError):
        harness.poll()
    assert harness.poll() == {A: [0, 1, 2]}


@pytest.mark.parametrize(
    "said",
    [
        TopicsRefused(topics=ORDERS, error=TopicAuthorizationFailedError()),
        GroupFailed(error=GroupAuthorizationFailedError()),
        CoordinatorRefused(error=GroupAuthorizationFailedError()),
    ],
    ids=lambda said: type(said).__name__,
)
def test_what_the_cluster_refuses_is_raised_once_and_before_records(said: Any) -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())
    harness.hear(said)

    with pytest.raises(type(said.error)):
        harness.poll()
    assert harness.poll() == {A: [0, 1, 2]}


@pytest.mark.parametrize(
    "told",
    [
        GroupFailed(error=GroupAuthorizationFailedError("g")),
        BootstrapFailed(error=BootstrapError(attempts={"b1:9092": "refused"})),
        ConsumerFailed(error=ActorCrashedError(actor="fetch", reason="a bug")),
    ],
    ids=lambda said: type(said).__name__,
)
def test_the_traceback_of_an_error_is_not_what_the_background_keeps(told: Any) -> None:
    """It would keep a dropped consumer alive: its thread would never end."""
    told.error.__cause__ = KeyError("why")
    harness = a_consumer()
    harness.hear(told)

    with pytest.raises(type(told.error)) as raised:
        harness.poll()

    assert str(raised.value) == str(told.error)
    assert raised.value.__cause__ is told.error.__cause__
    assert told.error.__traceback__ is None


def test_a_refused_coordinator_is_left_to_the_membership_to_tell() -> None:
    harness = a_member()

    harness.hear(CoordinatorRefused(error=GroupAuthorizationFailedError()))

    assert harness.poll() == {}


def test_of_two_errors_each_poll_raises_one() -> None:
    harness = a_consumer()
    harness.hear(
        TopicsRefused(topics=ORDERS, error=TopicAuthorizationFailedError()),
        GroupFailed(error=GroupAuthorizationFailedError()),
    )

    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()
    with pytest.raises(GroupAuthorizationFailedError):
        harness.poll()


def test_an_error_is_raised_before_the_records_of_others_which_come_next() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_refusal(TopicAuthorizationFailedError()), a_chunk(B, epoch=2))

    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()
    assert harness.poll() == {B: [0, 1, 2]}
    assert harness.poll() == {}


@pytest.mark.parametrize(
    "poison",
    [
        a_refusal(CorruptRecordError()),
        a_chunk(A, 0, b"bad"),
        a_chunk_of(a_batch(values(b"0"), crc=1)),
    ],
    ids=["refused", "not deserialized", "corrupt"],
)
def test_an_error_that_only_a_seek_mends_takes_turns_with_the_records_of_a_busy_partition(
    poison: Chunk,
) -> None:
    harness = a_consumer(A, B)
    harness.fetched(poison, a_chunk(B, count=30, epoch=2))
    told: list[Any] = []
    for _ in range(9):
        try:
            told.append(harness.poll(limit=2)[B])
        except KafkaError:
            told.append("error")
    begun = told.index("error")

    assert begun <= 1  # it may be found while the records of the others are taken
    assert told[begun::2] == ["error"] * len(told[begun::2])
    assert (
        told[1 - begun :: 2] == [[n, n + 1] for n in range(0, 10, 2)][: len(told[1 - begun :: 2])]
    )

    harness.engine.seek(A, Position(offset=1))
    assert B in harness.poll(limit=2)
    assert B in harness.poll(limit=2)


def test_an_error_that_only_a_seek_mends_is_raised_by_each_poll_after_a_pause() -> None:
    """A loop that catches it and polls again does not spin."""
    harness = a_consumer(A, B, retry_backoff=0.1)
    harness.fetched(a_refusal(CorruptRecordError()))
    moments = []
    for timeout in (10.0, 10.0, 10.0, 0.03, 0.0):
        with pytest.raises(CorruptRecordError):
            harness.poll(timeout)
        moments.append(round(harness.clock.now - 100.0, 3))

    assert moments == [0.0, 0.1, 0.2, 0.23, 0.23]


def test_records_that_come_before_an_error_is_raised_again_are_given_out_first() -> None:
    harness = a_consumer(A, B, retry_backoff=0.1)
    harness.fetched(a_refusal(CorruptRecordError()))
    with pytest.raises(CorruptRecordError):
        harness.poll(10.0)

    harness.bell.at(100.05, lambda: harness.fetched(a_chunk(B, epoch=2)))

    assert harness.poll(10.0) == {B: [0, 1, 2]}
    assert harness.clock.now == 100.05
    with pytest.raises(CorruptRecordError):
        harness.poll(10.0)
    assert harness.clock.now == 100.05


def test_an_error_that_was_raised_and_is_paused_wakes_nobody_again_and_again() -> None:
    harness = a_consumer(A, B, retry_backoff=0.1)
    harness.fetched(a_refusal(CorruptRecordError()))
    with pytest.raises(CorruptRecordError):
        harness.poll(10.0)
    harness.engine.pause([A], paused=True)
    harness.bell.waits.clear()

    assert harness.poll(10.0) == {}
    assert len(harness.bell.waits) <= 3

    harness.engine.pause([A], paused=False)
    with pytest.raises(CorruptRecordError):
        harness.poll(10.0)
    assert harness.clock.now == 110.0


def test_records_that_were_taken_before_an_error_was_found_are_returned_first() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, 0, b"fine", b"bad"), a_chunk(B, 0, epoch=2))

    assert harness.poll() == {A: [0], B: [0, 1, 2]}
    harness.fetched(a_chunk(B, 3, epoch=2))
    with pytest.raises(RecordDeserializationError):
        harness.poll()
    assert harness.poll() == {B: [3, 4, 5]}


def test_a_new_error_does_not_wait_for_the_records_that_come_after_an_old_one() -> None:
    harness = a_consumer(A, B, C)
    harness.fetched(a_refusal(CorruptRecordError()), a_chunk(C, epoch=3))
    with pytest.raises(CorruptRecordError):
        harness.poll()

    harness.fetched(a_refusal(TopicAuthorizationFailedError(), partition=B, epoch=2))

    with pytest.raises(TopicAuthorizationFailedError):
        harness.poll()
    assert harness.poll() == {C: [0, 1, 2]}
    with pytest.raises(CorruptRecordError):
        harness.poll()


def test_an_offset_out_of_range_that_is_reset_keeps_nobody_back() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_refusal(OffsetOutOfRangeError({A: 0})), a_chunk(B, epoch=2))

    assert harness.poll() == {B: [0, 1, 2]}
    assert [one.partitions for one in harness.of(ResetPositions)] == [
        {A: Reset(epoch=3, from_offset=0)}
    ]


def test_many_offsets_out_of_range_are_reset_together() -> None:
    harness = a_consumer(A, B)
    harness.fetched(
        a_refusal(OffsetOutOfRangeError({A: 0})),
        a_refusal(OffsetOutOfRangeError({B: 0}), partition=B, epoch=2),
    )

    assert harness.poll() == {}
    assert [one.partitions.keys() for one in harness.of(ResetPositions)] == [{A, B}]


def test_the_error_of_a_partition_without_a_position_takes_turns_with_records_of_others() -> None:
    harness = EngineHarness()
    harness.assign([A, B])
    harness.found(B)
    harness.hear(a_failure(NoOffsetForPartitionError({A}), epoch=1))
    harness.fetched(a_chunk(B, epoch=2))

    with pytest.raises(NoOffsetForPartitionError):
        harness.poll()
    assert harness.poll(limit=2) == {B: [0, 1]}
    with pytest.raises(NoOffsetForPartitionError):
        harness.poll()
    assert harness.poll() == {B: [2]}


def test_raising_an_error_again_and_again_costs_no_memory() -> None:
    harness = a_consumer()
    harness.fetched(a_refusal(CorruptRecordError()))
    depths = set()
    for _ in range(3):
        with pytest.raises(CorruptRecordError) as raised:
            harness.poll()
        depths.add(len(raised.traceback))

    assert len(depths) == 1


def test_what_a_listener_raises_is_raised_by_the_poll_that_ran_it() -> None:
    harness = a_member()
    harness.engine.rebalancing.set_listener(RaisingListener())
    harness.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))

    with pytest.raises(UserCallbackError):
        harness.poll()

    assert isinstance(harness.said[-1], CallbackFinished)
    assert harness.engine.rebalancing.user_code.name == ""
    assert harness.poll() == {}


def test_the_outcome_of_an_automatic_commit_is_told_to_the_users_callback_in_poll() -> None:
    harness = a_consumer()
    positions = {A: OffsetAndMetadata(3, "", 5)}
    harness.hear(AutoCommitFinished(offsets=positions, error=CRASH))
    assert harness.auto_commits == []

    harness.poll()

    assert harness.auto_commits == [(positions, CRASH)]


def test_an_automatic_commit_that_ends_as_the_consumer_is_closed_is_told_to_the_callback_once() -> (
    None
):
    harness = a_consumer()
    positions = {A: OffsetAndMetadata(3, "", 5)}
    harness.hear(AutoCommitFinished(offsets=positions, error=None))

    harness.run(harness.engine.close(harness.clock() + 1))
    harness.run(harness.engine.close(harness.clock() + 1))

    assert harness.auto_commits == [(positions, None)]


def test_a_poll_that_waits_calls_the_callback_of_an_automatic_commit_when_that_is_over() -> None:
    harness, at_106 = a_consumer(), list[Any]()
    harness.hear_at(105.0, AutoCommitFinished(offsets={}, error=None))
    harness.bell.at(106.0, lambda: at_106.extend(harness.auto_commits))

    harness.poll(timeout=60.0)

    assert at_106 == [({}, None)]
