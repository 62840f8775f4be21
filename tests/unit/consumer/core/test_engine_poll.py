"""What a poll tells, when it need not wait, and what of it is traced."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from kafka.errors import UnsupportedCodecError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.handlers import HandlersNow
from aktor.consumer.core.poll_heartbeat import NEWS_EVERY, POLL_REPEAT
from aktor.errors import ActorCrashedError, BootstrapError, ConsumerClosedError, WakeupError
from aktor.events.answers import Answered
from aktor.events.commits import CommitOffsets
from aktor.events.membership import Loss, RevokePartitions
from aktor.events.network import BootstrapFailed
from aktor.events.polling import Poll
from aktor.events.positions import Position, ResetStrategy
from tests.unit.consumer.core.builders import EngineHarness, a_consumer, a_member, a_restart
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, a_refusal, offsets

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


# -- the Poll that is told


def test_the_first_poll_tells_the_background_even_if_it_may_not_wait() -> None:
    harness = EngineHarness()
    harness.assign([A])
    harness.forget()

    assert harness.poll(0) == {}

    assert harness.said == [Poll(now=100.0, positions={}, freed_bytes=0)]


def test_polls_with_no_news_are_told_only_so_often() -> None:
    harness = a_consumer()

    for _ in range(4):
        harness.clock.now += POLL_REPEAT / 2
        harness.poll()

    assert [one.now for one in harness.of(Poll)] == [100.0 + POLL_REPEAT, 100.0 + 2 * POLL_REPEAT]
    assert harness.wakes == [False, False]


def test_a_position_that_moved_is_told_with_the_next_poll_and_wakes_nobody() -> None:
    harness = a_consumer()
    harness.fetched(chunk := a_chunk(count=3))
    assert harness.poll() == {A: [0, 1, 2]}
    assert harness.of(Poll) == []

    harness.clock.now += NEWS_EVERY
    harness.fetched(a_chunk(offset=3))
    assert harness.poll() == {A: [3, 4, 5]}

    now = 100.0 + NEWS_EVERY
    assert harness.of(Poll) == [
        Poll(now=now, positions={A: OffsetAndMetadata(3, "", 5)}, freed_bytes=chunk.size)
    ]
    assert harness.wakes == [False]


def test_records_that_are_here_are_given_without_waiting() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=3))
    harness.bell.waits.clear()

    assert harness.poll(10, limit=2) == {A: [0, 1]}
    assert harness.poll(10, limit=2) == {A: [2]}

    assert harness.bell.waits == []


def test_the_background_is_woken_when_a_quarter_of_the_buffer_was_freed() -> None:
    size = a_chunk(count=3).size
    harness = a_consumer(max_buffered_bytes=8 * size)

    for turn in range(4):
        harness.fetched(a_chunk(A, 3 * turn, b"0", b"1", b"2"))
        harness.poll()
        harness.clock.now += NEWS_EVERY
    harness.poll()

    assert [one.freed_bytes for one in harness.of(Poll)] == [size, 2 * size, 3 * size, 4 * size]
    assert harness.wakes == [False, True, False, True]


def test_what_was_freed_is_told_before_waiting_so_that_fetching_goes_on() -> None:
    harness = a_consumer()
    harness.fetched(dropped := a_chunk(epoch=9))

    harness.poll(1.0)

    assert harness.of(Poll)[0] == Poll(now=100.0, positions={}, freed_bytes=dropped.size)
    assert harness.wakes[0]


@pytest.mark.parametrize("timeout", [0.0, 5.0])
def test_what_was_said_without_a_wake_is_made_to_be_read_by_a_poll_that_gives_nothing(
    timeout: float,
) -> None:
    harness = a_consumer(A, B)
    harness.fetched(chunk := a_chunk(), a_chunk(B, epoch=2))
    harness.poll(limit=3)
    harness.engine.pause([B], paused=True)
    harness.forget()
    harness.clock.now += NEWS_EVERY

    harness.poll(timeout)

    assert [one.freed_bytes for one in harness.of(Poll)][:2] == [chunk.size] * 2
    assert harness.wakes[:2] == [False, True]
    assert not any(harness.wakes[2:])


def test_what_was_given_out_last_is_told_with_a_wake_by_a_poll_that_has_nothing_else() -> None:
    harness = a_consumer()
    harness.fetched(chunk := a_chunk())
    harness.poll()
    harness.forget()

    harness.poll(5.0)

    assert [one.freed_bytes for one in harness.of(Poll)][:1] == [chunk.size]
    assert harness.wakes[:1] == [True]
    assert not any(harness.wakes[1:])


@pytest.mark.parametrize("interval", [9.0, 0.3])
def test_a_poll_that_waits_is_told_again_before_its_group_would_expel_it(interval: float) -> None:
    harness = a_consumer(group_id="g", max_poll_interval=interval)
    harness.fetched(a_chunk())
    harness.poll()
    harness.forget()

    harness.poll(10.0)

    told = [100.0, *(one.now for one in harness.of(Poll)), 110.0]
    pauses = [after - before for before, after in itertools.pairwise(told)]
    assert max(pauses) == pytest.approx(interval / 3)


def test_what_was_said_without_a_wake_is_made_to_be_read_by_a_poll_that_raises() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(B, epoch=2))
    harness.poll()
    harness.fetched(a_refusal(UnsupportedCodecError()))
    harness.forget()
    harness.clock.now += NEWS_EVERY

    for wakes in ([False, True], []):
        with pytest.raises(UnsupportedCodecError):
            harness.poll(5.0)
        assert harness.wakes == wakes
        harness.forget()


def test_many_polls_that_give_records_tell_their_news_together() -> None:
    harness = a_consumer()
    harness.fetched(*(a_chunk(offset=3 * number) for number in range(20)))

    for _ in range(20):
        assert harness.poll(limit=3)
        harness.clock.now += NEWS_EVERY * 0.3

    told = [one.positions[A].offset for one in harness.of(Poll)]
    assert told == [12, 24, 36, 48]
    harness.poll()
    assert harness.of(Poll)[-1].positions == {A: OffsetAndMetadata(60, "", 5)}


def test_polls_that_give_records_wake_nobody() -> None:
    harness = a_consumer()
    harness.fetched(*(a_chunk(offset=3 * number) for number in range(20)))

    for _ in range(20):
        assert harness.poll(limit=3)
        harness.clock.now += 0.01

    assert len(harness.of(Poll)) == 19
    assert not any(harness.wakes)


def test_polls_with_no_news_wake_nobody() -> None:
    harness = a_consumer()

    for _ in range(5):
        harness.poll(1.0)

    assert len(harness.of(Poll)) == 5
    assert not any(harness.wakes)


# -- a poll that need not wait


def at_once(
    harness: EngineHarness, timeout: float = 0.0, **options: Any
) -> dict[TopicPartition, Any] | None:
    """The offsets that a poll gave out without a generator; None: a generator must go on."""
    found = harness.engine.poll_at_once(timeout, 500, **options)
    return offsets(found) if isinstance(found, dict) else None


def test_records_that_are_here_are_given_out_at_once_whatever_the_timeout() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=2))
    assert at_once(harness, 1.0) == {A: [0, 1]}

    harness.fetched(a_chunk(offset=2, count=2))
    assert at_once(harness) == {A: [2, 3]}
    assert at_once(harness) == {}


def test_records_that_an_iteration_has_put_back_are_given_out_at_once() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=3))
    iteration = harness.engine.iteration
    harness.run(harness.engine.next_record(harness.clock.now, 500))
    iteration.stow()

    assert at_once(harness, 1.0) == {A: [1, 2]}


def test_a_poll_that_will_wait_says_nothing_before_its_generator_does() -> None:
    harness = a_consumer()
    harness.clock.now += POLL_REPEAT

    assert at_once(harness, 1.0) is None
    assert harness.said == []


def test_a_poll_that_does_not_advance_the_position_does_not_do_it_at_once_either() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())

    assert at_once(harness, advance=False) == {A: [0, 1, 2]}
    assert harness.engine.consumed()[A].offset == 0


def test_events_are_run_before_records_are_given_out() -> None:
    harness = a_member()
    harness.fetched(a_chunk())
    harness.hear(
        RevokePartitions(
            rebalance=2, partitions=frozenset([A]), loss=Loss.REVOKED, because="somebody joined"
        )
    )

    assert at_once(harness) is None


def test_an_unsubscribe_that_was_interrupted_is_finished_before_records_are_given_out() -> None:
    harness = a_member()

    def interrupt(message: object) -> None:
        raise KeyboardInterrupt

    harness.on_said = interrupt
    with pytest.raises(KeyboardInterrupt):
        harness.unsubscribe(harness.clock.now)
    harness.on_said = lambda message: None
    harness.fetched(a_chunk())

    assert at_once(harness) is None


def test_a_poll_that_a_nested_close_ends_raises_nothing_and_gives_nothing_out() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())
    harness.engine.call.wakeup()
    harness.engine.call.end_waits()

    assert at_once(harness) is None
    assert harness.poll() == {}
    assert harness.engine.call.woken


@pytest.mark.parametrize(
    ("interrupt", "raised"),
    [
        (lambda harness: harness.engine.call.wakeup(), WakeupError),
        (
            lambda harness: harness.hear(BootstrapFailed(error=BootstrapError(attempts={}))),
            BootstrapError,
        ),
        (
            lambda harness: harness.port.fail(ActorCrashedError(actor="fetch", reason="a bug")),
            ActorCrashedError,
        ),
    ],
    ids=["wakeup", "connection error", "failed background"],
)
def test_a_poll_that_raises_is_a_poll_all_the_same(
    interrupt: Callable[[EngineHarness], None], raised: type[Exception]
) -> None:
    """Else a status would say that the application has not polled yet."""
    harness = a_consumer()
    harness.clock.now += 5
    interrupt(harness)

    with pytest.raises(raised):
        harness.poll()

    assert harness.engine.poll_heartbeat.polled_at == harness.clock.now


@pytest.mark.parametrize(("answered_at", "ends_at"), [(100.5, 100.5), (102.0, 101.0)])
def test_a_commit_is_waited_for_a_moment_by_the_close_of_another_thread(
    answered_at: float, ends_at: float
) -> None:
    harness = a_member()
    call = harness.engine.call
    harness.bell.at(100.1, lambda: call.end_waits(commits_until=101.0))
    harness.bell.at(
        answered_at, lambda: harness.hear(Answered(ticket=harness.of(CommitOffsets)[-1].ticket))
    )

    with nullcontext() if answered_at == ends_at else pytest.raises(ConsumerClosedError):
        harness.commit({A: OffsetAndMetadata(1, "", -1)}, 130.0)

    assert harness.clock.now == ends_at


def test_other_questions_end_at_once_when_another_thread_closes() -> None:
    harness = a_member()
    harness.bell.at(100.1, lambda: harness.engine.call.end_waits(commits_until=101.0))

    with pytest.raises(ConsumerClosedError):
        harness.run(harness.engine.questions.committed([A], 130.0))

    assert harness.clock.now == 100.1


def test_what_an_interrupt_has_left_set_is_reset_when_a_call_begins() -> None:
    engine = EngineHarness().engine
    callbacks, user_code = engine.commits.callbacks, engine.rebalancing.user_code
    engine.recovery.restoring = a_restart("membership")
    user_code.enter("a commit callback")
    callbacks.running = True

    engine.begin_call()

    assert not callbacks.running
    assert user_code.name == ""
    assert engine.recovery.restoring is None


# -- the trace


def test_the_trace_tells_what_the_user_seeks_pauses_and_resumes() -> None:
    harness = a_consumer(A, B)

    harness.engine.seek(A, Position(offset=7))
    harness.engine.reset([B], ResetStrategy.EARLIEST)
    harness.engine.pause([A], paused=True)
    harness.engine.pause([A], paused=False)
    harness.engine.show_handlers(lambda: HandlersNow(paused=frozenset({B})))
    harness.engine.pause([A], paused=True)
    harness.engine.pause([B], paused=True)

    assert [one["because"] for one in harness.told("partitions.paused")] == [
        *(None, None, "process() waits for its handlers")
    ]
    names = "position.sought", "partitions.paused", "partitions.resumed"
    assert [(one["event"], one["partitions"]) for one in harness.told(*names)] == [
        ("position.sought", {"orders-0": 7}),
        ("position.sought", {"orders-1": None}),
        ("partitions.paused", {"orders-0": 7}),
        ("partitions.resumed", {"orders-0": 7}),
        ("partitions.paused", {"orders-0": 7}),
        ("partitions.paused", {"orders-1": None}),
    ]


def test_the_trace_tells_what_a_poll_gives_out_before_it_returns() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=3))

    assert harness.poll(limit=2) == {A: [0, 1]}
    assert harness.poll(limit=2) == {A: [2]}

    delivered = harness.told("records.delivered")
    assert [one["offsets"] for one in delivered] == [[[0, 1]], [[2, 2]]]
